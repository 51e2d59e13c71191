"""One contract for every method: all pairs of method, depth, kernel and precision through the whole estimator."""

import pickle
from functools import cache
from itertools import combinations, product

import gpytorch
import numpy as np
import pandas as pd
import pytest
import torch
from gpytorch.kernels import LinearKernel, MaternKernel, RBFKernel, ScaleKernel
from gpytorch.priors import GammaPrior
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from sodgp import DeepGPRegressor
from sodgp.errors import InputError
from sodgp.estimator import memory_budget as resources

SIZES = {"subset_size": 8, "n_predict_samples": 6, "max_iter": 8}
SAMPLED = {**SIZES, "n_samples": 3, "batch_size": 20}
METHODS = {
    **{
        f"sod-{family}-{coupling}": {**SAMPLED, "inference__parameterization": family, "inference__coupling": coupling}
        for family, coupling in product(("whitened", "paper"), ("ancestral", "marginal", "joint"))
    },
    "dsvi": {**SAMPLED, "inference": "dsvi"},
    "dsvi*": {**SAMPLED, "inference": "dsvi", "inference__learn_inducing_inputs": False},
    "sghmc": {
        **SIZES,
        "batch_size": 20,
        "inference": "sghmc",
        "inference__n_posterior_samples": 4,
        "inference__thinning": 2,
    },
    "mean_field": {**SIZES, "inference": "mean_field"},
}
DTYPES = ("float64", "float32")
# Rounding of rows that meet other rows in one matrix product.
TOLERANCE = {"float64": 1e-9, "float32": 2e-3}


def sum_and_product(input_dim):
    """A user's kernel: a product plus a scaled sum, with priors on two of its parameters."""
    local = RBFKernel(ard_num_dims=input_dim, lengthscale_prior=GammaPrior(3.0, 2.0)) * LinearKernel()
    smooth = RBFKernel() + MaternKernel(nu=1.5, ard_num_dims=input_dim)
    return local + ScaleKernel(smooth, outputscale_prior=GammaPrior(2.0, 1.0))


def rbf_with_priors(input_dim):
    """What the mean-field method can take of a user's function."""
    return ScaleKernel(RBFKernel(lengthscale_prior=GammaPrior(3.0, 2.0)), outputscale_prior=GammaPrior(2.0, 1.0))


KERNELS = {"rbf": "rbf", "matern32": "matern32", "rq": "rq", "function": sum_and_product}
RBF_ONLY = {"rbf": "rbf", "rbf-iso": "rbf-iso", "function": rbf_with_priors}


def kernels_of(method):
    return RBF_ONLY if method == "mean_field" else KERNELS


def all_pairs(candidates):
    """Few of the candidates that still hold every pair of values that any candidate holds."""

    def pairs(case):
        return set(combinations(enumerate(case), 2))

    missing = set().union(*map(pairs, candidates))
    chosen = []
    while missing:
        best = max(candidates, key=lambda case: len(pairs(case) & missing))
        chosen.append(best)
        missing -= pairs(best)
    return sorted(chosen, key=candidates.index)


CASES = all_pairs(
    [
        (method, n_layers, kernel, dtype)
        for method in METHODS
        for n_layers, kernel, dtype in product((1, 2, 3), kernels_of(method), DTYPES)
    ]
)
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
every_method = pytest.mark.parametrize("method", METHODS)


def make(case, **options):
    method, n_layers, kernel, dtype = case
    kernel = kernels_of(method)[kernel]
    return DeepGPRegressor().set_params(
        **{**METHODS[method], "n_layers": n_layers, "kernel": kernel, "dtype": dtype, "random_state": 0, **options}
    )


def table(n_rows=30, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n_rows, 3)) * (1.0, 10.0, 0.1)
    return X, 5.0 + 2.0 * np.sin(X[:, 0]) + 0.1 * X[:, 1] + 0.1 * rng.standard_normal(n_rows)


X, Y = table()
X_NEW, Y_NEW = table(11, seed=1)


@cache
def fitted(case):
    return make(case).fit(X, Y)


def components(model, rows):
    dist = model.predict_distribution(rows)
    return dist.mean, dist.variance, dist.log_prob(Y_NEW[: len(rows)])


