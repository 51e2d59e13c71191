"""Laws of rows: those of the method's own prediction, means for less, and kept only while nothing has changed."""

import copy
import gc
import pickle

import numpy as np
import pytest
import torch
from gpytorch.kernels import Kernel, LinearKernel, RBFKernel, ScaleKernel
from numpy.testing import assert_allclose, assert_array_equal
from sodgp.inference.row_laws import row_law

from sodgp import DeepGPRegressor
from sodgp.errors import NumericalError
from sodgp.inference import row_laws
from sodgp.linalg.draws import SharedDraws

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (40, 2))
Y = np.stack([np.sign(X[:, 0]), X[:, 1]], 1) + 0.1 * RNG.standard_normal((40, 2))
NEW = RNG.uniform(-1.5, 1.5, (7, 2))
MODELS = {
    "one layer": {"n_layers": 1},
    "two layers": {"n_layers": 2},
    "three layers": {"n_layers": 3, "separate_kernels": False},
    "separate kernels": {"n_layers": 3, "separate_kernels": True},
    "the paper's family": {"n_layers": 3, "parameterization": "paper", "hidden_width": 3},
    "joint": {"n_layers": 3, "coupling": "joint"},
    "marginal": {"n_layers": 3, "coupling": "marginal"},
    "matern": {"kernel": "matern52"},
    "float32": {"dtype": "float32"},
    "varying noise": {"noise": "heteroscedastic"},
    "heavy tails": {"noise": "heavy_tailed"},
    "members": {"n_members": 2},
    "dsvi": {"inference": "dsvi"},
    "sghmc": {"inference": "sghmc", "n_posterior_samples": 4, "thinning": 2},
}


def fitted(**options):
    options = {"n_layers": 2, "subset_size": 10, "max_iter": 5, "n_predict_samples": 5, "random_state": 0, **options}
    return DeepGPRegressor(**options).fit(X, Y)


@pytest.fixture
def drawn(monkeypatch):
    """The models whose subsets were drawn, in turn."""
    models, honest = [], row_laws.DrawnSubset

    def noted(model, *others):
        models.append(model)
        return honest(model, *others)

    monkeypatch.setattr(row_laws, "DrawnSubset", noted)
    return models


@pytest.mark.parametrize("name", [name for name in MODELS if name != "members"])
def test_the_law_is_that_of_the_method(name):
    model = fitted(**MODELS[name])
    rows = model._scaled_rows(NEW).unsqueeze(0)
    law = row_law(model.model_, model._method, model._X_s, model._y_s, n_samples=5, seed=3)
    with torch.no_grad():
        numbers, again, once_more = (SharedDraws(3, 5, dtype=rows.dtype) for _ in range(3))
        theirs = predict(model._method, model.model_, model._X_s, model._y_s, rows, numbers)
        ours, mean = law(rows, again), law.mean(rows, once_more)
    tolerance = 1e-10 if rows.dtype == torch.float64 else 1e-4
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        torch.testing.assert_close(a, b, rtol=0, atol=tolerance)
    assert torch.equal(mean, ours[0])


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
def test_on_a_gpu_as_on_a_processor(name, tmp_path):
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


@pytest.mark.parametrize("how", ["lengthscale", "factor", "samples", "seed", "labels", "dtype"])
def test_whatever_changes_is_noticed(how, drawn):
    model = fitted()
    before = model.predict(NEW)
    drawn.clear()
    if how == "lengthscale":  # GPyTorch sets it behind the back of PyTorch's counter of versions
        kernel = model.model_.last.kernel.base_kernel
        kernel.lengthscale = 0.5 * kernel.lengthscale.detach()
    elif how == "factor":
        with torch.no_grad():
            model.model_.last.q_mean.add_(0.1)
    elif how == "samples":
        model.set_params(n_predict_samples=6)
    elif how == "seed":
        model._predict_seed += 1
    elif how == "labels":
        model._y_s = model._y_s + 0.1
    else:
        model.model_.float()
        model._X_s, model._y_s = model._X_s.float(), model._y_s.float()
    assert not np.array_equal(model.predict(NEW), before)
    assert len(drawn) == 1


class Own(Kernel):
    """A kernel of a user's, with a power of its own, that takes no empty tensors."""

    has_lengthscale = True

    def __init__(self, power=2.0):
        super().__init__()
        self.power = power

    def forward(self, x1, x2, diag=False, **params):
        a, b = (x.reshape(*x.shape[:-1], -1, 2).flatten(-2) / self.lengthscale for x in (x1, x2))
        difference = a - b if diag else a.unsqueeze(-2) - b.unsqueeze(-3)
        return (-difference.abs().pow(self.power).sum(-1)).exp()

    def get_extra_state(self):
        return {"power": self.power}

    def set_extra_state(self, state):
        self.power = state["power"]


def test_with_a_users_kernel_nothing_is_kept(drawn):
    """Whose attributes nobody can compare."""
    model = fitted(kernel=lambda dims: ScaleKernel(Own()))
    drawn.clear()
    before = model.predict(NEW)
    for layer in model.model_.layers:
        layer.kernel.base_kernel.power = 1.0
    assert np.abs(model.predict(NEW) - before).max() > 1e-3
    assert len(drawn) == 2


def test_nothing_is_kept_of_a_model_in_training(drawn):
    seen = []

    def look(state):
        probe.model_ = state.model
        seen.append(probe.predict(NEW[:1]))

    probe = fitted()
    drawn.clear()
    model = fitted(callbacks=[look])
    assert len(drawn) == len(seen) > 0
    assert model.model_ not in row_laws._KEPT


def test_a_finite_mean_needs_no_finite_variance():
    model = fitted(n_layers=1, kernel=lambda dims: LinearKernel() + RBFKernel())
    far = np.array([[1e170, 0.0]])
    assert np.isfinite(model.predict(far)).all()
    with pytest.raises(NumericalError, match="not finite"):
        model.predict(far, return_std=True)


def test_a_refit_and_copies_begin_anew(drawn):
    model = fitted()
    mean = model.predict(NEW)
    drawn.clear()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert_array_equal(other.predict(NEW), mean)
    assert len(drawn) == 2
    assert not np.array_equal(model.fit(X, -Y).predict(NEW), mean)


def test_large_ones_are_not_kept_and_none_outlives_its_model(drawn, monkeypatch):
    model = fitted()
    model.predict(NEW)
    assert model.model_ in row_laws._KEPT
    kept = row_laws._KEPT[model.model_]
    size = sum(tensor.nbytes for tensor in (*kept.law.tensors, *kept.values))
    for limit, is_kept in ((size - 1, False), (size, True)):
        monkeypatch.setattr(row_laws, "_KEPT_BYTES", limit)
        row_laws._KEPT.clear()
        model.predict(NEW)
        assert (model.model_ in row_laws._KEPT) is is_kept
    monkeypatch.undo()
    model.predict(NEW)
    held = len(row_laws._KEPT)
    del model
    drawn.clear()
    gc.collect()
    assert len(row_laws._KEPT) < held
