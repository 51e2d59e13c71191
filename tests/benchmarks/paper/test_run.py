"""Runs: resumed after any end, within a budget, in several processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import cli_runner
import pytest
from bench_fixtures import make_cell, tiny  # noqa: F401 (a fixture for every test here)
from benchmarks.paper import methods
from benchmarks.paper.__main__ import bench
from benchmarks.paper.cells import read_cells
from benchmarks.paper.display import Display
from benchmarks.paper.protocol import Request
from benchmarks.paper.run import Options, run
from benchmarks.paper.unfinished import FOLDER

from sodgp.errors import ConfigurationError, InputError, NumericalError, ResourceError, SodgpError

QUICK = Options(device="cpu", history_every=0)

# What the fixture `tiny` does, for a process of its own.
DRIVER = """
import hashlib, sys
sys.path.insert(0, {tests!r})
from bench_fixtures import COLUMNS, tiny_csv
from sodgp.data.catalogue import CATALOGUE, Entry
CATALOGUE["tiny"] = Entry("tiny", COLUMNS, 60, hashlib.sha256(tiny_csv()).hexdigest())
from benchmarks.paper.__main__ import bench
bench()
"""


def request(**changes):
    return Request(**{"protocol": "paper", "data": ["tiny"], "methods": ["SoD"], "iterations": 5, **changes})


def go(*arguments, code=0):
    result = cli_runner.run(*arguments, program=bench)
    assert result.exit_code == code, result.output + repr(result.exception)
    assert "Traceback" not in result.output
    return result


def stop(*_):
    raise KeyboardInterrupt


def test_finished_cells_are_skipped(tmp_path):
    out = tmp_path / "r"
    first = run(request(splits=[0]), out, QUICK)
    path = out / "tiny" / "SoD-2-split0.json"
    before = path.read_bytes()
    second = run(request(splits=[0, 1]), out, QUICK)
    assert (first.computed, first.skipped, second.computed, second.skipped) == (1, 0, 1, 1)
    assert path.read_bytes() == before


def test_other_settings_are_refused_before_any_work(tmp_path):
    out = tmp_path / "r"
    run(request(splits=[0]), out, QUICK)
    for changes, name in (
        ({"iterations": 6}, "max_iter = 5, not 6"),
        ({"source": "text"}, "source = 'program', not 'text'"),
        ({"protocol": "default"}, "protocol = 'paper', not 'default'"),
    ):
        with pytest.raises(ConfigurationError, match=f"mix settings.*{name}"):
            run(request(splits=[1], **changes), out, QUICK)
    assert len(read_cells(out)) == 1


def test_an_option_younger_than_a_cell_stands_at_its_default(tmp_path):
    out = tmp_path / "r"
    run(request(splits=[0]), out, QUICK)
    path = out / "tiny" / "SoD-2-split0.json"
    text = path.read_text()
    path.write_text(text.replace('   "hidden_width": null,\n', ""))
    assert run(request(splits=[0, 1]), out, QUICK).skipped == 1
    path.write_text(text.replace('   "hidden_width": null,\n', '   "hidden_width": 7,\n'))
    with pytest.raises(ConfigurationError, match="hidden_width = 7, not None"):
        run(request(splits=[0, 1]), out, QUICK)


def test_a_spent_budget_begins_nothing(tmp_path):
    summary = run(request(splits=[0, 1]), tmp_path / "r", Options(device="cpu", budget=0.0))
    assert (summary.computed, summary.left) == (0, 2)
    assert read_cells(tmp_path / "r") == []


def test_a_runaway_takes_no_other_with_it(tmp_path, monkeypatch):
    compute, seen = methods.compute, []

    def runs_away(request, keys, data, **options):
        seen.append([key.split for key in keys])
        if 1 in seen[-1]:
            raise NumericalError("the bound is not finite.")
        return compute(request, keys, data, **options)

    monkeypatch.setattr(methods, "compute", runs_away)
    summary = run(request(splits=[0, 1]), tmp_path / "r", Options(device="cpu", replicates=True))
    assert seen == [[0, 1], [0], [1]]
    assert (summary.computed, list(summary.failed)) == (1, ["tiny SoD-DGP2 split 1"])
    assert [cell.key.split for cell in read_cells(tmp_path / "r")] == [0]


def test_a_cell_without_memory_takes_no_other_with_it(tmp_path, monkeypatch):
    compute = methods.compute

    def needs_too_much(request, keys, data, **options):
        if keys[0].split == 0:
            raise ResourceError("too large.", needed=2, available=1)
        return compute(request, keys, data, **options)

    monkeypatch.setattr(methods, "compute", needs_too_much)
    summary = run(request(splits=[0, 1]), tmp_path / "r", QUICK)
    assert (summary.computed, list(summary.failed.values())) == (1, ["too large."])


def test_what_another_run_has_written_by_now_is_skipped_or_refused(tmp_path, monkeypatch):
    compute, out, other = methods.compute, tmp_path / "r", {}

    def beside_another(request, keys, data, **options):
        cells = compute(request, keys, data, **options)
        for key in request.keys()[1:2]:
            (cell,) = compute(request, [key], data, device="cpu")
            replace(cell, settings=cell.settings | other).write(out)
        return cells

    monkeypatch.setattr(methods, "compute", beside_another)
    summary = run(request(splits=[0, 1]), out, QUICK)
    assert (summary.computed, summary.skipped) == (1, 1)
    other["source"] = "text"
    with pytest.raises(ConfigurationError, match=r"mix settings.*SoD-3-split1\.json has source = 'text'"):
        run(request(splits=[0, 1], layers=[3]), out, QUICK)


def test_two_protocols_begun_together_do_not_share_a_folder(tmp_path, monkeypatch):
    compute, out = methods.compute, tmp_path / "r"
    other = request(protocol="default", methods=["DSVI"], layers=[1], splits=[0])

    def beside_another(request, keys, data, **options):
        cells = compute(request, keys, data, **options)
        compute(other, other.keys(), data, device="cpu")[0].write(out)
        return cells

    monkeypatch.setattr(methods, "compute", beside_another)
    with pytest.raises(ConfigurationError, match=r"DSVI-1-split0\.json has protocol = 'default', not 'paper'"):
        run(request(splits=[0]), out, QUICK)
    assert [cell.settings["protocol"] for cell in read_cells(out)] == ["default"]


def test_no_checkpoint_outlives_its_cells(tmp_path, monkeypatch):
    out = tmp_path / "r"
    with monkeypatch.context() as patched:
        patched.setattr("benchmarks.paper.cells.Cell.write", stop)
        with pytest.raises(KeyboardInterrupt):
            run(request(splits=[0, 1]), out, Options(device="cpu", replicates=True))
    assert (out / FOLDER).exists()
    run(request(splits=[0, 1]), out, Options(device="cpu", replicates=False))
    assert not (out / FOLDER).exists()


def test_several_processes(tmp_path):
    summary = run(request(splits=[0, 1]), tmp_path / "r", Options(device="cpu", jobs=2, history_every=0))
    assert summary.computed == 2
    alone = run(request(splits=[0, 1]), tmp_path / "s", QUICK)
    assert alone.computed == 2
    for one, other in zip(read_cells(tmp_path / "r"), read_cells(tmp_path / "s"), strict=True):
        assert one.results["nlpp"] == pytest.approx(other.results["nlpp"], rel=1e-10)


def test_processes_say_how_far_they_are(tmp_path, monkeypatch):
    told = set()
    monkeypatch.setattr(Display, "reporter", lambda self, keys: lambda *news: told.add((keys[0].split, *news)))
    run(request(splits=[0, 1], iterations=60), tmp_path / "r", Options(device="cpu", jobs=2, history_every=0))
    assert {(0, 50, 60), (1, 50, 60), (0, 60, 60), (1, 60, 60)} <= told


def test_an_error_of_the_run_ends_the_processes(tmp_path, monkeypatch):
    def fails(self, cells):
        raise ConfigurationError(f"{cells[0].key} is not kept.")

    monkeypatch.setattr("benchmarks.paper.run._Runner._keep", fails)
    # The exact GP is done at once; the other would take hours, and leaves a checkpoint.
    both = request(methods=["exact", "SoD"], layers=[4], splits=[0], iterations=10**7)
    with pytest.raises(ConfigurationError, match="exact GP split 0 is not kept"):
        run(both, tmp_path / "r", Options(device="cpu", jobs=2, history_every=0))
    assert len(list((tmp_path / "r").glob(f"{FOLDER}/*/cells.json"))) == 1


def test_the_command_and_a_kill_half_way(tmp_path):
    out = tmp_path / "r"
    options = ["--protocol", "paper", "--data", "tiny", "--methods", "SoD", "--layers", "2", "--splits", "0-2"]
    options += ["--iterations", "150", "--device", "cpu", "--history-every", "50", "--out", str(out)]
    driver = DRIVER.format(tests=str(Path(__file__).parent))
    first = out / "tiny" / "SoD-2-split0.json"
    with subprocess.Popen([sys.executable, "-c", driver, *options], stderr=subprocess.PIPE) as process:
        while not first.exists() and process.poll() is None:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert process.returncode == -signal.SIGKILL
    left = read_cells(out)
    assert 1 <= len(left) < 3
    before = first.read_bytes()
    assert "there before: " + str(len(left)) in go(*options).stderr
    assert [cell.key.split for cell in read_cells(out)] == [0, 1, 2]
    assert first.read_bytes() == before
    assert not (out / FOLDER).exists()
    assert "Cells computed: 0" in go(*options).stderr
    assert "max_iter = 150, not 151" in go(*options[:9], 0, "--iterations", 151, "--out", out, code=2).stderr


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads the processes of Linux")
def test_workers_end_with_their_run_and_its_end_is_explained(tmp_path):
    out = tmp_path / "r"
    command = [sys.executable, "-c", DRIVER.format(tests=str(Path(__file__).parent)), "--data", "tiny"]
    command += ["--splits", "0,1", "--jobs", "2", "--history-every", "0", "--device", "cpu", "--out", str(out)]

    def begun():
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        while len(list(out.glob(f"{FOLDER}/*/cells.json"))) < 2 and process.poll() is None:
            time.sleep(0.02)
        workers = [
            Path(f"/proc/{child}")
            for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        ]
        return process, [path for path in workers if "spawn_main" in (path / "cmdline").read_text()]

    def end(workers):
        deadline = time.monotonic() + 30
        while any(path.exists() and "State:\tZ" not in (path / "status").read_text() for path in workers):
            assert time.monotonic() < deadline
            time.sleep(0.02)

    process, workers = begun()
    assert len(workers) == 2
    process.kill()
    end(workers)
    process.communicate()
    shutil.rmtree(out)
    process, workers = begun()
    process.send_signal(signal.SIGINT)  # to the run alone, as Ctrl-C of a terminal would not
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "The same command goes on where it was." in said
    assert "Traceback" not in said
    end(workers)
    assert not read_cells(out)
    assert len(list(out.glob(f"{FOLDER}/*/cells.json"))) == 2
    shutil.rmtree(out)
    process, workers = begun()
    os.kill(int(workers[0].name), signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "one of the processes was killed, perhaps for want of memory" in said
    end(workers)


def test_ctrl_c_says_that_nothing_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.paper.run.run", stop)
    assert "The same command goes on where it was." in go("--data", "tiny", "--out", tmp_path, code=130).stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--data", "tiny", "--out", "/dev/null/r"], 1, "nothing can be written to /dev/null/r"),
        (["--out", "r", "table"], 2, "write python -m benchmarks.paper table --out"),
        (["--data", "tiny", "--splits", "4-0"], 2, "whole numbers"),
        (["--data", "tiny", "--splits", "\u00b2"], 2, "whole numbers"),
        (["--data", "tiny", "--methods", "SoDD"], 2, "Unknown method 'SoDD'. Did you mean 'SoD'?"),
        (["--data", "tny"], 2, "Unknown data set 'tny'. Did you mean 'tiny'?"),
        (["--data", "boston"], 1, "boston"),
        (["--data", "tiny", "--data-dir", "nowhere"], 1, "nowhere"),
        (["--data", "tiny", "--splits", "x"], 2, "--splits"),
        (["--data", "tiny", "--history-every", "30"], 2, "multiple of 50"),
        (["--protocol", "paper"], 2, "--data"),
        (["table"], 1, "no benchmark cells"),
        (["plot"], 1, "no benchmark cells"),
    ],
)
def test_errors_are_one_line(arguments, code, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in go(*arguments, code=code).stderr
    assert not (tmp_path / "sodgp-bench").exists()


def test_ngboost_that_is_not_installed_says_how(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"pip install 'sodgp\[bench\]'"):
        run(request(methods=["ngboost"]), tmp_path / "r", QUICK)


def test_finished_cells_of_ngboost_need_no_package(tmp_path, monkeypatch):
    wanted, out = request(methods=["ngboost"], splits=[0]), tmp_path / "r"
    (key,) = wanted.keys()
    replace(make_cell(*vars(key).values(), 1.0), settings=wanted.settings(key)).write(out)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert run(wanted, out, QUICK).skipped == 1


def test_a_damaged_cell_stops_the_run(tmp_path):
    path = tmp_path / "tiny" / "SoD-2-split0.json"
    path.parent.mkdir()
    path.write_text("{")
    with pytest.raises(InputError, match="Remove it"):
        run(request(splits=[0]), tmp_path, QUICK)


def test_options_are_checked():
    for changes in ({"jobs": 0}, {"history_every": 75}):
        with pytest.raises(SodgpError):
            Options(**changes)
