"""The loop of benchmarks.botorch, one seed of it, and its page."""

import argparse
import json
import statistics
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("botorch")

from benchmarks.botorch.__main__ import report
from benchmarks.botorch.loop import PROBLEMS, bayesian_search, deep, random_search, start

from sodgp import DeepGPRegressor

RESULT = Path(__file__).parents[2] / "benchmarks" / "results" / "botorch.json"


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.OptimizationWarning")
def test_a_step_is_climbed_in_fewer_evaluations_than_at_random():
    quick = DeepGPRegressor(max_iter=150, n_samples=4, n_predict_samples=8, random_state=0)
    problem, seed = PROBLEMS["step"], 3
    found = bayesian_search(problem, seed, partial(deep, estimator=quick), n_initial=6, budget=15)
    at_random = random_search(problem, seed, n_initial=6, budget=1000)
    assert found.evaluations is not None
    assert found.evaluations < at_random.evaluations / 2
    assert problem.target <= found.best <= problem.best


def test_the_optima_are_where_the_problems_say():
    for problem in PROBLEMS.values():
        best = random_search(problem, 1, n_initial=1, budget=100_000).best
        assert problem.target < best <= problem.best + 1e-6
        assert best == pytest.approx(problem.best, abs=0.01)


def test_searches_of_one_seed_begin_alike():
    first, _ = start(5, 6)
    again, _ = start(5, 6)
    assert bool((first == again).all())


def test_the_committed_result_says_what_the_docs_say():
    cells = json.loads(RESULT.read_text())
    page = report(cells, argparse.Namespace(seeds=10, initial=6, budget=60))
    assert page == RESULT.with_suffix(".md").read_text()
    for problem in PROBLEMS:
        by_model, at_random = (
            statistics.median(cells[f"{problem} / {search} / {seed}"]["evaluations"] for seed in range(10))
            for search in ("deep GP", "random")
        )
        assert by_model < at_random / 3