@every_case
def test_every_prediction_is_finite_and_in_the_shape_of_y(case):
    model = fitted(case)
    mean, std = model.predict(X_NEW, return_std=True)
    assert mean.shape == std.shape == (11,)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert_array_equal(model.predict(X_NEW), mean)
    dist = model.predict_distribution(X_NEW)
    # One layer draws nothing, so its prediction is one Gaussian; a sampler's is a mixture over posterior draws.
    assert dist.n_components == (1 if case[1] == 1 and case[0] != "sghmc" else 6)
    assert_allclose(dist.mean, mean)
    assert_allclose(dist.std, std)
    assert np.isfinite(dist.log_prob(Y_NEW)).all()
    assert np.isfinite(model.score(X_NEW, Y_NEW))


@every_case
def test_draws_and_covariance_over_rows_are_joint_and_agree_with_the_marginals(case):
    model = fitted(case)
    mean, cov = model.predict(X_NEW, return_cov=True)
    assert mean.shape == (11,)
    assert cov.shape == (11, 11)
    assert_allclose(cov, cov.T, rtol=1e-5, atol=1e-6 * cov.max())
    assert np.linalg.eigvalsh(cov).min() > 0
    draws = model.sample_y(X_NEW, n_samples=4, random_state=3)
    assert draws.shape == (11, 4)
    assert np.isfinite(draws).all()
    assert_array_equal(draws, model.sample_y(X_NEW, n_samples=4, random_state=3))
    assert not np.array_equal(draws, model.sample_y(X_NEW, n_samples=4, random_state=4))


@every_case
def test_history_holds_finite_terms_whose_sum_is_the_bound(case):
    model = fitted(case)
    history = model.history_
    terms = np.array(list(history.terms.values()))
    assert history.iteration == [1, 8]
    assert terms.shape[1] == len(history.bound) == len(history.seconds) == 2
    assert np.isfinite(terms).all()
    assert_allclose(terms.sum(0), history.bound)
    # The sampler's potential is that of u given the hyper-parameters, whose priors enter their own updates.
    assert ("log_prior" in history.terms) == (case[2] == "function" and case[0] != "sghmc")
    assert model.n_iter_ == 8
    assert isinstance(model.n_parameters_, int)
    assert model.n_parameters_ > 0


@every_case
def test_the_function_varies_less_than_its_observations(case):
    model = fitted(case)
    latent, observed = (model.predict_distribution(X_NEW, latent=flag) for flag in (True, False))
    assert_allclose(latent.mean, observed.mean)
    assert (latent.variance < observed.variance).all()


@every_case
def test_a_row_is_predicted_from_itself_alone(case, monkeypatch):
    model = fitted(case)
    whole = components(model, X_NEW)
    close = {"rtol": TOLERANCE[case[3]], "atol": TOLERANCE[case[3]]}
    backwards = model.predict_distribution(X_NEW[::-1])
    assert_allclose(backwards.mean[::-1], whole[0], **close)
    assert_allclose(backwards.variance[::-1], whole[1], **close)
    for alone, together in zip(components(model, X_NEW[:1]), whole, strict=True):
        assert_allclose(alone, together[:1], **close)
    monkeypatch.setattr(resources, "CHUNK_BYTES", 1)
    for chunked, together in zip(components(model, X_NEW), whole, strict=True):
        assert_allclose(chunked, together, **close)


@every_case
def test_pickle_gives_back_the_same_model(case):
    model = fitted(case)
    back = pickle.loads(pickle.dumps(model))
    for ours, theirs in zip(components(model, X_NEW), components(back, X_NEW), strict=True):
        assert_array_equal(ours, theirs)
    assert_array_equal(back.sample_y(X_NEW, 2), model.sample_y(X_NEW, 2))
    assert back.n_parameters_ == model.n_parameters_


@every_case
def test_a_seed_fixes_every_bit_and_another_seed_changes_them(case):
    model, again = fitted(case), clone(fitted(case))
    assert not hasattr(again, "model_")
    again.fit(X, Y)
    assert again.history_.bound == model.history_.bound
    for ours, theirs in zip(components(model, X_NEW), components(again, X_NEW), strict=True):
        assert_array_equal(ours, theirs)
    other = make(case, random_state=1).fit(X, Y)
    assert not np.array_equal(other.predict(X_NEW), model.predict(X_NEW))


