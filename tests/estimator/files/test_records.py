"""Model files: round trips, damage, and what a failure in the middle of writing leaves behind."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from benchmarks.reliability.mutations import parts, signed
from safetensors import safe_open
from safetensors.torch import save_file

from sodgp import SGHMC, DeepGPRegressor, SoD, Tuning
from sodgp.errors import ModelFileError, SodgpWarning
from sodgp.estimator.files.records import from_record, to_record
from sodgp.likelihoods import HeavyTailed
from sodgp.model.architecture import Initialization
from sodgp.selectors import KMeans, Random
from sodgp.system import container as io
from sodgp.system.container import FORMAT, NAME_IN_FOLDER, Record, read_record, write_record

FIXTURE = Path(__file__).parents[2] / "fixtures" / "model-v3-sod.sodgp"
rng = np.random.default_rng(0)
X = rng.normal(size=(40, 3))
Y = np.stack([X[:, 0] + np.sin(X[:, 1]), X[:, 2]], axis=1) * [2.0, 300.0] + [5.0, -70.0]
y = Y[:, 0]


def fitted(target=y, inputs=X, **options):
    return (
        DeepGPRegressor()
        .set_params(**{"max_iter": 4, "subset_size": 12, "random_state": 0, **options})
        .fit(inputs, target)
    )


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture
def folder(model, tmp_path):
    model.save(tmp_path / "m")
    return tmp_path / "m"


def edit(folder, **entries):
    """Change entries, and make the checksum fit again, as an attacker would, unless it is the one that is changed."""
    info, tensors = parts((folder / NAME_IN_FOLDER).read_bytes())
    for name, value in entries.items():
        *path, last = name.split("__")
        place = info
        for key in path:
            place = place[int(key) if isinstance(place, list) else key]
        place[last] = value
    write = write_unsigned if "sha256" in entries else write_signed
    write(folder, info, tensors)


def write_signed(folder, info, tensors):
    (folder / NAME_IN_FOLDER).write_bytes(signed(info, tensors))


def write_unsigned(folder, info, tensors):
    write_text(folder, json.dumps(info), tensors)


def write_text(folder, text, tensors):
    save_file(tensors, folder / NAME_IN_FOLDER, metadata={FORMAT: text})


def edit_tensors(folder, change):
    """Change tensors, and make the checksum fit again."""
    info, tensors = parts((folder / NAME_IN_FOLDER).read_bytes())
    change(tensors)
    write_signed(folder, info, tensors)


# ------------------------------------------------------------------------------------------------ round trips


@pytest.mark.parametrize("place", ["m.sodgp", "folder/", "plain", "deep/er/m.sodgp"])
@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_round_trip_predicts_the_same(tmp_path, place, n_layers):
    model = fitted(n_layers=n_layers)
    path = f"{tmp_path}/{place}"
    model.save(path)
    again = DeepGPRegressor.load(path)
    for before, after in zip(model.predict(X, return_std=True), again.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(after, before, rtol=0, atol=1e-12)
    assert again.get_params() == model.get_params()
    assert again.history_ == model.history_
    assert (again.n_iter_, again.n_parameters_, again.n_features_in_) == (4, model.n_parameters_, 3)
    np.testing.assert_array_equal(again.subset_indices_, model.subset_indices_)
    np.testing.assert_array_equal(again.sample_y(X[:5], 2), model.sample_y(X[:5], 2))
    assert os.path.isdir(path) == (not place.endswith(".sodgp"))


@pytest.mark.parametrize(
    ("target", "options"),
    [
        (Y, {}),
        (Y[:, :1], {}),
        (y, {"dtype": "float32"}),
        (y, {"kernel": "matern32-iso", "hidden_width": [2, 4], "n_layers": 3}),
        (
            y,
            {
                "kernel": "rq",
                "inference__tie_label_noise": False,
                "tuning__jitter": "program",
                "inference__coupling": "marginal",
            },
        ),
        (
            y,
            {
                "inference__parameterization": "paper",
                "hidden_mean": "zero",
                "tuning__jitter": 1e-5,
                "subset_size": "paper",
            },
        ),
        (
            y,
            {
                "subset": KMeans(n_init=3),
                "tuning": Tuning(initialization=Initialization(lengthscale=0.5, means="uniform")),
            },
        ),
        (y, {"subset": Random(), "n_predict_samples": np.int64(7), "random_state": np.int64(3)}),
        (y, {"inference": "dsvi"}),
        (
            y,
            {"inference": SoD(coupling="joint", member_spread=0.5), "likelihood": HeavyTailed(outlier_probability=0.1)},
        ),
        (y, {"tuning": Tuning(schedule="constant", compile=False), "n_layers": 1}),
        (y, {"inference": SGHMC(n_posterior_samples=10, thinning=1, n_chains=2), "n_layers": 1}),
        (y, {"inference": "mean_field"}),
        (y, {"inference": "sghmc", "inference__n_posterior_samples": 10, "inference__thinning": 1}),
    ],
)
def test_round_trip_of_options(tmp_path, target, options):
    model = fitted(target, **options)
    model.save(tmp_path / "m.sodgp")
    again = DeepGPRegressor.load(tmp_path / "m.sodgp")
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=0, atol=1e-12)
    assert again.predict(X).shape == target.shape
    assert again.get_params() == model.get_params()
    again.fit(X, target)  # a loaded estimator is an estimator like any other


def test_feature_names_are_kept_and_checked(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b", "ç"])
    model = fitted(inputs=frame)
    model.save(tmp_path / "m")
    again = DeepGPRegressor.load(tmp_path / "m")
    assert list(again.feature_names_in_) == ["a", "b", "ç"]
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame.rename(columns={"a": "z"}))


@pytest.mark.parametrize("draws", [10, 40], ids=["too few to say anything", "enough"])
def test_a_samplers_diagnostics_are_kept(tmp_path, draws):
    model = fitted(
        inference="sghmc", inference__n_posterior_samples=draws, inference__thinning=1, inference__n_chains=2
    )
    model.save(tmp_path / "m.sodgp")
    again = DeepGPRegressor.load(tmp_path / "m.sodgp")
    for name, value in vars(model.diagnostics_).items():
        np.testing.assert_array_equal(getattr(again.diagnostics_, name), value, err_msg=name)
    assert type(again.diagnostics_.n_draws) is int


def test_notes_of_a_fit_are_kept(tmp_path):
    model = fitted(n_restarts=2, subset_size="auto")
    model.save(tmp_path / "m")
    again = DeepGPRegressor.load(tmp_path / "m")
    assert again.restart_bounds_ == model.restart_bounds_
    assert again.subset_size_reason_ == model.subset_size_reason_
    assert not hasattr(DeepGPRegressor.load(FIXTURE), "restart_bounds_")


def test_what_code_alone_could_restore_is_left_out(tmp_path):
    class Mine:
        def select(self, X, y, size, kernel, generator):
            return torch.arange(size)

    model = fitted(callbacks=[lambda state: None], random_state=np.random.RandomState(0), subset=Mine())
    with pytest.warns(SodgpWarning, match="not from sodgp.selectors"):
        model.save(tmp_path / "m")
    again = DeepGPRegressor.load(tmp_path / "m")
    assert (again.callbacks, again.random_state, again.subset) == (None, None, "kmeans")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("rows", [499, 500])
@pytest.mark.parametrize("kind", ["one fit", "restarts", "known noise", "members"])
def test_a_fit_with_many_rows_is_read_again(tmp_path, kind, rows):
    """The number of rows decides the objective, which the options do not name."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(rows, 2)), rng.normal(size=rows)
    options = {"subset_size": 5, "max_iter": 2, "random_state": 0, "n_restarts": 2 if kind == "restarts" else 1}
    model = DeepGPRegressor().set_params(**options)
    if kind == "members":
        model.set_params(n_members=2)
    model.fit(X, y, **({"noise_variance": 0.5} if kind == "known noise" else {}))
    model.save(tmp_path / "m.sodgp")
    again = DeepGPRegressor.load(tmp_path / "m.sodgp")
    np.testing.assert_array_equal(again.predict(X[:9]), model.predict(X[:9]))
    assert again.inference_ == model.inference_
    few, many = ("bound", "predictive") if kind == "known noise" else ("collapsed", "leave_one_out")
    assert again.objective_ == (many if rows >= 500 else few)
    assert again.fitted_.X_s.shape[1] == (5 if kind == "known noise" else rows)
    again.save(tmp_path / "again.sodgp")


