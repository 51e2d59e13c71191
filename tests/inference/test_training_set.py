"""Subset and rest: put back in order, and the same where the rows stay in a file."""

import pickle

import numpy as np
import pytest
import torch

from sodgp.inference.training_set import MappedSet, TrainingSet, rest_of
from sodgp.system.mapped import MappedTable


def test_a_training_set_is_put_back_in_order():
    X, chosen = torch.arange(6.0)[:, None], torch.tensor([4, 1])
    rest = rest_of(6, chosen)
    assert rest.tolist() == [0, 2, 3, 5]
    data = TrainingSet(X[chosen], -X[chosen], X[rest], -X[rest])
    assert data.n_rest == 4
    ((X_all, y_all),) = data.in_order(chosen)
    assert torch.equal(X_all, X)
    assert torch.equal(y_all, -X)
    assert data.to("cpu").precision_r is None


@pytest.mark.parametrize("chosen", [[4, 1], [0, 1, 2], [19, 7, 18], []])
def test_rows_in_a_file_are_those_in_memory(tmp_path, monkeypatch, chosen):
    monkeypatch.setattr("sodgp.inference.training_set._BLOCK_ROWS", 7)
    rng, chosen = np.random.default_rng(0), torch.tensor(chosen, dtype=torch.int64)
    tables = []
    for name, width in (("X", 3), ("y", 1)):
        tables.append(MappedTable(tmp_path / name, (25, width), "float64"))
        rng.normal(size=(25, width)).tofile(tables[-1].path)
    # The last five rows are held out.
    X, y = (table.tensor()[:20] for table in tables)
    rest = rest_of(20, chosen)
    plain = TrainingSet(X[chosen], y[chosen], X[rest], y[rest])
    rows = torch.tensor([3, 0, len(rest) - 1, 3])
    for mapped in (MappedSet(*tables, 20, chosen), pickle.loads(pickle.dumps(MappedSet(*tables, 20, chosen)))):
        assert mapped.n_rest == plain.n_rest
        assert mapped.to("cpu") is mapped
        for ours, theirs in ((mapped.rest(), plain.rest()), (mapped.rest_at(rows), plain.rest_at(rows))):
            assert all(map(torch.equal, ours[:2], theirs[:2]))
            assert ours[2:] == theirs[2:] == (None, None)
        for parts in (mapped, plain):
            X_all, y_all = (torch.cat(blocks) for blocks in zip(*parts.in_order(chosen), strict=True))
            assert torch.equal(X_all, X)
            assert torch.equal(y_all, y)


def test_a_file_of_rows_that_was_changed_is_refused(tmp_path):
    from sodgp.errors import InputError

    table = MappedTable(tmp_path / "X", (5, 2), "float64")
    with pytest.raises(InputError, match="cannot be read"):
        table.tensor()
    np.zeros((4, 2)).tofile(table.path)
    with pytest.raises(InputError, match="was changed"):
        table.tensor()
    assert MappedTable(tmp_path / "X", (0, 2), "float64").tensor().shape == (0, 2)
