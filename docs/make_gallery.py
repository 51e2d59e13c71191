"""Write docs/gallery and docs/notebooks from the scripts of examples/: ``python docs/make_gallery.py [NAME ...]``.

A script is a docstring (title, blank line, text) and cells that begin with ``# %%``; comments right below that line
are the cell's text. Every script runs once, from top to bottom: what a cell prints and draws stands below it.

    python docs/make_gallery.py                  all scripts; some minutes
    python docs/make_gallery.py counts outliers  these two
    python docs/make_gallery.py --text           text and code alone; what was printed and drawn stays
    python docs/make_gallery.py --check          whether pages and notebooks have the scripts' text
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import io
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "examples"
PAGES = ROOT / "docs" / "gallery"
NOTEBOOKS = ROOT / "docs" / "notebooks"
API = ROOT / "docs" / "api"
# In the order of the index, by heading.
GALLERY: dict[str, tuple[str, ...]] = {
    "First steps": ("step_function", "tabular", "several_outputs"),
    "Kinds of targets": ("classification", "counts", "heteroscedastic", "outliers"),
    "Understanding a model": ("calibration", "partial_dependence", "tabular_report", "pipeline"),
    "Searching": ("bayesian_optimisation", "active_learning"),
    "Your own parts": ("custom_kernel", "custom_likelihood", "custom_selector"),
    "Many rows": ("large_parquet", "adding_rows", "many_processes"),
}
# Also as notebooks, next to the quickstart.
NOTEBOOK_PAGES = ("step_function", "tabular", "classification")
QUICKSTART = ROOT / "docs" / "quickstart.md"
FENCE = re.compile(r"^```python\n(.*?)^```$\n?", re.DOTALL | re.MULTILINE)
EXAMPLES = re.compile(r"\n<!-- examples -->\n.*?<!-- end -->\n", re.DOTALL)


@dataclass(frozen=True)
class Script:
    """The parts of a script: cells are pairs of text (Markdown) and code."""

    name: str
    title: str
    text: str
    cells: tuple[tuple[str, str], ...]

    @property
    def lead(self) -> str:
        """The first paragraph, on one line."""
        return " ".join(self.text.split("\n\n")[0].split())


def names() -> list[str]:
    """All scripts of the gallery, in its order."""
    return [name for group in GALLERY.values() for name in group]


def read(name: str) -> Script:
    """Take a script apart."""
    source = (SCRIPTS / f"{name}.py").read_text(encoding="utf-8")
    first, *rest = re.split(r"^# %%\n", source, flags=re.MULTILINE)
    docstring = ast.get_docstring(ast.parse(first)) or ""
    title, _, text = docstring.partition("\n\n")
    code = first.split('"""', 2)[2]
    return Script(name, title.rstrip("."), text, (("", code.strip("\n")), *(_cell(part) for part in rest)))


def _cell(source: str) -> tuple[str, str]:
    lines = source.split("\n")
    count = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
    text = "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines[:count])
    return text, "\n".join(lines[count:]).strip("\n")


