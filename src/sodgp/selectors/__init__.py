"""Subset selectors: which rows of the data become the inducing points.

One file each, one interface: ``select(X, y, size, kernel, generator) -> indices``.
"""

from __future__ import annotations

from typing import Final

from sodgp.errors import ConfigurationError
from sodgp.selectors.base import Selector
from sodgp.selectors.dpp import DPP
from sodgp.selectors.greedy_variance import GreedyVariance
from sodgp.selectors.kmeans import KMeans
from sodgp.selectors.leverage import Leverage
from sodgp.selectors.random import Random
from sodgp.selectors.rp_cholesky import RPCholesky

SELECTORS: Final[dict[str, type[Selector]]] = {
    "kmeans": KMeans,
    "random": Random,
    "greedy_variance": GreedyVariance,
    "rp_cholesky": RPCholesky,
    "leverage": Leverage,
    "dpp": DPP,
}
"""Name -> class of every selector that can be asked for by name."""

__all__ = [
    "DPP",
    "SELECTORS",
    "GreedyVariance",
    "KMeans",
    "Leverage",
    "RPCholesky",
    "Random",
    "Selector",
    "get_selector",
]


def get_selector(name_or_object: str | Selector) -> Selector:
    """The selector of that name in ``SELECTORS`` with its default options, or the object itself.

    Raises
    ------
    ConfigurationError
        The name is unknown (the message lists the known ones), or the object has no method ``select``.

    Examples
    --------
    >>> import torch
    >>> X = torch.linspace(-1, 1, 50, dtype=torch.float64)[:, None]
    >>> get_selector("kmeans").select(X, None, 5, None, torch.Generator().manual_seed(0)).shape
    torch.Size([5])
    """
    if isinstance(name_or_object, str):
        if name_or_object not in SELECTORS:
            known = ", ".join(repr(name) for name in SELECTORS)
            raise ConfigurationError(f"Unknown subset selector {name_or_object!r}; choose one of {known}.")
        return SELECTORS[name_or_object]()
    if isinstance(name_or_object, type) or not isinstance(name_or_object, Selector):
        raise ConfigurationError(
            f"{name_or_object!r} is not a subset selector: it must be a name or an object with a method "
            "select(X, y, size, kernel, generator)."
        )
    return name_or_object
