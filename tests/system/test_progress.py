"""Progress in terminals and notebooks; in a log it is tested with the command line."""

import io
import math
import sys
import threading
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from sodgp import DeepGPRegressor
from sodgp.system import progress
from sodgp.system.progress import Ended, ProgressBar, duration, is_watched, say, show_warning


class Terminal(io.StringIO):
    def isatty(self):
        return True


def watched(monkeypatch):
    """A terminal of 80 columns that somebody watches. No fixture: pytest sets stderr when the test begins."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stderr", Terminal())
    return sys.stderr


def run(bar, seconds, iterations=(1, 50, 100)):
    """Steps that take so many seconds each; then the end."""
    for iteration in iterations:
        bar(SimpleNamespace(iteration=iteration, max_iter=100, bound=-1.25, seconds=seconds * iteration))
    bar.close()


def test_durations_are_for_people():
    assert [duration(seconds) for seconds in (0.2, 99, 101, 3600, 90_000)] == [
        "0 s",
        "99 s",
        "2 min",
        "60 min",
        "25 h 0 min",
    ]


def test_messages_and_warnings_are_lines_on_stderr(capsys, monkeypatch):
    say("done")
    monkeypatch.setattr(warnings, "showwarning", show_warning)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("careful", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "done\nWarning: careful\n"


def test_the_bar_of_a_fit_shows_steps_time_left_and_bound(monkeypatch):
    screen = watched(monkeypatch)
    bar = ProgressBar(1)
    run(bar, 0.5)
    bar.close()
    drawn = screen.getvalue()
    assert "\rtraining [##########..........] 50%, 50/100, 25 s left, bound -1.2\r" in drawn
    assert "100%, 100/100, 0 s left, bound -1.2" in drawn
    assert drawn.endswith("\r\n")
    assert drawn.count("\n") == 1
    assert all(len(line) < 80 for line in drawn.split("\r"))


def test_a_bar_is_cut_at_the_edge_of_the_terminal(monkeypatch):
    screen = watched(monkeypatch)
    run(ProgressBar(1, "a label " * 20), 0.5)
    assert max(map(len, screen.getvalue().split("\r"))) == 79


@pytest.mark.parametrize(
    ("seconds", "first"),
    [
        (0.001, None),  # all is done at once
        (0.02, None),  # 100 steps take two seconds
        (0.07, "1/100"),  # seven, and three until the next call
        (0.05, None),  # more than three in all, but when that is sure less are left
    ],
)
def test_an_automatic_bar_appears_when_the_wait_is_long_and_goes_at_the_end(monkeypatch, seconds, first):
    screen = watched(monkeypatch)
    run(ProgressBar(1, auto=True), seconds)
    drawn = screen.getvalue().split("\r")
    if first is None:
        assert drawn == [""]
    else:
        assert first in drawn[1]
        assert set(drawn[-2]) == {" "}
        assert "\n" not in screen.getvalue()


def test_a_slow_first_step_alone_is_no_reason_for_an_automatic_bar(monkeypatch):
    screen = watched(monkeypatch)
    bar = ProgressBar(1, auto=True)
    bar(SimpleNamespace(iteration=1, max_iter=1000, bound=-1.25, seconds=0.05))
    assert not screen.getvalue()
    bar(SimpleNamespace(iteration=50, max_iter=1000, bound=-1.25, seconds=0.25))  # about five in all
    assert "50/1000, 5 s left" in screen.getvalue()


def test_a_resumed_fit_waits_for_its_rest_only(monkeypatch):
    screen = watched(monkeypatch)
    run(ProgressBar(1, auto=True), 1.0, iterations=[98, 100])
    assert not screen.getvalue()


def test_without_anybody_who_watches_progress_is_lines(capsys):
    run(ProgressBar(1), 0.5)
    assert capsys.readouterr().err.splitlines() == [
        "training: 1 %, bound -1.2, about 50 s left",
        "training [####################] 100%, 100/100, 0 s left, bound -1.2",
    ]


def test_a_terminal_that_has_gone_ends_no_fit(monkeypatch):
    screen = watched(monkeypatch)
    bar = ProgressBar(1)
    screen.close()
    run(bar, 0.5)


def test_who_watches(monkeypatch):
    watched(monkeypatch)
    assert is_watched()
    answers = []
    thread = threading.Thread(target=lambda: answers.append(is_watched()))
    thread.start()
    thread.join()
    assert answers == [False]
    for name, value in {"TERM": "dumb", "CI": "true"}.items():
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert not is_watched()
    monkeypatch.setattr(sys, "stderr", None)
    assert not is_watched()
    shell = SimpleNamespace(kernel=None)  # what IPython has in a notebook
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert is_watched()


@pytest.mark.parametrize("many", [{}, {"n_members": 2}, {"n_restarts": 2}])
def test_one_bar_for_a_fit_which_it_does_not_change(monkeypatch, many):
    def fitted(**options):
        model = DeepGPRegressor(n_layers=2, max_iter=51, subset_size=5, random_state=0, **many, **options)
        return model.fit(X, X[:, 0])

    X = np.linspace(-1, 1, 12)[:, None]
    screen = watched(monkeypatch)
    monkeypatch.setattr(progress, "WORTH_SECONDS", 0.0)
    assert fitted().history_.bound == fitted(verbose=0).history_.bound
    counts = [line.split(",")[1] for line in screen.getvalue().split("\r") if "%" in line]
    models = math.prod(many.values())
    assert counts == [f" {models * steps}/{models * 51}" for steps in (1, 50, 51)]


def test_bars_count_the_steps_of_many_models(monkeypatch):
    screen = watched(monkeypatch)
    bar = ProgressBar(5)
    with bar.held():
        for models, steps in ((1, 10), (1, 10), (3, 10)):
            bar.models = models
            bar.open()
            bar(Ended(steps, 10, 0.0, seconds=1.0))
            bar.close()
        assert "\n" not in screen.getvalue()
    assert [line.split(", ")[1] for line in screen.getvalue().split("\r") if "%" in line] == ["10/50", "20/50", "50/50"]
    assert screen.getvalue().endswith("\n")
