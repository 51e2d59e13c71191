"""A kernel of your own: a trend and a season that slowly changes its shape, with priors on two parameters.

python examples/custom_kernel.py
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from gpytorch.kernels import Kernel, PeriodicKernel, RBFKernel, ScaleKernel
from gpytorch.priors import LogNormalPrior

from sodgp import DeepGPRegressor
from sodgp.predictive.metrics import nlpp


def season_and_trend(input_dim: int) -> Kernel:
    """A long trend plus a season that is damped over several periods; starting values for a scaled input."""
    trend = RBFKernel(lengthscale_prior=LogNormalPrior(0.5, 0.5))
    trend.lengthscale = 1.5
    season = PeriodicKernel(period_length_prior=LogNormalPrior(np.log(0.29), 0.05))
    season.period_length, season.lengthscale = torch.tensor(0.29), torch.tensor(1.0)
    damping = RBFKernel()
    damping.lengthscale = 3.0
    return ScaleKernel(trend) + ScaleKernel(season * damping)


def series(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Twelve periods, two of which are still to come for the model."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, 12.0, 1 / 24)
    return t[:, None], 0.2 * t + np.sin(2 * np.pi * t) * (1 + 0.1 * t) + 0.1 * rng.standard_normal(len(t))


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Fit ten periods, forecast two; the NLPP of the forecast with either kernel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=500)
    options = parser.parse_args(arguments)

    t, y = series(seed=0)
    past = t[:, 0] < 10
    found = {}
    for name, kernel in {"rbf": "rbf", "season and trend": season_and_trend}.items():
        # One layer: a hidden layer would bend time, and a season must stay a season.
        model = DeepGPRegressor(n_layers=1, kernel=kernel, max_iter=options.iterations, random_state=0)
        model.fit(t[past], y[past])
        found[name] = nlpp(y[~past], model.predict_distribution(t[~past]))
        print(f"{name}: NLPP of the forecast {found[name]:.2f}")
    return found


if __name__ == "__main__":
    main()
