"""Every Python snippet of the pages runs, page by page, from top to bottom."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ["index.md", "quickstart.md", "choosing.md", "shapes.md", "low-level.md", "plots.md"]


def snippets(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_the_snippets_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = snippets(page)
    assert found
    names = {"__name__": "snippet"}
    for number, code in enumerate(found):
        exec(compile(code, f"{page}, snippet {number + 1}", "exec"), names)
