"""Frozen objects of options, as scikit-learn reads, clones and changes them."""

import dataclasses

import pytest
from sklearn.base import clone

from sodgp.errors import ConfigurationError
from sodgp.system.parameters import Parameters


@dataclasses.dataclass(frozen=True)
class Options(Parameters):
    size: int = 3
    name: str = "a"

    def __post_init__(self):
        if self.size < 0:
            raise ConfigurationError(f"size={self.size}")


def test_fields_are_parameters():
    assert Options(size=4).get_params() == {"size": 4, "name": "a"}
    assert clone(Options(size=4), safe=False) == Options(size=4)


def test_changes_make_another_object():
    options = Options()
    assert options.set_params(size=5) == Options(size=5)
    assert options == Options()
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.size = 5


def test_unknown_names_and_bad_values_are_refused():
    with pytest.raises(ConfigurationError, match="Options has no parameter colour, shape; it has size, name"):
        Options().set_params(shape=1, colour=2)
    with pytest.raises(ConfigurationError, match="size=-1"):
        Options().set_params(size=-1)
