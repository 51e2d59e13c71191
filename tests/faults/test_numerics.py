"""Numbers that run away mid-training: more jitter, then back with half the step, and only then an error with advice."""

import numpy as np
import pytest
import torch
from gpytorch.kernels import RBFKernel
from numpy.testing import assert_array_equal

from sodgp import DeepGPRegressor
from sodgp.errors import CholeskyError, NumericalError, NumericalWarning
from sodgp.training import loop

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(30)


def make(**options):
    return DeepGPRegressor().set_params(
        **{"subset_size": 8, "n_samples": 2, "n_predict_samples": 5, "max_iter": 60, "random_state": 0, **options}
    )


class Disturbance:
    """Lets the steps with the numbers in `breaks`, from 1, go wrong in the given way, and notes every rate."""

    def __init__(self, monkeypatch, breaks, how):
        self.breaks, self.how = breaks, how
        self.rates = []
        self.honest = loop.train
        monkeypatch.setattr("sodgp.training.run.train", self.train)

    def train(self, step, *arguments, **options):
        objective, set_rate = step.objective, step.set_learning_rate

        def disturbed():
            values = objective()
            return self.how(values) if len(self.rates) in self.breaks else values

        def noted(rate):
            self.rates.append(rate)
            set_rate(rate)

        step.objective, step.set_learning_rate = disturbed, noted
        return self.honest(step, *arguments, **options)


def singular(values):
    raise CholeskyError("K_SS of layer 2 could not be factorised. Try less.", layer=2, sample=0, condition=1e17)


def nan_bound(values):
    return {name: value * torch.nan for name, value in values.items()}


def nan_gradient(values):
    """A finite bound whose gradient is not."""
    return {name: value + (0.0 * value.detach() * value).sqrt() for name, value in values.items()}


class Negative(RBFKernel):
    """No kernel at all: minus one."""

    def forward(self, x1, x2, diag=False, **options):
        return -super().forward(x1, x2, diag=diag, **options)


def assert_usable(model):
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()


# ----- the ladder


def test_a_singular_covariance_is_rescued_by_more_jitter_without_a_rollback():
    """Duplicate rows fill the subset: K_SS is singular but for the jitter, which float32 and 1e-9 leave too small."""
    rows, targets = np.repeat(X[:5], 6, axis=0), np.repeat(Y[:5], 6)
    model = make(dtype="float32", tuning__jitter=1e-9, subset_size=20).fit(rows, targets)
    assert model.history_.rollbacks == 0
    assert_usable(model)


@pytest.mark.parametrize("how", [singular, nan_bound, nan_gradient])
@pytest.mark.parametrize("place", [1, 2, 30, 51])
def test_one_failure_rolls_back_halves_the_step_and_training_ends_well(monkeypatch, how, place):
    steps = Disturbance(monkeypatch, {place}, how)
    model = make(tuning__schedule="constant", learning_rate=0.01).fit(X, Y)
    history = model.history_
    assert history.rollbacks == 1
    assert history.stopped == "max_iter"
    assert history.iteration == [1, 50, 60]
    assert np.isfinite(history.bound).all()
    assert model.n_iter_ == 60
    assert len(steps.rates) > 60
    assert steps.rates[0] == pytest.approx(0.01)
    assert steps.rates[-1] == pytest.approx(0.005)
    assert_usable(model)


def test_every_failure_halves_the_step_again(monkeypatch):
    steps = Disturbance(monkeypatch, {2, 3, 4}, nan_bound)
    model = make(tuning__schedule="constant", learning_rate=0.01).fit(X, Y)
    assert model.history_.rollbacks == 3
    assert steps.rates[-1] == pytest.approx(0.01 / 8)


def test_the_parameters_that_training_goes_back_to_have_a_finite_bound():
    """A first step that zeroes the factor of q makes KL infinite: the way back is to before that step, not after it."""
    model = make(
        inference__parameterization="paper", inference__coupling="marginal", dtype="float32", learning_rate=0.01
    )
    model.fit(X, Y)
    assert np.isfinite(model.history_.bound).all()


# ----- the end of the ladder


def test_only_then_training_stops_with_layer_condition_and_advice(monkeypatch):
    Disturbance(monkeypatch, set(range(55, 1000)), singular)
    model = make()
    with pytest.raises(CholeskyError, match="Try less") as caught:
        model.fit(X, Y)
    assert caught.value.layer == 2
    assert caught.value.condition == 1e17
    assert "went back 6 times and halved its step" in str(caught.value)
    assert "those of iteration 49" in str(caught.value)


def test_a_matrix_that_no_jitter_rescues_says_what_to_try():
    with pytest.raises(CholeskyError, match="Try a smaller learning_rate") as caught:
        make(kernel=lambda input_dim: Negative(), n_layers=1).fit(X, Y)
    assert "jitter up to 1e-02" in str(caught.value)
    assert caught.value.layer == 1
    assert caught.value.condition == np.inf


@pytest.mark.parametrize("how", [singular, nan_bound, nan_gradient])
def test_the_last_good_parameters_are_kept_and_predict(monkeypatch, how):
    Disturbance(monkeypatch, set(range(55, 1000)), how)
    model = make(tuning__schedule="constant")
    with pytest.raises(NumericalError):
        model.fit(X, Y)
    monkeypatch.undo()
    assert_usable(model)
    # They are those that 49 undisturbed steps lead to.
    expected = make(max_iter=49, tuning__schedule="constant").fit(X, Y)
    kept = dict(model.model_.named_parameters())
    for name, value in expected.model_.named_parameters():
        assert_array_equal(kept[name], value)


def test_a_failure_at_the_start_keeps_nothing_of_an_earlier_fit(monkeypatch):
    model = make().fit(X, Y)
    before = model.predict(X)
    Disturbance(monkeypatch, set(range(1, 1000)), nan_bound)
    with pytest.raises(NumericalError, match="those of iteration 0"):
        model.fit(X, -Y)
    monkeypatch.undo()
    assert_usable(model)
    assert not np.array_equal(model.predict(X), before)


# ----- people who stop it


@pytest.mark.parametrize("inference", ["sod", "dsvi"])
def test_an_interrupt_gives_a_usable_model_and_a_warning(inference):
    def interrupt(state):
        if state.iteration == 50:
            raise KeyboardInterrupt

    model = make(inference=inference, n_layers=2, max_iter=1000, callbacks=[interrupt])
    with pytest.warns(NumericalWarning, match="interrupted at iteration 50; the model is usable"):
        model.fit(X, Y)
    assert model.history_.stopped == "interrupted"
    assert model.n_iter_ == 50
    assert_usable(model)


def test_a_callback_sees_the_state_and_stops_training():
    seen = []

    def stop(state):
        seen.append(state)
        return state.iteration >= 100

    model = make(n_layers=2, max_iter=10_000, callbacks=[stop]).fit(X, Y)
    assert [state.iteration for state in seen] == model.history_.iteration == [1, 50, 100]
    assert [state.bound for state in seen] == model.history_.bound
    assert model.history_.stopped == "callback"
    assert model.n_iter_ == 100
    assert all(state.bound == pytest.approx(sum(state.terms.values())) for state in seen)
    assert seen[0].seconds <= seen[1].seconds
    assert_usable(model)


def test_every_callback_is_asked_even_after_one_has_said_stop():
    seen = []
    make(callbacks=[lambda state: True, lambda state: seen.append(state.iteration)]).fit(X, Y)
    assert seen == [1]


def test_the_progress_bar_ends_with_the_last_iteration(capsys):
    make(verbose=1).fit(X, Y)
    assert "60/60" in capsys.readouterr().err
