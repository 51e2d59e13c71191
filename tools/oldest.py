"""The oldest versions that the metadata admit, as requirements: `python tools/oldest.py > oldest.txt`.

Runtime dependencies and the extras that code in src/ imports; the tools of the tests are not among them.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

EXTRAS = ("frames", "botorch")


def oldest(text: str) -> list[str]:
    """Requirements ``name==version`` from the ``name>=version`` of a pyproject.toml, each name once."""
    project = tomllib.loads(text)["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *(entry for extra in EXTRAS if extra in extras for entry in extras[extra])]
    strange = [entry for entry in asked if entry.count(">=") != 1 or "," in entry]
    if strange:
        raise SystemExit(f"not of the form name>=version: {', '.join(strange)}")
    return sorted({entry.replace(">=", "==") for entry in asked})


if __name__ == "__main__":
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "pyproject.toml"
    print("\n".join(oldest(source.read_text())))
