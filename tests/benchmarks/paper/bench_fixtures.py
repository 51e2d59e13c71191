"""A tiny set under the catalogue's rules, and hand-made cells."""

from __future__ import annotations

import gzip
import hashlib

import numpy as np
import platformdirs
import pytest
from benchmarks.paper.cells import Cell, Key

from sodgp.data import canonical_csv
from sodgp.data.catalogue import CATALOGUE, Entry

COLUMNS = ("a", "b", "c", "y")


def tiny_csv() -> bytes:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = 100 + 10 * np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=60)
    return canonical_csv(COLUMNS, np.column_stack([X, y]))


@pytest.fixture(autouse=True)
def tiny(tmp_path, monkeypatch):
    """The folder that holds the set ``tiny``; nothing else can be loaded or downloaded."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "tiny.csv.gz").write_bytes(gzip.compress(tiny_csv()))
    digest = hashlib.sha256(tiny_csv()).hexdigest()
    monkeypatch.setitem(CATALOGUE, "tiny", Entry("tiny", COLUMNS, 60, digest, no_source="it is a test's"))
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / "cache"))
    monkeypatch.setenv("SODGP_DATA", str(folder))
    return folder


def make_cell(data, method, layers, split, nlpp, *, history=None, **settings):
    """A finished cell with these numbers."""
    chosen = {"protocol": "paper", "source": "program", "method": method, "options": {"max_iter": 20000}}
    results = {"nlpp": nlpp, "rmse": abs(nlpp), "crps": 0.5 * abs(nlpp), "seconds": 1.0}
    origin = {"sodgp": "0.1.0", "commit": "0123456789abcdef", "changed": False}
    return Cell(Key(data, method, layers, split), chosen | settings, split, results, history or {}, origin)
