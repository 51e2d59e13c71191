"""Writes everything that training has changed since it began at intervals, and restores it bit for bit.

It is restored in place, into the existing tensors, with which a step recorded as a CUDA graph replays. What a fit
builds from its data and options alone (scaling, subset, initial values) is not written, but built again; a checkpoint
therefore says which data and options it belongs to, and is refused for others.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sodgp.errors import CheckpointError, CheckpointWarning
from sodgp.system.container import Record
from sodgp.training.batches import Batcher
from sodgp.training.checkpoint.folder import Cadence, CheckpointFolder
from sodgp.training.held_out import HeldOut
from sodgp.training.history import Callback, History
from sodgp.training.loop import Course
from sodgp.training.stacking import Problem
from sodgp.training.steps import Snapshot, Step

_COURSE = ("iteration", "good_iteration", "rollbacks", "bad_gradients", "shrink", "fell_back", "stopped")


@dataclass(frozen=True)
class Plan:
    """Where and when to write, for which fit, and the checkpoint `saved` to continue from.

    `options` are those of the estimator that change the numbers of a fit, as JSON; `versions` those of the libraries,
    since others may round differently; `seeds` those that an estimator without a `random_state` has drawn.
    """

    folder: CheckpointFolder
    every: Cadence
    options: dict[str, Any]
    versions: dict[str, str]
    seeds: list[int]
    saved: Record | None = None


class CheckpointJournal:
    """Writes a run to its folder and restores it; a `sodgp.training.loop.Journal`.

    `generators` are those of the Monte Carlo draws. Once the training loop has begun, `course` is its state, and
    `extra` what a sampler has beyond it. A checkpoint of other data or options is a CheckpointError that names each
    difference. Of many processes one `writes`, and all restore what it has read.
    """

    def __init__(
        self,
        plan: Plan,
        problems: Sequence[Problem],
        device: torch.device,
        batcher: Batcher,
        generators: Sequence[torch.Generator],
        callbacks: Sequence[Callback],
        held_out: HeldOut | None = None,
        *,
        writes: bool = True,
    ) -> None:
        self.plan, self.batcher, self.callbacks, self.writes = plan, batcher, callbacks, writes
        self.generators = {"draws": list(generators), "batches": list(batcher.generators)}
        held_out_rows = None if held_out is None else _sha256(torch.cat([held_out.X, held_out.y], -1))
        data = [_fingerprint(problem) for problem in problems]
        identity = {"options": plan.options, "device": device.type, "data": data, "held-out rows": held_out_rows}
        self.identity = json.loads(json.dumps(identity))
        self.course: Course
        self.extra = Record({}, {})
        self._last = time.monotonic()
        if plan.saved is not None:
            self._refuse_others(plan.saved)

    def is_due(self, count: int) -> bool:
        """Whether to write after this iteration."""
        return self.writes and self.plan.every.is_due(count, self._last)

    def begin(self, course: Course, step: Step) -> None:
        """Continue from the plan's checkpoint, if it has one."""
        self.course, self._last = course, time.monotonic()
        if self.plan.saved is None:
            # They are of a finished run: a new one is refused in the folder of an unfinished one.
            if self.writes:
                self.plan.folder.clear()
            return
        try:
            self._restore(self.plan.saved, course, step)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, IndexError) as error:
            raise CheckpointError(
                f"the checkpoint in {self.plan.folder.path} does not fit this model ({error!s:.200}); start anew in"
                " another folder."
            ) from error

    def finish(self, step: Step) -> None:
        """Write a run that is over, unless it was continued from its end."""
        if self.plan.saved is None or not self.plan.saved.info["is_finished"]:
            self.write(self.course, step, is_finished=True)

    def write(self, course: Course, step: Step, *, is_finished: bool = False) -> None:
        """Write the run as it is; if the disk refuses, the folder warns and the run goes on."""
        if not self.writes:
            return
        info = {
            "identity": self.identity,
            "versions": self.plan.versions,
            "seeds": self.plan.seeds,
            "is_finished": is_finished,
            "course": {name: getattr(course, name) for name in _COURSE},
            "jitter_climbs": course.climbs.count,
            "seconds": course.elapsed,
            "histories": [dataclasses.asdict(history) for history in course.histories],
            "position": self.batcher.position,
            "callbacks": [_callback_state(callback) for callback in self.callbacks],
            "extra": self.extra.info,
        }
        tensors = {f"{name}.{i}": g.get_state() for name, each in self.generators.items() for i, g in enumerate(each)}
        tensors |= _packed("now", Snapshot(step.parameters, step.optimizer), step)
        tensors |= _packed("good", course.good, step)
        tensors |= {f"step.{name}": value for name, value in _others(step).items()}
        tensors |= {f"extra.{name}": value for name, value in self.extra.tensors.items()}
        if self.batcher.order is not None:
            tensors["order"] = self.batcher.order
        self.plan.folder.write(info, tensors)
        self._last = time.monotonic()

    def _restore(self, saved: Record, course: Course, step: Step) -> None:
        info, tensors = saved.info, saved.tensors
        for name, each in self.generators.items():
            for i, generator in enumerate(each):
                generator.set_state(tensors[f"{name}.{i}"])
        self.batcher.resume(tensors.get("order"), info["position"])
        for name in _COURSE:
            setattr(course, name, type(getattr(course, name))(info["course"][name]))
        course.climbs.count, course.seconds = int(info["jitter_climbs"]), float(info["seconds"])
        course.histories[:] = [History(**entries) for entries in info["histories"]]
        if course.fell_back:
            step.fall_back()
        _unpacked("now", tensors, step).restore(step.parameters, step.optimizer)
        course.good = _unpacked("good", tensors, step)
        for name, value in _others(step).items():
            _copy(value, tensors[f"step.{name}"])
        beyond = {name.removeprefix("extra."): t for name, t in tensors.items() if name.startswith("extra.")}
        self.extra = Record(info["extra"], beyond)
        for callback, state in zip(self.callbacks, info["callbacks"], strict=False):
            if state is not None and hasattr(callback, "restore") and state["type"] == _type_of(callback):
                callback.restore(state["state"])

    def _refuse_others(self, saved: Record) -> None:
        """Raise a CheckpointError that names every difference; warn of other library versions."""
        different = dict.fromkeys(_differences(saved.info.get("identity"), self.identity))
        if different:
            raise CheckpointError(
                f"the checkpoint in {self.plan.folder.path} belongs to another fit: {'; '.join(different)}. Resume with"
                " the same data and options, or start anew in another folder."
            )
        versions = saved.info.get("versions", {})
        other = [
            f"{name} {versions.get(name)}"
            for name in self.plan.versions
            if versions.get(name) != self.plan.versions[name]
        ]
        if other:
            warnings.warn(
                f"the checkpoint was written with {', '.join(other)}: training goes on, but perhaps not bit for bit.",
                CheckpointWarning,
                stacklevel=2,
            )


