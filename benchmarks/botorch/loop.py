"""Problems and searches, each a function of a seed that counts evaluations up to a target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from botorch.acquisition.logei import qLogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.test_functions import Branin
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from sodgp import DeepGPRegressor
from sodgp.integrations.botorch import DeepGPModel, default_estimator

UNIT_SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


@dataclass(frozen=True)
class Problem:
    """A function on the unit square to be maximised.

    Parameters
    ----------
    value : function of [n, 2] to [n]
    best, target : float
        Its maximum, and the value at which a search has found it.
    """

    value: Callable[[Tensor], Tensor]
    best: float
    target: float

    def __call__(self, X: Tensor) -> Tensor:
        """Values [n, 1] at rows [n, 2]."""
        return self.value(X).unsqueeze(-1)


def branin(X: Tensor) -> Tensor:
    """Minus the Branin function, three maxima of -0.397887."""
    function = Branin(negate=True).to(X)
    low, high = function.bounds
    return function(low + (high - low) * X)


def step(X: Tensor) -> Tensor:
    """A jump by 1 at x1 = 0.75, flat on both sides of it, and a ridge at x2 = 0.3; the maximum is 1."""
    return (X[..., 0] > 0.75).to(X) - (X[..., 1] - 0.3).abs()


PROBLEMS = {"branin": Problem(branin, -0.397887, -0.5), "step": Problem(step, 1.0, 0.95)}


@dataclass(frozen=True)
class Outcome:
    """How a search ended: evaluations until the target (None: not within the budget), the start included."""

    evaluations: int | None
    best: float


def start(seed: int, n_initial: int) -> tuple[Tensor, torch.Generator]:
    """The first rows of every search with that seed, and the generator for more."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(n_initial, 2, generator=generator, dtype=torch.float64), generator


def random_search(problem: Problem, seed: int, *, n_initial: int, budget: int) -> Outcome:
    """Uniform points."""
    first, generator = start(seed, n_initial)
    more = torch.rand(budget - n_initial, 2, generator=generator, dtype=torch.float64)
    return _outcome(problem, problem(torch.cat([first, more])))


def bayesian_search(problem: Problem, seed: int, surrogate: Any, *, n_initial: int, budget: int) -> Outcome:
    """One point at a time, each at the maximum of qLogExpectedImprovement.

    Parameters
    ----------
    surrogate : function of (model before or None, X, Y) to a BoTorch model
    """
    X, _ = start(seed, n_initial)
    Y = problem(X)
    model = None
    torch.manual_seed(seed)  # BoTorch draws its raw samples from the global generator
    while len(X) < budget and float(Y.max()) < problem.target:
        model = surrogate(model, X, Y)
        acquisition = qLogExpectedImprovement(model, best_f=Y.max())
        candidate, _ = optimize_acqf(acquisition, bounds=UNIT_SQUARE, q=1, num_restarts=4, raw_samples=128)
        X, Y = torch.cat([X, candidate]), torch.cat([Y, problem(candidate)])
    return _outcome(problem, Y)


def deep(model: DeepGPModel | None, X: Tensor, Y: Tensor, estimator: DeepGPRegressor | None = None) -> DeepGPModel:
    """A deep GP, trained anew after every tenth point and warmly otherwise."""
    if model is None or len(X) % 10 == 0:
        return DeepGPModel(X, Y, estimator=estimator or default_estimator())
    return model.condition_on_observations(X[-1:], Y[-1:])


def shallow(model: Any, X: Tensor, Y: Tensor) -> SingleTaskGP:
    """BoTorch's own GP."""
    gp = SingleTaskGP(X, Y)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(gp.likelihood, gp))
    return gp


def _outcome(problem: Problem, Y: Tensor) -> Outcome:
    reached = (Y.squeeze(-1) >= problem.target).nonzero()
    return Outcome(int(reached[0, 0]) + 1 if len(reached) else None, float(Y.max()))
