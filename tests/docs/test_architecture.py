"""The page of the architecture and its picture know every room, and no other."""

import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def maker():
    pytest.importorskip("grimp")
    spec = importlib.util.spec_from_file_location("make_architecture", DOCS / "make_architecture.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rooms(maker):
    return sorted(room for row in maker.layers() for room in row)


def test_the_picture_has_every_room_once(maker, rooms):
    assert sorted(room for band in maker.BANDS.values() for room in band) == rooms
    assert sorted(maker.ROLES) == rooms


def test_the_rooms_are_those_of_the_package(rooms):
    package = DOCS.parent / "src" / "sodgp"
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    assert {*rooms} == {*folders, "errors"}


def test_the_page_names_every_room(rooms):
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)(?:/[^`]*|\.py)?`", page))
    assert set(rooms) <= named, sorted(set(rooms) - named)


def test_no_room_imports_one_above(maker):
    height = {room: index for index, row in enumerate(maker.layers()) for room in row}
    for room, others in maker.imports().items():
        assert all(height[other] > height[room] for other in others), room