def run(script: Script) -> Iterator[tuple[dict[str, Any], str, list[Any]]]:
    """Run cell after cell in one namespace: the namespace, what was printed, and Matplotlib figures."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    show, plt.show = plt.show, lambda: None
    namespace: dict[str, Any] = {"__name__": "__main__", "__file__": str(SCRIPTS / f"{script.name}.py")}
    try:
        for number, (_, code) in enumerate(script.cells):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, f"{script.name}.py, cell {number}", "exec", dont_inherit=True), namespace)
            yield namespace, printed.getvalue(), [plt.figure(number) for number in plt.get_fignums()]
            plt.close("all")
    finally:
        plt.close("all")
        plt.show = show


def page(script: Script, results: list[tuple[str, list[str]]], takes: str) -> str:
    """The page of a script; `results` has printed text and names of pictures for every cell."""
    parts = [
        f"<!-- Made by docs/make_gallery.py from examples/{script.name}.py. -->\n\n# {script.title}\n\n{script.text}\n"
    ]
    if takes:
        parts.append(f"*Takes {takes} on one CPU core.*\n")
    where = f"Script: `examples/{script.name}.py`"
    if script.name in NOTEBOOK_PAGES:
        where += f". [Notebook](../notebooks/{script.name}.ipynb)"
    parts.append(f"{where}.\n")
    for (text, code), (printed, pictures) in zip(script.cells, results, strict=True):
        if text.strip():
            parts.append(f"{text.strip()}\n")
        if code:
            parts.append(f"```python\n{code}\n```\n")
        if printed.strip():
            parts.append(f"```text\n{printed.rstrip()}\n```\n")
        parts += [f"![{script.title}]({picture})\n" for picture in pictures]
    return "\n".join(parts)


def _about(seconds: float) -> str:
    for limit, words in (
        (6, "a few seconds"),
        (12, "about 10 seconds"),
        (25, "about 20 seconds"),
        (45, "half a minute"),
    ):
        if seconds < limit:
            return words
    return "a minute" if seconds < 80 else f"{round(seconds / 60)} minutes"


def results_in(page: str, script: Script) -> tuple[list[tuple[str, list[str]]], str]:
    """What a page has of the last run: results for every cell, and the time it took."""
    takes = re.search(r"^\*Takes (.*) on one CPU core\.\*$", page, re.MULTILINE)
    found = []
    for part in FENCE.split(page)[2::2]:
        printed = re.search(r"\A\s*```text\n(.*?)^```$", part, re.DOTALL | re.MULTILINE)
        found.append((printed[1] if printed else "", re.findall(r"^!\[[^\]]*\]\(([\w-]+\.png)\)$", part, re.MULTILINE)))
    cells = iter(found)
    results = [next(cells, ("", [])) if code else ("", []) for _, code in script.cells]
    return results, takes[1] if takes else ""


def notebook(title: str, cells: list[tuple[str, str]]) -> str:
    """A Jupyter notebook (format 4.5) of pairs of kind, "markdown" or "code", and source; without outputs."""
    body = []
    for number, (kind, source) in enumerate([("markdown", title), *cells]):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
        if kind == "code":
            cell |= {"execution_count": None, "outputs": []}
        body.append(cell | {"source": source.splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return json.dumps({"cells": body, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def notebook_of_script(script: Script) -> str:
    """Text and code of a script as a notebook."""
    pairs = [pair for text, code in script.cells for pair in (("markdown", text.strip()), ("code", code)) if pair[1]]
    return notebook(f"# {script.title}\n\n{script.text}", pairs)


def notebook_of_page(path: Path) -> str:
    """A page whose Python snippets become the code; links between pages become plain text."""
    title, _, rest = path.read_text(encoding="utf-8").partition("\n")
    rest = re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]+\)", r"\1", rest)
    pairs = []
    for number, part in enumerate(FENCE.split(rest)):
        if part.strip():
            pairs.append(("code" if number % 2 else "markdown", part.strip()))
    return notebook(title, pairs)


def notebooks() -> dict[Path, str]:
    """Every notebook and its text."""
    found = {NOTEBOOKS / f"{name}.ipynb": notebook_of_script(read(name)) for name in NOTEBOOK_PAGES}
    return found | {NOTEBOOKS / "quickstart.ipynb": notebook_of_page(QUICKSTART)}


def index() -> str:
    """The page of all examples, with their pictures."""
    parts = [
        "<!-- Made by docs/make_gallery.py. -->\n\n# Gallery\n\nComplete scripts to copy. Each runs as it stands, in "
        "seconds to a minute on one CPU core, and is run by the tests.\n"
    ]
    for heading, group in GALLERY.items():
        parts.append(f'## {heading}\n\n<div class="gallery" markdown>\n')
        for script in map(read, group):
            picture = next(iter(sorted(PAGES.glob(f"{script.name}-*.png"))), None)
            image = f"![{script.title}]({picture.name}) " if picture else ""
            parts.append(f"[{image}**{script.title}**]({script.name}.md)  \n{script.lead}\n")
        parts.append("</div>\n")
    return "\n".join(parts)


def used(name: str) -> set[str]:
    """Names of sodgp that a script imports or takes from a module of it."""
    found, modules = set(), set()
    tree = ast.parse((SCRIPTS / f"{name}.py").read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sodgp":
            found |= {alias.name for alias in node.names}
            modules |= {alias.asname or alias.name for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            found.add(node.attr)
    return found


def documented(page: str) -> list[str]:
    """Public names that an API page describes."""
    found: list[str] = []
    for path in re.findall(r"^::: ([\w.]+)", page, re.MULTILINE):
        home, _, name = path.rpartition(".")
        try:
            thing = getattr(importlib.import_module(home), name)
        except (AttributeError, ImportError):
            thing = importlib.import_module(path)
        if inspect.ismodule(thing):
            public = [key for key in vars(thing) if not key.startswith("_") and key.isidentifier()]
            found += [
                key
                for key in getattr(thing, "__all__", public)
                if getattr(getattr(thing, key), "__module__", "").startswith("sodgp")
            ]
        else:
            found.append(name)
    return found


def with_examples(page: str) -> str:
    """An API page with the examples that use its names, below its title and first lines."""
    uses = {name: used(name) for name in names()}
    lines = []
    for name in dict.fromkeys(documented(page)):
        scripts = [script for script in names() if name in uses[script]]
        if len(scripts) > len(uses) / 2:
            lines.append(f"* `{name}`: nearly all of the [gallery](../gallery/index.md)")
        elif scripts:
            lines.append(f"* `{name}`: " + ", ".join(f"[{read(s).title}](../gallery/{s}.md)" for s in scripts))
    page = EXAMPLES.sub("", page)
    if not lines:
        return page
    head, mark, rest = page.partition("\n:::")
    block = "\n".join(("\n<!-- examples -->", "Examples:", "", *lines, "<!-- end -->\n"))
    heading = re.search(r"\n## [^\n]*\n$", head)
    cut = heading.start() if heading else len(head)
    return head[:cut] + block + head[cut:] + mark + rest


def texts() -> dict[Path, str]:
    """Every file that is written without running a script."""
    api = {path: with_examples(path.read_text(encoding="utf-8")) for path in sorted(API.glob("*.md"))}
    return notebooks() | api | {PAGES / "index.md": index()}


def render(name: str) -> None:
    """Run one script, and write its page and pictures."""
    script, results = read(name), []
    for old in PAGES.glob(f"{name}-*.png"):
        old.unlink()
    begin = time.process_time()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for number, (_, printed, figures) in enumerate(run(script)):
            pictures = []
            for figure in figures:
                pictures.append(f"{name}-{number}{'abc'[len(pictures)] if len(figures) > 1 else ''}.png")
                figure.savefig(PAGES / pictures[-1], dpi=100)
            results.append((printed, pictures))
    (PAGES / f"{name}.md").write_text(page(script, results, _about(time.process_time() - begin)), encoding="utf-8")
    print(name, f"{time.process_time() - begin:.0f} CPU s")


def renewed(script: Script) -> str:
    """The page of a script with its text of today and the results that the page has."""
    path = PAGES / f"{script.name}.md"
    old = path.read_text(encoding="utf-8") if path.is_file() else ""
    return page(script, *results_in(old, script))


def stale() -> list[str]:
    """Files that differ from what the scripts say, results apart."""
    found = [path for path, text in texts().items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for script in map(read, names()):
        path = PAGES / f"{script.name}.md"
        if not path.is_file() or path.read_text(encoding="utf-8") != renewed(script):
            found.append(path)
    return [path.relative_to(ROOT).as_posix() for path in found]


def main(arguments: list[str]) -> int:
    """Write, or check."""
    if "--check" in arguments:
        print("out of date: " + ", ".join(stale()) if stale() else "up to date")
        return int(bool(stale()))
    os.environ.pop("STEPS", None)
    PAGES.mkdir(exist_ok=True)
    NOTEBOOKS.mkdir(exist_ok=True)
    for name in [] if "--text" in arguments else arguments or names():
        render(name)
    for script in map(read, names()):
        (PAGES / f"{script.name}.md").write_text(renewed(script), encoding="utf-8")
    for path, text in texts().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
