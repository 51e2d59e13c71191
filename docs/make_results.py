"""Write the tables and pictures of docs/results.md and of the README from the cells in benchmarks/results.

    python docs/make_results.py            # write
    python docs/make_results.py --check    # only say whether the tables are up to date

A table stands between ``<!-- results: NAME -->`` and ``<!-- end -->``; everything else in the pages is written by hand.
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the benchmarks are not installed

from benchmarks.classification.cells import stored  # noqa: E402
from benchmarks.classification.report import calibrations, losses, verdicts  # noqa: E402
from benchmarks.paper.cells import Cell, read_cells, row_label  # noqa: E402
from benchmarks.paper.table import Entry, Number, build, paper_numbers, row_order, summarise  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
IMAGES = ROOT / "docs" / "images"
PAGES = tuple(ROOT / name for name in ("docs/results.md", "docs/accuracy.md", "docs/classification.md", "README.md"))
ACCURACY_SETS = ("boston", "energy", "concrete", "winered", "protein", "naval")
# The README's table: the last set's other scores are shown, too. Files of runs against the clock, and of the benchmark.
HEADLINE_SETS = ("boston", "energy", "winered", "concrete")
CONTESTANTS = {
    "standard": ("**sodgp, defaults**", "none"),
    "exact": ("exact GP (scikit-learn)", "exact"),
    "ngboost": ("NGBoost", "ngboost"),
    "deep": ("deep GP (GPyTorch)", "gpytorch"),
}
N_SPLITS = 5
# Splits that every variant of the ablation has.
ABLATION_SPLITS = 3
PICTURES = ("results-rmse.png", "results-curves.png", "subsets-nlpp.png")


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [titles, ["---"] * len(titles), *rows])


def paper_cells() -> list[Cell]:
    """The cells of the paper's table, except year and the sound boston, of which some rows were run."""
    return [cell for cell in read_cells(RESULTS / "paper") if cell.key.data not in ("year_subset7000", "boston")]


def elsewhere() -> str:
    """Rows that were run on the sound boston file and on 7,000 rows of year, which the paper's numbers are not of."""
    built = build(read_cells(RESULTS / "paper"), "nlpp")
    columns = [built.columns.index(name) for name in ("boston_authors", "boston", "year_subset7000")]
    rows = []
    for label, entries in built.rows.items():
        if any(entries[column].ours for column in columns[1:]):
            own = [_entry(Entry(entries[column].ours, None)) for column in columns]
            year = paper_numbers()["rows"][label]["year"]
            rows.append([label, *own, f"{year[0]:.3f} ± {year[1]:.3f}"])
    return table(["test NLPP", "boston_authors", "boston", "year, 7,000 rows", "the paper's, all of year"], rows)


def nlpp() -> str:
    """Table 1 where it was rerun: ours, the paper's below it."""
    built = build(paper_cells(), "nlpp")
    rows = []
    for label, entries in built.rows.items():
        if any(entry.ours for entry in entries):
            rows.append([label.replace("*", "\\*"), *map(_entry, entries)])
        each = [Entry(summarise(_with_lengthscales(label, data)), None) for data in built.columns]
        if sum(entry.ours is not None for entry in each) > 2:
            against = [Entry(own.ours, entry.paper) for own, entry in zip(each, entries, strict=True)]
            rows.append([f"{label}, a lengthscale for each input", *map(_entry, against)])
    return table(["test NLPP", *built.columns], rows)


def _with_lengthscales(label: str, data: str) -> list[float]:
    """NLPP of a row of the table with a lengthscale for each input, where it was run so, too."""
    path = RESULTS / "explanations" / f"{data}-{label}-ARD.json"
    return json.loads(path.read_text())["nlpp"] if path.exists() else []


def picked() -> str:
    """The last iteration, the best on the training and on the test part (which nobody may pick), the paper's number."""
    cells = paper_cells()
    groups: dict[tuple[str, int], dict[str, list[Cell]]] = {}
    for cell in cells:
        groups.setdefault((cell.key.method, cell.key.layers), {}).setdefault(cell.key.data, []).append(cell)
    columns = build(cells, "nlpp").columns
    rows = []
    for group in row_order(group for group in groups if group[0] != "SGHMC"):
        label = row_label(*group)
        for what, score in (
            ("last", _last),
            ("best on training", _at_best_training),
            ("best on test", _best),
            ("paper", None),
        ):
            entries = []
            for data in columns:
                own = groups[group].get(data, [])
                if score is None:
                    paper = paper_numbers()["rows"].get(label, {}).get("boston" if data == "boston_authors" else data)
                    entries.append(f"{paper[0]:.3f}" if paper else "-")
                else:
                    scores = [value for cell in own if (value := score(cell)) is not None]
                    entries.append(str(summarise(scores) or "-"))
            rows.append([label.replace("*", "\\*") if what == "last" else "", what, *entries])
    return table(["", "", *columns], rows)


