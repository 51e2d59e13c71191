"""Ways to damage a model file, each a function (random generator, contents) -> contents.

Contents are those of a single-file model: eight bytes with the length of the header, the header, the numbers. Damage
that is *signed* gets a checksum that fits again, as an attacker would give it, so that it reaches the checks behind.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes

from sodgp.system import container as io

Rng = np.random.Generator
Mutation = Callable[[Rng, bytes], bytes]

STRANGE: list[Any] = [
    None,
    True,
    False,
    -1,
    0,
    1,
    2,
    7,
    10**6,
    10**9,
    2**63,
    10**30,
    10**400,
    0.5,
    -0.0,
    1e-300,
    1e300,
    "",
    "cuda",
    "float16",
    "x" * 10_000,
    "__import__('os').system('true')",
    "../../etc/passwd",
    "\u0000",
    "\ud800",
    [],
    [[]],
    {},
    {"__class__": "os"},
    [1, 2, 3],
    [None],
    ["a"],
    {"selector": "kmeans", "options": {}},
    {"described": {"2": {"type": "rbf"}}},
    {"initialization": {}},
    {"name": "sod", "options": {}},
    {"auto": {}},
]


def bit_flips(rng: Rng, content: bytes) -> bytes:
    """One to eight bits."""
    changed = bytearray(content)
    for position in rng.integers(len(content), size=rng.integers(1, 9)):
        changed[position] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def header_bit_flips(rng: Rng, content: bytes) -> bytes:
    """One to four bits of the header."""
    changed = bytearray(content)
    end = 8 + int.from_bytes(content[:8], "little")
    for position in rng.integers(end, size=rng.integers(1, 5)):
        changed[position] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def truncation(rng: Rng, content: bytes) -> bytes:
    """The end is lost."""
    return content[: int(rng.integers(len(content)))]


def splice(rng: Rng, content: bytes) -> bytes:
    """A stretch is lost, doubled, zeroed or made of noise; or noise is put behind the end."""
    start, stop = np.sort(rng.integers(len(content) + 1, size=2))
    piece = content[start:stop]
    kind = rng.integers(5)
    if kind == 4:
        return content + rng.bytes(int(rng.integers(1, 300)))
    new = (b"", piece + piece, bytes(len(piece)), rng.bytes(len(piece)))[kind]
    return content[:start] + new + content[stop:]


def random_header(rng: Rng, content: bytes) -> bytes:
    """Another length, or another header of that length."""
    length = int.from_bytes(content[:8], "little")
    kind = rng.integers(4)
    if kind == 0:
        lengths = [0, 1, 7, length - 1, length + 1, len(content), len(content) - 8, 2**31, 2**63, 2**64 - 1]
        return int(lengths[rng.integers(len(lengths))]).to_bytes(8, "little") + content[8:]
    if kind == 1:
        return content[:8] + rng.bytes(length) + content[8 + length :]
    if kind == 2:
        letters = np.frombuffer(b'{}[]",:0123456789eE+-.truefalsn\\u ', dtype=np.uint8)
        return content[:8] + rng.choice(letters, size=length).tobytes() + content[8 + length :]
    header = b'{"a":' * min(length // 5, 2000)
    return content[:8] + header.ljust(length, b" ") + content[8 + length :]


def header_entry(rng: Rng, content: bytes) -> bytes:
    """A type, shape, offset or name in the header of the numbers is another one; nothing else follows."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    names = [name for name in header if name != "__metadata__"]
    name = names[rng.integers(len(names))]
    entry = header[name]
    kind = rng.integers(6)
    if kind == 0:
        types = ["F64", "F32", "F16", "BF16", "I64", "U8", "BOOL", "C64", "F8_E4M3", "F4", "X", 3]
        entry["dtype"] = types[rng.integers(len(types))]
    elif kind == 1:
        shapes = [[], [0], [2**62], [2**32, 2**32], [-1], entry["shape"][::-1], [1, *entry["shape"]], [10**9] * 9, None]
        entry["shape"] = shapes[rng.integers(len(shapes))]
    elif kind == 2:
        begin, end = entry["data_offsets"]
        pairs = [[0, end], [begin, end + 8], [end, begin], [begin, 2**63], [-8, end], [begin], None, [0, 2**40]]
        entry["data_offsets"] = pairs[rng.integers(len(pairs))]
    elif kind == 3:
        header[str(STRANGE[rng.integers(len(STRANGE))])[:200]] = header.pop(name)
    elif kind == 4:
        del header[name]
    else:
        header[name] = STRANGE[rng.integers(len(STRANGE))]
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


def json_entry(rng: Rng, content: bytes) -> bytes:
    """An entry of the JSON part is another one; the checksum stays."""
    info, tensors = parts(content)
    stated = info.pop("sha256")
    return _joined({"sha256": stated, **_strange(rng, info)}, tensors)


