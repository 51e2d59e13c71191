"""The documentation says what the code does: counted tables are as counted, and named code exists."""

import ast
import importlib
import importlib.util
import re
from functools import cache
from pathlib import Path

import pytest

import sodgp

DOCS = Path(__file__).parents[2] / "docs"
SOURCE = Path(sodgp.__file__).parent
# `file.py`: `Name`, `Name.method`
NAMED = re.compile(r"`([\w/]+\.py)`: ((?:`[\w.]+`(?:, )?)+)")


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location("make_parameter_table", DOCS / "make_parameter_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_parameter_tables_are_what_the_code_counts(maker):
    page = maker.PAGE.read_text(encoding="utf-8")
    assert page == maker.renewed(page), "run python docs/make_parameter_table.py"


@pytest.mark.parametrize("n_layers", [2, 3])
@pytest.mark.parametrize("name", ["boston", "energy", "protein"])
def test_the_page_draws_the_right_conclusions(maker, name, n_layers):
    n_rows, columns, size = maker.shape_of(name)
    counts = {
        label: maker.count(maker.build(method, n_rows, columns, size, n_layers))
        for label, method in maker.METHODS.items()
    }
    mean_field, dsvi, fixed, sghmc, sod = (sum(parts.values()) for parts in counts.values())
    assert sod < dsvi < mean_field
    assert fixed == sod
    assert sghmc < sod
    assert dsvi - sod == counts["DSVI (Fig. 1b)"]["inducing inputs"]
    assert mean_field - dsvi == counts["mean-field (Fig. 1a)"]["q(Z)"]
    assert 1.025 < dsvi / sod < 1.075


def test_the_script_notices_an_old_page(maker, monkeypatch, tmp_path, capsys):
    old = tmp_path / "parameters.md"
    old.write_text(f"before\n{maker.BEGIN}\nold\n{maker.END}\nafter\n", encoding="utf-8")
    monkeypatch.setattr(maker, "PAGE", old)
    monkeypatch.setattr(maker, "DATA_SETS", ("energy",))
    assert maker.main(["--check"]) == 1
    assert maker.main([]) == 0
    assert maker.main(["--check"]) == 0
    assert old.read_text(encoding="utf-8").startswith("before\n")
    assert old.read_text(encoding="utf-8").endswith("\nafter\n")
    assert "out of date" in capsys.readouterr().out


def named_code():
    page = (DOCS / "methods.md").read_text(encoding="utf-8")
    return sorted({(path, name) for path, names in NAMED.findall(page) for name in re.findall(r"`([\w.]+)`", names)})


@pytest.mark.parametrize(("path", "name"), named_code())
def test_code_that_the_methods_page_names_exists(path, name):
    module = importlib.import_module("sodgp." + path.removesuffix(".py").replace("/", "."))
    assert Path(module.__file__) == SOURCE / path
    value = module
    for part in name.split("."):
        value = getattr(value, part)


def test_the_methods_page_names_code_for_every_method():
    assert len(named_code()) > 30
    page = (DOCS / "methods.md").read_text(encoding="utf-8")
    for heading in (
        "SoD-VI",
        "DSVI",
        "DSVI* with fixed inducing inputs",
        "SVGP and its collapsed bound",
        "SGHMC",
        "Mean-field",
    ):
        section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
        assert "**Trains**" in section
        assert "**When.**" in section


@pytest.mark.parametrize("page", ["methods.md", "parameters.md"])
def test_links_between_pages_lead_somewhere(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([\w./-]+\.md)\)", text):
        assert (DOCS / target).exists()
    anchors = {
        re.sub(r"[^\w\s-]", "", h.lower()).strip().replace(" ", "-") for h in re.findall(r"^###? (.+)$", text, re.M)
    }
    for anchor in re.findall(r"\]\(#([\w-]+)\)", text):
        assert anchor in anchors


def _text(node):
    """The text of a message in the source, with a mark where a value is put in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    return "\0"


@cache
def messages_of_the_source():
    texts = []
    for path in SOURCE.rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        texts += [_text(node) for node in nodes if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp)]
    return [text for text in texts if len(text) > 10]


def messages_of_the_page():
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8").split("## No message")[0]
    found = []
    for row in re.findall(r"^\| (?!message)(`.*?)\|", page, re.M):
        found += re.findall(r"`([^`]+)`(?! ?(?:Error|\w*Error\)))", row.split("(")[0])
    return found


@pytest.mark.parametrize("message", messages_of_the_page())
def test_messages_of_the_troubleshooting_page_are_in_the_code(message):
    pattern = ".*".join(re.escape(part.strip()) for part in message.split("...") if part.strip())
    assert any(re.search(pattern, text, re.DOTALL) for text in messages_of_the_source()), message


def test_the_troubleshooting_page_has_messages():
    assert len(messages_of_the_page()) > 30


def test_links_of_the_readme_lead_somewhere():
    root = DOCS.parent
    targets = re.findall(r"\]\((?!https?://)([^)\s]+)\)", (root / "README.md").read_text(encoding="utf-8"))
    assert len(targets) > 15
    for target in targets:
        path, _, anchor = target.partition("#")
        assert (root / path).exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", (root / path).read_text(encoding="utf-8"), re.M)
            assert anchor in {re.sub(r"[^\w\s-]", "", h.lower()).strip().replace(" ", "-") for h in headings}


def test_the_tables_of_results_are_those_of_the_cells():
    spec = importlib.util.spec_from_file_location("make_results", DOCS / "make_results.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.main(["--check"]) == 0, "run python docs/make_results.py"
    assert "‡" in module.nlpp()
