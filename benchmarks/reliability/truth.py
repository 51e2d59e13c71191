"""How much is lost where the best possible score is known: fits of generated rows, against the density they came from.

python -m benchmarks.reliability.truth --jobs 2                 every distribution with every way to fit it
python -m benchmarks.reliability.truth --ways default --laws "noise 1e-6"

Scores are of 2,000 fresh rows. *Lost* is the mean log density of the truth minus the model's, in nats a row.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from scipy import stats

from benchmarks.paper.machine import origin
from sodgp import DeepGPRegressor
from sodgp.errors import SodgpError, SodgpWarning
from sodgp.system.validation import FloatArray

__all__ = ["LAWS", "WAYS", "Law", "main", "measure", "table"]

RESULTS = Path(__file__).parents[1] / "results" / "reliability-truth.json"
N_ROWS, N_NEW = 600, 2000


def smooth(X: FloatArray) -> FloatArray:
    """A function that one GP follows: one bump and one slope, spread about 1."""
    return np.sin(3.0 * X[:, 0]) + X[:, 1]


def rough(X: FloatArray) -> FloatArray:
    """Twenty periods over the range of the first input."""
    return np.sin(20.0 * np.pi * X[:, 0])


def jump(X: FloatArray) -> FloatArray:
    """A step, smooth on either side."""
    return np.where(X[:, 0] > 0.2, 2.0, -1.0) + 0.3 * X[:, 1]


def nothing(X: FloatArray) -> FloatArray:
    """No signal at all."""
    return np.zeros(len(X))


@dataclass(frozen=True)
class Law:
    """Where rows come from: a function of two uniform inputs, and the distribution of y around it (of SciPy)."""

    function: Callable[[FloatArray], FloatArray]
    around: Callable[[FloatArray, FloatArray], Any]

    def rows(self, n: int, seed: int) -> tuple[FloatArray, FloatArray, Any]:
        """X [n, 2], y [n] and the true distribution of y."""
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1.0, 1.0, size=(n, 2))
        truth = self.around(self.function(X), X)
        return X, truth.rvs(random_state=rng), truth


class _ZeroInflated:
    """A share of rows around zero, the others around f."""

    def __init__(self, f: FloatArray) -> None:
        self.f = f

    def rvs(self, random_state: np.random.Generator) -> FloatArray:
        zero = random_state.random(len(self.f)) < 0.4
        return np.where(zero, 0.0, self.f) + 0.02 * random_state.standard_normal(len(self.f))

    def logpdf(self, y: FloatArray) -> FloatArray:
        at_zero, at_f = stats.norm.logpdf(y, 0.0, 0.02), stats.norm.logpdf(y, self.f, 0.02)
        return np.logaddexp(np.log(0.4) + at_zero, np.log(0.6) + at_f)


LAWS = {
    "noise 1e-6": Law(smooth, lambda f, X: stats.norm(f, 1e-6)),
    "noise 1e-3": Law(smooth, lambda f, X: stats.norm(f, 1e-3)),
    "noise 0.1": Law(smooth, lambda f, X: stats.norm(f, 0.1)),
    "noise 1": Law(smooth, lambda f, X: stats.norm(f, 1.0)),
    "no signal": Law(nothing, lambda f, X: stats.norm(f, 1.0)),
    "a jump": Law(jump, lambda f, X: stats.norm(f, 0.1)),
    "twenty periods": Law(rough, lambda f, X: stats.norm(f, 0.1)),
    "heteroscedastic": Law(smooth, lambda f, X: stats.norm(f, 0.05 * np.exp(2.0 * X[:, 0]))),
    "lognormal": Law(smooth, lambda f, X: stats.lognorm(s=0.5, scale=np.exp(f))),
    "Student-t, 3 degrees": Law(smooth, lambda f, X: stats.t(3.0, f, 0.1)),
    "Cauchy": Law(smooth, lambda f, X: stats.cauchy(f, 0.1)),
    "zero-inflated": Law(lambda X: 2.0 + smooth(X), lambda f, X: _ZeroInflated(f)),
}

# Ways to fit, and the laws that they are meant for; None: all.
WAYS: dict[str, tuple[dict[str, Any], tuple[str, ...] | None]] = {
    "quick": ({"effort": "quick"}, None),
    "default": ({}, None),
    "heteroscedastic": ({"likelihood": "heteroscedastic"}, ("heteroscedastic",)),
    "student_t": ({"likelihood": "student_t"}, ("Student-t, 3 degrees", "Cauchy")),
    "heavy_tailed": ({"likelihood": "heavy_tailed"}, ("Student-t, 3 degrees", "Cauchy")),
}


def measure(law: str, way: str, seed: int) -> dict[str, Any]:
    """One fit, and its scores against the truth."""
    X, y, _ = LAWS[law].rows(N_ROWS, seed)
    X_new, y_new, truth = LAWS[law].rows(N_NEW, 10_000 + seed)
    found: dict[str, Any] = {"law": law, "way": way, "seed": seed, "truth": -float(truth.logpdf(y_new).mean())}
    began = time.process_time()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            model = DeepGPRegressor(random_state=seed, n_threads=1, **WAYS[way][0]).fit(X, y)
        except SodgpError as error:
            return {**found, "error": str(error)}
    found["seconds"] = time.process_time() - began
    found["warnings"] = sorted({str(w.message) for w in said if issubclass(w.category, SodgpWarning)})
    predicted = model.predict_distribution(X_new)
    found["nlpp"] = -float(predicted.log_prob(y_new).mean())
    error = predicted.mean - LAWS[law].function(X_new)
    if law not in ("lognormal", "zero-inflated"):
        found["rmse_of_f"] = float(np.sqrt(np.mean(error**2)))
    for share in (0.5, 0.9):
        low, high = predicted.quantile([0.5 - share / 2, 0.5 + share / 2])
        found[f"coverage_{round(100 * share)}"] = float(((y_new >= low) & (y_new <= high)).mean())
    return found


def table(fits: list[dict[str, Any]]) -> str:
    """Means over the seeds, in Markdown."""
    lines = [
        "| rows from | fitted as | NLPP | the truth's | lost | RMSE of f | 50 % covers | 90 % covers | CPU s |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for law in LAWS:
        for way in WAYS:
            mine = [fit for fit in fits if (fit["law"], fit["way"]) == (law, way) and "nlpp" in fit]
            if mine:
                mean = {name: np.mean([fit[name] for fit in mine]) for name, v in mine[0].items() if type(v) is float}
                rmse = f"{mean['rmse_of_f']:.2g}" if "rmse_of_f" in mean else "-"
                lines.append(
                    f"| {law} | {way} | {mean['nlpp']:.2f} | {mean['truth']:.2f} | {mean['nlpp'] - mean['truth']:.2f} |"
                    f" {rmse} | {100 * mean['coverage_50']:.0f} % | {100 * mean['coverage_90']:.0f} % |"
                    f" {mean['seconds']:.1f} |"
                )
    failed = [f"* {fit['law']}, {fit['way']}, seed {fit['seed']}: {fit['error']}" for fit in fits if "error" in fit]
    return "\n".join([*lines, *(["", *failed] if failed else [])])


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--laws", nargs="+", choices=list(LAWS), default=list(LAWS), metavar="LAW")
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS), metavar="WAY")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    wanted = [
        (law, way, seed)
        for law in given.laws
        for way in given.ways
        if WAYS[way][1] is None or law in WAYS[way][1]
        for seed in range(given.seeds)
    ]
    fits = joblib.Parallel(n_jobs=given.jobs)(joblib.delayed(measure)(*one) for one in wanted)
    command = "python -m benchmarks.reliability.truth"
    about = {"command": command, "origin": origin(torch.device("cpu")), "fits": fits}
    given.out.write_text(json.dumps(about, indent=0) + "\n", encoding="utf-8")
    said = f"# Against the truth\n\n`{command}` ({N_ROWS} rows, {given.seeds} seeds)\n\n{table(fits)}\n"
    given.out.with_suffix(".md").write_text(said, encoding="utf-8")
    print(table(fits))
    return 0


if __name__ == "__main__":
    sys.exit(main())
