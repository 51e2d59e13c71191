"""The command that calibrates a saved model."""

from __future__ import annotations

from typing import Annotated

import typer

from sodgp.cli.arguments import Json, ModelPath, Table, Targets, Threads
from sodgp.cli.columns import Decimal, Encoding, Reading, Separator
from sodgp.cli.summary import print_json
from sodgp.cli.tables import known_targets
from sodgp.errors import InputError
from sodgp.system.progress import say


def calibrate(
    model: ModelPath,
    data: Table,
    target: Targets = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", help="Where to save. [dim]\\[default: MODEL itself][/]", show_default=False),
    ] = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    as_json: Json = False,
    threads: Threads = None,
) -> None:
    """Correct the predictions of a saved model by a table that it was not trained on, and save it with that.

    Of numbers: central intervals of 50, 80, 90, 95 and 99 % then hold at least that share of new rows like these. Of
    classes: probabilities get a temperature. The next `sodgp calibrate` takes the place of the last one.
    """
    from sodgp.cli.predictions import observed
    from sodgp.estimator.describe import describe
    from sodgp.estimator.files.records import load_any
    from sodgp.system.container import check_destination

    destination = str(model) if out is None else out
    if not model.exists():
        raise InputError(f"{model} does not exist.")
    check_destination(destination)
    estimator = load_any(model)
    before = estimator.n_threads
    estimator.set_params(n_threads=threads or before)
    X, y, *_ = known_targets(estimator, data, target or [], Reading(separator, decimal, encoding))
    values = observed(estimator, y)
    is_vector = estimator.fitted_.columns.y_is_vector and getattr(values, "ndim", 1) == 2
    estimator.calibrate(X, values[:, 0] if is_vector else values)
    estimator.set_params(n_threads=before)
    estimator.save(destination)
    found = describe(estimator)["calibration"]
    if as_json:
        print_json({"model": str(model), "data": str(data), "calibration": found, "saved_to": destination})
        return
    for name, share in found.get("coverage_90_before", {}).items():
        say(f"{name}: 90 % intervals held {100 * share:.1f} % of these {found['rows']:,} rows before.")
    if "power" in found:
        say(f"Class probabilities are taken to the power {found['power']:.3g}, by {found['rows']:,} rows.")
    say(f"Saved to {destination}")