def test_parameters_changed_after_fit_are_refused(tmp_path):
    model = fitted(kernel="matern32")
    model.kernel = "matern52"  # the same tensors, another function
    with pytest.raises(ModelFileError, match="changed after fit"):
        model.save(tmp_path / "m")


@pytest.mark.parametrize("change", [{"dtype": "float32"}, {"n_layers": 2}, {"likelihood": "heavy_tailed"}])
def test_the_refusal_says_that_options_were_changed_not_that_a_file_is_damaged(change, tmp_path):
    with pytest.raises(ModelFileError, match="parameters were changed after fit"):
        fitted().set_params(**change).save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_unfitted_estimators_are_refused(tmp_path):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        DeepGPRegressor().save(tmp_path / "m")


def test_a_model_for_a_missing_device_loads_on_the_cpu(folder):
    edit(folder, parameters__device="cuda:99")
    again = DeepGPRegressor.load(folder)
    assert again.device == "cpu"
    assert again.predict(X).shape == (40,)


@pytest.mark.gpu
def test_models_move_between_gpu_and_cpu(tmp_path):
    model = fitted(device="cuda")
    model.save(tmp_path / "gpu.sodgp")
    there = DeepGPRegressor.load(tmp_path / "gpu.sodgp")
    assert next(there.model_.parameters()).is_cuda
    np.testing.assert_allclose(there.predict(X), model.predict(X), rtol=0, atol=1e-12)
    assert not any(tensor.is_cuda for tensor in read_record(tmp_path / "gpu.sodgp").tensors.values())
    there.set_params(device="cpu").save(tmp_path / "cpu.sodgp")
    here = DeepGPRegressor.load(tmp_path / "cpu.sodgp")
    assert not next(here.model_.parameters()).is_cuda
    np.testing.assert_allclose(here.predict(X), model.predict(X), rtol=1e-9)


