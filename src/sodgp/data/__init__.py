"""Data: sources of rows that need not fit into memory, the benchmark sets of the paper, its splits, synthetic sets."""

from __future__ import annotations

import os

from sodgp.data.catalogue import find, names
from sodgp.data.dataset import DataSet
from sodgp.data.download import DataUnavailableError, obtain
from sodgp.data.local import cache_dir, canonical_csv, load_from, search_folders
from sodgp.data.sources import Source, open_rows
from sodgp.data.splits import paper_split
from sodgp.data.synthetic import step

__all__ = [
    "DataSet",
    "DataUnavailableError",
    "Source",
    "canonical_csv",
    "load",
    "names",
    "open_rows",
    "paper_split",
    "step",
]


def load(name: str, data_dir: str | os.PathLike[str] | None = None) -> DataSet:
    """Load a benchmark set in its original units and row order.

    It is searched for in `data_dir`, in the folder named by the environment variable ``SODGP_DATA``, and in the user's
    cache, as ``NAME.csv.gz`` (``year``: ``YearPredictionMSD.txt`` or UCI's ``yearpredictionmsd.zip``); if it is in
    none, it is downloaded from UCI into the cache. Every time the table's checksum is verified; for ``year`` the shape
    and that all values are finite.

    Parameters
    ----------
    name : str
        One of `names`. ``boston_authors`` is the damaged file that gave the published Boston numbers; compare with the
        paper on that one only.
    data_dir : path or None
        Folder to look in first.

    Raises
    ------
    ConfigurationError
        No set has that name.
    InputError
        A file is there but damaged, a named folder does not exist, or a package that reads UCI's file is missing.
    DataUnavailableError
        The set is in none of the folders and could not be downloaded.

    Examples
    --------
    >>> from sodgp.data import load
    >>> load("bostn")
    Traceback (most recent call last):
    sodgp.errors.ConfigurationError: Unknown data set 'bostn'. Did you mean 'boston'? Known sets: ...
    """
    entry = find(name)
    for folder in search_folders(data_dir):
        data = load_from(folder, entry)
        if data is not None:
            return data
    return obtain(entry, cache_dir())
