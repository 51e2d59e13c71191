"""What classifiers share with regressors: checkpoints, restarts, replicates, held-out rows, processes."""

from __future__ import annotations

import numpy as np
import pytest

from sodgp import Checkpoint, DeepGPClassifier
from sodgp.errors import ResourceError
from sodgp.estimator.many import fit_replicates
from sodgp.training.callbacks import EarlyStopping

SMALL = {"n_layers": 2, "subset_size": 8, "max_iter": 12, "n_samples": 2, "n_predict_samples": 4}
X = np.random.default_rng(0).normal(size=(60, 2))
TWO, THREE = X[:, 0] > 0, np.digitize(X[:, 0], [-0.5, 0.5])


def classifier(**options):
    return DeepGPClassifier(**SMALL | {"random_state": 0} | options)


@pytest.mark.parametrize("likelihood", [None, "dirichlet"])
@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
def test_a_fit_continues_from_a_checkpoint_bit_for_bit(likelihood, y, tmp_path):
    whole = classifier(likelihood=likelihood).fit(X, y)
    options = {"likelihood": likelihood, "checkpoint": Checkpoint(tmp_path / "c", every=3)}
    again = classifier(**options).fit(X, y)
    resumed = classifier(**options).fit(X, y, resume=True)
    for model in (again, resumed):
        np.testing.assert_array_equal(model.predict_proba(X), whole.predict_proba(X))


def test_held_out_rows_are_scored_by_the_probability_of_their_labels():
    model = classifier(validation_fraction=0.25, max_iter=50, callbacks=[EarlyStopping("validation")]).fit(X, TWO)
    rows = model.validation_indices_
    assert model.history_.validation[-1] == pytest.approx(
        model.predict_distribution(X[rows]).log_prob(TWO[rows]).mean()
    )


def test_restarts_replicates_and_processes():
    best = classifier(n_restarts=2).fit(X, THREE)
    assert len(best.restart_bounds_) == 2
    pair = [classifier(random_state=seed) for seed in (0, 1)]
    fit_replicates(pair, [(X, TWO), (X, TWO)])
    for model, seed in zip(pair, (0, 1), strict=True):
        alone = classifier(random_state=seed).fit(X, TWO)
        np.testing.assert_allclose(model.predict_proba(X), alone.predict_proba(X), rtol=1e-8)


def test_distributions_that_do_not_fit_into_memory(monkeypatch):
    model = classifier(max_iter=2).fit(X, THREE)
    monkeypatch.setattr("sodgp.system.memory.available_memory", lambda device=None: 10**5)
    with pytest.raises(ResourceError, match="a mixture of"):
        model.predict_distribution(X)
