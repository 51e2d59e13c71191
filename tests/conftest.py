"""Shapes are checked at run time, and only the tests with the mark ``gpu`` see a GPU.

jaxtyping's hook wraps the library before anything imports it. For all other tests and the programs they start the
device ``"auto"`` is a processor, wherever they run.
"""

import importlib.util
import os
import signal

import pytest
from jaxtyping import install_import_hook

# A shell starts background jobs with Ctrl-C ignored, and tests of Ctrl-C have to get one.
signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

_ROOMS = ["kernels", "layers", "predictive", "likelihoods", "model", "selectors", "inference"]
# Not linalg.cuda, whose tests stand in for the driver.
_ROOMS += ["linalg.cholesky", "linalg.draws", "linalg.products"]
# A machine with a GPU may have no more than the library needs: its tests run there without the checks.
if importlib.util.find_spec("beartype") is not None:
    _hook = install_import_hook([f"sodgp.{room}" for room in _ROOMS], "beartype.beartype")

import torch  # noqa: E402

torch.set_num_threads(1)

_is_there_a_gpu = torch.cuda.is_available
_HAS_GPU = _is_there_a_gpu()
_VISIBLE = os.environ.get("CUDA_VISIBLE_DEVICES")
torch.cuda.is_available = lambda: False
os.environ["CUDA_VISIBLE_DEVICES"] = ""


def pytest_collection_modifyitems(items):
    if not _HAS_GPU:
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    if not _HAS_GPU or item.get_closest_marker("gpu") is None:
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", _is_there_a_gpu)
        if _VISIBLE is None:
            patch.delenv("CUDA_VISIBLE_DEVICES")
        else:
            patch.setenv("CUDA_VISIBLE_DEVICES", _VISIBLE)
        return (yield)
