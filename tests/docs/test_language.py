"""The README is one screen and a half, pages are short, and phrases that readers stumbled over stay away."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_WORDS = {"README.md": 700}
# Looked up, not read from end to end.
REFERENCE = {"accuracy", "command-line", "methods", "results", "scale", "speed", "troubleshooting"}
FORBIDDEN = (
    r"\btold\b",
    r"on a processor",
    r"\bstands? beside",
    r"\bdrawn in\b(?! proportion)",
    r"the way back",
    r"\bmay spend\b",
    r"\blaws?\b",
    r"\bdearer\b",
)


def pages():
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "gallery").glob("*.md")]
    return sorted(page.relative_to(ROOT).as_posix() for page in found)


def words(text):
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    return sum(bool(re.search(r"\w", word)) for word in text.split())


@pytest.mark.parametrize("page", pages())
def test_a_page_that_is_no_reference_is_short(page):
    path = ROOT / page
    if path.stem in REFERENCE or path.parent.name == "gallery" or page in ("CHANGELOG.md", "SECURITY.md"):
        return
    text = path.read_text(encoding="utf-8")
    if page != "README.md":
        text = re.sub(r"<details.*?</details>|^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert words(text) <= MOST_WORDS.get(page, 1500)


@pytest.mark.parametrize("page", pages())
def test_a_page_has_no_phrase_of_the_list(page):
    if page == "CHANGELOG.md":  # says what was
        return
    text = re.sub(r"```.*?^```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found = [match[0] for phrase in FORBIDDEN for match in re.finditer(phrase, text, re.IGNORECASE)]
    assert not found
