"""Shapes are checked at run time in the tests: jaxtyping's hook wraps the library before anything imports it."""

import importlib.util
import os
import signal

from jaxtyping import install_import_hook

# A shell starts background jobs with Ctrl-C ignored, and tests of Ctrl-C have to get one.
signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

_ROOMS = ["covariance", "linalg", "factor", "draws", "layers", "model", "inference", "subset", "predictive", "metrics"]
# A machine with a GPU may have no more than the library needs: its tests run there without the checks.
if importlib.util.find_spec("beartype") is not None:
    _hook = install_import_hook([f"sodgp.{room}" for room in _ROOMS], "beartype.beartype")

import torch  # noqa: E402

torch.set_num_threads(1)
