"""Estimators that are given tables: fits, predictions, model files."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.model_selection import cross_val_score

from sodgp import DeepGPRegressor
from sodgp.errors import ConfigurationError, InputError, ModelFileError, TableWarning
from sodgp.estimator.columns import EncodedRows
from sodgp.estimator.describe import describe, feature_names, input_names
from sodgp.estimator.files.records import from_record, to_record
from sodgp.evaluation import evaluate
from sodgp.plots.inputs import relevance
from sodgp.tables.encoder import TableEncoder

pd = pytest.importorskip("pandas")
RNG = np.random.default_rng(0)
N = 40
TABLE = pd.DataFrame(
    {
        "id": RNG.permutation(N),
        "size": np.where(RNG.random(N) < 0.2, np.nan, RNG.normal(size=N)),
        "colour": RNG.choice(["red", "green", "blue"], N),
        "truth": RNG.choice(["yes", "no"], N),
        "grade": pd.Categorical(RNG.choice(["low", "mid", "high"], N), ["low", "mid", "high"], ordered=True),
        "day": pd.date_range("2020-01-01", periods=N, freq="11D"),
        "price": [f"{v:.1f}".replace(".", ",") for v in 50 * RNG.random(N)],
    }
)
Y = (TABLE["colour"] == "red").to_numpy() + 0.1 * RNG.normal(size=N)
NUMBERS = pd.DataFrame(RNG.normal(size=(N, 2)), columns=["a", "b"])


def tiny(**options):
    return DeepGPRegressor(
        **{"n_layers": 1, "max_iter": 3, "n_predict_samples": 3, "subset_size": 8, "random_state": 0, **options}
    )


@pytest.fixture(scope="module")
def model():
    return tiny(n_layers=2).fit(TABLE, Y)


def test_a_table_is_encoded(model):
    assert model.n_features_in_ == 7
    assert model.feature_names_in_.tolist() == list(TABLE)
    assert list(model.columns_) == list(TABLE)
    assert model.columns_["id"].startswith("left out: an id")
    assert model.columns_["price"] == "number with a decimal comma"
    assert input_names(model) == ["size", "colour", "truth", "grade", "day", "price"]
    assert feature_names(model)[:5] == ["size", "size missing", "colour=blue", "colour=green", "colour=red"]
    about = describe(model)
    assert about["columns"] == model.columns_
    assert about["inputs"] == input_names(model)
    json.dumps(about)


def test_numbers_are_taken_as_they_are():
    wanted = tiny().fit(NUMBERS.to_numpy(), Y).predict(NUMBERS.to_numpy())
    for frame in (NUMBERS, NUMBERS.astype(object), NUMBERS.convert_dtypes()):
        model = tiny().fit(frame, Y)
        assert model.fitted_.columns.encoder is None
        assert_array_equal(model.predict(frame), wanted)
        assert model.columns_ == {"a": "number, as it is", "b": "number, as it is"}
    encoded = tiny(columns={}).fit(NUMBERS, Y)
    assert encoded.columns_ == {"a": "number", "b": "number"}
    assert_array_equal(encoded.predict(NUMBERS), wanted)
    constant = tiny().fit(NUMBERS.assign(c=1.0), Y)
    assert constant.columns_["c"] == "number, as it is"
    assert tiny().fit(NUMBERS.to_numpy(), Y).columns_ == {"x0": "number, as it is", "x1": "number, as it is"}


@pytest.mark.parametrize("library", ["pyarrow", "polars"])
def test_tables_of_other_libraries_predict_the_same(library):
    frame = TABLE.drop(columns="grade")
    other = pytest.importorskip(library)
    table = other.Table.from_pandas(frame) if library == "pyarrow" else other.DataFrame(frame.to_dict("list"))
    model = tiny().fit(table, Y)
    assert_array_equal(model.predict(table), tiny().fit(frame, Y).predict(frame))
    assert len(evaluate(model, table, Y)) == N


def test_a_model_file_with_all_kinds_of_columns_predicts_the_same(model, tmp_path):
    path = tmp_path / "m.sodgp"
    model.save(path)
    again = DeepGPRegressor.load(path)
    assert again.columns_ == model.columns_
    assert again.feature_names_in_.tolist() == list(TABLE)
    new = TABLE[list(TABLE)[::-1]].assign(id="?", more=1)
    new.loc[3, ["size", "price", "truth"]] = None
    new.loc[4, "colour"] = "mauve"
    new["grade"] = new["grade"].astype(object)
    new.loc[5, ["grade", "day"]] = None
    with pytest.warns(TableWarning) as told:
        wanted = model.predict(new)
    said = str(told[0].message)
    assert "'colour' has levels that training had not ('mauve') in 1 row" in said
    assert "'truth' is missing in 1 row, and was never in training" in said
    assert "'size'" not in said
    with pytest.warns(TableWarning):
        assert_array_equal(again.predict(new), wanted)
    rest = np.r_[:3, 6:N]
    assert_allclose(wanted[rest], model.predict(TABLE.iloc[rest]), rtol=1e-12)
    # In another process, which reads the table from a file of text.
    new.to_csv(tmp_path / "new.csv", index=False)
    code = (
        "import pandas as pd, warnings; warnings.simplefilter('ignore'); from sodgp import DeepGPRegressor;"
        f"print(DeepGPRegressor.load({str(path)!r}).predict(pd.read_csv({str(tmp_path / 'new.csv')!r})).tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert_allclose(json.loads(done.stdout), wanted, rtol=1e-9)


@pytest.mark.parametrize(
    "columns",
    [
        "auto",
        {"colour": "category", "grade": ["low", "mid", "high"], "id": "keep"},
        TableEncoder({"id": "drop"}, missing=["-1"], max_levels=4),
    ],
)
def test_the_option_comes_back_from_a_file(columns, tmp_path):
    model = tiny(columns=columns).fit(TABLE, Y)
    model.save(tmp_path / "m.sodgp")
    again = DeepGPRegressor.load(tmp_path / "m.sodgp")
    assert_array_equal(again.predict(TABLE), model.predict(TABLE))
    if isinstance(columns, TableEncoder):
        assert again.columns.get_params() == {**columns.get_params(), "missing": ("-1",)}
    elif columns == "auto":
        assert again.columns == "auto"
    else:
        assert again.columns == {**columns, "grade": ("low", "mid", "high")}
    assert_array_equal(clone(again).fit(TABLE, Y).predict(TABLE), model.predict(TABLE))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda info: info["columns"]["encoder"]["columns"].pop(), "inputs, and the model has"),
        (lambda info: info["columns"].pop("option"), "not what became of a table"),
        (lambda info: info["columns"].update(option="magic"), "columns.option"),
        (lambda info: info["columns"].update(option={"kinds": {"a": 1}}), "columns.option"),
        (lambda info: info["columns"].update(option={"kinds": []}), "columns.option"),
        (lambda info: info["columns"].update(option={"kinds": {}, "missing": 5, "max_levels": 5}), "columns.option"),
        (lambda info: info["feature_names"].reverse(), "other ones than those of its columns"),
        (lambda info: info.update(columns=None), "feature_names"),
    ],
)
def test_damaged_files_are_refused(model, change, message):
    record = to_record(model)
    change(record.info)
    with pytest.raises(ModelFileError, match=message):
        from_record(DeepGPRegressor, record)


@pytest.mark.parametrize("columns", ["all", 3, None, ["a"], {"a": "paint"}])
def test_options_that_are_unknown(columns):
    with pytest.raises(ConfigurationError, match="columns"):
        tiny(columns=columns).fit(NUMBERS, Y)


def test_an_array_has_no_columns_to_name():
    with pytest.raises(InputError, match=r"X is of type ndarray, which has no names\. Give a data frame"):
        tiny(columns={"a": "number"}).fit(NUMBERS.to_numpy(), Y)
    with pytest.raises(InputError, match="holds text or dates in columns 'colour'"):
        tiny(columns="numeric").fit(TABLE[["colour", "truth"]], Y)
    with pytest.raises(InputError, match="is not finite in columns size"):
        tiny(columns="numeric").fit(TABLE[["size"]], Y)


def test_new_rows_that_do_not_fit(model):
    with pytest.raises(InputError, match="lacks the columns 'colour', 'day'"):
        model.predict(TABLE.drop(columns=["day", "colour"]))
    with pytest.raises(InputError, match="'price' holds 'much' in row 1"):
        model.predict(TABLE.assign(price="much"))
    with pytest.raises(InputError, match="no rows"):
        model.predict(TABLE[:0])


def test_a_refused_table_leaves_an_earlier_fit_whole(model):
    before = model.predict(TABLE)
    with pytest.raises(InputError):
        model.fit(TABLE.assign(size=np.inf), Y)
    assert_array_equal(model.predict(TABLE), before)


def test_a_warm_start_encodes_as_before():
    model = tiny(warm_start=True).fit(TABLE, Y)
    half = TABLE.iloc[: N // 2].assign(colour=["red", "green"] * (N // 4))
    names = feature_names(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(half, Y[: N // 2])
    assert feature_names(model) == names


def test_members_and_restarts_share_the_columns():
    for options in ({"n_members": 2}, {"n_restarts": 2}):
        model = tiny(**options).fit(TABLE, Y)
        assert model.predict(TABLE).shape == (N,)
    members = tiny(n_members=2).fit(TABLE, Y).members_
    assert members[0].columns_ == members[1].columns_
    assert members[0].predict(TABLE).shape == (N,)


def test_other_predictions_take_tables(model):
    few = TABLE[:4]
    assert model.predict_distribution(few).mean.shape == (4,)
    assert model.sample_y(few, 2).shape == (4, 2)
    assert model.predict(few, return_cov=True)[1].shape == (4, 4)
    rows = EncodedRows(model.fitted_.columns.encoder.transform(few))
    assert_array_equal(model.predict(rows), model.predict(few))
    assert len(rows[:2]) == 2
    assert rows.shape == (4, len(feature_names(model)))


def test_scikit_learn_sees_the_columns_of_the_table(model):
    found = permutation_importance(model, TABLE, Y, n_repeats=1, random_state=0)
    assert found.importances_mean.shape == (7,)
    assert found.importances_mean[0] == 0  # the id
    assert cross_val_score(tiny(), TABLE.assign(colour=TABLE["colour"]), Y, cv=2).shape == (2,)
    effect = partial_dependence(model, TABLE, ["colour"], categorical_features=["colour"])
    assert effect["average"].shape == (1, 3)


def test_a_category_has_one_relevance(model):
    values = relevance(model)
    assert values.shape == (6,)
    groups = model.fitted_.columns.encoder.groups_
    # A kernel for each output of the first layer: the average of their squares.
    lengths = model.model_.layers[0].kernel.base_kernel.lengthscale.detach().numpy().reshape(-1, len(groups))
    inner = np.sqrt((lengths**-2).mean(0))
    assert_allclose(values[1], np.sqrt((inner[groups == 1] ** 2).sum()))
    assert_allclose(values[4:], [np.sqrt((inner[groups == g] ** 2).sum()) for g in (4, 5)])


def test_a_classifier_takes_tables(tmp_path):
    from sodgp import DeepGPClassifier

    labels = np.where(Y > 0.5, "dear", "cheap")
    model = DeepGPClassifier(n_layers=1, max_iter=3, subset_size=8, n_predict_samples=3, random_state=0)
    model.fit(TABLE, labels)
    assert list(model.columns_) == list(TABLE)
    model.save(tmp_path / "m.sodgp")
    again = DeepGPClassifier.load(tmp_path / "m.sodgp")
    assert_array_equal(again.predict_proba(TABLE[::-1]), model.predict_proba(TABLE[::-1]))
    assert len(evaluate(model, TABLE, labels)) == N
    with pytest.raises(InputError, match="'price' holds 'much' in row 1"):
        model.predict(TABLE.assign(price="much"))