def defaults() -> str:
    """Two layers trained on the bound, with subsets of several sizes, beside an exact GP, on the paper's splits."""
    columns = ("boston", "energy", "concrete", "winered", "protein")
    rows = []
    for size, label in ((50, "M = 50"), (100, "M = 100"), (200, "M = 200")):
        row = [f"sodgp, {label}"]
        for data in columns:
            cell = json.loads((RESULTS / "subsets" / "cells" / f"{data}-kmeans-{size}.json").read_text())
            row.append(f"{_with_error(cell['nlpp'])} ({statistics.fmean(cell['rmse']):.3f})")
        rows.append(row)
    exact = [cell for cell in read_cells(RESULTS / "default") if cell.key.method == "exact"]
    row = ["exact GP"]
    for data in columns:
        own = [cell.results for cell in exact if cell.key.data == data]
        nlpps, rmses = ([result[name] for result in own] for name in ("nlpp", "rmse"))
        row.append(f"{_with_error(nlpps)} ({statistics.fmean(rmses):.3f})" if own else "-")
    return table(["test NLPP (RMSE)", *columns], [*rows, row])


def explanations() -> str:
    """The paper's presets as they are and with a lengthscale for each input, with the paper's numbers."""
    rows: list[list[str]] = []
    columns = {"boston_authors": "boston", "concrete": "concrete", "energy": "energy", "winered": "winered"}
    cells = paper_cells()
    for label, method, layers in (
        ("SVGP", "SVGP", 1),
        ("SoD-DGP1", "SoD", 1),
        ("SoD-DGP2", "SoD", 2),
        ("SoD-DGP3", "SoD", 3),
    ):
        own = [[c.results["nlpp"] for c in cells if c.key.group == (data, method, layers)] for data in columns]
        each = [_with_lengthscales(label, data) for data in columns]
        paper = paper_numbers()["rows"][label]
        for what, entries in (
            ("one lengthscale", [str(summarise(values)) for values in own]),
            ("one for each input", [str(summarise(values) or "-") for values in each]),
            ("paper", [f"{paper[name][0]:.3f} ± {paper[name][1]:.3f}" for name in columns.values()]),
        ):
            rows.append([label if what == "one lengthscale" else "", what, *entries])
    return table(["", "", *columns], rows)


def ablation() -> str:
    """NLPP and CRPS of the variants on validation rows, over the splits that all of them have."""
    rows = []
    for variant in _variants("validation"):
        row = [variant]
        for data in ACCURACY_SETS:
            record = _accuracy("validation", data, variant)
            if record is None:
                row.append("-")
                continue
            nlpp, crps = (statistics.fmean(record[name][:ABLATION_SPLITS]) for name in ("nlpp", "crps"))
            row.append(f"{nlpp:.3f} ({_short(crps)})")
        rows.append(row)
    return table(["validation NLPP (CRPS)", *ACCURACY_SETS], rows)


def outliers() -> str:
    """Validation scores of the defaults with several probabilities of outliers, and the NLPP of the worst split."""
    splits = json.loads((RESULTS / "outliers.json").read_text())["splits"]
    names = list(next(iter(next(iter(splits.values())).values())))
    rows = []
    for data, own in splits.items():
        row = [f"{data} ({len(own)} splits)"]
        for name in names:
            nlpp, crps = ([scores[name][score] for scores in own.values()] for score in ("nlpp", "crps"))
            row.append(f"{statistics.fmean(nlpp):.3f}, {_short(statistics.fmean(crps))}, {max(nlpp):.3f}")
        rows.append(row)
    return table(["NLPP, CRPS, NLPP of the worst split", *names], rows)


def members() -> str:
    """Validation scores of mixtures of one to four members, after training of several lengths."""
    fits = json.loads((RESULTS / "members.json").read_text())
    rows = []
    for fit, sets in fits.items():
        for data, record in sets.items():
            scores = record["scores"]
            label = f"{data} ({record['splits']} splits)"
            counts = [name for name in scores if name != "each"]
            means = [[statistics.fmean(scores[count][name]) for count in counts] for name in ("nlpp", "crps")]
            covered = [f", {100 * statistics.fmean(scores[count]['coverage_90']):.0f} %" for count in counts]
            entries = [f"{nlpp:.3f}, {_short(crps)}" for nlpp, crps in zip(*means, strict=True)]
            rows.append([fit, label, *(entry + share for entry, share in zip(entries, covered, strict=True))])
    return table(
        ["steps, rows beside the subset", "NLPP, CRPS, coverage", "1 member", *(f"{n} members" for n in (2, 3, 4))],
        rows,
    )