def _fingerprint(problem: Problem) -> dict[str, Any]:
    """Shape and SHA-256 of the data of a fit in scaled units, and of its subset."""
    data, chosen = problem.data, problem.chosen
    X, y = hashlib.sha256(), hashlib.sha256()
    for X_block, y_block in data.in_order(torch.arange(0) if chosen is None else chosen):
        X.update(X_block.numpy().data)
        y.update(y_block.numpy().data)
    subset = None if chosen is None else _sha256(chosen)
    digests = {"X": X.hexdigest(), "y": y.hexdigest(), "first subset": subset}
    known = [value for value in problem.architecture.likelihood.get_params().values() if isinstance(value, Tensor)]
    if data.precision_r is not None:
        digests["noise_variance"] = "".join(map(_sha256, [*known, data.precision_r]))
    if data.weight_s is not None and data.weight_r is not None:
        digests["sample_weight"] = _sha256(data.weight_s) + _sha256(data.weight_r)
    shape = [data.n_rest + len(data.X_s), data.X_s.shape[-1], data.y_s.shape[-1]]
    return {"shape": shape, **digests, "seed": problem.seed}


def _sha256(values: Tensor) -> str:
    return hashlib.sha256(values.numpy().tobytes()).hexdigest()


def _differences(then: Any, now: Any, name: str = "") -> list[str]:
    """One phrase for every entry in which two JSON values differ."""
    if isinstance(then, dict) and isinstance(now, dict):
        found = []
        for key in sorted(then.keys() | now.keys()):
            inner = key if name in ("", "options", "data") else f"{name}.{key}"
            found += _differences(then.get(key), now.get(key), inner)
        return found
    are_lists = isinstance(then, list) and isinstance(now, list) and len(then) == len(now)
    if are_lists and then and isinstance(then[0], dict):
        return [phrase for pair in zip(then, now, strict=True) for phrase in _differences(*pair, name)]
    if then == now:
        return []
    if name in ("X", "y", "first subset", "noise_variance", "sample_weight", "held-out rows"):
        return [f"{name} differs"]
    if name == "seed":
        return ["random_state differs"]
    if name == "data":
        return ["the number of models differs"]
    if name == "shape":
        return [f"{then} rows, columns and targets then, {now} now"]
    return [f"{name}={then!r:.80} then, {now!r:.80} now"]


