"""A step: one layer against three.

A Gaussian process has one lengthscale for all of its inputs. At a step it must choose:
follow the jump and wiggle in the flat parts, or be smooth and blur the jump. A deep one
bends its input first.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from sodgp import DeepGPRegressor
from sodgp.data import step
from sodgp.plots import plot_fit, plot_hidden
from sodgp.predictive.metrics import nlpp

STEPS = int(os.environ.get("STEPS", "1000"))

data, test = step(40, random_state=0), step(200, random_state=1)
x = np.linspace(-1.1, 1.1, 300)

# %%
# Fit with one, two and three layers, and score each on 200 other rows. NLPP is the mean
# negative log density of those rows: lower is better.
models, scores = {}, {}
for n_layers in (1, 2, 3):
    model = DeepGPRegressor(n_layers=n_layers, max_iter=STEPS, random_state=0).fit(
        data.X, data.y
    )
    models[n_layers] = model
    scores[n_layers] = nlpp(test.y, model.predict_distribution(test.X))
    print(f"{n_layers} layer(s): NLPP {scores[n_layers]:.2f}")

# %%
# The light band is where an observation would fall in nine cases of ten, the dark one
# where the function is.
figure, panels = plt.subplots(
    1, 3, figsize=(11, 3.2), sharey=True, layout="constrained"
)
for (n_layers, model), ax in zip(models.items(), panels, strict=True):
    plot_fit(model, x, data=(data.X, data.y), ax=ax)
    ax.set_title(f"{n_layers} layer{'s' * (n_layers > 1)}, NLPP {scores[n_layers]:.2f}")
panels[0].legend(fontsize="small", loc="upper left")
plt.show()

# %%
# What the two hidden layers do to x, in 20 draws: the second is steep where the jump
# is, so that the last layer sees a smooth function.
figure, panels = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
for layer, ax in enumerate(panels, start=1):
    plot_hidden(models[3], x, layer, ax=ax)
plt.show()
