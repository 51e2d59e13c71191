"""Fits in scaled units."""

import pytest
import torch

from sodgp.errors import NumericalError
from sodgp.inference.contract import TrainingSet
from sodgp.inference.sod import SoD
from sodgp.model.architecture import Architecture
from sodgp.training.run import Problem, Settings, fit

X = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]


def problem(seed):
    return Problem(Architecture(1, 1, 5, []), TrainingSet(X[::4], X[::4].sign(), X[1::4], X[1::4].sign()), seed=seed)


def settings(**changes):
    options = {"batch_rows": 3, "n_samples": 5, "learning_rate": 0.03, "schedule": "cosine", **changes}
    return Settings(10, device=torch.device("cpu"), **options)


def test_problems_in_one_program_get_the_results_of_single_fits():
    pair = fit(SoD(), [problem(0), problem(1)], settings(compares=True))
    for seed, ours in enumerate(pair):
        (alone,) = fit(SoD(), [problem(seed)], settings(compares=True))
        assert ours.final_bound == pytest.approx(alone.final_bound, rel=1e-8)
        torch.testing.assert_close(ours.model.last.q_mean, alone.model.last.q_mean, rtol=1e-8, atol=1e-10)
        assert not ours.model.training
        assert not any(p.requires_grad for p in ours.model.parameters())


def test_models_that_are_not_compared_have_no_final_bound():
    assert fit(SoD(), [problem(0)], settings())[0].final_bound is None


def test_a_failed_fit_hands_its_models_over_with_the_error(monkeypatch):
    def fail(*args, **options):
        raise NumericalError("the bound is not finite.")

    monkeypatch.setattr("sodgp.training.run.train", fail)
    with pytest.raises(NumericalError) as caught:
        fit(SoD(), [problem(0), problem(1)], settings())
    assert [result.history.iteration for result in caught.value.kept] == [[], []]