def spreads() -> str:
    """Validation scores of four members, shrunk by several factors."""
    records = json.loads((RESULTS / "spreads.json").read_text())
    shown = (0.8, 0.84, 0.88, 0.92, 0.96, 1.0)
    measures = ("nlpp", "crps", "coverage_90")

    def entry(nlpp: float, crps: float, covered: float) -> str:
        return f"{nlpp:.3f}, {_short(crps)}, {100 * covered:.0f} %"

    rows = []
    for data, record in records.items():
        scores = [record["scores"][f"4 at {spread}"] for spread in shown]
        entries = [entry(*(statistics.fmean(score[name]) for name in measures)) for score in scores]
        rows.append([f"{data} ({record['splits']} splits)", *entries])
    for label, name, digits in (("mean NLPP", "nlpp", 3), ("mean coverage, %", "coverage_90", 1)):
        every = [[statistics.fmean(r["scores"][f"4 at {s}"][name]) for r in records.values()] for s in shown]
        means = [statistics.fmean(values) * (100 if name == "coverage_90" else 1) for values in every]
        rows.append([label, *(f"{value:.{digits}f}" for value in means)])
    return table(["NLPP, CRPS, coverage", *(f"{spread:.2f}" for spread in shown)], rows)


def headline() -> str:
    """The README's table: the defaults and what one would use instead, on the same splits."""
    rows = []
    for contestant, (label, method) in CONTESTANTS.items():
        found = {data: _on_splits(data, contestant, method) for data in HEADLINE_SETS}
        if any(found.values()):
            nlpps = [f"{_mean(found[data], 'nlpp'):.2f}" if found[data] else "-" for data in HEADLINE_SETS]
            last = found[HEADLINE_SETS[-1]]
            scores = [f"{_mean(last, name):.2f}" if last else "-" for name in ("crps", "rmse")]
            rows.append([label, *nlpps, *scores, f"{_mean(last, 'seconds'):.0f}" if last else "-"])
    sets = [f"NLPP {data}" for data in HEADLINE_SETS]
    return table(["", *sets, *(f"{score} {HEADLINE_SETS[-1]}" for score in ("CRPS", "RMSE", "CPU s"))], rows)


def _on_splits(data: str, contestant: str, method: str) -> list[dict[str, float]]:
    """Scores of splits 0 to 2: of the runs against the clock, else of the benchmark of the paper."""
    paths = [RESULTS / "time_to_accuracy" / "test" / f"{data}-{contestant}-{split}.json" for split in range(3)]
    records = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]
    found = [record["points"][-1] for record in records if record.get("points")]
    if len(found) < 3:
        cells = [cell for cell in read_cells(RESULTS / "default") if (cell.key.method, cell.key.data) == (method, data)]
        found = [cell.results for cell in cells if cell.key.split < 3]
    return found if len(found) == 3 else []


def _mean(found: Sequence[Mapping[str, float]], name: str) -> float:
    return statistics.fmean(scores[name] for scores in found)


def efforts() -> str:
    """Test NLPP of the efforts beside what one would use instead."""
    return table(["test NLPP", *ACCURACY_SETS], _efforts(lambda scores: _with_error(scores["nlpp"])))


def effort_errors() -> str:
    """Test CRPS, RMSE and coverage of the same."""

    def entry(scores: Mapping[str, Sequence[float]]) -> str:
        crps, rmse, covered = (statistics.fmean(scores[name]) for name in ("crps", "rmse", "coverage_90"))
        return f"{_short(crps)}, {_short(rmse)}, {100 * covered:.0f} %"

    return table(["CRPS, RMSE, coverage of 90 % intervals", *ACCURACY_SETS], _efforts(entry))


def _efforts(entry: Callable[[Mapping[str, Sequence[float]]], str]) -> list[list[str]]:
    rows = []
    for variant in _variants("test"):
        found = [_accuracy("test", data, variant) for data in ACCURACY_SETS]
        rows.append([variant, *("-" if record is None else entry(record) for record in found)])
        if variant == "thorough":
            alone = [None if record is None else record["one_member"] for record in found]
            rows.append(["one of its members", *("-" if record is None else entry(record) for record in alone)])
    peers = read_cells(RESULTS / "default")
    for method, label in (("exact", "exact GP"), ("ngboost", "NGBoost"), ("gpytorch", "GPyTorch's deep GP")):
        row = [label]
        for data in ACCURACY_SETS:
            own = [cell.results for cell in peers if (cell.key.method, cell.key.data) == (method, data)]
            scores = {name: [result[name] for result in own] for name in own[0]} if len(own) > 1 else None
            row.append("-" if scores is None else entry(scores) + _few(len(own)))
        if set(row[1:]) != {"-"}:
            rows.append(row)
    return rows


