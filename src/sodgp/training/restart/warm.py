"""Training that begins where an earlier fit ended: hyper-parameters are copied, q is carried to the new rows.

The method must have a state that new rows can use. SoD-VI's q(F_S) belongs to the rows of S, so it is carried over to
the new S by `sodgp.inference.sod_transfer`; q(U) of DSVI belongs to inducing inputs, which are parameters: copied.
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Int64
from torch import Tensor

from sodgp.errors import ConfigurationError, NumericalError
from sodgp.inference.contract import Inference, Parameters, Subset, TrainingSet
from sodgp.model.deep_gp import DeepGP
from sodgp.training.restart.comparison import bound_of

# What belongs to the rows of a subset, in any layer: q, and the sites of labels.
_OF_ROWS = ("q_mean", "q_factor", "lambda_1", "lambda_2")

logger = logging.getLogger("sodgp")


class Start(NamedTuple):
    """A trained model and its subset, in the scaled units of the fit that begins there."""

    model: DeepGP
    subset: Subset


@torch.no_grad()
def warm(
    model: DeepGP, start: Start, inference: Inference, data: TrainingSet, *, batch_rows: int, n_samples: int, seed: int
) -> DeepGP:
    """Give a new model, as built for `data` without replicates, the parameters of a trained one, and return it.

    Different ways to carry q over are compared by `bound_of`, which gets `batch_rows`, `n_samples` and `seed`.

    Raises
    ------
    ConfigurationError
        When the two models differ in more than the rows of the subset.
    """
    old = copy.deepcopy(start.model).to(model.device)
    _copy_parameters(old, model, with_q=not inference.uses_subset)
    if inference.uses_subset:
        score = partial(
            bound_of, inference=inference, data=data, chosen=None, batch_rows=batch_rows, n_samples=n_samples, seed=seed
        )
        _carry(inference, old, start.subset, model, data, score)
    return model


def _copy_parameters(old: DeepGP, new: DeepGP, *, with_q: bool) -> None:
    """Copy every tensor of `old` into `new`; those of q(F_S), whose rows may differ, only `with_q`."""
    ours, theirs = new.state_dict(), old.state_dict()
    names = {name for name in ours if with_q or name.rsplit(".", 1)[-1] not in _OF_ROWS}
    if not new.likelihood.n_parameters:
        # The noise is known, from the new data.
        names = {name for name in names if not name.startswith("likelihood.")}
    if not new.likelihood.continues(old.likelihood):
        raise ConfigurationError(
            "warm_start continues a fit with noise_variance where it had one, and without where it had none; give it"
            " again, leave it out again, or use warm_start=False."
        )
    fits = old.structure == new.structure and ours.keys() == theirs.keys()
    fits = fits and all(
        ours[name].shape == theirs[name].shape and ours[name].dtype == theirs[name].dtype for name in names
    )
    if not fits or not all(torch.equal(ours[name], theirs[name]) for name in names if name.endswith("mean.weight")):
        raise ConfigurationError(
            "warm_start continues a fitted model, but the options now ask for another one (layers, widths, kernel,"
            " separate_kernels, objective, parameterization, hidden means, label noise, jitter, dtype, or the"
            " number of inducing points); set them back, or use warm_start=False."
        )
    for name in names:
        ours[name].copy_(theirs[name])


def _carry(
    inference: Inference,
    old: DeepGP,
    subset: Subset,
    model: DeepGP,
    data: TrainingSet,
    score: Callable[[DeepGP], float],
) -> None:
    """Carry q(F_S) over to the rows of `data` in the way that scores best; where none works, q stays as built."""
    device = model.device
    # The same rows in the same order: q itself, to the last bit and with the same signs in its factors.
    new_subset = data.subset
    if all(_are_equal(*pair) for pair in zip(subset, new_subset, strict=True)):
        theirs = old.state_dict()
        for name, values in model.state_dict().items():
            if name.rsplit(".", 1)[-1] in _OF_ROWS:
                values.copy_(theirs[name])
        return
    before, after = (
        Subset(*(None if t is None else t.double().to(device) for t in each))  # type: ignore[arg-type]
        for each in (subset, new_subset)
    )
    try:
        new = copy.deepcopy(model).double()
        variants = inference.carried(old.double(), new, before, after, matching_rows(before, after))
        for ours, buffer in zip(model.buffers(), new.buffers(), strict=True):
            ours.copy_(buffer)
        tried = [(score(_put(copy.deepcopy(model), q)), q) for q in variants.values()]
    except (NumericalError, torch.linalg.LinAlgError) as error:  # type: ignore[attr-defined]
        logger.info("q(F_S) could not be carried over and begins anew: %s", error)
        return
    best = max(((value, q) for value, q in tried if math.isfinite(value)), key=lambda pair: pair[0], default=None)
    if best is not None:
        _put(model, best[1])


def _are_equal(a: Tensor | None, b: Tensor | None) -> bool:
    return a is b if a is None or b is None else torch.equal(a, b)


@torch.no_grad()
def _put(model: DeepGP, parameters: Parameters) -> DeepGP:
    """Give the model these parameters of q, and return it."""
    for layer, (m, C) in zip(model.layers, parameters, strict=True):
        layer.q_mean.copy_(m)
        layer.state_dict()["q_factor"].copy_(C)
    return model


def kept_directions(old: DeepGP, weights: list[Tensor]) -> list[Tensor]:
    """The linear means of the fitted layers, where the new ones are of the same kind.

    Principal directions turn with the data; what the layers have learned belongs to the old ones.
    """
    fitted = [layer.mean.weight.cpu() for layer in old.layers][:-1]
    if [W.shape for W in fitted] != [W.shape for W in weights]:
        return weights
    return [A if bool(A.any()) == bool(B.any()) else B for A, B in zip(fitted, weights, strict=True)]


def matching_rows(old: Subset, new: Subset) -> Int64[Tensor, " M"]:
    """For every row of `new` the position of the same row (inputs and targets) in `old`, or -1.

    A row of `old` is taken once: of equal rows the first goes to the first.
    """
    rows = {tuple(row): position for position, row in reversed(list(enumerate(torch.cat(old[:2], -1).tolist())))}
    found = [rows.pop(tuple(row), -1) for row in torch.cat(new[:2], -1).tolist()]
    return torch.tensor(found, dtype=torch.int64, device=new.X.device)
