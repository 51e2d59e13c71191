"""Joint laws of f over a few rows: with any random numbers, and as smooth functions of those rows.

A deep GP given the draws of its hidden layers is a mixture of T Gaussians over any rows. Where the random numbers of a
mixture are fixed once, mean and covariance of every component can be differentiated with respect to the rows, which is
what an optimiser of inputs needs.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from sodgp.inference.contract import Inference
from sodgp.inference.sod import SubsetOfData
from sodgp.inference.sod_prediction import DrawnLayer, DrawnSubset
from sodgp.kernels.dense import covariance
from sodgp.linalg.cholesky import draw_root
from sodgp.linalg.draws import Draws, PositionDraws
from sodgp.linalg.products import transpose_times
from sodgp.model.deep_gp import DeepGP


@runtime_checkable
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
    if draws_subset_first(method):
        return GivenSubset(model, X_s, y_s, n_samples=n_samples, seed=seed)
    return ByMethod(model, method, X_s, y_s, n_samples=n_samples, seed=seed)


def joint_moments(
    model: DeepGP, method: Inference, X_s: Tensor, y_s: Tensor, X: Tensor, draws: Draws
) -> tuple[Tensor, Tensor]:
    """Mean [*batch, T or 1, q, P] and covariance [*batch, T or 1, P, q, q] of f at rows [*batch, q, D].

    As one call of `joint_law`, with the random numbers of `draws`.
    """
    if draws_subset_first(method):
        return _given_subset(DrawnSubset(model, X_s, y_s, draws), X, draws)
    return method.predict_joint(model, X_s, y_s, X.unsqueeze(-3), draws)


def draws_subset_first(method: Inference) -> bool:
    """Whether rows, however many, follow from a subset that was drawn without them."""
    return isinstance(method, SubsetOfData) and method.coupling != "marginal"


def _given_subset(drawn: DrawnSubset, X: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
    Z = X.unsqueeze(-3)
    for given in drawn.hidden:
        Z = _draw(given, Z, draws)
    mean, residual, A_rows = _conditional(drawn.last, Z)
    spread = _apart(A_rows.unsqueeze(-3) @ drawn.factor, Z.unsqueeze(-3))
    return mean, residual.unsqueeze(-3) + spread @ spread.mT


def _conditional(given: DrawnLayer, Z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean [*, T, q, D] and residual covariance [*, T, q, q] at rows [*, T or 1, q, D_in].

    In the layout of the layer's kernel: where every output has its own, D stands in front of T, and 1 in its place.
    Also A' [T, B q, M], with the rows of all B batches below each other.
    """
    layer, Z_s, L_inv, w = given
    # All batches meet one L^-1 in one product: PyTorch would copy it for each of them.
    A = L_inv @ covariance(layer.kernel, Z_s, _below(Z, L_inv.dim()))
    explained, roots = _apart(transpose_times(A, w), Z), _apart(A.mT, Z)
    eye = torch.eye(Z.shape[-2], dtype=Z.dtype, device=Z.device)
    residual = covariance(layer.kernel, Z) + layer.jitter.prior_extra * eye - roots @ roots.mT
    return layer.prior_mean(Z) + explained, residual, A.mT


def _draw(given: DrawnLayer, Z: Tensor, draws: Draws) -> Tensor:
    """Noisy outputs [*, T, q, D] at rows [*, T or 1, q, D_in], drawn together."""
    layer = given.layer
    mean, residual, _ = _conditional(given, layer.beside(Z))
    eye = torch.eye(residual.shape[-1], dtype=Z.dtype, device=Z.device)
    root = draw_root(residual + layer.draw_variance * eye, layer=layer.index, what="Cov(Z | F_S)")
    return layer.together(mean + root @ layer.own(draws).rest(*mean.shape[-2:]))


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

    def __init__(self, model: DeepGP, X_s: Tensor, y_s: Tensor, *, n_samples: int, seed: int) -> None:
        self.n_samples, self.seed = n_samples, seed
        draws = PositionDraws(seed, n_samples, dtype=X_s.dtype, device=X_s.device)
        self._drawn = DrawnSubset(model, X_s, y_s, draws)

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean [*batch, T, q, P] and covariance [*batch, T, P, q, q] at rows [*batch, q, D]."""
        draws = PositionDraws(self.seed, self.n_samples, dtype=X.dtype, device=X.device)
        mean, full = _given_subset(self._drawn, X, draws)
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
