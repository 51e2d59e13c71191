"""Model files from elsewhere, disks that fail, and others who save and predict at the same time."""

from __future__ import annotations

import json
import os
import resource
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from benchmarks.reliability import fuzz, mutations

from sodgp import DeepGPRegressor
from sodgp.errors import InputError, ModelFileError, NumericalError
from sodgp.system import files as atomic
from sodgp.system.container import NAME_IN_FOLDER

FIXTURES = Path(__file__).parents[1] / "fixtures"
FOLDER, FILE = FIXTURES / "model-v3-sod-options", FIXTURES / "model-v3-sod.sodgp"
ROWS = np.linspace(-1.0, 50.0, 8).reshape(4, 2)

pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# ----- damage
# Judged in processes of their own, as the run-time check of shapes makes code, and the judge looks out for code.


def test_fuzzed_files_are_refused_or_equal():
    """The small version of ``python -m benchmarks.reliability.fuzz``."""
    found = fuzz.child(0, 360, seed=1)
    assert found["bad"] == []
    assert sum(found["counts"].values()) == 360
    assert found["counts"]["signed JSON entry|refused"] > 10
    assert found["counts"]["signed tensors|loaded, finite"] > 0


def test_the_judge_sees_what_it_is_to_see(tmp_path):
    """A harness that finds nothing must be able to find something."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    program = [sys.executable, "-W", "ignore", Path(__file__).with_name("judged.py"), tmp_path]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "as it is": "equal",
        "another file": "bad: another model",
        "runs code": "bad: code",
        "fails": "bad: IndexError in load",
        "hangs": "bad: HangError in load",
    }


def test_a_case_that_takes_memory_is_stopped():
    before = resource.getrlimit(resource.RLIMIT_AS)
    fuzz.limited(10**9)
    try:
        with pytest.raises(MemoryError):
            np.ones(2 * 10**8)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def changed(path, place, value):
    """The file with another value at that place of its JSON, and a checksum that fits."""
    info, tensors = mutations.parts(path.read_bytes())
    del info["sha256"]
    *above, last = place
    entry = info
    for key in above:
        entry = entry[key]
    entry[last] = value
    return mutations.signed(info, tensors)


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("sod.sodgp", ["parameters", "n_predict_samples"], 10**6),
        ("sod.sodgp", ["parameters", "n_predict_samples"], 10_001),
        ("sod.sodgp", ["parameters", "n_samples"], 10**6),
        ("sod.sodgp", ["parameters", "max_iter"], 10**12),
        ("sod.sodgp", ["parameters", "n_restarts"], 10**6),
        ("sod.sodgp", ["parameters", "batch_size"], 10**15),
        ("sod.sodgp", ["parameters", "subset_size"], 10**12),
        ("sod.sodgp", ["parameters", "hidden_width"], [10**12]),
        ("sod.sodgp", ["parameters", "n_layers"], 10**9),
        ("sghmc.sodgp", ["parameters", "inference", "options", "thinning"], 10**12),
        ("sghmc.sodgp", ["parameters", "inference", "options", "window"], 10**12),
        ("sod.sodgp", ["parameters", "subset"], {"selector": "kmeans", "options": {"max_epochs": 10**12}}),
    ],
)
def test_a_small_file_cannot_ask_for_much(tmp_path, name, place, value):
    """Every number that becomes a loop, a size or a chunk has a limit, which is checked before anything is built."""
    (tmp_path / "m.sodgp").write_bytes(changed(FIXTURES / f"model-v3-{name}", place, value))
    with fuzz.guarded(5.0), pytest.raises(ModelFileError, match="more than"):
        DeepGPRegressor.load(tmp_path / "m.sodgp")


def test_a_model_that_asks_for_much_is_told_so_when_it_is_saved(tmp_path):
    model = DeepGPRegressor.load(FILE).set_params(n_predict_samples=10_001)
    with pytest.raises(ModelFileError, match=r"n_predict_samples=10001 is more than a model file may ask for, 10000"):
        model.save(tmp_path / "m.sodgp")
    assert list(tmp_path.iterdir()) == []
    model.set_params(n_predict_samples=10_000).save(tmp_path / "m.sodgp")
    with fuzz.guarded(5.0):
        assert np.isfinite(DeepGPRegressor.load(tmp_path / "m.sodgp").predict(ROWS[:1])).all()


# ----- folders that hold other things than files


def test_a_folder_of_links_is_read(tmp_path):
    """Stores that keep each content once hand out folders of links."""
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / NAME_IN_FOLDER).symlink_to(FOLDER / NAME_IN_FOLDER)
    assert DeepGPRegressor.load(tmp_path / "m").n_layers == 3


@pytest.mark.parametrize("kind", ["pipe", "device", "endless", "folder", "dangling", "loop"])
def test_what_is_not_a_plain_file_is_refused_at_once(tmp_path, kind):
    shutil.copytree(FOLDER, tmp_path / "m")
    place = tmp_path / "m" / NAME_IN_FOLDER
    place.unlink()
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    else:
        place.symlink_to(
            {"device": "/dev/tty", "endless": "/dev/zero", "dangling": "nowhere", "loop": NAME_IN_FOLDER}[kind]
        )
    with fuzz.guarded(5.0), pytest.raises(ModelFileError):
        DeepGPRegressor.load(tmp_path / "m")


def test_a_pipe_or_device_in_place_of_a_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "m.sodgp")
    for path in (tmp_path / "m.sodgp", "/dev/zero", "/dev/full"):
        with fuzz.guarded(5.0), pytest.raises(ModelFileError, match="not a plain file"):
            DeepGPRegressor.load(path)


@pytest.mark.parametrize("path", ["a\0b.sodgp", "x" * 300 + ".sodgp", "\udcff.sodgp"])
def test_impossible_names_are_typed_errors(tmp_path, path):
    model = DeepGPRegressor.load(FILE)
    with pytest.raises(ModelFileError):
        DeepGPRegressor.load(tmp_path / path)
    if "\udcff" not in path:
        with pytest.raises(ModelFileError):
            model.save(tmp_path / path)


def test_a_link_is_written_through_and_stays_a_link(tmp_path):
    model = DeepGPRegressor.load(FILE)
    model.save(tmp_path / "real.sodgp")
    (tmp_path / "link.sodgp").symlink_to("real.sodgp")
    model.save(tmp_path / "link.sodgp")
    assert (tmp_path / "link.sodgp").is_symlink()
    assert not (tmp_path / "real.sodgp").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.sodgp", "real.sodgp"]


def test_a_file_that_shrinks_while_it_is_read_is_an_error_and_not_a_crash(tmp_path, monkeypatch):
    shutil.copy(FILE, tmp_path / "m.sodgp")
    honest = os.fstat

    def cut(descriptor):
        status = honest(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_size > 2000:
            os.truncate(tmp_path / "m.sodgp", 2000)
        return status

    monkeypatch.setattr(os, "fstat", cut)
    with pytest.raises(ModelFileError):
        DeepGPRegressor.load(tmp_path / "m.sodgp")


def test_loading_and_predicting_write_nothing(tmp_path, monkeypatch):
    shutil.copy(FILE, tmp_path / "m.sodgp")
    monkeypatch.chdir(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path, tmp_path / "m.sodgp")}
    model = DeepGPRegressor.load("m.sodgp")
    model.predict(ROWS)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path, *tmp_path.iterdir())} == before
    assert model.checkpoint is model.callbacks is None


# ----- disks


@pytest.fixture(params=["m.sodgp", "m"])
def saved(request, tmp_path):
    """A place with a model in it, and another model that is to take its place."""
    place = tmp_path / "models" / request.param
    DeepGPRegressor.load(FILE).save(place)
    return place, DeepGPRegressor.load(FOLDER)


def assert_intact(place, before):
    assert contents(place.parent) == before
    assert DeepGPRegressor.load(place).n_layers == 2
    assert [path.name for path in place.parent.iterdir()] == [place.name]


@pytest.mark.parametrize("limit", [0, 100, 4000])
def test_a_disk_that_is_full_is_a_typed_error_and_the_old_model_stays(saved, limit):
    """The system refuses to let a file grow beyond so many bytes: a write fails in the middle, as on a full disk."""
    place, model = saved
    before = contents(place.parent)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(ModelFileError, match=r"could not be written \(File too large\); nothing there was changed"):
            model.save(place)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert_intact(place, before)
    model.save(place)
    assert DeepGPRegressor.load(place).n_layers == 3


def test_a_write_that_fails_says_why(saved, monkeypatch):
    place, model = saved
    before = contents(place.parent)

    def full(path, content):
        with path.open("wb") as handle:
            handle.write(content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(ModelFileError, match=r"No space left on device.*free space"):
            model.save(place)
    assert_intact(place, before)


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="this system has no users to change to")
def test_a_folder_that_may_not_be_written_is_a_typed_error_and_the_old_model_stays(saved):
    place, model = saved
    before = contents(place.parent)
    for folder in (place.parent, *place.parents[1:4]):
        folder.chmod(0o555 if folder == place.parent else 0o755)
    if place.is_dir():
        place.chmod(0o555)
    is_root = os.geteuid() == 0
    try:
        if is_root:  # may write anywhere, and so steps aside for a moment
            os.seteuid(65534)
        with pytest.raises(ModelFileError, match=r"Permission denied|not a folder that you may write to"):
            model.save(place)
        with pytest.raises(ModelFileError):
            model.save(place.parent / "new" / "m.sodgp")
    finally:
        if is_root:
            os.seteuid(0)
        place.parent.chmod(0o755)
        if place.is_dir():
            place.chmod(0o755)
    assert_intact(place, before)


def test_a_read_only_disk_is_a_typed_error(saved, monkeypatch):
    place, model = saved
    before = contents(place.parent)

    def refused(*arguments, **options):
        raise OSError(30, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(atomic.os, "replace", refused)
        with pytest.raises(ModelFileError, match="Read-only file system"):
            model.save(place)
    assert_intact(place, before)


# ----- others at the same time

SAVER = """
import sys
from sodgp import DeepGPRegressor
source, *places = sys.argv[1:]
model = DeepGPRegressor.load(source)
print("ready", flush=True)
sys.stdin.readline()
while not sys.stdin.closed:
    for place in places:
        model.save(place)
    print("saved", flush=True)
    if sys.stdin.readline() != "go\\n":
        break
