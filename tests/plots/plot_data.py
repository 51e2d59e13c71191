"""Rows, forecasts and readings of a picture that the tests of plots share."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sodgp.evaluation.scores import Evaluation

x = np.linspace(-1, 1, 30)
rng = np.random.default_rng(0)
FRAME = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b$", "c"])
Y = FRAME["a"].to_numpy() + 0.1 * rng.normal(size=60)


def labels(ax):
    return ax.get_legend_handles_labels()[1]


def forecasts(std, n=4000):
    """Standard normal observations, forecast with mean zero and this standard deviation."""
    from scipy.stats import norm

    y = np.random.default_rng(0).normal(size=(n, 1))
    zero, s = np.zeros_like(y), np.full_like(y, std)
    ends = (zero - 1.645 * std, zero + 1.645 * std)
    return Evaluation(("y",), y, zero, s, *ends, norm.logpdf(y, 0, std), y**2, norm.cdf(y, 0, std), zero, zero + 1)
