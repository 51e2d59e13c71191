"""A small version of the run that kills training; the long one is committed in benchmarks/results."""

import random
import time

import pytest
from benchmarks.reliability import kill

SMALL = {"max_iter": 40, "n_posterior_samples": 8, "checkpoint_every": 3}


def test_a_sampler_that_is_killed_ends_with_the_same_bits():
    began = time.perf_counter()
    expected = kill.digest(kill.estimator("sghmc", None, **SMALL).fit(*kill.data()))
    seconds, rng = time.perf_counter() - began, random.Random(0)
    for _ in range(5):  # one that was over before it was killed shows nothing
        done = kill.kill_once("sghmc", (seconds, expected), rng, SMALL, victim="spawn", resumed="spawn")
        if done is not None:
            break
        seconds /= 2
    assert done is not None
    assert done.same_bits


def test_a_checkpoint_that_is_not_whole_would_be_noticed(tmp_path):
    model = kill.estimator("svgp", tmp_path, max_iter=4, checkpoint_every=2).fit(*kill.data())
    first = kill.digest(model)
    assert [entry["iteration"] for entry in kill.whole_checkpoints(str(tmp_path))] == [4, 4]
    model.model_.likelihood.raw_noise.data += 1e-12
    assert kill.digest(model) != first
    newest = sorted(tmp_path.iterdir())[-1]
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.raises(ValueError, match="damaged"):
        kill.whole_checkpoints(str(tmp_path))


def test_the_table_counts():
    kills = [kill.Kill("a", 1.0, 2.0, [], "fork", True), kill.Kill("a", 1.0, 2.0, [{"file": "x"}], "fork", False)]
    assert kill.table(kills).splitlines()[-1] == "| all | 2 | 1 | 1 | 1 |"
