"""Subsets that move: S is chosen anew during training with the learned kernel, and q(F_S) is carried over.

Shapes never change, so everything happens in place: rows change places between subset and rest in the batcher's own
tensors, and q gets new numbers. A step that was recorded as a CUDA graph replays with them.
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from gpytorch.kernels import Kernel, ScaleKernel
from torch import Tensor

from sodgp.errors import NumericalError
from sodgp.inference.contract import Batch, Inference, Parameters, Subset, rest_of
from sodgp.model.deep_gp import DeepGP
from sodgp.selectors import KMeans, Selector
from sodgp.training.batches import Batcher
from sodgp.training.history import History
from sodgp.training.restart.comparison import bound_at, compared_rows
from sodgp.training.restart.warm import put
from sodgp.training.stacking import Problem, unstack
from sodgp.training.steps import Step

logger = logging.getLogger("sodgp")
_GRID = 2.0**14  # kernel parameters of a selection, before their constraints, are multiples of its inverse


@dataclass(frozen=True)
class Reselection:
    """When and how to choose the subset anew.

    Parameters
    ----------
    every : int
        Steps between two choices.
    until : int
        The last iteration after which the subset may change.
    selector : Selector
        It gets the kernel of layer 1. k-means looks at distances only, so its inputs are divided by the lengthscales.
    """

    every: int
    until: int
    selector: Selector

    def select(self, X: Tensor, y: Tensor, size: int, kernel: Kernel, generator: torch.Generator) -> Tensor:
        """Rows of X [N, D] (float64, scaled units), chosen with the learned kernel; on the CPU."""
        kernel = copy.deepcopy(kernel).double().requires_grad_(False)
        for parameter in kernel.parameters():
            # Which rows are chosen must not hang on the last digits, in which one fit and several at once differ.
            parameter.copy_((parameter * _GRID).round() / _GRID)
        if isinstance(self.selector, KMeans):
            X = X / _lengthscales(kernel).to(X.device)
        return self.selector.select(X, y, size, kernel, generator).cpu()


class MovedSubset(NamedTuple):
    """Where a subset ended: row numbers [M], on the CPU, and their inputs and targets in scaled units."""

    rows: Tensor
    X_s: Tensor
    y_s: Tensor


class Reselector:
    """Chooses the subset of every replicate anew, for itself, while training goes on; a `sodgp.training.loop.Change`.

    Of the variants of `Inference.carried` the one with the best bound is taken, even where the
    bound falls. Adam's moments of q begin anew at every choice, those of the other parameters go on. A change
    that cannot be computed, or whose bound is not finite, is not made.

    Parameters
    ----------
    plan : Reselection
    inference : Inference
    model : DeepGP
        The one that trains, with a replicate axis where there are several.
    singles : sequence of DeepGP
        One for each problem; the model itself where there is one.
    problems : sequence of Problem
        With their `chosen` rows.
    batcher : Batcher
        Its data are replaced by a copy of their own, and changed from then on.
    n_samples : int
        Monte Carlo samples of the bounds before and after.
    """

    def __init__(
        self,
        plan: Reselection,
        inference: Inference,
        model: DeepGP,
        singles: Sequence[DeepGP],
        problems: Sequence[Problem],
        batcher: Batcher,
        n_samples: int,
    ) -> None:
        self.plan, self.inference, self.model, self.singles, self.batcher = plan, inference, model, singles, batcher
        self.n_samples = n_samples
        names = ("X_s", "y_s", "X_r", "y_r")
        batcher.data = replace(batcher.data, **{name: getattr(batcher.data, name).clone() for name in names})
        self._replicates = [_Replicate(problem, batcher.data.X_s.device) for problem in problems]

    def is_due(self, iteration: int) -> bool:
        """Whether the subset is chosen anew after this iteration."""
        return iteration % self.plan.every == 0 and iteration <= self.plan.until and self.batcher.data.n_rest > 0

    @torch.no_grad()
    def __call__(self, iteration: int, step: Step, histories: Sequence[History]) -> None:
        """Choose, carry over, and put everything in its place."""
        if len(self.singles) > 1:
            unstack(self.model, self.singles)
        moves = [self._move(each, model) for each, model in zip(self._replicates, self.singles, strict=True)]
        # Nothing was touched so far: a failure above leaves training as it was.
        for index, (move, history) in enumerate(zip(moves, histories, strict=True)):
            if move is None:
                continue
            history.reselections.append({"iteration": iteration, **move.entry})
            logger.info("iteration %d, subset chosen anew: %s", iteration, move.entry)
            if move.parameters:
                self._write(index, move)
        self.batcher.restart()
        for layer in self.model.layers:
            for parameter in (layer.q_mean, layer.get_parameter("q_factor")):
                for value in step.optimizer.state.get(parameter, {}).values():
                    value.zero_()

    def moved(self) -> list[MovedSubset]:
        """The present subset of every replicate."""
        return [
            MovedSubset(each.chosen.clone(), *(t[each.chosen.to(t.device)].cpu() for t in (each.X, each.y)))
            for each in self._replicates
        ]

    @property
    def chosen(self) -> list[Tensor]:
        """The present rows of every replicate, [M] each."""
        return [each.chosen for each in self._replicates]

    @property
    def generators(self) -> list[torch.Generator]:
        """Those of the selector, one for each replicate."""
        return [each.generator for each in self._replicates]

    def put(self, chosen: Sequence[Tensor]) -> None:
        """Let these rows be the subsets; q stays as it is."""
        for index, rows in enumerate(chosen):
            self._place(index, rows)

    def _move(self, each: _Replicate, model: DeepGP) -> _Move | None:
        """The best way to a new subset, without taking it; None where the way cannot be computed."""
        X, y = each.X.double(), each.y.double()
        try:
            chosen = self.plan.select(X, y, len(each.chosen), model.layers[0].kernel, each.generator)
            rows, kept = aligned(each.chosen, chosen)
            old, new = (Subset(X[r.to(X.device)], y[r.to(X.device)]) for r in (each.chosen, rows))
            n_changed = int((kept < 0).sum())
            before = self._bound(each, model, each.chosen)
            entry = {"bound_before": before, "bound_after": before, "n_changed": 0, "variant": ""}
            tried = [_Move(each.chosen, [], entry)]
            if n_changed:
                trial = copy.deepcopy(model)
                tried = []
                copied = copy.deepcopy(model).double()
                for name, parameters in self.inference.carried(copied, old, new, kept.to(X.device)).items():
                    after = self._bound(each, put(trial, parameters), rows)
                    entry = {"bound_before": before, "bound_after": after, "n_changed": n_changed, "variant": name}
                    tried.append(_Move(rows, parameters, entry))
        except (NumericalError, torch.linalg.LinAlgError) as error:  # type: ignore[attr-defined]
            logger.info("the subset stays as it is: %s", error)
            return None
        finite = [m for m in tried if math.isfinite(m.entry["bound_before"]) and math.isfinite(m.entry["bound_after"])]
        return max(finite, key=lambda move: float(move.entry["bound_after"]), default=None)

    def _bound(self, each: _Replicate, model: DeepGP, chosen: Tensor) -> float:
        """The bound with this subset, always at the same random numbers and, but for S, the same rows."""
        outside = each.order[~torch.isin(each.order, chosen)]
        part = compared_rows(outside, self.batcher.batch_rows)
        sides = (rows.to(each.X.device) for rows in (chosen, part))
        X_s, y_s, X_b, y_b = (t[rows].unsqueeze(0) for rows in sides for t in (each.X, each.y))
        batch = Batch(X_s, y_s, X_b, y_b, scale=len(outside) / len(part))
        return bound_at(model, self.inference, batch, n_samples=self.n_samples, seed=each.seed)

    def _place(self, index: int, chosen: Tensor) -> None:
        each, data = self._replicates[index], self.batcher.data
        each.chosen = chosen
        for rows, targets in ((chosen, (data.X_s, data.y_s)), (rest_of(len(each.X), chosen), (data.X_r, data.y_r))):
            for values, target in zip((each.X, each.y), targets, strict=True):
                (target[index] if len(self.singles) > 1 else target).copy_(values[rows.to(values.device)])

    def _write(self, index: int, move: _Move) -> None:
        self._place(index, move.rows)
        put(self.model, move.parameters, index if len(self.singles) > 1 else None)


class _Replicate:
    """All rows of one problem in their own order, the present subset, and a generator for the selector."""

    def __init__(self, problem: Problem, device: torch.device) -> None:
        assert problem.chosen is not None
        data, self.chosen, self.seed = problem.data, problem.chosen.clone(), problem.seed
        self.X, self.y = (values.to(device) for values in data.in_order(self.chosen))
        # Initial values, draws and batches have the seeds from `seed` to `seed + 2`.
        self.generator = torch.Generator().manual_seed(problem.seed + 3)
        self.order = torch.randperm(len(self.X), generator=torch.Generator().manual_seed(problem.seed + 4))


class _Move(NamedTuple):
    """New rows and parameters of q (none: stay), and what the history says about it."""

    rows: Tensor
    parameters: Parameters
    entry: dict[str, Any]


def aligned(old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    """The rows `new` [M] in an order in which those that are in `old`, too, keep their places.

    Returns
    -------
    rows : Tensor of shape [M]
    kept : Tensor of shape [M]
        Position in `old`, or -1 for a row that is not in it.
    """
    stays = torch.isin(old, new)
    rows = old.clone()
    rows[~stays] = new[~torch.isin(new, old)]
    return rows, torch.where(stays, torch.arange(len(old), device=old.device), -1)


def _lengthscales(kernel: Kernel) -> Tensor:
    """Lengthscales [1, D] or [1, 1] of a kernel that has one for each column of X or one for all; else 1."""
    base = kernel.base_kernel if isinstance(kernel, ScaleKernel) else kernel
    plain = base.has_lengthscale and base.active_dims is None and kernel.active_dims is None
    return base.lengthscale.reshape(1, -1) if plain else torch.ones(1, 1, dtype=torch.float64)
