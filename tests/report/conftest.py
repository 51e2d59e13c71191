"""A model, its report and its page."""

from __future__ import annotations

import pytest
from report_data import FRAME, NASTY, Y

from sodgp import DeepGPRegressor
from sodgp.report import held_out


@pytest.fixture(scope="session")
def model():
    target = Y[:140].rename(f"load {NASTY}")
    return DeepGPRegressor(n_layers=3, max_iter=150, subset_size=30, random_state=0).fit(FRAME[:140], target)


@pytest.fixture(scope="session")
def report(model):
    return held_out(model, FRAME[140:], Y[140:], title=f"Title {NASTY}", data_name=NASTY, model_name="m")


@pytest.fixture(scope="session")
def page(report):
    return report.html()
