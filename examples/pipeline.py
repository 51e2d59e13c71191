"""Pipelines and grid search.

Encoding of your own in a `Pipeline`, and a search over depth and subset size. Compare
with [a table as it is](tabular.md), which needs no encoder.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from sodgp import DeepGPRegressor

STEPS = int(os.environ.get("STEPS", "150"))

# Prices that depend on the area, jump with the district, and ignore the day.
rng = np.random.default_rng(0)
district = rng.choice(["harbour", "hill", "old town"], 160)
X = pd.DataFrame(
    {
        "area": rng.uniform(20, 120, 160),
        "district": district,
        "day": rng.integers(1, 366, 160),
    }
)
factor = X["district"].map({"harbour": 1.0, "hill": 1.6, "old town": 2.5})
y = factor * (50 + 2.0 * X["area"]) + 5 * rng.standard_normal(160)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
columns = ColumnTransformer(
    [("district", OneHotEncoder(sparse_output=False), ["district"])],
    remainder="passthrough",
)
columns.set_output(transform="pandas")  # the deep GP then sees the columns' names
model = Pipeline(
    [
        ("columns", columns),
        ("gp", DeepGPRegressor(max_iter=STEPS, n_samples=2, random_state=0)),
    ]
)

# %%
# Options of the estimator are reached through the pipeline, options of the method
# through two more underscores.
grid = {"gp__n_layers": [1, 2], "gp__inference__objective": ["bound", "predictive"]}
search = GridSearchCV(model, grid, cv=2, scoring="neg_root_mean_squared_error").fit(
    X_train, y_train
)
print("best options:", search.best_params_)
score = search.best_estimator_.score(X_test, y_test)
print(f"R2 on test rows: {score:.3f}")

# %%
results = pd.DataFrame(search.cv_results_)
labels = [", ".join(map(str, options.values())) for options in results["params"]]
figure, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
ax.barh(labels, -results["mean_test_score"], xerr=results["std_test_score"])
ax.set(xlabel="RMSE in cross-validation", ylabel="objective, layers")
plt.show()
