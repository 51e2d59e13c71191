"""Warnings point at the user's line, however deep their cause."""

import warnings

from sodgp.estimator.targets import warn_of_single_rows
from sodgp.system.notice import warn_user


def test_a_warning_points_at_the_nearest_caller_outside_the_package():
    import numpy as np

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warn_user("here", UserWarning)
        warn_of_single_rows(np.array(["a"]), np.array([1]))
    assert [each.filename for each in seen] == [__file__] * 2
