"""``fit(X, y, noise_variance=...)``: known noise through the estimator."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sodgp import Checkpoint, DeepGPRegressor, SoD
from sodgp.errors import ConfigurationError, InputError, SodgpError
from sodgp.estimator.many import fit_replicates

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (40, 2))
NOISE = np.where(np.arange(40) % 2, 25.0, 1e-4)
Y = 10 * np.sin(3 * X[:, 0]) + np.sqrt(NOISE) * RNG.standard_normal(40)
OPTIONS = {"max_iter": 80, "n_samples": 3, "n_predict_samples": 8, "random_state": 0, "learning_rate": 0.05}


def test_good_rows_are_believed_and_bad_ones_are_not(tmp_path):
    model = DeepGPRegressor(**OPTIONS).fit(X, Y, noise_variance=NOISE)
    good = NOISE < 1
    error = np.abs(model.predict(X) - 10 * np.sin(3 * X[:, 0]))
    assert error[good].mean() < 0.5
    assert np.abs(model.predict(X) - Y)[~good].mean() > 2.0
    free = DeepGPRegressor(**OPTIONS | {"max_iter": 1}, inference=SoD(objective="bound"))
    free.set_params(inference__separate_kernels=False).fit(X, Y)
    assert model.objective_ == "bound"
    assert model.n_parameters_ == free.n_parameters_ - 1
    # At a new row the noise is the mean of the known ones.
    f, y = (model.predict_distribution(X[:3], latent=latent).variance for latent in (True, False))
    assert_allclose(y - f, NOISE.mean(), rtol=1e-6)
    model.save(tmp_path / "m.sodgp")
    assert_array_equal(DeepGPRegressor.load(tmp_path / "m.sodgp").predict(X), model.predict(X))
    before = model.predict(X)
    model.set_params(warm_start=True, max_iter=1, learning_rate=1e-12).fit(X, Y, noise_variance=NOISE)
    assert_allclose(model.predict(X), before, atol=1e-6)
    model.fit(X[:30], Y[:30], noise_variance=NOISE[:30])
    assert np.corrcoef(model.predict(X), before)[0, 1] > 0.95
    with pytest.raises(ConfigurationError, match="warm_start continues"):
        model.fit(X, Y)


def test_shapes_of_the_noise():
    short = OPTIONS | {"max_iter": 3}
    both = np.stack([Y, -Y], 1)
    one, rows, full = (
        DeepGPRegressor(**short).fit(X, both, noise_variance=noise).predict(X)
        for noise in (0.5, np.full(40, 0.5), np.full((40, 2), 0.5))
    )
    assert_array_equal(one, rows)
    assert_array_equal(one, full)


def test_several_at_once_are_each_alone():
    models = [DeepGPRegressor(**OPTIONS | {"max_iter": 10, "random_state": seed}) for seed in (0, 1)]
    sets = [(X, Y, NOISE), (X, -Y, 2 * NOISE)]
    fit_replicates(models, sets)
    for model, (rows, targets, noise) in zip(models, sets, strict=True):
        alone = DeepGPRegressor(**model.get_params(deep=False)).fit(rows, targets, noise_variance=noise)
        assert_allclose(model.predict(X), alone.predict(X), rtol=1e-5, atol=1e-6)
    restarts = DeepGPRegressor(**OPTIONS | {"max_iter": 3, "n_restarts": 2}).fit(X, Y, noise_variance=NOISE)
    assert restarts.model_.likelihood.n_parameters == 0


def test_a_checkpoint_belongs_to_its_noise(tmp_path):
    model = DeepGPRegressor(**OPTIONS | {"max_iter": 4}, checkpoint=Checkpoint(tmp_path / "run", every=2))
    model.fit(X, Y, noise_variance=NOISE)
    again = DeepGPRegressor(**model.get_params(deep=False)).fit(X, Y, noise_variance=NOISE, resume=True)
    assert_array_equal(again.predict(X), model.predict(X))
    with pytest.raises(SodgpError, match="noise_variance"):
        again.fit(X, Y, noise_variance=2 * NOISE, resume=True)


def test_bad_noise_is_refused():
    for noise, what in ((-NOISE, "negative"), (NOISE[:3], "one for each row"), ("loud", "numbers only")):
        with pytest.raises(InputError, match=what):
            DeepGPRegressor(max_iter=1).fit(X, Y, noise_variance=noise)
    with pytest.raises(InputError, match="first in row 7"):
        DeepGPRegressor(max_iter=1).fit(X, Y, noise_variance=np.where(np.arange(40) == 7, np.nan, 1.0))
    for options in (
        {"inference": "dsvi"},
        {"inference": SoD(tie_label_noise=False)},
        {"likelihood": "heteroscedastic"},
        {"likelihood": "heavy_tailed"},
    ):
        with pytest.raises(ConfigurationError, match="noise_variance"):
            DeepGPRegressor(**options).fit(X, Y, noise_variance=NOISE)
