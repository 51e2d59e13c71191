"""A shuffle through files: every row once, in an order that is random but always the same."""

import numpy as np

from sodgp.data import shuffle
from sodgp.data.shuffle import Shuffle


def shuffled(folder, values, batch):
    some = Shuffle(folder, values.shape[1], len(values))
    for start in range(0, len(values), batch):
        some.add(values[start : start + batch])
    return list(some.rows())


def test_every_row_comes_once_in_a_random_order(tmp_path, monkeypatch):
    monkeypatch.setattr(shuffle, "_BUCKET_BYTES", 16 * 300)
    values = np.stack([np.arange(2000.0), np.arange(2000.0) ** 2], axis=1)
    blocks = shuffled(tmp_path, values, 150)
    assert len(blocks) == 7
    found = np.concatenate(blocks)
    assert (found[found[:, 0].argsort()] == values).all()
    # Each tenth of the rows is spread over the whole order.
    places = found[:, 0].argsort().reshape(10, -1)
    assert np.abs(places.mean(1) - 1000).max() < 150
    assert abs(np.corrcoef(found[:, 0], np.arange(2000))[0, 1]) < 0.08
    assert not list(tmp_path.iterdir())
    again = np.concatenate(shuffled(tmp_path, values, 150))
    assert (again == found).all()


def test_files_of_an_earlier_attempt_are_not_taken_in(tmp_path):
    (tmp_path / "bucket-0").write_bytes(b"12345678")
    assert len(np.concatenate(shuffled(tmp_path, np.ones((5, 1)), 5))) == 5
    assert shuffled(tmp_path, np.empty((0, 1)), 5) == []
