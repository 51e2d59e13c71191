"""Rows with hostile names, and readings of a page, that the tests of reports share."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pandas as pd

NASTY = '<script>alert("x")</script> & "quoted" $a$ \u6e29\u5ea6'

rng = np.random.default_rng(0)
FRAME = pd.DataFrame(rng.normal(size=(240, 3)), columns=["a", NASTY, "count"])
FRAME["count"] = rng.integers(0, 5, size=240)
Y = 10 * FRAME["a"] + 2 * FRAME["count"] + rng.normal(size=240)


class Elements(HTMLParser):
    """Tags, addresses, identities and text of a page; open tags must be closed in order."""

    VOID = frozenset({"meta", "img", "br", "link", "input"})

    def __init__(self, text):
        super().__init__()
        self.tags, self.addresses, self.identities, self.words, self.open = [], [], [], [], []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            assert not name.startswith("on"), name
            if name in ("src", "href"):
                self.addresses.append(value)
            if name == "id":
                self.identities.append(value)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def figures(found):
    return [name.removeprefix("figure-") for name in found.identities if name.startswith("figure-")]


def texts(findings):
    return " ".join(finding.text for finding in findings)
