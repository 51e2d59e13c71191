"""What an effort spends, and how many models share it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sodgp.errors import ConfigurationError
from sodgp.system.validation import check_choice, check_integer

__all__ = ["EFFORTS", "Effort", "members_of"]


@dataclass(frozen=True)
class Effort:
    """Rows of the subset, steps of training, rows beside the subset in each of them, and models that predict together.

    Examples
    --------
    >>> EFFORTS["standard"]
    Effort(subset_size=100, max_iter=1400, batch_rows=200, members=1)
    """

    subset_size: int
    max_iter: int
    batch_rows: int
    members: int = 1


EFFORTS = {
    "quick": Effort(50, 450, 150),
    "standard": Effort(100, 1400, 200),
    "thorough": Effort(200, 2000, 500, members=4),
}
# What is about one model.
_ALONE = {"n_restarts": 1, "warm_start": False, "validation_fraction": None}


def members_of(estimator: Any) -> int:
    """Models that a fit of this estimator trains.

    Raises
    ------
    ConfigurationError
        `n_members` is no positive integer, or does not go together with another option; an unknown `effort`.

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> members_of(DeepGPRegressor(effort="thorough")), members_of(DeepGPRegressor(n_members=2))
    (4, 2)
    >>> members_of(DeepGPRegressor(effort="thorough", n_restarts=3))
    1
    """
    check_choice("effort", estimator.effort, tuple(EFFORTS))
    others = {name: getattr(estimator, name) for name, alone in _ALONE.items() if getattr(estimator, name) != alone}
    if estimator.n_members is None:
        # A kernel given as code may not be made for several models in one program.
        suits = estimator.inference == "sod" and isinstance(estimator.kernel, str) and not others
        return EFFORTS[estimator.effort].members if suits else 1
    count = check_integer("n_members", estimator.n_members, minimum=1)
    if count > 1 and others:
        name, value = next(iter(others.items()))
        raise ConfigurationError(
            f"n_members={count} and {name}={value!r} do not go together; leave {name} at {_ALONE[name]!r}."
        )
    return count
