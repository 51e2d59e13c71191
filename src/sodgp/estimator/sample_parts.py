"""Predictions with so many samples that they are computed in parts: memory does not grow with the matrices of each."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from sodgp.estimator.fitted import Fitted
from sodgp.estimator.memory_budget import chunk_rows, prediction_bytes
from sodgp.inference.contract import Predictor
from sodgp.linalg.draws import PartOfDraws, SharedDraws
from sodgp.system import memory

__all__ = ["PredictorInParts", "rows_of_a_block", "samples_at_once"]

# What all samples of a prediction may take whatever its rows, before they are taken in parts; on a GPU more.
_SAMPLES_BYTES, _SAMPLES_BYTES_CUDA = 2**29, 2**33
# Means and variances of all samples at the rows of one block, where samples are taken in parts.
_BLOCK_BYTES = 2**28


def samples_at_once(fitted: Fitted, n_samples: int) -> int:
    """Samples whose matrices are in memory at the same time; all of them unless they are very many or very large."""
    model = fitted.model
    most = _SAMPLES_BYTES if model.device.type == "cpu" else _SAMPLES_BYTES_CUDA
    at_once = n_samples
    # Where all samples have one distribution there is nothing to divide.
    while fitted.method.samples_differ(model) and at_once > 1:
        if prediction_bytes(fitted, at_once)[0] <= most:
            break
        at_once = (at_once + 1) // 2
    return at_once


def rows_of_a_block(fitted: Fitted, n_samples: int) -> int:
    """Rows that are predicted together where samples are taken in parts: each part is prepared once for all of them.

    Raises
    ------
    ResourceError
        There is not enough memory for the numbers of one row in all samples.
    """
    model = fitted.model
    of_a_row = 64.0 * n_samples * model.n_outputs * model.likelihood.n_levels
    drawn = 16.0 * n_samples * max(model.widths) * fitted.subset_size
    advice = f"Lower n_predict_samples ({n_samples}): model.set_params(n_predict_samples=...) needs no new fit."
    memory.require_memory(of_a_row + drawn, "a prediction", advice)
    return max(1, int(_BLOCK_BYTES // of_a_row))


class PredictorInParts:
    """Means and variances of f in all samples, from one part of them after another; numbers are those of the whole.

    Parameters
    ----------
    fitted : Fitted
    at_once : int
        Samples of a part.
    draws : SharedDraws
        Of all samples.
    """

    def __init__(self, fitted: Fitted, at_once: int, draws: SharedDraws) -> None:
        self._fitted, self._at_once = fitted, at_once
        self._seed, self._dtype, self._device = draws.seed, draws.dtype, draws.device

    def mean(self, X: Tensor, draws: SharedDraws) -> Tensor:
        """Means [T, N, P] at rows X [1, N, D]."""
        return self._all(lambda predictor, some, part: (predictor.mean(some, part),), X, draws)[0]

    def rows(self, X: Tensor, draws: SharedDraws) -> tuple[Tensor, Tensor]:
        """Means and variances [T, N, P] at rows X [1, N, D]."""
        mean, variance = self._all(lambda predictor, some, part: predictor.rows(some, part), X, draws)
        return mean, variance

    def _all(
        self, work: Callable[[Predictor, Tensor, PartOfDraws], tuple[Tensor, ...]], X: Tensor, draws: SharedDraws
    ) -> tuple[Tensor, ...]:
        fitted, count = self._fitted, draws.n_samples
        found: list[list[Tensor]] = []
        part = None
        for first in range(0, count, self._at_once):
            last = min(first + self._at_once, count)
            predictor = fitted.predictor(self._part(count, first, last))
            chunks = []
            for some in X.split(chunk_rows(fitted, last - first, X.device), -2):
                part = self._part(count, first, last)
                chunks.append(work(predictor, some, part))
            found.append([torch.cat(values, -2) for values in zip(*chunks, strict=True)])
        if part is not None:
            # The likelihood asks next: its numbers are those that follow.
            part.repeat_on(draws)
        return tuple(torch.cat(values, -3) for values in zip(*found, strict=True))

    def _part(self, count: int, first: int, last: int) -> PartOfDraws:
        return PartOfDraws(SharedDraws(self._seed, count, dtype=self._dtype, device=self._device), first, last)
