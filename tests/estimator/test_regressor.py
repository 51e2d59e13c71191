"""What the estimator adds to the rooms below: units, the subset, counts, draws over rows, restarts."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils import check_random_state

from sodgp import DeepGPRegressor
from sodgp.errors import ConfigurationError, NumericalError

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


@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_sod_trains_nothing_for_inducing_inputs(n_layers):
    hidden, M, D = n_layers - 1, 10, 2
    variational = (hidden * D + 1) * (M + M * (M + 1) // 2)
    kernels = n_layers * (D + 1)
    noises = hidden + 1
    plain = make(n_layers=n_layers, max_iter=1, inference__objective="bound", inference__separate_kernels=False).fit(
        X, Y
    )
    assert plain.n_parameters_ == variational + kernels + noises
    # With all labels in q_hat there is no last q, and the first of several layers has a kernel for each output.
    last = M + M * (M + 1) // 2
    more = (D - 1) * (D + 1) if hidden else 0
    assert make(n_layers=n_layers, max_iter=1).fit(X, Y).n_parameters_ == variational - last + kernels + more + noises


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


def test_tensors_of_any_kind_are_taken():
    model = make().fit(torch.tensor(X).bfloat16(), Y)
    targets = torch.tensor(Y).bfloat16()
    dist = model.predict_distribution(X)
    assert_array_equal(dist.log_prob(targets), dist.log_prob(targets.double()))
    assert_array_equal(model.predict(X[:2]), make().fit(torch.tensor(X).bfloat16().double(), Y).predict(X[:2]))


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
