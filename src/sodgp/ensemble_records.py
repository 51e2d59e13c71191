"""Ensembles as records: the records of the members side by side, in one file with one checksum.

The members' entries are the list ``"members"`` of the JSON dictionary, and their tensors carry the member's number in
front (``"member.0.subset.X"``). Each is then checked as a model of its own (`sodgp.records`), and must agree with the
others in its options, columns and targets: together they predict as one.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sodgp.errors import ModelFileError
from sodgp.estimators import DeepGPRegressor, copy_of
from sodgp.io import Record
from sodgp.record_fields import check_whole, refuse, typed, whole
from sodgp.records import check_kind
from sodgp.records import from_record as member_from_record
from sodgp.records import to_record as member_to_record

E = TypeVar("E")

_MAX_MEMBERS = 10_000
_SHARED = ("input_dim", "n_outputs", "y_is_vector", "feature_names", "target_names")


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
    members = [member_to_record(member) for member in ensemble.members_]
    if ensemble.n_members != len(members):
        raise ModelFileError("n_members was changed after fit; fit the ensemble again, then save it.")
    entries = [member.info for member in members]
    _check_agreement(entries)
    seed = ensemble.random_state
    info = {
        "library_version": sodgp.__version__,
        "estimator": type(ensemble).__name__,
        "n_members": len(members),
        "random_state": _seed(int(seed)) if isinstance(seed, int | np.integer) else None,
        "default_members": ensemble.estimator is None,
        "members": entries,
    }
    tensors = {
        f"{_prefix(number)}{name}": tensor
        for number, member in enumerate(members)
        for name, tensor in member.tensors.items()
    }
    return Record(info, tensors)


def from_record(cls: type[E], record: Record) -> E:
    """An ensemble of class `cls` from its record.

    Raises
    ------
    ModelFileError
        An entry is missing, of the wrong type, or a member is not a model or does not fit the others.
    """
    info = record.info
    check_kind(info, cls)
    entries = typed(info, "members", list)
    if whole(info, "n_members", 1, _MAX_MEMBERS) != len(entries):
        refuse("n_members", f"another number than that of its {len(entries)} members")
    if not all(isinstance(entry, dict) for entry in entries):
        refuse("members", "not a list of models")
    _check_agreement(entries)
    shares: list[dict[str, Any]] = [{} for _ in entries]
    places = {_prefix(number): share for number, share in enumerate(shares)}
    for name, tensor in record.tensors.items():
        head, _, rest = name.partition(".")
        number, _, inner = rest.partition(".")
        place = f"{head}.{number}."
        if place not in places:
            refuse(name[:60], "not part of such an ensemble")
        places[place][inner] = tensor
    members = [_member(number, entry, shares[number], info) for number, entry in enumerate(entries)]
    base = None if typed(info, "default_members", bool) else copy_of(members[0], random_state=None)
    ensemble: Any = cls(base, n_members=len(members), random_state=_seed(info.get("random_state")))  # type: ignore[call-arg]
    ensemble._take(members)
    return ensemble


def _member(number: int, entry: dict[str, Any], tensors: dict[str, Any], info: dict[str, Any]) -> DeepGPRegressor:
    """One member; the file's format version is that of every part of it."""
    versioned = {name: value for name, value in info.items() if name == "format_version"}
    try:
        return member_from_record(DeepGPRegressor, Record({**entry, **versioned}, tensors))
    except ModelFileError as error:
        raise ModelFileError(f"member {number}: {error}") from error


def _check_agreement(entries: list[dict[str, Any]]) -> None:
    """Refuse members that cannot predict as one: of other options but the seed, other columns or other targets."""
    first, *others = (_common(entry) for entry in entries)
    for number, other in enumerate(others, start=1):
        different = sorted(name for name in first.keys() | other.keys() if first.get(name) != other.get(name))
        if different:
            raise ModelFileError(f"its members 0 and {number} differ in {different[0]!s:.60}.")


def _common(entry: dict[str, Any]) -> dict[str, Any]:
    options = typed(entry, "parameters", dict)
    return {**options, "random_state": None, **{name: entry.get(name) for name in _SHARED}}


def _seed(value: Any) -> int | None:
    if value is not None:
        check_whole("random_state", value, 0, 2**32 - 1)
    return None if value is None else int(value)


def _prefix(number: int) -> str:
    return f"member.{number}."
