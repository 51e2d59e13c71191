"""Records of several models in one: how an ensemble, and an estimator of several members, are kept in a file.

The members' entries are the list ``"members"`` of the JSON dictionary, and their tensors carry the member's number in
front (``"member.0.subset.X"``). Each is then checked as a model of its own
(`sodgp.estimator.files.records`), and must agree with the others in its options, columns and
targets: together they predict as one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from torch import Tensor

from sodgp.errors import ConfigurationError, ModelFileError
from sodgp.estimator.files.record_fields import (
    decode_parameters,
    encode_parameters,
    names_of,
    refuse,
    take_names,
    typed,
    whole,
)
from sodgp.estimator.options.efforts import members_of
from sodgp.system.container import Record

E = TypeVar("E")

_MAX_MEMBERS = 10_000
# Files from before members were drawn in mix as they did.
_BEFORE = {"member_spread": 1.0}
_SHARED = ("input_dim", "n_outputs", "y_is_vector", "feature_names", "target_names")


def together(estimator: Any, to_record: Callable[[Any], Record], from_record: Callable[[type, Record], Any]) -> Record:
    """The record of an estimator whose members predict together; the functions are those for one model.

    Raises
    ------
    ModelFileError
        Something of it cannot be stored, or was changed after the fit.
    """
    if estimator.n_members not in (None, len(estimator.members_)):
        raise ModelFileError("n_members was changed after fit; fit the estimator again, then save it.")
    options = estimator.get_params(deep=False)
    parts = []
    for member in estimator.members_:
        # As it is said now, where an option was changed after the fit; a member's seed is its own.
        kept = {"random_state": member.random_state, "n_members": 1}
        parts.append(copy.copy(member).set_params(**{**options, **kept}))
    members = gathered([to_record(part) for part in parts])
    dims = [int(layer.mean.weight.shape[-2]) for layer in estimator.model_.layers]
    info = {name: members.info["members"][0][name] for name in ("library_version", "estimator")}
    info["parameters"] = encode_parameters(estimator, dims)
    info["target_names"] = names_of(estimator, "target_names_")
    record = Record({**info, **members.info}, members.tensors)
    # Read back at once: what could not be loaded later is not written.
    from_record(type(estimator), record)
    return record


def apart(cls: type[E], record: Record, from_record: Callable[[type, Record], Any]) -> E:
    """An estimator whose members predict together, from its record.

    Raises
    ------
    ModelFileError
        An entry is missing or wrong, or does not fit the others.
    """
    info = record.info
    members = parted(record, lambda part: from_record(cls, part))
    own, of_first = (_options(entry) for entry in (info, info["members"][0]))
    different = sorted(name for name in own.keys() | of_first.keys() if own.get(name) != of_first.get(name))
    if different:
        refuse(f"parameters.{different[0]!s:.60}", "another one than that of its members")
    estimator: Any = cls(**decode_parameters(cls, {**_BEFORE, **typed(info, "parameters", dict)}))
    estimator.device = members[0].device
    try:
        members_of(estimator)
    except ConfigurationError as error:
        raise ModelFileError(str(error)) from error
    if estimator.n_members not in (None, len(members)):
        refuse("parameters.n_members", f"{estimator.n_members}, with {len(members)} members")
    estimator._take(members)
    take_names(estimator, info, "target_names", "target_names_", estimator.model_.n_outputs)
    return estimator


def gathered(members: Sequence[Record]) -> Record:
    """What the records of the members put into that of the whole.

    Raises
    ------
    ModelFileError
        They do not agree.
    """
    entries = [member.info for member in members]
    _check_agreement(entries)
    tensors = {
        f"{_prefix(number)}{name}": tensor
        for number, member in enumerate(members)
        for name, tensor in member.tensors.items()
    }
    return Record({"n_members": len(members), "members": entries}, tensors)


def parted(record: Record, member_of: Callable[[Record], E]) -> list[E]:
    """The members, each made of its record by `member_of`.

    Raises
    ------
    ModelFileError
        Something in the record belongs to none of them, they do not agree, or one of them is wrong.
    """
    info = record.info
    entries = typed(info, "members", list)
    if whole(info, "n_members", 1, _MAX_MEMBERS) != len(entries):
        refuse("n_members", f"another number than that of its {len(entries)} members")
    if not all(isinstance(entry, dict) for entry in entries):
        refuse("members", "not a list of models")
    _check_agreement(entries)
    shares: list[dict[str, Tensor]] = [{} for _ in entries]
    places = {_prefix(number): share for number, share in enumerate(shares)}
    for name, tensor in record.tensors.items():
        head, _, rest = name.partition(".")
        which, _, inner = rest.partition(".")
        place = f"{head}.{which}."
        if place not in places:
            refuse(name[:60], "not part of any of its members")
        places[place][inner] = tensor
    # The file's format version is that of every part of it.
    versioned = {name: value for name, value in info.items() if name == "format_version"}
    members = []
    for number, (entry, share) in enumerate(zip(entries, shares, strict=True)):
        try:
            if "members" in entry:
                refuse("members", "found in a member")
            as_then = {"parameters": {**_BEFORE, **typed(entry, "parameters", dict)}}
            members.append(member_of(Record({**entry, **as_then, **versioned}, share)))
        except ModelFileError as error:
            raise ModelFileError(f"member {number}: {error}") from error
    return members


def _check_agreement(entries: Sequence[dict[str, Any]]) -> None:
    """Refuse members that cannot predict as one: of other options but the seed, other columns or other targets."""
    first, *others = (_common(entry) for entry in entries)
    for number, other in enumerate(others, start=1):
        different = sorted(name for name in first.keys() | other.keys() if first.get(name) != other.get(name))
        if different:
            raise ModelFileError(f"its members 0 and {number} differ in {different[0]!s:.60}.")


def _common(entry: dict[str, Any]) -> dict[str, Any]:
    return {**_options(entry), **{name: entry.get(name) for name in _SHARED}}


def _options(entry: dict[str, Any]) -> dict[str, Any]:
    """But for the seed, and for how many models: a member is one, whether it says so or leaves it open."""
    options = typed(entry, "parameters", dict)
    return {name: value for name, value in options.items() if name not in ("random_state", "n_members")}


def _prefix(number: int) -> str:
    return f"member.{number}."
