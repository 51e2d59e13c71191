"""The classifier from labels to probabilities, with scikit-learn's tools around it."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight

from sodgp import DSVI, SGHMC, DeepGPClassifier, DeepGPRegressor
from sodgp.errors import ConfigurationError, InputError, InputTypeError, ModelFileError
from sodgp.estimator.describe import describe
from sodgp.estimator.files.records import from_record, load_any, to_record
from sodgp.likelihoods import Bernoulli, Dirichlet

SMALL = {"n_layers": 2, "subset_size": 8, "max_iter": 25, "n_samples": 2, "n_predict_samples": 4, "learning_rate": 0.1}
rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(60, 2))
TWO = np.where(X[:, 0] + 0.2 * rng.normal(size=60) > 0, "right", "left")
THREE = np.digitize(X[:, 0] + 0.2 * rng.normal(size=60), [-0.7, 0.7]) + 10


def classifier(**options):
    return DeepGPClassifier(**SMALL | {"random_state": 0} | options)


@pytest.fixture(scope="module")
def two():
    return classifier(max_iter=40).fit(X, TWO)


@pytest.fixture(scope="module")
def three():
    return classifier(max_iter=40).fit(X, THREE)


@pytest.mark.parametrize("likelihood", [None, "bernoulli", Bernoulli(link="probit"), "softmax", "dirichlet"])
def test_two_classes(likelihood):
    model = classifier(likelihood=likelihood, max_iter=40).fit(X, TWO)
    p = model.predict_proba(X)
    assert model.classes_.tolist() == ["left", "right"]
    assert log_loss(TWO, p) < 0.35
    np.testing.assert_allclose(p.sum(1), 1.0)
    np.testing.assert_array_equal(model.predict(X), model.classes_[p.argmax(1)])
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), p)
    assert model.score(X, TWO) > 0.9


@pytest.mark.parametrize("likelihood", ["softmax", "dirichlet"])
def test_three_classes(likelihood):
    model = classifier(likelihood=likelihood, max_iter=40).fit(X, THREE)
    assert model.classes_.tolist() == [10, 11, 12]
    assert model.predict_proba(X).shape == (60, 3)
    assert model.score(X, THREE) > 0.8


def test_the_number_of_classes_decides_the_likelihood(two, three):
    assert (two.likelihood_.name, three.likelihood_.name) == ("bernoulli", "softmax")
    assert two.likelihood is None


def test_probabilities_have_their_own_uncertainty(two, three):
    for model in (two, three):
        dist = model.predict_distribution(X)
        np.testing.assert_allclose(dist.mean, model.predict_proba(X), rtol=1e-9)
        np.testing.assert_array_equal(dist.classes, model.classes_)
        assert (dist.std > 0).all()
    far, near = two.predict_distribution([[0.0, 40.0]]), two.predict_distribution([[-1.8, 0.0]])
    assert far.std[0, 0] > near.std[0, 0]


def test_the_latent_function(two, three):
    latent = two.predict_distribution(X, latent=True)
    assert latent.mean.shape == latent.variance.shape == (60,)
    # Its sign decides, and draws of it give the probabilities.
    np.testing.assert_array_equal(latent.mean > 0, two.predict_proba(X)[:, 1] > 0.5)
    f = latent.sample(20_000, random_state=0)
    np.testing.assert_allclose((1 / (1 + np.exp(-f))).mean(0), two.predict_proba(X)[:, 1], atol=0.03)
    assert three.predict_distribution(X, latent=True).mean.shape == (60, 3)


@pytest.mark.parametrize(
    "inference", [DSVI(), SGHMC(n_posterior_samples=4, thinning=2, step_size=0.05)], ids=lambda i: i.name
)
def test_other_methods(inference):
    for y in (TWO, THREE):
        model = classifier(inference=inference, max_iter=30, n_samples=10).fit(X, y)
        assert log_loss(y, model.predict_proba(X)) < model.fitted_.columns.class_rows.size * 0.6


def test_methods_that_cannot_say_so():
    with pytest.raises(ConfigurationError, match=r"'mean_field' .* cannot be combined with likelihood='bernoulli'"):
        classifier(inference="mean_field", n_samples=10).fit(X, TWO)
    with pytest.raises(ConfigurationError, match=r"'dsvi' .* cannot be combined with\s+likelihood='dirichlet'"):
        classifier(inference="dsvi", likelihood="dirichlet").fit(X, TWO)


def test_members_are_mixed():
    model = classifier(n_members=2, max_iter=10).fit(X, THREE)
    each = [member.predict_proba(X) for member in model.members_]
    assert np.abs(each[0] - each[1]).max() > 1e-3
    np.testing.assert_allclose(model.predict_proba(X), np.mean(each, axis=0))
    np.testing.assert_allclose(model.predict_distribution(X).mean, np.mean(each, axis=0))
    assert isinstance(model.members_[0], DeepGPClassifier)
    assert describe(model)["member_spread"] == 1.0


@pytest.mark.parametrize(
    "y",
    [TWO, TWO.astype(object), TWO == "left", THREE, THREE.astype(np.uint8), THREE.astype(float)],
    ids=["text", "object", "bool", "int", "uint8", "float"],
)
@pytest.mark.parametrize("likelihood", [None, "dirichlet"])
def test_a_model_is_saved_without_pickle(y, likelihood, tmp_path):
    model = classifier(likelihood=likelihood, max_iter=3).fit(X, y)
    model.save(tmp_path / "m.sodgp")
    again = DeepGPClassifier.load(tmp_path / "m.sodgp")
    assert again.classes_.dtype == model.classes_.dtype or y.dtype.kind == "U"
    np.testing.assert_array_equal(again.classes_, model.classes_)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert isinstance(load_any(tmp_path / "m.sodgp"), DeepGPClassifier)
    with pytest.raises(ModelFileError, match="holds a DeepGPClassifier, not a DeepGPRegressor"):
        DeepGPRegressor.load(tmp_path / "m.sodgp")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": None}, "'classes' is not a dict"),
        ({"classes": {"dtype": "int64", "values": [1, 2], "rows": [3, 3]}}, "'classes' is 2 labels, with 3 outputs"),
        ({"classes": {"dtype": "int64", "values": [1, 3, 2], "rows": [3, 3, 3]}}, "ascending order"),
        ({"classes": {"dtype": "int64", "values": [1, 2, "a"], "rows": [3, 3, 3]}}, "of one type"),
        ({"classes": {"dtype": "int8", "values": [1, 2, 1000], "rows": [3, 3, 3]}}, "too large for int8"),
        ({"classes": {"dtype": "complex128", "values": [1, 2, 3], "rows": [3, 3, 3]}}, "not a set of labels"),
        ({"classes": {"dtype": "int64", "values": [1, 2, 3], "rows": [3, 3]}}, "without rows"),
        ({"classes": {"dtype": "int64", "values": [1, 2, 3], "rows": [3, 3, 0]}}, "from 1 to"),
        ({"likelihood": "gaussian"}, "'likelihood' is of numbers"),
        ({"likelihood": "nothing"}, "'likelihood' is unknown"),
    ],
)
def test_wrong_entries_of_a_file_are_refused(three, changes, message):
    record = to_record(three)
    record.info.update(changes)
    with pytest.raises(ModelFileError, match=message):
        from_record(DeepGPClassifier, record)


def test_copies(two):
    for again in (pickle.loads(pickle.dumps(two)), copy.deepcopy(two)):
        np.testing.assert_array_equal(again.predict_proba(X), two.predict_proba(X))
    assert clone(two).get_params() == two.get_params()


def test_scikit_learns_tools():
    search = GridSearchCV(
        classifier(max_iter=3), {"n_layers": [1, 2], "likelihood": [None, Dirichlet(alpha=0.1)]}, cv=2
    )
    search.fit(X, TWO)
    assert search.best_estimator_.classes_.tolist() == ["left", "right"]
    model = make_pipeline(StandardScaler(), classifier(n_layers=1))
    p = cross_val_predict(model, X, THREE, cv=2, method="predict_proba")
    assert log_loss(THREE, p) < 1.0
    calibrated = CalibratedClassifierCV(classifier(n_layers=1, max_iter=5), cv=2).fit(X, THREE)
    assert calibrated.predict_proba(X).shape == (60, 3)


def test_weights_of_classes_are_those_of_their_rows():
    """Balanced rows pull the probabilities of a rare class up, and the shares that ignore the inputs are equal."""
    few = np.where(np.arange(60) % 6 == 0, "rare", "often")
    plain, balanced = (
        classifier(n_layers=1, max_iter=40).fit(X, few, weight)
        for weight in (None, compute_sample_weight("balanced", few))
    )
    share = [model.predict_proba(X)[:, 1].mean() for model in (plain, balanced)]
    assert share[0] < 0.25 < share[1]
    np.testing.assert_allclose(balanced.fitted_.columns.class_rows, [30.0, 30.0])


def test_arguments_that_are_none_are_refused_by_name():
    with pytest.raises(InputTypeError, match=r"no argument 'class_weight': give sample_weight=.*compute_sample_weight"):
        classifier().fit(X, TWO, class_weight="balanced")
    with pytest.raises(TypeError, match="class_weight"):
        DeepGPClassifier(class_weight="balanced")
    with pytest.raises(InputTypeError, match="'noise_variance': labels have no known noise"):
        classifier().fit(X, TWO, noise_variance=0.1)
    with pytest.raises(InputTypeError, match="'foo': it is unknown"):
        classifier().fit(X, TWO, foo=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"likelihood": "gaussian"}, "likelihood='gaussian' is of numbers, for DeepGPRegressor; here it is one of"),
        ({"likelihood": "poisson"}, "of counts, for DeepGPRegressor"),
        ({"likelihood": "robust"}, "likelihood='robust' is unknown"),
        ({"likelihood": "dirichlet", "validation_fraction": 0.2}, "trained on numbers made of them"),
    ],
)
def test_options_that_cannot_be(options, message):
    with pytest.raises(ConfigurationError, match=message):
        classifier(**options).fit(X, TWO)


def test_too_few_and_too_many_classes():
    with pytest.raises(InputError, match="'bernoulli' is of two classes, and y has 3"):
        classifier(likelihood="bernoulli").fit(X, THREE)
    with pytest.raises(InputError, match="at least two classes"):
        classifier().fit(X, np.zeros(60, dtype=int))


def test_a_warm_start_needs_the_same_classes():
    model = classifier(max_iter=3, warm_start=True).fit(X, THREE)
    model.fit(X[::-1], THREE[::-1])
    with pytest.raises(InputError, match="continues a fit with 3 classes: 10, 11, 12; these data have 2 classes"):
        model.fit(X, TWO)


def test_probabilities_of_a_regressor():
    model = DeepGPRegressor(n_layers=1, max_iter=2).fit(X, X[:, 0])
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="no class probabilities: fit a DeepGPClassifier"):
        model.predict_proba(X)


def test_a_description(two, three):
    about = describe(three)
    assert (about["task"], about["classes"], about["targets"]) == ("classification", [10, 11, 12], ["y"])
    assert about["noise_std"] == {}
    assert describe(two)["outlier_probability"] == 0.0
