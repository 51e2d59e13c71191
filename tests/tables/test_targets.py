"""Targets of a table as numbers."""

import re

import numpy as np
import pytest

from sodgp.errors import InputError
from sodgp.tables.frames import of_objects
from sodgp.tables.targets import target_of


@pytest.mark.parametrize(
    ("values", "missing", "numbers"),
    [
        ([1, None, 2.5], [], [1, np.nan, 2.5]),
        (["1,5", "", "2"], [], [1.5, np.nan, 2]),
        (["$1,200", "$900", "n/a", "$10.5"], [], [1200, 900, np.nan, 10.5]),
        ([1, -999, 3], ["-999"], [1, np.nan, 3]),
        (["1", "lost", "3"], ["LOST"], [1, np.nan, 3]),
        ([True, False], [], [1, 0]),
        ([None, None], [], [np.nan, np.nan]),
    ],
)
def test_targets(values, missing, numbers):
    np.testing.assert_array_equal(target_of(of_objects("y", values), missing), numbers)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            ["low", "high", "low"],
            "holds text instead of numbers, such as 'low' in row 1 below the header. Classes need",
        ),
        (["1", "2", "x", "4", "y"], "'y' holds 'x' in row 3, 'y' in row 5, not a number"),
        ([1.0, np.inf], "'y' holds 'inf' in row 2, not a number"),
        ([np.datetime64("2020-01-01")], "holds dates"),
    ],
)
def test_what_is_no_target(values, message):
    with pytest.raises(InputError, match=re.escape(message)):
        target_of(of_objects("y", values))
