"""The demo, with few steps."""

from __future__ import annotations

import contextlib
import signal

import pytest
import torch
from cli_runner import run

from sodgp.cli import demo


def test_demo_prints_a_table_and_writes_the_picture(tmp_path, capsys):
    threads = torch.get_num_threads()
    outcomes = demo.run(tmp_path / "out", seed=1, max_iter=2)
    text = capsys.readouterr().out
    for word in ("step", "diabetes", "NLPP", "RMSE", "CRPS", "90 % coverage", "seconds"):
        assert word in text
    assert [(o.task.name, o.n_layers) for o in outcomes] == [(d, n) for d in ("step", "diabetes") for n in (1, 2, 3)]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["step.png"]
    assert (tmp_path / "out" / "step.png").read_bytes().startswith(b"\x89PNG")
    assert torch.get_num_threads() == threads


def test_ctrl_c_ends_the_demo(monkeypatch, tmp_path, capsys):
    fits = []

    def begin(words):
        fits.append(words)
        return lambda state: signal.raise_signal(signal.SIGINT) if len(fits) == 2 else None

    monkeypatch.setattr(demo, "progress", lambda *_: contextlib.nullcontext(begin))
    with pytest.raises(KeyboardInterrupt):
        demo.run(tmp_path / "out", seed=1, max_iter=2)
    assert len(fits) == 2
    assert "NLPP" not in capsys.readouterr().out


def test_tasks_depend_on_the_seed_and_keep_test_rows_apart():
    for make in (demo.step_task, demo.diabetes_task):
        first, same, other = make(0), make(0), make(1)
        assert (first.y == same.y).all()
        assert (first.y != other.y).any()
    diabetes = demo.diabetes_task(0)
    assert (len(diabetes.y), len(diabetes.y_test)) == (397, 45)
    train = {row.tobytes() for row in diabetes.X}
    assert not any(row.tobytes() in train for row in diabetes.X_test)


def test_the_command_hands_its_options_on(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(demo, "run", lambda *arguments: calls.append(arguments))
    result = run("demo", "--out", tmp_path, "--seed", "7")
    assert (result.exit_code, calls) == (0, [(tmp_path, 7)])


def test_an_unusable_folder_is_refused_before_the_fits(tmp_path):
    (tmp_path / "file").touch()
    result = run("demo", "--out", tmp_path / "file")
    assert result.exit_code == 1
    assert result.stderr == f"Error: {tmp_path / 'file'}: File exists.\n"
