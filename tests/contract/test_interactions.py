"""Features that meet: what works alone must work together, or say why not."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from sodgp import DeepGPRegressor
from sodgp.cli.tables import check_output
from sodgp.errors import CheckpointWarning, ConfigurationError, InputError
from sodgp.estimator.many import fit_replicates
from sodgp.estimator.memory_budget import prediction_bytes
from sodgp.estimator.presets import paper
from sodgp.training.callbacks import EarlyStopping

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=40)
QUICK = {"max_iter": 20, "subset_size": 8, "n_predict_samples": 5, "random_state": 0}


@pytest.mark.parametrize("options", [{"n_layers": 1}, {"n_layers": 2}, {"n_layers": 1, "inference": "dsvi"}])
def test_the_held_out_score_is_that_of_the_prediction(options):
    model = DeepGPRegressor().set_params(validation_fraction=0.25, **QUICK, **options).fit(X, Y)
    held = model.validation_indices_
    expected = model.predict_distribution(X[held]).log_prob(Y[held]).mean()
    np.testing.assert_allclose(model.history_.validation[-1], expected, rtol=1e-6)


def test_a_fit_with_restarts_leaves_nothing_of_an_earlier_one(tmp_path):
    model = DeepGPRegressor().set_params(
        inference="sghmc", inference__n_posterior_samples=4, inference__thinning=2, **QUICK
    )
    model.fit(pd.DataFrame(X, columns=["a", "b"]), Y)
    model.set_params(inference="sod", n_restarts=2).fit(X, Y)
    assert not hasattr(model, "diagnostics_")
    assert not hasattr(model, "feature_names_in_")
    assert len(model.restart_bounds_) == 2
    model.save(tmp_path / "m.sodgp")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(X)


def test_known_noise_for_all_replicates_or_none():
    for data in ([(X, Y), (X, Y, np.full(40, 0.1))], [(X, Y, np.full(40, 0.1)), (X, Y)]):
        models = [DeepGPRegressor().set_params(**QUICK) for _ in range(2)]
        with pytest.raises(ConfigurationError, match="known noise_variance, or none"):
            fit_replicates(models, data)


def test_a_warm_start_says_that_the_known_noise_is_missing():
    model = DeepGPRegressor().set_params(warm_start=True, **QUICK).fit(X, Y, noise_variance=np.full(40, 0.1))
    with pytest.raises(ConfigurationError, match="noise_variance where it had one"):
        model.fit(X, Y)


def test_noise_that_varies_is_counted_in_memory():
    plain, varying = (
        DeepGPRegressor().set_params(n_layers=1, likelihood=likelihood, **QUICK).fit(X, Y)
        for likelihood in ("gaussian", "heteroscedastic")
    )
    (_, few), (_, many) = (prediction_bytes(m.fitted_, 2000) for m in (plain, varying))
    assert many > few + 8 * 6 * 2000


class Opened:
    """Notes whether it was closed."""

    is_open = False

    def open(self):
        self.is_open = True

    def close(self):
        self.is_open = False

    def __call__(self, state):
        return None


def test_callbacks_are_closed_when_another_cannot_open():
    class Broken(Opened):
        def open(self):
            raise OSError("no space")

    first = Opened()
    with pytest.raises(OSError, match="no space"):
        DeepGPRegressor().set_params(callbacks=[first, Broken()], **QUICK).fit(X, Y)
    assert not first.is_open


def test_a_state_that_no_file_can_hold_does_not_end_training(tmp_path):
    class Best(Opened):
        def state(self):
            return {"best": -float("inf")}

        def restore(self, state):
            raise AssertionError

    model = DeepGPRegressor().set_params(
        callbacks=[Best()], checkpoint=str(tmp_path / "c"), checkpoint__every=5, **QUICK
    )
    with pytest.warns(CheckpointWarning, match="Best"):
        model.fit(X, Y)
    assert model.n_iter_ == 20


def test_the_papers_methods_have_no_effort():
    with pytest.raises(ConfigurationError, match="leave effort out"):
        paper(2, "SoD", effort="quick")


def test_a_page_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="not a folder that you may write to"):
        check_output(tmp_path / "file" / "page.html")


botorch = pytest.importorskip("sodgp.integrations.botorch")


def tensors():
    return torch.as_tensor(X), torch.as_tensor(Y)[:, None]


def test_one_row_of_noise_is_independent_over_the_points():
    model = botorch.DeepGPModel(*tensors(), estimator=DeepGPRegressor().set_params(**QUICK))
    points = torch.as_tensor(X[:3])
    plain, row, rows = (
        model.posterior(points, observation_noise=noise).distribution.covariance_matrix
        for noise in (False, torch.full((1, 1), 0.5), torch.full((3, 1), 0.5))
    )
    torch.testing.assert_close(row, rows)
    torch.testing.assert_close(row - plain, (0.5 * torch.eye(3)).to(row).expand_as(row))


@pytest.mark.parametrize(
    "options",
    [
        {"callbacks": [EarlyStopping()]},
        {"likelihood": "heteroscedastic", "n_restarts": 2},
        {"validation_fraction": 0.2},
        {"effort": "thorough"},
    ],
)
def test_options_of_the_first_fit_do_not_prevent_fantasies(options):
    model = botorch.DeepGPModel(
        *tensors(), estimator=DeepGPRegressor().set_params(**{**QUICK, **options}), refit_iter=4
    )
    new_x = torch.as_tensor(X[:1]).expand(2, 1, 2)
    fantasies = model.condition_on_observations(new_x, torch.zeros(2, 1, 1, dtype=torch.float64))
    assert fantasies.posterior(torch.as_tensor(X[:2])).mean.isfinite().all()


STATES = {
    "plain": {},
    "float32": {"dtype": "float32"},
    "dsvi": {"inference": "dsvi"},
    "sghmc": {"inference": "sghmc", "inference__n_posterior_samples": 2, "inference__thinning": 1},
    "mean field": {"inference": "mean_field", "dtype": "float32"},
    "varying noise": {"likelihood": "heteroscedastic", "dtype": "float32"},
    "heavy tails": {"likelihood": "heavy_tailed", "dtype": "float32"},
    "separate": {"inference__separate_kernels": True, "dtype": "float32"},
}


@pytest.fixture
def double_by_default():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def made(name):
    options = {name: value for name, value in QUICK.items() if name != "subset_size"} | {"max_iter": 4}
    return DeepGPRegressor().set_params(**options, **STATES[name])


@pytest.mark.parametrize("name", STATES)
def test_the_default_dtype_of_torch_changes_nothing(name, request, tmp_path):
    """Users of GPyTorch and BoTorch set it to double precision."""
    before = made(name).fit(X, Y)
    expected = before.predict(X, return_std=True)
    request.getfixturevalue("double_by_default")
    after = made(name).fit(X, Y)
    before.save(tmp_path / "m.sodgp")
    for model in (before, after, DeepGPRegressor.load(tmp_path / "m.sodgp")):
        for ours, theirs in zip(model.predict(X, return_std=True), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("options", [{}, {"n_members": 2}, STATES["sghmc"]], ids=str)
def test_a_fit_needs_no_gradients_around_it(off, options):
    options = {"n_layers": 2, "max_iter": 3, "random_state": 0, **options}
    with off():
        model = DeepGPRegressor().set_params(**options).fit(torch.as_tensor(X), torch.as_tensor(Y))
        inside = model.predict(X)
        assert not torch.is_grad_enabled()
    np.testing.assert_array_equal(inside, DeepGPRegressor().set_params(**options).fit(X, Y).predict(X))


def test_a_fit_without_gradients_can_be_continued():
    with torch.inference_mode():
        model = DeepGPRegressor().set_params(**QUICK, warm_start=True).fit(X, Y)
    assert model.fit(X, Y).history_.bound[0] > 0.9 * DeepGPRegressor().set_params(**QUICK).fit(X, Y).history_.bound[0]
