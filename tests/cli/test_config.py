"""Config files: every kind of value, and what is wrong with bad ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sodgp import Tuning
from sodgp.cli.config import read_config
from sodgp.cli.options import as_arguments
from sodgp.errors import ConfigurationError
from sodgp.model.architecture import Initialization
from sodgp.selectors import KMeans
from sodgp.selectors.auto import Auto

DOCS = Path(__file__).parents[2] / "docs"


def test_the_toml_of_the_page_is_read(tmp_path):
    (block,) = re.findall(r"^```toml\n(.*?)^```$", (DOCS / "command-line.md").read_text(), re.DOTALL | re.MULTILINE)
    config = read_config(write(tmp_path, block))
    assert config.options["subset"] == KMeans(n_init=5)
    assert config.command["target"] == ["y"]


def write(tmp_path, text):
    path = tmp_path / "fit.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_with_every_kind_of_value(tmp_path):
    text = """
data = "data.csv"
target = "y"
out = "model/"
n_layers = 3
hidden_width = [4, 2]
learning_rate = 1
compile = false
n_threads = "none"
subset_size = "auto"
[subset]
name = "kmeans"
n_init = 3
[initialization]
noise_variance = 0.1
"""
    config = read_config(write(tmp_path, text))
    assert config.command == {"data": str(tmp_path / "data.csv"), "target": ["y"], "out": f"{tmp_path / 'model'}/"}
    assert config.options["hidden_width"] == [4, 2]
    assert config.options["subset"] == KMeans(n_init=3)
    assert config.options["initialization"] == Initialization(noise_variance=0.1)
    tuning = Tuning(initialization=Initialization(noise_variance=0.1))
    assert as_arguments(config.options)["tuning"] == tuning
    assert as_arguments(config.options)["n_threads"] is None


def test_a_table_for_the_size_of_the_subset(tmp_path):
    assert read_config(write(tmp_path, "[subset_size]\nfraction = 0.1")).options == {"subset_size": Auto(fraction=0.1)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n_layer = 2", "unknown key 'n_layer'; did you mean 'n_layers'?"),
        ("max-iter = 2", "did you mean 'max_iter'?"),
        ("qqqqqq = 2", "known keys are"),
        ('n_layers = "two"', "n_layers must be an integer, not 'two'"),
        ("n_layers = true", "n_layers must be an integer, not True"),
        ("n_layers = 2.0", "n_layers must be an integer, not 2.0"),
        ("compile = 1", "compile must be true or false"),
        ('subset_size = "big"', "subset_size must be an integer, 'auto' or 'paper'"),
        ("hidden_width = [2, 0.5]", "hidden_width must be"),
        ("callbacks = 1", "callbacks cannot be given in a file"),
        ("quiet = true", "quiet is no key of a file; write verbose = false"),
        ("resume = true", "resume is no key of a file; give it on the command line"),
        ("initialization = 1", "must be a table"),
        ("[initialization]\nnoise = 1", "in [initialization], unknown key 'noise'; did you mean 'noise_variance'?"),
        ("[subset]\nname = 'best'", "needs a name, one of kmeans"),
        ("[subset_size]\nfraction = 'a'", "in [subset_size], fraction must be a number, not 'a'"),
        ("[subset_size]\nfraction = -1", "must be positive"),
        ("target = 3", "target must be a column name"),
        ("n_layers = ", "is not a TOML file"),
    ],
)
def test_bad_files(tmp_path, text, message):
    with pytest.raises(ConfigurationError) as caught:
        read_config(write(tmp_path, text))
    assert message in str(caught.value)


def test_a_missing_file(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        read_config(tmp_path / "fit.toml")