def signed_json_entry(rng: Rng, content: bytes) -> bytes:
    """One or two entries of the JSON part are others, and the checksum fits."""
    info, tensors = parts(content)
    for _ in range(rng.integers(1, 3)):
        info = _strange(rng, info)
    return signed(info, tensors)


def signed_tensors(rng: Rng, content: bytes) -> bytes:
    """A tensor has other values, another shape or type, is missing or new, and the checksum fits."""
    info, tensors = parts(content)
    names = sorted(tensors)
    name = names[rng.integers(len(names))]
    tensor = tensors[name]
    kind = rng.integers(8)
    if kind <= 2 and tensor.numel():
        values = [0.0, -1.0, 1e-300, 1e300, -1e300, 1e30, float("nan"), float("inf"), float("-inf")]
        flat = tensor.clone().reshape(-1)
        where = slice(None) if kind == 0 else slice(int(rng.integers(len(flat))), None)
        value = values[rng.integers(len(values))]
        if not tensor.is_floating_point():
            value = float(np.clip(np.nan_to_num(value), -(2.0**62), 2.0**62))
        flat[where] = torch.tensor(value, dtype=torch.float64).to(tensor.dtype)
        tensors[name] = flat.reshape(tensor.shape)
    elif kind == 3:
        tensors[name] = tensor.reshape(-1)
    elif kind == 4:
        tensors[name] = tensor.to((torch.float32, torch.float16, torch.int64, torch.bool)[rng.integers(4)])
    elif kind == 5:
        del tensors[name]
    elif kind == 6:
        tensors[name] = tensor.repeat(*[2] * max(tensor.dim(), 1))
    else:
        tensors[("more", "model.layers.9.q_mean", "subset.X", "model." + "y" * 500)[rng.integers(4)]] = tensor
    return signed(info, tensors)


# Damage after which only an error, or a model equal to the first, is right.
UNSIGNED: dict[str, Mutation] = {
    "bit flips": bit_flips,
    "bit flips in the header": header_bit_flips,
    "truncation": truncation,
    "splice": splice,
    "random header": random_header,
    "header entry": header_entry,
    "JSON entry": json_entry,
}
# Damage after which another model is right too, so long as its predictions are numbers or typed errors.
SIGNED: dict[str, Mutation] = {"signed JSON entry": signed_json_entry, "signed tensors": signed_tensors}


def parts(content: bytes) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """JSON part and tensors of a sound file."""
    length = int.from_bytes(content[:8], "little")
    text = json.loads(content[8 : 8 + length])["__metadata__"][io.FORMAT]
    return json.loads(text), dict(from_bytes(content))


def signed(info: dict[str, Any], tensors: dict[str, torch.Tensor]) -> bytes:
    """A file with these contents whose checksum fits."""
    info = {name: value for name, value in info.items() if name != "sha256"}
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    checksum = io._checksum(io.Record(info, tensors))
    return _joined({"sha256": checksum, **info}, tensors)


def _joined(info: dict[str, Any], tensors: dict[str, torch.Tensor]) -> bytes:
    # ASCII: a lone surrogate has no UTF-8, but JSON can spell it.
    return to_bytes({n: t.contiguous().clone() for n, t in tensors.items()}, metadata={io.FORMAT: json.dumps(info)})


def _strange(rng: Rng, info: dict[str, Any]) -> dict[str, Any]:
    """A copy with one entry, at any depth, changed, removed, moved or added."""
    info = copy.deepcopy(info)
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        keys = node.keys() if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        for key in keys:
            places.append((node, key))
            walk(node[key])

    walk(info)
    # Half of the time at the top or among the parameters: long histories must not draw all the fire.
    top = (info, info.get("parameters"), info.get("method"))
    near = [(node, key) for node, key in places if any(node is one for one in top)]
    pool = near if rng.random() < 0.5 and near else places
    node, key = pool[rng.integers(len(pool))]
    value, kind = node[key], rng.integers(6)
    if kind == 0:
        del node[key]
    elif kind == 1 and isinstance(value, int | float) and not isinstance(value, bool):
        node[key] = [value + 1, -value, value * 1000, value * 10**12, float(value), int(value)][rng.integers(6)]
    elif kind == 2:
        other, other_key = places[rng.integers(len(places))]
        node[key] = copy.deepcopy(other[other_key])
    elif kind == 3 and isinstance(node, dict):
        node[("new", "kernel", "size", "checkpoint", "callbacks", "verbose")[rng.integers(6)]] = value
    elif kind == 4:
        nested: Any = value
        for _ in range(int(rng.integers(1, 400))):
            nested = [nested]
        node[key] = nested
    else:
        node[key] = STRANGE[rng.integers(len(STRANGE))]
    return info
