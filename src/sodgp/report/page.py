"""A report as one HTML page: styles and pictures inside, no scripts, every text from the data escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from sodgp.evaluation.format import LABELS, counted, interval, number
from sodgp.report.figures import Picture, of_model, of_target
from sodgp.report.style import STYLE

if TYPE_CHECKING:
    from sodgp.report.content import Report
    from sodgp.report.measures import Column

# Targets with sections of their own, and columns and inputs in tables; the rest is counted.
_MOST_TARGETS, _MOST_COLUMNS, _MOST_INPUTS = 4, 40, 5
_METHODS = {
    "sod": "SoD-VI (sod)",
    "dsvi": "DSVI (dsvi)",
    "sghmc": "SGHMC (sghmc)",
    "mean_field": "mean field (mean_field)",
}
_HEADLINES = ("rmse", "r2", "coverage_90", "nlpp")


def page(report: Report) -> str:
    """The whole page."""
    parts = [_head(report), _glance(report), _findings(report)]
    shown = range(min(_MOST_TARGETS, len(report.evaluation.targets)))
    parts.append(_scores(report))
    of_targets = [of_target(report, target) for target in shown]
    parts += [_target(report, target, of_targets[target]) for target in shown]
    pictures = of_model(report)
    if len(report.evaluation.targets) == 1:
        pictures["relevance"] = of_targets[0]["importance"] + pictures["relevance"]
    parts.append(_inputs(report, pictures))
    parts.append(_data(report))
    parts.append(_model(report, pictures))
    parts.append(_FOOT)
    title = escape(report.title)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n" + "\n".join(parts) + "\n</main>\n"
        "</body>\n</html>\n"
    )


def _head(report: Report) -> str:
    import sodgp

    how = f"{report.folds}-fold cross-validation" if report.folds else "held-out rows"
    facts = [
        ("Model", report.model_name),
        ("Data", report.data_name),
        ("Evaluated by", f"{how}, {counted(len(report.evaluation), 'row')}"),
        ("Made", f"{report.date} with sodgp {sodgp.__version__}"),
    ]
    items = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in facts if value)
    return f'<header>\n<h1>{escape(report.title)}</h1>\n<dl class="facts">{items}</dl>\n</header>'


def _glance(report: Report) -> str:
    rows = []
    for name, scores in zip(report.evaluation.targets[:_MOST_TARGETS], report.scores, strict=False):
        tiles = "".join(
            f'<div class="tile"><div class="label">{escape(LABELS[key][0])}</div>'
            f'<div class="value">{number(key, scores[key].value)}</div>'
            f'<div class="range">{interval(key, scores[key])}</div></div>'
            for key in _HEADLINES
        )
        heading = f"<h3>{escape(name)}</h3>" if len(report.evaluation.targets) > 1 else ""
        rows.append(f'{heading}<div class="tiles">{tiles}</div>')
    note = '<p class="note">Small numbers: 95 % intervals (bootstrap over rows).</p>'
    return _section("glance", "At a glance", "".join(rows) + note)


def _findings(report: Report) -> str:
    if not report.findings:
        return _section("warnings", "Warnings", '<p class="finding good">None.</p>')
    words = {"bad": "Serious", "warn": "Note"}
    items = "".join(
        f'<li class="finding {finding.level}"><strong>{words[finding.level]}.</strong> {escape(finding.text)}'
        f' <span class="fix">{escape(finding.fix)}</span></li>'
        for finding in report.findings
    )
    return _section("warnings", "Warnings", f'<ul class="findings">{items}</ul>')


def _scores(report: Report) -> str:
    targets = report.evaluation.targets
    header = ["score", *map(_short, targets)] if len(targets) > 1 else ["score", "value", "95 % interval", ""]
    rows = []
    for key, (label, _, note) in LABELS.items():
        if len(targets) == 1:
            score = report.scores[0][key]
            rows.append([label, number(key, score.value), interval(key, score), note])
        else:
            rows.append([label, *(number(key, scores[key].value) for scores in report.scores)])
    text = (
        '<p class="note">RMSE, MAE, CRPS and widths are in the units of the target. &ldquo;Without inputs&rdquo; is a'
        " Gaussian with the mean and standard deviation of the training targets: what a model must beat.</p>"
    )
    return _section("scores", "Scores", _table(header, rows, last_is_text=len(targets) == 1) + text)


def _target(report: Report, target: int, pictures: dict[str, list[Picture]]) -> str:
    name = report.evaluation.targets[target]
    of = f" of {escape(name)}" if len(report.evaluation.targets) > 1 else ""
    parts = [
        f"<h2>Calibration{of}</h2>{_pictures(pictures['calibration'])}",
        f"<h2>Predictions and residuals{of}</h2>{_pictures(pictures['predictions'])}",
        f"<h2>Worst rows{of}</h2>{_worst(report, target)}",
    ]
    if len(report.evaluation.targets) > 1:
        parts.append(f"<h2>What matters{of}</h2>{_pictures(pictures['importance'])}")
    return "\n".join(f"<section>{part}</section>" for part in parts)


def _worst(report: Report, target: int) -> str:
    found = report.evaluation
    inputs = [column.name for column in report.columns if column.role == "input"]
    order = np.argsort(-report.importance.mean[:, target], kind="stable")[:_MOST_INPUTS]
    header = [
        "row",
        "observed",
        "predicted",
        "90 % interval",
        "residual / std",
        "",
        *(_short(inputs[i]) for i in order),
    ]
    spread = float(found.y[:, target].std())
    rows = []
    for row in report.worst(target):
        y, mean, low, high = (
            _plain(part[row, target], spread) for part in (found.y, found.mean, found.low, found.high)
        )
        rows.append(
            [
                f"{row + 1:,}",
                y,
                mean,
                f"{low} to {high}",
                f"{found.z[row, target]:+.1f}",
                "extrapolated" if report.outside[row] else "",
                *(_of_column(report.X[row, i], report.columns[i]) for i in order),
            ]
        )
    left = len(inputs) - len(order)
    more = f" {left} inputs that matter less are left out." if left > 0 else ""
    note = f'<p class="note">The rows with the lowest log density; row 1 is the first below the header.{more}</p>'
    return _table(header, rows) + note


def _inputs(report: Report, pictures: dict[str, list[Picture]]) -> str:
    note = (
        '<p class="note">A lengthscale says how fast a layer changes along an input. Inputs also pass to the next layer'
        " through its linear mean, so a short bar in layer 1 alone does not make an input useless.</p>"
        if report.about["n_layers"] > 1 and report.about["options"]["hidden_mean"] == "linear"
        else ""
    )
    first = (
        '<p class="note">Lengthscales and subset are those of the first member.</p>'
        if report.about["members"] > 1
        else ""
    )
    heading = "What matters" if len(report.evaluation.targets) == 1 else "Relevance and subset"
    return _section("relevance", heading, _pictures(pictures["relevance"]) + note + first)


def _data(report: Report) -> str:
    shown = report.columns if len(report.columns) <= _MOST_COLUMNS else _some(report.columns)
    header = ["column", "role", "min", "median", "mean", "max", "std", "distinct", "shift"]
    rows = [
        [
            c.name,
            c.role,
            *(_of_column(value, c) for value in (c.low, c.median)),
            _plain(c.mean, c.std),
            _of_column(c.high, c),
            _plain(c.std, c.std),
            f"{c.distinct:,}",
            f"{c.shift:+.2f}",
        ]
        for c in shown
    ]
    left = len(report.columns) - len(shown)
    more = f" {left} more columns are left out." if left else ""
    outside = int(report.outside.sum())
    text = (
        f"<p>{counted(len(report.evaluation), 'row')}, {counted(len(report.about['inputs']), 'input')}."
        f" Rows that extrapolate: {outside:,}.</p>"
    )
    note = (
        '<p class="note">Of the evaluated rows. Shift: how far the mean is from that of the training rows, in their'
        f" standard deviations.{more}</p>"
    )
    return _section("data", "Data", text + _table(header, rows, left_columns=2) + note)


def _some(columns: Sequence[Column]) -> list[Column]:
    """The targets, and the first inputs."""
    targets = [column for column in columns if column.role == "target"]
    return [*columns[: max(1, _MOST_COLUMNS - len(targets))], *targets]


def _model(report: Report, pictures: dict[str, list[Picture]]) -> str:
    about = report.about
    members = about["members"]
    objective = "bound" if about["objective"] == "bound" else "objective"
    value = "-" if about["bound"] is None else f"{about['bound']:.2f} nats"
    seconds = "" if about["seconds"] is None else f", {about['seconds']:.1f} s"
    facts = [
        ("method", _METHODS.get(about["method"], about["method"])),
        ("layers", f"{about['n_layers']}, widths {', '.join(map(str, about['widths']))}"),
        ("kernel", about["kernel"] + (", for each output of the first layer" if about["separate_kernels"] else "")),
        ("training rows", f"{about['rows']:,}"),
        ("inducing points", f"{about['subset_rows']:,} in each layer"),
        ("trained numbers", f"{about['parameters']:,}" + (f" of {members} members" if members > 1 else "")),
        *([("members", f"{members}, drawn in by {about['member_spread']:.3g}")] if members > 1 else []),
        (objective, f"{value} after {about['iterations']:,} steps{seconds} ({about['stopped']})"),
        ("numerical safeguards", about["safeguards"]),
        (
            "noise std" + (", typical" if about["options"].get("noise") == "heteroscedastic" else ""),
            ", ".join(f"{name} {value:.4g}" for name, value in about["noise_std"].items()),
        ),
        ("outliers", f"{about['outlier_probability']:.3g} of the probability of a prediction"),
        ("options set", _options(report) or "none"),
    ]
    body = _table(["", ""], [[name, value] for name, value in facts], left_columns=2, plain_head=True)
    shown = [*pictures["training"], *pictures["fit"], *pictures["layers"]]
    folds = (
        f'<p class="note">This is the model of the file; the {report.folds} models of the cross-validation have its'
        f" options, and were trained for {', '.join(f'{steps:,}' for steps in report.fold_steps)} steps.</p>"
        if report.folds
        else ""
    )
    first = (
        f'<p class="note">Predictions are those of {members} members together; {objective}, training and layers are'
        " shown of the first.</p>"
        if members > 1
        else ""
    )
    return _section("model", "Model and training", body + first + folds + _pictures(shown))


def _options(report: Report) -> str:
    """Arguments of the estimator that are not at their defaults."""
    import inspect

    defaults = {name: p.default for name, p in inspect.signature(type(report.model)).parameters.items()}
    chosen = {k: v for k, v in report.about["options"].items() if v != defaults.get(k) and v is not None}
    return ", ".join(f"{name}={value!r}" for name, value in chosen.items())


_FOOT = """<footer>
<p><strong>How to read it.</strong> NLPP: mean negative log predictive density, judges mean and width together. RMSE:
error of the mean. CRPS: like the MAE, but of the whole distribution. Coverage: share of rows inside their intervals.
Predictions and intervals are of observations, noise included.</p>
</footer>"""


def _section(name: str, heading: str, body: str) -> str:
    return f'<section id="{name}">\n<h2>{heading}</h2>\n{body}\n</section>'


def _pictures(pictures: Iterable[Picture]) -> str:
    figures = "".join(
        f'<figure id="figure-{picture.name}"><img src="{picture.source}" alt="{escape(picture.caption)}">'
        f"<figcaption>{escape(picture.caption)}</figcaption></figure>"
        for picture in pictures
    )
    return f'<div class="figures">{figures}</div>' if figures else ""


def _table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left_columns: int = 1,
    last_is_text: bool = False,
    plain_head: bool = False,
) -> str:
    """A table that scrolls sideways by itself where it is wider than the page."""

    def kind(column: int) -> str:
        if last_is_text and column == len(header) - 1:
            return ' class="text remark"'
        if column == 0 and left_columns > 1:
            return ' class="text names"'
        return ' class="text"' if column < left_columns else ""

    head = "".join(f'<th scope="col"{kind(i)}>{escape(name)}</th>' for i, name in enumerate(header))
    body = "\n".join(
        "<tr>" + "".join(_cell(i, value, kind(i)) for i, value in enumerate(row)) + "</tr>" for row in rows
    )
    top = "" if plain_head else f"<thead><tr>{head}</tr></thead>"
    return f'<div class="wide" tabindex="0"><table>{top}\n<tbody>\n{body}\n</tbody></table></div>'


def _cell(column: int, value: str, kind: str) -> str:
    return f'<th scope="row"{kind}>{escape(value)}</th>' if column == 0 else f"<td{kind}>{escape(value)}</td>"


def _short(name: str, limit: int = 30) -> str:
    return name if len(name) <= limit else f"{name[: limit - 1]}…"


def _of_column(value: float, column: Column) -> str:
    """A value of a column: without decimals where all of them are whole numbers."""
    return _plain(value, column.std) if not column.whole or abs(value) >= 1e9 else f"{value:,.10g}"


def _plain(value: Any, spread: float) -> str:
    """A number of the data, with as many decimals as its column's standard deviation asks for.

    Examples
    --------
    >>> _plain(151.0, 81.0), _plain(0.0123456, 0.005), _plain(1234567.0, 1e5), _plain(3e12, 1e11)
    ('151.0', '0.01235', '1,234,567', '3e+12')
    >>> _plain(1.7e9 + 123456.0, 1e5)
    '1.700123e+09'
    """
    number = float(value)
    decimals = 2 if spread <= 0 else int(np.clip(2 - np.floor(np.log10(spread)), -300, 12))
    if abs(number) >= 1e9 or decimals > 8:
        digits = int(np.floor(np.log10(abs(number)))) + 1 + decimals if number and spread > 0 else 0
        return f"{number:.{np.clip(digits, 4, 15)}g}"
    return f"{number:,.{max(decimals, 0)}f}"
