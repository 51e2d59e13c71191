"""Checkpoints: a fit that was stopped anywhere goes on bit for bit, and what does not belong to it is refused."""

import errno
import os
import signal
import threading

import numpy as np
import pytest
import torch
from sklearn.base import clone

from sodgp import Checkpoint, DeepGPRegressor
from sodgp.errors import CheckpointError, CheckpointWarning, ConfigurationError, NumericalWarning
from sodgp.system import files as atomic
from sodgp.system.running import deferred_interrupt
from sodgp.training.callbacks import EarlyStopping
from sodgp.training.checkpoint.folder import CheckpointFolder
from sodgp.training.sampling.step import SamplingStep

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.standard_normal(40)
SMALL = {"subset_size": 8, "n_predict_samples": 4, "random_state": 0, "every": 7}
METHODS = {
    "sod": {"max_iter": 80, "n_samples": 2, "batch_size": 24},
    "sod-paper": {
        "max_iter": 60,
        "n_samples": 2,
        "inference__parameterization": "paper",
        "inference__coupling": "marginal",
        "inference__tie_label_noise": False,
        "hidden_width": 3,
    },
    "sod-joint": {"max_iter": 60, "n_samples": 2, "inference__coupling": "joint", "dtype": "float32"},
    "dsvi": {"max_iter": 60, "n_samples": 2, "batch_size": 16, "inference": "dsvi"},
    "svgp": {"max_iter": 60, "n_samples": 2, "batch_size": 16, "inference": "dsvi", "n_layers": 1},
    "mean_field": {"max_iter": 60, "inference": "mean_field"},
    "sghmc": {
        "max_iter": 60,
        "batch_size": 16,
        "inference": "sghmc",
        "inference__n_posterior_samples": 12,
        "inference__thinning": 4,
        "inference__n_chains": 2,
        "learning_rate": 0.01,
    },
}


class Stop:
    """Kills training, as a power cut would, at an iteration; in a sampler's second half, at a transition."""

    class Cut(BaseException):
        pass

    def __init__(self, monkeypatch, after):
        self.writes, self.after = 0, after
        honest = CheckpointFolder.write

        def write(folder, info, tensors):
            done = honest(folder, info, tensors)
            self.writes += 1
            if self.writes == self.after:
                raise Stop.Cut
            return done

        monkeypatch.setattr(CheckpointFolder, "write", write)


def make(name, folder=None, **options):
    """An estimator that writes checkpoints into `folder`, where one is given, after every `every` steps."""
    options = {**SMALL, **METHODS[name], **options}
    every = options.pop("every")
    checkpoint = None if folder is None else Checkpoint(folder, every)
    return DeepGPRegressor().set_params(**{"checkpoint": checkpoint, **options})


def bits(model):
    """Everything that a fit leaves behind, but for the clock."""
    history = dict(vars(model.history_))
    history.pop("seconds")
    tensors = {name: value.numpy().tobytes() for name, value in model.model_.state_dict().items()}
    return tensors, history, model.predict(X).tobytes(), getattr(model, "subset_indices_", np.zeros(0)).tolist()


@pytest.mark.parametrize(("name", "after"), [*((name, 5) for name in METHODS), ("sod", 1), ("sghmc", 12)])
def test_a_fit_that_was_cut_off_ends_with_the_same_bits(tmp_path, monkeypatch, name, after):
    expected = bits(make(name).fit(X, Y))
    with monkeypatch.context() as patch:
        Stop(patch, after)
        with pytest.raises(Stop.Cut):
            make(name, tmp_path).fit(X, Y)
    assert len(CheckpointFolder(tmp_path).files()) == min(after, 2)
    resumed = make(name, tmp_path).fit(X, Y, resume=True)
    assert bits(resumed) == expected
    # And the finished one comes back at once.
    with monkeypatch.context() as patch:
        patch.setattr("sodgp.training.steps.EagerStep.__call__", None)
        patch.setattr("sodgp.training.sampling.step.SamplingStep.__call__", None)
        patch.setattr("sodgp.training.sampling.step.SamplingStep.sample_frozen", None)
        assert bits(make(name, tmp_path).fit(X, Y, resume=True)) == expected


def test_roll_backs_and_their_halved_steps_survive(tmp_path, monkeypatch):
    """A sampler with too large a step rolls back; cut off after that, it ends with the same shrunken step."""
    options = {"n_layers": 2, "inference__step_size": 3.0, "inference__n_chains": 1, "every": 5}
    expected = bits(make("sghmc", **options).fit(X, Y))
    assert expected[1]["rollbacks"] > 0
    with monkeypatch.context() as patch:
        Stop(patch, 8)
        with pytest.raises(Stop.Cut):
            make("sghmc", tmp_path, **options).fit(X, Y)
    assert bits(make("sghmc", tmp_path, **options).fit(X, Y, resume=True)) == expected


