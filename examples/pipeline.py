"""Numbers and categories in one table: ColumnTransformer, Pipeline, GridSearchCV and permutation importance.

python examples/pipeline.py        (needs pandas; from the clone: pip install -c constraints.txt '.[frames]')
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from sodgp import DeepGPRegressor


def table(rows: int = 120) -> tuple[pd.DataFrame, pd.Series]:
    """Prices that depend on the area, jump with the district, and ignore the day."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "area": rng.uniform(20, 120, rows),
            "district": rng.choice(["harbour", "hill", "old town"], rows),
            "day": rng.integers(1, 366, rows),
        }
    )
    factor = frame["district"].map({"harbour": 1.0, "hill": 1.6, "old town": 2.5})
    price = factor * (50 + 2.0 * frame["area"]) + 5 * rng.standard_normal(rows)
    return frame, price.rename("price")


def main(arguments: list[str] | None = None) -> tuple[float, dict[str, float]]:
    """R2 on test rows, and the importance of every column."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=150)
    options = parser.parse_args(arguments)
    X, y = table()
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    encoder = OneHotEncoder(sparse_output=False)
    columns = ColumnTransformer([("district", encoder, ["district"])], remainder="passthrough")
    columns.set_output(transform="pandas")  # the deep GP then sees and remembers the columns' names
    gp = DeepGPRegressor(max_iter=options.iterations, n_samples=2, learning_rate=0.05, random_state=0)
    model = Pipeline([("columns", columns), ("gp", gp)])

    search = GridSearchCV(model, {"gp__n_layers": [1, 2], "gp__subset_size": [20, 40]}, cv=2)
    search.fit(X_train, y_train)
    score = search.score(X_test, y_test)
    print("best options:", search.best_params_)
    print(f"R2 on test rows: {score:.3f}")
    print("columns of the deep GP:", *search.best_estimator_["gp"].feature_names_in_)

    importance = permutation_importance(search.best_estimator_, X_test, y_test, n_repeats=3, random_state=0)
    weights = dict(zip(X.columns, importance.importances_mean, strict=True))
    for name, weight in weights.items():
        print(f"importance of {name}: {weight:.2f}")
    return score, weights


if __name__ == "__main__":
    main()
