"""Records of several models in one: how an ensemble, and an estimator of several members, are kept in a file.

The members' entries are the list ``"members"`` of the JSON dictionary, and their tensors carry the member's number in
front (``"member.0.subset.X"``). Each is then checked as a model of its own (`sodgp.records`), and must agree with the
others in its options, columns and targets: together they predict as one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from torch import Tensor

from sodgp.errors import ModelFileError
from sodgp.io import Record
from sodgp.record_fields import refuse, typed, whole

E = TypeVar("E")

_MAX_MEMBERS = 10_000
_SHARED = ("input_dim", "n_outputs", "y_is_vector", "feature_names", "target_names")


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
            refuse(name[:60], "not part of such an ensemble")
        places[place][inner] = tensor
    # The file's format version is that of every part of it.
    versioned = {name: value for name, value in info.items() if name == "format_version"}
    members = []
    for number, (entry, share) in enumerate(zip(entries, shares, strict=True)):
        try:
            if "members" in entry:
                refuse("members", "found in a member")
            members.append(member_of(Record({**entry, **versioned}, share)))
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
    options = typed(entry, "parameters", dict)
    # Their seeds differ, and each is one model, whether it says so or leaves it open.
    return {**options, "random_state": None, "n_members": 1, **{name: entry.get(name) for name in _SHARED}}


def _prefix(number: int) -> str:
    return f"member.{number}."