def test_early_stopping_goes_through_a_checkpoint(tmp_path, monkeypatch):
    options = {"max_iter": 1000, "tuning__schedule": "constant", "n_layers": 1, "every": 60}

    def stop():
        return [EarlyStopping(patience=100, min_delta=50.0, smoothing=0.3)]

    expected = make("sod", **options, callbacks=stop()).fit(X, Y)
    assert 150 <= expected.n_iter_ < 1000
    with monkeypatch.context() as patch:
        Stop(patch, 2)
        with pytest.raises(Stop.Cut):
            make("sod", tmp_path, **options, callbacks=stop()).fit(X, Y)
    resumed = make("sod", tmp_path, **options, callbacks=stop()).fit(X, Y, resume=True)
    assert bits(resumed) == bits(expected)


# ----- people who stop it


def interrupt(at):
    """A Ctrl-C while iteration `at` is under way."""

    def callback(state):
        if state.iteration == at:
            os.kill(os.getpid(), signal.SIGINT)

    return callback


@pytest.mark.filterwarnings("ignore:the sampler was stopped before")
@pytest.mark.parametrize("name", ["sod", "mean_field", "sghmc"])
def test_ctrl_c_leaves_a_usable_model_and_a_checkpoint(tmp_path, name):
    options = {"every": "1h"}
    model = make(name, tmp_path, **options, callbacks=[interrupt(50)])
    with pytest.warns(NumericalWarning, match="interrupted at iteration 50; the model is usable"):
        model.fit(X, Y)
    assert model.history_.stopped == "interrupted"
    assert model.n_iter_ == 50
    assert np.isfinite(model.predict(X)).all()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    resumed = make(name, tmp_path, **options).fit(X, Y, resume=True)
    assert bits(resumed) == bits(make(name).fit(X, Y))


def test_ctrl_c_in_a_sampler_after_its_burn_in(tmp_path, monkeypatch):
    expected = bits(make("sghmc").fit(X, Y))
    honest, calls = SamplingStep.sample_frozen, []

    def sample_frozen(step):
        calls.append(1)
        if len(calls) == 10:
            os.kill(os.getpid(), signal.SIGINT)
        return honest(step)

    model = make("sghmc", tmp_path, every="1h")
    with monkeypatch.context() as patch:
        patch.setattr(SamplingStep, "sample_frozen", sample_frozen)
        with pytest.warns(NumericalWarning, match="predicts with 2 draws of each chain"):
            model.fit(X, Y)
    assert len(calls) == 10
    assert model.history_.stopped == "interrupted"
    assert not hasattr(model, "diagnostics_")
    assert np.isfinite(model.predict(X)).all()
    resumed = make("sghmc", tmp_path).fit(X, Y, resume=True)
    assert bits(resumed) == expected
    assert resumed.diagnostics_.n_draws == 12


def test_a_second_ctrl_c_does_not_wait():
    with deferred_interrupt() as asked:
        os.kill(os.getpid(), signal.SIGINT)
        assert asked.requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_signals_of_other_threads_and_programs_are_left_alone():
    seen = []
    thread = threading.Thread(target=lambda: seen.append(make("svgp", max_iter=2).fit(X, Y).n_iter_))
    thread.start()
    thread.join()
    assert seen == [2]
    mine = signal.signal(signal.SIGINT, lambda *_: seen.append("mine"))
    try:
        with deferred_interrupt() as asked:
            os.kill(os.getpid(), signal.SIGINT)
        assert not asked.requested
    finally:
        signal.signal(signal.SIGINT, mine)
    assert seen == [2, "mine"]


def test_a_time_budget_is_for_one_call_and_the_next_goes_on(tmp_path):
    options = {"max_iter": 10**5, "tuning__schedule": "constant", "every": "1h"}
    first = make("svgp", tmp_path, **options, max_minutes=0.1 / 60).fit(X, Y)
    assert first.history_.stopped == "max_minutes"
    second = make("svgp", tmp_path, **options, max_minutes=0.1 / 60).fit(X, Y, resume=True)
    assert second.n_iter_ > first.n_iter_
    assert second.history_.seconds[-1] > first.history_.seconds[-1]


# ----- what does not belong together


