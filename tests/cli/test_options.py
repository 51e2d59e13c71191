"""Flags and config files against the estimator: nothing forgotten, nothing silently ignored."""

from __future__ import annotations

import importlib.util
import inspect
import re
import shlex
from pathlib import Path

import pytest
import torch
from typer.main import get_command

from sodgp import DSVI, SGHMC, Checkpoint, DeepGPRegressor, SoD, Tuning
from sodgp.cli import app
from sodgp.cli.group import ExitCode
from sodgp.cli.options import FLAG, INFERENCES, KERNELS, LIKELIHOODS, NO_FLAG, OPTIONS, SUBSETS, as_arguments
from sodgp.errors import ConfigurationError
from sodgp.estimator.options.fields import EFFORTS, METHODS
from sodgp.estimator.options.fields import LIKELIHOODS as LIBRARY_LIKELIHOODS
from sodgp.inference.sod import ALL_LABELS_ROWS, MANY_ROWS, OBJECTIVES
from sodgp.kernels.make import KERNEL_NAMES
from sodgp.linalg.cholesky import Jitter
from sodgp.selectors import SELECTORS

DOCS = Path(__file__).parents[2] / "docs"


DEFAULTS = {name: p.default for name, p in inspect.signature(DeepGPRegressor).parameters.items()}


OBJECTS = {
    "inference": [method() for method in METHODS.values()],
    "likelihood": [likelihood() for likelihood in LIBRARY_LIKELIHOODS.values()],
    "tuning": [Tuning()],
    "checkpoint": [Checkpoint("folder")],
}


def places(name):
    """The objects that have this option, with their values of it."""
    field = "every" if name == "checkpoint_every" else name
    found = [each.get_params() for each in OBJECTS[OPTIONS[name].place]]
    return [params[field] for params in found if field in params]


def default(name):
    """What the library takes where an option is not given."""
    return places(name)[0] if OPTIONS[name].place else DEFAULTS[name]


def test_every_argument_of_the_estimator_has_a_flag_or_a_reason():
    inside = {name for objects in OBJECTS.values() for each in objects for name in each.get_params()}
    inside = inside - {"folder", "every"} | {"checkpoint_every"}  # of Checkpoint
    assert {*OPTIONS, *NO_FLAG, "initialization"} == {*DEFAULTS, *inside}
    assert not set(OPTIONS) & set(NO_FLAG)
    flags = {name for parameter in get_command(app).commands["fit"].params for name in parameter.opts}
    assert {f"--{name.replace('_', '-')}" for name in OPTIONS} <= flags
    assert {"--layers", "--seed", "--threads"} <= flags


def test_choices_are_those_of_the_library():
    assert tuple(METHODS) == INFERENCES
    assert tuple(LIBRARY_LIKELIHOODS) == LIKELIHOODS
    assert set(KERNELS) == set(KERNEL_NAMES)
    assert set(SUBSETS) == set(SELECTORS)
    assert OPTIONS["objective"].choices == OBJECTIVES
    for name, option in OPTIONS.items():
        if option.choices:
            value = default(name)
            assert value in option.choices or (name, value) == ("objective", None)  # None: the rows decide


@pytest.mark.parametrize("name", OPTIONS)
def test_defaults_in_the_help_are_those_of_the_estimator(name):
    option, value = OPTIONS[name], default(name)
    if value is not None and option.kind is not FLAG:
        assert option.kind.read(option.default) == value
        assert option.kind.accepts(value)
    elif option.kind is FLAG:
        assert value is None or isinstance(value, bool)  # None: the data decide


def test_defaults_that_the_library_decides_are_documented_right():
    effort, told = EFFORTS[DEFAULTS["effort"]], {name: option.default for name, option in OPTIONS.items()}
    all_labels, rows = SoD(objective="collapsed"), f"for sod with up to {ALL_LABELS_ROWS:,} rows"
    most, few, small = (all_labels.usual_steps(effort.max_iter, n_rows) for n_rows in (1, ALL_LABELS_ROWS, 160))
    assert small == few
    natural = SoD(natural_gradients=True)
    for_labels = natural.usual_steps(effort.max_iter, 1)
    told_steps = f"{few} {rows} (up to {most} below 160), {for_labels} for other labels, else {effort.max_iter}"
    told_steps += ", or by --effort"
    assert told["max_iter"] == told_steps
    one, more, else_ = all_labels.usual_rate(1), all_labels.usual_rate(2), SoD(objective="bound").usual_rate(2)
    assert told["learning_rate"] == f"{more} {rows} (one layer {one}), classes or counts, else {else_}"
    assert natural.usual_rate(1) == natural.usual_rate(2) == more
    assert told["subset_size"] == f"{effort.subset_size}, or by --effort"
    assert all_labels.usual_batch(effort.subset_size, ALL_LABELS_ROWS, effort.batch_rows) == ALL_LABELS_ROWS
    assert told["batch_size"] == f"all {rows}, else {effort.subset_size + effort.batch_rows}, or by --effort and rows"
    assert told["n_members"] == f"{effort.members}, or by --effort"
    assert told["member_spread"] == f"{SoD().usual_spread(4):.2f} for 4 members"
    single, double = (float(text) for text in re.findall(r"1e-\d", told["jitter"])[::-1])
    assert (single, double) == tuple(Jitter.default(dtype).amount for dtype in (torch.float32, torch.float64))
    words = {True: {"tied", "trained"}, False: {"off"}, None: {f"on; for other noise with {MANY_ROWS} rows"}}
    words[None].add("on for classes, counts and student_t")
    for name, option in OPTIONS.items():
        if option.kind is FLAG:
            assert option.default in words[default(name)]


