"""The command line: what it writes, what it says, and its exit codes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sodgp
from sodgp import DeepGPRegressor
from sodgp.system import progress as terminal
from sodgp.system.container import read_record
from sodgp.training.history import TrainingState

QUICK = ["--max-iter", "3", "--subset-size", "10"]


def test_fit_predict_info(go, table, tmp_path):
    result = go("fit", "data.csv", "--target", "y", "--out", "model/", *QUICK)
    for word in ("rows", "parameters", "collapsed", "nats after 3 steps", "seconds", "saved to"):
        assert word in result.stdout
    table[["b", "a"]].to_csv("new.csv", index=False)  # another order of the columns
    result = go("predict", "model/", "new.csv", "--out", "p.csv", code=1)
    assert "'z'" in result.stderr  # z was an input
    table[["z", "b", "a", "y"]].assign(id=1).to_csv("new.csv", index=False)
    result = go("predict", "model/", "new.csv", "--out", "p.csv")
    assert "column 'y' is the target; ignored" in result.stderr
    assert "column 'id' is no input" in result.stderr
    found = pd.read_csv("p.csv")
    assert list(found)[:5] == ["z", "b", "a", "y", "id"]
    assert list(found)[5:] == ["y_mean", "y_std", "y_q0.05", "y_q0.5", "y_q0.95"]
    mean, std = DeepGPRegressor.load("model").predict(table[["a", "b", "z"]], return_std=True)
    np.testing.assert_allclose(found["y_mean"], mean, rtol=1e-12)
    np.testing.assert_allclose(found["y_std"], std, rtol=1e-12)
    assert (found["y_q0.05"] < found["y_q0.5"]).all()
    assert (found["y_q0.5"] < found["y_q0.95"]).all()
    assert "3 (a, b, z)" in go("info", "model").stdout


def test_options_reach_the_model_and_the_seed_counts(go, table):
    options = [
        "--layers",
        "3",
        "--hidden-width",
        "2",
        "--subset",
        "random",
        "--kernel",
        "matern32",
        "--dtype",
        "float32",
    ]
    options += ["--learning-rate", "0.02", "--batch-size", "20", "--quiet"]
    options += ["--device", "cpu", "--threads", "1"]
    for out, seed in (("m1", 5), ("m2", 5), ("m3", 6)):
        assert not go("fit", "data.csv", "--target", "y", "--out", out, "--seed", seed, *options, *QUICK).output
    models = [DeepGPRegressor.load(out) for out in ("m1", "m2", "m3")]
    wanted = {"n_layers": 3, "hidden_width": 2, "subset": "random", "kernel": "matern32", "dtype": "float32"}
    assert wanted.items() <= models[0].get_params().items()
    assert (models[0].learning_rate, models[0].batch_size, models[0].max_iter) == (0.02, 20, 3)
    first, same, other = (model.predict(table[["a", "b", "z"]]) for model in models)
    assert (first == same).all()
    assert (first != other).any()


def test_an_effort_on_the_command_line_wins_over_what_it_stands_for_in_a_file(go, table, tmp_path):
    (tmp_path / "c.toml").write_text("max_iter = 7\nsubset_size = 5\nbatch_size = 9\nn_layers = 1\nn_members = 2\n")
    arguments = ("fit", "data.csv", "--config", "c.toml", "--target", "y", "--out", "m", "--quiet")
    go(*arguments)
    model = DeepGPRegressor.load("m")
    assert (model.max_iter, model.subset_size, model.batch_size, model.n_members) == (7, 5, 9, 2)
    go(*arguments, "--effort", "quick", "--max-iter", "3")
    model = DeepGPRegressor.load("m")
    assert (model.max_iter, model.subset_size, model.batch_size, model.n_members) == (3, None, None, None)
    assert model.n_layers == 1


def test_warnings_are_one_line(go, table):
    result = go("fit", "data.csv", "--target", "y", "--out", "m", "--max-iter", "2", "--subset-size", "99", "--quiet")
    assert result.stderr.startswith("Warning: subset_size=99 is more than the 30 rows")
    assert result.stderr.count("\n") == 1


def test_a_model_is_replaced_and_nothing_else(go, table, tmp_path):
    go("fit", "data.csv", "--target", "y", "--out", "model", *QUICK)
    go("fit", "data.csv", "--target", "z", "--out", "model", *QUICK)
    assert read_record(tmp_path / "model").info["target_names"] == ["z"]
    content = (tmp_path / "data.csv").read_bytes()
    # A million steps: refused before training, not after.
    result = go("fit", "data.csv", "--target", "y", "--out", "data.csv", "--max-iter", "1000000", code=1)
    assert "not a sodgp model and is not overwritten" in result.stderr
    assert (tmp_path / "data.csv").read_bytes() == content


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["missing.csv"], 1, "missing.csv does not exist"),
        (["empty.csv"], 1, "empty.csv is empty"),
        (["header.csv"], 1, "no rows"),
        (["data.xlsx"], 1, "cannot tell what kind of table"),
        (["data.csv", "--target", "Y1"], 1, "no column 'Y1'"),
        (["text.csv", "--columns", "colour:paint"], 2, "'colour' cannot be 'paint'; choose one of 'auto', 'number'"),
        (["text.csv", "--columns", "colour"], 2, "must be NAME:KIND, such as price:drop"),
        (["text.csv", "--columns", "hue:category"], 1, "columns names 'hue', but the table has"),
        (["text.csv", "--columns", "colour:number"], 1, "'colour' holds 'red' in row 1, 'red' in row 2"),
        (["text.csv", "--drop", "colour", "--drop", "form"], 1, "no column 'form'"),
        (["data.csv", "--drop", "y"], 2, "'y' cannot be the target and be dropped"),
        (["data.csv", "--drop", "a", "--drop", "b", "--drop", "z"], 1, "No column is left as an input"),
        (["texty.csv"], 1, "needs at least two classes; all 30 rows of y have one class, 'high'"),
        (["texty.csv", "--task", "regression"], 1, "'y' holds text instead of numbers, such as 'high' in row 1"),
        (["data.csv", "--task", "counts"], 1, "is of counts, 0, 1, 2, ..., and y is"),
        (
            ["data.csv", "--task", "guess"],
            2,
            "--task guess is unknown; choose one of regression",
        ),
        (["data.csv", "--task", "counts", "--likelihood", "softmax"], 2, "which is for classification"),
        (["texty.csv", "--outlier-probability", "0.1"], 2, "no option of the likelihoods of classes"),
        (["stray.csv"], 1, "'b' holds 'none at all' in row 21, not a number. Correct such cells"),
        (["comma.csv", "--decimal", "x"], 2, "the decimal sign must be '.' or ','"),
        (["gaps.csv"], 1, "no row has a target; every cell of 'y' is missing"),
        (["data.csv", "--kernel", "foo"], 2, "choose one of 'rbf'"),
        (["data.csv", "--subset", "foo"], 2, "choose one of 'kmeans'"),
        (["data.csv", "--inference", "foo"], 2, "choose one of 'sod'"),
        (["data.csv", "--dtype", "int8"], 2, "choose one of 'float64'"),
        (["data.csv", "--device", "toaster"], 2, "'auto', 'cpu' or 'cuda'"),
        (["data.csv", "--layers", "0"], 2, "n_layers must be an integer of at least 1"),
        (["data.csv", "--max-iter", "-3"], 2, "max_iter must be"),
        (["data.csv", "--learning-rate", "-1"], 2, "learning_rate must be a positive number"),
        (["data.csv", "--batch-size", "5"], 2, "batch_size=5"),
        (["data.csv", "--layers", "two"], 2, "n_layers must be an integer, not 'two'"),
        (["data.csv", "--unknown"], 2, "No such option"),
        (["data.csv", "--inference", "dsvi", "--coupling", "joint"], 2, "no option of inference='dsvi', but of 'sod'"),
    ],
)
def test_bad_input_to_fit(go, table, tmp_path, arguments, code, message):
    (tmp_path / "empty.csv").touch()
    (tmp_path / "header.csv").write_text("a,y\n")
    table.assign(colour="red", shape="round").to_csv("text.csv", index=False)
    table.assign(y="high").to_csv("texty.csv", index=False)
    table.assign(y="n/a").to_csv("gaps.csv", index=False)
    strays = table["b"].astype(object).mask(table.index == 7, "?").mask(table.index == 20, "none at all")
    table.assign(b=strays).to_csv("stray.csv", index=False)
    table.assign(b=[1 if row == 0 else f"{row},5" if row > 1 else "0,5" for row in range(30)]).to_csv(
        "comma.csv", index=False, sep=";"
    )
    target = [] if "--target" in arguments else ["--target", "y"]
    result = go("fit", *arguments, *target, "--out", "model", *([] if "--max-iter" in arguments else QUICK), code=code)
    assert message in result.stderr
    assert not (tmp_path / "model").exists()
    if code == 1 or "must" in message or "choose" in message:
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere", "data.csv", "--out", "p.csv"], 1, "nowhere does not exist"),
        (["data.csv", "data.csv", "--out", "p.csv"], 1, "not a sodgp model"),
        (["model", "missing.csv", "--out", "p.csv"], 1, "missing.csv does not exist"),
        (["model", "few.csv", "--out", "p.csv"], 1, "lacks input columns of the model: 'b', 'z'"),
        (["model", "gaps.csv", "--out", "p.csv"], 1, "missing or infinite values in 'a', first in row 1"),
        (["model", "data.csv", "--out", "p.docx"], 2, "must end in one of .csv"),
        (["model", "data.csv", "--out", "data.csv"], 2, "name another file"),
        (["model", "data.csv", "--out", "p.csv", "--quantiles", "5,95"], 2, "between 0 and 1"),
        (["model", "data.csv", "--out", "p.csv", "--quantiles", "low"], 2, "between 0 and 1"),
        (["model", "data.csv", "--out", "p.csv", "--quantiles", "0.05,0.5,0.050"], 2, "names 0.05 more than once"),
    ],
)
def test_bad_input_to_predict(go, table, tmp_path, arguments, code, message):
    DeepGPRegressor(max_iter=2, random_state=0).fit(table[["a", "b", "z"]], table["y"]).save("model")
    table[["a"]].to_csv("few.csv", index=False)
    table.assign(a=np.inf).to_csv("gaps.csv", index=False)
    before = (tmp_path / "data.csv").read_bytes()
    assert message in go("predict", *arguments, code=code).stderr
    assert not (tmp_path / "p.csv").exists()
    assert (tmp_path / "data.csv").read_bytes() == before


def test_help_and_version(go):
    assert go("--version").stdout == f"sodgp {sodgp.__version__}\n"
    for command in ([], ["demo"], ["fit"], ["predict"], ["evaluate"], ["info"]):
        assert "xample" in go(*command, "--help").stdout


def test_the_library_is_imported_without_what_only_programs_need():
    code = "import sys; sys.modules.update(dict.fromkeys(['typer', 'rich', 'matplotlib', 'pandas'])); import sodgp"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_config_file_and_flags_that_win(go, table, tmp_path):
    (tmp_path / "fit.toml").write_text(
        'data = "data.csv"\ntarget = ["y"]\nout = "model"\nn_layers = 1\nmax_iter = 2\nsubset_size = "auto"\n'
        "random_state = 3\nverbose = false\n"
    )
    assert not go("fit", "--config", "fit.toml").output
    # As editors on Windows write it.
    (tmp_path / "bom.toml").write_text((tmp_path / "fit.toml").read_text(), encoding="utf-8-sig")
    assert not go("fit", "--config", "bom.toml").output
    model = DeepGPRegressor.load("model")
    assert (model.n_layers, model.max_iter, model.subset_size, model.random_state) == (1, 2, "auto", 3)
    go(
        "fit",
        "--config",
        "fit.toml",
        "--max-iter",
        "3",
        "--out",
        "other",
        "--no-tie-label-noise",
        "--n-threads",
        "none",
    )
    model = DeepGPRegressor.load("other")
    assert (model.n_layers, model.max_iter, model.inference.tie_label_noise, model.n_threads) == (1, 3, False, None)
    assert model.target_names_.tolist() == ["y"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "sodgp fit needs a table"),
        (["data.csv"], "sodgp fit needs --target"),
        (["data.csv", "--target", "y"], "sodgp fit needs --out"),
        (["data.csv", "--config", "none.toml"], "none.toml cannot be read"),
    ],
)
def test_what_fit_needs(go, table, arguments, message):
    result = go("fit", *arguments, code=2)
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_json_of_fit_info_and_predict(go, table):
    fitted = json.loads(go("fit", "data.csv", "--target", "y", "--out", "m", "--json", *QUICK).stdout)
    assert fitted["saved_to"] == "m"
    assert (fitted["rows"], fitted["subset_rows"], fitted["inputs"]) == (30, 10, ["a", "b", "z"])
    about = json.loads(go("info", "m", "--json").stdout)
    assert about["options"]["max_iter"] == 3
    assert about["noise_std"]["y"] > 0
    printed = json.loads(go("predict", "m", "data.csv", "--json").stdout)
    assert printed["rows"] == len(printed["predictions"]["y_mean"]) == 30
    written = json.loads(go("predict", "m", "data.csv", "--json", "--out", "p.csv").stdout)
    columns = ["y_mean", "y_std", "y_q0.05", "y_q0.5", "y_q0.95"]
    assert written == {"rows": 30, "columns": columns, "written_to": "p.csv"}
    lines = go("predict", "m", "data.csv").stdout.splitlines()
    assert (len(lines), lines[0]) == (31, ",".join(["a", "b", "y", "z", *columns]))


def test_info_shows_what_was_decided_from_the_data(go, table):
    go("fit", "data.csv", "--target", "y", "--out", "m", "--quiet", *QUICK)
    lines = go("info", "m").stdout.splitlines()
    shown = dict(re.split(r" {2,}", line, maxsplit=1) for line in lines)
    assert shown["objective"] == "collapsed"
    assert "nats after 3 steps" in shown["value"]
    assert shown["rows"] == "30, 10 in the subset"
    assert shown["outliers"] == "0 of the probability of a prediction"
    assert "for each output of the first layer" in shown["method"]
    about = json.loads(go("info", "m", "--json").stdout)
    assert (about["objective"], about["separate_kernels"], about["likelihood"]) == ("collapsed", True, "gaussian")
    go("fit", "data.csv", "--target", "y", "--out", "b", "--quiet", "--objective", "bound", *QUICK)
    shown = dict(re.split(r" {2,}", line, maxsplit=1) for line in go("info", "b").stdout.splitlines())
    assert shown["objective"] == "bound"
    assert "nats after 3 steps" in shown["bound"]
    assert "for each output" not in shown["method"]
    options = ["--objective", "predictive", "--separate-kernels", "--likelihood", "heavy_tailed", "--n-members", "2"]
    go("fit", "data.csv", "--target", "y", "--out", "n", "--quiet", *options, *QUICK)
    lines = go("info", "n").stdout.splitlines()
    shown = dict(re.split(r" {2,}", line, maxsplit=1) for line in lines)
    assert shown["objective"] == "predictive"
    assert shown["outliers"].startswith("0.0323 of")
    assert shown["members"].startswith("2, ")
    assert "for each output of the first layer" in shown["method"]
    assert "heavy_tailed" in shown["method"]


def test_ctrl_c_in_training_saves_what_there_is(go, table, monkeypatch):
    def interrupt(state):
        raise KeyboardInterrupt

    monkeypatch.setattr("sodgp.cli.program.progress", lambda *_, **__: contextlib.nullcontext(lambda _: interrupt))
    result = go("fit", "data.csv", "--target", "y", "--out", "m", *QUICK, code=130)
    assert "Warning: training was interrupted at iteration 1" in result.stderr
    assert DeepGPRegressor.load("m").history_.stopped == "interrupted"


def test_progress_in_a_log_is_plain_lines(capsys, monkeypatch):
    monkeypatch.setattr(terminal, "LOG_SECONDS", 0.0)
    with terminal.progress(2, "fits") as begin:
        for name in ("one", "two"):
            advance = begin(name)
            for iteration in (5, 10):
                advance(TrainingState(iteration, 10, -1.25, {}, 0.0, 0.1, None))
    captured = capsys.readouterr()
    assert not captured.out
    lines = captured.err.splitlines()
    assert [line.split(", about")[0] for line in lines] == [
        "one: 25 %, bound -1.2",
        "one: 50 %, bound -1.2",
        "two: 75 %, bound -1.2",
    ]
    assert all(character.isprintable() for line in lines for character in line)
    with terminal.progress(2, "fits", shown=False) as begin:
        begin("one")(TrainingState(5, 10, -1.25, {}, 0.0, 0.1, None))
    assert not capsys.readouterr().err


def test_progress_in_a_terminal_is_a_bar(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", screen)
    with terminal.progress(1, "fits") as begin:
        begin("one")(TrainingState(20, 20, -1.25, {}, 0.0, 0.1, None))
    assert "one" in screen.getvalue()
    assert "100%" in screen.getvalue()
    assert "bound -1.2" in screen.getvalue()
    assert "\r" in screen.getvalue()


def program(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "sodgp", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_the_shell_completes_commands_options_and_values():
    def complete(words):
        return program(_SODGP_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS=words).stdout

    assert "evaluate" in complete("sodgp ev")
    assert "--subset-size" in complete("sodgp fit --subset")
    assert "matern52-iso" in complete("sodgp fit --kernel matern52")


def test_a_terminal_without_some_signs_loses_nothing(go, table):
    table.rename(columns={"y": "λ", "z": "μ"}).to_csv("data.csv", index=False)
    go("fit", "data.csv", "--target", "λ", "--target", "μ", "--out", "model/", *QUICK)
    done = program("evaluate", "model/", "data.csv", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "R\\xb2" in done.stdout
    done = program("info", "model/", "--json", PYTHONIOENCODING="cp1252")
    assert json.loads(done.stdout)["targets"] == ["λ", "μ"]
    assert program("fit", "--help", PYTHONIOENCODING="ascii").returncode == 0


def test_help_does_not_wait_for_pytorch():
    code = "import sys; from sodgp.cli import app; assert not {'torch', 'sklearn', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_package_imports_its_names_on_demand():
    assert dir(sodgp) == sorted(sodgp.__all__)
    assert {"DeepGPRegressor", "evaluate", "write_report"} <= set(dir(sodgp))
    assert sodgp.plots.plot_fit
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = sodgp.nothing


def test_a_checkpoint_is_resumed_and_of_other_options_refused(go, table):
    fit = ["fit", "data.csv", "--target", "y", "--out", "m.sodgp", "--checkpoint", "ckpt", "--checkpoint-every", "2"]
    first = go(*fit, "--resume", *QUICK)
    assert "Warning: there is no checkpoint in ckpt to resume from" in first.stderr
    assert "safeguards  none needed" in first.stdout
    before = DeepGPRegressor.load("m.sodgp").predict(table[["a", "b", "z"]])
    go(*fit, "--resume", *QUICK)
    np.testing.assert_array_equal(DeepGPRegressor.load("m.sodgp").predict(table[["a", "b", "z"]]), before)
    assert "n_layers=None then, 2 now" in go(*fit, "--resume", "--layers", "2", *QUICK, code=1).stderr
    assert "set checkpoint" in go("fit", "data.csv", "--target", "y", "--out", "n.sodgp", "--resume", code=2).stderr


def test_a_config_file_names_the_folder_of_checkpoints(go, table, tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "fit.toml").write_text(
        'data = "../data.csv"\ntarget = "y"\nout = "m"\nn_layers = 1\nmax_iter = 2\ncheckpoint = "ckpt"\n'
        "checkpoint_every = 1\n"
    )
    go("fit", "--config", "deep/fit.toml")
    assert {path.name for path in (tmp_path / "deep").iterdir()} == {"fit.toml", "m", "ckpt"}
    assert not (tmp_path / "ckpt").exists()


def test_how_often_needs_where(go, table):
    said = go("fit", "data.csv", "--target", "y", "--out", "m", "--checkpoint-every", "2", *QUICK, code=2).stderr
    assert "say where, too, with --checkpoint" in said


def test_patience_ends_training_on_held_out_rows(go, table):
    table.assign(y=np.random.default_rng(1).normal(size=30)).to_csv("data.csv", index=False)  # nothing to learn
    options = ["--validation-fraction", "0.3", "--patience", "1", "--layers", "1", "--subset-size", "5", "--json"]
    # The objectives of all labels fall back to the noise alone by ever smaller steps, each a little better.
    options += ["--objective", "bound"]
    common = ["fit", "data.csv", "--target", "y", "--out", "m.sodgp", "--max-iter", "400", "--max-minutes", "5"]
    about = json.loads(go(*common, *options).stdout)
    assert about["stopped"] == "callback"
    assert about["rows"] == 21
    (Path("fit.toml")).write_text('data = "data.csv"\ntarget = "y"\nout = "n.sodgp"\npatience = 0\n')
    assert "patience must be" in go("fit", "--config", "fit.toml", code=2).stderr


def test_weights_of_rows_are_a_column(go, table, tmp_path):
    weight = [0.0, *[1.5] * (len(table) - 1)]
    table.assign(w=weight).to_csv("weighted.csv", index=False)
    result = go("fit", "weighted.csv", "--target", "y", "--weight", "w", "--out", "m.sodgp", *QUICK)
    model = DeepGPRegressor.load("m.sodgp")
    assert model.fitted_.n_left_out == 1
    assert "w" not in model.feature_names_in_
    assert str(len(table) - 1) in result.stdout
    plain, weighted = (
        json.loads(go("evaluate", "m.sodgp", "weighted.csv", "--json", "--bootstrap", "0", *more).stdout)
        for more in ([], ["--weight", "w"])
    )
    assert plain["targets"]["y"]["rmse"] != weighted["targets"]["y"]["rmse"]
    go("report", "m.sodgp", "weighted.csv", "--weight", "w", "--out", "r.html")
    result = go("report", "m.sodgp", "weighted.csv", "--cv", "2", "--out", "r.html", code=2)
    assert "give the weights again" in result.stderr
    for bad, said in (("q", "is no column"), ("y", "is also the target")):
        result = go("fit", "weighted.csv", "--target", "y", "--weight", bad, "--out", "n.sodgp", code=2)
        assert said in result.stderr
    assert "an input of the model" in go("evaluate", "m.sodgp", "weighted.csv", "--weight", "a", code=2).stderr
    table.assign(w=["many", *weight[1:]]).to_csv("weighted.csv", index=False)
    result = go("fit", "weighted.csv", "--target", "y", "--weight", "w", "--out", "n.sodgp", code=1)
    assert "'w' holds 'many'" in result.stderr
