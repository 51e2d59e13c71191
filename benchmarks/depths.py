"""When is a second layer worth its time? ``python -m benchmarks.depths --jobs 16``; run it again to go on.

For every set and split: validation scores of one and of two layers (`DeepGPRegressor(n_layers=...)`, else the
defaults), by how much, in nats a row, the objective of two layers is above that of one, which is what decides the
default number of layers, and the same for the collapsed objective after shorter fits. The margin was chosen from the
table that this writes: no test row is seen.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from benchmarks.accuracy.cells import store
from benchmarks.paper.splits import Split
from benchmarks.processes import in_fresh_processes
from benchmarks.time_to_accuracy.contestants import CONTESTANTS, Contestant
from benchmarks.time_to_accuracy.sets import split_of
from sodgp import DeepGPRegressor, SoD
from sodgp.inference.contract import Inference, TrainingSet
from sodgp.predictive import metrics
from sodgp.system.validation import FloatArray
from sodgp.training.restart.comparison import bound_of

_RESULTS = Path(__file__).resolve().parent / "results" / "depths"
_SCORED_ROWS = 1000


class Short(NamedTuple):
    """A short fit: rows of the subset, Monte Carlo samples, steps."""

    size: int
    samples: int
    steps: int

    def __str__(self) -> str:
        return f"M={self.size} T={self.samples} {self.steps} steps"


SHORT = (Short(50, 3, 30), Short(50, 3, 60), Short(50, 10, 60), Short(100, 3, 60), Short(100, 10, 155))
FITS = {"1 layer": {"n_layers": 1}, "1 layer, M=200": {"n_layers": 1, "subset_size": 200}, "2 layers": {"n_layers": 2}}


def _drawn(rows: int, seed: int, law: Callable[[FloatArray, np.random.Generator], FloatArray], columns: int) -> Split:
    """Rows of a known law, and 1,000 more to score, from one stream: every split has a law of its own."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(rows + _SCORED_ROWS, columns))
    y = law(X, rng)
    return Split(X[:rows], y[:rows], X[rows:], y[rows:])


def _of_a_gp(X: FloatArray, rng: np.random.Generator) -> FloatArray:
    """One draw of a GP, as a combination of 400 kernels, with noise."""
    centres = rng.uniform(-1.0, 1.0, size=(400, X.shape[1]))
    f = RBF(0.6)(X, centres) @ rng.normal(size=400)
    return f / f.std() + 0.3 * rng.normal(size=len(X))


def _linear(X: FloatArray, rng: np.random.Generator) -> FloatArray:
    return X @ rng.normal(size=X.shape[1]) + rng.normal(size=len(X))


def _warped(X: FloatArray, rng: np.random.Generator) -> FloatArray:
    """A function that moves fast in one corner and not at all elsewhere."""
    u = X @ rng.normal(size=X.shape[1]) / math.sqrt(X.shape[1])
    return np.sin(6.0 * np.exp(2.0 * u)) + X[:, 0] + 0.1 * rng.normal(size=len(X))


_LAWS = {"gp": (_of_a_gp, 4), "linear": (_linear, 6), "warped": (_warped, 3)}
SETS = (
    *("boston", "energy", "concrete", "winered", "naval", "protein", "diabetes", "friedman1", "step"),
    *("energy-280", "concrete-280", "friedman1-280", "gp-300", "gp-1000", "linear-300", "warped-300", "warped-1000"),
)


def rows_of(name: str, split: int) -> Split:
    """Training and validation rows; `NAME-280` are so many of the training rows."""
    base, _, count = name.partition("-")
    if base in _LAWS:
        law, columns = _LAWS[base]
        return _drawn(int(count), split, law, columns)
    found = split_of(base, split, "validation")
    if not count:
        return found
    few = np.random.default_rng(split).permutation(len(found.y_train))[: int(count)]
    return replace(found, X_train=found.X_train[few], y_train=found.y_train[few])


def compute(name: str, split: int) -> dict[str, Any]:
    """Scores of both depths and of an exact GP, and what short fits say."""
    rows, seed = rows_of(name, split), 100 * split
    record: dict[str, Any] = {"set": name, "split": split, "rows": len(rows.y_train), "fits": {}, "short": {}}
    CONTESTANTS["exact"].warm_up()
    models = {}
    for label, options in FITS.items():
        model = models[label] = DeepGPRegressor(random_state=seed, verbose=0, device="cpu", **options)
        record["fits"][label] = _scored(lambda m=model: m.fit(rows.X_train, rows.y_train).predict_distribution, rows)
    shallow, deep = models["1 layer"], models["2 layers"]
    record["gain"] = _value(deep, deep.inference_, 10) - _value(shallow, deep.inference_, 10)
    exact: Contestant = CONTESTANTS["exact"]
    record["fits"]["exact GP"] = _scored(lambda: next(exact.run(rows, exact.options, seed, None, ())), rows)  # type: ignore[arg-type]
    for short in SHORT:
        values, began = {}, time.process_time()
        for n_layers in (1, 2):
            values[n_layers] = _objective(rows, short, n_layers, seed)
        record["short"][str(short)] = {"values": list(values.values()), "seconds": time.process_time() - began}
    return record