@every_method
@pytest.mark.parametrize("n_layers", [1, 3])
def test_outputs_are_predicted_in_their_units(method, n_layers):
    targets = np.column_stack([Y, 1000.0 - 100.0 * Y])
    model = make((method, n_layers, "rbf", "float64")).fit(X, targets)
    mean, std = model.predict(X_NEW, return_std=True)
    assert mean.shape == std.shape == (11, 2)
    assert np.isfinite(mean).all()
    # The second output is the first one upside down in units a hundred times smaller.
    assert 20 < np.median(std[:, 1] / std[:, 0]) < 500
    dist = model.predict_distribution(X_NEW)
    assert dist.log_prob(np.column_stack([Y_NEW, 1000.0 - 100.0 * Y_NEW])).shape == (11, 2)
    assert model.sample_y(X_NEW, 3).shape == (11, 2, 3)
    joint_mean, cov = model.predict(X_NEW, return_cov=True)
    assert joint_mean.shape == (11, 2)
    assert cov.shape == (2, 11, 11)
    back = pickle.loads(pickle.dumps(model))
    assert_array_equal(back.predict(X_NEW), mean)


@every_method
def test_one_column_of_targets_keeps_its_axis(method):
    case = (method, 1, "rbf", "float64")
    model = make(case).fit(X, Y[:, None])
    assert model.predict(X_NEW).shape == (11, 1)
    assert_allclose(model.predict(X_NEW)[:, 0], fitted(case).predict(X_NEW))


@every_method
def test_bad_input_is_refused_before_training(method):
    model = make((method, 2, "rbf", "float64"))
    broken = X.copy()
    broken[3, 1] = np.nan
    with pytest.raises(InputError, match="columns 1; rows 3"):
        model.fit(broken, Y)
    with pytest.raises(InputError, match="rows 2"):
        model.fit(X, np.where(np.arange(30) == 2, np.inf, Y))
    assert not hasattr(model, "model_")


@every_method
def test_torch_and_pandas_give_the_numbers_of_numpy(method):
    case = (method, 2, "rbf", "float64")
    expected = fitted(case).predict(X_NEW)
    tensors = make(case).fit(torch.tensor(X), torch.tensor(Y))
    assert_array_equal(tensors.predict(torch.tensor(X_NEW)), expected)
    names = ["age", "mass", "dose"]
    framed = make(case).fit(pd.DataFrame(X, columns=names), pd.Series(Y, name="target"))
    assert list(framed.feature_names_in_) == names
    assert_array_equal(framed.predict(pd.DataFrame(X_NEW, columns=names)), expected)
    with pytest.raises(InputError, match="feature names"):
        framed.predict(pd.DataFrame(X_NEW, columns=names)[["mass", "age", "dose"]])


def test_grid_search_chooses_among_methods_and_depths():
    grid = {"inference": ["sod", "dsvi"], "n_layers": [1, 2]}
    search = GridSearchCV(DeepGPRegressor().set_params(**SAMPLED, random_state=0), grid, cv=2).fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_ in [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    assert search.predict(X_NEW).shape == (11,)


def test_pipeline_scales_before_the_model():
    # Random rows: rounding decides which of two rows is nearest to a centre between them.
    model = make(("sod-whitened-ancestral", 2, "rbf", "float64"), subset="random")
    pipeline = make_pipeline(MinMaxScaler(), clone(model)).fit(X, Y)
    # An affine change of the inputs is undone by the scaling inside.
    assert_allclose(pipeline.predict(X_NEW), model.fit(X, Y).predict(X_NEW), rtol=1e-6)


def test_the_cases_hold_every_pair_of_values():
    methods_and_depths = {(method, n_layers) for method, n_layers, _, _ in CASES}
    assert methods_and_depths == set(product(METHODS, (1, 2, 3)))
    for method in METHODS:
        mine = [case for case in CASES if case[0] == method]
        assert {kernel for _, _, kernel, _ in mine} == set(kernels_of(method))
        assert {dtype for *_, dtype in mine} == set(DTYPES)
    assert isinstance(sum_and_product(3), gpytorch.kernels.Kernel)
