"""scikit-learn's own contract, whole: no check is excused and none is expected to fail."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from sodgp import DeepGPRegressor

# Deterministic seeds come from the checks themselves; few samples and steps keep a hundred fits quick.
SMALL = {"subset_size": None, "n_samples": 3, "n_predict_samples": 10, "max_iter": 60, "learning_rate": 0.05}
ESTIMATORS = [
    DeepGPRegressor(n_layers=2, **SMALL),
    DeepGPRegressor(n_layers=1, **SMALL),
    DeepGPRegressor(inference="dsvi", n_layers=1, **SMALL),
    DeepGPRegressor(inference="mean_field", n_layers=1, max_iter=60, learning_rate=0.05),
    DeepGPRegressor(inference="sghmc", n_layers=1, max_iter=60, n_posterior_samples=10, thinning=2),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_check_passes(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: f"{e.inference}-{e.n_layers}")
def test_tags_excuse_nothing(estimator):
    tags = estimator.__sklearn_tags__()
    assert not tags.regressor_tags.poor_score
    assert not tags.non_deterministic
    assert not tags.no_validation
