"""Joint laws of f over a few rows, as smooth functions of those rows: what an optimiser of inputs needs.

A deep GP given the draws of its hidden layers is a mixture of T Gaussians over any rows. Here the random numbers of a
mixture are fixed once, so that mean and covariance of every component can be differentiated with respect to the rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from sodgp.covariance import covariance
from sodgp.draws import Draws, PositionDraws
from sodgp.inference.base import Inference
from sodgp.inference.sod import SubsetOfData, label_noise
from sodgp.layers.products import transpose_times
from sodgp.layers.subset import Points
from sodgp.linalg import draw_root
from sodgp.model import DeepGP


class JointLaw(Protocol):
    """Mean and covariance of f over the rows of every batch, for each Monte Carlo sample."""

    n_samples: int

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean [*batch, T, q, P] and covariance [*batch, T, P, q, q] at rows [*batch, q, D], in scaled units."""
        ...


def noise_of(model: DeepGP, X_s: Tensor, X: Tensor, *, n_samples: int, seed: int) -> Tensor:
    """Noise variances that broadcast to [*batch, T, q, P] at rows [*batch, q, D], with fixed numbers where they vary.

    Parameters
    ----------
    model, X_s, n_samples, seed
        As in `joint_law`.
    X : Tensor of shape [*batch, q, D]
    """
    draws = PositionDraws(seed + 1, n_samples, dtype=X.dtype, device=X.device)
    return model.noise_at(X_s, X.unsqueeze(-3), draws)


def joint_law(model: DeepGP, method: Inference, X_s: Tensor, y_s: Tensor, *, n_samples: int, seed: int) -> JointLaw:
    """The joint law of f under a trained model.

    Parameters
    ----------
    model : DeepGP
        One model, without replicates.
    method : Inference
        That trained it.
    X_s, y_s : Tensor of shape [1, M, D] and [1, M, P]
        The subset; empty where the method has none.
    n_samples : int
        Components T of the mixture.
    seed : int
        Of every random number.
    """
    if isinstance(method, SubsetOfData):
        return GivenSubset(model, X_s, y_s, n_samples=n_samples, seed=seed)
    return ByMethod(model, method, X_s, y_s, n_samples=n_samples, seed=seed)


