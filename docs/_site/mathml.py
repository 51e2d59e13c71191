"""Mathematics as MathML, which browsers draw by themselves: no script, no font, no other server."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.postprocessors import Postprocessor

MATHEMATICS = re.compile(r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL)

_THIN = '<mspace width="0.17em" />'


class MathML(Postprocessor):
    """Replace every formula that pymdownx.arithmatex has marked."""

    def run(self, text: str) -> str:
        """Called by Python-Markdown with the whole page."""
        return MATHEMATICS.sub(_mathml, text)


class MathMLExtension(Extension):
    """The entry of `markdown_extensions` in mkdocs.yml."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Register behind all that restores raw HTML."""
        md.postprocessors.register(MathML(md), "mathml", -10)


def makeExtension(**options: object) -> MathMLExtension:
    """The name that Python-Markdown looks for."""
    return MathMLExtension(**options)


def _mathml(found: re.Match[str]) -> str:
    display = "block" if found["tag"] == "div" else "inline"
    # The converter knows the rows of align*, not those of aligned, which GitHub wants.
    tex = html.unescape(found["tex"]).strip().replace("{aligned}", "{align*}")
    formula = convert(tex, display=display).replace("<mi>log</mi>", f"{_THIN}<mi>log</mi>{_THIN}")
    return f'<{found["tag"]} class="arithmatex">{formula}</{found["tag"]}>'
