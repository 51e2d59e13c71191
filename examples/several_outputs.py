"""Three targets from one model: they share the hidden layers and are independent given them.

python examples/several_outputs.py
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from sodgp import DeepGPRegressor
from sodgp.evaluation import evaluate


def robot_arm(n: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Where the hand of an arm with two joints is, and how far from the shoulder, by its joint angles."""
    rng = np.random.default_rng(seed)
    shoulder, elbow = rng.uniform(-np.pi, np.pi, size=(2, n))
    x = np.cos(shoulder) + 0.7 * np.cos(shoulder + elbow)
    y = np.sin(shoulder) + 0.7 * np.sin(shoulder + elbow)
    targets = {"x": x, "y": y, "reach": np.hypot(x, y)}
    noisy = {name: values + 0.02 * rng.standard_normal(n) for name, values in targets.items()}
    return pd.DataFrame({"shoulder": shoulder, "elbow": elbow}), pd.DataFrame(noisy)


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Fit all targets together, print the scores of each; the RMSE of each target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--iterations", type=int, default=500)
    options = parser.parse_args(arguments)

    X, Y = robot_arm(options.rows, seed=0)
    X_test, Y_test = robot_arm(300, seed=1)
    model = DeepGPRegressor(n_layers=2, max_iter=options.iterations, random_state=0).fit(X, Y)
    evaluation = evaluate(model, X_test, Y_test)
    found = {}
    for number, target in enumerate(Y.columns):
        result = evaluation.scores(number)
        found[target] = result["rmse"].value
        inside = result["coverage_90"]
        print(
            f"{target:>6}: RMSE {result['rmse'].value:.3f} [{result['rmse'].low:.3f}, {result['rmse'].high:.3f}], "
            f"90 % interval holds {inside.value:.0%}"
        )
    return found


if __name__ == "__main__":
    main()
