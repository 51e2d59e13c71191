"""Counts: visitors of an hour.

Counts are whole numbers, and their scatter grows with their mean. A Gaussian gets both
wrong; `likelihood="poisson"` or `"negative_binomial"` gets both right. The second is
for counts that scatter more than a Poisson distribution allows.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from sodgp import DeepGPRegressor
from sodgp.plots import plot_rootogram

STEPS = int(os.environ.get("STEPS", "300"))


def visitors(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Hours of a day, and visitors: none at night, a sharp rise at nine."""
    rng = np.random.default_rng(seed)
    hour = np.sort(rng.uniform(0, 24, rows))
    rate = np.where((hour > 9) & (hour < 18), 14 + 6 * np.sin(hour - 9), 1.0)
    return hour[:, None], rng.poisson(rate * rng.gamma(5.0, 0.2, rows))


X, y = visitors(300, seed=0)
X_test, y_test = visitors(1000, seed=1)

# %%
# The mean log density of 1,000 other rows, here with its sign turned: lower is better.
scores, models = {}, {}
for likelihood in ("gaussian", "poisson", "negative_binomial"):
    model = DeepGPRegressor(
        likelihood=likelihood, n_layers=2, max_iter=STEPS, random_state=0
    ).fit(X, y)
    models[likelihood] = model
    scores[likelihood] = -model.predict_distribution(X_test).log_prob(y_test).mean()
    print(f"{likelihood}: NLPP {scores[likelihood]:.3f}")

# %%
# Intervals of counts end at whole numbers and never below zero.
hours = np.linspace(0, 24, 200)[:, None]
dist = models["negative_binomial"].predict_distribution(hours)
low, high = dist.interval(0.9)

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
left.fill_between(hours[:, 0], low, high, step="mid", alpha=0.3, label="90 % of counts")
left.plot(hours, dist.mean, label="mean")
left.plot(X, y, "k.", markersize=3, label="data")
left.set(xlabel="hour", ylabel="visitors", title="negative binomial")
left.legend()
plot_rootogram(
    models["negative_binomial"].predict_distribution(X_test), y_test, ax=right
)
right.legend()
plt.show()

# %%
# The distribution answers questions about single counts.
at_ten = models["negative_binomial"].predict_distribution([[10.0]])
print(f"P(more than 25 visitors at ten) = {1 - at_ten.cdf(25)[0]:.3f}")
