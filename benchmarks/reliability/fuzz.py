"""Damaged model files: loading gives a typed error or an equal model, and never a crash, a hang, or much memory.

python -m benchmarks.reliability.fuzz               20,000 cases; about 5 minutes on one core
python -m benchmarks.reliability.fuzz --cases 900   a few

Every case is fixed by its number and the seed. Loading runs under a limit on the address space (1 GB more than the
process has), a timer, and an audit hook that notes whatever would be code execution; a worker process takes the cases,
so that a crash of the interpreter is seen too.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reliability.mutations import SIGNED, UNSIGNED, signed
from sodgp import DeepGPRegressor
from sodgp.errors import ModelFileError, SodgpError
from sodgp.estimator.files.record_fields import encode_parameters
from sodgp.estimator.files.records import load_any
from sodgp.system.container import FORMAT, FORMAT_VERSION, read_record

FIXTURES = Path(__file__).parents[2] / "tests" / "fixtures"
RESULTS = Path(__file__).parents[1] / "results"
MEMORY = 10**9
SECONDS = 5.0
# Raised by the interpreter when code comes from elsewhere, or leaves for elsewhere.
_EXECUTION = (
    "exec",
    "compile",
    "import",
    "os.system",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "subprocess.Popen",
    "pickle.find_class",
    "marshal.loads",
    "ctypes.dlopen",
    "socket.connect",
    "os.remove",
    "os.rename",
)


class HangError(Exception):
    """A case took too long."""


class Watch:
    """An audit hook, which cannot be taken away again, but sleeps unless `events` is a list."""

    events: list[str] | None = None
    is_there = False

    @classmethod
    def start(cls) -> None:
        """Install the hook once."""
        if not cls.is_there:
            sys.addaudithook(cls._hook)
            cls.is_there = True

    @classmethod
    def _hook(cls, event: str, arguments: tuple[Any, ...]) -> None:
        if cls.events is not None and event in _EXECUTION:
            cls.events.append(f"{event} {str(arguments)[:100]}")


@contextmanager
def guarded(seconds: float = SECONDS) -> Iterator[None]:
    """A timer around a block."""

    def too_long(number: int, frame: Any) -> None:
        raise HangError(f"more than {seconds:g} seconds")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


class Base:
    """A sound file and what a model from it is."""

    def __init__(self, path: Path) -> None:
        self.name, record = path.name, read_record(path)
        self.content = signed({"format": FORMAT, **record.info}, record.tensors)
        self.model = load_any(path)
        self.kind = type(self.model)
        self.n_features = self.model.n_features_in_
        self.answer = answer(self.model, self.n_features)
        self.options = options(self.model)


def answer(model: Any, n_features: int) -> Any:
    """Mean and standard deviation at two rows; of classes those of their probabilities."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = np.linspace(-1.0, 50.0, 2 * n_features).reshape(2, -1)
        if isinstance(model, DeepGPRegressor):
            return np.stack(model.predict(rows, return_std=True))
        dist = model.predict_distribution(rows)
        return np.stack([dist.mean, dist.std])


def options(model: Any) -> str:
    """Everything else that a file says, as text."""
    dims = [layer.mean.weight.shape[-2] for layer in model.model_.layers]
    return json.dumps([encode_parameters(model, dims), vars(model.history_)], sort_keys=True, default=str)


def judge(base: Base, kind: str, path: Path) -> tuple[str, str]:
    """Load a damaged file: (verdict, detail). Verdicts that begin with "bad" break the promise."""
    Watch.events = []
    try:
        with guarded():
            model = base.kind.load(path)
    except ModelFileError:
        return ("bad: code", str(Watch.events)) if Watch.events else ("refused", "")
    except Exception as error:
        return f"bad: {type(error).__name__} in load", str(error)[:200]
    finally:
        events, Watch.events = Watch.events, None
    if events:
        return "bad: code", str(events)
    try:
        with guarded():
            found = answer(model, model.n_features_in_)
    except SodgpError:
        return ("loaded, prediction refused", "") if kind in SIGNED else ("bad: prediction refused", "")
    except Exception as error:
        return f"bad: {type(error).__name__} in predict", str(error)[:200]
    if kind in SIGNED:
        return ("loaded, finite", "") if np.isfinite(found).all() else ("bad: prediction not finite", "")
    if np.array_equal(found, base.answer) and options(model) == base.options:
        return "equal", ""
    return "bad: another model", ""


