"""Folders of checkpoints that others use at the same time, that go away, or that hold something strange."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from sklearn.base import clone

from sodgp import SGHMC, Checkpoint, DeepGPRegressor
from sodgp.errors import CheckpointError, CheckpointWarning
from sodgp.training.checkpoint.folder import CheckpointFolder

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 2))
Y = np.sin(2 * X[:, 0])
SAMPLER = SGHMC(n_posterior_samples=6, thinning=2, n_chains=2)
OWNER = """
import sys
from pathlib import Path
from sodgp.training.checkpoint.folder import CheckpointFolder, sole_fit_in
with sole_fit_in(Path(sys.argv[1])):
    CheckpointFolder(sys.argv[1]).write({"is_finished": True}, {})
    print("writes", flush=True)
    sys.stdin.readline()
"""


def make(folder, callback=None, **options):
    options = {"inference": "dsvi", "n_layers": 1, "subset_size": 8, "max_iter": 60, "random_state": 0, **options}
    return DeepGPRegressor(**options, checkpoint=Checkpoint(folder, 7), callbacks=[callback] if callback else None)


def at_first_step(action):
    """A callback that acts once, after the first step: after the folder was looked at, before the first checkpoint."""

    def callback(state):
        if state.iteration == 1:
            action()

    return callback


# ----- two fits in one folder


def test_a_second_fit_in_one_folder_is_refused_and_the_first_ends_as_if_alone(tmp_path):
    errors = []

    def intrude():
        def fit():
            for resume in (False, True):
                try:
                    make(tmp_path).fit(X, Y, resume=resume)
                except CheckpointError as error:
                    errors.append(str(error))

        thread = threading.Thread(target=fit)
        thread.start()
        thread.join()

    model = make(tmp_path, at_first_step(intrude)).fit(X, Y)
    assert len(errors) == 2
    assert all("another fit is writing its checkpoints" in error for error in errors)
    np.testing.assert_array_equal(model.predict(X), make(tmp_path / "alone").fit(X, Y).predict(X))
    assert len(CheckpointFolder(tmp_path).files()) == 2
    # Once it is over the folder is free.
    make(tmp_path).fit(X, Y)


def test_members_share_the_folder_of_their_fit(tmp_path):
    small = {"inference": "sod", "n_members": 2}
    expected = make(tmp_path, **small).fit(X, Y).predict(X)
    np.testing.assert_array_equal(make(tmp_path, **small).fit(X, Y, resume=True).predict(X), expected)


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGKILL")
def test_a_fit_in_another_process_keeps_the_folder_until_it_dies(tmp_path):
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "writes\n"
        with pytest.raises(CheckpointError, match="another fit"):
            make(tmp_path).fit(X, Y)
        other.send_signal(signal.SIGKILL)
        other.communicate()
    make(tmp_path).fit(X, Y)


# ----- a folder that goes away


def remove(folder):
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()


def replace_by_file(folder):
    remove(folder)
    folder.write_text("in the way")


def replace_by_circle(folder):
    remove(folder)
    folder.symlink_to(folder)


@pytest.mark.parametrize("replace", [replace_by_file, replace_by_circle])
@pytest.mark.parametrize("options", [{}, {"inference": SAMPLER, "max_iter": 20}])
def test_training_goes_on_where_the_folder_is_replaced(tmp_path, replace, options):
    folder = tmp_path / "run"
    with pytest.warns(CheckpointWarning, match="training goes on, and there is none"):
        model = make(folder, at_first_step(lambda: replace(folder)), **options).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), make(tmp_path / "other", **options).fit(X, Y).predict(X))


def test_a_folder_that_was_removed_is_made_again(tmp_path):
    folder = tmp_path / "run"
    model = make(folder, at_first_step(lambda: remove(folder))).fit(X, Y)
    assert len(CheckpointFolder(folder).files()) == 2
    np.testing.assert_array_equal(make(folder).fit(X, Y, resume=True).predict(X), model.predict(X))


def test_training_goes_on_where_the_folder_may_be_neither_written_nor_read(tmp_path, monkeypatch):
    folder = CheckpointFolder(tmp_path)

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(CheckpointFolder, "_named", refuse)
    folder.write({}, {})  # written, although those before it cannot be listed
    monkeypatch.setattr("sodgp.training.checkpoint.folder.write_bytes_whole", refuse)
    with pytest.warns(CheckpointWarning, match="Permission denied"):
        assert not folder.write({}, {})
    folder.clear()
    assert folder.read() is None


# ----- what is no checkpoint, though it has the name of one


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
@pytest.mark.parametrize("resume", [False, True])
def test_a_pipe_with_the_name_of_a_checkpoint_is_left_alone(tmp_path, resume):
    pipe, folder = tmp_path / "checkpoint-00000041.safetensors", tmp_path / "checkpoint-00000042.safetensors"
    os.mkfifo(pipe)
    folder.mkdir()
    (tmp_path / "checkpoint-00000043.safetensors").symlink_to(pipe)
    model = make(tmp_path)
    if resume:
        with pytest.warns(CheckpointWarning, match="no checkpoint in .* to resume from"):
            model.fit(X, Y, resume=True)
    else:
        model.fit(X, Y)
    assert pipe.is_fifo()
    assert folder.is_dir()
    # Its own come after them, and are found.
    numbers = [int(file.name[11:19]) for file in CheckpointFolder(tmp_path).files()]
    assert len(numbers) == 2
    assert min(numbers) > 43
    np.testing.assert_array_equal(clone(model).fit(X, Y, resume=True).predict(X), model.predict(X))
