"""A report as one HTML page with styles and pictures inside, without scripts; the template escapes texts from data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from sodgp.estimator.describe import target_facts
from sodgp.estimator.options.fields import OBJECTS
from sodgp.evaluation.format import counted, interval, number
from sodgp.report.figures import of_model
from sodgp.report.kinds import Section
from sodgp.report.simpler import NO_ROWS, compared
from sodgp.report.tables import NAMES, REMARK, TEXT, Table, of_column, plain, short

if TYPE_CHECKING:
    from sodgp.report.content import Report

# Of targets with a section, and of columns in tables; the rest is counted.
_MOST_TARGETS, _MOST_COLUMNS = 4, 40
_METHODS = {
    "sod": "SoD-VI (sod)",
    "dsvi": "DSVI (dsvi)",
    "sghmc": "SGHMC (sghmc)",
    "mean_field": "mean field (mean_field)",
}


@dataclass(frozen=True)
class _Target:
    """One target's part of the page."""

    name: str
    tiles: Sequence[tuple[str, str, str]]
    sentence: str
    compared: Table
    worst: Table
    sections: Sequence[Section]


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
        no_rows=NO_ROWS,
    )


def _head(report: Report) -> list[tuple[str, str]]:
    import sodgp

    return [
        ("Model", report.model_name),
        ("Data", report.data_name),
        ("Evaluated by", f"{report.how}, {counted(len(report.evaluation), 'row')}"),
        ("Made", f"{report.date} with sodgp {sodgp.__version__}"),
    ]


def _target(report: Report, target: int) -> _Target:
    scores = report.scores[target]
    kind = report.kind
    tiles = [
        (kind.labels[key][0], number(key, scores[key].value), interval(key, scores[key])) for key in kind.headlines
    ]
    name, sentence = report.evaluation.targets[target], kind.sentence(report, target)
    sections = [*kind.sections(report, target), *(report.further if target == 0 else ())]
    return _Target(name, tiles, sentence, compared(report, target), kind.worst(report, target), sections)


def _scores(report: Report) -> Table:
    labels = report.kind.labels
    if len(report.scores) > 1:
        header = ["score", *map(short, report.evaluation.targets)]
        each = [[number(key, scores[key].value) for scores in report.scores] for key in labels]
        return Table(header, [[label, *values] for (label, *_), values in zip(labels.values(), each, strict=True)])
    (scores,) = report.scores
    found = [(label, key, scores[key], note) for key, (label, _, note) in labels.items()]
    rows = [[label, number(key, score.value), interval(key, score), note] for label, key, score, note in found]
    return Table(["score", "value", "95 % interval", ""], rows, {0: TEXT, 3: REMARK})


def _data(report: Report) -> Table:
    columns = report.columns
    if len(columns) > _MOST_COLUMNS:
        targets = [column for column in columns if column.role == "target"]
        columns = [*columns[: max(1, _MOST_COLUMNS - len(targets))], *targets]
    rows = []
    for c in columns:
        low, median, high = c.shown or (of_column(value, c) for value in (c.low, c.median, c.high))
        mean, std = (plain(value, c.std) if np.isfinite(value) else "" for value in (c.mean, c.std))
        rows.append(
            [
                c.name,
                c.role,
                low,
                median,
                mean,
                high,
                std,
                f"{c.distinct:,}",
                f"{c.shift:+.2f}" if np.isfinite(c.shift) else "",
            ]
        )
    header = ["column", "role", "min", "median", "mean", "max", "std", "distinct", "shift"]
    return Table(header, rows, {0: NAMES, 1: TEXT}, left_out=len(report.columns) - len(columns))


def _table(report: Report) -> Table:
    """What became of every column of a table; no rows where the model was fitted to numbers."""
    found = list(report.about["columns"].items())
    shown = found[:_MOST_COLUMNS]
    return Table(["column", "what became of it"], shown, {0: NAMES, 1: REMARK}, left_out=len(found) - len(shown))


def _objective(report: Report) -> str:
    return "bound" if report.about["objective"] == "bound" else "objective"


def _model(report: Report) -> Table:
    about = report.about
    members = about["members"]
    value = "-" if about["bound"] is None else f"{about['bound']:.2f} nats"
    seconds = "" if about["seconds"] is None else f", {about['seconds']:.1f} s"
    facts = [
        ("method", _METHODS.get(about["method"], about["method"])),
        ("layers", f"{about['n_layers']}, widths {', '.join(map(str, about['widths']))}"),
        *([("depth", about["n_layers_reason"])] if about["n_layers_reason"] else []),
        ("kernel", about["kernel"] + (", for each output of the first layer" if about["separate_kernels"] else "")),
        ("training rows", f"{about['rows']:,}"),
        ("inducing points", f"{about['subset_rows']:,} in each layer"),
        ("trained parameters", f"{about['parameters']:,}" + (f" of {members} members" if members > 1 else "")),
        *([("members", f"{members}, their spread times {about['member_spread']:.3g}")] if members > 1 else []),
        (_objective(report), f"{value} after {about['iterations']:,} steps{seconds} ({about['stopped']})"),
        ("numerical safeguards", about["safeguards"]),
        *_likelihood(about),
        ("options set", _options(report) or "none"),
    ]
    return Table([], facts, {0: NAMES, 1: TEXT})


def _likelihood(about: dict[str, Any]) -> list[tuple[str, str]]:
    """What the kind of target has, of noise, outliers and classes."""
    facts = [("likelihood", about["likelihood"]), *target_facts(about)]
    if about["classes"] is not None:
        names = ", ".join(short(str(label), 20) for label in about["classes"][:12])
        facts.append(("classes", f"{len(about['classes'])}: {names}" + (", ..." if len(about["classes"]) > 12 else "")))
    if about["noise_std"]:
        typical = ", typical" if about["likelihood"] == "heteroscedastic" else ""
        noise = ", ".join(f"{name} {value:.4g}" for name, value in about["noise_std"].items())
        facts.append((f"noise std{typical}", noise))
    if about["task"] == "regression":
        facts.append(("outliers", f"{about['outlier_probability']:.3g} of the probability of a prediction"))
    return facts


def _options(report: Report) -> str:
    """Arguments of the estimator that are not at their defaults."""
    defaults, given = type(report.model)().get_params(deep=False), report.model.get_params(deep=False)
    chosen = {name: value for name, value in report.about["options"].items() if value not in (None, defaults[name])}
    # Objects print better than what a file holds of them.
    return ", ".join(f"{name}={(given[name] if name in OBJECTS else value)!r}" for name, value in chosen.items())
