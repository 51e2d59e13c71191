"""Training that begins where an earlier fit ended: hyper-parameters are copied, q is carried to the new rows.

The method must have a state that new rows can use. SoD-VI's q(F_S) belongs to the rows of S, so it is carried over to
the new S by `sodgp.inference.sod_transfer`; q(U) of DSVI belongs to inducing inputs, which are parameters: copied.
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from sodgp.errors import ConfigurationError, NumericalError
from sodgp.inference.contract import Inference, Parameters, Subset, TrainingSet
from sodgp.model.deep_gp import DeepGP
from sodgp.training.restart.comparison import bound_of

logger = logging.getLogger("sodgp")


class Start(NamedTuple):
    """A trained model and the subset that it belongs to, in the scaled units of the fit that begins there."""

    model: DeepGP
    subset: Subset


@torch.no_grad()
def warm(
    model: DeepGP,
    start: Start,
    inference: Inference,
    data: TrainingSet,
    *,
    batch_rows: int,
    n_samples: int,
    seed: int,
) -> DeepGP:
    """Give a new model the parameters of a trained one.

    Parameters
    ----------
    model : DeepGP
        As built for `data`; changed in place.
    start : Start
    inference : Inference
    data : TrainingSet
        Without replicates.
    batch_rows : int
        Rows of the rest that a step sees.
    n_samples : int
        Monte Carlo samples T of the bounds that compare the ways to carry q over.
    seed : int
        Of their rows and draws.

    Returns
    -------
    DeepGP
        The same `model`.

    Raises
    ------
    ConfigurationError
        When the two models differ in more than the rows of the subset.
    """
    old = copy.deepcopy(start.model).to(model.device)
    _copy_parameters(old, model, but_q=inference.uses_subset)
    if inference.uses_subset:

        def judged(trial: DeepGP) -> float:
            return bound_of(trial, inference, data, None, batch_rows=batch_rows, n_samples=n_samples, seed=seed)

        _carry(inference, old, start.subset, model, data, judged)
    return model


def _copy_parameters(old: DeepGP, new: DeepGP, *, but_q: bool) -> None:
    """Every tensor of `old` into `new`; those of q(F_S), whose rows may differ, not at all."""
    ours, theirs = new.state_dict(), old.state_dict()
    of_rows = ("q_mean", "q_factor")
    names = {name for name in ours if not (but_q and name.rsplit(".", 1)[-1] in of_rows)}
    if not new.likelihood.n_parameters:
        # It is known, from the new data.
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
            " separate_kernels, parameterization, hidden means, label noise, jitter, dtype, or the"
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
    judged: Callable[[DeepGP], float],
) -> None:
    """The best of the ways to carry q(F_S) over to the rows of `data`; q stays as it was built where none works."""
    device = model.device
    # The same rows in the same order: q itself, to the last bit and with the same signs in its factors.
    if torch.equal(subset.X, data.X_s) and torch.equal(subset.y, data.y_s):
        put(model, [(layer.q_mean, layer.get_parameter("q_factor")) for layer in old.layers])
        return
    before, after = (Subset(*(t.double().to(device) for t in pair)) for pair in (subset, (data.X_s, data.y_s)))
    try:
        new = copy.deepcopy(model).double()
        variances = inference.label_variances(old.double(), before.X), inference.label_variances(new, after.X)
        variants = inference.carried(old, before, after, matching_rows(before, after), variances)
        tried = [(judged(put(copy.deepcopy(model), q)), q) for q in variants.values()]
    except (NumericalError, torch.linalg.LinAlgError) as error:  # type: ignore[attr-defined]
        logger.info("q(F_S) could not be carried over and begins anew: %s", error)
        return
    best = max(((value, q) for value, q in tried if math.isfinite(value)), key=lambda pair: pair[0], default=None)
    if best is not None:
        put(model, best[1])


@torch.no_grad()
def put(model: DeepGP, parameters: Parameters, index: int | None = None) -> DeepGP:
    """Give the model these parameters of q, or one of its replicates; the same model."""
    for layer, (m, C) in zip(model.layers, parameters, strict=True):
        q_factor = layer.get_parameter("q_factor")
        (layer.q_mean if index is None else layer.q_mean[index]).copy_(m)
        (q_factor if index is None else q_factor[index]).copy_(C)
    return model


def kept_directions(old: DeepGP, weights: list[Tensor]) -> list[Tensor]:
    """The linear means of the fitted layers, where the new ones are of the same kind.

    Principal directions turn with the data; what the layers have learned belongs to the old ones.
    """
    fitted = [layer.mean.weight.cpu() for layer in old.layers][:-1]
    if [W.shape for W in fitted] != [W.shape for W in weights]:
        return weights
    return [A if bool(A.any()) == bool(B.any()) else B for A, B in zip(fitted, weights, strict=True)]


def matching_rows(old: Subset, new: Subset) -> Tensor:
    """For every row of `new` the position of the same row (inputs and targets) in `old`, or -1; [M'], int64.

    A row of `old` is taken once: of equal rows the first goes to the first.
    """
    rows = {tuple(row): position for position, row in reversed(list(enumerate(torch.cat(old, -1).tolist())))}
    found = [rows.pop(tuple(row), -1) for row in torch.cat(new, -1).tolist()]
    return torch.tensor(found, dtype=torch.int64, device=new.X.device)
