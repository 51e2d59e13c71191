"""``sodgp fit --distributed`` under torchrun."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from cli_runner import run

from sodgp import DeepGPRegressor

OPTIONS = ["--objective", "predictive", "--n-layers", "1", "--subset-size", "10", "--max-iter", "20", "--quiet"]


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    frame.assign(y=np.sin(frame["a"])).to_csv(tmp_path / "t.csv", index=False)
    return frame


def test_two_processes_write_the_model_of_one(tmp_path, table):
    fit = ["fit", "t.csv", "--target", "y", *OPTIONS]
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    line = [sys.executable, *torchrun, "-m", "sodgp", *fit, "--out", "two.sodgp", "--distributed"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    told = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, env=env, check=False)
    assert told.returncode == 0, told.stderr
    run(*fit[:1], str(tmp_path / "t.csv"), *fit[2:], "--out", str(tmp_path / "one.sodgp"))
    one, two = (DeepGPRegressor.load(tmp_path / f"{name}.sodgp") for name in ("one", "two"))
    np.testing.assert_allclose(two.predict(table), one.predict(table), rtol=1e-9)


def test_many_processes_without_the_flag_are_refused(tmp_path, table, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    out = tmp_path / "m.sodgp"
    result = run("fit", str(tmp_path / "t.csv"), "--target", "y", "--out", str(out), *OPTIONS)
    assert result.exit_code == 2
    assert "WORLD_SIZE=2 says that this is one of many processes" in result.stderr
    assert not out.exists()


def test_the_flag_without_a_launcher_says_how(tmp_path, table, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    out = tmp_path / "m.sodgp"
    result = run("fit", str(tmp_path / "t.csv"), "--target", "y", "--out", str(out), *OPTIONS, "--distributed")
    assert result.exit_code == 2
    assert "python -m torch.distributed.run --nproc-per-node 2 -m sodgp fit" in result.stderr
