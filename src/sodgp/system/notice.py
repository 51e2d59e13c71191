"""Warnings at the line of the user's own code, however deep in the package their cause is found."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

__all__ = ["warn_user"]

_PACKAGE = str(Path(__file__).resolve().parents[1])


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn where the package was entered: at the nearest caller outside it.

    Examples
    --------
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     warn_user("a column is constant", UserWarning)
    >>> print(seen[0].message)
    a column is constant
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
