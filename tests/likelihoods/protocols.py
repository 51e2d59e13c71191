"""Whether a module has what a protocol asks for.

From Python 3.12 on `isinstance` looks past `__getattr__`, by which modules of PyTorch have parameters and buffers.
"""


def keeps(thing: object, protocol: type) -> bool:
    asked = {
        name
        for base in protocol.__mro__
        if getattr(base, "_is_protocol", False)
        for name in (*vars(base), *vars(base).get("__annotations__", {}))
        if not name.startswith("_")
    }
    assert asked
    return all(hasattr(thing, name) for name in asked)