class _Layer(NamedTuple):
    """A layer given its subset: inputs Z_s, L^-1, w = L^-1 (F_S - mean(Z_s)) and the draw's noise, in its layout."""

    layer: Any
    Z_s: Tensor
    L_inv: Tensor
    w: Tensor
    noise: Tensor | None

    def conditional(self, Z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean [*, T, q, D] and residual covariance [*, T, q, q] at rows [*, T or 1, q, D_in].

        In the layout of the layer's kernel: where every output has its own, D stands in front of T, and 1 in its place.
        Also A' [T, B q, M], with the rows of all B batches below each other.
        """
        # All batches meet one L^-1 in one product: PyTorch would copy it for each of them.
        rows = _below(Z, self.L_inv.dim())
        A = self.L_inv @ covariance(self.layer.kernel, self.Z_s, rows)
        explained, roots = _apart(transpose_times(A, self.w), Z), _apart(A.mT, Z)
        eye = torch.eye(Z.shape[-2], dtype=Z.dtype, device=Z.device)
        residual = covariance(self.layer.kernel, Z) + self.layer.jitter.prior_extra * eye - roots @ roots.mT
        return self.layer.prior_mean(Z) + explained, residual, A.mT

    def draw(self, Z: Tensor, draws: Draws) -> Tensor:
        """Noisy outputs [*, T, q, D] at rows [*, T or 1, q, D_in], drawn together."""
        assert self.noise is not None
        mean, residual, _ = self.conditional(self.layer.beside(Z))
        eye = torch.eye(residual.shape[-1], dtype=Z.dtype, device=Z.device)
        root = draw_root(residual + self.noise * eye, layer=self.layer.index, what="Cov(Z | F_S)")
        return self.layer.together(mean + root @ self.layer.own(draws).rest(*mean.shape[-2:]))


def _below(Z: Tensor, layout: int) -> Tensor:
    """Rows of all batches below each other: [*batch, *axes, q, D] -> [*axes, B q, D], the last `layout` axes in all."""
    return Z.reshape(-1, *Z.shape[-layout:]).movedim(0, -3).flatten(-3, -2)


def _apart(rows: Tensor, Z: Tensor) -> Tensor:
    """Undo `_below`, with the batch and the number q of rows of Z: [*axes, B q, D] -> [*batch, *axes, q, D]."""
    batch = Z.shape[: Z.dim() - rows.dim()]
    return rows.unflatten(-2, (-1, Z.shape[-2])).movedim(-3, 0).reshape(*batch, *rows.shape[:-2], -1, rows.shape[-1])


class GivenSubset:
    """SoD-VI: everything about the subset is drawn and factorised once, and rows then only meet L^-1.

    Per sample and layer F_S ~ q and Z_S = F_S + noise, as in ancestral coupling; the rows of a batch are drawn together
    from p(F_R | F_S), whose covariance K_RR - K_RS K_SS^-1 K_SR all outputs with one kernel share. The law of
    (Z_S, Z_R) is that of the ``"joint"`` coupling, at q x q instead of (M + q) x (M + q) a draw.

    Parameters
    ----------
    model, X_s, y_s, n_samples, seed
        As in `joint_law`.
    """

    @torch.no_grad()
    def __init__(self, model: DeepGP, X_s: Tensor, y_s: Tensor, *, n_samples: int, seed: int) -> None:
        self.n_samples, self.seed = n_samples, seed
        draws = PositionDraws(seed, n_samples, dtype=X_s.dtype, device=X_s.device)
        self._hidden: list[_Layer] = []
        Z_s = X_s
        for layer in list(model.layers)[:-1]:
            beside, numbers, noise = layer.beside(Z_s), layer.own(draws), layer.draw_variance
            cond = layer.condition(Points(beside, beside[..., :0, :]))
            m, C = layer.variational_parameters()
            f_s, w = layer.family.draw(m, C, cond, layer.prior_mean(beside), numbers.subset(*m.shape[-2:]))
            self._hidden.append(_Layer(layer, beside, cond.factor.inverse_value, w, noise))
            Z_s = layer.together(f_s + noise.sqrt() * numbers.subset(*m.shape[-2:]))
        last = model.last
        cond, q_hat, _ = last.conditioned_on_labels(Points(Z_s, Z_s[..., :0, :]), y_s, label_noise(model, X_s))
        self._factor = q_hat.w.factor
        self._last = _Layer(last, Z_s, cond.factor.inverse_value, q_hat.w.mean, None)

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean [*batch, T, q, P] and covariance [*batch, T, P, q, q] at rows [*batch, q, D]."""
        draws = PositionDraws(self.seed, self.n_samples, dtype=X.dtype, device=X.device)
        Z = X.unsqueeze(-3)
        for layer in self._hidden:
            Z = layer.draw(Z, draws)
        mean, residual, A_rows = self._last.conditional(Z)
        spread = _apart(A_rows.unsqueeze(-3) @ self._factor, Z.unsqueeze(-3))
        full = residual.unsqueeze(-3) + spread @ spread.mT
        shape = (*X.shape[:-2], self.n_samples)
        return mean.expand(*shape, *mean.shape[-2:]), full.expand(*shape, *full.shape[-3:])


class ByMethod:
    """Any method, by its own `predict_joint`; parameters as in `joint_law`."""

    def __init__(
        self, model: DeepGP, method: Inference, X_s: Tensor, y_s: Tensor, *, n_samples: int, seed: int
    ) -> None:
        self.model, self.method, self.X_s, self.y_s = model, method, X_s, y_s
        self.n_samples, self.seed = n_samples, seed

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean [*batch, T, q, P] and covariance [*batch, T, P, q, q] at rows [*batch, q, D]."""
        draws = PositionDraws(self.seed, self.n_samples, dtype=X.dtype, device=X.device)
        mean, full = self.method.predict_joint(self.model, self.X_s, self.y_s, X.unsqueeze(-3), draws)
        shape = (*X.shape[:-2], self.n_samples)
        return mean.expand(*shape, *mean.shape[-2:]), full.expand(*shape, *full.shape[-3:])
