"""Callbacks: early stopping, loggers, schedules by function, validation rows and the time budget."""

import sys
import types
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import clone

from sodgp import DeepGPRegressor
from sodgp.errors import ConfigurationError, InputError, NumericalWarning
from sodgp.training.callbacks import EarlyStopping, MLflow, TensorBoard
from sodgp.training.history import TrainingState

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 2))
Y = 5.0 + 3.0 * np.sin(2 * X[:, 0]) + 0.1 * RNG.standard_normal(40)


def make(**options):
    small = {"n_layers": 1, "subset_size": 8, "n_samples": 2, "n_predict_samples": 4, "max_iter": 100}
    return DeepGPRegressor().set_params(**{**small, "random_state": 0, **options})


def state(iteration, bound, validation=None):
    return TrainingState(iteration, 1000, bound, {"fit": bound}, 1.0, 0.1, None, validation)


# ----- early stopping


def test_early_stopping_waits_for_an_improvement_and_no_longer():
    stop = EarlyStopping(patience=100, min_delta=0.5, smoothing=0.0)
    assert not any(stop(state(i, bound)) for i, bound in ((1, 0.0), (50, 1.0), (100, 1.4), (149, 1.4)))
    assert (stop.best, stop.best_iteration) == (1.0, 50)
    assert stop(state(150, 1.5))  # better by 0.5 is not more than 0.5


def test_smoothing_sees_through_noise():
    noisy = [(50 * i, float(i % 2)) for i in range(1, 20)]
    plain, smooth = EarlyStopping(patience=200, smoothing=0.0), EarlyStopping(patience=200, smoothing=0.9)
    rising = [(50 * i, 0.1 * i + float(i % 2 == 0)) for i in range(1, 20)]
    assert any(plain(state(*entry)) for entry in noisy)
    assert not any(smooth(state(*entry)) for entry in rising)
    average = EarlyStopping(smoothing=0.25)
    average(state(1, 4.0))
    average(state(50, 8.0))
    assert average.best == pytest.approx(7.0)


def test_a_new_fit_starts_without_the_old_ones_memory():
    stop = EarlyStopping(patience=50, min_delta=1e9)
    model = make(max_iter=400, tuning__schedule="constant", callbacks=[stop])
    assert [model.fit(X, Y).n_iter_ for _ in range(2)] == [100, 100]
    assert model.history_.stopped == "callback"
    assert stop.best_iteration == 1


def test_early_stopping_on_held_out_rows():
    stop = EarlyStopping("validation", patience=50, min_delta=1e9)
    model = make(max_iter=400, validation_fraction=0.25, callbacks=[stop]).fit(X, Y)
    assert model.n_iter_ == 100
    with pytest.raises(ConfigurationError, match="set validation_fraction"):
        make(callbacks=[stop]).fit(X, Y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"monitor": "loss"}, "monitor='loss' is unknown"),
        ({"patience": 0}, "patience must be"),
        ({"smoothing": 1.0}, "smoothing must be"),
        ({"min_delta": -1.0}, "min_delta must be"),
    ],
)
def test_options_of_early_stopping_are_checked(options, message):
    with pytest.raises(ConfigurationError, match=message):
        EarlyStopping(**options)


# ----- held-out rows


@pytest.mark.parametrize("inference", ["sod", "dsvi", "mean_field"])
def test_the_validation_score_is_that_of_predictions_of_rows_that_training_never_saw(inference):
    options = {} if inference == "mean_field" else {"n_samples": 2}
    model = DeepGPRegressor(
        inference=inference, max_iter=60, subset_size=8, validation_fraction=0.25, random_state=0, **options
    ).fit(X, Y)
    held = model.validation_indices_
    assert len(held) == 10
    assert len(model.history_.validation) == len(model.history_.iteration)
    expected = np.mean(model.predict_distribution(X[held]).log_prob(Y[held]))
    assert model.history_.validation[-1] == pytest.approx(expected, rel=1e-9)
    # The rest alone decides the fit: another fit of the rest, with the same seeds, has its scaling.
    rest = np.delete(np.arange(40), held)
    assert model.fitted_.x_scaler.mean_ == pytest.approx(X[rest].mean(0))
    if inference == "sod":
        assert not set(model.subset_indices_) & set(held)
        scaled = (X[model.subset_indices_] - X[rest].mean(0)) / X[rest].std(0)
        np.testing.assert_allclose(model.fitted_.subset.X, scaled, rtol=1e-12)


