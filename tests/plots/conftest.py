"""Models that several tests of plots draw."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure
from plot_data import FRAME, Y

from sodgp import DeepGPRegressor
from sodgp.data import step
from sodgp.evaluation.scores import evaluate


@pytest.fixture(scope="session")
def model():
    data = step(20)
    return DeepGPRegressor(max_iter=30, subset_size=8, n_layers=3, random_state=0).fit(data.X, data.y)


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture(scope="session")
def tabular():
    return DeepGPRegressor(max_iter=20, subset_size=12, hidden_width=2, random_state=0).fit(FRAME[:40], Y[:40])


@pytest.fixture(scope="session")
def found(tabular):
    return evaluate(tabular, FRAME[40:], Y[40:], targets=["load $"])
