"""subset_size="auto": grown until little variance is left, within limits, and explained."""

import logging

import numpy as np
import pytest
import torch

from sodgp import DeepGPRegressor
from sodgp.errors import ConfigurationError
from sodgp.estimator.options.configuration import Configuration
from sodgp.selectors import SELECTORS, GreedyVariance
from sodgp.selectors.auto import Auto

RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 2))
Y = np.sin(X[:, 0])
FAST = {"n_layers": 1, "max_iter": 5, "n_samples": 2, "n_predict_samples": 3, "random_state": 0}


def rows(n, d, seed=0):
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_size_is_the_first_greedy_size_under_the_threshold():
    Z = rows(400, 2)
    chosen = Auto(min_size=1).choose(Z, 0.05)
    traces = GreedyVariance().select_with_trace(Z, 200).traces
    threshold = 0.01 * 0.05 * 400
    assert chosen.size == int((traces < threshold).nonzero()[0]) + 1
    assert chosen.trace < threshold
    assert "below 0.01 of the noise variance 0.05" in chosen.reason


def test_smaller_fractions_and_noise_need_more_rows():
    Z = rows(400, 3)
    sizes = [Auto(fraction=f, min_size=1).choose(Z, 0.05).size for f in (0.1, 0.01, 0.001)]
    assert sizes == sorted(set(sizes))
    assert Auto(min_size=1).choose(Z, 0.5).size < Auto(min_size=1).choose(Z, 0.005).size


@pytest.mark.parametrize(
    ("options", "size", "why"),
    [
        ({"max_size": 30}, 30, "the limit by max_size"),
        ({}, 150, "half of the rows"),
        ({"max_bytes": 8 * 4 * 50 * 300 * 2 * 25.0}, 25, "the memory of a step"),
    ],
)
def test_limits(options, size, why):
    chosen = Auto(**options).choose(rows(300, 12), 0.05, n_samples=50 if "step" in why else 1)
    assert chosen.size == size
    assert why in chosen.reason


def test_batch_size_is_a_limit():
    chosen = Auto().choose(rows(300, 12), 0.05, batch_size=60)
    assert chosen.size == 30
    assert "half of batch_size" in chosen.reason


def test_memory_of_the_greedy_growth_is_a_limit():
    chosen = Auto(max_bytes=8 * 300 * 20.0).choose(rows(300, 12), 0.05, batch_size=62, n_samples=1, n_layers=1)
    assert chosen.size == 20
    assert "the memory of the greedy growth" in chosen.reason


def test_memory_is_that_of_the_steps_that_will_be_taken():
    """SoD-VI takes as many rows beside the subset as that has, or 200, and not the 2,000 of other methods."""
    Z, options = rows(2500, 8), {"n_samples": 50, "n_layers": 4, "subset_size": Auto(fraction=1e-9)}
    sizes = {}
    for inference, steps in (("sod", 1000), ("dsvi", 2000)):
        config = Configuration.from_estimator(DeepGPRegressor(inference=inference, **options))
        method = config.method.settled(n_rows=len(Z), n_layers=4, kernel="rbf", likelihood=config.likelihood)
        chosen = config.automatic_size(method, Z)
        sizes[inference] = chosen.size
        assert "the memory of a step" in chosen.reason
        assert chosen.size == int(2e9 // (8 * 4 * 50 * steps * 4))
    assert sizes["sod"] == 2 * sizes["dsvi"]


def test_where_a_step_sees_all_rows_so_does_the_limit():
    Z = rows(1000, 8)
    config = Configuration.from_estimator(DeepGPRegressor(n_samples=50, subset_size=Auto(fraction=1e-9, max_bytes=2e8)))
    method = config.method.settled(n_rows=len(Z), n_layers=None, kernel="rbf", likelihood=config.likelihood)
    # Two layers, which the unsettled method would not have: with all labels in q_hat.
    assert config.automatic_size(method, Z).size == int(2e8 // (8 * 4 * 50 * 1000 * 2))


def test_never_below_the_smallest_size_nor_above_half_of_few_rows():
    line = torch.linspace(-1, 1, 100, dtype=torch.float64)[:, None]
    assert Auto().choose(line, 0.05).size == 20
    assert "smallest size" in Auto().choose(line, 0.05).reason
    assert Auto().choose(line[:9], 0.05).size == 5
    assert Auto().choose(line[:1], 0.05).size == 1


def test_equal_rows_end_the_growth():
    Z = rows(25, 4).repeat(4, 1)
    chosen = Auto(fraction=1e-13).choose(Z, 0.05)
    assert chosen.size == 25
    assert "leaves 0 of variance" in chosen.reason


@pytest.mark.parametrize("options", [{"fraction": 0.0}, {"min_size": 0}, {"max_bytes": -1.0}, {"max_size": 3}])
def test_wrong_options_are_refused(options):
    with pytest.raises(ConfigurationError, match="Auto"):
        Auto(**options)


@pytest.mark.parametrize("subset", SELECTORS)
def test_the_size_goes_with_any_selector(subset, caplog):
    with caplog.at_level(logging.INFO, "sodgp"):
        model = DeepGPRegressor(subset_size="auto", subset=subset, **FAST).fit(X, Y)
    assert model.subset_size_reason_ in caplog.text
    assert f"chose {len(model.subset_indices_)} of 120 rows" in model.subset_size_reason_
    assert 20 <= len(model.subset_indices_) <= 60
    assert model.model_.layers[0].q_mean.shape[-2] == len(model.subset_indices_)


def test_an_object_sets_the_rule_and_is_stored(tmp_path):
    model = DeepGPRegressor(subset_size=Auto(max_size=22), **FAST).fit(X, Y)
    assert len(model.subset_indices_) == 22
    model.save(tmp_path / "m.sodgp")
    again = DeepGPRegressor.load(tmp_path / "m.sodgp")
    assert again.subset_size == Auto(max_size=22)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_inducing_points_can_be_counted_too_and_a_later_fit_forgets_the_reason():
    model = DeepGPRegressor(inference="dsvi", subset_size="auto", **FAST).fit(X, Y)
    assert model.model_.layers[0].q_mean.shape[-2] >= 20
    model.set_params(subset_size=10).fit(X, Y)
    assert not hasattr(model, "subset_size_reason_")


def test_unknown_words_are_refused():
    with pytest.raises(ConfigurationError, match="'auto'"):
        DeepGPRegressor(subset_size="automatic", **FAST).fit(X, Y)
