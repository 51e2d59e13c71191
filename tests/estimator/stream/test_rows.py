"""Fits to a source: to the last bit what a fit in memory makes of the same rows; a clear error where they are bad."""

import errno
import os
import pickle
import shutil

import numpy as np
import pandas as pd
import pytest

from sodgp import DSVI, SGHMC, Checkpoint, DeepGPClassifier, DeepGPRegressor, SoD
from sodgp.data import open_rows
from sodgp.errors import ConfigurationError, InputError, InputTypeError, ResourceError, SodgpWarning, TableWarning
from sodgp.estimator.stream import rows as stream_rows
from sodgp.estimator.stream import survey as stream_survey
from sodgp.estimator.stream import writer as stream_writer

RNG = np.random.default_rng(0)
N = 500
X = RNG.normal(size=(N, 3)) * [1.0, 5.0, 0.1] + [0.0, 2.0, -1.0]
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=N)
NAMES = ["a", "b", "c"]
FRAME = pd.DataFrame(X, columns=NAMES).assign(y=Y + 2.0)
Y = FRAME["y"].to_numpy()


def make(kind=DeepGPRegressor, **options):
    few = {"subset_size": 10, "n_samples": 2, "n_predict_samples": 5, "max_iter": 6, "batch_size": 40, "n_layers": 2}
    # With so few rows the labels of all of them would be in q_hat.
    few["inference"] = SoD(objective="predictive" if kind is DeepGPRegressor else "bound")
    return kind(**{**few, "random_state": 0, **options})


@pytest.fixture(autouse=True)
def files_are_not_taken_into_memory(monkeypatch):
    monkeypatch.setattr(stream_rows, "IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(stream_rows, "IN_MEMORY_ROWS", 0)


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for number, start in enumerate(range(0, N, 200)):
        FRAME[start : start + 200].to_parquet(folder / f"part-{number}.parquet", row_group_size=70)
    return folder


def order_of(cache):
    (entry,) = cache.glob("*/rows")
    return np.fromfile(entry, dtype=np.int64)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"subset": "random", "n_layers": 1},
        {"hidden_width": 2, "inference": SoD(objective="bound", coupling="marginal")},
        {"inference": DSVI()},
        {"inference": SGHMC(n_posterior_samples=4, thinning=1, n_chains=1), "n_samples": 10},
        {"likelihood": "heteroscedastic"},
        {"target_transform": "box_cox"},
        {"batch_size": 10_000, "inference": SoD(objective="predictive")},
        {"n_members": 2},
        {"n_restarts": 2},
    ],
    ids=str,
)
def test_a_fit_to_files_has_the_bits_of_one_in_memory(files, tmp_path, options):
    streamed = make(**options).fit(open_rows(files, "y", cache=tmp_path / "cache"))
    order = order_of(tmp_path / "cache")
    assert sorted(order) == list(range(N))
    assert not (order == np.arange(N)).all()
    plain = make(**options).fit(FRAME[NAMES].iloc[order], FRAME["y"].iloc[order])
    if options.get("n_members") or options.get("n_restarts"):
        # In memory such small models train in one program, which rounds otherwise.
        np.testing.assert_allclose(streamed.predict(FRAME[NAMES][:9]), plain.predict(FRAME[NAMES][:9]), rtol=1e-9)
    else:
        assert streamed.history_.bound == plain.history_.bound
        assert (streamed.predict(FRAME[NAMES][:9]) == plain.predict(FRAME[NAMES][:9])).all()
    assert streamed.objective_ == plain.objective_
    assert list(streamed.feature_names_in_) == NAMES
    assert streamed.target_names_ == ["y"]
    assert streamed.fitted_.n_rows == N
    assert (streamed.fitted_.x_range == plain.fitted_.x_range).all()
    if streamed.inference_.uses_subset:
        # Rows are numbered as in the source.
        assert (streamed.subset_indices_ == order[plain.subset_indices_]).all()


def test_a_streamed_model_is_an_ordinary_one(files, tmp_path):
    model = make().fit(open_rows(files, "y"))
    model.save(tmp_path / "m.sodgp")
    loaded = DeepGPRegressor.load(tmp_path / "m.sodgp")
    assert (loaded.predict(FRAME[NAMES]) == model.predict(FRAME[NAMES])).all()
    assert pickle.loads(pickle.dumps(model)).subset_indices_.tolist() == model.subset_indices_.tolist()


