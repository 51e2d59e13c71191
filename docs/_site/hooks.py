"""What MkDocs is told beyond its configuration: mathematics as MathML, and pages that a branch does not have yet."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

MATHEMATICS = re.compile(r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL)

_THIN = '<mspace width="0.17em" />'


def on_config(config: Any) -> Any:
    """Leave out of the navigation what is not there."""
    config.nav = present(config.nav, Path(config.docs_dir))
    return config


def on_page_content(content: str, **_: Any) -> str:
    """Every formula as MathML, which browsers draw by themselves: no script, no font, no other server."""
    return MATHEMATICS.sub(_mathml, content)


def present(entry: Any, folder: Path) -> Any:
    """The navigation without missing pages and without sections that have become empty."""
    if isinstance(entry, list):
        return [kept for kept in (present(part, folder) for part in entry) if kept]
    if isinstance(entry, dict):
        return {title: kept for title, part in entry.items() if (kept := present(part, folder))}
    return entry if (folder / entry).exists() else None


def _mathml(found: re.Match[str]) -> str:
    display = "block" if found["tag"] == "div" else "inline"
    # The converter knows the rows of align*, not those of aligned, which GitHub wants.
    tex = html.unescape(found["tex"]).strip().replace("{aligned}", "{align*}")
    formula = convert(tex, display=display).replace("<mi>log</mi>", f"{_THIN}<mi>log</mi>{_THIN}")
    return f'<{found["tag"]} class="arithmatex">{formula}</{found["tag"]}>'
