"""Tables and figures of hand-made cells."""

from __future__ import annotations

import errno
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from bench_fixtures import make_cell
from benchmarks.paper.__main__ import bench
from benchmarks.paper.html import page
from benchmarks.paper.plot import curves_figure, rmse_figure
from benchmarks.paper.table import Entry, Number, build, markdown, paper_numbers
from cli_runner import run

from sodgp.errors import InputError


@pytest.fixture
def cells():
    return [
        *(make_cell("energy", "SoD", 2, split, 0.7 + 0.1 * split) for split in range(3)),
        *(make_cell("energy", "DSVI*", 2, split, 3.0 + 0.1 * split) for split in range(3)),
        make_cell("energy", "exact", 1, 0, 0.1),
        make_cell("boston_authors", "SoD", 2, 0, 9.0),
        make_cell("boston", "SoD", 2, 0, 9.0),
    ]


def test_the_papers_table_is_whole():
    numbers = paper_numbers()
    assert len(numbers["rows"]) == 17
    assert all(set(row) == set(numbers["columns"]) for row in numbers["rows"].values())
    assert "standard deviation" in numbers["brackets"]


def test_marks_need_two_joint_standard_deviations():
    ours, near, far = Number(1.0, 0.3, 5), Number(2.0, 0.4, 5), Number(2.01, 0.4, 5)
    assert not Entry(ours, near).differs
    assert Entry(ours, far).differs
    assert not Entry(Number(1.0, None, 1), far).differs
    assert not Entry(None, far).differs
    assert not Entry(ours, None).differs


def test_table_entries(cells):
    table = build(cells, "nlpp")
    assert table.columns == ["boston_authors", "boston", "energy"]
    authors, sound, energy = table.rows["SoD-DGP2"]
    assert energy.ours == Number(pytest.approx(0.8), pytest.approx(0.1), 3)
    assert energy.paper == Number(0.737, 0.089, 5)
    assert authors.paper == Number(2.395, 0.142, 5)
    assert sound.paper is None  # the paper's numbers are of the damaged file
    # One lucky split of the exact GP does not win over three of SoD.
    assert energy.is_best
    assert not table.rows["exact GP"][2].is_best
    assert table.rows["DSVI*-DGP2"][2].differs
    assert table.rows["SGHMC-DGP4"][2].ours is None
    assert set(paper_numbers()["rows"]) <= set(table.rows)
    assert set(build(cells, "rmse").rows) == {"SoD-DGP2", "DSVI*-DGP2", "exact GP"}


def test_markdown(cells):
    text = markdown(cells)
    lines = text.splitlines()
    row = next(line for line in lines if line.startswith("| SoD-DGP2"))
    assert row.endswith("| **0.800 ± 0.100** (3)<br>paper 0.737 ± 0.089 |")
    assert "9.000 (1)<br>paper 2.395 ± 0.142" in row  # no mark from one split
    assert "| DSVI\\*-DGP2 | -<br>paper 2.534 ± 0.066 | - | 3.100 ± 0.100 (3) ‡<br>paper 1.261 ± 0.053 |" in lines
    assert all(heading in text for heading in ("## Test NLPP", "## Test RMSE", "## Test CRPS"))
    assert "Iterations: 20,000" in text
    assert len({line.count("|") for line in lines if line.startswith("|")}) == 1


def test_scores_that_are_not_finite_are_told(cells):
    worst, *others = cells
    lost = [replace(worst, results={**worst.results, "nlpp": None}), *others]
    entry = build(lost, "nlpp").rows["SoD-DGP2"][2]
    assert (entry.ours.splits, entry.lost) == (2, 1)
    assert not entry.is_best  # fewer splits than another row
    for text in (markdown(lost), page(lost)):
        assert "0.850 ± 0.071 (2, 1 not finite)" in text
        assert "Not finite: splits whose score is infinite" in text
    nothing = [replace(worst, results={**worst.results, "nlpp": None})]
    assert "| - (0, 1 not finite)<br>paper" in markdown(nothing)
    assert "- (0, 1 not finite)<small>" in page(nothing)
    assert "ot finite" not in markdown(cells)


def test_the_source_of_sod_is_told_where_there_is_one(cells):
    assert "Protocol `paper` (SoD from the paper's program): mean" in markdown(cells)
    ours = [replace(cell, settings={**cell.settings, "protocol": "default"}) for cell in cells]
    assert "Protocol `default`: mean" in markdown(ours)


def test_iterations_that_differ_are_told():
    cells = [make_cell("energy", "SoD", 2, 0, 1.0), make_cell("energy", "DSVI", 2, 0, 1.0, options={"max_iter": 200})]
    assert "Iterations: 200 (DSVI-DGP2); 20,000 (SoD-DGP2)." in markdown(cells)


class Balanced(HTMLParser):
    """Fails on tags that do not close, and on anything from outside."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attributes):
        assert not {"src", "href"} & {name for name, _ in attributes}
        self.seen.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_html_is_whole_and_self_contained(cells):
    text, parser = page(cells), Balanced()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    assert parser.seen.count("table") == 3
    assert "<b>0.800 ± 0.100</b>" in text
    assert "‡" in text


def curve(offset):
    return {
        "iteration": [1, 100, 200],
        "bound": [-900.0, -200.0 + offset, -100.0 + offset],
        "train_nlpp": [3.0, 2.0, 1.0],
        "train_rmse": [3.0, 2.0, 1.0],
        "test_nlpp": [None, 2.0 + offset, 1.5],
        "test_rmse": [4.0, 3.0, 2.0 + offset],
    }


def test_the_commands_write_files(tmp_path):
    for method in ("SoD", "SVGP"):
        for split in (0, 1):
            make_cell("energy", method, 1, split, 1.0 + split, history=curve(split)).write(tmp_path)
    for arguments in (["table"], ["table", "--format", "html"], ["plot", "--curves", "energy"]):
        result = run(*arguments, "--out", tmp_path, program=bench)
        assert result.exit_code == 0, result.output
    for name in ("rmse.png", "curves-energy.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "table.md").read_text().startswith("## Test NLPP")
    assert (tmp_path / "table.html").read_text().startswith("<!DOCTYPE html>")


def test_a_table_that_cannot_be_written_is_printed_all_the_same(cells, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    for cell in cells:
        cell.write(tmp_path)
    monkeypatch.setattr("benchmarks.paper.__main__.write_text_whole", full)
    result = run("table", "--out", tmp_path, program=bench)
    assert result.exit_code == 1
    assert result.stdout.startswith("## Test NLPP")
    assert "table.md could not be written (No space left on device)." in result.stderr


def test_a_method_far_behind_gets_an_arrow():
    scores = {"SoD": 1.0, "DSVI": 1.1, "SVGP": 1.2, "exact": 900.0}
    figure = rmse_figure([make_cell("energy", method, 1, 0, value) for method, value in scores.items()])
    (panel,) = figure.axes
    assert panel.get_xlim()[1] < 10
    assert [text.get_text().strip() for text in panel.texts] == ["900"]


def test_curves_that_were_not_recorded(cells):
    # A sampler's have no scores.
    cells.append(make_cell("energy", "SGHMC", 2, 0, 1.0, history={**curve(0), "test_nlpp": [None] * 3}))
    with pytest.raises(InputError, match="no cell of 'energy' has training curves; sets with curves here: none"):
        curves_figure(cells, "energy")


def test_small_errors_keep_their_digits():
    assert str(Number(5.65e-5, 1.7e-6, 5)) == "5.65e-05 ± 1.70e-06"
    assert str(Number(-7.721, 0.303, 5)) == "-7.721 ± 0.303"
