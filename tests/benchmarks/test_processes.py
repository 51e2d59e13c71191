"""Fresh processes: results with their numbers, one that dies alone, none after the time."""

import math
import os

import pytest
from benchmarks.processes import in_fresh_processes


def test_results_come_with_their_numbers_and_one_that_dies_is_text():
    calls = [(math.sqrt, 4.0), (os._exit, 3)]
    found = dict(in_fresh_processes(_call, calls, jobs=2))
    assert found[0] == 2.0
    assert found[1].startswith("no result: BrokenProcessPool")


def _call(function, argument):
    return function(argument)


def test_none_begins_after_the_time():
    assert list(in_fresh_processes(pytest.fail, [("begun",)], minutes=0.0)) == []