# ------------------------------------------------------------------------------------------------ damage


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.999])
def test_truncated_file(model, tmp_path, share):
    path = tmp_path / "m.sodgp"
    model.save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ModelFileError):
        DeepGPRegressor.load(path)


@pytest.mark.parametrize("position", [0, 3, 8, 12, 60, -1, -100])
def test_flipped_byte(model, tmp_path, position):
    path = tmp_path / "m.sodgp"
    model.save(path)
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(ModelFileError):
        DeepGPRegressor.load(path)


def test_not_models(tmp_path):
    (tmp_path / "text.sodgp").write_text("hello")
    save_file({"a": torch.zeros(2)}, tmp_path / "other.safetensors")
    (tmp_path / "empty").mkdir()
    for name, message in [
        ("text.sodgp", "not a sodgp model"),
        ("other.safetensors", "not a sodgp model"),
        ("empty", "no model.sodgp"),
        ("missing", "does not exist"),
    ]:
        with pytest.raises(ModelFileError, match=message):
            DeepGPRegressor.load(tmp_path / name)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": "sodgp-model", "x": NaN}', "[" * 100_000])
def test_bad_json(folder, text):
    _, tensors = parts((folder / NAME_IN_FOLDER).read_bytes())
    write_text(folder, text, tensors)
    with pytest.raises(ModelFileError):
        DeepGPRegressor.load(folder)


def test_a_header_that_is_not_text(folder):
    header = b'{"__metadata__": {"' + FORMAT.encode() + b'": "\xff"}}'
    (folder / NAME_IN_FOLDER).write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(ModelFileError):
        DeepGPRegressor.load(folder)


def test_newer_version_is_named(folder):
    edit(folder, format_version=99, library_version="7.0")
    with pytest.raises(ModelFileError, match=r"format version 99, written by sodgp 7\.0.*Upgrade"):
        DeepGPRegressor.load(folder)


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("format_version", "1"),
        ("format_version", 0),
        ("estimator", "os.system"),
        ("parameters", []),
        ("parameters__n_layers", 2),
        ("parameters__n_layers", 10**9),
        ("parameters__nonsense", 1),
        ("parameters__kernel", "sodgp.evil"),
        ("parameters__kernel", "rq"),
        ("parameters__kernel", {"a": 1}),
        ("parameters__subset", {"selector": "evil", "options": {}}),
        ("parameters__subset", {"selector": "kmeans", "options": {"n_init": -1}}),
        ("parameters__subset", {"selector": "kmeans", "options": {"other": 1}}),
        ("parameters__tuning", {"initialization": {"lengthscale": -1.0}}),
        ("parameters__tuning", {"initialization": 3}),
        ("parameters__tuning", {"schedule": "linear"}),
        ("parameters__inference", {"name": "os", "options": {}}),
        ("parameters__inference", {"name": "sod", "options": {"coupling": "loose"}}),
        ("parameters__inference", {"name": "sod", "options": {"other": 1}}),
        ("parameters__inference", {"name": ["sod"], "options": {}}),
        ("parameters__likelihood", {"name": "gaussian", "options": {"outlier_probability": 3.0}}),
        ("parameters__likelihood", "heavy_tailed"),
        ("method", {}),
        ("method__coupling", "joint"),
        ("method__coupling", 3.5),
        ("method__separate_kernels", False),
        ("method__objective", "bound"),
        ("method__objective", None),
        ("method__objective", "posterior"),
        ("likelihood", "known_noise"),
        ("likelihood", "heavy_tailed"),
        ("likelihood", 3),
        ("parameters__dtype", "float16"),
        ("input_dim", 4),
        ("input_dim", True),
        ("n_outputs", -1),
        ("size", 10**7),
        ("size", 12.0),
        ("hidden_widths", [10**6]),
        ("hidden_widths", ["3"]),
        ("n_rows", 5),
        ("y_is_vector", 1),
        ("feature_names", ["a"]),
        ("feature_names", "abc"),
        ("models__0__predict_seed", -1),
        ("models__0__history", {}),
        ("models__0__history__bound", ["x"]),
        ("models__0__history__iteration", []),
        ("models__0__history__terms", {"rest": [1.0]}),
        ("sha256", "0"),
        ("models__0__diagnostics", {"n_draws": 3}),
        ("models__0__diagnostics", []),
        ("restart_bounds", [None]),
        ("restart_bounds", [10**400]),
        ("subset_size_reason", 3),
        ("models__0__history__rollbacks", 1.5),
        ("models__0__history__seconds", [10**400]),
        ("parameters__learning_rate", 10**400),
        ("parameters__kernel", {"described": {}}),
        ("parameters__kernel", {"described": {"-1": {}}}),
        ("parameters__kernel", {"described": {"3": {"type": "rbf"}}}),
    ],
)
def test_wrong_entries(folder, entry, value):
    edit(folder, **{entry: value})
    with pytest.raises(ModelFileError):
        DeepGPRegressor.load(folder)


