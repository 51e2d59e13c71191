"""Errors cross between processes with all that they carry."""

from __future__ import annotations

import pickle

import pytest

from sodgp import errors

KINDS = [kind for kind in map(vars(errors).get, errors.__all__) if issubclass(kind, errors.SodgpError)]
MORE = {
    errors.CholeskyError: {"layer": 2, "sample": 1, "condition": 1e9},
    errors.ResourceError: {"needed": 2, "available": 1},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_can_be_pickled(kind):
    error = kind("what happened.", **MORE.get(kind, {}))
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert (str(again), vars(again)) == ("what happened.", vars(error))
    assert vars(again).items() >= MORE.get(kind, {}).items()
