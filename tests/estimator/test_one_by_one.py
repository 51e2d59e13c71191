"""Members and restarts that train one by one, in one process or in many: the bits are the same."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from sodgp import DeepGPRegressor
from sodgp.errors import CheckpointError, NumericalError, NumericalWarning, ResourceError
from sodgp.training.callbacks import EarlyStopping

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (40, 2))
Y = np.sign(X[:, 0]) + 0.1 * RNG.normal(size=40)


@pytest.fixture(autouse=True)
def _small_models_train_alone(monkeypatch):
    monkeypatch.setattr("sodgp.estimator.one_by_one._ALONE", 0)


def make(**options) -> DeepGPRegressor:
    return DeepGPRegressor().set_params(
        **{"n_layers": 2, "subset_size": 8, "max_iter": 10, "random_state": 0, **options}
    )


class Stop:
    """Presses Ctrl-C in one of the models."""

    def __init__(self, model: int) -> None:
        self.model, self.opened = model, 0

    def open(self) -> None:
        self.opened += 1

    def __call__(self, state) -> None:
        if self.opened == self.model:
            raise KeyboardInterrupt


@pytest.mark.parametrize("options", [{}, {"callbacks": [EarlyStopping(patience=1, min_delta=1e9)], "max_iter": 120}])
def test_members_have_the_bits_of_single_fits_with_any_number_of_jobs(options):
    one, two = (make(n_members=3, n_jobs=n_jobs, **options).fit(X, Y) for n_jobs in (1, 2))
    np.testing.assert_array_equal(two.predict(X, return_std=True), one.predict(X, return_std=True))
    member, other = one.members_[2], two.members_[2]
    alone = make(random_state=member.random_state, **options).fit(X, Y)
    assert alone.history_.bound == member.history_.bound == other.history_.bound
    assert alone.history_.stopped == other.history_.stopped
    np.testing.assert_array_equal(alone.predict(X), other.predict(X))


def test_restarts_have_the_same_bits_with_any_number_of_jobs(capsys):
    one, two = (make(n_restarts=3, n_jobs=n_jobs, verbose=1).fit(X, Y) for n_jobs in (1, 2))
    assert one.restart_bounds_ == two.restart_bounds_
    np.testing.assert_array_equal(two.predict(X), one.predict(X))
    assert capsys.readouterr().err.count("30/30") == 2


def test_small_models_are_one_program(monkeypatch):
    monkeypatch.setattr("sodgp.estimator.one_by_one._ALONE", np.inf)
    seen = []
    make(n_members=3, callbacks=[lambda state: seen.append(state.iteration)]).fit(X, Y)
    assert seen == [1, 10]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_checkpoints_of_each_model(n_jobs, tmp_path):
    expected = make(n_members=3).fit(X, Y).predict(X)
    options = {"n_members": 3, "n_jobs": n_jobs, "checkpoint": tmp_path, "checkpoint__every": 4}
    part = make(**options, max_minutes=1e-9).fit(X, Y)
    assert [member.history_.stopped for member in part.members_] == ["max_minutes"] * 3
    with pytest.raises(CheckpointError, match="unfinished fit"):
        make(**options).fit(X, Y)
    again = make(**options).fit(X, Y, resume=True)
    np.testing.assert_array_equal(again.predict(X), expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model-0", "model-1", "model-2"]
    for path in (tmp_path / "model-2").iterdir():
        path.unlink()
    with pytest.raises(CheckpointError, match="unfinished fit"):
        make(**options).fit(X, Y)
    np.testing.assert_array_equal(make(**options).fit(X, Y, resume=True).predict(X), expected)


def test_ctrl_c_keeps_the_models_that_are_complete(tmp_path):
    with pytest.warns(NumericalWarning, match="training was interrupted"):
        model = make(n_members=4, callbacks=[Stop(3)]).fit(X, Y)
    assert (model.n_members_, model.history_.stopped) == (2, "interrupted")
    model.set_params(callbacks=None).save(tmp_path / "m.sodgp")
    np.testing.assert_array_equal(DeepGPRegressor.load(tmp_path / "m.sodgp").predict(X), model.predict(X))


def test_ctrl_c_in_the_first_model_keeps_it():
    with pytest.warns(NumericalWarning, match="training was interrupted"):
        model = make(n_restarts=2, callbacks=[Stop(1)]).fit(X, Y)
    assert (len(model.restart_bounds_), model.history_.stopped) == (1, "interrupted")


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_model_that_ran_away_keeps_the_last_good_parameters_of_all(n_jobs):
    model = make(n_members=2, n_jobs=n_jobs, max_iter=400, learning_rate=1e6, dtype="float32")
    with pytest.raises(NumericalError, match="last good parameters"):
        model.fit(X, Y)
    assert len(model.members_) == 2
    assert np.isfinite(model.predict(X)).all()


def test_memory_is_asked_for_as_many_models_as_train_at_once(monkeypatch):
    asked = []
    monkeypatch.setattr("sodgp.system.memory.require_memory", lambda needed, *_: asked.append(needed))
    make(n_members=3).fit(X, Y)
    assert asked[1:] == [asked[1]] * 4  # after the preparation, and so below
    monkeypatch.setattr("sodgp.system.memory.require_memory", lambda needed, *_: 1 / (needed <= asked[1]))
    with pytest.raises(ZeroDivisionError):
        make(n_members=3, n_jobs=2).fit(X, Y)


def test_too_little_memory_names_the_jobs(monkeypatch):
    monkeypatch.setattr("sodgp.system.memory.available_memory", lambda *_: 10_000)
    with pytest.raises(ResourceError, match="n_jobs"):
        make(n_members=2, n_jobs=2).fit(X, Y)


def test_a_search_trains_in_many_processes(monkeypatch):
    monkeypatch.undo()  # the other processes have the value of the module
    grid = {"n_layers": [1, 2]}
    one, two = (GridSearchCV(make(n_members=2), grid, cv=2, n_jobs=n_jobs).fit(X, Y) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])


@pytest.mark.parametrize(("n_samples", "threads"), [(3, 1), (10**5, 4)])
def test_auto_is_the_idle_cores_where_a_step_is_large(n_samples, threads, monkeypatch):
    monkeypatch.setattr("sodgp.estimator.one_by_one.idle_cores", lambda: 4)
    asked = []

    def trained(*args, **kwargs):
        raise NumericalError("away.")

    class Threads:
        def __init__(self, count) -> None:
            asked.append(count)

        def __enter__(self) -> None: ...

        def __exit__(self, *error) -> None: ...

    monkeypatch.setattr("sodgp.estimator.many.fit", trained)
    monkeypatch.setattr("sodgp.estimator.many.cpu_threads", Threads)
    monkeypatch.setattr("sodgp.system.memory.require_memory", lambda *_: None)
    with pytest.raises(NumericalError):
        make(n_samples=n_samples, n_threads="auto").fit(X, Y)
    assert asked == [threads]
