"""Whether depth is worth its time, where the number of layers is left open.

One layer is trained first, which takes a tenth of the time, and the usual number after it. The shallow model is kept
unless the deep one predicts every row from all the others clearly better. No row is held out for that, and the hidden
layers have seen the row, so that a little better is not enough.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sodgp.errors import ConfigurationError, NumericalError
from sodgp.estimator.options.configuration import Configuration
from sodgp.estimator.prepare import Prepared
from sodgp.inference.contract import Inference, Terms
from sodgp.training.restart.comparison import bound_of
from sodgp.training.run import FitResult

__all__ = ["chosen_depths", "depth_gain", "is_interrupted", "one_layer_first", "with_one_layer", "with_seconds_left"]

Trained = list[tuple[Prepared, FitResult]]

logger = logging.getLogger("sodgp")

# One layer has converged after half as many.
_MOST_STEPS = 300


def one_layer_first(
    config: Configuration,
    deep: Sequence[Prepared],
    train: Callable[[Sequence[Prepared], Configuration], list[FitResult]],
) -> Trained:
    """The models with one layer, trained; empty where the number of layers is not open, or their training failed."""
    found = [with_one_layer(config, each) for each in deep]
    shallow = [each for each in found if each is not None]
    if len(shallow) < len(deep):
        return []
    try:
        return list(zip(shallow, train(shallow, replace(config, callbacks=[], checkpoint=None)), strict=False))
    except NumericalError:
        return []


def is_interrupted(models: Trained) -> bool:
    """Whether Ctrl-C ended their training."""
    return any(result.history.stopped == "interrupted" for _, result in models)


def with_seconds_left(
    config: Configuration, deep: Sequence[Prepared], shallow: Trained
) -> tuple[Configuration, list[Prepared]]:
    """The same with what the shallow models have left of the time limit; a step is taken in any case."""
    used = sum(result.history.seconds[-1] for _, result in shallow)
    left = max((config.max_seconds or math.inf) - used, 1e-3)
    return replace(config, max_seconds=left), [
        replace(each, settings=replace(each.settings, max_seconds=left)) for each in deep
    ]


def with_one_layer(config: Configuration, deep: Prepared) -> Prepared | None:
    """The same model with one layer; None where the number of layers is not open, or nothing can be compared."""
    problem, n_rows = deep.problem, len(deep.rows)
    # A fit that continues another has its layers. Kernels given as code may fit the inputs of one layer only.
    is_open = config.n_layers is None and problem.start is None and isinstance(config.kernel, str)
    is_compared = deep.method.depth_rule(deep.settings.max_iter) is not None
    if not (is_open and is_compared and problem.architecture.mean_weights):
        return None
    try:
        method = config.method.settled(n_rows=n_rows, n_layers=1, kernel=config.kernel, likelihood=deep.likelihood)
    except ConfigurationError:
        return None  # an option of the method needs a hidden layer
    rate = method.usual_rate(1) if config.learning_rate is None else config.learning_rate
    steps = min(deep.settings.max_iter, _MOST_STEPS)
    settings = replace(deep.settings, max_iter=steps, learning_rate=rate, callbacks=(), checkpoint=None)
    architecture = replace(problem.architecture, mean_weights=[])
    return replace(deep, method=method, problem=replace(problem, architecture=architecture), settings=settings)


def chosen_depths(config: Configuration, n_estimators: int, shallow: Trained, deep: Trained) -> Trained:
    """The models that are kept, which say why; those of one estimator have one depth."""
    chosen: Trained = []
    few, many = len(shallow) // n_estimators, len(deep) // n_estimators
    for number in range(n_estimators):
        own = shallow[number * few : (number + 1) * few], deep[number * many : (number + 1) * many]
        chosen += _chosen(config, *own)
    return chosen


def _chosen(config: Configuration, shallow: Trained, deep: Trained) -> Trained:
    n_layers = len(deep[0][1].model.layers)
    if any(result.history.stopped == "callback" for _, result in deep):
        # What a callback saw and ended is what its user gets.
        reason = f"{n_layers} layers: a callback ended their training, and nothing was compared."
        return [(replace(prepared, n_layers_reason=reason), result) for prepared, result in deep]
    prepared = deep[0][0]
    rule = prepared.method.depth_rule(prepared.settings.max_iter)
    if rule is None:
        raise AssertionError("depths were trained that cannot be compared")
    judge, margin = rule
    gain = depth_gain(config, judge, shallow, deep)
    is_deep = gain > margin
    kept_layers = f"{n_layers} layers" if is_deep else "1 layer"
    how = f"{abs(gain):.3f} nats a row {'better' if gain >= 0.0 else 'worse'} than one"
    reason = f"{kept_layers}: {n_layers} predict rows from the others {how}."
    if math.isnan(gain):
        reason = f"1 layer: how well {n_layers} layers predict rows from the others is not known."
    logger.info(reason)
    kept = deep if is_deep else shallow
    for _, result in kept:
        if is_interrupted(deep):
            result.history.stopped = "interrupted"
    return [(replace(prepared, n_layers_reason=reason), result) for prepared, result in kept]


def depth_gain(config: Configuration, judge: Inference, shallow: Trained, deep: Trained) -> float:
    """By how much the deep models predict rows from the others better than the shallow ones, in nats a row and output.

    Of members it is the mean, of restarts the best.
    """
    problem = deep[0][0].problem
    of_all = np.max if config.n_restarts > 1 else np.mean
    one, more = (float(of_all([_score(judge, *each) for each in models])) for models in (shallow, deep))
    return (more - one) / (len(deep[0][0].rows) * problem.architecture.n_outputs)


def _of_rows(terms: Terms) -> Float[Tensor, ""]:
    """The sum of an objective's terms of the rows: no KL, no prior of parameters."""
    return torch.stack([value for name, value in terms.items() if not name.startswith(("kl_", "log_prior"))]).sum(0)


def _score(judge: Inference, prepared: Prepared, result: FitResult) -> float:
    problem, settings = prepared.problem, prepared.settings
    try:
        return bound_of(
            result.model,
            judge,
            problem.data,
            problem.chosen,
            batch_rows=settings.batch_rows,
            n_samples=settings.n_samples,
            seed=problem.seed,
            total=_of_rows,
        )
    except NumericalError:
        return math.nan
