"""What a request stands for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.paper.cells import Key, differences, read_cell
from benchmarks.paper.protocol import METHODS, PAPER_METHODS, PEERS, Request, numbers

from sodgp import DeepGPRegressor
from sodgp.data import DataSet
from sodgp.errors import ConfigurationError
from sodgp.estimator import presets
from sodgp.estimator.options.configuration import Configuration

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"


def test_the_papers_methods_are_the_presets():
    assert PAPER_METHODS == presets.METHODS


@pytest.mark.parametrize("source", ["program", "text"])
@pytest.mark.parametrize("method", PAPER_METHODS)
def test_protocol_paper_is_the_preset(method, source):
    request = Request("paper", ["energy"], [method], [3], [4], source=source)
    (key,) = request.keys()
    estimator = request.estimator(key)
    expected = presets.paper(3, method, source, random_state=4).get_params()
    assert estimator.get_params() == expected
    assert estimator.max_iter == 20_000
    assert request.settings(key)["options"]["max_iter"] == 20_000


@pytest.mark.parametrize("method", [*PAPER_METHODS, "default"])
def test_protocol_default_is_our_defaults(method):
    request = Request("default", ["energy"], [method], [2], [0])
    (key,) = request.keys()
    estimator = request.estimator(key)
    assert estimator.max_iter == DeepGPRegressor().max_iter
    assert estimator.n_layers == (1 if method == "SVGP" else 2)
    Configuration.from_estimator(estimator)


def test_the_method_default_has_our_settings_in_both_protocols():
    key = Key("energy", "default", 2, 0)
    both = [Request(p, ["energy"], ["default"]).settings(key)["options"] for p in ("paper", "default")]
    assert both[0] == both[1]


def test_settings_leave_out_what_changes_no_number():
    request = Request("paper", ["energy"], ["SoD"], iterations=200)
    options = request.settings(Key("energy", "SoD", 2, 0))["options"]
    assert options["max_iter"] == 200
    assert options["initialization"]["hidden_factor"] == 1e-5
    assert not {"device", "n_threads", "random_state", "verbose", "callbacks"} & set(options)
    assert request.settings(Key("energy", "SoD", 2, 0)) == request.settings(Key("energy", "SoD", 2, 3))


@pytest.mark.parametrize("folder", ["paper", "paper-again", "default"])
def test_committed_cells_have_the_settings_of_todays_program(folder):
    """So the same command goes on with them. One in ten is looked at."""
    seen = 0
    for path in sorted((RESULTS / folder).glob("*/*-split*.json"))[::10]:
        cell = read_cell(path, RESULTS / folder)
        if cell.key.method not in PEERS:
            request = Request(
                cell.settings["protocol"], [cell.key.data], [cell.key.method], source=cell.settings["source"]
            )
            assert differences(request.completed(cell).settings, request.settings(cell.key)) == [], path
            seen += 1
    assert seen


def test_methods_without_depth_run_once():
    keys = Request("default", ["energy"], ["default", "SoD"], splits=[0]).keys()
    assert [(key.method, key.layers) for key in keys] == [("default", 3), ("SoD", 2)]
    keys = Request("paper", ["energy"], ["SVGP", "exact", "SoD"], [1, 2], [0]).keys()
    assert [(key.method, key.layers) for key in keys] == [("SVGP", 1), ("exact", 1), ("SoD", 1), ("SoD", 2)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"methods": ["SOD"]}, "Unknown method 'SOD'. Did you mean 'SoD'"),
        ({"protocol": "ours"}, "Unknown protocol"),
        ({"source": "notes"}, "Unknown source"),
        ({"source": "text", "protocol": "default"}, "--source is of the paper's SoD"),
        ({"layers": [0]}, "at least 1"),
        ({"splits": []}, "at least one"),
    ],
)
def test_bad_requests(changes, message):
    with pytest.raises(ConfigurationError, match=message):
        Request(**{"protocol": "paper", "data": ["energy"], "methods": ["SoD"], **changes})


def test_an_exact_gp_refuses_many_rows():
    big = DataSet("big", np.zeros((3000, 1)), np.zeros(3000), ("a",), "y")
    request = Request("paper", ["big"], ["exact"])
    with pytest.raises(ConfigurationError, match="at most 2,000 training rows, and big has 2,700"):
        request.refuse_impossible(request.keys(), {"big": big})
    request.refuse_impossible([], {"big": big})  # nothing is left to do


def test_numbers():
    assert numbers("--splits", "0-4") == [0, 1, 2, 3, 4]
    assert numbers("--splits", "3, 1,1") == [3, 1]
    for text in ("a", "-1", "1-", "1.5"):
        with pytest.raises(ConfigurationError, match="--splits"):
            numbers("--splits", text)
    assert len(set(METHODS)) == 10
