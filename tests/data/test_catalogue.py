"""Every set has a checksum or a size, and a download or a reason why there is none."""

import pytest

from sodgp.data.catalogue import CATALOGUE, find, names
from sodgp.errors import ConfigurationError


@pytest.mark.parametrize("name", names())
def test_entries_are_complete(name):
    entry = find(name)
    assert entry.name == name
    assert entry.rows > 0
    assert len(set(entry.columns)) == len(entry.columns) > 1
    assert (entry.source is None) == bool(entry.no_source)
    assert entry.sha256_csv is None or len(bytes.fromhex(entry.sha256_csv)) == 32
    assert entry.source is None or entry.source.url.startswith("https://")


def test_files_are_named_after_the_set():
    assert find("energy").files == ("energy.csv.gz",)
    assert "yearpredictionmsd.zip" in find("year").files


def test_unknown_names_are_refused_with_a_guess():
    with pytest.raises(ConfigurationError, match="Did you mean 'energy'"):
        find("enrgy")
    with pytest.raises(ConfigurationError, match=", ".join(CATALOGUE)):
        find("?")
