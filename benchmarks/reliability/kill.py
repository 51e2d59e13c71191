"""Kill -9 at random moments of training, over all inference methods: every resumed fit must end with the same bits.

python -m benchmarks.reliability.kill                          50 kills; about ten minutes on one core
python -m benchmarks.reliability.kill --kills 5 --cases sghmc  a few

For every case one process trains to the end. Then, for every kill, a process trains with a checkpoint every few steps
and is killed when it has used a random share of the CPU time that the whole fit took (not of the wall time: a
busy machine would shift all kills to the beginning). Every checkpoint in its folder must be whole, and a third process
resumes and trains to the end. Compared are the SHA-256 of all parameters and buffers, of the history but for its clock,
and of predictions. Processes are forks of this one, which saves the seconds that imports take; the first resume of
every case is a fresh interpreter.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import multiprocessing
import os
import platform
import random
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.records import estimator_of

RESULTS = Path(__file__).parents[1] / "results"
_SHARED = {"subset_size": 16, "n_samples": 3, "n_predict_samples": 8, "random_state": 0, "checkpoint_every": 5}
# By the names of `benchmarks.records`.
_SAMPLER = {"inference": "sghmc", "n_posterior_samples": 40, "thinning": 5, "learning_rate": 0.01}
CASES: dict[str, dict[str, Any]] = {
    "sod ancestral": {"batch_size": 60, "max_iter": 200},
    "sod marginal, paper family": {
        "coupling": "marginal",
        "parameterization": "paper",
        "tie_label_noise": False,
        "max_iter": 150,
    },
    "sod joint": {"coupling": "joint", "batch_size": 40, "max_iter": 150},
    "sod, three restarts": {"n_restarts": 3, "batch_size": 60, "max_iter": 500},
    "dsvi": {"inference": "dsvi", "batch_size": 60, "max_iter": 200},
    "svgp": {"inference": "dsvi", "n_layers": 1, "batch_size": 60, "max_iter": 300},
    "mean_field": {"inference": "mean_field", "max_iter": 80},
    "sghmc": {**_SAMPLER, "batch_size": 60, "max_iter": 150},
    "sghmc, two chains": {**_SAMPLER, "n_chains": 2, "max_iter": 120},
}


@dataclasses.dataclass
class Kill:
    """One kill and what came of it."""

    case: str
    after_seconds: float
    of_seconds: float
    checkpoints: list[dict[str, Any]]
    resumed_by: str
    same_bits: bool


def data() -> tuple[Any, Any]:
    """120 rows of a noisy function of three inputs."""
    import numpy as np

    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 3))
    return X, np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(120)


def estimator(case: str, folder: str | None, **changes: Any) -> Any:
    from sodgp import Checkpoint

    options = {**_SHARED, **CASES[case], **changes}
    every = options.pop("checkpoint_every")
    if options.get("inference") in ("sghmc", "mean_field"):
        options.pop("n_samples")
    return estimator_of({**options, "checkpoint": None if folder is None else Checkpoint(folder, every)})


def digest(model: Any) -> str:
    """SHA-256 of everything that a fit leaves behind, but for the clock."""
    history = dataclasses.asdict(model.history_)
    history.pop("seconds")
    found = hashlib.sha256(json.dumps(history, sort_keys=True).encode())
    for name, tensor in sorted(model.model_.state_dict().items()):
        found.update(name.encode() + tensor.contiguous().numpy().tobytes())
    found.update(model.predict(data()[0]).tobytes())
    return found.hexdigest()


def train(pipe: Any, case: str, folder: str | None, resume: bool, changes: dict[str, Any]) -> None:
    """Train in this process, and say when that begins and how it ends."""
    X, y = data()
    model = estimator(case, folder, **changes)
    pipe.send("begins")
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "there is no checkpoint")
        model.fit(X, y, resume=resume)
    pipe.send((time.process_time() - began, digest(model)))


def start(how: str, case: str, folder: str | None, changes: dict[str, Any], *, resume: bool = False) -> tuple[Any, Any]:
    """A process that has begun to train, a fork of this one or a fresh interpreter, and its end of a pipe."""
    context = multiprocessing.get_context(how)
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=train, args=(theirs, case, folder, resume, changes))  # type: ignore[attr-defined]
    process.start()
    theirs.close()
    if ours.recv() != "begins":
        raise RuntimeError(f"the process of {case!r} did not begin to train")
    return process, ours


def processor_seconds(number: int) -> float | None:
    """What a process has used so far, where the system says so in /proc; None for one that is over."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def trained(how: str, case: str, folder: str | None, changes: dict[str, Any], *, resume: bool = False) -> Any:
    """CPU seconds and digest of a fit in a process of its own; EOFError where it failed."""
    process, pipe = start(how, case, folder, changes, resume=resume)
    end = pipe.recv()
    process.join()
    return end


