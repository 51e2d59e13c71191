"""Noise that depends on the inputs.

With `likelihood="heteroscedastic"` the noise has a Gaussian process of its own over the
inputs: intervals are narrow where the data are quiet and wide where they are not. For
SoD-VI, the default method.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from sodgp import DeepGPRegressor
from sodgp.plots import plot_fit
from sodgp.predictive.metrics import nlpp

STEPS = int(os.environ.get("STEPS", "300"))


def data(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A sine whose noise grows from left to right."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 1, rows))
    return x[:, None], np.sin(6 * x) + (0.02 + 0.6 * x**2) * rng.standard_normal(rows)


X, y = data(300, seed=0)
X_test, y_test = data(1000, seed=1)
x = np.linspace(0, 1, 200)

# %%
figure, panels = plt.subplots(
    1, 2, figsize=(10, 3.6), sharey=True, layout="constrained"
)
scores, coverage = {}, {}
for likelihood, ax in zip(("gaussian", "heteroscedastic"), panels, strict=True):
    model = DeepGPRegressor(
        likelihood=likelihood, n_layers=2, max_iter=STEPS, random_state=0
    ).fit(X, y)
    scores[likelihood] = nlpp(y_test, model.predict_distribution(X_test))
    low, high = model.predict_interval(X_test, 0.9)
    inside = (low < y_test) & (y_test < high)
    halves = X_test[:, 0] < 0.5, X_test[:, 0] >= 0.5
    coverage[likelihood] = [float(inside[half].mean()) for half in halves]
    plot_fit(model, x, data=(X, y), ax=ax)
    ax.set_title(f"{likelihood}, NLPP {scores[likelihood]:.2f}")
panels[0].legend(fontsize="small")
plt.show()

# %%
# The share of other rows inside their 90 % interval, in the quiet half and in the loud
# half. One noise for all is much too wide in the quiet half.
for likelihood, (quiet, loud) in coverage.items():
    print(f"{likelihood}: {quiet:.0%} in the left half, {loud:.0%} in the right half")