def _scored(fit: Callable[[], Any], rows: Split) -> dict[str, float]:
    began = time.process_time()
    predict = fit()
    seconds = time.process_time() - began
    found = metrics.scores(rows.y_test, predict(rows.X_test))
    return {"seconds": seconds, **{key: found[key] for key in ("nlpp", "crps", "rmse", "coverage_90")}}


def _objective(rows: Split, short: Short, n_layers: int, seed: int) -> float:
    """The collapsed objective after a short fit, in nats a row."""
    model = DeepGPRegressor(
        inference=SoD(objective="collapsed"),
        n_layers=n_layers,
        subset_size=min(short.size, (len(rows.y_train) + 1) // 2),
        n_samples=short.samples,
        max_iter=short.steps,
        random_state=seed,
        verbose=0,
        device="cpu",
    ).fit(rows.X_train, rows.y_train)
    return _value(model, model.inference_, 20)


def _value(model: DeepGPRegressor, method: Inference, n_samples: int) -> float:
    """The objective of this method for a fitted model, in nats a row."""
    state, size = model.fitted_, model.subset_size_
    X, y = state.X_s[0], state.y_s[0]
    data = TrainingSet(X[:size], y[:size], X[size:], y[size:])
    return bound_of(state.model, method, data, None, batch_rows=len(X), n_samples=n_samples, seed=0) / len(X)


def markdown(records: Sequence[dict[str, Any]]) -> str:
    """For every set, over the splits: what depth is worth on validation rows, and what short fits say of it."""
    first = next(iter(records))
    shorts, fits = list(first["short"]), list(first["fits"])
    lines = [
        "# Depth",
        "Validation rows, means over splits. First NLPP (CRPS) [CPU seconds] of each fit; then nats a row by which the"
        " objective of two layers is above that of one, lowest and highest of all splits: of these fits, which decides"
        " the default number of layers, and the collapsed one after shorter fits [CPU seconds of both].",
        f"| set | splits | {' | '.join(fits)} | these fits | {' | '.join(shorts)} |",
        f"|---|---|---|{'---|' * (len(fits) + len(shorts))}",
    ]
    for name in SETS:
        own = [record for record in records if record["set"] == name]
        if not own:
            continue
        cells = [_mean_scores([record["fits"][label] for record in own]) for label in fits]
        found = [record["gain"] for record in own if "gain" in record]
        cells.append(f"{min(found):.3f} to {max(found):.3f}" if found else "-")
        for short in shorts:
            gains = [values[1] - values[0] for values in (record["short"][short]["values"] for record in own)]
            seconds = float(np.mean([record["short"][short]["seconds"] for record in own]))
            cells.append(f"{min(gains):.3f} to {max(gains):.3f} [{seconds:.1f}]")
        lines.append(f"| {name} | {len(own)} | {' | '.join(cells)} |")
    return "\n\n".join(lines[:2]) + "\n\n" + "\n".join(lines[2:]) + "\n"


def _mean_scores(fits: Sequence[dict[str, float]]) -> str:
    nlpp, crps, seconds = (float(np.mean([fit[key] for fit in fits])) for key in ("nlpp", "crps", "seconds"))
    return f"{nlpp:.3f} ({crps:.4g}) [{seconds:.1f}]"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, and write the table."""
    parser = argparse.ArgumentParser("python -m benchmarks.depths", description=__doc__)
    parser.add_argument("--data", nargs="+", choices=SETS, default=list(SETS), metavar="SET")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time, each with one thread")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no cell after these")
    parser.add_argument("--out", type=Path, default=_RESULTS)
    options = parser.parse_args(arguments)
    cells = [(name, split) for split in range(options.splits) for name in options.data]
    missing = [cell for cell in cells if not _is_done(_path(options.out, *cell))]
    for number, record in in_fresh_processes(compute, missing, jobs=options.jobs, minutes=options.minutes):
        if isinstance(record, str):
            print(*missing[number], record, file=sys.stderr, flush=True)
            continue
        store(record, _path(options.out, *missing[number]))
        print(*missing[number], f"{sum(fit['seconds'] for fit in record['fits'].values()):.0f} s", flush=True)
    records = [json.loads(path.read_text()) for path in sorted(options.out.glob("*.json"))]
    if records:
        report = markdown(records)
        (options.out / "depths.md").write_text(report)
        print(report)
    return 0


def _is_done(path: Path) -> bool:
    """Whether there is a result with everything that is measured now."""
    return path.exists() and "gain" in json.loads(path.read_text())


def _path(out: Path, name: str, split: int) -> Path:
    return out / f"{name}-{split}.json"


if __name__ == "__main__":
    sys.exit(main())
