"""A table with categories, dates and gaps.

A data frame goes in as it is. Categories become columns of zeros and ones, dates become
numbers, gaps are filled and marked. The model remembers what it did and does the same
to new rows.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sodgp import DeepGPRegressor, evaluate
from sodgp.plots import plot_predictions

STEPS = int(os.environ.get("STEPS", "155"))


def houses(rows: int, seed: int) -> pd.DataFrame:
    """Prices that depend on area, district and season, with one area in ten missing."""
    rng = np.random.default_rng(seed)
    area = rng.uniform(20, 120, rows)
    district = rng.choice(["harbour", "hill", "old town"], rows)
    sold = pd.Timestamp("2024-01-01") + pd.to_timedelta(
        rng.integers(0, 730, rows), unit="D"
    )
    factor = (
        pd.Series(district)
        .map({"harbour": 1.0, "hill": 1.6, "old town": 2.5})
        .to_numpy()
    )
    season = 1 + 0.1 * np.sin(2 * np.pi * sold.day_of_year.to_numpy() / 365)
    price = factor * season * (50 + 2 * area) + 8 * rng.standard_normal(rows)
    area[rng.random(rows) < 0.1] = np.nan
    return pd.DataFrame(
        {
            "area": area.round(1),
            "district": district,
            "sold": sold,
            "price": price.round(1),
        }
    )


train, test = houses(400, seed=0), houses(200, seed=1)
print(train.head(3).to_string())

# %%
# No preparation, no pipeline.
model = DeepGPRegressor(max_iter=STEPS, random_state=0)
model.fit(train.drop(columns="price"), train["price"])

# %%
# What became of every column:
for column, treatment in model.columns_.items():
    print(f"{column}: {treatment}")

# %%
# Scores on rows that were not trained on, with 95 % bootstrap intervals.
found = evaluate(model, test.drop(columns="price"), test["price"])
scores = found.scores()
for name in ("rmse", "r2", "coverage_90"):
    score = scores[name]
    print(f"{name}: {score.value:.3f} ({score.low:.3f} to {score.high:.3f})")

# %%
# The rows far from the line are those without an area, and crosses are outside their 90
# % interval.
figure, ax = plt.subplots(figsize=(5, 4.2), layout="constrained")
plot_predictions(found, ax=ax)
ax.legend()
plt.show()

# %%
# With one noise for all rows the intervals of those without an area are too narrow.
# Noise that depends on the inputs knows that they are harder: the column that says
# where a gap was is an input like the others.
has_gap = test["area"].isna().to_numpy()
widths = {}
for likelihood in ("gaussian", "heteroscedastic"):
    model.set_params(likelihood=likelihood).fit(
        train.drop(columns="price"), train["price"]
    )
    low, high = model.predict_interval(test.drop(columns="price"), 0.9)
    inside = (low <= test["price"]) & (test["price"] <= high)
    widths[likelihood] = float(
        (high - low)[has_gap].mean() / (high - low)[~has_gap].mean()
    )
    shares = inside[~has_gap].mean(), inside[has_gap].mean()
    print(f"{likelihood}: {shares[0]:.0%} inside with an area, {shares[1]:.0%} without")