def _variants(stage: str) -> list[str]:
    """Names of the variants with results, in the order of their list."""
    from benchmarks.accuracy.variants import VARIANTS

    return [v for v in VARIANTS if any(_accuracy(stage, data, v) for data in ACCURACY_SETS)]


def _accuracy(stage: str, data: str, variant: str) -> dict[str, Any] | None:
    from benchmarks.accuracy.cells import Cell as AccuracyCell
    from benchmarks.accuracy.cells import finished

    return finished(AccuracyCell(stage, data, variant), RESULTS / "accuracy")


def _short(value: float) -> str:
    """Three decimals, or three digits of what is smaller."""
    return f"{value:.3f}" if value >= 0.01 else f"{value:.2e}"


def _with_error(values: Sequence[float]) -> str:
    """Mean and standard error."""
    return f"{statistics.fmean(values):.3f} ± {statistics.stdev(values) / len(values) ** 0.5:.3f}"


def _last(cell: Cell) -> float | None:
    return cell.results["nlpp"]


def _best(cell: Cell) -> float | None:
    return min(value for value in cell.history["test_nlpp"] if value is not None)


def _at_best_training(cell: Cell) -> float | None:
    """Test score at the iteration with the best training score, as the authors' program can pick it."""
    scores = zip(cell.history["train_nlpp"], cell.history["test_nlpp"], strict=True)
    return min(pair for pair in scores if None not in pair)[1]


def _entry(entry: Entry) -> str:
    paper = f"<br>paper {entry.paper}" if isinstance(entry.paper, Number) else ""
    ours = "-" if entry.ours is None else f"{entry.ours}{_few(entry.ours.splits)}{' ‡' if entry.differs else ''}"
    return (f"**{ours}**" if entry.is_best else ours) + paper


def _few(splits: int) -> str:
    return f" ({splits} splits)" if splits < N_SPLITS else ""


def classes() -> str:
    """Log losses of `benchmarks.classification` on the test rows."""
    return _of_classes(losses)


def classes_judged() -> str:
    """Ours against the best Gaussian process of others."""
    return _of_classes(verdicts)


def classes_calibration() -> str:
    """Calibration errors, test rows of all splits pooled."""
    return _of_classes(calibrations)


def _of_classes(build: Callable[[Sequence[Mapping[str, Any]]], str]) -> str:
    records = stored("test", RESULTS / "classification")
    return (
        build(records) if records else "No test row was scored yet: `python -m benchmarks.classification --stage test`."
    )


TABLES = {
    "headline": headline,
    "nlpp": nlpp,
    "elsewhere": elsewhere,
    "picked": picked,
    "defaults": defaults,
    "explanations": explanations,
    "ablation": ablation,
    "outliers": outliers,
    "members": members,
    "spreads": spreads,
    "efforts": efforts,
    "effort_errors": effort_errors,
    "classes": classes,
    "classes_judged": classes_judged,
    "classes_calibration": classes_calibration,
}


def filled(page: str) -> str:
    """The page with every table made anew."""

    def write(match: re.Match[str]) -> str:
        return f"<!-- results: {match[1]} -->\n\n{_unbroken(TABLES[match[1]]())}\n\n<!-- end -->"

    return re.sub(r"<!-- results: (\w+) -->.*?<!-- end -->", write, page, flags=re.DOTALL)


def _unbroken(table: str) -> str:
    """The table with spaces that do not break in the middle of a number."""
    return re.sub(r" (±|‡)( (?=\d))?", lambda match: match[0].replace(" ", "\N{NO-BREAK SPACE}"), table)


def draw() -> None:
    """The pictures."""
    from benchmarks.paper.plot import curves_figure, rmse_figure, save_figure

    cells = paper_cells()
    save_figure(rmse_figure(cells), IMAGES / "results-rmse.png")
    save_figure(curves_figure(cells, "boston_authors"), IMAGES / "results-curves.png")
    # Drawn by `python -m benchmarks.subsets` from its own cells.
    shutil.copyfile(RESULTS / "subsets" / "nlpp.png", IMAGES / "subsets-nlpp.png")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write, or check."""
    check = "--check" in (sys.argv[1:] if arguments is None else arguments)
    stale = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if filled(text) != text:
            stale.append(page.name)
            if not check:
                page.write_text(filled(text), encoding="utf-8")
    if check:
        print(f"out of date: {', '.join(stale)}" if stale else "up to date")
        return 1 if stale else 0
    draw()
    return 0


if __name__ == "__main__":
    sys.exit(main())
