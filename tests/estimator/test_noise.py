"""Likelihoods whose noise varies, and the predictive objective, through the estimator."""

import numpy as np
import pytest

from sodgp import DSVI, SGHMC, DeepGPRegressor, SoD
from sodgp.errors import ConfigurationError
from sodgp.estimator.describe import noise_std
from sodgp.estimator.many import fit_replicates

VARYING = ["heteroscedastic", "heavy_tailed"]


def test_noise_that_grows_is_found():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(300, 1))
    size = 0.05 + 0.5 * (X[:, 0] > 0)
    y = np.sin(3 * X[:, 0]) + size * rng.normal(size=300)
    grid = np.array([[-0.7], [-0.4], [0.4], [0.7]])
    options = {"n_layers": 1, "max_iter": 250, "subset_size": 40, "random_state": 0}
    model = DeepGPRegressor(likelihood="heteroscedastic", **options).fit(X, y)
    dist, latent = model.predict_distribution(grid), model.predict_distribution(grid, latent=True)
    noise = np.sqrt(dist.variance - latent.variance)
    assert (noise[:2] < 0.12).all()
    assert (noise[2:] > 0.35).all()
    plain = DeepGPRegressor(**options).fit(X, y)
    held_out = rng.uniform(-1, 1, size=(300, 1))
    truth = np.sin(3 * held_out[:, 0]) + (0.05 + 0.5 * (held_out[:, 0] > 0)) * rng.normal(size=300)
    scores = [-m.predict_distribution(held_out).log_prob(truth).mean() for m in (model, plain)]
    assert scores[0] < scores[1] - 0.2


def test_predictions_have_the_distribution_of_training():
    """Every component of f with every level, however many samples: mean, variance and covariance agree."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, size=(60, 1))
    y = np.sin(3 * X[:, 0]) + np.where(rng.uniform(size=60) < 0.2, 1.0, 0.05) * rng.normal(size=60)
    options = {"likelihood": "heavy_tailed", "max_iter": 60, "subset_size": 15, "random_state": 0}
    model = DeepGPRegressor(n_layers=1, **options).fit(X, y)
    expected_noise = np.square(noise_std(model)).item()
    latent = model.predict_distribution(X[:7], latent=True)
    expected = latent.variance + expected_noise
    for count in (1, 5, 50):
        observed = model.set_params(n_predict_samples=count).predict_distribution(X[:7])
        assert observed.n_components == 8
        np.testing.assert_allclose(observed.variance, expected, rtol=1e-10)
    _, covariance = model.predict(X[:7], return_cov=True)
    np.testing.assert_allclose(np.diagonal(covariance), expected, rtol=1e-6)
    # Drawn observations: their noise has the same variance, and each row takes its own level.
    spread = model.sample_y(X[:2], 4000).var(1)
    np.testing.assert_allclose(spread, expected[:2], rtol=0.25)
    deep = DeepGPRegressor(n_layers=2, n_predict_samples=6, **options).fit(X, y)
    assert deep.predict_distribution(X[:3]).n_components == 48
    assert deep.predict_distribution(X[:3], latent=True).n_components == 6


def test_the_noise_of_heavy_tails_is_the_mean_over_the_levels():
    rng = np.random.default_rng(4)
    X, y = rng.uniform(-1, 1, size=(40, 1)), rng.standard_t(2, size=40)
    model = DeepGPRegressor(likelihood="heavy_tailed", n_layers=1, max_iter=30, random_state=0).fit(X, y)
    likelihood = model.model_.likelihood
    levels = (likelihood.noise_variance.squeeze() * likelihood.levels().flatten()).detach().numpy()
    assert noise_std(model) == pytest.approx([np.std(y) * levels.mean() ** 0.5])


def test_outliers_do_less_harm():
    rng = np.random.default_rng(1)

    def rows(count):
        X = rng.uniform(-1, 1, size=(count, 1))
        far = rng.uniform(size=count) < 0.1
        return X, np.sin(3 * X[:, 0]) + np.where(far, 2.0, 0.05) * rng.normal(size=count)

    (X, y), (X_new, y_new) = rows(200), rows(500)
    options = {"n_layers": 1, "max_iter": 250, "subset_size": 40, "random_state": 0}
    heavy, plain = (DeepGPRegressor(likelihood=name, **options).fit(X, y) for name in ("heavy_tailed", "gaussian"))
    error, density = zip(
        *(
            (
                np.abs(model.predict(X_new) - np.sin(3 * X_new[:, 0])).max(),
                model.predict_distribution(X_new).log_prob(y_new).mean(),
            )
            for model in (heavy, plain)
        ),
        strict=True,
    )
    assert error[0] < 0.5 * error[1]
    assert density[0] > density[1] + 0.5


@pytest.mark.parametrize("likelihood", VARYING)
@pytest.mark.parametrize("objective", ["bound", "predictive"])
def test_the_whole_estimator(tmp_path, likelihood, objective):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(40, 2)), rng.normal(size=(40, 2))
    inference = SoD(objective=objective)
    model = DeepGPRegressor(likelihood=likelihood, inference=inference, max_iter=30, random_state=0).fit(X, y)
    assert model.history_.terms["kl_noise"][-1] <= 0
    path = tmp_path / "m.sodgp"
    model.save(path)
    again = DeepGPRegressor.load(path)
    np.testing.assert_allclose(again.predict(X, return_std=True), model.predict(X, return_std=True), rtol=1e-12)
    # A row's prediction does not depend on other rows.
    np.testing.assert_allclose(model.predict(X[3:4], return_std=True)[1][0], model.predict(X, return_std=True)[1][3])
    assert model.sample_y(X[:5], 3).shape == (5, 2, 3)
    _, covariance = model.predict(X[:5], return_cov=True)
    assert np.linalg.eigvalsh(covariance).min() > 0


@pytest.mark.parametrize("likelihood", VARYING)
def test_replicates_are_the_single_fits(likelihood):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 2))
    data = [(X, rng.normal(size=30)) for _ in range(2)]
    options = {"likelihood": likelihood, "inference": SoD(objective="predictive"), "max_iter": 15, "subset_size": 8}
    alone = [DeepGPRegressor(random_state=s, **options).fit(*xy) for s, xy in enumerate(data)]
    together = fit_replicates([DeepGPRegressor(random_state=s, **options) for s in range(2)], data)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(other.predict(X, return_std=True), one.predict(X, return_std=True), rtol=1e-8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"likelihood": "loud"}, "likelihood='loud'"),
        ({"likelihood": "heteroscedastic", "inference": SoD(tie_label_noise=False)}, "tie_label_noise"),
        ({"likelihood": "heteroscedastic", "inference": DSVI()}, "one noise variance for all rows"),
        ({"likelihood": "heavy_tailed", "inference": SoD(tie_label_noise=False)}, "cannot be combined with"),
    ],
)
def test_likelihoods_that_cannot_be_used(options, message):
    with pytest.raises(ConfigurationError, match=message):
        DeepGPRegressor(max_iter=20, **options).fit(np.zeros((4, 1)), np.arange(4.0))


def test_an_objective_is_chosen_only_where_a_method_has_several():
    with pytest.raises(ConfigurationError, match="no parameter objective"):
        SGHMC().set_params(objective="predictive")