def test_rows_that_fit_into_memory_are_taken_there(files, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    mapped = make().fit(open_rows(files, "y", cache=cache))
    monkeypatch.undo()
    plain = make().fit(open_rows(files, "y", cache=cache))
    assert plain.history_.bound == mapped.history_.bound
    # With the labels of all rows in q_hat, as in memory.
    assert make(inference="sod", max_iter=2).fit(open_rows(files, "y", cache=cache)).objective_ == "leave_one_out"


def test_arrays_datasets_and_iterators_give_the_same_model(files, tmp_path):
    dataset = pytest.importorskip("pyarrow.dataset")
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", Y)
    expected = make().fit(open_rows(X, Y)).history_.bound
    sources = [
        open_rows(tmp_path / "X.npy", tmp_path / "y.npy"),
        open_rows(lambda: iter([(X, Y)])),
        open_rows(lambda: [FRAME], "y"),
        open_rows(sorted(files.iterdir())[:3], "y"),
        open_rows(dataset.dataset(files), "y"),
    ]
    found = [make().fit(source).history_.bound for source in sources]
    assert found[:3] == [expected] * 3
    # Other batches are dealt out in another order.
    np.testing.assert_allclose([bound[0] for bound in found[3:]], expected[0], rtol=0.2)


def test_classes_are_found_in_all_batches(tmp_path):
    labels = np.where(Y > 2.5, "high", np.where(Y < 1.5, "low", "middle"))
    frame = FRAME.assign(y=labels).sort_values("y").reset_index(drop=True)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=50)
    source = open_rows(tmp_path / "t.parquet", "y", cache=tmp_path / "cache")
    streamed = make(DeepGPClassifier).fit(source)
    order = order_of(tmp_path / "cache")
    plain = make(DeepGPClassifier).fit(frame[NAMES].iloc[order], frame["y"].iloc[order])
    assert streamed.classes_.tolist() == ["high", "low", "middle"]
    assert streamed.fitted_.columns.class_rows.tolist() == plain.fitted_.columns.class_rows.tolist()
    assert streamed.history_.bound == plain.history_.bound
    assert (streamed.predict_proba(frame[NAMES]) == plain.predict_proba(frame[NAMES])).all()
    two = make(DeepGPClassifier).fit(open_rows(X, Y > 2))
    assert two.classes_.tolist() == [False, True]


def test_counts_are_streamed_too(files):
    source = open_rows(lambda: iter([(X, np.round(np.exp(Y)))]))
    assert make(likelihood="poisson").fit(source).n_iter_ == 6
    with pytest.raises(InputError, match="likelihood='poisson' is of counts"):
        make(likelihood="poisson").fit(open_rows(X, Y))


def test_tables_with_categories_and_gaps_are_encoded(tmp_path):
    frame = FRAME.assign(city=RNG.choice(["Rome", "Oslo", "Bonn"], N), b=np.where(X[:, 1] > 4, np.nan, X[:, 1]))
    frame.to_parquet(tmp_path / "t.parquet")
    source = open_rows(tmp_path / "t.parquet", "y", cache=tmp_path / "cache")
    streamed = make().fit(source)
    order = order_of(tmp_path / "cache")
    inputs = [*NAMES, "city"]
    plain = make(columns=streamed.fitted_.columns.encoder).fit(frame[inputs].iloc[order], frame["y"].iloc[order])
    assert streamed.columns_ == make().fit(frame[inputs], frame["y"]).columns_
    assert streamed.columns_["city"].startswith("category of 3 levels")
    np.testing.assert_allclose(streamed.predict(frame[inputs]), plain.predict(frame[inputs]), rtol=1e-9)
    with pytest.raises(InputError, match="row 4, column 'b'"):
        make(columns="numeric").fit(open_rows(lambda: [FRAME.assign(b=[*X[:4, 1], np.nan, *X[5:, 1]])], "y"))


def test_levels_that_the_sample_lacks_are_counted(monkeypatch):
    monkeypatch.setattr(stream_survey, "SAMPLE_ROWS", 100)
    city = np.where(np.arange(N) % 2, "Rome", "Oslo").astype(object)
    city[7] = "Bonn"
    sampled = stream_survey.Sample(100)
    sampled.add(FRAME.assign(city=city))
    assert "Bonn" not in set(sampled.frame()["city"])
    message = r"'city' has levels that a random sample of 100 rows had not \('Bonn'\) in 1 row\."
    with pytest.warns(TableWarning, match=message):
        make().fit(open_rows(lambda: [FRAME.assign(city=city)], "y"))


def test_held_out_rows_are_the_last_of_the_random_order(files, tmp_path):
    model = make(validation_fraction=0.1)
    model.fit(open_rows(files, "y", cache=tmp_path / "cache"))
    order = order_of(tmp_path / "cache")
    assert model.validation_indices_.tolist() == order[450:].tolist()
    assert model.fitted_.n_rows == 450
    assert len(model.history_.validation) == len(model.history_.iteration)
    assert not set(model.subset_indices_) & set(model.validation_indices_)