def test_held_out_rows_keep_the_row_numbers_of_the_data(tmp_path):
    model = make(n_layers=2, max_iter=60, validation_fraction=0.4).fit(X, Y)
    model.save(tmp_path / "m.sodgp")
    again = DeepGPRegressor.load(tmp_path / "m.sodgp")
    assert again.history_.validation == model.history_.validation
    np.testing.assert_array_equal(again.subset_indices_, model.subset_indices_)
    again.save(tmp_path / "again.sodgp")
    np.testing.assert_array_equal(DeepGPRegressor.load(tmp_path / "again.sodgp").predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"validation_fraction": 1.0}, ConfigurationError, "between 0 and 1"),
        ({"validation_fraction": "some"}, ConfigurationError, "validation_fraction must be"),
        ({"validation_fraction": 0.99}, InputError, "leaves 0 of 40 rows"),
        ({"validation_fraction": 0.1, "n_restarts": 2}, ConfigurationError, "n_restarts"),
        ({"max_minutes": 0}, ConfigurationError, "max_minutes must be"),
    ],
)
def test_wrong_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        make(**options).fit(X, Y)


def test_what_validation_cannot_do_is_refused():
    with pytest.raises(ConfigurationError, match="no meaning for inference='sghmc'"):
        DeepGPRegressor().set_params(inference="sghmc", validation_fraction=0.1).fit(X, Y)
    with pytest.raises(ConfigurationError, match="do not go together"):
        make(validation_fraction=0.1).fit(X, Y, noise_variance=0.1)


# ----- time


def test_a_time_budget_ends_training_with_a_usable_model():
    model = make(max_iter=10**6, max_minutes=0.2 / 60).fit(X, Y)
    assert model.history_.stopped == "max_minutes"
    assert 0 < model.n_iter_ < 10**6
    assert model.history_.iteration[-1] == model.n_iter_
    assert np.isfinite(model.predict(X)).all()


def test_the_time_budget_of_a_sampler_covers_its_draws_too():
    options = {"n_samples": 10, "inference": "sghmc", "inference__n_posterior_samples": 10_000, "learning_rate": 0.01}
    with pytest.warns(NumericalWarning, match="predicts with"):
        model = make(**options, max_iter=20, max_minutes=0.3 / 60).fit(X, Y)
    assert model.history_.stopped == "max_minutes"
    assert not hasattr(model, "diagnostics_")
    assert np.isfinite(model.predict(X)).all()


# ----- loggers


@pytest.fixture
def tensorboard(monkeypatch):
    """A stand-in for PyTorch's writer, which needs a package that the tests do not."""
    module = types.ModuleType("torch.utils.tensorboard")

    class SummaryWriter:
        made: ClassVar = []

        def __init__(self, log_dir):
            self.log_dir, self.scalars, self.is_closed = log_dir, [], False
            self.made.append(self)

        def add_scalar(self, name, value, step):
            self.scalars.append((name, step, float(value)))

        def close(self):
            self.is_closed = True

    module.SummaryWriter = SummaryWriter
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    return SummaryWriter


def test_tensorboard_gets_every_number(tensorboard, tmp_path):
    model = make(callbacks=[TensorBoard(tmp_path)], validation_fraction=0.1).fit(X, Y)
    (writer,) = tensorboard.made
    assert writer.is_closed
    assert writer.log_dir == str(tmp_path)
    bounds = [value for name, _, value in writer.scalars if name == "bound"]
    assert bounds == model.history_.bound
    names = {name for name, *_ in writer.scalars}
    terms = {f"terms/{name}" for name in model.history_.terms}
    assert names == {"bound", "learning_rate", "seconds", "validation"} | terms
    assert [step for name, step, _ in writer.scalars if name == "bound"] == [1, 50, 100]


