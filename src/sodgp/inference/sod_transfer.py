"""q(F_S) carried over to another subset S' through the conditional p(F_S' | F_S), layer by layer.

At one pass through the layers with all noise at zero, a hidden layer's q(F_S') is the marginal of q(F_S) p(F_S' | F_S):

    F_S' = mean(Z_S') + H w + E e,    w ~ q in whitened coordinates,    e ~ N(0, I)

H holds rows of L for rows that stay, which keep their values, and A' = K_S'S L^-T for new ones; E E' is what the
conditional leaves open at new rows, the jitter of K included. Only the last layer's q_hat holds labels, and those of S'
are not those of S: there the *posterior* q_hat is carried, and the labels of S' are then divided out of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, cast

import torch
from torch import Tensor

from sodgp.inference.contract import Parameters, Subset
from sodgp.kernels.dense import covariance
from sodgp.layers.contract import Points
from sodgp.layers.families import Gaussian
from sodgp.layers.subset import SubsetLayer
from sodgp.linalg.cholesky import cholesky
from sodgp.model.deep_gp import DeepGP

PRECISION_FLOOR = 1.0
"""Smallest precision of the last layer's q in any whitened direction: the prior's, below which no optimal q is."""


class Normal(NamedTuple):
    """N(mean_d, factor_d factor_d') for every output d: mean [D, M, 1] and factor [D, M, K], of any K >= M."""

    mean: Tensor
    factor: Tensor


@torch.no_grad()
def carried(
    model: DeepGP, old: Subset, new: Subset, kept: Tensor, v_old: Tensor, v_new: Tensor
) -> dict[str, Parameters]:
    """Parameters of q for the subset `new` that say what the model says now, in each of several variants.

    Where every row stays and none is added, q itself is carried, which is exact (``"reordered"``). Otherwise variants
    differ in the last layer, where no q may exist whose q_hat is the carried posterior: a posterior that is wider at a
    new row than that row's own label allows cannot hold the label. ``"divided"`` keeps the posterior's mean, and the
    precision of q is lifted to the prior's where the division leaves less; ``"pulled"`` does the same, but lets such
    directions follow the new labels: the mean of q is the posterior's there.

    Parameters
    ----------
    model : DeepGP
        One model, without replicates.
    old, new : Subset
        Of any sizes.
    kept : Tensor of shape [M'], int64
        For every row of `new` its position in `old`, or -1.
    v_old, v_new : Tensor of shape [M or 1, P] and [M' or 1, P]
        Noise variances of the labels.
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
    posterior = last.over_new(last.with_labels(old.y, v_old))
    return {name: [*hidden, last.parameters(q_new)] for name, q_new in last.without_labels(posterior, new.y, v_new)}


class _Move:
    """One layer at the inputs Z_s [M, D] of the old subset and Z_n [M', D] of the new one.

    Distributions are those of w = L^-1 (F_S - mean(Z_S)) for the old subset, and of F_S' - mean(Z_S') for the new one.
    Matrices of the kernel are [M, M], or [D, M, M] where every output has a kernel of its own.
    """

    def __init__(self, layer: SubsetLayer, Z_s: Tensor, Z_n: Tensor, kept: Tensor) -> None:
        self.layer = layer
        # One pass, without noise: the sample axis has size one.
        self.points = Points(*(layer.to_kernel_layout(Z.unsqueeze(0)) for Z in (Z_s, Z_n)))
        self.cond = layer.condition(self.points)
        self.mean_s, self.mean_n = _outputs(layer.mean(Z_s)), _outputs(layer.mean(Z_n))
        self.L, A = self.cond.L.squeeze(-3), self.cond.A.squeeze(-3)
        K_n = covariance(layer.kernel, self.points.rest).squeeze(-3)
        self.L_n = cholesky(K_n, layer.jitter, layer=layer.index)
        self.H = torch.where((kept >= 0)[:, None], self.L[..., kept.clamp_min(0), :], A.mT)
        fresh = (kept < 0).nonzero().ravel()
        # K_S'S' with its jitter: given F_S, a row that is new has a nugget of its own.
        L_fresh, A_fresh = self.L_n[..., fresh, :], A[..., fresh]
        values, vectors = torch.linalg.eigh(L_fresh @ L_fresh.mT - A_fresh.mT @ A_fresh)
        self.E = torch.zeros_like(self.L_n)
        self.E[..., fresh[:, None], fresh] = vectors * values.clamp_min(0.0).sqrt().unsqueeze(-2)

    def in_w(self) -> Normal:
        """The layer's q over w."""
        m, C = self.layer.variational_parameters()
        w = self.layer.family.in_w(m, C, self.cond, self.layer.prior_mean(self.points.subset))
        return self._by_output(w)

    def with_labels(self, y: Tensor, v: Tensor) -> Normal:
        """q_hat over w, for labels y [M, P] with noise variances v [M or 1, P]."""
        _, q_hat, _ = self.layer.conditioned_on_labels(self.points, y.unsqueeze(0), v.unsqueeze(0))
        return self._by_output(q_hat.w)

    def _by_output(self, w: Gaussian) -> Normal:
        size = w.factor.shape[-1]
        columns = self.layer.from_kernel_layout(w.mean).squeeze(0)
        return Normal(_outputs(columns), w.factor.reshape(-1, size, size))

    def over_new(self, w: Normal) -> Normal:
        """The distribution of F_S' - mean(Z_S')."""
        spread = self.H @ w.factor
        return Normal(self.H @ w.mean, torch.cat([spread, self.E.expand(len(spread), -1, -1)], -1))

    def without_labels(self, q_new: Normal, y: Tensor, v: Tensor) -> Iterator[tuple[str, Normal]]:
        """Variants of q whose q_hat with the labels y [M, P] is `q_new`, or near it.

        In whitened coordinates the precision of q is that of `q_new` less L'V^-1 L. Where its eigenvalues are too small
        they are lifted to the floor.
        """
        v = _outputs(v)
        mu, T_inv = _solve(self.L_n, q_new.mean), _inverse(_triangular(_solve(self.L_n, q_new.factor)))
        values, U = torch.linalg.eigh(T_inv.mT @ T_inv - (self.L_n / v).mT @ self.L_n)
        lifted = values.clamp_min(PRECISION_FLOOR)
        root = U / lifted.sqrt().unsqueeze(-2)
        # q_hat keeps the mean mu if the mean of q steps back from the labels by as much as they pull.
        step = root.mT @ (self.L_n.mT @ ((self.L_n @ mu + self.mean_n - _outputs(y)) / v))
        pulled = torch.where((values < PRECISION_FLOOR).unsqueeze(-1), 0.0, step)
        for name, shift in (("divided", step), ("pulled", pulled)):
            yield name, Normal(self.L_n @ (mu + root @ shift), self.L_n @ root)

    def parameters(self, q_new: Normal) -> tuple[Tensor, Tensor]:
        """``q_mean`` and ``q_factor`` of the layer's family for the distribution of F_S' - mean(Z_S')."""
        if self.layer.parameterization == "whitened":
            return _columns(_solve(self.L_n, q_new.mean)), _triangular(_solve(self.L_n, q_new.factor))
        return _columns(self.mean_n + q_new.mean), _triangular(q_new.factor)


def _solve(L: Tensor, right: Tensor) -> Tensor:
    return torch.linalg.solve_triangular(L, right, upper=False)


def _inverse(L: Tensor) -> Tensor:
    return _solve(L, torch.eye(L.shape[-1], dtype=L.dtype, device=L.device).expand_as(L))


def _triangular(factor: Tensor) -> Tensor:
    """The lower-triangular C [D, M, M], its diagonal positive, with C C' = factor factor', which is never formed."""
    C = torch.linalg.qr(factor.mT, mode="r").R.mT
    return C * torch.where(C.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0).unsqueeze(-2)


def _outputs(columns: Tensor) -> Tensor:
    """[M, P] as [P, M, 1]."""
    return columns.mT.unsqueeze(-1)


def _columns(outputs: Tensor) -> Tensor:
    """[P, M, 1] as [M, P]."""
    return outputs.squeeze(-1).mT