def whole_checkpoints(folder: str) -> list[dict[str, Any]]:
    """Every checkpoint in the folder, read and checked: its name and iteration."""
    from sodgp.training.checkpoint.folder import CheckpointFolder, _read

    found = []
    for file in CheckpointFolder(folder).files():
        record = _read(file)  # raises for one that is not whole
        course, extra = record.info["course"], record.info["extra"]
        found.append({"file": file.name, "iteration": course["iteration"], "transitions": extra.get("transitions", 0)})
    return found


def kill_once(
    case: str, whole: tuple[float, str], rng: random.Random, changes: dict[str, Any], *, victim: str, resumed: str
) -> Kill | None:
    """Train, kill, look, resume; None when training was over before the kill.

    `whole` is the time and the digest of the fit that nobody disturbed; `victim` and `resumed` say what kinds of
    process train and resume, "fork" or "spawn".
    """
    seconds, expected = whole
    with tempfile.TemporaryDirectory() as folder:
        moment = rng.uniform(0.0, seconds)
        process, pipe = start(victim, case, folder, changes)
        began = processor_seconds(process.pid)
        while (used := processor_seconds(process.pid)) is not None and used - (began or 0.0) < moment:
            time.sleep(0.002)
        process.kill()
        process.join()
        if process.exitcode != -signal.SIGKILL:
            return None
        pipe.close()
        there = whole_checkpoints(folder)
        _, found = trained(resumed, case, folder, changes, resume=True)
        return Kill(case, moment, seconds, there, resumed, found == expected)


def run(cases: list[str], kills: int, seed: int, keep: Callable[[list[Kill]], None]) -> list[Kill]:
    """So many kills, over the cases in turn; `keep` gets those so far after every one."""
    rng, quick = random.Random(seed), "fork" if hasattr(os, "fork") else "spawn"
    # Imports everything before the forks, which then need not.
    estimator(cases[0], None)
    data()
    whole = {case: trained(quick, case, None, {}) for case in cases}
    done: list[Kill] = []
    while len(done) < kills:
        case = cases[len(done) % len(cases)]
        # A fresh interpreter has other hashes, too, so each case has one such resume.
        resumed = "spawn" if len(done) < len(cases) else quick
        kill = kill_once(case, whole[case], rng, {}, victim=quick, resumed=resumed)
        if kill is not None:
            done.append(kill)
            keep(done)
            print(f"{len(done):3d} {case}: {kill.after_seconds:.1f} s, same bits: {kill.same_bits}", file=sys.stderr)
    return done


def table(kills: list[Kill]) -> str:
    """The result by case, in Markdown."""
    lines = ["| case | kills | before a first checkpoint | resumes with the same bits | checkpoints read, all whole |"]
    lines.append("|---|---:|---:|---:|---:|")
    for case in dict.fromkeys(kill.case for kill in kills):
        mine = [kill for kill in kills if kill.case == case]
        numbers = (
            len(mine),
            sum(not kill.checkpoints for kill in mine),
            sum(kill.same_bits for kill in mine),
            sum(len(kill.checkpoints) for kill in mine),
        )
        lines.append(f"| {case} | " + " | ".join(map(str, numbers)) + " |")
    lines.append(
        f"| all | {len(kills)} | {sum(not k.checkpoints for k in kills)} | {sum(k.same_bits for k in kills)} |"
        f" {sum(len(k.checkpoints) for k in kills)} |"
    )
    return "\n".join(lines)


def write(out: Path, command: str, kills: list[Kill]) -> None:
    """The result so far: JSON, and a table next to it."""
    import torch

    about = {"command": command, "python": platform.python_version(), "torch": torch.__version__}
    result = {**about, "kills": [dataclasses.asdict(kill) for kill in kills]}
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    said = f"# Kill -9 at random moments\n\n`{command}`\n\n{table(kills)}\n"
    out.with_suffix(".md").write_text(said, encoding="utf-8")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS / "reliability-kill.json")
    given = parser.parse_args()
    command = f"python -m benchmarks.reliability.kill --kills {given.kills} --seed {given.seed}"
    if given.cases != list(CASES):
        command += f" --cases {' '.join(repr(case) for case in given.cases)}"

    def keep(kills: list[Kill]) -> None:
        write(given.out, command, kills)

    kills = run(given.cases, given.kills, given.seed, keep)
    print(table(kills))
    return int(not all(kill.same_bits for kill in kills))


if __name__ == "__main__":
    sys.exit(main())
