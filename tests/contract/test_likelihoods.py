"""Every method with every likelihood at every depth: two steps on twelve rows, on the low-level interface."""

import copy
import math
import pickle
from functools import cache
from itertools import product

import pytest
import torch

from sodgp.errors import ConfigurationError
from sodgp.inference.contract import TrainingSet
from sodgp.inference.dsvi import DSVI
from sodgp.inference.mean_field import MeanField
from sodgp.inference.sghmc import SGHMC
from sodgp.inference.sod import SoD
from sodgp.likelihoods import (
    Bernoulli,
    Gaussian,
    HeavyTailed,
    Heteroscedastic,
    NegativeBinomial,
    Poisson,
    Softmax,
    StudentT,
)
from sodgp.linalg.draws import SharedDraws
from sodgp.model.architecture import Architecture
from sodgp.training.held_out import HeldOut
from sodgp.training.run import Settings, fit
from sodgp.training.stacking import Problem

METHODS = {
    "sod": SoD(objective="bound"),
    "sod-predictive": SoD(objective="predictive", separate_kernels=False),
    "sod-paper": SoD(parameterization="paper", objective="bound"),
    "sod-marginal": SoD(coupling="marginal", objective="bound"),
    "sod-joint": SoD(coupling="joint", objective="bound"),
    "dsvi": DSVI(),
    "dsvi-predictive": DSVI(objective="predictive"),
    "sghmc": SGHMC(n_posterior_samples=4, thinning=1),
    "mean_field": MeanField(),
}
LIKELIHOODS = {
    "gaussian": Gaussian(),
    "heteroscedastic": Heteroscedastic(),
    "heavy_tailed": HeavyTailed(),
    "student_t": StudentT(),
    "logit": Bernoulli(),
    "probit": Bernoulli(link="probit"),
    "softmax": Softmax(),
    "poisson": Poisson(),
    "negative_binomial": NegativeBinomial(),
}
ALL = list(product(METHODS, LIKELIHOODS, (1, 2, 3)))
GOOD = [case for case in ALL if METHODS[case[0]].supports(LIKELIHOODS[case[1]])]
every_case = pytest.mark.parametrize("case", GOOD, ids=lambda case: "-".join(map(str, case)))
ROWS, SIZE = 12, 4


def labels(options, X):
    f = 2.0 * X[:, :1].sin() + X[:, 1:]
    if options.targets == "numbers":
        return f
    if options.targets == "counts":
        return (1.0 + f).exp().floor()
    return (
        (f > 0).double() if options.name == "bernoulli" else torch.eye(3).double()[(f[:, 0] + 1.5).long().clamp(0, 2)]
    )


def problem(case, seed=0):
    method, options, n_layers = METHODS[case[0]], LIKELIHOODS[case[1]], case[2]
    X = torch.randn(ROWS, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    y, size = labels(options, X), SIZE if method.uses_subset else 0
    weights = [torch.eye(2, dtype=torch.float64)] * (n_layers - 1)
    architecture = Architecture(2, y.shape[1], SIZE, weights, likelihood=options, target_mean=y.mean(0))
    return Problem(architecture, TrainingSet(X[:size], y[:size], X[size:], y[size:]), seed)


def settings(**changes):
    plain = {"batch_rows": 8, "n_samples": 3, "learning_rate": 0.03, "schedule": "cosine"}
    return Settings(2, device=torch.device("cpu"), **{**plain, **changes})


@cache
def fitted(case):
    (result,) = fit(METHODS[case[0]], [problem(case)], settings(batch_rows=ROWS if case[0] == "mean_field" else 8))
    return result


def densities(case, model, rows=slice(None)):
    """Log density of every row's label, a mixture over samples of f."""
    data, method = problem(case).data, METHODS[case[0]]
    draws = SharedDraws(0, 4, dtype=torch.float64)
    X, y = (torch.cat(parts)[rows][None] for parts in ((data.X_s, data.X_r), (data.y_s, data.y_r)))
    mean, variance = method.predictor(model, data.X_s[None], data.y_s[None], draws).rows(X, draws)
    _, p = model.likelihood.at(data.X_s[None], X, draws)
    return p.log_predictive_density(y, mean, variance).sum(-1).logsumexp(0), (mean, variance)


@every_case
def test_two_steps_leave_a_model_that_predicts(case):
    result = fitted(case)
    assert all(math.isfinite(value) for value in result.history.bound)
    assert result.history.rollbacks == 0
    values, _ = densities(case, result.model)
    assert values.shape == (ROWS,)
    assert bool(torch.isfinite(values).all())


@every_case
def test_a_row_is_predicted_from_itself_alone(case):
    model = fitted(case).model
    whole, alone = densities(case, model)[0], densities(case, model, slice(3, 4))[0]
    torch.testing.assert_close(alone, whole[3:4], rtol=1e-9, atol=1e-9)


@every_case
def test_a_state_pickles_copies_and_loads(case):
    model, expected = fitted(case).model, densities(case, fitted(case).model)[0]
    empty = METHODS[case[0]].build(problem(case).architecture, None, torch.Generator())
    if case[0] != "mean_field":
        empty.load_state_dict(model.state_dict())
        torch.testing.assert_close(densities(case, empty.requires_grad_(False).eval())[0], expected)
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert torch.equal(densities(case, again)[0], expected)


@pytest.mark.parametrize("name", LIKELIHOODS)
@pytest.mark.parametrize("method", ["sod", "dsvi"])
def test_models_that_train_together_are_those_that_train_alone(method, name):
    if not METHODS[method].supports(LIKELIHOODS[name]):
        pytest.skip("refused")
    case = (method, name, 2)
    together = fit(METHODS[method], [problem(case, 0), problem(case, 1)], settings())
    for seed, result in enumerate(together):
        (alone,) = fit(METHODS[method], [problem(case, seed)], settings())
        for key, value in alone.model.state_dict().items():
            torch.testing.assert_close(result.model.state_dict()[key], value, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_held_out_rows_are_scored(name):
    case = ("sod", name, 2)
    data = problem(case).data
    held = HeldOut(data.X_r, data.y_r, 0.0, seed=0, n_samples=4)
    (result,) = fit(METHODS["sod"], [problem(case)], settings(held_out=held))
    assert all(math.isfinite(value) for value in result.history.validation)


@pytest.mark.parametrize(
    "case", [case for case in ALL if case not in GOOD and case[2] == 1], ids=lambda case: "-".join(map(str, case))
)
def test_what_a_method_cannot_train_is_refused_by_name(case):
    method, options = METHODS[case[0]], LIKELIHOODS[case[1]]
    with pytest.raises(ConfigurationError, match=f"{method.name!r}.*likelihood={options.name!r}"):
        method.settled(n_rows=12, n_layers=2, kernel="rbf", likelihood=options)


def test_every_method_that_samples_or_bounds_takes_labels_that_are_not_gaussian():
    others = [options for options in LIKELIHOODS.values() if not options.is_conjugate]
    assert len(others) == 6
    for name, method in METHODS.items():
        assert all(method.supports(options) for options in others) == (name != "mean_field")
        assert not any(SoD(tie_label_noise=False).supports(options) for options in others)


def test_sites_move_and_the_same_seed_gives_the_same_bits():
    case = ("sod", "poisson", 3)
    first, (again,) = fitted(case).model, fit(METHODS["sod"], [problem(case)], settings())
    assert bool((first.last.lambda_2 > 0).all())
    for key, value in again.model.state_dict().items():
        assert torch.equal(first.state_dict()[key], value)
