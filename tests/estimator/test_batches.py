"""Predictions in batches: those of all rows at once."""

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from sodgp import DeepGPClassifier, DeepGPRegressor
from sodgp.errors import ConfigurationError, InputError

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.standard_normal((50, 2)), columns=["a", "b"])
NEW = pd.DataFrame(RNG.standard_normal((23, 2)), columns=["a", "b"])


@pytest.fixture(scope="module")
def model():
    options = {"max_iter": 3, "subset_size": 10, "n_predict_samples": 5, "n_members": 1, "random_state": 0}
    return DeepGPRegressor(**options).fit(FRAME, np.sin(FRAME["a"]))


def joined(batches):
    return tuple(np.concatenate(parts) for parts in zip(*batches, strict=True))


def sources(folder):
    pa = pytest.importorskip("pyarrow")
    NEW[["b", "a"]].assign(more=1.0).to_parquet(folder / "new.parquet", row_group_size=4)
    NEW.to_csv(folder / "new.csv", index=False)
    return {
        "parquet": folder / "new.parquet",
        "csv": str(folder / "new.csv"),
        "frame": NEW,
        "iterable": (NEW.iloc[start : start + 10] for start in range(0, 23, 10)),
        "arrow": pa.Table.from_pandas(NEW),
        "arrow batches": iter(pa.Table.from_pandas(NEW).to_batches(max_chunksize=10)),
    }


@pytest.mark.parametrize("name", ["parquet", "csv", "frame", "iterable", "arrow", "arrow batches"])
def test_batches_of_all_kinds_are_predicted_as_the_whole(model, tmp_path, name):
    found = list(model.predict_batches(sources(tmp_path)[name], batch_rows=10, return_std=True))
    assert [len(mean) for mean, _ in found] == [10, 10, 3]
    for ours, theirs in zip(joined(found), model.predict(NEW, return_std=True), strict=True):
        assert_allclose(ours, theirs, rtol=0, atol=1e-12)


def test_batches_are_asked_for_one_by_one(model):
    asked = []

    def batches():
        for start in (0, 10):
            asked.append(start)
            yield NEW.iloc[start : start + 10]

    found = model.predict_batches(batches(), method="predict_distribution")
    assert asked == []
    assert len(next(found)) == 10
    assert asked == [0]


def test_other_workers_predict_the_same(model):
    with joblib.parallel_config(backend="threading"):  # processes take seconds to start
        alone, two = (np.concatenate(list(model.predict_batches(NEW, batch_rows=12, n_jobs=jobs))) for jobs in (1, 2))
    assert_allclose(two, alone, rtol=0, atol=0)


def test_a_model_without_names_takes_columns_by_order(tmp_path):
    model = DeepGPRegressor(n_layers=1, max_iter=2, random_state=0).fit(FRAME.to_numpy(), FRAME["a"].to_numpy())
    NEW.to_csv(tmp_path / "new.csv", index=False)
    (mean,) = model.predict_batches(tmp_path / "new.csv")
    assert_allclose(mean, model.predict(NEW.to_numpy()), rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_log_proba"])
def test_classes_come_in_batches_too(tmp_path, method):
    options = {"n_layers": 1, "max_iter": 3, "subset_size": 10, "n_predict_samples": 5, "random_state": 0}
    model = DeepGPClassifier(**options).fit(FRAME, np.where(FRAME["a"] > 0, "right", "left"))
    NEW.to_csv(tmp_path / "new.csv", index=False)
    found = np.concatenate(list(model.predict_batches(tmp_path / "new.csv", method=method, batch_rows=10)))
    whole = getattr(model, method)(NEW)
    if method == "predict":
        assert found.tolist() == whole.tolist()
    else:
        assert_allclose(found, whole, rtol=1e-10)
    parts = list(model.predict_batches(NEW, method="predict_distribution", batch_rows=10))
    assert_allclose(type(parts[0]).concatenate(parts).mean, model.predict_proba(NEW), rtol=1e-10)


def test_counts_come_in_batches_too():
    options = {"n_layers": 1, "max_iter": 3, "subset_size": 10, "n_predict_samples": 5, "random_state": 0}
    model = DeepGPRegressor(**options, likelihood="poisson").fit(FRAME, np.arange(50) % 4)
    parts = list(model.predict_batches(NEW, method="predict_distribution", batch_rows=10))
    whole = model.predict_distribution(NEW)
    assert_allclose(type(whole).concatenate(parts).log_prob(np.ones(23)), whole.log_prob(np.ones(23)), rtol=1e-10)


@pytest.mark.parametrize("kind", [DeepGPRegressor, DeepGPClassifier])
def test_tables_come_in_batches_too(tmp_path, kind):
    frame = FRAME.assign(city=["north", "south"] * 25, id=range(50))
    options = {"n_layers": 1, "max_iter": 3, "subset_size": 10, "n_predict_samples": 5, "random_state": 0}
    model = kind(**options, columns={"id": "drop"}).fit(frame, np.arange(50) % 2)
    new = NEW.assign(city=["south"] * 20 + ["north"] * 3)
    new.to_csv(tmp_path / "new.csv", index=False)
    whole = model.predict_distribution(new).mean
    for X in (new, tmp_path / "new.csv"):
        found = model.predict_batches(X, method="predict_distribution", batch_rows=10)
        assert_allclose(np.concatenate([each.mean for each in found]), whole, rtol=1e-10)
    NEW.to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(InputError, match="lacks input columns of the model: 'city'"):
        next(model.predict_batches(tmp_path / "new.csv"))


def test_what_cannot_be_used_is_refused(model):
    with pytest.raises(ConfigurationError, match="batch_rows must be an integer"):
        model.predict_batches(NEW, batch_rows=0)
    with pytest.raises(ConfigurationError, match="method='predicts' is no method"):
        model.predict_batches(NEW, method="predicts")
    with pytest.raises(InputError, match="not int"):
        next(model.predict_batches(7))
    arrow = pytest.importorskip("pyarrow").Table.from_pandas(NEW[["a"]])
    with pytest.raises(InputError, match="lacks input columns of the model: 'b'"):
        next(model.predict_batches(arrow))
