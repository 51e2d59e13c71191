"""A small table, and commands that run in its folder."""

import numpy as np
import pandas as pd
import pytest
from cli_runner import run


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(30, 2)), columns=["a", "b"])
    frame["y"], frame["z"] = 100 + 10 * frame["a"], frame["b"]
    frame.to_csv(tmp_path / "data.csv", index=False)
    return frame


@pytest.fixture
def go(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments, code=0):
        result = run(*arguments)
        assert result.exit_code == code, result.output + repr(result.exception)
        assert "Traceback" not in result.output
        return result

    return invoke
