"""Several models from different seeds that predict as one mixture."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from gpytorch.kernels import RBFKernel, ScaleKernel

from sodgp import DeepGPRegressor, SoD
from sodgp.errors import (
    ConfigurationError,
    InputError,
    InputTypeError,
    ModelFileError,
    NumericalError,
    ResourceError,
    SodgpWarning,
)
from sodgp.estimator.describe import describe, noise_std
from sodgp.estimator.many import fit_replicates
from sodgp.evaluation.rows import shared_rows
from sodgp.report import cross_validated, held_out
from sodgp.system.container import read_record, write_record

RNG = np.random.default_rng(0)


X = RNG.uniform(-1, 1, (40, 2))


Y = np.sign(X[:, 0]) + 0.1 * RNG.normal(size=40)


NEW = RNG.uniform(-1, 1, (7, 2))


def make(**options) -> DeepGPRegressor:
    return DeepGPRegressor().set_params(
        **{"n_layers": 2, "subset_size": 8, "max_iter": 10, "random_state": 0, **options}
    )


@pytest.fixture(scope="module")
def three() -> DeepGPRegressor:
    return make(n_members=3).fit(X, Y)


@pytest.fixture(scope="module")
def two_targets() -> DeepGPRegressor:
    return make(n_members=2).fit(X, np.column_stack([Y, X.sum(1)]))


def test_each_member_is_the_fit_of_its_seed(three):
    assert len({member.random_state for member in three.members_}) == 3
    for member in three.members_:
        alone = make(random_state=member.random_state).fit(X, Y)
        np.testing.assert_allclose(member.predict(NEW), alone.predict(NEW), rtol=1e-6)
        assert member.subset_indices_.tolist() == alone.subset_indices_.tolist()


def with_spread(model: DeepGPRegressor, spread: float | None) -> DeepGPRegressor:
    return copy.copy(model).set_params(inference__member_spread=spread)


@pytest.mark.parametrize("bad", [None, 3.0, scipy.sparse.csr_array(NEW), NEW[:, :1], NEW * np.nan])
def test_bad_rows_are_refused_as_by_one_model(three, bad):
    for ask in (three, three.members_[0]):
        with pytest.raises((InputError, InputTypeError)):
            ask.predict_distribution(bad)


def test_a_bad_number_of_samples_is_named(three):
    model = copy.copy(three).set_params(n_predict_samples="x")
    with pytest.raises(ConfigurationError, match="n_predict_samples"):
        model.predict_distribution(NEW)


def test_two_targets(two_targets):
    assert two_targets.predict(NEW).shape == (7, 2)
    assert two_targets.sample_y(NEW, 3).shape == (7, 2, 3)
    assert two_targets.predict(NEW, return_cov=True)[1].shape == (2, 7, 7)
    wide, narrow = (with_spread(two_targets, s).sample_y(NEW, 200).std(-1) for s in (1.0, 0.3))
    assert (narrow < wide).all()
    assert len(noise_std(two_targets)) == 2


def test_options_of_a_prediction_hold_for_all_members(three):
    model = pickle.loads(pickle.dumps(three))
    model.set_params(n_predict_samples=4, likelihood__outlier_probability=0.3)
    assert model.predict_distribution(NEW).n_components == 12
    assert model.predict(NEW, return_std=True)[1].min() > three.predict(NEW, return_std=True)[1].min()


def test_the_estimator_shows_its_first_member_and_counts_all(three):
    first = three.members_[0]
    assert three.model_ is first.model_
    assert three.n_parameters_ == 3 * first.n_parameters_
    about = describe(three)
    assert about["members"] == 3
    assert about["member_spread"] == SoD().usual_spread(3)
    assert about["parameters"] == three.n_parameters_
    assert describe(first)["members"] == 1
    variances = [noise_std(member)[0] ** 2 for member in three.members_]
    np.testing.assert_allclose(noise_std(three)[0] ** 2, np.mean(variances))


def test_a_new_fit_forgets_the_members():
    model = make(n_members=2, max_iter=2).fit(X, Y)
    model.set_params(n_members=1).fit(X, Y)
    assert not hasattr(model, "members_")
    model.set_params(n_members=2).fit(X, Y)
    model.set_params(n_members=None, n_restarts=2).fit(X, Y)
    assert not hasattr(model, "members_")
    assert len(model.restart_bounds_) == 2
    model.set_params(n_restarts=1, n_members=2).fit(X, Y)
    assert not hasattr(model, "restart_bounds_")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_members": 0}, "n_members"),
        ({"n_members": 1.5}, "n_members"),
        ({"n_members": 2, "n_restarts": 2}, "n_restarts=2 do not go together"),
        ({"n_members": 2, "warm_start": True}, "warm_start=True do not go together"),
        ({"n_members": 2, "validation_fraction": 0.1}, "validation_fraction=0.1 do not go together"),
        ({"n_members": 2, "effort": "some"}, "effort"),
        ({"n_members": 2, "checkpoint": "folder", "random_state": None}, "integer random_state"),
    ],
)
def test_what_members_refuse(options, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=words):
        make(**options).fit(X, Y)


def test_a_fit_that_cannot_begin_leaves_an_earlier_one_whole():
    model = make(n_members=2, max_iter=2).fit(X, Y)
    before = model.predict(NEW)
    with pytest.raises(InputError):
        model.fit(X, np.full(40, np.nan))
    np.testing.assert_array_equal(model.predict(NEW), before)


def test_a_fit_that_ran_away_keeps_its_last_good_parameters():
    model = make(n_members=2, max_iter=400, learning_rate=1e6, dtype="float32")
    with pytest.raises(NumericalError, match="last good parameters"):
        model.fit(X, Y)
    assert len(model.members_) == 2
    assert np.isfinite(model.predict(NEW)).all()


def test_a_fit_that_failed_before_it_had_parameters_leaves_no_model(monkeypatch):
    model = make(n_members=2, max_iter=2).fit(X, Y)

    def fails(*args, **kwargs):
        raise NumericalError("away.")

    monkeypatch.setattr("sodgp.estimator.many.fit", fails)
    with pytest.raises(NumericalError):
        model.fit(X, Y)
    assert not hasattr(model, "model_")


def test_a_warm_start_says_that_it_leaves_members_behind():
    model = make(effort="thorough", max_iter=2).fit(X, Y)
    model.set_params(warm_start=True)
    with pytest.warns(SodgpWarning, match="the first of the 4 members"):
        model.fit(X, Y)
    assert not hasattr(model, "members_")


def test_memory_is_asked_for_all_members_at_once(three, monkeypatch):
    asked = []
    monkeypatch.setattr("sodgp.system.memory.require_memory", lambda needed, *_: asked.append(needed))
    three.predict_distribution(NEW)
    assert asked[0] == 32.0 * 3 * 50 * len(NEW)


def test_too_little_memory_names_the_members(monkeypatch):
    monkeypatch.setattr("sodgp.system.memory.available_memory", lambda *_: 10_000)
    with pytest.raises(ResourceError, match="fewer models at once"):
        make(n_members=2).fit(X, Y)
    with pytest.raises(ResourceError) as error:
        make().fit(X, Y)
    assert "fewer models" not in str(error.value)


@pytest.mark.parametrize("inference", ["dsvi", "mean_field", "sghmc"])
def test_other_methods_have_members_where_asked(inference):
    more = {"inference__n_posterior_samples": 4, "inference__thinning": 1} if inference == "sghmc" else {}
    model = (
        DeepGPRegressor()
        .set_params(inference=inference, n_layers=2, subset_size=6, max_iter=3, n_members=2, random_state=0, **more)
        .fit(X, Y)
    )
    assert np.isfinite(model.predict(NEW)).all()
    assert len(model.members_) == 2


@pytest.mark.parametrize(
    "options",
    [
        {"likelihood": "heteroscedastic"},
        {"likelihood": "heavy_tailed"},
        {"subset_size": "auto"},
        {"dtype": "float32"},
        {"inference__separate_kernels": True, "inference__objective": "predictive"},
        {"inference__coupling": "joint"},
        {"inference__coupling": "marginal"},
        {"kernel": lambda dims: ScaleKernel(RBFKernel(ard_num_dims=dims))},
        {"n_layers": 1},
        {"callbacks": [lambda state: state.iteration >= 5]},
    ],
)
def test_members_and_other_options(options, tmp_path):
    model = make(**options, n_members=2).fit(X, Y)
    mean, std = model.predict(NEW, return_std=True)
    assert np.isfinite(model.sample_y(NEW, 3)).all()
    assert (std > 0).all()
    model.set_params(callbacks=None).save(tmp_path / "m.sodgp")
    np.testing.assert_array_equal(DeepGPRegressor.load(tmp_path / "m.sodgp").predict(NEW), mean)


def test_known_noise_reaches_every_member():
    model = make(n_members=2, max_iter=3).fit(X, Y, noise_variance=0.04)
    np.testing.assert_allclose(noise_std(model)[0], 0.2, rtol=1e-6)


def test_replicates_bring_their_members():
    models = [make(n_members=2, max_iter=3, random_state=seed) for seed in range(2)]
    fit_replicates(models, [(X, Y), (X, -Y)])
    alone = make(n_members=2, max_iter=3, random_state=1).fit(X, -Y)
    assert [len(model.members_) for model in models] == [2, 2]
    np.testing.assert_allclose(models[1].predict(NEW), alone.predict(NEW), rtol=1e-6)


def test_files(three, tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = make(n_members=2, max_iter=3).fit(frame, pd.Series(Y, name="height"))
    for path in (tmp_path / "m.sodgp", tmp_path / "folder"):
        model.save(path)
        again = DeepGPRegressor.load(path)
        np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
        assert again.n_parameters_ == model.n_parameters_
        assert len(again.members_) == 2
        assert again.target_names_.tolist() == ["height"]
        assert again.feature_names_in_.tolist() == ["a", "b"]
        assert again.get_params()["n_members"] == 2
        assert again.random_state == 0
        assert [m.random_state for m in again.members_] == [m.random_state for m in model.members_]
    again.fit(frame, Y)


def test_files_keep_the_spread(three, tmp_path):
    for spread in (None, 0.6):
        with_spread(three, spread).save(tmp_path / "m.sodgp")
        again = DeepGPRegressor.load(tmp_path / "m.sodgp")
        assert again.get_params()["inference__member_spread"] == spread
        np.testing.assert_array_equal(
            again.predict(NEW, return_std=True), with_spread(three, spread).predict(NEW, return_std=True)
        )


def test_files_keep_options_that_were_changed_after_the_fit(three, tmp_path):
    model = pickle.loads(pickle.dumps(three)).set_params(n_predict_samples=5, verbose=0)
    model.save(tmp_path / "m.sodgp")
    again = DeepGPRegressor.load(tmp_path / "m.sodgp")
    assert again.predict_distribution(NEW).n_components == 15
    assert again.n_predict_samples == 5
    refused = [
        {"n_members": 2},
        {"n_members": 3.0, "n_restarts": 2},
        {"n_layers": 3},
        {"max_iter": 77},
        {"likelihood": "heteroscedastic"},
    ]
    refused += [{"warm_start": True}, {"n_restarts": 2}, {"validation_fraction": 0.1}]
    for change in refused:
        changed = pickle.loads(pickle.dumps(three)).set_params(**change)
        with pytest.raises(ModelFileError):
            changed.save(tmp_path / "n.sodgp")
        assert changed.predict(NEW).shape == (7,)
    assert not (tmp_path / "n.sodgp").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda info: info.update(models=[]), "models"),
        (lambda info: info.update(models="all"), "models"),
        (lambda info: info.update(models=[1, 2, 3]), "models"),
        (lambda info: info["models"].append(info["models"][0]), "n_members"),
        (lambda info: info["models"].pop(), "not part of"),
        (lambda info: info["models"][2].update(predict_seed=-1), "model 2.*predict_seed"),
        (lambda info: info["models"][1].update(seed=-1), "model 1.*seed"),
        (lambda info: info["models"][1].pop("history"), "model 1.*history"),
        (lambda info: info["parameters"].update(n_members=2), "n_members"),
        (lambda info: info["parameters"].update(n_layers=7), "n_layers"),
        (lambda info: info["parameters"].update(warm_start=True), "warm_start"),
        (lambda info: info["parameters"].update(n_predict_samples=0), "n_predict_samples"),
        (lambda info: info.update(target_names=["a", "b"]), "target_names"),
        (lambda info: info.pop("parameters"), "parameters"),
    ],
)
def test_hostile_files_are_refused(three, tmp_path, change, words):
    three.save(tmp_path / "m.sodgp")
    record = read_record(tmp_path / "m.sodgp")
    change(record.info)
    write_record(tmp_path / "n.sodgp", record)
    with pytest.raises(ModelFileError, match=words):
        DeepGPRegressor.load(tmp_path / "n.sodgp")


def test_a_single_model_cannot_say_that_it_has_members(tmp_path):
    model = make(max_iter=2).fit(X, Y)
    model.save(tmp_path / "m.sodgp")
    record = read_record(tmp_path / "m.sodgp")
    record.info["parameters"]["n_members"] = 3
    write_record(tmp_path / "n.sodgp", record)
    with pytest.raises(ModelFileError, match="n_members"):
        DeepGPRegressor.load(tmp_path / "n.sodgp")
    with pytest.raises(ModelFileError, match="n_members was changed"):
        model.set_params(n_members=3).save(tmp_path / "o.sodgp")


def test_folds_of_a_report_have_the_members(three):
    report = cross_validated(three, X, Y, cv=2)
    assert report.folds == 2
    assert report.about["members"] == 3


def test_a_report_sees_training_rows_of_every_member():
    three = make(n_members=3, inference=SoD(objective="bound")).fit(X, Y)
    own = [set(member.subset_indices_.tolist()) for member in three.members_]
    elsewhere = sorted((own[1] | own[2]) - own[0])
    assert shared_rows(three, X[elsewhere]) == (len(elsewhere), len(own[0] | own[1] | own[2]))
    report = held_out(three, X[elsewhere], Y[elsewhere])
    assert any("that the model keeps are in it" in finding.text for finding in report.findings)


def test_botorch_takes_one_member():
    torch = pytest.importorskip("torch")
    pytest.importorskip("botorch")
    from sodgp.integrations.botorch import DeepGPModel

    rows = torch.as_tensor(X[:12]), torch.as_tensor(Y[:12, None])
    model = DeepGPModel(*rows, estimator=make(effort="thorough", max_iter=2))
    assert not hasattr(model.estimators[0], "members_")
    with pytest.raises(ConfigurationError, match="one member"):
        DeepGPModel(*rows, estimator=make(n_members=2))
