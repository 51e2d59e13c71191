"""Ensembles in files: what comes back, and what is refused."""

from __future__ import annotations

import copy
import json

import numpy as np
import pandas as pd
import pytest
from benchmarks.reliability.mutations import parts, signed
from gpytorch.kernels import RBFKernel, ScaleKernel
from safetensors.torch import save_file
from sklearn.exceptions import NotFittedError

from sodgp import DeepGPEnsemble, DeepGPRegressor
from sodgp.errors import ModelFileError
from sodgp.system.container import FORMAT, NAME_IN_FOLDER

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 2))
Y = np.sin(X[:, 0]) + X[:, 1]
TINY = {"n_layers": 2, "subset_size": 6, "max_iter": 3, "n_predict_samples": 3}


def fitted(y=Y, x=X, random_state=0, **options):
    return DeepGPEnsemble(DeepGPRegressor(**{**TINY, **options}), n_members=3, random_state=random_state).fit(x, y)


@pytest.fixture(scope="module")
def ensemble():
    return fitted()


@pytest.fixture
def saved(ensemble, tmp_path):
    path = tmp_path / "m.sodgp"
    ensemble.save(path)
    return path


@pytest.mark.parametrize("name", ["m.sodgp", "folder/", "deep/down/m.sodgp"])
def test_an_ensemble_comes_back_as_it_was(ensemble, tmp_path, name):
    path = f"{tmp_path}/{name}"
    ensemble.save(path)
    ensemble.save(path)  # over itself
    again = DeepGPEnsemble.load(path)
    for ours, theirs in zip(again.predict(X, return_std=True), ensemble.predict(X, return_std=True), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    ours, theirs = (model.predict_distribution(X[:5], latent=True) for model in (again, ensemble))
    np.testing.assert_array_equal(ours.mean, theirs.mean)
    assert ours.n_components == theirs.n_components == 9
    assert (again.n_members, again.random_state, again.n_features_in_) == (3, 0, 2)
    assert [m.random_state for m in again.members_] == [m.random_state for m in ensemble.members_]
    assert [vars(m.history_) for m in again.members_] == [vars(m.history_) for m in ensemble.members_]
    assert not hasattr(again, "feature_names_in_")


def test_a_loaded_ensemble_fits_again_to_the_same_numbers(ensemble, saved):
    again = DeepGPEnsemble.load(saved).fit(X, Y)
    np.testing.assert_array_equal(again.predict(X), ensemble.predict(X))


@pytest.mark.parametrize(
    "options",
    [
        {"inference": "dsvi"},
        {"inference": "mean_field"},
        {"inference": "sghmc", "n_posterior_samples": 3, "thinning": 1},
        {"kernel": lambda dims: ScaleKernel(RBFKernel(ard_num_dims=dims)), "dtype": "float32"},
    ],
    ids=["dsvi", "mean_field", "sghmc", "kernel"],
)
def test_every_kind_of_member_comes_back(tmp_path, options):
    ensemble = fitted(**options)
    ensemble.save(tmp_path / "m.sodgp")
    again = DeepGPEnsemble.load(tmp_path / "m.sodgp")
    np.testing.assert_array_equal(again.predict(X), ensemble.predict(X))


def test_names_of_columns_and_several_targets_come_back(tmp_path):
    table = pd.DataFrame(X, columns=["a", "b"])
    ensemble = fitted(np.stack([Y, -Y], 1), table, random_state=np.random.RandomState(1))
    ensemble.save(tmp_path / "m.sodgp")
    again = DeepGPEnsemble.load(tmp_path / "m.sodgp")
    assert list(again.feature_names_in_) == ["a", "b"]
    assert again.random_state is None  # a state is not stored, as with one model
    np.testing.assert_array_equal(again.predict(table), ensemble.predict(table))


def test_no_estimator_stays_none(ensemble, tmp_path):
    bare = copy.copy(ensemble)
    bare.estimator = None
    bare.save(tmp_path / "m.sodgp")
    assert DeepGPEnsemble.load(tmp_path / "m.sodgp").estimator is None


def test_the_wrong_kind_of_file_is_named(ensemble, saved, tmp_path):
    ensemble.members_[0].save(tmp_path / "one.sodgp")
    with pytest.raises(
        ModelFileError, match=r"holds a DeepGPRegressor, not a DeepGPEnsemble\. .*DeepGPRegressor\.load"
    ):
        DeepGPEnsemble.load(tmp_path / "one.sodgp")
    with pytest.raises(ModelFileError, match=r"holds a DeepGPEnsemble, not a DeepGPRegressor\. .*DeepGPEnsemble\.load"):
        DeepGPRegressor.load(saved)
    with pytest.raises(ModelFileError, match="does not exist"):
        DeepGPEnsemble.load(tmp_path / "nowhere.sodgp")
    (tmp_path / "notes.txt").write_text("no model")
    with pytest.raises(ModelFileError, match="not a sodgp model and is not overwritten"):
        ensemble.save(tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "no model"


def test_what_cannot_be_saved_says_why(ensemble, tmp_path):
    path = tmp_path / "m.sodgp"
    with pytest.raises(NotFittedError):
        DeepGPEnsemble().save(path)
    fewer = copy.copy(ensemble)
    with pytest.raises(ModelFileError, match="n_members was changed after fit"):
        fewer.set_params(n_members=2).save(path)
    with pytest.raises(ModelFileError, match="random_state"):
        copy.copy(ensemble).set_params(random_state=-1).save(path)
    mixed = copy.copy(ensemble)
    mixed.members_ = [*ensemble.members_[:2], DeepGPRegressor(**TINY, random_state=0).fit(X, np.stack([Y, Y], 1))]
    with pytest.raises(ModelFileError, match="members 0 and 2 differ in n_outputs"):
        mixed.save(path)
    assert not path.exists()


def test_damage_is_seen(saved, tmp_path):
    content = saved.read_bytes()
    rng = np.random.default_rng(1)
    for place in rng.integers(8, len(content), 60):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        saved.write_bytes(damaged)
        with pytest.raises(ModelFileError):
            DeepGPEnsemble.load(saved)
    for length in (0, 7, 100, len(content) // 2, len(content) - 1):
        saved.write_bytes(content[:length])
        with pytest.raises(ModelFileError):
            DeepGPEnsemble.load(saved)


def test_tensors_of_another_ensemble_are_refused(ensemble, tmp_path):
    ensemble.save(tmp_path / "one.sodgp")
    fitted(random_state=5).save(tmp_path / "other.sodgp")
    info, tensors = (parts((tmp_path / name).read_bytes())[i] for i, name in enumerate(("one.sodgp", "other.sodgp")))
    save_file(tensors, tmp_path / "one.sodgp", metadata={FORMAT: json.dumps(info)})
    with pytest.raises(ModelFileError, match="checksum"):
        DeepGPEnsemble.load(tmp_path / "one.sodgp")


def test_a_folder_that_lost_its_file_is_refused(ensemble, tmp_path):
    ensemble.save(tmp_path / "one")
    (tmp_path / "one" / NAME_IN_FOLDER).unlink()
    with pytest.raises(ModelFileError, match=r"no model\.sodgp"):
        DeepGPEnsemble.load(tmp_path / "one")


def _drop(info, tensors):
    del tensors["member.1.subset.X"]


def _shape(info, tensors):
    tensors["member.2.subset.y"] = tensors["member.2.subset.y"][:-1].clone()


def _not_finite(info, tensors):
    tensors["member.1.model.layers.0.q_mean"][0, 0] = float("nan")


def _stray(info, tensors):
    tensors["member.7.subset.X"] = tensors["member.1.subset.X"].clone()


def _strange(info, tensors):
    tensors["member.1.extra"] = tensors["member.1.subset.X"].clone()


def _no_number(info, tensors):
    tensors["subset.X"] = tensors["member.1.subset.X"].clone()


def _count(info, tensors):
    info["n_members"] = 2


def _many(info, tensors):
    info["n_members"] = 10**9


def _no_members(info, tensors):
    info["members"], info["n_members"] = [], 0


def _text(info, tensors):
    info["members"][1] = "a model"


def _no_options(info, tensors):
    del info["members"][1]["parameters"]


def _other_options(info, tensors):
    info["members"][1]["parameters"]["n_predict_samples"] = 7


def _other_names(info, tensors):
    info["members"][2]["feature_names"] = ["a", "b"]


def _vector(info, tensors):
    info["members"][2]["y_is_vector"] = False


def _inner(info, tensors):
    info["members"][1]["estimator"] = "DeepGPEnsemble"


def _seed(info, tensors):
    info["random_state"] = -1


def _flag(info, tensors):
    info["default_members"] = "no"


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (_drop, "member 1: .*subset.X"),
        (_shape, "member 2: .*subset.y"),
        (_not_finite, "member 1: .*q_mean"),
        (_stray, "member.7.subset.X"),
        (_strange, "member 1: .*extra"),
        (_no_number, "subset.X"),
        (_count, "n_members"),
        (_many, "n_members"),
        (_no_members, "n_members"),
        (_text, "not a list of models"),
        (_no_options, "parameters"),
        (_other_options, "members 0 and 1 differ in n_predict_samples"),
        (_other_names, "members 0 and 2 differ in feature_names"),
        (_vector, "members 0 and 2 differ in y_is_vector"),
        (_inner, "member 1: it holds a DeepGPEnsemble, not a DeepGPRegressor"),
        (_seed, "random_state"),
        (_flag, "default_members"),
    ],
    ids=lambda value: value.__name__.strip("_") if callable(value) else "",
)
def test_a_file_that_is_whole_but_wrong_is_refused(saved, change, match):
    """With a checksum that fits, as only somebody who means it makes."""
    info, tensors = parts(saved.read_bytes())
    change(info, tensors)
    saved.write_bytes(signed(info, tensors))
    with pytest.raises(ModelFileError, match=match):
        DeepGPEnsemble.load(saved)


def test_an_ensemble_signed_again_without_a_change_loads(saved):
    saved.write_bytes(signed(*parts(saved.read_bytes())))
    assert len(DeepGPEnsemble.load(saved).members_) == 3
