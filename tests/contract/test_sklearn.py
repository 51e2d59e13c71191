"""scikit-learn's own contract, whole: no check is excused and none is expected to fail."""

import os
import subprocess
import sys

import pytest
import sklearn
from sklearn.utils.estimator_checks import parametrize_with_checks

from sodgp import SGHMC, DeepGPClassifier, DeepGPRegressor

# A hundred fits each: few steps, which are long, and a subset that some checks' data do not fill.
TINY = {"subset_size": 12, "max_iter": 15, "learning_rate": 0.1, "n_predict_samples": 5}
# A sampler needs a burn-in.
LONGER = {"max_iter": 60, "learning_rate": 0.05}
ESTIMATORS = [
    DeepGPRegressor(n_layers=1, n_samples=2, **TINY),
    DeepGPRegressor(n_layers=2, n_samples=2, **TINY),
    DeepGPRegressor(inference="dsvi", n_samples=2, **TINY),
    DeepGPRegressor(inference="mean_field", **TINY),
    DeepGPRegressor(inference=SGHMC(n_posterior_samples=5, thinning=5, step_size=0.1), n_layers=1, **TINY | LONGER),
    DeepGPRegressor(likelihood="student_t", n_layers=1, n_samples=2, **TINY),
    DeepGPClassifier(n_layers=1, n_samples=2, **TINY),
    DeepGPClassifier(likelihood="dirichlet", n_layers=2, n_samples=2, **TINY),
]


# The subset is chosen at random among the rows, and repeated rows are more to choose from; batches and draws differ
# likewise. tests/theorems/test_weights.py has the equality where the subset is the same.
RANDOM = {"check_sample_weight_equivalence_on_dense_data": "repeated rows are others for the choice of a subset"}
OF_WEIGHTS = (
    "check_sample_weights_pandas_series",
    "check_sample_weights_not_an_array",
    "check_sample_weights_list",
    "check_sample_weights_shape",
    "check_sample_weights_not_overwritten",
    "check_all_zero_sample_weights_error",
)


def expected(estimator):
    refused = estimator.inference == "mean_field"
    return RANDOM | (dict.fromkeys(OF_WEIGHTS, "mean-field refuses weights by name") if refused else {})


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected)
@pytest.mark.filterwarnings("ignore::sodgp.errors.SubsetSizeWarning")
def test_scikit_learn_check_passes(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_tags_excuse_nothing(estimator):
    tags = estimator.__sklearn_tags__()
    assert not (tags.regressor_tags or tags.classifier_tags).poor_score
    assert not tags.non_deterministic
    assert not tags.no_validation
    assert not hasattr(estimator, "_xfail_checks")


def test_the_checks_that_need_scipys_array_api_pass_too():
    """scikit-learn skips them unless SciPy was told at its import, so they run in a process of their own.

    Before version 1.9 it has none for estimators that take NumPy arrays only; the others must pass then too.
    """
    script = (
        "from sklearn.utils.estimator_checks import check_estimator\n"
        "from sodgp import DeepGPRegressor\n"
        f"expected = {RANDOM}\n"
        "model = DeepGPRegressor(n_samples=2, n_predict_samples=5, max_iter=15, learning_rate=0.1)\n"
        "results = check_estimator(model, expected_failed_checks=expected)\n"
        "failed = {r['check_name'] for r in results if r['status'] != 'passed'}\n"
        "print(failed <= expected.keys(), any('array_api' in r['check_name'] for r in results))"
    )
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    there_are_some = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 9)
    assert done.stdout.strip() == f"True {there_are_some}", done.stderr
