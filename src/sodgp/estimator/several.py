"""Several models for one estimator: restarts, of which the best is kept, and members, which predict together."""

from __future__ import annotations

import warnings
from typing import Any, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from sodgp.errors import ConfigurationError, NumericalError, SodgpWarning
from sodgp.estimator.checkpoint_plan import check_seed_is_kept
from sodgp.estimator.many import fit_together
from sodgp.estimator.prepare import OPTIONAL_ATTRIBUTES

E = TypeVar("E", bound=BaseEstimator)


class Several(BaseEstimator):
    """What `DeepGPRegressor` does where a fit trains more than one model."""

    n_restarts: int
    warm_start: bool
    checkpoint: Any
    random_state: Any
    n_parameters_: int

    def _fit_restarts(self, X: Any, y: Any, noise_variance: Any, resume: bool) -> Self:
        """Train several times in one program and keep the fit with the best bound."""
        if self.warm_start:
            raise ConfigurationError(
                f"warm_start=True continues one fit, and n_restarts={self.n_restarts} begins several anew; use one of"
                " the two."
            )
        tries: list[Any] = self._from_other_seeds(self.n_restarts)
        try:
            fit_together(tries, [(X, y, noise_variance)] * len(tries), resume=resume, compares=True)
        except NumericalError:
            self.__dict__.pop("model_", None)
            raise
        # The bound is a Monte Carlo estimate: the last few entries together tell more than the last one, and one over
        # more rows than a step has tells more than they do.
        bounds = [
            float(np.mean(attempt.history_.bound[-5:])) if attempt._final_bound is None else attempt._final_bound
            for attempt in tries
        ]
        self._adopt(tries[int(np.argmax(bounds))])
        self.restart_bounds_ = bounds
        return self

    def _warn_of_members_left_behind(self) -> None:
        """A warm start continues one model, also where the last fit had several."""
        if self.warm_start and hasattr(self, "members_"):
            warnings.warn(
                f"warm_start=True continues the first of the {len(self.members_)} members of the last fit; the others"
                " are left behind.",
                SodgpWarning,
                stacklevel=3,
            )

    def _from_other_seeds(self, count: int) -> list[Self]:
        """Estimators of one model each, which differ in their seeds."""
        check_seed_is_kept(self.checkpoint, self.random_state)
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=count)
        return [copy_of(self, n_restarts=1, n_members=1, random_state=int(seed)) for seed in seeds]

    def _adopt(self, other: Self) -> None:
        """Take over what the fit of another estimator left behind; nothing of an earlier one may stay."""
        for name in (*OPTIONAL_ATTRIBUTES, "feature_names_in_"):
            self.__dict__.pop(name, None)
        options = self.get_params(deep=False)
        self.__dict__.update({name: value for name, value in vars(other).items() if name not in options})

    def _take(self, members: list[Self]) -> Self:
        """Predict as the mixture of these fitted members."""
        self._adopt(members[0])
        self.members_ = members
        self.n_parameters_ = sum(member.n_parameters_ for member in members)
        return self


def copy_of(estimator: E, **changes: Any) -> E:
    """A new estimator with the same options, changed ones apart.

    The very same: scikit-learn's clone copies selectors, callbacks and kernel functions, which then count as different.
    """
    return type(estimator)(**{**estimator.get_params(deep=False), **changes})


def models_of(estimator: E) -> list[E]:
    """The models that predict together: the members of a fitted estimator, or the one that it is."""
    return getattr(estimator, "members_", [estimator])