def test_transformed_targets_are_scored_in_their_own_units(files, tmp_path):
    model = make(validation_fraction=0.1, target_transform="log").fit(open_rows(files, "y", cache=tmp_path / "cache"))
    order = order_of(tmp_path / "cache")
    plain = make(target_transform="log").fit(FRAME[NAMES].iloc[order[:450]], Y[order[:450]])
    found = plain.predict_distribution(FRAME[NAMES].iloc[order[450:]]).log_prob(Y[order[450:]]).mean()
    assert abs(model.history_.validation[-1] - found) < 0.1
    with pytest.raises(InputError, match="is for positive targets, and y is -"):
        make(target_transform="log").fit(open_rows(X, Y - 2.0))


def test_single_precision_has_a_file_of_its_own(files, tmp_path):
    model = make(dtype="float32").fit(open_rows(files, "y", cache=tmp_path / "cache"))
    (file,) = (tmp_path / "cache").glob("*/X")
    assert file.stat().st_size == 4 * N * 3
    assert abs(model.predict(FRAME[NAMES]).mean() - Y.mean()) < 1.0


def test_a_warm_start_keeps_the_scaling(files, tmp_path):
    model = make(warm_start=True).fit(X[:100], Y[:100])
    scaler = model.fitted_.x_scaler
    model.fit(open_rows(X, Y))
    assert (model.fitted_.x_scaler.mean_ == scaler.mean_).all()
    np.testing.assert_allclose(model.fitted_.x_seen.mean_, X.mean(0), rtol=1e-12)
    assert model.fitted_.n_rows == N
    with pytest.raises(InputError, match="warm_start continues a fit with 3 columns of X"):
        model.fit(open_rows(X[:, :2].copy(), Y))


def test_a_model_that_keeps_all_rows_is_not_continued_from_a_source():
    model = make(inference="sod", warm_start=True).fit(X[:100], Y[:100])
    with pytest.raises(ConfigurationError, match="keeps all 500 rows in the model"):
        model.fit(open_rows(X, Y))


def test_a_checkpoint_is_continued_to_the_same_bits(files, tmp_path):
    source = open_rows(files, "y")
    options = {"max_iter": 8}
    whole = make(**options).fit(source)
    place = Checkpoint(tmp_path / "run", every=4)
    first = make(**options, checkpoint=place, max_minutes=1e-9).fit(source)
    assert first.n_iter_ < 8
    again = make(**options, checkpoint=place).fit(source, resume=True)
    assert again.history_.bound[-1] == whole.history_.bound[-1]
    assert (again.predict(FRAME[NAMES]) == whole.predict(FRAME[NAMES])).all()


def test_members_in_other_processes_read_the_same_file(files):
    options = {"n_members": 2}
    one = make(**options).fit(open_rows(files, "y"))
    two = make(**options, n_jobs=2).fit(open_rows(files, "y"))
    asked = []
    make(**options, max_iter=2).fit(open_rows(lambda: asked.append(1) or [FRAME], "y"))
    assert len(asked) == 2
    assert (one.predict(FRAME[NAMES]) == two.predict(FRAME[NAMES])).all()


def test_selectors_that_compare_rows_see_a_random_part(monkeypatch):
    monkeypatch.setattr(stream_rows, "PART_ROWS", 100)
    with pytest.warns(SodgpWarning, match="subset=Leverage compares rows .* from 100 random rows of the 500"):
        model = make(subset="leverage").fit(open_rows(X, Y))
    assert model.subset_indices_.max() >= 100
    assert make(subset_size="auto").fit(open_rows(X, Y)).subset_size_reason_.startswith("subset_size='auto' chose")


