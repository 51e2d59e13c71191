"""Several targets from one model.

The targets share the hidden layers and are independent given them. Here: where the hand
of a robot arm with two joints is, and how far it is from the shoulder, from the angles
of the joints.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sodgp import DeepGPRegressor, evaluate
from sodgp.plots import plot_predictions

STEPS = int(os.environ.get("STEPS", "155"))


def robot_arm(rows: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Angles, and the noisy place of the hand."""
    rng = np.random.default_rng(seed)
    shoulder, elbow = rng.uniform(-np.pi, np.pi, size=(2, rows))
    x = np.cos(shoulder) + 0.7 * np.cos(shoulder + elbow)
    y = np.sin(shoulder) + 0.7 * np.sin(shoulder + elbow)
    targets = {"x": x, "y": y, "reach": np.hypot(x, y)}
    noisy = {
        name: values + 0.02 * rng.standard_normal(rows)
        for name, values in targets.items()
    }
    return pd.DataFrame({"shoulder": shoulder, "elbow": elbow}), pd.DataFrame(noisy)


X, Y = robot_arm(400, seed=0)
X_test, Y_test = robot_arm(300, seed=1)

# %%
# Y has three columns; predictions have three, too.
model = DeepGPRegressor(max_iter=STEPS, random_state=0).fit(X, Y)
mean, std = model.predict(X_test, return_std=True)
print("shape of the mean:", mean.shape)

# %%
# Scores are for one target each. "x" and "y" have a standard deviation of 0.86, "reach"
# of 0.49.
found = evaluate(model, X_test, Y_test)
errors = {}
for number, target in enumerate(Y.columns):
    scores = found.scores(number)
    errors[target] = scores["rmse"].value
    inside = scores["coverage_90"].value
    print(f"{target}: RMSE {errors[target]:.3f}, 90 % intervals hold {inside:.0%}")

# %%
figure, panels = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
for number, ax in enumerate(panels):
    plot_predictions(found, number, ax=ax)
    ax.set_title(Y.columns[number])
plt.show()