@pytest.mark.parametrize(
    "entry", ["parameters", "size", "models", "n_rows", "method", "likelihood", "y_is_vector", "sha256"]
)
def test_missing_entries(folder, entry):
    info, tensors = parts((folder / NAME_IN_FOLDER).read_bytes())
    del info[entry]
    write = write_unsigned if entry == "sha256" else write_signed
    write(folder, info, tensors)
    with pytest.raises(ModelFileError):
        DeepGPRegressor.load(folder)


def nan_mean(tensors):
    tensors["0.model.layers.0.q_mean"][0, 0] = torch.nan


def wrong_shape(tensors):
    tensors["0.model.layers.0.q_mean"] = torch.zeros(5, 5, dtype=torch.float64)


def wrong_type(tensors):
    tensors["0.model.layers.0.q_mean"] = tensors["0.model.layers.0.q_mean"].float()


def missing(tensors):
    del tensors["0.model.layers.1.q_factor"]


def stranger(tensors):
    tensors["0.model.layers.9.q_mean"] = torch.zeros(1)


def zero_scale(tensors):
    tensors["y_scaler.scale"].zero_()


def bad_index(tensors):
    tensors["0.subset.indices"][0] = 10_000


def bad_limit(tensors):
    tensors["0.model.likelihood.raw_noise_constraint.lower_bound"].fill_(-5.0)


def junk(tensors):
    tensors["more"] = torch.zeros(3)


@pytest.mark.parametrize(
    "change", [junk, nan_mean, wrong_shape, wrong_type, missing, stranger, zero_scale, bad_index, bad_limit]
)
def test_wrong_tensors(folder, change):
    edit_tensors(folder, change)
    with pytest.raises(ModelFileError, match="entry"):
        DeepGPRegressor.load(folder)


@pytest.mark.parametrize("objective", ["bound", "collapsed"])
def test_a_small_file_cannot_ask_for_much_memory(tmp_path, objective):
    size, folder = 10**5, tmp_path / "m"
    fitted(inference__objective=objective).save(folder)

    def grow(tensors):
        if objective == "bound":  # else the rows are those of the data, whatever the size
            tensors["0.subset.X"] = torch.zeros(size, 3, dtype=torch.float64)
            tensors["0.subset.y"] = torch.zeros(size, 1, dtype=torch.float64)
        tensors["0.subset.indices"] = torch.zeros(size, dtype=torch.int64)

    edit_tensors(folder, grow)
    edit(folder, size=size)
    with pytest.raises(ModelFileError, match="q_mean"):
        DeepGPRegressor.load(folder)


def test_file_size_limits(folder, monkeypatch):
    monkeypatch.setattr(io, "MAX_HEADER_BYTES", 10)
    with pytest.raises(ModelFileError, match="header is longer than the file, or than 10 bytes"):
        DeepGPRegressor.load(folder)
    monkeypatch.undo()
    monkeypatch.setattr(io, "MAX_FILE_BYTES", 10)
    with pytest.raises(ModelFileError, match=r"model\.sodgp has more than 10 bytes"):
        DeepGPRegressor.load(folder)


