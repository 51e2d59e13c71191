"""Predictions of an estimator: one mean however it is asked for, and a subset that is drawn once for all of them."""

import copy
import pickle

import numpy as np
import pytest
from gpytorch.kernels import LinearKernel, RBFKernel
from numpy.testing import assert_allclose, assert_array_equal

from sodgp import DeepGPRegressor
from sodgp.errors import NumericalError
from sodgp.inference import sod_kept

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (40, 2))
Y = np.stack([np.sign(X[:, 0]), X[:, 1]], 1) + 0.1 * RNG.standard_normal((40, 2))
NEW = RNG.uniform(-1.5, 1.5, (7, 2))
MODELS = {
    "one layer": {"n_layers": 1},
    "two layers": {"n_layers": 2},
    "three layers": {"n_layers": 3, "inference__separate_kernels": False},
    "separate kernels": {"n_layers": 3, "inference__separate_kernels": True},
    "the paper's family": {"n_layers": 3, "inference__parameterization": "paper", "hidden_width": 3},
    "joint": {"n_layers": 3, "inference__coupling": "joint"},
    "marginal": {"n_layers": 3, "inference__coupling": "marginal"},
    "matern": {"kernel": "matern52"},
    "float32": {"dtype": "float32"},
    "varying noise": {"likelihood": "heteroscedastic"},
    "heavy tails": {"likelihood": "heavy_tailed"},
    "members": {"n_members": 2},
    "dsvi": {"inference": "dsvi"},
    "sghmc": {"inference": "sghmc", "inference__n_posterior_samples": 4, "inference__thinning": 2},
}


def fitted(**options):
    options = {"n_layers": 2, "subset_size": 10, "max_iter": 5, "n_predict_samples": 5, "random_state": 0, **options}
    return DeepGPRegressor().set_params(**options).fit(X, Y)


@pytest.fixture
def drawn(monkeypatch):
    """The models whose subsets were drawn, in turn."""
    models, honest = [], sod_kept.SubsetPredictor

    def noted(model, *others):
        models.append(model)
        return honest(model, *others)

    monkeypatch.setattr(sod_kept, "SubsetPredictor", noted)
    return models


@pytest.mark.parametrize("name", MODELS)
def test_the_mean_is_one_number_however_it_is_asked_for(name):
    model = fitted(**MODELS[name])
    mean = model.predict(NEW)
    for other in (model.predict(NEW, return_std=True)[0], model.predict_distribution(NEW).mean):
        if name == "members":  # whose components are averaged in another order
            assert_allclose(other, mean, rtol=0, atol=1e-14)
        else:
            assert_array_equal(other, mean)


@pytest.mark.gpu
@pytest.mark.parametrize("name", MODELS)
def test_on_a_gpu_as_on_a_cpu(name, tmp_path):
    model = fitted(**MODELS[name], device="cuda")
    mean, std = model.predict(NEW, return_std=True)
    tolerance = 1e-3 if MODELS[name].get("dtype") == "float32" else 1e-8
    assert_allclose(model.predict(NEW), mean, rtol=0, atol=1e-3 * tolerance)
    assert_allclose(model.predict(NEW[:1]), mean[:1], rtol=0, atol=tolerance)
    model.save(tmp_path / "model")
    DeepGPRegressor.load(tmp_path / "model").set_params(device="cpu").save(tmp_path / "here")
    here = DeepGPRegressor.load(tmp_path / "here")
    assert not next(here.model_.parameters()).is_cuda
    for ours, theirs in zip(here.predict(NEW, return_std=True), (mean, std), strict=True):
        assert_allclose(ours, theirs, rtol=0, atol=tolerance)


def test_one_subset_serves_all_chunks_and_further_predictions(drawn, monkeypatch):
    model = fitted()
    drawn.clear()
    whole = model.predict(NEW, return_std=True)
    monkeypatch.setattr("sodgp.estimator.memory_budget.CHUNK_BYTES", 1)
    for one, other in zip(model.predict(NEW, return_std=True), whole, strict=True):
        assert_allclose(one, other, rtol=0, atol=1e-12)
    model.predict(NEW[:1])
    model.predict_distribution(NEW)
    assert drawn == [model.model_]


def test_members_keep_a_subset_each(drawn):
    model = fitted(n_members=2)
    drawn.clear()
    assert_array_equal(model.predict(NEW), model.predict(NEW))
    assert len(drawn) == 2


def test_another_number_of_samples_is_noticed(drawn):
    model = fitted()
    before = model.predict(NEW)
    drawn.clear()
    assert not np.array_equal(model.set_params(n_predict_samples=6).predict(NEW), before)
    assert drawn == [model.model_]


def test_a_change_of_the_model_is_noticed(drawn):
    """GPyTorch's setter does not raise PyTorch's counter of versions."""
    model = fitted()
    before = model.predict(NEW)
    drawn.clear()
    kernel = model.model_.last.kernel.base_kernel
    kernel.lengthscale = 0.5 * kernel.lengthscale.detach()
    assert not np.array_equal(model.predict(NEW), before)
    assert drawn == [model.model_]


def test_a_refit_and_copies_begin_anew(drawn):
    model = fitted()
    mean = model.predict(NEW)
    drawn.clear()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert_array_equal(other.predict(NEW), mean)
    assert len(drawn) == 2
    assert not np.array_equal(model.fit(X, -Y).predict(NEW), mean)


def test_nothing_is_kept_of_a_model_in_training():
    seen = []

    def look(state):
        seen.append(state.model in sod_kept._KEPT)

    # A score on rows that are held out predicts with the model between two steps.
    model = fitted(callbacks=[look], validation_fraction=0.3, max_iter=30)
    assert len(seen) > 0
    assert not any(seen)
    assert model.model_ not in sod_kept._KEPT
    model.predict(NEW)
    assert model.model_ in sod_kept._KEPT


def test_a_finite_mean_needs_no_finite_variance():
    model = fitted(n_layers=1, kernel=lambda dims: LinearKernel() + RBFKernel())
    far = np.array([[1e170, 0.0]])
    assert np.isfinite(model.predict(far)).all()
    with pytest.raises(NumericalError, match="not finite"):
        model.predict(far, return_std=True)


def test_heavy_tails_can_be_scored_on_rows_that_are_held_out():
    model = fitted(likelihood="heavy_tailed", validation_fraction=0.3, max_iter=30)
    assert len(model.history_.validation) > 0
    assert np.isfinite(model.history_.validation).all()
