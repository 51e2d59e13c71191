"""Scores with intervals: equal to those of `sodgp.predictive.metrics`, with the coverage that bootstraps promise."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from sodgp import DeepGPRegressor
from sodgp.errors import InputError
from sodgp.evaluation import scores as evaluation
from sodgp.evaluation.scores import Evaluation, evaluate, joined, observed
from sodgp.predictive import metrics
from sodgp.report import held_out

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 2))
Y = np.stack([X[:, 0] + 0.1 * rng.normal(size=60), 50 + 10 * X[:, 1]], axis=1)


@pytest.fixture(scope="module")
def model():
    return DeepGPRegressor(max_iter=30, subset_size=15, random_state=0).fit(X[:40], Y[:40])


def made(n, seed=0, scale=1.0):
    """An evaluation of standard normal forecasts for errors of standard deviation `scale`."""
    from scipy.stats import norm

    y = scale * np.random.default_rng(seed).normal(size=(n, 1))
    zero, one = np.zeros_like(y), np.ones_like(y)
    return Evaluation(
        ("y",), y, zero, one, zero - 1.645, zero + 1.645, norm.logpdf(y), np.abs(y), norm.cdf(y), zero, one
    )


def test_scores_are_those_of_the_metrics(model):
    found = evaluate(model, X[40:], Y[40:])
    assert found.targets == ("y0", "y1")
    for target in (0, 1):
        dist = model.predict_distribution(X[40:])
        single = type(dist)(*(part.reshape(50, 20, 2)[..., target] for part in (dist._mu, dist._var)))
        expected = metrics.scores(Y[40:, target], single)
        scores = found.scores(target)
        for name, value in expected.items():
            assert scores[name].value == pytest.approx(value, rel=1e-10)
        for name in ("nlpp", "rmse", "crps"):
            assert scores[name].low < scores[name].value < scores[name].high
        residual = Y[40:, target] - Y[:40, target].mean()
        assert scores["base_rmse"].value == pytest.approx(np.sqrt(np.mean(residual**2)))
        assert scores["r2"].value == pytest.approx(1 - (expected["rmse"] / scores["base_rmse"].value) ** 2)


def test_members_are_evaluated_as_one_mixture():
    model = DeepGPRegressor(max_iter=5, subset_size=10, n_members=2, random_state=0).fit(X[:40], Y[:40, 0])
    found = evaluate(model, X[40:], Y[40:, 0])
    expected = metrics.scores(Y[40:, 0], model.predict_distribution(X[40:]))
    assert found.scores(n_bootstrap=0)["nlpp"].value == pytest.approx(expected["nlpp"])
    with pytest.raises(InputError, match="about one DeepGPRegressor or DeepGPClassifier, not a list"):
        held_out(model.members_, X[40:], Y[40:, 0])
    with pytest.raises(InputError, match="not a LinearRegression"):
        evaluate(LinearRegression().fit(X, Y), X, Y)
    with pytest.raises(NotFittedError):
        evaluate(DeepGPRegressor(), X, Y)


def test_frames_chunks_and_names(model, monkeypatch):
    whole = evaluate(model, X, Y)
    monkeypatch.setattr(evaluation, "_CHUNK_ROWS", 7)
    parts = evaluate(model, pd.DataFrame(X).to_numpy(), pd.DataFrame(Y), targets=["a", "b"])
    np.testing.assert_allclose(parts.log_prob, whole.log_prob, rtol=1e-10)
    assert parts.targets == ("a", "b")
    assert len(parts) == 60


def test_targets_with_names_are_put_in_the_models_order():
    names = ["load", "price"]
    model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X, pd.DataFrame(Y, columns=names))
    straight, turned = (evaluate(model, X, pd.DataFrame(Y, columns=names)[order]) for order in (names, names[::-1]))
    assert np.array_equal(straight.y, turned.y)
    with pytest.raises(InputError, match="y has the columns load, cost, but the model has the targets load, price"):
        evaluate(model, X, pd.DataFrame(Y, columns=["load", "cost"]))
    renamed = evaluate(model, X, pd.DataFrame(Y, columns=["load", "cost"]), targets=["load", "cost"])
    assert np.array_equal(renamed.y, straight.y)


def test_after_a_warm_start_scores_compare_with_the_new_rows(tmp_path):
    model = DeepGPRegressor(n_layers=1, max_iter=20, warm_start=True, random_state=0).fit(X[:20], Y[:20, 0])
    model.fit(X[:40], Y[:40, 0] + 20)
    model.save(tmp_path / "m.sodgp")
    residual = Y[40:, 0] - Y[:40, 0].mean()
    for one in (model, DeepGPRegressor.load(tmp_path / "m.sodgp")):
        found = evaluate(one, X[40:], Y[40:, 0] + 20)
        assert found.scores()["base_rmse"].value == pytest.approx(np.sqrt(np.mean(residual**2)))
        column = next(c for c in held_out(one, X[40:], Y[40:, 0] + 20).columns if c.role == "target")
        assert column.shift == pytest.approx(residual.mean() / Y[:40, 0].std())


def test_joined_folds_come_back_in_order(model):
    whole = evaluate(model, X, Y)
    order = np.random.default_rng(1).permutation(60)
    parts = [evaluate(model, X[part], Y[part]) for part in np.array_split(order, 3)]
    np.testing.assert_array_equal(joined(parts, order).y, whole.y)
    np.testing.assert_allclose(joined(parts, order).pit, whole.pit, rtol=1e-10)


def test_coverage_at_any_level():
    found = made(4000)
    levels = np.array([0.1, 0.5, 0.9])
    np.testing.assert_allclose(found.coverage(levels), levels, atol=0.03)
    assert made(4000, scale=2.0).coverage(levels)[2] < 0.65


def test_bootstrap_intervals_cover_the_truth():
    """95 % intervals of the RMSE of unit errors: 200 samples of 200 rows, of which about 190 should hold 1."""
    inside = 0
    for seed in range(200):
        score = made(200, seed).scores(n_bootstrap=200)["rmse"]
        inside += score.low <= 1.0 <= score.high
    assert 176 <= inside <= 199


def test_grouped_rows_give_the_same_intervals(monkeypatch):
    alone = made(3000).scores()["rmse"]
    monkeypatch.setattr(evaluation, "_MAX_GROUPS", 500)
    grouped = made(3000).scores()["rmse"]
    assert grouped.value == alone.value
    assert grouped.high - grouped.low == pytest.approx(alone.high - alone.low, rel=0.25)


def test_the_seed_fixes_the_intervals_and_zero_leaves_them_out():
    found = made(50)
    assert found.scores(random_state=1) == found.scores(random_state=1)
    assert found.scores(random_state=1) != found.scores(random_state=2)
    score = found.scores(n_bootstrap=0)["nlpp"]
    assert score.low == score.value == score.high


def test_one_row_has_no_intervals():
    score = made(1).scores()["rmse"]
    assert np.isfinite(score.value)
    assert np.isnan([score.low, score.high]).all()
    assert made(1).scores(n_bootstrap=0)["rmse"].low == score.value
    assert np.isfinite([score.low for score in made(2).scores().values()]).all()


def test_where_all_targets_are_the_training_mean_there_is_nothing_to_explain(model):
    mean = Y[:40].mean(0, keepdims=True)
    scores = evaluate(model, X[:1], mean).scores()
    assert np.isnan(scores["r2"].value)
    assert np.isfinite(scores["rmse"].value)
    several = evaluate(model, X[:9], mean.repeat(9, axis=0)).scores()
    assert np.isnan([several["r2"].low, several["r2"].high]).all()
    assert several["rmse"].low < several["rmse"].value < several["rmse"].high


@pytest.mark.parametrize(
    ("X_bad", "y_bad", "message"),
    [
        (X, Y[:, 0], "y has 1 columns, but the model has 2 targets"),
        (X[:5], Y, "X has 5 rows, but y has 60"),
        (X[:0], Y[:0], "at least one row"),
        (X, np.where(np.arange(60)[:, None] == 3, np.nan, Y), "in row 3"),
        (X, pd.DataFrame(Y).astype("Float64").mask(Y > 60), "missing or infinite in row"),
        (X[:3], [["a", "b"]] * 3, "y must hold numbers only"),
        (X[:2], [[1.0, 2.0], [3.0]], "y must hold numbers only"),
        (X[:3], np.full((3, 2), "2020-01-01", dtype="datetime64[D]"), "not dates or complex"),
        (X[:3], pd.DataFrame(np.full((3, 2), "2020-01-01", dtype="datetime64[s]")), "not dates or complex"),
        (X[:3], pd.DataFrame({0: Y[:3, 0], 1: pd.Timestamp(0)}), "numbers only"),
        (X[:3], Y[:3].astype(complex), "not dates or complex"),
        (X[:3], 1.0, r"shape \[N\] or \[N, 2\], not \[\]"),
        (X[:3], Y[:3, :, None], r"not \[3, 2, 1\]"),
        (1.0, Y, "X must be a table of rows"),
    ],
)
def test_bad_input(model, X_bad, y_bad, message):
    for check in (evaluate, observed):
        with pytest.raises(InputError, match=message):
            check(model, X_bad, y_bad)


def test_inputs_may_be_tensors_that_want_gradients(model):
    with_gradients = torch.tensor(X[40:], requires_grad=True)
    assert evaluate(model, with_gradients, Y[40:]).scores() == evaluate(model, X[40:], Y[40:]).scores()


def test_targets_come_as_frames_lists_and_tensors(model):
    for y in (Y, Y.tolist(), pd.DataFrame(Y), torch.tensor(Y, requires_grad=True)):
        np.testing.assert_array_equal(observed(model, X, y), Y)
    with pytest.raises(InputError, match="targets has 1 names"):
        evaluate(model, X, Y, targets=["a"])


def test_weights_of_rows_are_repeated_rows_in_scores(model):
    """Of numbers and of classes; intervals are those of rows that count so often."""
    rng = np.random.default_rng(0)
    X, times = rng.uniform(-1, 1, (40, model.n_features_in_)), np.arange(40) % 4
    y = rng.normal(size=(40, model.model_.n_outputs))
    weighted = evaluate(model, X, y, sample_weight=times)
    repeated = evaluate(model, X.repeat(times, 0), y.repeat(times, 0))
    ours, theirs = (found.scores(n_bootstrap=0) for found in (weighted, repeated))
    assert {name: pytest.approx(score.value) for name, score in theirs.items()} == {
        name: score.value for name, score in ours.items()
    }
    np.testing.assert_allclose(weighted.coverage(np.array([0.5, 0.9])), repeated.coverage(np.array([0.5, 0.9])))
    interval = weighted.scores(n_bootstrap=200)["rmse"]
    assert interval.low < interval.value < interval.high
    with pytest.raises(InputError, match="one number for each of 40 rows"):
        evaluate(model, X, y, sample_weight=times[:3])
    folds = joined([weighted, weighted], np.arange(80))
    assert folds.scores(n_bootstrap=0)["rmse"].value == pytest.approx(ours["rmse"].value)
