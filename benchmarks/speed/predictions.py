"""Predictions of a fitted model, from one row to many: ``python -m benchmarks.speed.predictions``.

One shape, 3 layers with M = 100 and T = 50, 8 inputs; one CPU thread, float64. In one run, in interleaved rounds: the
means alone, means with standard deviations, the same by the method without what a model keeps between predictions, and
GPyTorch's deep GP as its tutorial builds it, at equal sizes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import gpytorch
import numpy as np
import torch

from benchmarks.paper.tutorial import TutorialDeepGP
from benchmarks.speed.machine import describe_machine, git_commit
from benchmarks.speed.measure import Timing, interleaved_rounds, warm_up
from sodgp import DeepGPRegressor
from sodgp.linalg.draws import FreshDraws, SharedDraws

N_INPUTS, N_LAYERS, SIZE, N_SAMPLES = 8, 3, 100, 50
ROWS = (1, 100, 1_000, 10_000)
CPU = torch.device("cpu")
# Rows that the peer predicts at once: fewer than the tutorial's 1,024, which takes it more than twice as long.
_CHUNK_ROWS = 100

NAMES = {
    "mean": "`predict(X)`",
    "std": "`predict(X, return_std=True)`",
    "anew": "that, with the subset drawn anew",
    "gpytorch": "GPyTorch",
}


def contestants(X: np.ndarray, size: int = SIZE) -> dict[str, Callable[[], object]]:
    """Predictions of X by each of `NAMES`; what a model knows does not change their time, so nothing is trained."""
    rng = np.random.default_rng(0)
    X_train = rng.standard_normal((10 * size, N_INPUTS))
    options = {"n_layers": N_LAYERS, "subset_size": size, "n_predict_samples": N_SAMPLES}
    model = DeepGPRegressor(**options, subset="random", max_iter=1, random_state=0).fit(X_train, np.sin(X_train[:, 0]))
    with torch.random.fork_rng(devices=[]):
        # GPyTorch draws its initial values from the global generator.
        torch.manual_seed(0)
        peer = TutorialDeepGP([N_INPUTS] * N_LAYERS, size).double().eval()
    rows = torch.from_numpy(X)

    def anew() -> object:
        # Nothing is kept for numbers that come from a generator.
        fresh = FreshDraws(torch.Generator().manual_seed(0), N_SAMPLES, dtype=rows.dtype)
        fitted = model.fitted_
        with torch.no_grad():
            predictor = fitted.method.predictor(fitted.model, fitted.X_s, fitted.y_s, fresh)
            return predictor.rows(rows.unsqueeze(0), SharedDraws(0, N_SAMPLES, dtype=rows.dtype))

    def gpytorch_prediction() -> object:
        with torch.no_grad(), gpytorch.settings.num_likelihood_samples(N_SAMPLES):
            parts = [peer.likelihood(peer(part)) for part in rows.split(_CHUNK_ROWS)]
            return [(part.mean.mean(0), part.variance.mean(0)) for part in parts]

    return {
        "mean": lambda: model.predict(X),
        "std": lambda: model.predict(X, return_std=True),
        "anew": anew,
        "gpytorch": gpytorch_prediction,
    }


def measure(n_rows: int, repeats: int, size: int = SIZE) -> dict[str, Timing]:
    """Milliseconds a prediction of so many rows."""
    calls = contestants(np.random.default_rng(1).standard_normal((n_rows, N_INPUTS)), size)
    return interleaved_rounds(calls, {name: warm_up(call, CPU) for name, call in calls.items()}, repeats, CPU)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.predictions")
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--size", type=int, default=SIZE, help="M")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    machine, git = describe_machine(CPU), git_commit()
    print(
        f"# Predictions\n\n`python -m benchmarks.speed.predictions`, commit {git.get('commit', 'unknown')[:7]}"
        f"{', changed' if git.get('changed') else ''}: {machine['cpu']}, one thread, torch {machine['torch']}; ms,"
        " medians over the rounds, and how many times `return_std` is faster\n"
    )
    print(f"| rows | {' | '.join(NAMES.values())} | than anew | than GPyTorch |\n|{'---|' * (len(NAMES) + 3)}")
    for n_rows in chosen.rows:
        times = {name: timing.median_ms for name, timing in measure(n_rows, chosen.repeats, chosen.size).items()}
        ratios = [f"{times[name] / times['std']:.1f}" for name in ("anew", "gpytorch")]
        print(f"| {n_rows} | {' | '.join(f'{times[name]:.1f}' for name in NAMES)} | {' | '.join(ratios)} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
