"""Which pictures a report has."""

from __future__ import annotations

import numpy as np
import pytest
from report_data import FRAME, Elements, Y, figures

from sodgp import SGHMC, DeepGPRegressor
from sodgp.report import held_out


@pytest.mark.parametrize("inference", ["dsvi", "sghmc", "mean_field"])
def test_every_method_has_its_report(inference):
    method = SGHMC(n_posterior_samples=4, thinning=2) if inference == "sghmc" else inference
    model = DeepGPRegressor(inference=method, max_iter=3, subset_size=8, random_state=0)
    model.fit(FRAME[:40], Y[:40])
    assert "figure-hidden-1" in Elements(held_out(model, FRAME[40:60], Y[40:60]).html()).identities


def test_one_input_one_layer_and_a_kernel_without_relevance():
    x = np.linspace(-1, 1, 60)[:, None]
    model = DeepGPRegressor(max_iter=5, n_layers=3, random_state=0).fit(x[::2], x[::2, 0])
    found = figures(Elements(held_out(model, x[1::2], x[1::2, 0]).html()))
    assert {"fit", "hidden-1", "hidden-2"} <= set(found)
    flat = DeepGPRegressor(max_iter=3, n_layers=1, kernel="rbf-iso").fit(FRAME[:40].to_numpy(), Y[:40])
    found = figures(Elements(held_out(flat, FRAME[40:80].to_numpy(), Y[40:80]).html()))
    assert "relevance-1" not in found
    assert not any(name.startswith("hidden") for name in found)
