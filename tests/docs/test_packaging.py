"""What an index will show: versions agree, extras are those that messages name, and links are whole."""

import re
import tomllib
from pathlib import Path

import sodgp

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_version_is_the_same_everywhere():
    assert PROJECT["version"] == sodgp.__version__


def test_extras_that_messages_and_pages_name_exist():
    files = [*(ROOT / "src").rglob("*.py"), *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    named = set(re.findall(r"(?:sodgp|'\.)\[(\w+)\]", text))
    assert {"frames", "botorch", "mlflow"} <= named
    assert named <= set(PROJECT["optional-dependencies"])


def test_every_supported_python_is_listed():
    lowest = int(PROJECT["requires-python"].removeprefix(">=3."))
    listed = [int(entry.rpartition(".")[2]) for entry in PROJECT["classifiers"] if " 3." in entry]
    assert listed == list(range(lowest, 15))


def test_the_development_tools_have_what_the_pages_need():
    extras = PROJECT["optional-dependencies"]
    assert set(extras["docs"]) | set(extras["frames"]) | set(extras["botorch"]) <= set(extras["dev"])