# ------------------------------------------------------------------------------------------------ writing


def state_of(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    ("place", "function"), [("m.sodgp", "replace"), ("m.sodgp", "fsync"), ("m", "fsync"), ("m", "replace")]
)
def test_a_failure_keeps_the_old_model(model, tmp_path, monkeypatch, place, function):
    model.save(tmp_path / place)
    before = state_of(tmp_path)

    def failing(*arguments):
        raise OSError(28, "No space left on device")

    other = fitted(random_state=1)
    with monkeypatch.context() as patch:
        patch.setattr(os, function, failing)
        with pytest.raises(ModelFileError, match="No space left on device"):
            other.save(tmp_path / place)
    assert state_of(tmp_path) == before
    np.testing.assert_array_equal(DeepGPRegressor.load(tmp_path / place).predict(X), model.predict(X))
    other.save(tmp_path / place)
    np.testing.assert_array_equal(DeepGPRegressor.load(tmp_path / place).predict(X), other.predict(X))
    assert [path.name for path in tmp_path.iterdir()] == [place]


def test_a_failed_first_save_leaves_nothing(model, tmp_path, monkeypatch):
    def failing(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", failing)
    for place in ("m.sodgp", "m"):
        with pytest.raises(ModelFileError):
            model.save(tmp_path / place)
    assert not any(tmp_path.iterdir())


def test_only_models_are_overwritten(model, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("more of it")
    model.save(tmp_path / "mixed")
    (tmp_path / "mixed" / "notes.txt").write_text("about the model")
    save_file({"a": torch.zeros(2)}, tmp_path / "other.safetensors")
    (tmp_path / "nosuffix").write_text("a file where a folder should go")
    before = state_of(tmp_path)
    for name in ("thesis.txt", "work", "mixed", "other.safetensors", "nosuffix"):
        with pytest.raises(ModelFileError):
            model.save(tmp_path / name)
    with pytest.raises(ModelFileError):
        model.save(tmp_path / "thesis.txt" / "m")
    assert state_of(tmp_path) == before
    (tmp_path / "hollow").mkdir()
    model.save(tmp_path / "hollow")
    assert DeepGPRegressor.load(tmp_path / "hollow").n_iter_ == 4
    shutil.rmtree(tmp_path / "hollow")


def test_records_of_any_content(tmp_path):
    tensors = {"a": torch.arange(6.0).reshape(2, 3).T, "b": torch.zeros(0, 4), "c": torch.tensor(1, dtype=torch.int64)}
    write_record(tmp_path / "r", Record({"text": "\u00e9", "list": [1, None, True]}, tensors))
    record = read_record(tmp_path / "r")
    assert record.info == {"format_version": 3, "text": "\u00e9", "list": [1, None, True]}
    assert all(torch.equal(record.tensors[name], tensor) for name, tensor in tensors.items())
    with pytest.raises(ModelFileError, match="JSON"):
        write_record(tmp_path / "s", Record({"x": float("nan")}, {}))
    assert not (tmp_path / "s").exists()


def test_the_file_holds_no_pickle(model, tmp_path):
    model.save(tmp_path / "m.sodgp")
    with safe_open(tmp_path / "m.sodgp", framework="pt") as handle:
        info = json.loads(handle.metadata()[FORMAT])
    assert (info["format_version"], info["estimator"]) == (3, "DeepGPRegressor")


def test_steps_that_were_not_trained_are_not_saved(tmp_path):
    X = np.linspace(-1, 1, 20)[:, None]
    model = DeepGPRegressor(n_layers=1, max_iter=3, random_state=0).fit(X, X[:, 0])
    model.set_params(max_iter=500)
    with pytest.raises(ModelFileError, match="max_iter was changed after fit, from 3 to 500"):
        model.save(tmp_path / "m.sodgp")
    model.set_params(max_iter=3).save(tmp_path / "m.sodgp")


def test_a_range_the_wrong_way_round_is_refused():
    X = np.linspace(-1, 1, 20)[:, None]
    record = to_record(DeepGPRegressor(n_layers=1, max_iter=3, random_state=0).fit(X, X[:, 0]))
    assert record.tensors["x_range"].tolist() == [[-1.0], [1.0]]
    record.tensors["x_range"] = record.tensors["x_range"].flip(0)
    with pytest.raises(ModelFileError, match="'x_range' is the wrong way round"):
        from_record(DeepGPRegressor, record)
