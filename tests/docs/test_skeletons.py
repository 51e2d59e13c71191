"""The skeletons of docs/extending.md work, and keep the contracts that the page promises."""

import doctest
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from protocols import keeps

from sodgp import DeepGPRegressor
from sodgp.data import step
from sodgp.errors import ConfigurationError
from sodgp.inference.contract import Batch, Inference, TrainingSet
from sodgp.inference.dsvi import DSVI
from sodgp.likelihoods import NegativeBinomial
from sodgp.likelihoods.contract import Likelihood, LikelihoodOptions, RowLikelihood, Sizes
from sodgp.linalg.draws import FreshDraws, SharedDraws
from sodgp.model.architecture import Architecture, linear_weights
from sodgp.selectors import Selector
from sodgp.training.run import Settings, fit
from sodgp.training.stacking import Problem

FOLDER = Path(__file__).parents[2] / "docs" / "skeletons"


def skeleton(name):
    spec = importlib.util.spec_from_file_location(f"skeleton_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def selector():
    return skeleton("selector")


@pytest.fixture(scope="module")
def method():
    return skeleton("inference_method").PredictiveDensity()


@pytest.fixture(scope="module")
def problem():
    data = step(40, noise=0.1, random_state=0)
    X, y = torch.as_tensor(data.X), torch.as_tensor(data.y)[:, None]
    training = TrainingSet(X[:0], y[:0], X, y)
    return Problem(Architecture(1, 1, 8, linear_weights(X, [1])), training, seed=0)


def test_the_selector_is_one(selector):
    assert isinstance(selector.FarthestFirst(), Selector)
    assert doctest.testmod(selector).failed == 0


@pytest.mark.parametrize("start", ["random", "centre"])
def test_the_selector_picks_different_rows_that_depend_on_the_seed_alone(selector, start):
    X = torch.randn(50, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    X[25:] = X[:25]  # every row twice
    chosen = selector.FarthestFirst(start)
    first, again = (chosen.select(X, None, 30, None, torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(first, again)
    assert len(set(first.tolist())) == 30
    # No value is taken twice while others are left.
    assert len(torch.unique(X[first[:25]], dim=0)) == 25
    with pytest.raises(ConfigurationError, match="at least one row"):
        chosen.select(X, None, 0, None, torch.Generator())


def test_an_estimator_takes_the_selector(selector):
    data = step(40)
    options = {"subset_size": 6, "max_iter": 5, "random_state": 0}
    model = DeepGPRegressor(subset=selector.FarthestFirst("centre"), **options).fit(data.X, data.y)
    # The ends of the line are farthest from its centre.
    assert {0, 39} <= set(model.subset_indices_.tolist())


def test_the_method_is_one_and_trains(method, problem):
    assert isinstance(method, Inference)
    settings = Settings(150, 40, 5, 0.05, "cosine", torch.device("cpu"))
    (result,) = fit(method, [problem], settings)
    model, history = result.model, result.history
    assert list(history.terms) == ["rest", "kl_1", "kl_last"]
    assert history.bound[-1] > history.bound[0] + 10.0
    data, draws = problem.data, SharedDraws(0, 20, dtype=torch.float64)
    predictor = method.predictor(model, data.X_s[None], data.y_s[None], draws)
    mean, variance = predictor.rows(data.X_r[None], draws)
    assert mean.shape == variance.shape == (20, 40, 1)
    assert float((mean.mean(0) - data.y_r).square().mean().sqrt()) < 0.35
    fresh = FreshDraws(torch.Generator().manual_seed(0), 20)  # joint draws need a number for every row
    joint, covariance = predictor.joint(data.X_r[None], fresh)
    assert joint.shape == (20, 40, 1)
    assert covariance.shape == (20, 1, 40, 40)


def test_replicates_train_as_they_would_alone(method, problem):
    settings = Settings(10, 40, 3, 0.05, "constant", torch.device("cpu"))
    problems = [problem, Problem(problem.architecture, problem.data, seed=1)]
    together = [result.history.bound for result in fit(method, problems, settings)]
    alone = [fit(method, [one], settings)[0].history.bound for one in problems]
    np.testing.assert_allclose(together, alone, rtol=1e-8)


def test_the_objective_is_that_of_dsvi_with_all_weight_on_the_predictive_density(method, problem):
    data = problem.data
    model = method.build(problem.architecture, data, torch.Generator().manual_seed(0))
    batch = Batch(*(t[None] for t in (data.X_s, data.y_s, data.X_r, data.y_r)), 1.0)
    values = []
    for inference in (method, DSVI(objective="predictive")):
        draws = FreshDraws(torch.Generator().manual_seed(3), 5)
        values.append({name: float(term.detach()) for name, term in inference.terms(model, batch, draws).items()})
    assert values[0] == pytest.approx(values[1], rel=1e-10)


def test_an_estimator_takes_the_method(method):
    data = step(40)
    model = DeepGPRegressor(inference=method, n_layers=2, subset_size=6, max_iter=5, random_state=0)
    model.set_params(inference__beta=0.5).fit(data.X, data.y)
    assert (model.inference_.beta, model.objective_) == (0.5, "predictive")
    assert np.isfinite(model.predict(data.X, return_std=True)).all()
    with pytest.raises(ConfigurationError, match="subset='random' has no meaning for inference='predictive_density'"):
        model.set_params(subset="random").fit(data.X, data.y)


@pytest.fixture(scope="module")
def likelihood():
    return skeleton("likelihood").Geometric()


def test_the_likelihood_is_the_negative_binomial_one_with_a_dispersion_of_one(likelihood):
    sizes = Sizes(subset=4, input_dim=1, n_outputs=2, target_mean=torch.tensor([0.5, 3.0]).double())
    ours, theirs = likelihood.build(sizes), NegativeBinomial(dispersion=1.0).build(sizes)
    X = torch.zeros(1, 3, 1, dtype=torch.float64)
    (_, p), (_, q) = (each.at(X, X, FreshDraws(torch.Generator(), 2)) for each in (ours, theirs))
    assert isinstance(likelihood, LikelihoodOptions)
    assert keeps(ours, Likelihood)
    assert isinstance(p, RowLikelihood)
    numbers = torch.randn(2, 2, 3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y, mean, variance = torch.tensor([0.0, 2.0, 7.0]).double()[None, :, None], numbers[0], numbers[1].square()
    y = y.expand(1, 3, 2)
    close = {"rtol": 1e-6, "atol": 1e-6}
    torch.testing.assert_close(p.log_density(y, mean), q.log_density(y, mean), **close)
    torch.testing.assert_close(p.expected(y, mean, variance), q.expected(y, mean, variance), **close)
    for a, b in zip(p.natural_sites(y, mean, variance), q.natural_sites(y, mean, variance), strict=True):
        torch.testing.assert_close(a, b, **close)


@pytest.mark.parametrize("inference", ["sod", "dsvi"])
def test_an_estimator_takes_the_likelihood(likelihood, inference):
    X = np.linspace(-1, 1, 30)[:, None]
    y = np.random.default_rng(0).geometric(0.3, 30) - 1
    model = DeepGPRegressor(likelihood=likelihood, inference=inference, n_layers=2, subset_size=6, max_iter=5)
    model.set_params(random_state=0).fit(X, y)
    distribution = model.predict_distribution(X)
    assert np.isfinite(distribution.log_prob(y)).all()
    assert (model.predict(X) > 0).all()
    with pytest.raises(ConfigurationError, match="likelihood='geometric'"):
        model.set_params(inference="mean_field").fit(X, y)