def test_the_cache_is_used_again_until_a_file_changes(files, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    written = []
    write = stream_writer.Writer.write
    monkeypatch.setattr(stream_writer.Writer, "write", lambda self, folder: written.append(1) or write(self, folder))
    first = make().fit(open_rows(files, "y", cache=cache))
    second = make(random_state=1).fit(open_rows(files, "y", cache=cache))
    assert len(written) == 1
    assert first.history_.bound != second.history_.bound
    make(validation_fraction=0.1).fit(open_rows(files, "y", cache=cache))
    assert len(written) == 2
    FRAME[:200].assign(a=0.0).to_parquet(files / "part-0.parquet")
    make().fit(open_rows(files, "y", cache=cache))
    assert len(written) == 3
    assert all(path.name.isalnum() for path in cache.iterdir())


def test_without_a_cache_nothing_is_left(files, tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    make().fit(open_rows(files, "y"))
    with pytest.raises(InputError, match="column 'c'"):
        make().fit(open_rows(lambda: [FRAME.assign(c=np.inf)], "y"))
    assert not list(temporary.iterdir())


BAD = {
    "nothing": (lambda: iter([]), "has no rows"),
    "text": (lambda: [FRAME.assign(y="much")], "the column 'y' hold text or dates"),
    "a lost target": (lambda: [FRAME, FRAME[NAMES]], "rows from 500 on.*lacks the columns 'y'|lacks the columns 'y'"),
    "another column": (lambda: [FRAME, FRAME.rename(columns={"a": "z"})], "columns"),
    "a gap in the target": (lambda: [FRAME, FRAME.assign(y=np.nan)], "rows from 500 on .*y is missing .* in row 0"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_batches_are_refused(case):
    make_rows, message = BAD[case]
    with pytest.raises(InputError, match=message):
        make().fit(open_rows(make_rows, "y"))


def test_bad_pairs_are_refused():
    pairs = {
        "that of the first had 3": [(X, Y), (X[:, :2], Y)],
        "rows of X and": [(X, Y[:5])],
        "shape": [(X[:, 0], Y)],
        "missing or not finite in row 3": [(np.where(np.arange(N)[:, None] == 3, np.nan, X), Y)],
        "must be numbers": [(X.astype(str), Y)],
    }
    for message, batches in pairs.items():
        with pytest.raises(InputError, match=message):
            make().fit(open_rows(lambda batches=batches: batches))
    with pytest.raises(InputTypeError, match="labels of mixed types"):
        make(DeepGPClassifier).fit(open_rows(lambda: [(X, Y > 2), (X, np.full(N, "no"))]))
    with pytest.raises(InputError, match="at least two classes"):
        make(DeepGPClassifier).fit(open_rows(X, Y > -100))
    with pytest.raises(InputError, match="columns names columns, but"):
        make(columns={"a": "number"}).fit(open_rows(X, Y))


def test_an_iterator_that_is_used_up_is_told(tmp_path):
    once = iter([(X, Y)])
    with pytest.raises(InputError, match="gave 500 rows when it was first read, and then fewer"):
        make().fit(open_rows(lambda: once))
    counts = iter([[(X, Y)], [(X, Y), (X, Y)]])
    with pytest.raises(InputError, match="and then more"):
        make().fit(open_rows(lambda: next(counts)))


def test_a_file_that_is_changed_while_it_is_read_is_told(files, monkeypatch, tmp_path):
    cache = tmp_path / "cache"
    source = open_rows(files, "y", cache=cache)
    FRAME[:150].to_parquet(files / "part-0.parquet")
    with pytest.raises(InputError, match=r"part-0.parquet was changed .* it had 200 rows, and gave 150"):
        make().fit(source)
    assert not cache.exists() or not list(cache.iterdir())


def test_a_full_disk_leaves_nothing_behind(files, tmp_path, monkeypatch):
    cache = tmp_path / "cache"

    def full(self, rows):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(stream_writer.Shuffle, "add", full)
    with pytest.raises(ResourceError, match=r"the disk of .*cache is full .* Name a folder on another disk"):
        make().fit(open_rows(files, "y", cache=cache))
    assert not list(cache.iterdir())
    monkeypatch.undo()
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(100, 90, 10))
    with pytest.raises(ResourceError, match=r"has room for 0.00 GB") as raised:
        make().fit(open_rows(files, "y", cache=cache))
    assert raised.value.needed == 24 * N * 5


def test_a_cache_where_no_folder_can_be_is_refused(files, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be kept in"):
        make().fit(open_rows(files, "y", cache=tmp_path / "file"))


def test_what_a_source_cannot_have_is_refused():
    source = open_rows(X, Y)
    cases = [
        ({"inference": "mean_field", "batch_size": None, "n_samples": 10}, {}, "inference='mean_field' needs all rows"),
        ({"inference": SoD(objective="collapsed")}, {}, "objective='collapsed' keeps all rows"),
        ({}, {"noise_variance": 0.1}, "noise_variance is given for rows in memory"),
    ]
    for options, arguments, message in cases:
        with pytest.raises(ConfigurationError, match=message):
            make(**options).fit(source, **arguments)
    with pytest.raises(ConfigurationError, match="likelihood='dirichlet' has known noise"):
        make(DeepGPClassifier, likelihood="dirichlet").fit(source)
    with pytest.raises(ConfigurationError, match="nobody can say that of the array"):
        make().fit(open_rows(X, Y, cache="folder"))
    with pytest.raises(InputError, match="has its own targets"):
        make().fit(source, Y)
    with pytest.raises(InputError, match="has 500 rows, fewer than subset_size=501"):
        make(subset_size=501, batch_size=600).fit(source)
    from sodgp.estimator.many import fit_replicates

    with pytest.raises(ConfigurationError, match="fit to sources of rows one by one"):
        fit_replicates([make(), make()], [(source, None), (source, None)])