@pytest.mark.parametrize(
    ("changes", "rows", "named"),
    [
        ({"max_iter": 81}, X, ["max_iter=80 then, 81 now"]),
        (
            {"kernel": "rq", "learning_rate": 0.1},
            X,
            ["kernel='rbf' then, 'rq' now", "learning_rate=None then, 0.1 now"],
        ),
        ({"random_state": 1}, X, ["random_state differs"]),
        ({"n_threads": 2}, X, ["n_threads=1 then, 2 now"]),
        ({}, X + np.eye(40, 2), ["X differs"]),
        ({}, X[:39], ["[40, 2, 1] rows, columns and targets then, [39, 2, 1] now"]),
    ],
)
def test_other_data_and_options_are_refused_by_name(tmp_path, changes, rows, named):
    with pytest.warns(NumericalWarning, match="interrupted"):
        make("sod", tmp_path, callbacks=[interrupt(1)]).fit(X, Y)
    model = make("sod", tmp_path, **changes)
    with pytest.raises(CheckpointError, match="belongs to another fit") as caught:
        model.fit(rows, Y[: len(rows)], resume=True)
    for phrase in named:
        assert phrase in str(caught.value)
    assert not hasattr(model, "model_")


def test_what_leaves_the_numbers_alone_may_change(tmp_path):
    with pytest.warns(NumericalWarning, match="interrupted"):
        make("svgp", tmp_path, callbacks=[interrupt(1)]).fit(X, Y)
    others = {"max_minutes": 60, "n_predict_samples": 9}
    model = make("svgp", tmp_path, every="90s", callbacks=[lambda state: None], **others)
    assert bits(model.fit(X, Y, resume=True)) == bits(make("svgp").fit(X, Y))


def test_samples_of_predictions_count_where_held_out_rows_are_scored(tmp_path):
    held = {"validation_fraction": 0.2}
    with pytest.warns(NumericalWarning, match="interrupted"):
        make("svgp", tmp_path, **held, callbacks=[interrupt(1)]).fit(X, Y)
    with pytest.raises(CheckpointError, match="n_predict_samples=4 then, 9 now"):
        make("svgp", tmp_path, **held, n_predict_samples=9).fit(X, Y, resume=True)


def test_a_fit_without_a_seed_goes_on_with_the_seeds_it_drew(tmp_path):
    with pytest.warns(NumericalWarning, match="interrupted"):
        make("sod", tmp_path, random_state=None, callbacks=[interrupt(50)]).fit(X, Y)
    seeds = CheckpointFolder(tmp_path).read().info["seeds"]
    resumed = make("sod", tmp_path, random_state=None).fit(X, Y, resume=True)
    assert resumed.fitted_.predict_seed == seeds[2]
    assert resumed.history_.iteration == [1, 50, 80]


def test_an_unfinished_fit_is_not_overwritten_and_a_finished_one_is(tmp_path):
    with pytest.warns(NumericalWarning, match="interrupted"):
        make("svgp", tmp_path, callbacks=[interrupt(1)]).fit(X, Y)
    with pytest.raises(CheckpointError, match=r"unfinished fit.*--resume on the command line"):
        make("svgp", tmp_path).fit(X, Y)
    make("svgp", tmp_path).fit(X, Y, resume=True)
    again = make("svgp", tmp_path, max_iter=30).fit(X, Y)
    assert bits(again) == bits(make("svgp", max_iter=30).fit(X, Y))


def test_resume_without_a_checkpoint_begins_and_without_a_folder_is_an_error(tmp_path):
    with pytest.warns(CheckpointWarning, match="no checkpoint in .* to resume from"):
        model = make("svgp", tmp_path / "new" / "folder").fit(X, Y, resume=True)
    assert bits(model) == bits(make("svgp").fit(X, Y))
    with pytest.raises(ConfigurationError, match="needs a folder"):
        make("svgp").fit(X, Y, resume=True)


def test_several_models_in_one_program(tmp_path, monkeypatch):
    small = {"max_iter": 60, "n_layers": 1}
    expected = bits(make("sod", **small, n_restarts=2).fit(X, Y))
    with monkeypatch.context() as patch:
        Stop(patch, 5)
        with pytest.raises(Stop.Cut):
            make("sod", tmp_path, **small, n_restarts=2).fit(X, Y)
    assert bits(make("sod", tmp_path, **small, n_restarts=2).fit(X, Y, resume=True)) == expected
    with pytest.raises(CheckpointError, match="number of models"):
        make("sod", tmp_path, **small, n_restarts=3).fit(X, Y, resume=True)
    with pytest.raises(ConfigurationError, match="integer random_state"):
        make("sod", tmp_path, **small, n_restarts=2, random_state=None).fit(X, Y)
    members = make("sod", tmp_path / "e", **small, n_members=2)
    first = members.fit(X, Y).predict(X)
    np.testing.assert_array_equal(clone(members).fit(X, Y, resume=True).predict(X), first)


@pytest.mark.parametrize("every", [0, 1.5, "often", "0s", "10 days", None])
def test_how_often_is_checked(every):
    with pytest.raises(ConfigurationError, match="every"):
        make("sod", "folder", every=every)


