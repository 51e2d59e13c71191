"""A report as one HTML page with styles and pictures inside, without scripts; the template escapes texts from data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from sodgp.estimator.options.fields import OBJECTS
from sodgp.evaluation.format import LABELS, counted, interval, number
from sodgp.report.figures import Picture, of_model, of_target
from sodgp.tables.frames import NUMBER

if TYPE_CHECKING:
    from sodgp.report.content import Report
    from sodgp.report.measures import Column

# Of targets with a section, and of columns and inputs in tables; the rest is counted.
_MOST_TARGETS, _MOST_COLUMNS, _MOST_INPUTS = 4, 40, 5
_METHODS = {
    "sod": "SoD-VI (sod)",
    "dsvi": "DSVI (dsvi)",
    "sghmc": "SGHMC (sghmc)",
    "mean_field": "mean field (mean_field)",
}
_HEADLINES = ("rmse", "r2", "coverage_90", "nlpp")
_NAMES, _TEXT, _REMARK = "text names", "text", "text remark"


@dataclass(frozen=True)
class _Table:
    """Rows of text, the class of some columns by number, and how much was left out."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    kinds: Mapping[int, str] = field(default_factory=lambda: {0: _TEXT})
    left_out: int = 0


@dataclass(frozen=True)
class _Target:
    """One target's part of the page."""

    name: str
    tiles: Sequence[tuple[str, str, str]]
    worst: _Table
    pictures: Mapping[str, list[Picture]]