"""


def test_two_processes_that_save_to_one_path_leave_one_of_two_whole_models(tmp_path):
    places = [tmp_path / "m.sodgp", tmp_path / "m"]
    ours = DeepGPRegressor.load(FILE)
    command = [sys.executable, "-c", SAVER, str(FOLDER), *map(str, places)]
    seen = set()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "ready\n"
        for place in places:
            ours.save(place)
        for _ in range(6):
            other.stdin.write("go\n")
            other.stdin.flush()
            for place in places:  # while the other saves there too: never half a model, and never none
                seen.add(DeepGPRegressor.load(place).n_layers)
                ours.save(place)
                seen.add(DeepGPRegressor.load(place).n_layers)
            assert other.stdout.readline() == "saved\n"
        other.stdin.close()
    assert other.returncode == 0
    assert seen <= {2, 3}
    assert all(DeepGPRegressor.load(place).n_layers in (2, 3) for place in places)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "m.sodgp"]


def test_two_threads_that_save_to_one_path_leave_a_whole_model(tmp_path):
    models = [DeepGPRegressor.load(source) for source in (FILE, FOLDER)]
    errors = []

    def save(model):
        try:
            for _ in range(20):
                model.save(tmp_path / "m")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=save, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert DeepGPRegressor.load(tmp_path / "m").n_layers in (2, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


@pytest.mark.parametrize("name", ["sod.sodgp", "sod-options", "dsvi.sodgp", "mean_field.sodgp", "sghmc.sodgp"])
def test_threads_that_predict_with_one_model_get_what_one_alone_gets(name):
    model = DeepGPRegressor.load(FIXTURES / f"model-v3-{name}").set_params(n_predict_samples=20)
    rows = [np.random.default_rng(seed).normal(size=(50, 2)) * [3.0, 0.01] + [50.0, 0.0] for seed in range(4)]
    expected = [model.predict(part, return_std=True) for part in rows]
    found = {}
    start = threading.Barrier(4)

    def predict(number):
        start.wait()
        found[number] = [model.predict(rows[number], return_std=True) for _ in range(10)]

    threads = [threading.Thread(target=predict, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, answers in found.items():
        for answer in answers:
            np.testing.assert_array_equal(answer, expected[number])
    assert len(found) == 4


# ----- predictions are numbers, or errors


def test_a_row_beyond_floating_point_is_refused_by_place():
    model = DeepGPRegressor.load(FOLDER)  # single precision
    rows = ROWS.copy()
    rows[2, 1] = 1e300
    with pytest.raises(InputError, match=r"row 2 of X is so far .* in column 1"):
        model.predict(rows)


def test_parameters_that_overflow_are_a_typed_error_in_predict():
    model = DeepGPRegressor.load(FIXTURES / "model-v3-dsvi.sodgp")
    model.model_.layers[-1].q_mean.data.fill_(1e300)
    with pytest.raises(NumericalError, match="not finite"):
        model.predict([[50.0, 0.0]], return_std=True)


def test_more_threads_than_the_machine_has_are_not_started():
    model = DeepGPRegressor.load(FILE).set_params(n_threads=2**40)
    assert np.isfinite(model.predict(ROWS)).all()
