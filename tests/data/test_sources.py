"""What may be opened as a source, its batches and its state."""

import numpy as np
import pandas as pd
import pytest

from sodgp.data import Source, open_rows, sources
from sodgp.errors import ConfigurationError, InputError, InputTypeError

X, Y = np.arange(20.0).reshape(10, 2), np.arange(10.0)


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", Y)
    return tmp_path


def test_arrays_in_files_come_in_batches(files, monkeypatch):
    monkeypatch.setattr(sources, "BATCH_ROWS", 4)
    source = open_rows(files / "X.npy", files / "y.npy", cache=files / "c")
    assert isinstance(source, Source)
    assert source.name == str(files / "X.npy")
    for _ in range(2):
        batches = list(source.batches())
        assert [len(y) for _, y in batches] == [4, 4, 2]
        assert (np.concatenate([X for X, _ in batches]) == X).all()
    state = source.state()
    np.save(files / "y.npy", Y + 1.5)
    assert open_rows(files / "X.npy", files / "y.npy").state() != state
    assert open_rows(X, Y).state() is None


def test_parts_of_a_mapped_array_have_states_of_their_own(files):
    mapped, y = np.load(files / "X.npy", mmap_mode="r"), np.load(files / "y.npy", mmap_mode="r")
    parts = [(mapped, y), (mapped[:5], y[:5]), (mapped[5:], y[5:]), (mapped[::2], y[::2]), (mapped[5:], y[:5])]
    states = [str(open_rows(*part).state()) for part in parts]
    assert len(set(states)) == len(states)
    assert str(open_rows(mapped[5:], y[5:]).state()) == states[2]


def test_a_function_is_called_for_every_pass():
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=Y)
    source = open_rows(lambda: iter([frame]), "y", drop="b")
    for _ in range(2):
        (batch,) = source.batches()
        assert list(batch) == ["a", "y"]
    assert source.state() is None
    with pytest.raises(InputTypeError, match="this one gave DataFrame without a target"):
        list(open_rows(lambda: [frame]).batches())
    with pytest.raises(InputTypeError, match="this one gave 2 things with a target"):
        list(open_rows(lambda: [(X, Y)], "y").batches())
    with pytest.raises(InputTypeError, match="this one gave 3 things without"):
        list(open_rows(lambda: [(X, Y, Y)]).batches())
    with pytest.raises(ConfigurationError, match="cache= needs files whose changes can be seen"):
        open_rows(lambda: [(X, Y)], cache="folder")


def test_what_cannot_be_opened_is_told(files):
    (files / "t.csv").write_text("a,y\n1,2\n")
    (files / "bad.npy").write_bytes(b"no array")
    cases = [
        ((files / "none-*.parquet",), InputError, "no such file, nor one that fits"),
        (([files / "none.parquet"],), InputError, "there is no such file"),
        ((files / "t.csv", "y"), InputError, r"reads .parquet, .pq and .npy files"),
        ((files / "bad.npy", Y), InputError, "cannot be read as an array"),
        ((files / "X.npy",), ConfigurationError, "arrays need their targets"),
        ((X, Y[:3]), InputError, "must have the shape"),
        (([files / "X.npy", files / "y.npy"],), InputError, "one .npy file at a time"),
        ((pd.DataFrame(X),), InputTypeError, "rows that are in memory go to fit"),
        ((lambda: [], 3), ConfigurationError, "target must be the name of a column"),
    ]
    for arguments, error, message in cases:
        with pytest.raises(error, match=message):
            open_rows(*arguments)
