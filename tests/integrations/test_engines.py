"""The recipes of docs/scale.md on engines of others, where these are installed: the numbers of one process."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sodgp import DeepGPRegressor

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
# What is around a recipe: the rows before, and the result in front of it.
BEFORE = {
    "Dask": """
import dask, dask.dataframe, pandas
dask.config.set(scheduler="synchronous")
frame = dask.dataframe.from_pandas(pandas.read_parquet("rows.parquet"), npartitions=3)
""",
    "Ray Data": """
import os, ray, pandas
os.environ["RAY_DATA_DISABLE_PROGRESS_BARS"] = "1"
ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
rows = ray.data.from_pandas(pandas.read_parquet("rows.parquet"))
""",
    "Spark": """
import pandas
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
table = spark.createDataFrame(pandas.read_parquet("rows.parquet"))
""",
}
AFTER = {
    "Dask": "result.compute().to_parquet('found.parquet')",
    "Ray Data": "result.to_pandas().to_parquet('found.parquet')",
    "Spark": "result.toPandas().to_parquet('found.parquet')",
}
NEEDS = {"Dask": "dask.dataframe", "Ray Data": "ray.data", "Spark": "pyspark"}


def recipe(engine):
    """The first block of code behind a line that begins with the engine's name."""
    return re.search(rf"^{engine}, with .*?^```py\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)[1]


def is_there(engine):
    try:
        found = importlib.util.find_spec(NEEDS[engine])
    except ImportError:
        found = None
    return found is not None and (engine != "Spark" or shutil.which("java") is not None)


@pytest.mark.parametrize("engine", BEFORE)
def test_a_recipe_gives_the_numbers_of_one_process(engine, tmp_path):
    code = recipe(engine)
    compile(code, engine, "exec")
    if not is_there(engine):
        pytest.skip(f"{engine} is not installed")
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["a", "b"])
    rows.to_parquet(tmp_path / "rows.parquet")
    model = DeepGPRegressor(n_layers=2, max_iter=3, subset_size=8, n_predict_samples=5, random_state=0)
    model.fit(rows, np.sin(rows["a"])).save(tmp_path / "m.sodgp")
    mean, std = model.predict(rows, return_std=True)
    # Workers have other folders.
    code = code.replace("m.sodgp", str(tmp_path / "m.sodgp")).replace("concurrency=2", "concurrency=1")
    (tmp_path / "recipe.py").write_text(f"{BEFORE[engine]}\n{code}\n{AFTER[engine]}\n")
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    told = subprocess.run(
        [sys.executable, "recipe.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=540
    )
    assert told.returncode == 0, told.stderr[-2000:]
    found = pd.read_parquet(tmp_path / "found.parquet").sort_values("a", ignore_index=True)
    expected = rows.assign(mean=mean, std=std).sort_values("a", ignore_index=True)
    ours, theirs = (each[["mean", "std"]].to_numpy(dtype=float) for each in (expected, found))
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-12)
