"""Transfer of q(F_S) to another subset S' through the conditional p(F_S' | F_S), layer by layer.

In one pass through the layers without noise, q(F_S') of a hidden layer is the marginal of q(F_S) p(F_S' | F_S):

    F_S' = mean(Z_S') + H w + E e,    w ~ q in whitened coordinates,    e ~ N(0, I)

H has the rows of L for rows that stay, which keep their values, and those of A' = K_S'S L^-T for new rows. E E' is the
conditional covariance of the new rows, with the jitter of K. In the last layer q_hat contains the labels of S, and S'
has others: there the *posterior* q_hat is transferred, and the labels of S' are then divided out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sodgp.inference.contract import Parameters, Subset
from sodgp.kernels.dense import covariance
from sodgp.layers.contract import Points
from sodgp.layers.families import Gaussian
from sodgp.layers.subset import SubsetLayer
from sodgp.likelihoods.contract import NaturalSites
from sodgp.linalg.cholesky import cholesky
from sodgp.model.deep_gp import DeepGP

PRECISION_FLOOR = 1.0
"""Smallest precision of the last layer's q in any whitened direction: the prior's, which no optimal q is below."""


class Normal(NamedTuple):
    """N(mean_d, factor_d factor_d') for every output d, with factors of any K >= M columns."""

    mean: Float[Tensor, "D M 1"]
    factor: Float[Tensor, "D M K"]


@torch.no_grad()
def carried(
    model: DeepGP,
    old: Subset,
    new: Subset,
    kept: Int[Tensor, " M_new"],
    sites_old: NaturalSites,
    sites_new: NaturalSites,
) -> dict[str, Parameters]:
    """Candidates for the parameters of q on the subset `new` with the same predictions as the model, by name.

    If `new` has the same rows, q itself is transferred, which is exact (``"reordered"``). Otherwise the candidates
    differ in the last layer, where there may be no q whose q_hat is the transferred posterior: at a new row the
    posterior can be wider than the label of that row allows. ``"divided"`` keeps the posterior's mean, and raises the
    precision of q to the prior's where the division leaves less. ``"pulled"`` does the same, but in such directions the
    mean of q is that of the posterior, and q_hat follows the new labels.

    Parameters
    ----------
    model : DeepGP
        Without replicates.
    old, new : Subset
        Of any sizes.
    kept : Tensor of shape [M'], int64
        For every row of `new` its position in `old`, or -1.
    sites_old, sites_new : NaturalSites
        Of the labels, [M, P] and [M', P].
    """
    Z_s, Z_n = old.X, new.X
    hidden: Parameters = []
    layers = cast("list[SubsetLayer]", list(model.layers))
    for layer in layers[:-1]:
        move = _Move(layer, Z_s, Z_n, kept)
        w = move.in_w()
        q_new = move.over_new(w)
        hidden.append(move.parameters(q_new))
        Z_s, Z_n = _columns(move.mean_s + move.L @ w.mean), _columns(move.mean_n + q_new.mean)
    last = _Move(layers[-1], Z_s, Z_n, kept)
    if len(kept) == len(old.X) and bool((kept >= 0).all()):
        return {"reordered": [*hidden, last.parameters(last.over_new(last.in_w()))]}
    posterior = last.over_new(last.with_labels(sites_old))
    return {name: [*hidden, last.parameters(q_new)] for name, q_new in last.without_labels(posterior, sites_new)}


class _Move:
    """One layer at the inputs of the old subset and of the new one.

    Distributions are those of w = L^-1 (F_S - mean(Z_S)) for the old subset, and of F_S' - mean(Z_S') for the new one.
    Kernel matrices are [M, M], or [D, M, M] where every output has its own kernel.
    """

    def __init__(
        self,
        layer: SubsetLayer,
        Z_s: Float[Tensor, "M_old D_in"],
        Z_n: Float[Tensor, "M_new D_in"],
        kept: Int[Tensor, " M_new"],
    ) -> None:
        self.layer = layer
        # One pass without noise, so that the sample axis has size 1.
        self.points = Points(*(layer.to_kernel_layout(Z.unsqueeze(0)) for Z in (Z_s, Z_n)))
        self.cond = layer.condition(self.points)
        self.mean_s, self.mean_n = _outputs(layer.mean(Z_s)), _outputs(layer.mean(Z_n))
        self.L, A = self.cond.L.squeeze(-3), self.cond.A.squeeze(-3)
        K_n = covariance(layer.kernel, self.points.rest).squeeze(-3)
        self.L_n = cholesky(K_n, layer.jitter, layer=layer.index)
        self.H = torch.where((kept >= 0)[:, None], self.L[..., kept.clamp_min(0), :], A.mT)
        fresh = (kept < 0).nonzero().ravel()
        # K_S'S' with its jitter, which every new row has also given F_S.
        L_fresh, A_fresh = self.L_n[..., fresh, :], A[..., fresh]
        values, vectors = torch.linalg.eigh(L_fresh @ L_fresh.mT - A_fresh.mT @ A_fresh)
        self.E = torch.zeros_like(self.L_n)
        self.E[..., fresh[:, None], fresh] = vectors * values.clamp_min(0.0).sqrt().unsqueeze(-2)

    def in_w(self) -> Normal:
        """The layer's q over w."""
        m, C = self.layer.variational_parameters()
        w = self.layer.family.in_w(m, C, self.cond, self.layer.prior_means(self.points.subset)[0])
        return self._by_output(w)

    def with_labels(self, sites: NaturalSites) -> Normal:
        """The layer's q_hat over w, for labels with these sites."""
        m, C = self.layer.variational_parameters()
        mean_s = self.layer.mean(self.points.subset)
        lambda_1, lambda_2 = (part.unsqueeze(0) for part in sites)
        q_hat = self.layer.family.site_informed(m, C, self.cond, mean_s, lambda_1, lambda_2)
        return self._by_output(q_hat.w)

    def _by_output(self, w: Gaussian) -> Normal:
        size = w.factor.shape[-1]
        columns = self.layer.from_kernel_layout(w.mean).squeeze(0)
        return Normal(_outputs(columns), w.factor.reshape(-1, size, size))

    def over_new(self, w: Normal) -> Normal:
        """The distribution of F_S' - mean(Z_S') given that of w."""
        spread = self.H @ w.factor
        return Normal(self.H @ w.mean, torch.cat([spread, self.E.expand(len(spread), -1, -1)], -1))

    def without_labels(self, q_new: Normal, sites: NaturalSites) -> Iterator[tuple[str, Normal]]:
        """Candidates for q whose q_hat with these sites is `q_new`, or close to it.

        In whitened coordinates the precision of q is that of `q_new` minus L' Lambda L. Eigenvalues below the floor are
        raised to it.
        """
        lambda_1, lambda_2 = (_outputs(part) for part in sites)
        mu, T_inv = _solve(self.L_n, q_new.mean), _inverse(_triangular(_solve(self.L_n, q_new.factor)))
        values, U = torch.linalg.eigh(T_inv.mT @ T_inv - (lambda_2 * self.L_n).mT @ self.L_n)
        lifted = values.clamp_min(PRECISION_FLOOR)
        root = U / lifted.sqrt().unsqueeze(-2)
        # The mean of q_hat is mu if the mean of q is moved away from the labels by as much as they move q_hat.
        step = root.mT @ (self.L_n.mT @ (lambda_2 * (self.L_n @ mu + self.mean_n) - lambda_1))
        pulled = torch.where((values < PRECISION_FLOOR).unsqueeze(-1), 0.0, step)
        for name, shift in (("divided", step), ("pulled", pulled)):
            yield name, Normal(self.L_n @ (mu + root @ shift), self.L_n @ root)

    def parameters(self, q_new: Normal) -> tuple[Float[Tensor, "M D"], Float[Tensor, "D M M"]]:
        """``q_mean`` and ``q_factor`` in the layer's family for a distribution of F_S' - mean(Z_S')."""
        if self.layer.parameterization == "whitened":
            return _columns(_solve(self.L_n, q_new.mean)), _triangular(_solve(self.L_n, q_new.factor))
        return _columns(self.mean_n + q_new.mean), _triangular(q_new.factor)


def _solve(L: Float[Tensor, "*#D M M"], right: Float[Tensor, "*#D M K"]) -> Float[Tensor, "*D M K"]:
    return torch.linalg.solve_triangular(L, right, upper=False)


def _inverse(L: Float[Tensor, "*D M M"]) -> Float[Tensor, "*D M M"]:
    return _solve(L, torch.eye(L.shape[-1], dtype=L.dtype, device=L.device).expand_as(L))


def _triangular(factor: Float[Tensor, "D M K"]) -> Float[Tensor, "D M M"]:
    """The lower-triangular C with positive diagonal and C C' = factor factor', without forming that product."""
    C = torch.linalg.qr(factor.mT, mode="r").R.mT
    return C * torch.where(C.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0).unsqueeze(-2)


def _outputs(columns: Float[Tensor, "M P"]) -> Float[Tensor, "P M 1"]:
    return columns.mT.unsqueeze(-1)


def _columns(outputs: Float[Tensor, "P M 1"]) -> Float[Tensor, "M P"]:
    return outputs.squeeze(-1).mT
