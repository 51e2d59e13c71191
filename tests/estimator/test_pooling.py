"""Predictions of members as those of their mixture."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest

from sodgp import DeepGPRegressor, SoD
from sodgp.errors import (
    ConfigurationError,
    NumericalError,
)
from sodgp.estimator.describe import describe
from sodgp.estimator.pooling import pooled_covariance, pooled_draws
from sodgp.predictive.mixture import GaussianMixture

RNG = np.random.default_rng(0)


X = RNG.uniform(-1, 1, (40, 2))


Y = np.sign(X[:, 0]) + 0.1 * RNG.normal(size=40)


NEW = RNG.uniform(-1, 1, (7, 2))


def make(**options) -> DeepGPRegressor:
    return DeepGPRegressor().set_params(
        **{"n_layers": 2, "subset_size": 8, "max_iter": 10, "random_state": 0, **options}
    )


@pytest.fixture(scope="module")
def three() -> DeepGPRegressor:
    return make(n_members=3).fit(X, Y)


@pytest.fixture(scope="module")
def two_targets() -> DeepGPRegressor:
    return make(n_members=2).fit(X, np.column_stack([Y, X.sum(1)]))


def with_spread(model: DeepGPRegressor, spread: float | None) -> DeepGPRegressor:
    return copy.copy(model).set_params(inference__member_spread=spread)


@pytest.mark.parametrize(("spread", "factor"), [(1.0, 1.0), (0.5, 0.5), (None, SoD().usual_spread(3))])
def test_predictions_are_those_of_the_mixture(three, spread, factor):
    model = with_spread(three, spread)
    mixture = GaussianMixture.pool([m.predict_distribution(NEW).around_mean(factor) for m in three.members_])
    together = model.predict_distribution(NEW)
    assert together.n_components == mixture.n_components == 3 * 50
    np.testing.assert_allclose(together.log_prob(Y[:7]), mixture.log_prob(Y[:7]))
    mean, std = model.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, mixture.mean)
    np.testing.assert_allclose(std, mixture.std)
    np.testing.assert_allclose(model.predict(NEW), mixture.mean)
    assert model.predict_distribution(NEW, latent=True).std.max() < std.max()


@pytest.mark.parametrize("ask", [{}, {"latent": True}])
def test_the_spread_is_of_each_member_around_its_mean(three, ask):
    """The law of total variance, with the part within the members shrunk and the part between them left."""
    each = [member.predict_distribution(NEW, **ask) for member in three.members_]
    within = np.mean([one.variance for one in each], axis=0)
    between = np.var([one.mean for one in each], axis=0)
    for spread in (0.1, 0.8, 1.0, 2.0):
        drawn_in = with_spread(three, spread).predict_distribution(NEW, **ask)
        np.testing.assert_allclose(drawn_in.variance, spread**2 * within + between)
        np.testing.assert_allclose(drawn_in.mean, three.predict(NEW))


def test_the_spread_concerns_members_only():
    one = make(max_iter=3, n_members=1).fit(X, Y)
    mean, std = one.predict(NEW, return_std=True)
    np.testing.assert_array_equal(
        one.set_params(inference__member_spread=0.2).predict(NEW, return_std=True), (mean, std)
    )
    assert describe(one)["member_spread"] == 1.0


@pytest.mark.parametrize("spread", [0.0, -1.0, 0.01, 11.0, np.nan, np.inf])
def test_a_spread_that_is_none(three, spread):
    with pytest.raises(ConfigurationError, match="member_spread"):
        with_spread(three, spread)


def test_a_mixture_is_never_worse_than_its_members_are_on_average(three):
    """By the convexity of both scores: what the option is for."""
    truth = np.sign(NEW[:, 0])
    each = [member.predict_distribution(NEW) for member in three.members_]
    together = with_spread(three, 1.0).predict_distribution(NEW)
    assert together.log_prob(truth).mean() >= np.mean([one.log_prob(truth).mean() for one in each])
    assert together.crps(truth).mean() <= np.mean([one.crps(truth).mean() for one in each])


@pytest.mark.parametrize("name", ["three", "two_targets"])
def test_joint_covariances_add_up_within_and_between_members(name, request):
    model = with_spread(request.getfixturevalue(name), 0.7)
    parts = [member.predict(NEW, return_cov=True) for member in model.members_]
    mean, covariance = model.predict(NEW, return_cov=True)
    means, within = (np.stack(values) for values in zip(*parts, strict=True))
    np.testing.assert_allclose(mean, means.mean(0))
    if means.ndim == 2:
        means, within, covariance = means[..., None], within[:, None], covariance[None]
    for output in range(means.shape[-1]):
        between = np.cov(means[..., output].T, bias=True)
        np.testing.assert_allclose(covariance[output], 0.7**2 * within[:, output].mean(0) + between, atol=1e-12)


@pytest.mark.parametrize("latent", [False, True])
@pytest.mark.parametrize("spread", [1.0, 0.4])
def test_draws_have_the_moments_of_the_mixture(three, spread, latent):
    model, count = with_spread(three, spread), 3000
    draws = model.sample_y(NEW, n_samples=count, random_state=1, latent=latent)
    mixture = model.predict_distribution(NEW, latent=latent)
    assert draws.shape == (7, count)
    np.testing.assert_allclose(draws.mean(1), mixture.mean, atol=5 * mixture.std.max() / np.sqrt(count))
    np.testing.assert_allclose(draws.std(1), mixture.std, rtol=0.1)


def test_a_seed_gives_the_same_draws(three):
    draws = [three.sample_y(NEW, n_samples=5, random_state=seed) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])


def test_draws_come_from_all_members():
    def far(offset):
        return lambda count, seed: np.full((len(NEW), count), offset)

    draws = pooled_draws([far(0.0), far(1.0), far(2.0)], [], 3000, 0)
    np.testing.assert_allclose([(draws[0] == k).mean() for k in range(3)], 1 / 3, atol=0.05)
    assert (draws == draws[:1]).all(), "rows of one draw belong to one member"


def test_covariances_of_members_that_disagree():
    parts = [(np.array([[0.0, 1.0]]), np.ones((2, 1, 1))), (np.array([[2.0, 1.0]]), np.ones((2, 1, 1)))]
    mean, covariance = pooled_covariance(parts)
    assert mean.tolist() == [[1.0, 1.0]]
    assert covariance.ravel().tolist() == [2.0, 1.0]


def moved(model: DeepGPRegressor, *means: float) -> DeepGPRegressor:
    """The same members with other means of their targets."""
    members = []
    for member, mean in zip(model.fitted_.members, means, strict=True):
        scaler = copy.copy(member.y_scaler)
        scaler.mean_ = np.array([mean])
        members.append(replace(member, y_scaler=scaler))
    other = copy.copy(model)
    other.fitted_ = replace(members[0], members=tuple(members))
    return other


def test_members_too_far_apart_are_an_error_not_infinite(three):
    model, beyond = moved(three, 1e200, -1e200, 1e200), moved(three, 1.2e308, 1.2e308, 1.2e308)
    assert np.isfinite(model.predict(NEW)).all()
    for ask in (
        lambda: beyond.predict(NEW),
        lambda: model.predict(NEW, return_std=True),
        lambda: model.predict(NEW, return_cov=True),
        lambda: model.predict_distribution(NEW),
    ):
        with pytest.raises(NumericalError, match="not finite"):
            ask()
