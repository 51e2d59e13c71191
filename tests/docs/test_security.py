"""Every promise of SECURITY.md names tests, and they exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))
PROMISES = [row for row in re.findall(r"^\| (.*) \|$", PAGE, re.MULTILINE) if not row.startswith("promise |")]


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_a_named_test_is_there(file, test):
    assert re.search(rf"^def {test}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("promise", PROMISES)
def test_a_promise_names_a_test(promise):
    assert re.search(r"`tests/[\w/]+\.py::\w+`", promise.rsplit("|", 1)[1])


def test_the_page_has_promises():
    assert len(PROMISES) >= 20
    assert len(NAMED) >= 30
