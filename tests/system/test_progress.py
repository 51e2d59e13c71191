"""Progress in a terminal; in a log it is tested with the command line."""

import io
import sys
import warnings
from types import SimpleNamespace

from sodgp.system.progress import Bar, Ended, ProgressBar, duration, say, show_warning


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


def test_the_bar_of_a_fit_shows_steps_and_bound(monkeypatch):
    for name, value in {"TTY_COMPATIBLE": "1", "FORCE_COLOR": "1", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stdout", screen)
    bar = ProgressBar(20)
    for iteration in (5, 20):
        bar(SimpleNamespace(iteration=iteration, bound=-1.25))
    bar.close()
    bar.close()
    assert "training" in screen.getvalue()
    assert "20/20" in screen.getvalue()
    assert "bound -1.2" in screen.getvalue()


def test_bars_count_the_steps_of_many_models():
    bar = Bar()
    shown = []
    bar.show = lambda done, bound: shown.append(done)
    bar(Ended(5, 0.0))
    bar.open()
    bar(Ended(7, 0.0))
    bar.models = 3
    bar.open()
    bar(Ended(2, 0.0))
    assert shown == [5, 12, 18]
