"""The documentation site: it builds without a warning, offline, and its formulas are formulas."""

import doctest
import importlib.util
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from test_public_names import public

import sodgp

pytest.importorskip("zensical")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site of a copy, so that a build by hand and its cache are left alone."""
    folder = tmp_path_factory.mktemp("docs")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "src").symlink_to(ROOT / "src")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assert "No issues found" in built.stdout + built.stderr
    return folder / "site"


def pages(site):
    return sorted(path for path in site.rglob("*.html") if path.name != "404.html")


class Links(HTMLParser):
    """Addresses that a browser loads without being asked: pictures, scripts, style sheets, fonts."""

    def __init__(self):
        super().__init__()
        self.loaded, self.pictures = [], []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag in ("img", "script", "iframe", "source") and "src" in values:
            self.loaded.append(values["src"])
        if tag == "img":
            self.pictures.append(values["src"])
        if tag == "link" and values.get("rel") in ("stylesheet", "preload", "icon"):
            self.loaded.append(values["href"])


def test_the_site_builds_without_a_warning(site):
    assert len(pages(site)) > 15


def test_every_page_of_the_folder_is_in_the_site(site):
    for source in (ROOT / "docs").rglob("*.md"):
        assert (site / source.relative_to(ROOT / "docs")).with_suffix(".html").exists(), source


def test_no_page_loads_anything_from_another_server(site):
    for page in pages(site):
        links = Links()
        links.feed(page.read_text(encoding="utf-8"))
        foreign = [link for link in links.loaded if re.match(r"(https?:)?//", link)]
        assert not foreign, (page.name, foreign)


def test_search_works_from_the_disk(site):
    """The index is a script, since pages from a disk may read no JSON, and a frame takes the worker's place."""
    assert (site / "search.js").read_text(encoding="utf-8").startswith("var __index")
    assert (site / "iframe-worker.js").is_file()
    assert 'src="./iframe-worker.js"' in (site / "index.html").read_text(encoding="utf-8")


def test_formulas_are_mathml_without_unknown_commands(site):
    text = (site / "methods.html").read_text(encoding="utf-8")
    formulas = re.findall(r"<math.*?</math>", text, re.DOTALL)
    assert len(formulas) > 100
    assert not [formula for formula in formulas if "\\" in formula or "<mi>&<" in formula]
    assert r"\(" not in re.sub(r"<(pre|code).*?</\1>", "", text, flags=re.DOTALL)


def test_every_public_name_has_its_place_in_the_reference(site):
    text = "".join(page.read_text(encoding="utf-8") for page in (site / "api").glob("*.html"))
    places = set(re.findall(r'id="(sodgp[\w.]*)"', text))
    for parameters in public():
        module, name, value = parameters.values
        assert {f"{module}.{name}", f"{value.__module__}.{name}"} & places, f"{module}.{name}"


def test_the_citation_file_names_this_version_and_the_paper():
    yaml = pytest.importorskip("yaml")
    entry = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert entry["cff-version"] == "1.2.0"
    assert entry["version"] == sodgp.__version__
    assert entry["authors"] == [{"name": "The sodgp developers"}]
    for paper in (entry["preferred-citation"], entry["references"][0]):
        assert paper["title"].startswith("Subset-of-Data Variational Inference")
        assert [author["family-names"] for author in paper["authors"]] == ["Jain", "Srijith", "Khan"]
        assert (paper["year"], paper["start"], paper["end"]) == (2021, 1362, 1370)


def test_docstrings_become_markdown():
    spec = importlib.util.spec_from_file_location("docstrings", ROOT / "docs" / "_site" / "docstrings.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = doctest.testmod(module)
    assert found.attempted > 1
    assert found.failed == 0
    assert module.markdown("Two [*a] and [*b].\n\nMore.") == "Two [\\*a] and [\\*b].\n\nMore."
