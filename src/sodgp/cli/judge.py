"""The commands that judge models: ``evaluate``, ``report`` and ``compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sodgp.cli.arguments import Dropped, Json, ModelPath, Table, Targets, TaskName, Threads, loaded
from sodgp.cli.columns import Decimal, Encoding, Kinds, Missing, Reading, Separator, Weight, encoder_of
from sodgp.cli.splits import Folds, Group, Jobs, Seed, Splitting, Time, side_columns
from sodgp.cli.summary import print_json
from sodgp.cli.tables import check_output, known_targets, refuse_input, training_data, weights_in, with_targets
from sodgp.cli.tasks import estimator_for, task_of, told_task
from sodgp.errors import ConfigurationError
from sodgp.system.progress import progress, say

if TYPE_CHECKING:
    import pandas as pd

    from sodgp import DeepGPClassifier, DeepGPRegressor


def evaluate(
    model: ModelPath,
    data: Table,
    target: Targets = None,
    weight: Weight = None,
    bootstrap: Annotated[int, typer.Option(min=0, help="Resamples behind the intervals; 0 for none.")] = 1000,
    cv: Folds = None,
    group: Group = None,
    time: Time = None,
    seed: Seed = 0,
    jobs: Jobs = 1,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    as_json: Json = False,
    threads: Threads = None,
) -> None:
    """Score a saved model on a table that it has not seen: NLPP, RMSE, CRPS, coverage, each with a 95 % interval.

    Of classes log loss, Brier score, accuracy, area under the ROC curve and calibration error. With --cv the scores are
    those of new fits with the model's options, each judged by the rows that it did not see.
    """
    from sodgp.cli.predictions import observed
    from sodgp.cli.scores import as_dictionary, print_scores
    from sodgp.evaluation import cross_validate
    from sodgp.evaluation.rows import numbers_of_rows, shared_rows, table_rows
    from sodgp.evaluation.scores import evaluate as run

    split = Splitting(cv, group, time)
    estimator = loaded(model, threads)
    reading = Reading(separator, decimal, encoding)
    refuse_input(estimator, weight)
    apart = [*split.columns, *([] if weight is None else [weight])]
    X, y, names, side = known_targets(estimator, data, target or [], reading, apart)
    truth, weights = observed(estimator, y), weights_in(side, weight, data, reading)
    if cv is None:
        found = run(estimator, X, truth, targets=names, sample_weight=weights)
        shared, kept = shared_rows(estimator, numbers_of_rows(table_rows(estimator, X)[0]))
    else:
        shared, kept = 0, 0
        with progress(cv * estimator.n_members_, "cross-validation", shown=not as_json) as begin:
            options: dict[str, Any] = {"targets": names, "begin": begin, "n_jobs": jobs, "random_state": seed}
            options["sample_weight"] = weights
            found = cross_validate(estimator, X, truth, **split.of(side), **options)  # type: ignore[assignment]
    if shared:
        say(
            f"Warning: {shared:,} of the {kept:,} training rows that the model keeps are in {data}. Scores on rows that"
            " a model has seen are too good: use others, or --cv 5 on the training table."
        )
    if as_json:
        content = {"model": str(model), "data": str(data), "training_rows": shared, "folds": cv or 0}
        print_json({**content, **as_dictionary(found, bootstrap)})
    else:
        print_scores(found, bootstrap)


def report(
    model: Annotated[
        Path, typer.Argument(help="Model that `sodgp fit` wrote; or, with --cv, a table to fit to with all defaults.")
    ],
    data: Annotated[
        Path | None, typer.Argument(help="Table with a header row: .csv, .tsv (also .gz) or .parquet.")
    ] = None,
    target: Targets = None,
    weight: Weight = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page, one .html file.")] = Path("report.html"),
    cv: Folds = None,
    group: Group = None,
    time: Time = None,
    train: Annotated[
        Path | None,
        typer.Option(
            help="The training table, for a linear model and boosting beside the model; not needed with --cv, nor for"
            " most models of up to 2,000 rows, which keep theirs.",
            show_default=False,
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="Of the page. [dim]\\[default: Model of TARGET][/]")] = "",
    seed: Seed = 0,
    jobs: Jobs = 1,
    task: TaskName = None,
    drop: Dropped = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    as_json: Json = False,
    threads: Threads = None,
) -> None:
    """Write one HTML page about a model on rows it has not seen: scores, simpler models, calibration, worst rows.

    With --cv the page rests on new fits with the model's options, each evaluated on the rows it did not see. Without a
    model, `sodgp report data.csv --target y --cv 5` fits one first. The page opens offline, prints well and fits a
    phone.
    """
    from sodgp.cli.predictions import observed
    from sodgp.cli.scores import as_dictionary
    from sodgp.evaluation.format import counted
    from sodgp.report import cross_validated, held_out

    if out.suffix.lower() not in (".html", ".htm"):
        raise ConfigurationError(f"--out {out} must end in .html.")
    check_output(out, *([model] if data is None else [data, model]), *([] if train is None else [train]))
    split, reading = Splitting(cv, group, time), Reading(separator, decimal, encoding)
    if train is not None and cv is not None:
        raise ConfigurationError("--train is for held-out rows: with --cv the training rows of every fold are known.")
    about: dict[str, Any] = {"title": title, "model_name": str(model), "data_name": str(data), "random_state": seed}
    apart = [] if weight is None else [weight]
    if data is None:
        if weight is not None:
            raise ConfigurationError("--weight is for a model: fit one with `sodgp fit --weight`, and name it here.")
        if cv is None or not target:
            raise ConfigurationError(
                "sodgp report needs a model and a table, or a table with --target and --cv: sodgp report data.csv"
                " --target y --cv 5."
            )
        estimator, X, y, side = _from_table(model, target, drop, task, reading, split)
        about |= {"model_name": "", "data_name": str(model)}
        truth, names = _targets(estimator, y), list(y.columns)
        with progress(estimator.n_members or 1, "training", shown=not as_json) as begin:
            estimator.set_params(callbacks=[begin("all rows")], n_threads=threads or 1, verbose=False)
            estimator.fit(X, truth)
        estimator.set_params(callbacks=None)
    else:
        if task is not None or drop:
            raise ConfigurationError("--task and --drop are for a table without a model; the model knows its own.")
        estimator = loaded(model, threads)
        refuse_input(estimator, weight)
        X, y, names, side = known_targets(estimator, data, target or [], reading, [*split.columns, *apart])
        truth, about["sample_weight"] = observed(estimator, y), weights_in(side, weight, data, reading)
    if cv is None:
        others = None
        if train is not None:
            X_train, y_train, _, side = known_targets(estimator, train, target or [], reading, apart)
            others = X_train, observed(estimator, y_train), weights_in(side, weight, train, reading)
        found = held_out(estimator, X, truth, targets=names, train=others, **about)
    else:
        with progress(cv * estimator.n_members_, "cross-validation", shown=not as_json) as begin:
            options: dict[str, Any] = {"targets": names, "begin": begin, "n_jobs": jobs}
            found = cross_validated(estimator, X, truth, **split.of(side), **options, **about)
    found.write(out)
    if as_json:
        warned = [vars(finding) for finding in found.findings]
        print_json({"written_to": str(out), "findings": warned, **as_dictionary(found.evaluation, 1000)})
        return
    for finding in found.findings:
        say(f"{'Warning' if finding.level == 'bad' else 'Note'}: {finding.text}")
    say(f"Report on {counted(len(found.evaluation), 'row')} written to {out}")


def compare(
    data: Table,
    target: Annotated[
        list[str] | None, typer.Option(help="Column to predict; repeat it for several.", show_default=False)
    ] = None,
    cv: Folds = 5,
    group: Group = None,
    time: Time = None,
    seed: Seed = 0,
    jobs: Jobs = 1,
    task: TaskName = None,
    drop: Dropped = None,
    effort: Annotated[str, typer.Option(help="quick, standard or thorough.")] = "standard",
    columns: Kinds = None,
    missing: Missing = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    as_json: Json = False,
) -> None:
    """Hold a deep GP against one layer, a linear model, gradient boosting and no inputs, by one cross-validation.

    Works for regression, classes and counts. The others are scikit-learn's, on the same rows and encoded columns.
    """
    from sodgp.cli.scores import comparison_as_dictionary, print_comparison
    from sodgp.evaluation.comparison import compare as run

    if not target:
        raise ConfigurationError("sodgp compare needs --target.")
    split = Splitting(cv, group, time)
    encoder = encoder_of(columns, missing, [])
    reading = Reading(separator, decimal, encoding, tuple(encoder.missing))
    estimator, X, y, side = _from_table(data, target, drop, task, reading, split)
    estimator.set_params(columns=encoder, effort=effort)
    begin = None if as_json else (lambda label: say(f"{label} ..."))
    found = run(
        estimator,
        X,
        _targets(estimator, y),
        **split.of(side),
        n_jobs=jobs,
        random_state=seed,
        targets=list(y.columns),
        begin=begin,
    )
    if as_json:
        print_json({"data": str(data), **comparison_as_dictionary(found)})
    else:
        print_comparison(found)


def _from_table(
    path: Path, target: list[str], drop: list[str] | None, task: str | None, reading: Reading, split: Splitting
) -> tuple[DeepGPRegressor | DeepGPClassifier, pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """An estimator for a table's target, inputs, targets, and the columns that say how to split."""
    import pandas as pd

    told = told_task(None, task)
    X, y = training_data(path, target, drop, reading)
    side = side_columns(X, split.columns)
    if split.group is not None:
        # Groups to come are others: their names say nothing.
        X = X.drop(columns=split.group)
    count = X.shape[1]
    if not count:
        raise ConfigurationError("no column is left as an input.")
    kind = task_of(y, None, told)
    both, y = with_targets(pd.concat([X, side.set_axis(range(side.shape[1]), axis=1)], axis=1), y, path, reading, kind)
    X, side = both.iloc[:, :count], both.iloc[:, count:].set_axis(side.columns, axis=1)
    return estimator_for(kind, {"random_state": 0}), X, y, side


def _targets(estimator: DeepGPRegressor | DeepGPClassifier, y: pd.DataFrame) -> Any:
    """Targets as `fit` takes them, with their names."""
    return y if y.shape[1] > 1 else y.iloc[:, 0]
