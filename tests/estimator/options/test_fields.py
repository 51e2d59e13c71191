"""Single options: what is taken, and what is refused by name."""

import numpy as np
import pytest
import torch

from sodgp import Checkpoint, Tuning
from sodgp.errors import ConfigurationError
from sodgp.estimator.options.fields import checked_callbacks, checked_width, checkpoint_of, likelihood_of, method_of
from sodgp.training.checkpoint.folder import Cadence


def test_a_name_stands_for_the_defaults_and_an_object_for_itself():
    assert method_of("sod") == type(method_of("sod"))()
    method = method_of("sod").set_params(coupling="joint")
    assert method_of(method) is method
    with pytest.raises(ConfigurationError, match="choose one of 'gaussian'"):
        likelihood_of("cauchy")
    with pytest.raises(ConfigurationError, match="or an object: SoD, DSVI"):
        method_of(type(method))


@pytest.mark.parametrize(
    ("every", "cadence"),
    [(5, Cadence(steps=5)), ("90s", Cadence(seconds=90.0)), (" 1.5 h ", Cadence(seconds=5400.0))],
)
def test_how_often_checkpoints_are_written(every, cadence):
    assert Checkpoint("folder", every=every).cadence() == cadence


@pytest.mark.parametrize("every", ["0s", "ten minutes", "5", 0, 1.5])
def test_a_bad_interval_of_checkpoints_is_named(every):
    with pytest.raises(ConfigurationError, match="checkpoint"):
        Checkpoint("folder", every=every)


def test_a_path_is_a_checkpoint_and_nothing_is_none():
    assert checkpoint_of("folder") == Checkpoint("folder")
    assert checkpoint_of(None) is None
    with pytest.raises(ConfigurationError, match="path of a folder"):
        checkpoint_of("")


def test_jitter_by_type_by_number_and_as_in_the_program():
    assert Tuning().jitter_of(torch.float32).amount > Tuning().jitter_of(torch.float64).amount
    assert Tuning(jitter=1e-5).jitter_of(torch.float64).amount == 1e-5
    assert Tuning(jitter="program").jitter_of(torch.float64).on_draws
    with pytest.raises(ConfigurationError, match="give a number, 'program' or None"):
        Tuning(jitter="much")


def test_widths_and_callbacks():
    assert checked_width((3, np.int64(2))) == [3, 2]
    assert checked_callbacks(None) == []
    assert checked_callbacks(print) == [print]
    for bad in ("text", ["text"]):
        with pytest.raises(ConfigurationError, match="callbacks must be"):
            checked_callbacks(bad)
