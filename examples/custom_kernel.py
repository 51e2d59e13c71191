"""A kernel of your own: trend and season.

Any GPyTorch kernel works, priors included. Here a long trend plus a season that slowly
changes its shape, to forecast two periods from ten. One layer only: a hidden layer
would bend time, and a season must stay a season.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
import torch
from gpytorch.kernels import Kernel, PeriodicKernel, RBFKernel, ScaleKernel
from gpytorch.priors import LogNormalPrior

from sodgp import DeepGPRegressor
from sodgp.plots import plot_fit
from sodgp.predictive.metrics import nlpp

STEPS = int(os.environ.get("STEPS", "300"))


def season_and_trend(input_dim: int) -> Kernel:
    """Starting values are for a scaled input, of whose deviation a period is 0.29."""
    trend = RBFKernel(lengthscale_prior=LogNormalPrior(0.5, 0.5))
    trend.lengthscale = 1.5
    season = PeriodicKernel(period_length_prior=LogNormalPrior(np.log(0.29), 0.05))
    season.period_length, season.lengthscale = torch.tensor(0.29), torch.tensor(1.0)
    damping = RBFKernel()
    damping.lengthscale = 3.0
    return ScaleKernel(trend) + ScaleKernel(season * damping)


rng = np.random.default_rng(0)
t = np.arange(0.0, 12.0, 1 / 24)
y = 0.2 * t + np.sin(2 * np.pi * t) * (1 + 0.1 * t) + 0.1 * rng.standard_normal(len(t))
past = t < 10

# %%
# The kernel is a function of the number of inputs, so that it can serve any layer.
figure, panels = plt.subplots(
    1, 2, figsize=(11, 3.4), sharey=True, layout="constrained"
)
scores = {}
for (name, kernel), ax in zip(
    {"rbf": "rbf", "season and trend": season_and_trend}.items(), panels, strict=True
):
    model = DeepGPRegressor(
        n_layers=1, kernel=kernel, max_iter=STEPS, random_state=0
    ).fit(t[past, None], y[past])
    scores[name] = nlpp(y[~past], model.predict_distribution(t[~past, None]))
    plot_fit(model, np.linspace(6, 12, 300), ax=ax)
    ax.plot(t[t >= 6], y[t >= 6], "k.", markersize=3, label="data")
    ax.axvline(10, color="black", linestyle=":")
    ax.set_title(f"{name}, NLPP of the forecast {scores[name]:.2f}")
panels[1].legend(fontsize="small")
plt.show()
