"""Every Python snippet of the README and of the pages runs, page by page, from top to bottom."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# Pages that need a package which is not always there.
EXTRAS = {"docs/botorch.md": "botorch"}


def snippets(page):
    return FENCE.findall((ROOT / page).read_text(encoding="utf-8"))


def pages():
    # The gallery is run from its scripts, by tests/examples.
    found = [
        page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "gallery"
    ]
    return sorted(page for page in ["README.md", *found] if snippets(page))


@pytest.mark.parametrize("page", pages())
def test_the_snippets_of_a_page_run(page, tmp_path, monkeypatch):
    if page in EXTRAS:
        pytest.importorskip(EXTRAS[page])
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "snippet"}
    for number, code in enumerate(snippets(page)):
        if page == "README.md":  # shows the defaults, which train longer than a test may
            code = code.replace("random_state=0", "random_state=0, max_iter=20")
        exec(compile(code, f"{page}, snippet {number + 1}", "exec"), names)


def test_the_main_pages_have_snippets():
    assert {"README.md", "docs/index.md", "docs/quickstart.md", "docs/low-level.md", "docs/shapes.md"} <= set(pages())
