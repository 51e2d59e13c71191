"""What the estimator adds to the rooms below: units, the subset, counts, draws over rows, restarts."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils import check_random_state

from sodgp import DeepGPRegressor
from sodgp.errors import ConfigurationError, InputError, NumericalError
from sodgp.estimator.describe import target_names
from sodgp.layers.subset import COUPLINGS

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 2))
Y = 3.0 + np.sin(2 * X[:, 0]) + 0.1 * RNG.standard_normal(40)


def make(**options):
    return DeepGPRegressor().set_params(
        **{"subset_size": 10, "n_samples": 2, "n_predict_samples": 20, "max_iter": 30, "random_state": 0, **options}
    )


def test_defaults_are_strings_numbers_or_none():
    assert all(
        value is None or isinstance(value, str | int | float) for value in DeepGPRegressor().get_params().values()
    )


def test_the_subset_is_made_of_different_rows_of_the_data():
    model = make().fit(X, Y)
    assert len(set(model.subset_indices_.tolist())) == 10
    assert model.subset_indices_.min() >= 0
    assert model.subset_indices_.max() < 40
    assert not hasattr(make(inference="dsvi").fit(X, Y), "subset_indices_")


@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_sod_trains_nothing_for_inducing_inputs(n_layers):
    hidden, M, D = n_layers - 1, 10, 2
    variational = (hidden * D + 1) * (M + M * (M + 1) // 2)
    kernels = n_layers * (D + 1)
    noises = hidden + 1
    assert make(n_layers=n_layers, max_iter=1).fit(X, Y).n_parameters_ == variational + kernels + noises


def test_learned_inducing_inputs_count():
    free, fixed = (
        make(inference="dsvi", inference__learn_inducing_inputs=flag, max_iter=1).fit(X, Y).n_parameters_
        for flag in (True, False)
    )
    assert free - fixed == 3 * 10 * 2


def test_training_raises_the_bound_and_fits():
    model = make(max_iter=100, learning_rate=0.03).fit(X, Y)
    assert model.history_.bound[-1] > model.history_.bound[0]
    assert model.score(X, Y) > 0.7


def test_predictions_move_with_the_units_of_the_targets():
    model, scaled = make().fit(X, Y), make().fit(X, 100.0 * Y - 7.0)
    mean, std = model.predict(X, return_std=True)
    scaled_mean, scaled_std = scaled.predict(X, return_std=True)
    assert_allclose(scaled_mean, 100.0 * mean - 7.0, rtol=1e-6)
    assert_allclose(scaled_std, 100.0 * std, rtol=1e-6)
    shifted = model.predict_distribution(X).log_prob(Y) - np.log(100.0)
    assert_allclose(scaled.predict_distribution(X).log_prob(100.0 * Y - 7.0), shifted, atol=1e-5)


@pytest.mark.parametrize("n_layers", [1, 2])
def test_draws_over_rows_have_the_moments_of_the_joint_prediction(n_layers):
    model = make(n_layers=n_layers, n_predict_samples=100).fit(X, Y)
    rows = X[:4]
    mean, cov = model.predict(rows, return_cov=True)
    draws = model.sample_y(rows, n_samples=400, random_state=1)
    scale = np.sqrt(np.diag(cov))
    assert_allclose(draws.mean(1), mean, atol=0.25 * scale.max())
    assert_allclose(np.cov(draws), cov, atol=0.3 * cov.max())


@pytest.mark.parametrize("inference", ["sod", "dsvi", "sghmc", "mean_field"])
@pytest.mark.parametrize("n_layers", [1, 2])
def test_how_many_draws_are_taken_at_once_changes_no_law(inference, n_layers, monkeypatch):
    options = {"inference__n_posterior_samples": 4, "inference__thinning": 1} if inference == "sghmc" else {}
    options |= {"n_layers": n_layers, "max_iter": 20, "n_predict_samples": 400, "random_state": 0}
    model = DeepGPRegressor().set_params(inference=inference, **options).fit(X, Y)
    together, covariance = model.predict(X[:3], return_cov=True)
    monkeypatch.setattr("sodgp.estimator.predict._JOINT_ENTRIES", 1)
    alone, other = model.predict(X[:3], return_cov=True)
    assert_allclose(alone, together, rtol=0, atol=0.15 * np.sqrt(covariance.max()))
    assert_allclose(other, covariance, rtol=0, atol=0.2 * covariance.max())
    assert model.sample_y(X[:3], 7).shape == (3, 7)


def test_joint_and_marginal_predictions_agree():
    model = make(n_layers=1).fit(X, Y)
    mean, std = model.predict(X[:6], return_std=True)
    joint_mean, cov = model.predict(X[:6], return_cov=True)
    assert_allclose(joint_mean, mean)
    assert_allclose(np.sqrt(np.diag(cov)), std)


@pytest.mark.parametrize(
    "options", [{"inference__coupling": coupling} for coupling in COUPLINGS] + [{"inference": "dsvi"}], ids=str
)
def test_joint_predictions_have_the_law_of_each_row(options):
    model = make(n_layers=3, n_predict_samples=3000, **options).fit(X, Y)
    mean, std = model.predict(X[:3], return_std=True)
    joint_mean, cov = model.predict(X[:3], return_cov=True)
    assert_allclose(joint_mean, mean, rtol=0, atol=0.1 * std.max())
    assert_allclose(np.diag(cov), std**2, rtol=0.1)


def test_seeds_of_draws_come_in_all_kinds():
    model = make().fit(X, Y)
    for same in (3, np.random.RandomState(3)):
        assert_array_equal(model.sample_y(X[:2], random_state=same), model.sample_y(X[:2], random_state=3))
    first, second = (model.sample_y(X[:2], random_state=np.random.default_rng(3)) for _ in range(2))
    assert_array_equal(first, second)
    with pytest.raises(InputError, match="random_state"):
        model.sample_y(X[:2], random_state="three")


def test_tensors_of_any_kind_are_taken():
    model = make().fit(torch.tensor(X).bfloat16(), Y)
    targets = torch.tensor(Y).bfloat16()
    dist = model.predict_distribution(X)
    assert_array_equal(dist.log_prob(targets), dist.log_prob(targets.double()))
    assert_array_equal(model.predict(X[:2]), make().fit(torch.tensor(X).bfloat16().double(), Y).predict(X[:2]))


def test_draws_of_the_function_are_smoother_than_those_of_the_targets():
    model = make().fit(X, Y)
    grid = np.column_stack([np.linspace(-1, 1, 50), np.zeros(50)])
    rough, smooth = (
        np.abs(np.diff(model.sample_y(grid, 20, random_state=0, latent=flag), axis=0)).mean() for flag in (False, True)
    )
    assert smooth < 0.5 * rough


def test_a_random_state_object_moves_on_and_none_is_fresh():
    state = np.random.RandomState(0)
    first, second = (make(random_state=state).fit(X, Y).predict(X) for _ in range(2))
    assert not np.array_equal(first, second)
    fresh = [make(random_state=None).fit(X, Y).predict(X) for _ in range(2)]
    assert not np.array_equal(*fresh)


def test_fitting_reads_and_sets_no_global_seed():
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    model = make().fit(X, Y)
    assert_array_equal(np.random.get_state()[1], before[0])  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[1])
    np.random.seed(2)  # noqa: NPY002
    torch.manual_seed(2)
    assert_array_equal(make().fit(X, Y).predict(X), model.predict(X))


def test_minibatches_and_full_batches_both_train():
    for batch_size in (15, 40):
        model = make(batch_size=batch_size, max_iter=100, learning_rate=0.03).fit(X, Y)
        assert model.score(X, Y) > 0.5


@pytest.mark.parametrize(
    "options", [{"inference__parameterization": "paper", "hidden_width": 2}, {"subset_size": 1000}], ids=str
)
def test_warnings_point_at_the_line_that_fits(options):
    with pytest.warns() as caught:
        make(**{"n_layers": 2, **options}).fit(X, Y)
    assert [Path(warning.filename).name for warning in caught] == [Path(__file__).name]


def test_a_second_fit_forgets_the_first():
    model = make().fit(X[:20], Y[:20])
    model.fit(X, Y)
    assert_array_equal(model.predict(X), make().fit(X, Y).predict(X))


def test_restarts_with_small_batches_are_compared_over_more_rows():
    """The logged values are those of five rows, scaled up: their noise is no reason to prefer a fit."""
    model = make(n_restarts=3, batch_size=15).fit(X, Y)
    assert np.mean(model.history_.bound[-5:]) not in model.restart_bounds_
    again = make(n_restarts=3, batch_size=15).fit(X, Y)
    assert again.restart_bounds_ == model.restart_bounds_
    seeds = check_random_state(model.random_state).randint(2**31 - 1, size=3)
    alone = make(batch_size=15, random_state=int(seeds[np.argmax(model.restart_bounds_)])).fit(X, Y)
    assert_allclose(model.predict(X), alone.predict(X), rtol=1e-6)


def test_restarts_survive_where_that_bound_cannot_be_had(monkeypatch):
    def fails(*_, **__):
        raise NumericalError("K_SS is singular")

    for bound_of in (fails, lambda *_, **__: float("nan")):
        monkeypatch.setattr("sodgp.training.run.bound_of", bound_of)
        model = make(n_restarts=2, batch_size=15).fit(X, Y)
        assert np.isfinite(model.restart_bounds_).all()
        assert np.mean(model.history_.bound[-5:]) == max(model.restart_bounds_)


def test_restarts_keep_the_fit_with_the_best_bound():
    model = make(n_restarts=3).fit(X, Y)
    assert len(model.restart_bounds_) == 3
    assert np.mean(model.history_.bound[-5:]) == max(model.restart_bounds_)
    assert model.n_restarts == 3
    with pytest.raises(ConfigurationError, match="n_restarts"):
        make(n_restarts=0).fit(X, Y)


@pytest.mark.parametrize("offset", [1.7e9, -3.0e12])
def test_a_column_far_from_zero_is_not_constant(offset):
    """scikit-learn takes a spread that is small beside the mean for rounding."""
    t = np.arange(40.0) * 2.0**-10
    plain = make(n_layers=1).fit(t[:, None], np.sin(200 * t))
    far = make(n_layers=1).fit(t[:, None] + offset, np.sin(200 * t) * 1e-3 + offset)
    assert_allclose(far.fitted_.x_scaler.scale_, plain.fitted_.x_scaler.scale_, rtol=1e-2)
    assert_allclose(far.fitted_.y_scaler.scale_, 1e-3 * plain.fitted_.y_scaler.scale_, rtol=0.2)
    assert far.predict(t[:, None] + offset, return_std=True)[1].max() < 0.01


def test_constant_columns_stay_constant():
    model = make(max_iter=2).fit(np.column_stack([X, np.full(40, 1e9)]), Y)
    assert model.fitted_.x_scaler.scale_[2] == 1.0


@pytest.mark.parametrize(
    ("y", "names"),
    [
        (pd.Series(Y, name="price"), ["price"]),
        (pd.DataFrame({"price": Y, "rent": -Y}), ["price", "rent"]),
        (pd.Series(Y), ["y"]),
        (pd.DataFrame({0: Y, 1: -Y}), ["y0", "y1"]),
        (Y, ["y"]),
    ],
)
def test_targets_have_the_names_of_their_columns_and_none_of_an_earlier_fit(y, names):
    model = make(max_iter=2).fit(X, pd.Series(Y, name="earlier"))
    assert target_names(model.fit(X, y)) == names
    assert target_names(make(max_iter=2, n_members=2).fit(X, y)) == names