def page(report: Report) -> str:
    """The whole page."""
    environment = Environment(
        loader=PackageLoader("sodgp.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    targets = report.evaluation.targets
    return environment.get_template("page.html").render(
        report=report,
        about=report.about,
        single=len(targets) == 1,
        head=_head(report),
        shown=[_target(report, target) for target in range(min(_MOST_TARGETS, len(targets)))],
        scores=_scores(report),
        data=_data(report),
        table=_table(report),
        model=_model(report),
        objective=_objective(report),
        pictures=of_model(report),
        counted=counted,
    )


def _head(report: Report) -> list[tuple[str, str]]:
    import sodgp

    how = f"{report.folds}-fold cross-validation" if report.folds else "held-out rows"
    return [
        ("Model", report.model_name),
        ("Data", report.data_name),
        ("Evaluated by", f"{how}, {counted(len(report.evaluation), 'row')}"),
        ("Made", f"{report.date} with sodgp {sodgp.__version__}"),
    ]


def _target(report: Report, target: int) -> _Target:
    scores = report.scores[target]
    tiles = [(LABELS[key][0], number(key, scores[key].value), interval(key, scores[key])) for key in _HEADLINES]
    return _Target(report.evaluation.targets[target], tiles, _worst(report, target), of_target(report, target))


def _scores(report: Report) -> _Table:
    if len(report.scores) > 1:
        header = ["score", *map(_short, report.evaluation.targets)]
        each = [[number(key, scores[key].value) for scores in report.scores] for key in LABELS]
        return _Table(header, [[label, *values] for (label, *_), values in zip(LABELS.values(), each, strict=True)])
    (scores,) = report.scores
    found = [(label, key, scores[key], note) for key, (label, _, note) in LABELS.items()]
    rows = [[label, number(key, score.value), interval(key, score), note] for label, key, score, note in found]
    return _Table(["score", "value", "95 % interval", ""], rows, {0: _TEXT, 3: _REMARK})


def _worst(report: Report, target: int) -> _Table:
    found = report.evaluation
    inputs = report.about["inputs"]
    order = np.argsort(-report.importance.mean[:, target], kind="stable")[:_MOST_INPUTS]
    header = ["row", "observed", "predicted", "90 % interval", "residual / std", ""]
    spread = float(found.y[:, target].std())
    rows = []
    for row in report.worst(target):
        y, mean, low, high = (
            _plain(part[row, target], spread) for part in (found.y, found.mean, found.low, found.high)
        )
        z, where = f"{found.z[row, target]:+.1f}", "extrapolated" if report.outside[row] else ""
        values = (_cell(report, row, i) for i in order)
        rows.append([f"{row + 1:,}", y, mean, f"{low} to {high}", z, where, *values])
    return _Table([*header, *(_short(inputs[i]) for i in order)], rows, left_out=len(inputs) - len(order))


def _cell(report: Report, row: int, column: int) -> str:
    """The cell of an input, as it came."""
    if not report.cells:
        return _of_column(report.X[row, column], report.columns[column])
    cells = report.cells[column]
    if cells.missing[row]:
        return "missing"
    if cells.kind != NUMBER:
        return _short(str(cells.texts()[row]), 20)
    return _of_column(float(cells.values[row]), report.columns[column])


def _data(report: Report) -> _Table:
    columns = report.columns
    if len(columns) > _MOST_COLUMNS:
        targets = [column for column in columns if column.role == "target"]
        columns = [*columns[: max(1, _MOST_COLUMNS - len(targets))], *targets]
    rows = []
    for c in columns:
        low, median, high = c.shown or (_of_column(value, c) for value in (c.low, c.median, c.high))
        mean, std = (_plain(value, c.std) if np.isfinite(value) else "" for value in (c.mean, c.std))
        rows.append([c.name, c.role, low, median, mean, high, std, f"{c.distinct:,}", f"{c.shift:+.2f}"])
    header = ["column", "role", "min", "median", "mean", "max", "std", "distinct", "shift"]
    return _Table(header, rows, {0: _NAMES, 1: _TEXT}, left_out=len(report.columns) - len(columns))


def _table(report: Report) -> _Table:
    """What became of every column of a table; no rows where the model was fitted to numbers."""
    found = list(report.about["columns"].items())
    shown = found[:_MOST_COLUMNS]
    return _Table(["column", "what became of it"], shown, {0: _NAMES, 1: _REMARK}, left_out=len(found) - len(shown))


def _objective(report: Report) -> str:
    return "bound" if report.about["objective"] == "bound" else "objective"


def _model(report: Report) -> _Table:
    about = report.about
    members = about["members"]
    value = "-" if about["bound"] is None else f"{about['bound']:.2f} nats"
    seconds = "" if about["seconds"] is None else f", {about['seconds']:.1f} s"
    facts = [
        ("method", _METHODS.get(about["method"], about["method"])),
        ("layers", f"{about['n_layers']}, widths {', '.join(map(str, about['widths']))}"),
        ("kernel", about["kernel"] + (", for each output of the first layer" if about["separate_kernels"] else "")),
        ("training rows", f"{about['rows']:,}"),
        ("inducing points", f"{about['subset_rows']:,} in each layer"),
        ("trained parameters", f"{about['parameters']:,}" + (f" of {members} members" if members > 1 else "")),
        *([("members", f"{members}, their spread times {about['member_spread']:.3g}")] if members > 1 else []),
        (_objective(report), f"{value} after {about['iterations']:,} steps{seconds} ({about['stopped']})"),
        ("numerical safeguards", about["safeguards"]),
        (
            "noise std" + (", typical" if about["likelihood"] == "heteroscedastic" else ""),
            ", ".join(f"{name} {value:.4g}" for name, value in about["noise_std"].items()),
        ),
        ("outliers", f"{about['outlier_probability']:.3g} of the probability of a prediction"),
        ("options set", _options(report) or "none"),
    ]
    return _Table([], facts, {0: _NAMES, 1: _TEXT})


def _options(report: Report) -> str:
    """Arguments of the estimator that are not at their defaults."""
    defaults, given = type(report.model)().get_params(deep=False), report.model.get_params(deep=False)
    chosen = {name: value for name, value in report.about["options"].items() if value not in (None, defaults[name])}
    # Objects print better than what a file holds of them.
    return ", ".join(f"{name}={(given[name] if name in OBJECTS else value)!r}" for name, value in chosen.items())


def _short(name: str, limit: int = 30) -> str:
    return name if len(name) <= limit else f"{name[: limit - 1]}…"


def _of_column(value: float, column: Column) -> str:
    """A value of a column: without decimals where all of them are whole numbers."""
    return _plain(value, column.std) if not column.whole or abs(value) >= 1e9 else f"{value:,.10g}"


def _plain(value: float, spread: float) -> str:
    """A number of the data, with as many decimals as its column's standard deviation asks for.

    Examples
    --------
    >>> _plain(151.0, 81.0), _plain(0.0123456, 0.005), _plain(1234567.0, 1e5), _plain(3e12, 1e11)
    ('151.0', '0.01235', '1,234,567', '3e+12')
    >>> _plain(1.7e9 + 123456.0, 1e5)
    '1.700123e+09'
    """
    value = float(value)
    decimals = 2 if spread <= 0 else int(np.clip(2 - np.floor(np.log10(spread)), -300, 12))
    if abs(value) >= 1e9 or decimals > 8:
        digits = int(np.floor(np.log10(abs(value)))) + 1 + decimals if value and spread > 0 else 0
        return f"{value:.{np.clip(digits, 4, 15)}g}"
    return f"{value:,.{max(decimals, 0)}f}"
