"""How cells are computed: every method, alone and as replicates, with and without curves."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import numpy as np
import pytest
from bench_fixtures import tiny  # noqa: F401 (a fixture for every test here)
from benchmarks.paper.cells import Key
from benchmarks.paper.history import Recorder
from benchmarks.paper.methods import compute
from benchmarks.paper.protocol import Request
from benchmarks.paper.splits import Split
from benchmarks.paper.unfinished import FOLDER, forget, kept

from sodgp import SGHMC, DeepGPRegressor
from sodgp.data import load
from sodgp.errors import CheckpointError, CheckpointWarning, NumericalError

SCORES = {"nlpp", "rmse", "crps", "coverage_50", "coverage_80", "coverage_90", "coverage_95"}


def cells_of(method, splits=(0,), iterations=8, layers=2, protocol="paper", **options):
    request = Request(protocol, ["tiny"], [method], [layers], splits, iterations=iterations)
    return compute(request, request.keys(), load("tiny"), device="cpu", **options)


@pytest.fixture
def short_chains(monkeypatch):
    original = Request.estimator

    def shorter(self, key, **changes):
        estimator = original(self, key, **changes)
        return (
            estimator.set_params(inference=SGHMC(n_posterior_samples=4, thinning=1))
            if key.method == "SGHMC"
            else estimator
        )

    monkeypatch.setattr(Request, "estimator", shorter)


@pytest.mark.usefixtures("short_chains")
@pytest.mark.parametrize("method", ["SoD", "SoD*", "DSVI", "DSVI*", "SGHMC", "SVGP", "default", "exact", "gpytorch"])
def test_every_method_gives_all_results(method):
    (cell,) = cells_of(method)
    assert set(cell.results) >= SCORES | {"seconds", "predict_seconds", "peak_memory_mib", "parameters"}
    assert all(np.isfinite(cell.results[name]) for name in SCORES)
    assert cell.results["seconds"] > 0
    assert cell.results["peak_memory_mib"] > 50
    assert (cell.results["train_rows"], cell.results["test_rows"]) == (54, 6)
    assert set(cell.origin) >= {"sodgp", "machine", "date"}
    if method == "exact":
        assert cell.history == {}
        return
    assert cell.history["iteration"] == [1, 8]
    assert len(cell.history["bound"]) == 2
    if method == "SGHMC":
        assert cell.history["test_nlpp"] == [None, None]
    else:
        # The last point of the curve is the result itself: the curve sees the very model.
        assert cell.history["test_nlpp"][-1] == pytest.approx(cell.results["nlpp"], rel=1e-7)
        assert cell.history["test_rmse"][-1] == pytest.approx(cell.results["rmse"], rel=1e-7)
        assert None not in cell.history["train_nlpp"]


@pytest.mark.parametrize("method", ["SoD", "gpytorch"])
def test_curves_change_no_result(method):
    (watched,), (alone,) = cells_of(method, history_every=100), cells_of(method, history_every=0)
    assert watched.results["nlpp"] == alone.results["nlpp"]
    assert alone.history == {}


@pytest.mark.parametrize("method", ["SoD", "DSVI"])
def test_replicates_have_the_results_of_single_fits(method):
    together = cells_of(method, splits=(0, 1))
    for cell in together:
        (alone,) = cells_of(method, splits=(cell.key.split,))
        assert cell.results["replicates"] == 2
        assert cell.results["nlpp"] == pytest.approx(alone.results["nlpp"], rel=1e-6)
        for name in ("bound", "test_nlpp", "train_rmse"):
            assert cell.history[name] == pytest.approx(alone.history[name], rel=1e-6)


def test_a_stopped_fit_is_no_result(monkeypatch):
    def stop(state):
        raise KeyboardInterrupt

    monkeypatch.setattr("benchmarks.paper.methods.Recorder.__call__", lambda self, state: stop(state))
    with pytest.raises(KeyboardInterrupt):
        cells_of("SoD")


@pytest.mark.usefixtures("short_chains")
@pytest.mark.parametrize(("method", "splits"), [("SoD", (0, 1)), ("DSVI", (0,)), ("SGHMC", (0, 1)), ("default", (0,))])
def test_a_stopped_fit_continues(method, splits, tmp_path, monkeypatch):
    options = {"splits": splits, "iterations": 120, "history_every": 50}
    whole = cells_of(method, **options)
    record, seen = Recorder.__call__, []

    def until_half(self, state):
        record(self, state)
        seen.append(state.iteration)
        if state.iteration == 50 and seen.count(50) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(Recorder, "__call__", until_half)
    with pytest.raises(KeyboardInterrupt):
        cells_of(method, out=tmp_path, **options)
    told = []
    cells = cells_of(method, out=tmp_path, report=lambda *place: told.append(place), **options)
    assert seen == [1, 50, 100, 120]
    assert told == [(100, 120), (120, 120)]
    # Killed before its cells were written, the finished fit is there still.
    again = cells_of(method, out=tmp_path, **options)
    assert seen == [1, 50, 100, 120]
    for cell, other, expected in zip(cells, again, whole, strict=True):
        assert cell.history == other.history == expected.history
        assert cell.results["nlpp"] == other.results["nlpp"] == expected.results["nlpp"]
        assert cell.results["seconds"] > 0
    cells_of(method, out=tmp_path, **{**options, "iterations": 2})
    assert len(list((tmp_path / FOLDER).iterdir())) == 2  # another fit, which leaves this one alone
    forget(tmp_path, [cell.key for cell in cells])
    assert not (tmp_path / FOLDER).exists()


def test_a_checkpoint_that_cannot_be_read_costs_the_fit_nothing(tmp_path):
    options = {"iterations": 4, "history_every": 50, "out": tmp_path}
    (cell,) = cells_of("SoD", **options)
    (file,) = (tmp_path / FOLDER).rglob("*.safetensors")
    file.write_bytes(b"damaged")
    (again,) = cells_of("SoD", **options)
    assert again.results["nlpp"] == cell.results["nlpp"]


def test_a_checkpoint_of_another_fit_is_not_continued(tmp_path, monkeypatch):
    options = {"iterations": 4, "history_every": 50, "out": tmp_path}
    (cell,) = cells_of("SoD", **options)
    original = DeepGPRegressor.fit

    def on_another_processor(self, X, y, *, resume):
        if resume:
            raise CheckpointError("first subset differs.")
        return original(self, X, y, resume=resume)

    monkeypatch.setattr(DeepGPRegressor, "fit", on_another_processor)
    with pytest.warns(CheckpointWarning, match="tiny SoD-DGP2 split 0 begins anew: first subset differs"):
        (again,) = cells_of("SoD", **options)
    assert again.results["nlpp"] == cell.results["nlpp"]


def test_a_fit_under_way_is_left_to_its_process(tmp_path):
    keys = [Key("tiny", "SoD", 2, split) for split in range(300)]
    with kept(tmp_path, keys, {}) as (options, is_begun):
        assert not is_begun
        assert options["checkpoint"]
        with kept(tmp_path, keys, {}) as other:
            assert other == ({}, False)
        with kept(tmp_path, keys[:1], {}) as (another, _):
            assert another["checkpoint"].folder != options["checkpoint"].folder
        forget(tmp_path, keys)
        assert [path.name for path in (tmp_path / FOLDER).iterdir()] == [Path(options["checkpoint"].folder).parent.name]
    forget(tmp_path, keys[1:])
    assert (tmp_path / FOLDER).exists()  # one cell of it is missing
    forget(tmp_path, keys)
    assert not (tmp_path / FOLDER).exists()


def test_an_exact_gp_that_fails_is_a_numerical_error(monkeypatch):
    def fails(self, X, y):
        raise np.linalg.LinAlgError("not positive definite")

    monkeypatch.setattr("sklearn.gaussian_process.GaussianProcessRegressor.fit", fails)
    with pytest.raises(NumericalError, match="the exact GP failed: not positive definite"):
        cells_of("exact")


def test_the_exact_gp_learns():
    (cell,) = cells_of("exact", protocol="default")
    assert cell.results["rmse"] < 0.5 * np.std(Split.of(load("tiny"), 0).y_test)


def test_a_fit_of_gpytorch_reports_its_first_step():
    """The first that is told later is a fit that goes on."""
    said = []
    cells_of("gpytorch", protocol="default", report=lambda iteration, _: said.append(iteration))
    assert said[0] == 1


def test_gpytorch_with_its_tutorials_settings():
    (cell,) = cells_of("gpytorch", protocol="default")
    assert cell.settings["options"]["learning_rate"] == 0.01
    assert cell.results["inducing_points"] == 54  # 128, but no more than rows


def test_ngboost_is_scored_in_original_units(monkeypatch):
    class Stand:
        def __init__(self, **options):
            assert options["random_state"] == 0

        def fit(self, X, y):
            self.mean, self.std = y.mean(), y.std()

        def pred_dist(self, X):
            return types.SimpleNamespace(loc=np.full(len(X), self.mean), scale=np.full(len(X), self.std))

    monkeypatch.setitem(sys.modules, "ngboost", types.SimpleNamespace(NGBRegressor=Stand))
    (cell,) = cells_of("ngboost")
    split = Split.of(load("tiny"), 0)
    assert cell.results["rmse"] == pytest.approx(np.sqrt(np.mean((split.y_test - split.y_train.mean()) ** 2)))
    assert cell.results["parameters"] is None
