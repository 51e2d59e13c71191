"""Laws of f at rows, each row on its own: what `predict` asks for.

With SoD-VI a prediction first draws and factorises the subset of every Monte Carlo sample, whatever the rows. That part
depends on the model and a seed alone: it is done once for all chunks of rows, and kept for the next prediction. Not so
with ``coupling="marginal"``, whose rows need the covariance of q itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from sodgp.inference.contract import Inference
from sodgp.inference.sod import SubsetOfData
from sodgp.inference.sod_prediction import DrawnLayer, DrawnSubset
from sodgp.kernels.dense import covariance, is_captureable, variance
from sodgp.linalg.draws import Draws, SharedDraws
from sodgp.linalg.products import explained_variances, transpose_times
from sodgp.model.deep_gp import DeepGP

__all__ = ["RowLaw", "row_law"]

# The most that a model keeps for its next prediction, copies of its parameters included.
_KEPT_BYTES = 2**26


@runtime_checkable
class RowLaw(Protocol):
    """Means and variances of f at rows [1, N, D] for each Monte Carlo sample, each [T or 1, N, P]."""

    def mean(self, X: Tensor, draws: Draws) -> Tensor:
        """The means alone: the very numbers of the whole law, with SoD-VI for less."""
        ...

    def __call__(self, X: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """Means and variances."""
        ...


def row_law(model: DeepGP, method: Inference, X_s: Tensor, y_s: Tensor, *, n_samples: int, seed: int) -> RowLaw:
    """The law of f at rows under a trained model.

    Parameters
    ----------
    model, method, X_s, y_s
        As in `sodgp.inference.functions.joint_law`.
    n_samples, seed : int
        Of the `SharedDraws` with which the law will be asked.
    """
    # Of one row alone, "joint" and "ancestral" coupling have the same law.
    if isinstance(method, SubsetOfData) and method.coupling != "marginal":
        return _kept_or_drawn(model, X_s, y_s, n_samples, seed)
    return RowsByMethod(model, method, X_s, y_s)


class RowsGivenSubset:
    """Eq. (prediction) in ancestral coupling: rows meet the L^-1 of every layer, and nothing else.

    Parameters
    ----------
    drawn : DrawnSubset
    """

    def __init__(self, drawn: DrawnSubset) -> None:
        self._hidden, self._last = drawn.hidden, drawn.last
        F = drawn.factor
        self._S = torch.eye(F.shape[-1], dtype=F.dtype, device=F.device) - F @ F.mT
        # For the mean of a row, A' w = K_RS (L^-T w): no product of L^-1 with the rows.
        self._weights = self._last.L_inv.mT @ self._last.w

    @property
    def tensors(self) -> list[Tensor]:
        """All that it holds."""
        return [self._S, self._weights, *(part for _, *parts in (*self._hidden, self._last) for part in parts)]

    def mean(self, X: Tensor, draws: Draws) -> Tensor:
        """As in `RowLaw`; of `draws` only the numbers for other rows are taken."""
        Z, K = self._arrived(X, draws)
        return self._mean(Z, K)

    def __call__(self, X: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """Means and variances, in the same way."""
        Z, K = self._arrived(X, draws)
        explained = explained_variances(self._last.L_inv @ K, self._S)
        return self._mean(Z, K), (_prior_variance(self._last, Z).unsqueeze(-1) - explained).clamp_min(0.0)

    def _arrived(self, X: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """Rows as the last layer gets them, [T or 1, N, D], and their covariances with its subset."""
        Z = X
        for given in self._hidden:
            Z = _draw_rows(given, Z, draws)
        return Z, covariance(self._last.layer.kernel, self._last.Z_s, Z)

    def _mean(self, Z: Tensor, K: Tensor) -> Tensor:
        return self._last.layer.mean(Z) + K.mT @ self._weights


class RowsByMethod:
    """Any method, by its own `predict`; parameters as in `row_law`."""

    def __init__(self, model: DeepGP, method: Inference, X_s: Tensor, y_s: Tensor) -> None:
        self.model, self.method, self.X_s, self.y_s = model, method, X_s, y_s

    def mean(self, X: Tensor, draws: Draws) -> Tensor:
        """As in `RowLaw`."""
        return self(X, draws)[0]

    def __call__(self, X: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """Means and variances."""
        return self.method.predict(self.model, self.X_s, self.y_s, X, draws)


class _Kept(NamedTuple):
    """A law and what it was made of: samples, seed and structure; copies of subset, parameters and buffers.

    Values are compared: GPyTorch's setters pass by PyTorch's counters of versions.
    """

    law: RowsGivenSubset
    description: tuple[Any, ...]
    values: list[Tensor]


# By model; one that is collected takes its law along.
_KEPT: WeakKeyDictionary[DeepGP, _Kept] = WeakKeyDictionary()


def _kept_or_drawn(model: DeepGP, X_s: Tensor, y_s: Tensor, n_samples: int, seed: int) -> RowsGivenSubset:
    """The kept law where a new one would be the same, bit for bit; otherwise a new one."""
    description = (n_samples, seed, model.structure)
    values = [X_s, y_s, *(tensor.detach() for tensor in (*model.parameters(), *model.buffers()))]
    kept = _KEPT.get(model)
    if kept is not None and kept.description == description and _are_equal(kept.values, values):
        return kept.law
    _KEPT.pop(model, None)
    is_kept = _can_be_kept(model)
    copies = [tensor.clone() for tensor in values] if is_kept else []
    draws = SharedDraws(seed, n_samples, dtype=X_s.dtype, device=X_s.device)
    law = RowsGivenSubset(DrawnSubset(model, X_s, y_s, draws))
    if is_kept and sum(tensor.nbytes for tensor in (*law.tensors, *copies)) <= _KEPT_BYTES:
        _KEPT[model] = _Kept(law, description, copies)
    return law


def _can_be_kept(model: DeepGP) -> bool:
    """Whether a change of the model would be seen: not that of any attribute of a user's kernel.

    Nor has a model in training anything to keep: it changes with every step, and PyTorch may round products of what
    requires a gradient otherwise.
    """
    return not model.training and all(is_captureable(layer.kernel) for layer in model.layers)


def _are_equal(old: list[Tensor], new: list[Tensor]) -> bool:
    return len(old) == len(new) and all(
        a.dtype == b.dtype and a.device == b.device and torch.equal(a, b) for a, b in zip(old, new, strict=True)
    )


def _draw_rows(given: DrawnLayer, Z: Tensor, draws: Draws) -> Tensor:
    """Noisy outputs [T, N, D] at rows [T or 1, N, D_in], each drawn on its own."""
    layer, rows = given.layer, given.layer.beside(Z)
    A = given.L_inv @ covariance(layer.kernel, given.Z_s, rows)
    mean = layer.prior_mean(rows) + transpose_times(A, given.w)
    V = (_prior_variance(given, rows) - A.square_().sum(-2)).clamp_min(0.0)
    spread = (V.unsqueeze(-1) + layer.draw_variance).sqrt()
    return layer.together(mean + spread * layer.own(draws).rest(*mean.shape[-2:]))


def _prior_variance(given: DrawnLayer, rows: Tensor) -> Tensor:
    """Of f at rows [..., N, D_in] in the layout of a layer's kernel, [..., N]."""
    return variance(given.layer.kernel, rows) + given.layer.jitter.prior_extra
