"""Checkpoints: a fit that was stopped anywhere goes on bit for bit, and what does not belong to it is refused."""

import numpy as np
import pytest

from sodgp import DeepGPRegressor
from sodgp.training.checkpoints import CheckpointFolder

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.standard_normal(40)
SMALL = {"subset_size": 8, "n_predict_samples": 4, "random_state": 0, "checkpoint_every": 7}
METHODS = {
    "sod": {"max_iter": 120, "n_samples": 2, "batch_size": 24},
    "sod-moving": {"max_iter": 120, "n_samples": 2, "batch_size": 24, "reselect_every": 20},
    "sod-paper": {
        "max_iter": 60,
        "n_samples": 2,
        "parameterization": "paper",
        "coupling": "marginal",
        "tie_label_noise": False,
        "hidden_width": 3,
    },
    "sod-joint": {"max_iter": 60, "n_samples": 2, "coupling": "joint", "dtype": "float32"},
    "dsvi": {"max_iter": 60, "n_samples": 2, "batch_size": 16, "inference": "dsvi"},
    "svgp": {"max_iter": 60, "n_samples": 2, "batch_size": 16, "inference": "dsvi", "n_layers": 1},
    "mean_field": {"max_iter": 60, "inference": "mean_field"},
    "sghmc": {
        "max_iter": 60,
        "batch_size": 16,
        "inference": "sghmc",
        "n_posterior_samples": 12,
        "thinning": 4,
        "n_chains": 2,
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
    return DeepGPRegressor(**{**SMALL, **METHODS[name], "checkpoint": folder, **options})


def bits(model):
    """Everything that a fit leaves behind, but for the clock."""
    history = dict(vars(model.history_))
    history.pop("seconds")
    tensors = {name: value.numpy().tobytes() for name, value in model.model_.state_dict().items()}
    return tensors, history, model.predict(X).tobytes(), getattr(model, "subset_indices_", np.zeros(0)).tolist()


@pytest.mark.parametrize("after", [1, 7])
@pytest.mark.parametrize("name", METHODS)
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
        patch.setattr("sodgp.training.sampling.SamplingStep.__call__", None)
        patch.setattr("sodgp.training.sampling.SamplingStep.sample_frozen", None)
        assert bits(make(name, tmp_path).fit(X, Y, resume=True)) == expected
