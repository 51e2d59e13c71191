"""The loop: when it logs, how the rate falls, and where it goes back to."""

import pytest
import torch
from torch import nn

from sodgp.errors import ConfigurationError, NumericalError
from sodgp.training.history import History
from sodgp.training.loop import train
from sodgp.training.steps import EagerStep, Schedule


class Line(nn.Module):
    """A bound of -|w|, whose gradient is constant: Adam moves by the learning rate in every step."""

    def __init__(self, start=100.0):
        super().__init__()
        self.w = nn.Parameter(torch.tensor(start, dtype=torch.float64))

    def terms(self):
        return {"fit": -self.w.abs(), "constant": torch.ones((), dtype=torch.float64)}


def run(model, max_iter, *, kind="constant", rate=1.0, **options):
    step = EagerStep(model, model.terms, rate)
    return train(step, model, Schedule(rate, kind, max_iter), **options)


@pytest.mark.parametrize(("max_iter", "logged"), [(1, [1]), (7, [1, 7]), (50, [1, 50]), (120, [1, 50, 100, 120])])
def test_first_last_and_every_fiftieth_iteration_are_logged(max_iter, logged):
    (history,) = run(Line(), max_iter)
    assert history.iteration == logged
    assert history.bound == pytest.approx([fit + 1.0 for fit in history.terms["fit"]])
    assert history.seconds == sorted(history.seconds)
    assert (history.stopped, history.rollbacks) == ("max_iter", 0)


def test_the_cosine_holds_for_half_of_the_run_and_falls_to_a_hundredth():
    schedule = Schedule(0.2, "cosine", 100)
    assert {schedule.at(iteration) for iteration in range(1, 51)} == {0.2}
    falling = [schedule.at(iteration) for iteration in range(50, 101)]
    assert falling == sorted(falling, reverse=True)
    assert falling[-1] == pytest.approx(0.002)
    assert schedule.at(75) == pytest.approx(0.2 * 0.505)


def test_the_constant_rate_stays():
    assert {Schedule(0.2, "constant", 100).at(iteration) for iteration in (1, 60, 100)} == {0.2}


def test_an_unknown_schedule_is_named_beside_those_that_exist():
    with pytest.raises(ConfigurationError, match="'wavy' is unknown; choose one of constant, cosine"):
        Schedule(0.1, "wavy", 10)


def test_training_goes_back_to_where_the_bound_was_last_seen_finite():
    model, calls = Line(), [0]
    honest = model.terms

    def terms():
        calls[0] += 1
        return {"fit": honest()["fit"] * (torch.nan if calls[0] == 60 else 1.0)}

    model.terms = terms
    (history,) = run(model, 100)
    assert history.rollbacks == 1
    assert history.iteration == [1, 50, 100]
    # 49 whole steps before iteration 50, and 51 half ones from there.
    assert model.w.item() == pytest.approx(100.0 - 49.0 - 0.5 * 51, abs=0.1)
    assert history.bound[1] == pytest.approx(-51.0, abs=0.1)


def test_after_the_last_rollback_the_good_parameters_are_in_place():
    model = Line(10.0)
    honest = model.terms

    def terms():
        # Only the start can be evaluated, however small the step.
        return {"fit": honest()["fit"] * (1.0 if model.w > 9.99 else torch.nan)}

    model.terms = terms
    with pytest.raises(NumericalError, match=r"went back 3 times and halved .* those of iteration 0"):
        run(model, 100, max_rollbacks=3)
    assert model.w.item() == 10.0


def test_a_parameter_that_is_not_finite_is_found_when_logged():
    model = Line()
    step = EagerStep(model, model.terms, 1.0)

    def broken():
        terms = EagerStep.__call__(step)
        model.w.data.fill_(torch.inf)
        return {name: value.clone() for name, value in terms.items()}

    class Broken:
        parameters, optimizer, set_learning_rate = step.parameters, step.optimizer, step.set_learning_rate
        fall_back = step.fall_back

        def __call__(self):
            return broken()

    with pytest.raises(NumericalError, match="a parameter is not finite"):
        train(Broken(), model, Schedule(1.0, "constant", 1), max_rollbacks=1)
    assert model.w.item() == 100.0


def test_every_replicate_has_its_own_history_and_callbacks_see_the_mean():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.tensor([10.0, 30.0]))

        def terms(self):
            return {"fit": -self.w.abs()}

    states = []
    histories = run(Pair(), 1, replicates=2, callbacks=[states.append])
    assert [history.bound for history in histories] == [[-10.0], [-30.0]]
    assert states[0].bound == -20.0


def test_a_history_replaces_an_iteration_that_is_run_again():
    history = History()
    history.log(1, {"a": 1.0, "b": 2.0}, 0.1)
    history.log(50, {"a": 3.0, "b": 4.0}, 0.2)
    history.log(50, {"a": 5.0, "b": 6.0}, 0.3)
    assert history.iteration == [1, 50]
    assert history.bound == [3.0, 11.0]
    assert history.terms == {"a": [1.0, 5.0], "b": [2.0, 6.0]}
    assert history.seconds == [0.1, 0.3]


def test_a_step_that_cannot_raise_the_jitter_falls_back_to_the_plain_one():
    class Compiled:
        """NaN as a recorded or compiled step would give it, until it falls back."""

        is_plain = False

        def __init__(self, model):
            self.model = model

        def __call__(self):
            terms = self.model.terms()
            return terms if self.is_plain else {**terms, "fit": terms["fit"] * torch.nan}

        def fall_back(self):
            changed, self.is_plain = not self.is_plain, True
            return changed

    model = Line()
    objective = Compiled(model)
    (history,) = train(EagerStep(model, objective, 1.0), model, Schedule(1.0, "constant", 3))
    assert objective.is_plain
    assert (history.stopped, history.rollbacks) == ("max_iter", 0)


def test_callbacks_are_closed_however_training_ends():
    class Callback:
        closed = 0

        def __call__(self, state):
            if state.iteration == 2:
                raise ValueError("mine")

        def close(self):
            self.closed += 1

    callback = Callback()
    run(Line(), 1, callbacks=[callback])
    assert callback.closed == 1
    with pytest.raises(ValueError, match="mine"):
        run(Line(), 2, callbacks=[callback])
    assert callback.closed == 2