def test_the_folder_is_checked():
    with pytest.raises(ConfigurationError, match="path of a folder"):
        make("sod", 3)
    with pytest.raises(ConfigurationError, match="path of a folder"):
        DeepGPRegressor(checkpoint=3).fit(X, Y)


# ----- disks


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        Stop(patch, 4)
        with pytest.raises(Stop.Cut):
            make("svgp", tmp_path).fit(X, Y)
    newest, _ = CheckpointFolder(tmp_path).files()
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    with pytest.warns(CheckpointWarning, match="damaged.*The one before it is tried"):
        resumed = make("svgp", tmp_path).fit(X, Y, resume=True)
    assert bits(resumed) == bits(make("svgp").fit(X, Y))
    for file in CheckpointFolder(tmp_path).files():
        file.write_bytes(b"nothing")
    with pytest.warns(CheckpointWarning), pytest.raises(CheckpointError, match=r"no checkpoint in .* can be read"):
        make("svgp", tmp_path).fit(X, Y, resume=True)


@pytest.mark.parametrize("place", [0, 8, 200, -200, -1])
def test_every_flipped_bit_is_found(tmp_path, place):
    folder = CheckpointFolder(tmp_path)
    folder.write({"a": [1, 2.5]}, {"x": torch.arange(100.0), "one": torch.zeros(1, 64)[..., 0]})
    (file,) = folder.files()
    content = bytearray(file.read_bytes())
    content[place] ^= 4
    file.write_bytes(content)
    with pytest.warns(CheckpointWarning), pytest.raises(CheckpointError):
        folder.read()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_disk_that_refuses_is_warned_of_and_training_goes_on(tmp_path, monkeypatch, code):
    honest, calls = os.replace, []

    def replace(source, target):
        calls.append(target)
        if 3 <= len(calls) <= 5:
            raise OSError(code, os.strerror(code))
        return honest(source, target)

    monkeypatch.setattr(atomic.os, "replace", replace)
    with pytest.warns(CheckpointWarning, match=f"{os.strerror(code)}.*training goes on, and the one before"):
        model = make("svgp", tmp_path).fit(X, Y)
    monkeypatch.undo()
    assert bits(model) == bits(make("svgp").fit(X, Y))
    assert sorted(tmp_path.iterdir()) == CheckpointFolder(tmp_path).files()[::-1]


def test_a_folder_that_cannot_be_written_is_an_error_before_training(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CheckpointError, match="nothing can be written there"):
        make("svgp", tmp_path / "file" / "folder").fit(X, Y)


def test_what_a_killed_process_leaves_is_removed_and_other_files_are_not(tmp_path):
    left = tmp_path / ".checkpoint-00000007.safetensors.0123.tmp"
    left.write_bytes(b"half")
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    make("svgp", tmp_path).fit(X, Y)
    assert not left.exists()
    assert other.read_text() == "mine"


def test_model_files_do_not_hold_the_folder(tmp_path):
    model = make("svgp", tmp_path / "c", max_minutes=5.0).fit(X, Y)
    model.save(tmp_path / "m.sodgp")
    again = DeepGPRegressor.load(tmp_path / "m.sodgp")
    assert again.checkpoint is None
    assert again.max_minutes == 5.0


@pytest.mark.parametrize("known", [None, 0.04])
def test_a_warm_start_and_known_noise_go_on_too(tmp_path, monkeypatch, known):
    def fitted(folder=None):
        first = make("sod", max_iter=20, warm_start=True).fit(X, Y, noise_variance=known)
        return first.set_params(max_iter=40, checkpoint=folder and Checkpoint(folder, 7))

    expected = bits(fitted().fit(X, Y, noise_variance=known))
    model = fitted(tmp_path)
    with monkeypatch.context() as patch:
        Stop(patch, 3)
        with pytest.raises(Stop.Cut):
            model.fit(X, Y, noise_variance=known)
    assert bits(model.fit(X, Y, noise_variance=known, resume=True)) == expected
    if known is not None:
        with pytest.raises(CheckpointError, match="noise_variance differs"):
            fitted(tmp_path).fit(X, Y, noise_variance=np.linspace(0.03, 0.05, 40), resume=True)


def test_a_file_that_the_system_cuts_short_is_no_checkpoint(tmp_path):
    """A real refusal in the middle of a file, without a disk to fill: the system's limit on the size of files."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(state):
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]) if state.iteration == 1 else limits)

    try:
        with pytest.warns(CheckpointWarning, match="File too large"):
            model = make("svgp", tmp_path, callbacks=[limit]).fit(X, Y)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert bits(model) == bits(make("svgp").fit(X, Y))
    assert CheckpointFolder(tmp_path).read().info["is_finished"]
    assert len(list(tmp_path.iterdir())) == 2