class Mlflow(types.ModuleType):
    """A stand-in for MLflow: runs, metrics and parameters."""

    def __init__(self):
        super().__init__("mlflow")
        self.runs, self.active, self.uri = {}, None, None

    def set_tracking_uri(self, uri):
        self.uri = uri

    def active_run(self):
        return self.active

    def start_run(self, run_id=None, run_name=None):
        run_id = run_id or f"run{len(self.runs)}"
        self.runs.setdefault(run_id, {"name": run_name, "metrics": [], "params": []})
        self.active = types.SimpleNamespace(info=types.SimpleNamespace(run_id=run_id))
        return self.active

    def end_run(self):
        self.active = None

    def log_metrics(self, metrics, step):
        self.runs[self.active.info.run_id]["metrics"].append((step, metrics))

    def log_params(self, params):
        self.runs[self.active.info.run_id]["params"].append(params)


@pytest.fixture
def mlflow(monkeypatch):
    module = Mlflow()
    monkeypatch.setitem(sys.modules, "mlflow", module)
    return module


def test_mlflow_gets_a_run_of_its_own(mlflow):
    callback = MLflow(run_name="mine", tracking_uri="file:here", params={"n_layers": 1})
    model = make(callbacks=[callback]).fit(X, Y)
    assert mlflow.active is None
    assert mlflow.uri == "file:here"
    (run,) = mlflow.runs.values()
    assert run["name"] == "mine"
    assert run["params"] == [{"n_layers": 1}]
    assert [metrics["bound"] for _, metrics in run["metrics"]] == model.history_.bound
    make(callbacks=[callback]).fit(X, Y)
    assert len(mlflow.runs) == 2


def test_mlflow_uses_a_run_that_is_there_and_leaves_it_open(mlflow):
    mlflow.start_run(run_id="outer")
    make(callbacks=[MLflow()]).fit(X, Y)
    assert list(mlflow.runs) == ["outer"]
    assert mlflow.active is not None


def test_a_resumed_fit_goes_on_in_its_mlflow_run(mlflow, tmp_path):
    def stop(state):
        if state.iteration == 50:
            raise KeyboardInterrupt

    options = {"checkpoint": tmp_path, "max_iter": 100}
    with pytest.warns(NumericalWarning, match="interrupted"):
        make(callbacks=[MLflow(), stop], **options).fit(X, Y)
    make(callbacks=[MLflow()], **options).fit(X, Y, resume=True)
    (run,) = mlflow.runs.values()
    assert [step for step, _ in run["metrics"]] == [1, 50, 100]


@pytest.mark.parametrize(("callback", "extra"), [(TensorBoard("here"), "tensorboard"), (MLflow(), "mlflow")])
def test_a_missing_package_is_named_with_its_extra(monkeypatch, callback, extra):
    for name in ("torch.utils.tensorboard", "mlflow"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigurationError, match=rf"pip install 'sodgp\[{extra}\]'"):
        make(callbacks=[callback]).fit(X, Y)


# ----- with the rest of the library


def test_callbacks_are_cloned_but_not_saved(tmp_path):
    model = make(callbacks=[EarlyStopping(patience=70), TensorBoard("here"), MLflow(run_name="mine")])
    copy = clone(model)
    assert [type(callback) for callback in copy.callbacks] == [EarlyStopping, TensorBoard, MLflow]
    assert copy.callbacks[0] is not model.callbacks[0]
    assert copy.callbacks[0].patience == 70
    model.set_params(callbacks=[EarlyStopping()]).fit(X, Y).save(tmp_path / "m.sodgp")
    assert DeepGPRegressor.load(tmp_path / "m.sodgp").callbacks is None
