"""How cells are computed: our own methods, one split alone or several in one program, and the peers."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.paper import machine
from benchmarks.paper.cells import Cell, Key
from benchmarks.paper.history import Recorder, finite
from benchmarks.paper.peers import PEER_FITS, Report
from benchmarks.paper.protocol import PEERS, Request
from benchmarks.paper.splits import Split
from benchmarks.paper.unfinished import discard, kept
from sodgp.data import DataSet
from sodgp.errors import CheckpointError, CheckpointWarning
from sodgp.estimator.many import fit_replicates
from sodgp.predictive import metrics
from sodgp.predictive.mixture import GaussianMixture
from sodgp.system.running import only_whole
from sodgp.system.validation import resolve_device
from sodgp.training.history import TrainingState


def compute(
    request: Request,
    keys: Sequence[Key],
    data: DataSet,
    *,
    device: str = "auto",
    history_every: int = 100,
    compile: bool = False,
    out: Path | None = None,
    report: Report = lambda iteration, last: None,
) -> list[Cell]:
    """Compute the cells of one (data set, method, depth).

    Parameters
    ----------
    request : Request
    keys : sequence of Key
        Of one group. Several of our own methods' splits train as replicates in one program.
    data : DataSet
    device : str
    history_every : int
        Iterations between the entries of the curves; 0 for none.
    compile : bool
        Fuse the steps of our variational methods.
    out : Path or None
        Results folder, in which a fit of ours keeps checkpoints while it runs, and continues from those of a run that
        was stopped; None for no checkpoints. They stay until `benchmarks.paper.unfinished.forget`.
    report : function (iteration, last iteration)
        Called with how far training is.

    Returns
    -------
    list of Cell
        One for each key, not yet written.

    Raises
    ------
    NumericalError
        Training ran away.
    KeyboardInterrupt
        The user stopped training: a fit that ended early is no result.
    """
    place = resolve_device(device)
    if keys[0].method in PEERS:
        return [_peer(request, key, data, place, history_every, report) for key in keys]
    compiles = compile and keys[0].method != "SGHMC"
    changes: dict[str, Any] = {"device": device, "tuning__compile": compiles}
    if out is None:
        return _ours(request, keys, data, changes, history_every, report)
    identity = {
        "settings": request.settings(keys[0]),
        "program": [machine.source_digest(), torch.__version__],
        "running": [place.type, compiles, history_every],
    }
    with kept(out, keys, identity) as (checkpoints, is_begun):
        changes |= checkpoints
        try:
            return _ours(request, keys, data, changes, history_every, report, resume=is_begun)
        except CheckpointError as error:
            if not is_begun:
                raise
            # Another machine may choose another subset.
            warnings.warn(f"{keys[0]} begins anew: {error}", CheckpointWarning, stacklevel=2)
            discard(checkpoints)
            return _ours(request, keys, data, changes, history_every, report)


def _ours(
    request: Request,
    keys: Sequence[Key],
    data: DataSet,
    changes: dict[str, Any],
    history_every: int,
    report: Report,
    *,
    resume: bool = False,
) -> list[Cell]:
    place = resolve_device(changes["device"])
    splits = [Split.of(data, key.split) for key in keys]
    estimators = [request.estimator(key, **changes) for key in keys]

    def tell(state: TrainingState) -> None:
        report(state.iteration, state.max_iter)

    with machine.peak_memory(place) as memory:
        recorder = Recorder(estimators, splits, history_every)
        callbacks = [recorder, tell]
        for estimator in estimators:
            estimator.set_params(callbacks=callbacks)
        with only_whole(estimators):
            if len(keys) == 1:
                estimators[0].fit(splits[0].X_train, splits[0].y_train, resume=resume)
            else:
                fit_replicates(estimators, [(split.X_train, split.y_train) for split in splits], resume=resume)
        _wait_for(place)
        seconds = recorder.seconds
        predictions = [_timed(e.predict_distribution, s.X_test) for e, s in zip(estimators, splits, strict=True)]
    cells = []
    for key, split, estimator, curve, (dist, predict_seconds) in zip(
        keys, splits, estimators, recorder.curves, predictions, strict=True
    ):
        course = estimator.history_
        extra = {
            "seconds": seconds / len(keys),
            "predict_seconds": predict_seconds,
            "replicates": len(keys),
            **memory,
            "parameters": estimator.n_parameters_,
            "iterations": estimator.n_iter_,
            "rollbacks": course.rollbacks,
            "compiled": changes["tuning__compile"],
        }
        history = curve.as_dict(dict(zip(course.iteration, course.bound, strict=True))) if history_every else {}
        cells.append(_cell(request, key, split, dist, extra, history, place))
    return cells


def _peer(request: Request, key: Key, data: DataSet, device: torch.device, history_every: int, report: Report) -> Cell:
    split = Split.of(data, key.split)
    options = request.settings(key)["options"]
    with machine.peak_memory(device) as memory:
        began = time.perf_counter()
        fitted = PEER_FITS[key.method](split, options, key.split, device, history_every, report)
        seconds = time.perf_counter() - began - fitted.history_seconds
        dist, predict_seconds = _timed(fitted.predict, split.X_test)
    extra = {
        "seconds": seconds,
        "predict_seconds": predict_seconds,
        "replicates": 1,
        **memory,
        "parameters": fitted.n_parameters,
        **fitted.notes,
    }
    return _cell(request, key, split, dist, extra, fitted.history, device)


def _cell(
    request: Request,
    key: Key,
    split: Split,
    dist: GaussianMixture,
    extra: dict[str, Any],
    history: dict[str, Any],
    device: torch.device,
) -> Cell:
    results = {name: finite(value) for name, value in metrics.scores(split.y_test, dist).items()}
    results |= {"train_rows": len(split.y_train), "test_rows": len(split.y_test), **extra}
    return Cell(key, request.settings(key), key.split, results, history, machine.origin(device))


def _timed(predict: Callable[[Any], GaussianMixture], X: Any) -> tuple[GaussianMixture, float]:
    began = time.perf_counter()
    dist = predict(X)
    return dist, time.perf_counter() - began


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
