"""What matters: partial dependence and permutation importance.

The estimator is one of scikit-learn's, so its inspection tools work: how the prediction
moves with one column while the others stay, and how much worse it gets when a column is
shuffled.
"""

import os

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.inspection import PartialDependenceDisplay, permutation_importance
from sklearn.model_selection import train_test_split

from sodgp import DeepGPRegressor
from sodgp.plots import plot_relevance

STEPS = int(os.environ.get("STEPS", "155"))

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
model = DeepGPRegressor(max_iter=STEPS, random_state=0).fit(X_train, y_train)
print(f"R2 on other rows: {model.score(X_test, y_test):.2f}")

# %%
# Importance on rows that were not trained on: by how much R2 falls when a column is
# shuffled.
importance = permutation_importance(model, X_test, y_test, n_repeats=5, random_state=0)
order = importance.importances_mean.argsort()[::-1]
for column in order[:4]:
    print(f"{X.columns[column]}: {importance.importances_mean[column]:.2f}")

# %%
# The two most important columns: the average over rows (dashed) and 30 single rows.
columns = [X.columns[column] for column in order[:2]]
figure, panels = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
PartialDependenceDisplay.from_estimator(
    model,
    X_train,
    columns,
    kind="both",
    subsample=30,
    grid_resolution=20,
    random_state=0,
    ax=panels[:2],
)
# Inverse lengthscales say where the function bends, not how much a column matters.
plot_relevance(model, ax=panels[2])
panels[2].set_title("inverse lengthscales, layer 1")
plt.show()
