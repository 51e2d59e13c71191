"""The same folds for all contestants."""

from __future__ import annotations

import numpy as np
import pytest

from sodgp import DeepGPClassifier, DeepGPRegressor
from sodgp.errors import InputError
from sodgp.evaluation.comparison import compare

pd = pytest.importorskip("pandas")
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"a": RNG.normal(size=40), "city": RNG.choice(["x", "y"], 40)})
Y = TABLE["a"] + 2.0 * (TABLE["city"] == "x") + 0.1 * RNG.normal(size=40)
QUICK = {"max_iter": 5, "subset_size": 10, "n_predict_samples": 3, "random_state": 0}


def test_everybody_predicts_the_same_rows():
    found = compare(DeepGPRegressor(**QUICK), TABLE, Y.rename("load"), cv=2)
    assert list(found.contestants) == ["one layer", "default", "linear", "boosting", "without inputs"]
    for judged in found.contestants.values():
        np.testing.assert_array_equal(judged.evaluation.y[:, 0], Y)
        assert judged.evaluation.targets == ("load",)
    rmse = {name: j.evaluation.scores(n_bootstrap=0)["rmse"].value for name, j in found.contestants.items()}
    assert rmse["linear"] < 0.3 < rmse["without inputs"]


def test_classes_and_one_layer():
    said = []
    labels = np.where(Y > 1, "b", "a")
    found = compare(DeepGPClassifier(n_layers=1, **QUICK), TABLE, labels, cv=2, begin=said.append)
    assert list(found.contestants) == ["default", "linear", "boosting", "without inputs"]
    assert said[0] == "default, fold 1 of 2"
    assert found.scores[0] == "log_loss"


def test_gaps_in_the_target_are_refused():
    with pytest.raises(InputError, match="finite numbers"):
        compare(DeepGPRegressor(**QUICK), TABLE, Y.where(Y > 0), cv=2)