def fuzz(cases: range, seed: int, bases: list[Base], folder: Path) -> dict[str, Any]:
    """Judge these cases; what was found, counted."""
    kinds = [*UNSIGNED.items(), *SIGNED.items()]
    counts: Counter[str] = Counter()
    bad: list[dict[str, Any]] = []
    slowest = 0.0
    path = folder / "m.sodgp"
    Watch.start()
    for case in cases:
        rng = np.random.default_rng([seed, case])
        base = bases[rng.integers(len(bases))]
        kind, mutate = kinds[case % len(kinds)]
        path.write_bytes(mutate(rng, base.content))
        began = time.perf_counter()
        verdict, detail = judge(base, kind, path)
        slowest = max(slowest, time.perf_counter() - began)
        counts[f"{kind}|{verdict}"] += 1
        if verdict.startswith("bad"):
            bad.append({"case": case, "file": base.name, "kind": kind, "verdict": verdict, "detail": detail})
    return {"counts": dict(counts), "bad": bad, "slowest_seconds": slowest}


def all_bases() -> list[Base]:
    """Every model file of the tests, in the present format."""
    stem = f"model-v{FORMAT_VERSION}"
    names = json.loads((FIXTURES / f"{stem}-predictions.json").read_text(encoding="utf-8"))["files"]
    return [Base(FIXTURES / f"{stem}-{name}") for name in names]


def limited(extra: int = MEMORY) -> int:
    """Let this process take `extra` bytes more address space than it has, and no more; returns what it has."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    now = 1024 * int(fields["VmSize"].split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (now + extra, resource.getrlimit(resource.RLIMIT_AS)[1]))
    return now


def worker(first: int, last: int, seed: int) -> dict[str, Any]:
    """Judge a stretch of cases under the memory limit; for a process of its own."""
    bases = all_bases()
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        limited()
        found = fuzz(range(first, last), seed, bases, Path(folder))
    found["peak_growth_mb"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return found


def child(first: int, last: int, seed: int) -> dict[str, Any]:
    """A stretch of cases in a process of its own; one that dies is a crash."""
    call = f"fuzz.worker({first}, {last}, {seed})"
    code = f"import json; from benchmarks.reliability import fuzz; print(json.dumps({call}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        lost = {
            "case": first,
            "kind": "any",
            "verdict": f"bad: exit status {done.returncode}",
            "detail": done.stderr[-500:],
        }
        return {
            "counts": {"any|bad: crash": last - first},
            "bad": [lost],
            "slowest_seconds": 0.0,
            "peak_growth_mb": 0.0,
        }
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def run(cases: int, seed: int, stretch: int = 2500) -> dict[str, Any]:
    """All cases."""
    counts: Counter[str] = Counter()
    total: dict[str, Any] = {"cases": cases, "bad": [], "slowest_seconds": 0.0, "peak_growth_mb": 0.0}
    for first in range(0, cases, stretch):
        found = child(first, min(first + stretch, cases), seed)
        counts.update(found["counts"])
        total["bad"] += found["bad"]
        for name in ("slowest_seconds", "peak_growth_mb"):
            total[name] = max(total[name], found[name])
        print(f"{min(first + stretch, cases)} cases, {len(total['bad'])} bad", file=sys.stderr)
    return {**total, "counts": dict(sorted(counts.items()))}


def table(found: dict[str, Any]) -> str:
    """Verdicts by kind of damage, in Markdown."""
    verdicts = sorted({name.split("|")[1] for name in found["counts"]})
    lines = ["| damage | " + " | ".join(verdicts) + " |", "|---|" + "---:|" * len(verdicts)]
    for kind in [*UNSIGNED, *SIGNED]:
        numbers = [found["counts"].get(f"{kind}|{verdict}", 0) for verdict in verdicts]
        lines.append(f"| {kind} | " + " | ".join(map(str, numbers)) + " |")
    return "\n".join(lines)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS / "reliability-fuzz.json")
    given = parser.parse_args()
    began = time.perf_counter()
    found = run(given.cases, given.seed)
    import safetensors
    import torch

    command = f"python -m benchmarks.reliability.fuzz --cases {given.cases} --seed {given.seed}"
    versions = {"python": platform.python_version(), "torch": torch.__version__, "safetensors": safetensors.__version__}
    about = {"command": command, **versions, "format": FORMAT_VERSION, "seconds": round(time.perf_counter() - began)}
    given.out.write_text(json.dumps({**about, **found}, indent=1) + "\n", encoding="utf-8")
    said = (
        f"# Fuzzed model files\n\n`{command}`\n\n{found['cases']} cases on files of format {FORMAT_VERSION},"
        f" {len(found['bad'])} that break the promise; slowest {found['slowest_seconds']:.2f} s, peak memory grew by"
        f" {found['peak_growth_mb']:.0f} MB (limit 1,000).\n\n{table(found)}\n\n"
        "*Signed* damage comes with a checksum that fits, so another model is a right answer there, if its"
        " predictions are finite or refused with a typed error. Elsewhere only a typed error (*refused*) or an *equal*"
        " model will do.\n"
    )
    given.out.with_suffix(".md").write_text(said, encoding="utf-8")
    print(said)
    return int(bool(found["bad"]))


if __name__ == "__main__":
    sys.exit(main())
