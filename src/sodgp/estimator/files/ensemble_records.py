"""Ensembles as records: the records of the members side by side, in one file with one checksum."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sodgp.errors import ModelFileError
from sodgp.estimator.files.member_records import gathered, parted
from sodgp.estimator.files.record_fields import check_whole, typed
from sodgp.estimator.files.records import check_kind
from sodgp.estimator.files.records import from_record as member_from_record
from sodgp.estimator.files.records import to_record as member_to_record
from sodgp.estimator.regressor import DeepGPRegressor
from sodgp.estimator.several import copy_of
from sodgp.system.container import Record

E = TypeVar("E")


def to_record(ensemble: Any) -> Record:
    """Everything a fitted ensemble needs to predict, and its members' histories.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        It has not been fitted.
    ModelFileError
        A parameter cannot be stored, or was changed after the fit.
    """
    import sodgp

    check_is_fitted(ensemble)
    strange = {type(member) for member in ensemble.members_} - {DeepGPRegressor}
    if strange:
        raise ModelFileError(f"its members are {strange.pop().__name__}, and only DeepGPRegressor can be read again.")
    together = gathered([member_to_record(member) for member in ensemble._together().members])
    if ensemble.n_members != len(ensemble.members_):
        raise ModelFileError("n_members was changed after fit; fit the ensemble again, then save it.")
    seed = ensemble.random_state
    info = {
        "library_version": sodgp.__version__,
        "estimator": type(ensemble).__name__,
        "random_state": _seed(int(seed)) if isinstance(seed, int | np.integer) else None,
        "default_members": ensemble.estimator is None,
    }
    return Record({**info, **together.info}, together.tensors)


def from_record(cls: type[E], record: Record) -> E:
    """An ensemble of class `cls` from its record.

    Raises
    ------
    ModelFileError
        An entry is missing, of the wrong type, or a member is not a model or does not fit the others.
    """
    info = record.info
    check_kind(info, cls)
    members = parted(record, lambda part: member_from_record(DeepGPRegressor, part))
    base = None if typed(info, "default_members", bool) else copy_of(members[0], random_state=None)
    ensemble: Any = cls(base, n_members=len(members), random_state=_seed(info.get("random_state")))  # type: ignore[call-arg]
    ensemble._take(members)
    return ensemble


def _seed(value: Any) -> int | None:
    if value is not None:
        check_whole("random_state", value, 0, 2**32 - 1)
    return None if value is None else int(value)
