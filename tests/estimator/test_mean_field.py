"""Mean-field deep GPs through the estimator."""

import pickle

import numpy as np
import pytest
from gpytorch.kernels import RBFKernel, ScaleKernel

from sodgp import DeepGPRegressor, MeanField, Tuning
from sodgp.errors import ConfigurationError, InputError
from sodgp.model.architecture import Initialization


def small_data(rows=40, d_in=2):
    X = np.random.default_rng(0).normal(size=(rows, d_in))
    return X, np.sin(2 * X[:, 0]) + 0.1 * X[:, -1]


def regressor(**options):
    defaults = {"subset_size": 8, "max_iter": 40, "random_state": 0, "device": "cpu", "n_predict_samples": 6}
    return DeepGPRegressor(inference=MeanField(), **{**defaults, **options})


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_fit_and_predict(n_layers, dtype):
    X, y = small_data()
    model = regressor(n_layers=n_layers, dtype=dtype).fit(X, y)
    mean, std = model.predict(X[:7], return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert model.history_.bound[-1] > model.history_.bound[0]
    assert model.predict(X[:5], return_cov=True)[1].shape == (5, 5)
    again = regressor(n_layers=n_layers, dtype=dtype).fit(X, y)
    np.testing.assert_array_equal(again.predict(X[:7]), mean)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X[:7]), mean)
    assert copy.n_parameters_ == copy.model_.n_parameters == model.n_parameters_


@pytest.mark.parametrize(
    "options",
    [
        {"hidden_mean": "zero"},
        {"hidden_width": 1},
        {"hidden_width": 4},
        {"kernel": "rbf-iso"},
        {"kernel": lambda dims: ScaleKernel(RBFKernel(ard_num_dims=dims))},
        {"tuning": Tuning(jitter="program")},
        {"tuning": Tuning(initialization=Initialization(layer_noise_variance=0.1))},
    ],
    ids=["zero_mean", "narrow", "wide", "isotropic", "own_kernel", "program_jitter", "own_start"],
)
def test_options(options):
    X, y = small_data()
    model = regressor(**options).fit(X, np.column_stack([y, -y]))
    assert model.predict(X).shape == (40, 2)
    assert model.history_.bound[-1] > model.history_.bound[0]


def test_it_learns():
    X = np.linspace(-1, 1, 40)[:, None]
    y = np.sin(4 * X[:, 0])
    model = regressor(max_iter=200, learning_rate=0.03, subset_size=10).fit(X, y)
    assert np.sqrt(np.mean((model.predict(X) - y) ** 2)) < 0.1
    assert model.predict(X, return_std=True)[1].mean() < 0.3


def test_every_step_sees_all_rows():
    X, y = small_data(2100, 1)
    model = regressor(max_iter=1, subset_size=3).fit(X, y)
    assert model.model_.layers[0].latent.mean.shape == (2100, 1)


@pytest.mark.parametrize("kernel", ["matern52", "rq-iso"])
@pytest.mark.parametrize("n_layers", [1, 2])
def test_other_kernels_are_refused(kernel, n_layers):
    with pytest.raises(ConfigurationError, match="psi statistics are closed for RBF only"):
        regressor(kernel=kernel, n_layers=n_layers).fit(*small_data())


@pytest.mark.parametrize("option", [{"batch_size": 30}, {"n_samples": 3}], ids=str)
def test_options_without_meaning_are_refused(option):
    with pytest.raises(ConfigurationError, match=f"{next(iter(option))}=.* has no meaning for inference='mean_field'"):
        regressor(**option).fit(*small_data())


def test_too_much_data_is_refused():
    with pytest.raises(InputError, match="5001 rows"):
        regressor().fit(*small_data(5001, 1))


@pytest.mark.parametrize("n_layers", [1, 2])
def test_a_model_file_predicts_the_same(n_layers, tmp_path):
    X, y = small_data()
    model = regressor(n_layers=n_layers).fit(X, y)
    model.save(tmp_path / "m.sodgp")
    loaded = DeepGPRegressor.load(tmp_path / "m.sodgp")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.n_parameters_ == model.n_parameters_
