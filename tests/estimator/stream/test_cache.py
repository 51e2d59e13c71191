"""Entries of a cache are whole or not there, and each is written once."""

import json
import threading

import pytest

from sodgp.errors import InputError
from sodgp.estimator.stream.cache import Place, place_of


def test_an_entry_is_built_once_for_its_key(tmp_path):
    built = []

    def build(folder):
        built.append(folder)
        (folder / "rows").write_bytes(b"123")
        return {"count": len(built)}

    place = Place(tmp_path / "cache")
    first, about = place.entry({"a": 1}, build)
    assert (first / "rows").read_bytes() == b"123"
    assert place.entry({"a": 1}, build) == (first, about)
    assert place.entry({"a": 2}, build)[1] == {"count": 2}
    assert len(list(place.folder.iterdir())) == 2


def test_an_entry_whose_description_is_damaged_is_built_again(tmp_path):
    place = Place(tmp_path)
    folder, _ = place.entry({}, lambda folder: {"n": 1})
    (folder / "about.json").write_text("{")
    assert place.entry({}, lambda folder: {"n": 2}) == (folder, {"n": 2})
    assert json.loads((folder / "about.json").read_text()) == {"n": 2}


def test_what_fails_or_was_killed_leaves_nothing(tmp_path):
    place = Place(tmp_path)
    dead = tmp_path / "0123.building"
    dead.mkdir()
    (dead / "bucket-0").write_bytes(b"1")

    def fail(folder):
        (folder / "rows").write_bytes(b"1")
        raise InputError("bad rows")

    with pytest.raises(InputError, match="bad rows"):
        place.entry({}, fail)
    assert not list(tmp_path.iterdir())


def test_two_fits_build_one_entry(tmp_path, monkeypatch):
    monkeypatch.setattr("sodgp.estimator.stream.cache._WAIT_SECONDS", 0.01)
    began, may_end, built, found = threading.Event(), threading.Event(), [], []

    def build(folder):
        built.append(folder)
        began.set()
        may_end.wait(30)
        return {}

    threads = [threading.Thread(target=lambda: found.append(Place(tmp_path).entry({}, build))) for _ in range(2)]
    threads[0].start()
    assert began.wait(30)
    threads[1].start()
    may_end.set()
    for thread in threads:
        thread.join(30)
    assert len(built) == 1
    assert found[0] == found[1]


def test_a_temporary_place_is_removed():
    with place_of(None) as place:
        entry, _ = place.entry({}, lambda folder: {})
        assert entry.is_dir()
    assert not place.folder.exists()
