"""How many rows the subset needs: greedy growth until little variance is left."""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from sodgp.errors import ConfigurationError
from sodgp.selectors.greedy_variance import GreedyVariance

__all__ = ["Auto", "AutoSize"]

logger = logging.getLogger("sodgp")

_NUMBER_BYTES = 8
# Arrays of T x M x B numbers that a layer stores for its gradient: K_SB, A, and the kernel's distances.
_ARRAYS_A_LAYER = 4


class AutoSize(NamedTuple):
    """A number of rows M, the reason as a sentence for the log, and the trace of K - K_NS K_SS^-1 K_SN that it leaves.

    Examples
    --------
    >>> AutoSize(20, "20 rows leave little variance", 0.1).size
    20
    """

    size: int
    reason: str
    trace: float


@dataclass(frozen=True)
class Auto:
    """The rule behind ``subset_size="auto"``; ``subset_size=Auto(fraction=0.1)`` changes its options.

    Rows are added by greatest conditional variance until the trace of K - K_NS K_SS^-1 K_SN is below ``fraction`` times
    the noise variance times N; a sparse bound is then too low by about half that fraction of a nat for every row. K is
    the kernel before training, a unit-variance RBF with lengthscale sqrt(D) on the standardised inputs, so the rule is
    a guess: the trained kernel may need fewer or more rows. Only the number is used, `subset` chooses the rows.

    Cost and reference are those of `sodgp.selectors.GreedyVariance`.

    Parameters
    ----------
    fraction : float
        Of the noise variance times N.
    min_size, max_size : int
        Limits of M; half of the rows is a limit, too.
    max_bytes : float
        Limit of the memory of a training step, 4 arrays of T x M x B numbers a layer, and of the N x M numbers of the
        greedy growth.

    Examples
    --------
    >>> import torch
    >>> X = torch.linspace(-1, 1, 100, dtype=torch.float64)[:, None]
    >>> Auto(min_size=5).choose(X, 0.05, batch_size=2000, n_samples=10, n_layers=2).size
    5
    """

    fraction: float = 0.01
    min_size: int = 20
    max_size: int = 500
    max_bytes: float = 2e9

    def __post_init__(self) -> None:
        for option in fields(self):
            value = getattr(self, option.name)
            if not value > 0:
                raise ConfigurationError(f"Auto: {option.name} is {value}; it must be positive.")
        if self.min_size > self.max_size:
            raise ConfigurationError(f"Auto: min_size={self.min_size} is above max_size={self.max_size}.")

    def limits(self, n_rows: int, batch_size: int, n_samples: int, n_layers: int) -> dict[str, int]:
        """Largest M by each limit, named as in the log; the `batch_size` rows of a step include the subset."""
        a_row = _NUMBER_BYTES * _ARRAYS_A_LAYER * n_samples * min(batch_size, n_rows) * n_layers
        return {
            "max_size": self.max_size,
            "half of the rows": (n_rows + 1) // 2,
            "half of batch_size": max(batch_size // 2, 1),
            "the memory of a step": max(int(self.max_bytes // a_row), 1),
            "the memory of the greedy growth": max(int(self.max_bytes // (_NUMBER_BYTES * n_rows)), 1),
        }

    def choose(
        self,
        X: Float[Tensor, "N D"],
        noise_variance: float,
        *,
        batch_size: int = 2000,
        n_samples: int = 10,
        n_layers: int = 2,
    ) -> AutoSize:
        """The number of rows for these standardised inputs; also logged, at level INFO of the logger ``"sodgp"``.

        `noise_variance` is a guess, in units of the standardised targets; the fit takes its initial value.

        Examples
        --------
        >>> import torch
        >>> X = torch.linspace(-1.7, 1.7, 200, dtype=torch.float64)[:, None]
        >>> Auto(min_size=2).choose(X, 0.05).size
        7
        """
        n_rows = X.shape[0]
        limits = self.limits(n_rows, batch_size, n_samples, n_layers)
        name, limit = min(limits.items(), key=lambda item: item[1])
        threshold = self.fraction * noise_variance * n_rows
        grown = GreedyVariance().select_until(X, None, threshold, limit)
        found, trace = int(grown.indices.numel()), float(grown.traces[-1])
        size = max(found, min(self.min_size, limit))
        left = f"{trace / n_rows:.2g} of variance a row"
        goal = f"{self.fraction:g} of the noise variance {noise_variance:g}"
        if size > found:
            why = f"the smallest size; {found} rows already leave only {left}"
        elif trace < threshold:
            why = f"it leaves {left}, below {goal}"
        else:
            why = f"the limit by {name}; it leaves {left}, above {goal}"
        reason = f"subset_size='auto' chose {size} of {n_rows} rows: {why}."
        logger.info(reason)
        return AutoSize(size, reason, trace)
