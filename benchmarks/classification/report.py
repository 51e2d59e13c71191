"""Tables of the results of a stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.classification.cells import CONTESTANTS
from benchmarks.classification.contestants import CLASSES
from benchmarks.classification.scores import calibration
from benchmarks.classification.sets import SETS

__all__ = ["calibrations", "losses", "markdown", "table", "verdicts"]

Record = Mapping[str, Any]

_JUDGED = "default"
# The calibration error that is asked for where so many rows are pooled.
_MOST_ERROR, _MANY_ROWS = 0.03, 2500


def markdown(records: Sequence[Record], stage: str) -> str:
    """What is judged, log losses and calibration of all sets side by side, then all scores set by set."""
    parts = [f"# Classes and counts, {stage} rows", _preface(records)]
    if any(SETS[record["cell"]["data"]].task == "classes" for record in records):
        parts += [f"## Log loss\n\n{losses(records)}", f"## What is asked\n\n{verdicts(records)}"]
        parts += [f"## Calibration error\n\n{_CALIBRATION}\n\n{calibrations(records)}"]
    for name, described in SETS.items():
        own = _of(records, data=name)
        if own:
            parts.append(f"## {described.label}\n\n{_scores(own, described.task)}")
    return "\n\n".join(parts) + "\n"


_CALIBRATION = (
    "Top label, ten bins of equal width, scored rows of all splits pooled; in parentheses the 95 % point of a perfectly"
    " calibrated model with the same probabilities, simulated."
)


def _preface(records: Sequence[Record]) -> str:
    machines = sorted({r["origin"]["machine"]["cpu"] for r in records if "origin" in r})
    return (
        "Mean ± standard error over splits. Seconds are CPU time of training on one thread, imports and predictions"
        f" left out. Machine: {', '.join(machines) or 'none yet'}."
    )


def losses(records: Sequence[Record]) -> str:
    """Log loss of every contestant on every set of classes; the best possible one where it is known."""
    found = _tasks(records, "classes")
    sets = [name for name in SETS if any(r["cell"]["data"] == name for r in found)]
    titles = ["log loss", *(SETS[name].label for name in sets)]
    rows = [
        [described.label, *(_entry(_of(found, data=data, contestant=name), "log_loss") for data in sets)]
        for name, described in CLASSES.items()
        if _values(_of(found, contestant=name), "log_loss")
    ]
    truth = [_best(_of(found, data=data), "log_loss") for data in sets]
    return table(titles, [*rows, ["best possible", *truth]] if any(truth) else rows)


def verdicts(records: Sequence[Record]) -> str:
    """Ours against the best Gaussian process of others, with the standard error of the difference over splits."""
    found = _tasks(records, "classes")
    rows, against_deep = [], []
    for data, described in SETS.items():
        own = _by_split(_of(found, data=data, contestant=_JUDGED))
        others = {
            name: _by_split(_of(found, data=data, contestant=name)) for name, each in CLASSES.items() if each.is_gp
        }
        others = {name: each for name, each in others.items() if own and set(own) <= set(each)}
        if not others:
            continue
        if "deep" in others:
            against_deep.append(np.mean([own[split] - others["deep"][split] for split in own]))
        best = min(others, key=lambda name: np.mean([others[name][split] for split in own]))
        differences = [own[split] - others[best][split] for split in own]
        error = _error(differences)
        verdict = "yes" if np.mean(differences) <= (0.0 if np.isnan(error) else error) else "no"
        limit = _truth(_of(found, data=data, contestant=_JUDGED), "log_loss")
        above = f"{np.mean(list(own.values())) - np.mean(limit):.4f}" if limit else ""
        rows.append([described.label, CLASSES[best].label, _number(differences), verdict, above])
    titles = [
        "set",
        "best GP of others",
        "log loss, ours minus its",
        "no worse by one standard error",
        "above the best",
    ]
    text = table(titles, rows)
    if against_deep:
        text += f"\n\nLog loss minus that of GPyTorch's deep GP, mean of {len(against_deep)} sets: "
        text += f"{np.mean(against_deep):.4f}."
    return text


def calibrations(records: Sequence[Record]) -> str:
    """Calibration errors of every contestant on every set of classes."""
    found = _tasks(records, "classes")
    sets = [name for name in SETS if any(r["cell"]["data"] == name and "scores" in r for r in found)]
    rows = []
    for name, described in CLASSES.items():
        bins = [[r["scores"]["bins"] for r in _of(found, data=d, contestant=name) if "scores" in r] for d in sets]
        if any(bins):
            rows.append([described.label, *(_calibrated(each) if each else "" for each in bins)])
    return table(["calibration error", *(SETS[name].label for name in sets)], rows)


def _calibrated(bins: Sequence[Sequence[Sequence[float]]]) -> str:
    error, chance, rows = calibration(bins)
    is_good = error <= chance or (rows >= _MANY_ROWS and error <= _MOST_ERROR)
    return f"{error:.3f} ({chance:.3f})" + ("" if is_good else " \\*")


def _scores(records: Sequence[Record], task: str) -> str:
    names = ("log_loss", "brier", "accuracy") if task == "classes" else ("nlpp", "crps", "rmse")
    titles = {"log_loss": "log loss", "brier": "Brier", "nlpp": "NLPP", "crps": "CRPS", "rmse": "RMSE"}
    rows = []
    for name, described in CONTESTANTS[task].items():
        own = _of(records, contestant=name)
        done = [record for record in own if "scores" in record]
        if done:
            seconds = np.mean([record["seconds"] for record in done])
            rows.append([described.label, str(len(done)), *(_entry(done, score) for score in names), f"{seconds:.3g}"])
        for record in own:
            why = record.get("not_run") or record.get("error")
            if why and ("error" in record or record["cell"]["split"] == 0):
                word = "not run" if "not_run" in record else f"failed on split {record['cell']['split']}"
                rows.append([described.label, "", f"{word}: {why.splitlines()[0][:100]}", *[""] * len(names)])
    truth = [_best(records, score) for score in names]
    if any(truth):
        rows.append(["best possible", "", *truth, ""])
    return table(["contestant", "splits", *(titles.get(name, name) for name in names), "CPU seconds"], rows)


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [titles, ["---"] * len(titles), *rows])


def _tasks(records: Sequence[Record], task: str) -> list[Record]:
    return [record for record in records if SETS[record["cell"]["data"]].task == task]


def _of(records: Sequence[Record], **wanted: object) -> list[Record]:
    return [r for r in records if all(r["cell"][name] == value for name, value in wanted.items())]


def _values(records: Sequence[Record], score: str) -> list[float]:
    return [record["scores"][score] for record in records if "scores" in record]


def _truth(records: Sequence[Record], score: str) -> list[float]:
    return [record["truth"][score] for record in records if "truth" in record]


def _best(records: Sequence[Record], score: str) -> str:
    """The score of what labels were drawn from, every split once."""
    splits = {record["cell"]["split"]: record["truth"][score] for record in records if "truth" in record}
    return f"{np.mean(list(splits.values())):.4f}" if splits else ""


def _by_split(records: Sequence[Record]) -> dict[int, float]:
    return {r["cell"]["split"]: r["scores"]["log_loss"] for r in records if "scores" in r}


def _entry(records: Sequence[Record], score: str) -> str:
    values = _values(records, score)
    return _number(values) if values else ""


def _number(values: Sequence[float]) -> str:
    error = _error(values)
    return f"{np.mean(values):.4f}" + ("" if np.isnan(error) else f" ± {error:.4f}")


def _error(values: Sequence[float]) -> float:
    """Standard error of the mean; nan of a single value."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
