"""What MkDocs does beyond its configuration: mathematics as MathML."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

MATHEMATICS = re.compile(r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL)

_THIN = '<mspace width="0.17em" />'


def on_page_content(content: str, **_: Any) -> str:
    """Every formula as MathML, which browsers draw by themselves: no script, no font, no other server."""
    return MATHEMATICS.sub(_mathml, content)


def _mathml(found: re.Match[str]) -> str:
    display = "block" if found["tag"] == "div" else "inline"
    # The converter knows the rows of align*, not those of aligned, which GitHub wants.
    tex = html.unescape(found["tex"]).strip().replace("{aligned}", "{align*}")
    formula = convert(tex, display=display).replace("<mi>log</mi>", f"{_THIN}<mi>log</mi>{_THIN}")
    return f'<{found["tag"]} class="arithmatex">{formula}</{found["tag"]}>'
