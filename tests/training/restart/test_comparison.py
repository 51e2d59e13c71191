"""Bounds to compare models by: random rows, as many as a step sees, and the same numbers every time."""

from dataclasses import replace

import pytest
import torch

from sodgp.inference.contract import TrainingSet, rest_of
from sodgp.inference.sod import SoD
from sodgp.model.architecture import Architecture
from sodgp.training.restart.comparison import bound_of

METHOD = SoD()
# Sorted, as a table may be: quiet at first, then far from what the model says.
X = torch.linspace(-1, 1, 4000, dtype=torch.float64)[:, None]
Y = torch.where(X < 0, 0.0, 5.0 * X)
DATA = TrainingSet(X[::400], Y[::400], X, Y)
MODEL = METHOD.build(Architecture(1, 1, 10, []), DATA, torch.Generator().manual_seed(0))


def found(batch_rows, **options):
    return bound_of(MODEL, METHOD, DATA, None, batch_rows=batch_rows, **{"n_samples": 3, "seed": 0, **options})


def test_a_part_of_sorted_rows_speaks_for_all():
    full = found(4000)
    assert found(10) == pytest.approx(full, rel=0.1)
    half = replace(DATA, X_r=X[:2000], y_r=Y[:2000])
    # What the first 2,000 rows alone would say.
    assert bound_of(MODEL, METHOD, half, None, batch_rows=10, n_samples=3, seed=0) > 0.5 * full


def test_rows_are_those_of_a_step_where_that_sees_more():
    assert found(10) == found(2000) != found(3000) != found(4000)
    assert found(4000) == found(5000)


def test_the_seed_fixes_rows_and_draws():
    assert found(10) == found(10) != found(10, seed=1)


def test_precisions_follow_their_rows():
    seen = []

    class Noted(SoD):
        def terms(self, model, batch, draws):
            seen.append(batch)
            return {"rest": torch.zeros(())}

    known = replace(DATA, precision_r=X.exp())
    bound_of(MODEL, Noted(), known, None, batch_rows=10, n_samples=3, seed=0)
    assert seen[0].X_b.shape == (1, 2000, 1)
    assert seen[0].scale == 2.0
    assert torch.equal(seen[0].precision_b, seen[0].X_b.exp())


def test_other_subsets_are_compared_at_the_same_rows():
    seen = []

    class Noted(SoD):
        def terms(self, model, batch, draws):
            seen.append(set(batch.X_b.flatten().tolist()))
            return {"rest": torch.zeros(())}

    subsets = [torch.arange(start, 4000, 400) for start in (0, 7)]
    for chosen in subsets:
        rest = rest_of(4000, chosen)
        data = TrainingSet(X[chosen], Y[chosen], X[rest], Y[rest])
        bound_of(MODEL, Noted(), data, chosen, batch_rows=10, n_samples=3, seed=0)
        assert len(seen[-1]) == 2000
        assert not seen[-1] & set(X[chosen].flatten().tolist())
    # All but those that one of them has in its subset.
    assert len(seen[0] & seen[1]) >= 1980


def test_no_rows_beside_the_subset():
    alone = replace(DATA, X_r=X[:0], y_r=Y[:0])
    assert bound_of(MODEL, METHOD, alone, None, batch_rows=0, n_samples=3, seed=0) < 0.0
