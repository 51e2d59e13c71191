"""Classes: two arcs that interlock.

`DeepGPClassifier` gives probabilities, and how far each probability itself may be off.
A 50 % on the boundary means that both classes occur there; a 50 % far from all data
means that nobody knows.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from sodgp import DeepGPClassifier, evaluate
from sodgp.plots import plot_reliability

STEPS = int(os.environ.get("STEPS", "600"))


def arcs(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points along two noisy arcs, and the name of their arc."""
    rng = np.random.default_rng(seed)
    is_lower, angle = rng.random(rows) < 0.5, np.pi * rng.random(rows)
    x = np.where(is_lower, 1.0 - np.cos(angle), np.cos(angle))
    y = np.where(is_lower, 0.5 - np.sin(angle), np.sin(angle))
    X = np.stack([x, y], axis=1) + 0.25 * rng.standard_normal((rows, 2))
    return X, np.where(is_lower, "lower", "upper")


X, y = arcs(200, seed=0)
X_test, y_test = arcs(2000, seed=1)

# %%
model = DeepGPClassifier(n_layers=2, max_iter=STEPS, random_state=0).fit(X, y)
print(model.classes_, model.predict_proba(X_test[:3]).round(3), sep="\n")

# %%
# Scores on 2,000 other rows. `ece` is the mean distance between a probability and how
# often it comes true.
found = evaluate(model, X_test, y_test)
scores = {name: found.scores()[name].value for name in ("log_loss", "accuracy", "ece")}
print(scores)

# %%
# Left: the probability, with the boundary at 50 % and dashed lines at 10 % and 90 %.
# Middle: the standard deviation of that probability. It is small among the rows and
# grows where there are none.
ends = np.linspace(-3.0, 4.0, 90), np.linspace(-2.5, 3.0, 70)
grid = np.stack(np.meshgrid(*ends), axis=-1)
dist = model.predict_distribution(grid.reshape(-1, 2))
p, spread = (values[:, 1].reshape(grid.shape[:2]) for values in (dist.mean, dist.std))

figure, (left, middle, right) = plt.subplots(
    1, 3, figsize=(14, 4.2), layout="constrained"
)
for ax, values, title, colours in (
    (left, p, "probability of the upper arc", "RdBu"),
    (middle, spread, "standard deviation of that probability", "Greys"),
):
    shades = ax.pcolormesh(
        *ends,
        values,
        cmap=colours,
        shading="gouraud",
        vmin=0.0,
        vmax=1.0 if ax is left else None,
    )
    figure.colorbar(shades, ax=ax)
    ax.contour(*ends, p, levels=[0.5], colors="black", linewidths=2)
    ax.contour(
        *ends, p, levels=[0.1, 0.9], colors="black", linewidths=1, linestyles="dashed"
    )
    for name, marker in (("lower", "o"), ("upper", "^")):
        ax.scatter(
            *X[y == name].T,
            s=14,
            marker=marker,
            label=name,
            edgecolors="black",
            facecolors="white",
        )
    ax.set(title=title, xlabel="$x_1$", ylabel="$x_2$")
left.legend(loc="upper right")
plot_reliability(found, ax=right)
right.set_title("can the probabilities be trusted?")
right.legend(loc="upper left")
plt.show()
