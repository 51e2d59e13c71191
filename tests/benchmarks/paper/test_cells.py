"""Cell files: whole or not at all, read back as written, never mixed."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from bench_fixtures import make_cell
from benchmarks.paper.cells import Key, differences, need_cells, read_cell, read_cells, refuse_to_mix

from sodgp.errors import ConfigurationError, InputError

WITHOUT_OPTIONS = (
    '{"format": "sodgp-bench-cell", "version": 1, "data": "energy", "method": "SoD", "layers": 2, "split": 0,'
    ' "seed": 0, "settings": {}, "results": {}, "history": {}, "origin": {}}'
)


def test_a_cell_comes_back_as_it_was_written(tmp_path):
    written = [make_cell("energy", "SoD*", 2, split, 0.5 + split) for split in (1, 0)]
    for cell in written:
        cell.write(tmp_path)
    assert read_cells(tmp_path) == written[::-1]
    assert (tmp_path / "energy" / "SoD-star-2-split1.json").is_file()


def test_every_cell_has_a_file_of_its_own():
    keys = [Key(d, m, n, s) for d in ("a", "b") for m in ("SoD", "SoD*", "DSVI") for n in (1, 2) for s in (0, 1, 11)]
    assert len({key.file for key in keys}) == len(keys)


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    make_cell("energy", "SoD", 2, 0, 0.5).write(tmp_path)

    def half(path, content):
        with path.open("wb") as handle:
            handle.write(content[:40])
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_bytes", half)
    for split in (0, 1):
        with pytest.raises(InputError, match=r"could not be written.*disk full"):
            make_cell("energy", "SoD", 2, split, 9.9).write(tmp_path)
    (cell,) = read_cells(tmp_path)
    assert cell.results["nlpp"] == 0.5
    assert len(list((tmp_path / "energy").iterdir())) == 1


def test_not_a_number_is_never_written(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        make_cell("energy", "SoD", 2, 0, float("nan")).write(tmp_path)
    assert read_cells(tmp_path) == []


@pytest.mark.parametrize("text", ["{", "[]", '{"format": "other", "version": 1}', WITHOUT_OPTIONS])
def test_damaged_files_are_named(text, tmp_path):
    make_cell("energy", "SoD", 2, 0, 0.5).write(tmp_path)
    path = tmp_path / "energy" / "SoD-2-split0.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"SoD-2-split0\.json.*Remove it"):
        read_cells(tmp_path)


@pytest.mark.parametrize(
    ("part", "values"),
    [
        ("results", {"nlpp": "abc", "rmse": 1.0, "crps": 1.0}),
        ("results", {"nlpp": 1.0, "rmse": [1], "crps": 1.0}),
        ("results", {"nlpp": 1.0, "rmse": 1.0, "crps": float("nan")}),
        ("settings", {"options": {"max_iter": "99"}}),
        ("settings", {"options": {}}),
        ("history", {"iteration": ["one"]}),
        ("history", {"iteration": [1, 2], "bound": [0.5]}),
        ("history", {"iteration": 1}),
        ("history", {"iteration": [None], "bound": [0.5], "test_nlpp": [0.5], "test_rmse": [0.5]}),
        ("history", {"iteration": [1], "test_nlpp": [0.5], "test_rmse": [0.5]}),
        ("history", {"bound": [0.5], "test_nlpp": [0.5], "test_rmse": [0.5]}),
        ("results", {}),
        ("results", {"nlpp": 10**400, "rmse": 1.0, "crps": 1.0}),
        ("layers", "2"),
    ],
)
def test_edited_cells_are_named(part, values, tmp_path):
    make_cell("energy", "SoD", 2, 0, 0.5).write(tmp_path)
    path = tmp_path / "energy" / "SoD-2-split0.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), part: values}))
    with pytest.raises(InputError, match=r"SoD-2-split0\.json is no benchmark cell.*Remove it"):
        read_cells(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"protocol": "default"},
            r"SoD-2-split1\.json has protocol = 'default', not 'paper' as in energy/DSVI-2-split0",
        ),
        ({"options": {"max_iter": 40}}, r"SoD-2-split1\.json has options\.max_iter = 40, not 20000 as in energy/SoD-2"),
    ],
)
def test_a_mean_over_mixed_settings_is_refused(changes, message, tmp_path):
    cells = [make_cell("energy", method, 2, split, 0.5) for method, split in (("DSVI", 0), ("SoD", 0), ("SoD", 1))]
    cells[-1] = replace(cells[-1], settings=cells[-1].settings | changes)
    for cell in cells:
        cell.write(tmp_path)
    with pytest.raises(InputError, match=message):
        need_cells(tmp_path)


def test_an_option_that_only_one_cell_knows_mixes_nothing(tmp_path):
    old, new = (make_cell("energy", "SoD", 2, split, 0.5) for split in (0, 1))
    new = replace(new, settings=new.settings | {"options": new.settings["options"] | {"younger": 1}})
    for cell in (old, new):
        cell.write(tmp_path)
    assert len(need_cells(tmp_path)) == 2


def test_a_renamed_file_is_refused(tmp_path):
    make_cell("energy", "SoD", 2, 0, 0.5).write(tmp_path)
    renamed = (tmp_path / "energy" / "SoD-2-split0.json").rename(tmp_path / "energy" / "SoD-2-split1.json")
    with pytest.raises(InputError, match="split0"):
        read_cell(renamed, tmp_path)


def test_a_copied_folder_is_refused(tmp_path):
    make_cell("energy", "SoD", 2, 0, 0.5).write(tmp_path)
    shutil.copytree(tmp_path / "energy", tmp_path / "old-energy")
    with pytest.raises(InputError, match=r"old-energy.*it holds the cell of energy"):
        read_cells(tmp_path)


def test_a_full_disk_says_which_cell_was_lost(tmp_path):
    (tmp_path / "energy").write_text("a file where the folder should be")
    with pytest.raises(InputError, match=r"energy/SoD-2-split0\.json could not be written.*Make room"):
        make_cell("energy", "SoD", 2, 0, 0.5).write(tmp_path)


def test_an_empty_folder_says_what_to_do(tmp_path):
    with pytest.raises(InputError, match="paper --data"):
        need_cells(tmp_path / "nothing")


def test_mixing_is_refused_by_name_of_the_difference():
    cell = make_cell("energy", "SoD", 2, 0, 0.5)
    refuse_to_mix([cell], {cell.key.group: cell.settings})
    other = cell.settings | {"options": {"max_iter": 200}}
    # Another split of the same number in the table: the mean would mix settings.
    with pytest.raises(ConfigurationError, match=r"SoD-2-split0\.json has options\.max_iter = 20000, not 200"):
        refuse_to_mix([cell], {cell.key.group: other})
    # Another method may have other options, but not another protocol.
    refuse_to_mix([cell], {("energy", "DSVI", 2): other})
    with pytest.raises(ConfigurationError, match="protocol = 'paper', not 'default'"):
        refuse_to_mix([cell], {("energy", "DSVI", 2): other | {"protocol": "default"}})


def test_differences_sees_missing_names():
    assert differences({"a": 1}, {"a": 1}) == []
    assert differences({"a": 1}, {"b": 2}) == ["a = 1, not None", "b = None, not 2"]
