"""Reports of classes."""

from __future__ import annotations

import numpy as np
import pytest
from report_data import FRAME, NASTY, Elements, Y, figures, texts

from sodgp import DeepGPClassifier
from sodgp.errors import InputError
from sodgp.report import cross_validated, held_out

RNG = np.random.default_rng(0)
LABELS = np.array(["low", NASTY, "high"])[np.digitize(Y, [-3.0, 8.0])]


def fitted(X, y, **options):
    given = {"n_layers": 2, "max_iter": 20, "subset_size": 10, "n_predict_samples": 5, "random_state": 0, **options}
    return DeepGPClassifier(**given).fit(X, y)


@pytest.fixture(scope="module")
def report():
    return held_out(fitted(FRAME[:140], LABELS[:140], max_iter=60), FRAME[140:], LABELS[140:])


def test_the_page_has_what_classes_need(report):
    text = report.html()
    found = Elements(text)
    names = [
        "reliability-0",
        "confusion-0",
        "roc-0",
        "precision-recall-0",
        "importance-0",
        "relevance-1",
        "relevance-2",
    ]
    shown = [name for name in figures(found) if not name.startswith("dependence")]
    assert shown == [*names, "subset", "history", "hidden-1"]
    assert "dependence-0-0" in figures(found)
    words = "".join(found.words)
    for name in ("log loss", "Brier score", "accuracy", "area under the ROC", "calibration error", NASTY):
        assert name in words
    assert "<script" not in text
    assert "noise std" not in words


def test_importance_is_the_rise_of_the_log_loss(report):
    a, nasty, count = report.importance.mean[:, 0]
    assert a > count > nasty - 0.05
    assert report.kind.loss == "log loss"


def test_worst_rows_are_those_with_the_least_probable_label(report):
    table, found = report.kind.worst(report, 0), report.evaluation
    row = int(found.log_prob.argmin())
    assert table.rows[0][0] == str(row + 1)
    assert table.rows[0][1][:10] == str(found.classes[found.y[row]])[:10]


def test_folds_keep_the_shares_of_classes_and_of_rows_in_groups():
    X, y = FRAME[["a"]][:60], np.where(Y[:60] > 0, "b", "a")
    model = fitted(X, y, n_layers=1, max_iter=5)
    found = cross_validated(model, X, y, 3)
    assert found.how == "stratified 3-fold cross-validation"
    assert found.evaluation.classes[found.evaluation.y].tolist() == y.tolist()
    grouped = cross_validated(model, X, y, 3, groups=np.arange(60) // 10)
    assert grouped.how == "3-fold cross-validation, groups in one fold"


def test_a_class_that_a_fold_lacks_has_no_probability_there():
    X, y = FRAME[["a"]][:40], np.array(["a", "b"] * 19 + ["c", "c"])
    model = fitted(X, y, n_layers=1, max_iter=5)
    rows = np.arange(40)
    found = cross_validated(model, X, y, [(rows[:38], rows[38:]), (rows[20:], rows[:20])])
    assert found.rows.tolist() == [*range(20), 38, 39]
    assert found.evaluation.probability[-1, 2] == 0
    assert "The folds of 2 rows had no training row" in texts(found.findings)
    assert ">39<" in found.html()


def test_what_is_found_about_classes():
    X = FRAME[["a"]]
    y = np.where(RNG.random(240) < 0.5, "x", "y")
    y[:3] = "z"
    useless = held_out(fitted(X[:140], y[:140], n_layers=1), X[140:], y[140:])
    assert "not clearly better than the shares of the classes" in texts(useless.findings)
    assert "Fewer than 10 training rows of z." in texts(useless.findings)


def test_two_classes_of_booleans_one_row_and_one_class():
    X, y = FRAME[["a"]], (Y > 0).to_numpy()
    model = fitted(X[:60], y[:60], n_layers=1)
    for rows in (slice(60, 61), np.flatnonzero(y)[-30:]):
        page = held_out(model, X.iloc[rows], y[rows]).html()
        assert "nan" not in page.replace("dominant", "")


def test_labels_that_do_not_fit():
    model = fitted(FRAME[["a"]][:60], np.where(Y[:60] > 0, "b", "a"), n_layers=1, max_iter=2)
    with pytest.raises(InputError, match="labels that are no classes of the model: 'c'"):
        cross_validated(model, FRAME[["a"]][:60], np.array(["a", "b", "c"] * 20), 2)
