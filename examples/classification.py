"""Two classes that interlock like bananas: the boundary between them, and where the model is not sure of it.

python examples/classification.py
"""

from __future__ import annotations

import argparse

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from sodgp import DeepGPClassifier
from sodgp.evaluation import evaluate
from sodgp.plots import plot_reliability


def bananas(rows: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Points along two noisy arcs, and the name of their arc."""
    rng = np.random.default_rng(seed)
    is_lower = rng.random(rows) < 0.5
    angle = np.pi * rng.random(rows)
    x = np.where(is_lower, 1.0 - np.cos(angle), np.cos(angle))
    y = np.where(is_lower, 0.5 - np.sin(angle), np.sin(angle))
    X = np.stack([x, y], axis=1) + 0.25 * rng.standard_normal((rows, 2))
    return X, np.where(is_lower, "lower", "upper")


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Scores on rows that the model has not seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--iterations", type=int, default=600)
    parser.add_argument("--out", default="classification.png")
    options = parser.parse_args(arguments)

    X, y = bananas(options.rows, seed=0)
    X_test, y_test = bananas(2000, seed=1)
    model = DeepGPClassifier(n_layers=2, max_iter=options.iterations, random_state=0).fit(X, y)
    evaluation = evaluate(model, X_test, y_test)
    scores = evaluation.scores()
    for name in ("log_loss", "accuracy", "ece"):
        print(f"{name}: {scores[name].value:.3f} ({scores[name].low:.3f} to {scores[name].high:.3f})")

    ends = np.linspace(-3.0, 4.0, 90), np.linspace(-2.5, 3.0, 70)
    grid = np.stack(np.meshgrid(*ends), axis=-1)
    dist = model.predict_distribution(grid.reshape(-1, 2))
    p, spread = (values[:, 1].reshape(grid.shape[:2]) for values in (dist.mean, dist.std))

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 4.4), layout="constrained")
    for ax, values, title, colours in (
        (left, p, "probability of the upper arc", "RdBu"),
        (middle, spread, "standard deviation of that probability", "Greys"),
    ):
        shades = ax.pcolormesh(
            *ends, values, cmap=colours, shading="gouraud", vmin=0.0, vmax=1.0 if ax is left else None
        )
        figure.colorbar(shades, ax=ax)
        ax.contour(*ends, p, levels=[0.5], colors="black", linewidths=2)
        ax.contour(*ends, p, levels=[0.1, 0.9], colors="black", linewidths=1, linestyles="dashed")
        for name, marker in (("lower", "o"), ("upper", "^")):
            rows = y == name
            ax.scatter(
                *X[rows].T, s=14, marker=marker, label=name, edgecolors="black", facecolors="white", linewidths=0.8
            )
        ax.set(title=title, xlabel="$x_1$", ylabel="$x_2$")
    left.legend(loc="upper right")
    plot_reliability(evaluation, ax=right)
    right.set_title("can the probabilities be trusted?")
    right.legend(loc="lower right")
    figure.savefig(options.out, dpi=90)
    plt.close(figure)
    return {name: score.value for name, score in scores.items()}


if __name__ == "__main__":
    main()
