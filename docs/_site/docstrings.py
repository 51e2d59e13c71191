"""Docstrings are written for ``help()``; a few marks of reStructuredText become Markdown for the site."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_MATH = re.compile(r"^( *)\.\. math:: ?(.*(?:\n\1 +\S.*)*)", re.MULTILINE)
_TABLE = re.compile(r"^(={3,}(?:  ?=+)*\n(?:.*\n)*?={3,}(?:  ?=+)*\n(?:.*\n)*?={3,}(?:  ?=+)*)$", re.MULTILINE)


class Markdown(Extension):
    """Rewrite the docstring of every object that is loaded."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called by griffe for modules, classes, functions and attributes."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(text: str) -> str:
    r"""Formulas, literal blocks, roles, tables and references of one docstring.

    >>> markdown("Sum::\n\n    a + b\n\nSee :class:`~sodgp.model.deep_gp.DeepGP`.")
    'Sum:\n\n    a + b\n\nSee `DeepGP`.'
    >>> markdown(".. math:: a\n     + b")
    '```math\na\n+ b\n```'
    """
    summary, blank, rest = text.partition("\n\n")
    # The stars of [*replicates, T] would set what is between two of them in italics.
    text = _MATH.sub(_formula, summary.replace("[*", r"[\*") + blank + rest)
    text = re.sub(r"::(?=\n\n +\S)", ":", text)
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text)
    text = re.sub(r"^References\n-+\n(.*)\Z", _references, text, flags=re.MULTILINE | re.DOTALL)
    return _TABLE.sub(r"```text\n\1\n```", text)


def _formula(found: re.Match[str]) -> str:
    lines = "\n".join(line.strip() for line in found[2].splitlines())
    return f"{found[1]}```math\n{lines}\n```"


def _references(found: re.Match[str]) -> str:
    """A line that does not begin with a blank begins a reference only after a full stop or a bracket."""
    entries = re.split(r"(?<=[.)])\n(?=\S)", found[1].strip())
    return "**References**\n\n" + "\n".join("* " + " ".join(entry.split()) for entry in entries)
