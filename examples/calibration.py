"""Calibration: intervals that hold what they promise.

A model can be too sure or not sure enough of rows that it has not seen. Keep some rows
apart, ask how often its intervals hold them, and let `calibrate` correct the
distribution.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from sodgp import DeepGPRegressor, evaluate
from sodgp.plots import plot_coverage, plot_pit

STEPS = int(os.environ.get("STEPS", "155"))


def rows(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Five inputs, a ridge, and skewed noise, which a Gaussian cannot have."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (count, 5))
    noise = 0.4 * (rng.gamma(1.0, 1.0, count) - 1.0)
    return X, np.tanh(4 * (X[:, 0] + X[:, 1])) + X[:, 2] ** 2 + noise


X, y = rows(300, seed=0)
X_apart, y_apart = rows(300, seed=1)
X_test, y_test = rows(1000, seed=2)

# %%
# The model before: scores on test rows.
model = DeepGPRegressor(max_iter=STEPS, random_state=0).fit(X, y)
before = evaluate(model, X_test, y_test)

# %%
# Calibrate on rows that neither training nor the test has seen. The whole distribution
# changes: density, quantiles and draws stay consistent. The file of the model has it,
# too.
model.calibrate(X_apart, y_apart)
after = evaluate(model, X_test, y_test)
scores = {"before": before.scores(), "after": after.scores()}
for name, found in scores.items():
    shares = ", ".join(f"{found[f'coverage_{p}'].value:.0%}" for p in (50, 80, 90))
    print(
        f"{name}: NLPP {found['nlpp'].value:.2f}; 50, 80, 90 % intervals hold {shares}"
    )

# %%
# Top: how many observations the intervals hold, by their level. Bottom: the histogram
# of the cdf at the observations, which is flat where the distribution is right.
figure, panels = plt.subplots(2, 2, figsize=(9, 7), layout="constrained")
for (title, found), (top, bottom) in zip(
    {"before": before, "after": after}.items(), panels.T, strict=True
):
    plot_coverage(found, ax=top)
    plot_pit(found, ax=bottom)
    top.set_title(title)
panels[0, 0].legend(loc="lower right", fontsize="small")
plt.show()
