"""The history of a fit."""

from sodgp.training.history import History


def test_a_repeated_iteration_replaces_its_entry_also_with_a_validation_score():
    history = History()
    history.log(1, {"rest": -3.0}, 0.1, -1.0)
    history.log(50, {"rest": -2.0}, 0.2, -0.9)
    history.log(50, {"rest": -1.0}, 0.3, -0.8)
    assert history == History([1, 50], [-3.0, -1.0], {"rest": [-3.0, -1.0]}, [0.1, 0.3], validation=[-1.0, -0.8])


def test_scores_are_optional():
    history = History()
    history.log(1, {"rest": -3.0}, 0.1)
    history.log(1, {"rest": -2.0}, 0.1)
    assert (history.bound, history.validation) == ([-2.0], [])