@pytest.mark.parametrize(
    ("n_rows", "n_layers", "likelihood", "objective", "separate"),
    [
        (ALL_LABELS_ROWS, 2, "gaussian", "leave_one_out", True),
        (ALL_LABELS_ROWS + 1, 2, "gaussian", "predictive", True),
        (MANY_ROWS - 1, 2, "gaussian", "collapsed", True),
        (ALL_LABELS_ROWS, 1, "gaussian", "collapsed", False),
        (ALL_LABELS_ROWS + 1, 1, "gaussian", "bound", False),
        (MANY_ROWS, 2, "poisson", "bound", True),
        (MANY_ROWS, 2, "heavy_tailed", "predictive", True),
        (MANY_ROWS - 1, 2, "poisson", "bound", False),
    ],
)
def test_what_the_rows_decide_is_what_the_help_says(n_rows, n_layers, likelihood, objective, separate):
    told = OPTIONS["objective"].default
    assert told == (
        f"for sod leave_one_out, above {ALL_LABELS_ROWS:,} rows predictive; with one layer or below {MANY_ROWS} rows"
        " collapsed and bound; other noise predictive or bound; classes and counts bound"
    )
    options = LIBRARY_LIKELIHOODS[likelihood]()
    method = SoD().settled(n_rows=n_rows, n_layers=n_layers, kernel="rbf", likelihood=options)
    assert (method.objective, method.separate_kernels) == (objective, separate)


def test_the_page_of_the_command_line_is_up_to_date():
    spec = importlib.util.spec_from_file_location("make_command_line", DOCS / "make_command_line.py")
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    assert maker.main(["--check"]) == 0, "run python docs/make_command_line.py"
    page = maker.PAGE.read_text(encoding="utf-8")
    for code in ExitCode:
        assert re.search(rf"^\| {code.value} \|", page, re.MULTILINE)


@pytest.mark.parametrize(
    "page",
    ["command-line.md", "tables.md", "report.md", "quickstart.md", "scale.md", "classification.md", "../README.md"],
)
def test_commands_of_the_pages_have_these_flags(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    lines = re.findall(r"^sodgp (\w+)(.*)$", text, re.MULTILINE)
    assert lines
    for name, rest in lines:
        command = get_command(app).commands[name]
        command.make_context(name, shlex.split(rest, comments=True))


def test_options_go_to_the_object_that_they_belong_to():
    given = {"n_layers": 2, "coupling": "joint", "outlier_probability": 0.1, "jitter": 1e-5, "checkpoint_every": "2h"}
    arguments = as_arguments({**given, "checkpoint": "runs"})
    assert arguments.pop("n_layers") == 2
    assert arguments.pop("inference") == SoD(coupling="joint")
    assert arguments.pop("tuning") == Tuning(jitter=1e-5)
    assert arguments.pop("checkpoint") == Checkpoint("runs", every="2h")
    assert arguments.pop("likelihood").outlier_probability == 0.1
    assert not arguments
    assert as_arguments({"inference": "sghmc", "thinning": 3}) == {"inference": SGHMC(thinning=3)}
    assert as_arguments({"inference": "dsvi", "likelihood": "gaussian"}) == {
        "inference": "dsvi",
        "likelihood": "gaussian",
    }
    assert as_arguments({"inference": "dsvi", "learn_inducing_inputs": False}) == {
        "inference": DSVI(learn_inducing_inputs=False)
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"inference": "dsvi", "coupling": "joint"}, "coupling is no option of inference='dsvi', but of 'sod'"),
        ({"thinning": 3}, "thinning is no option of inference='sod', but of 'sghmc'"),
        ({"inference": "mean_field", "learn_inducing_inputs": False}, "but of 'dsvi', 'sghmc'"),
        ({"checkpoint_every": 5}, "say where, too"),
        ({"coupling": "loose"}, "choose one of 'ancestral'"),
        ({"inference": "vi", "coupling": "joint"}, "inference='vi' is unknown"),
    ],
)
def test_an_option_of_another_method_is_refused(given, words):
    with pytest.raises(ConfigurationError, match=words):
        as_arguments(given)
