"""The fitted state: one frozen value, what it shows, and what a fit that fails leaves behind."""

import dataclasses

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sodgp import DSVI, SGHMC, DeepGPRegressor, SoD
from sodgp.errors import ConfigurationError, InputError, NumericalError
from sodgp.estimator.fitted import FittedAttributes
from sodgp.likelihoods import Gaussian, HeavyTailed
from sodgp.likelihoods.known_noise import KnownNoise

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=40)
MANY = RNG.normal(size=(500, 2))
ATTRIBUTES = [*(name for name in vars(FittedAttributes) if name.endswith("_") and not name.startswith("_"))]
ATTRIBUTES += ["members_", "outlier_probability_"]


def make(**options):
    return DeepGPRegressor().set_params(**{"subset_size": 8, "max_iter": 3, "random_state": 0, **options})


def test_before_a_fit_there_is_nothing():
    model = make()
    assert not [name for name in ATTRIBUTES if hasattr(model, name)]
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_a_fit_sets_one_attribute_which_is_frozen():
    model = make().fit(X, Y)
    assert set(vars(model)) - set(model.get_params(deep=False)) == {"fitted_"}
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.fitted_.predict_seed = 3
    with pytest.raises(AttributeError):
        model.model_ = None
    assert not hasattr(clone(model), "fitted_")


def test_what_only_some_fits_have():
    plain = make().fit(X, Y)
    missing = {name for name in ATTRIBUTES if not hasattr(plain, name)}
    assert missing == {
        "calibration_",
        "feature_names_in_",
        "target_names_",
        "n_layers_reason_",
        "subset_size_reason_",
        "validation_indices_",
        "diagnostics_",
        "restart_bounds_",
        "members_",
    }
    assert hasattr(make(subset_size="auto").fit(X, Y), "subset_size_reason_")
    assert len(make(validation_fraction=0.25).fit(X, Y).validation_indices_) == 10
    sampled = make(inference=SGHMC(n_posterior_samples=4, thinning=1)).fit(X, Y)
    assert hasattr(sampled, "diagnostics_")
    assert not hasattr(sampled, "subset_indices_")


@pytest.mark.parametrize(
    ("rows", "options", "inference", "objective"),
    [
        (MANY[:499], {}, SoD(separate_kernels=True, objective="collapsed"), "collapsed"),
        (MANY, {}, SoD(separate_kernels=True, objective="leave_one_out"), "leave_one_out"),
        (MANY, {"n_layers": 1}, SoD(separate_kernels=False, objective="collapsed"), "collapsed"),
        (
            MANY[:499],
            {"inference__tie_label_noise": False},
            SoD(tie_label_noise=False, separate_kernels=False, objective="bound"),
            "bound",
        ),
        (
            MANY,
            {"inference__tie_label_noise": False},
            SoD(tie_label_noise=False, separate_kernels=True, objective="predictive"),
            "predictive",
        ),
        (MANY, {"inference__objective": "bound"}, SoD(separate_kernels=True, objective="bound"), "bound"),
        (
            MANY,
            {"inference__parameterization": "paper"},
            SoD(parameterization="paper", separate_kernels=False, objective="predictive"),
            "predictive",
        ),
        (MANY, {"inference": "dsvi"}, DSVI(), "bound"),
        (X, {"inference": DSVI(objective="predictive")}, DSVI(objective="predictive"), "predictive"),
    ],
)
@pytest.mark.filterwarnings("ignore::sodgp.errors.NumericalWarning")
def test_what_is_decided_from_the_data_is_visible(rows, options, inference, objective):
    model = make(max_iter=1, **options).fit(rows, rows[:, 0])
    assert model.inference_ == inference
    assert model.objective_ == objective
    assert model.subset_size_ == 8
    assert model.n_members_ == 1
    is_predictive = objective in ("predictive", "leave_one_out")
    assert model.outlier_probability_ == (1.0 / (len(rows) + 1) if is_predictive else 0.0)


def test_the_likelihood_that_was_used_is_visible():
    assert make().fit(X, Y).likelihood_ == Gaussian()
    assert make(likelihood="heavy_tailed").fit(X, Y).likelihood_ == HeavyTailed()
    known = make(likelihood__outlier_probability=0.1).fit(X, Y, noise_variance=0.1).likelihood_
    assert isinstance(known, KnownNoise)
    assert known.outlier_probability == 0.1


def test_options_of_predictions_need_no_new_fit():
    model = make(n_members=2).fit(X, Y)
    before = model.predict(X, return_std=True)[1]
    wide = model.set_params(likelihood__outlier_probability=0.3).predict(X, return_std=True)[1]
    assert (wide > before).all()
    assert model.outlier_probability_ == 0.3
    model.set_params(likelihood__outlier_probability=None, inference__member_spread=0.3)
    assert (model.predict(X, return_std=True)[1] < before).all()
    assert model.members_[1].outlier_probability_ == 0.0


@pytest.mark.parametrize("options", [{}, {"n_members": 2}, {"n_restarts": 2}])
def test_a_fit_that_is_refused_leaves_an_earlier_one_whole(options):
    model = make(**options).fit(X, Y)
    state, before = model.fitted_, model.predict(X)
    with pytest.raises(InputError):
        model.fit(X, np.full(40, np.nan))
    with pytest.raises(ConfigurationError):
        model.set_params(n_layers=0).fit(X, Y)
    assert model.fitted_ is state
    np.testing.assert_array_equal(model.predict(X), before)


def test_a_fit_that_ran_away_leaves_nothing_of_an_earlier_one(monkeypatch):
    def fails(*arguments):
        raise NumericalError("away.")

    for options in ({}, {"n_members": 2}, {"n_restarts": 2}):
        model = make(**options).fit(X, Y)
        with monkeypatch.context() as patch:
            patch.setattr("sodgp.estimator.many.fit", fails)
            with pytest.raises(NumericalError):
                model.fit(X, Y)
        assert not hasattr(model, "fitted_")


@pytest.mark.parametrize(("options", "is_kept"), [({}, True), ({"n_members": 2}, True), ({"n_restarts": 2}, False)])
def test_what_is_left_of_a_fit_that_ran_away_takes_the_place_of_an_earlier_one(options, is_kept):
    model = make(**options).fit(100.0 * X, 100.0 * Y)
    earlier = model.fitted_
    model.set_params(max_iter=400, learning_rate=1e6, dtype="float32")
    with pytest.raises(NumericalError, match="last good parameters"):
        model.fit(X, Y)
    assert hasattr(model, "fitted_") == is_kept
    if is_kept:
        assert model.fitted_ is not earlier
        assert model.n_members_ == options.get("n_members", 1)
        assert np.abs(model.predict(X)).max() < 10.0