def _packed(prefix: str, snapshot: Snapshot, step: Step) -> dict[str, Tensor]:
    numbers = {id(parameter): i for i, parameter in enumerate(step.parameters)}
    tensors = {f"{prefix}.{i}": value for i, value in enumerate(snapshot.values)}
    for parameter, state in snapshot.optimizer.items():
        tensors |= {f"{prefix}.{numbers[id(parameter)]}.{key}": value for key, value in state.items()}
    return tensors


def _unpacked(prefix: str, tensors: Mapping[str, Tensor], step: Step) -> Snapshot:
    """A snapshot from a checkpoint, every tensor with the shape, type and device of what it will replace.

    Adam allocates its state at the first step; if there was none yet, it is allocated here.
    """
    snapshot = Snapshot(step.parameters, step.optimizer)
    snapshot.optimizer = {}
    for i, parameter in enumerate(step.parameters):
        _copy(snapshot.values[i], tensors[f"{prefix}.{i}"])
        start = f"{prefix}.{i}."
        kept = {name.removeprefix(start): value for name, value in tensors.items() if name.startswith(start)}
        if not kept:
            continue
        state = step.optimizer.state[parameter]
        for key, value in kept.items():
            if key not in state:
                state[key] = torch.zeros_like(value if value.dim() == 0 else parameter, device=parameter.device)
        snapshot.optimizer[parameter] = {key: state[key].clone() for key in kept}
        for key, value in kept.items():
            _copy(snapshot.optimizer[parameter][key], value)
    return snapshot


def _copy(target: Tensor, value: Tensor) -> None:
    if target.shape != value.shape or target.dtype != value.dtype:
        raise ValueError(f"{list(value.shape)} {value.dtype} in the place of {list(target.shape)} {target.dtype}")
    with torch.no_grad():
        target.copy_(value)


def _others(step: Step) -> dict[str, Tensor]:
    """What a step changes besides its parameters and its optimiser."""
    others: dict[str, Tensor] = getattr(step, "others", {})
    return others


def _type_of(callback: Callback) -> str:
    return f"{type(callback).__module__}.{type(callback).__qualname__}"


def _callback_state(callback: Callback) -> dict[str, Any] | None:
    """The state of a callback that has one which JSON can hold."""
    if not (hasattr(callback, "state") and hasattr(callback, "restore")):
        return None
    state = callback.state()
    try:
        json.dumps(state, allow_nan=False)
    except (TypeError, ValueError) as error:
        warnings.warn(
            f"the state of the callback {_type_of(callback)} is not kept in checkpoints: {error!s:.200}",
            CheckpointWarning,
            stacklevel=2,
        )
        return None
    return {"type": _type_of(callback), "state": state}
