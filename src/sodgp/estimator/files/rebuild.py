"""A trained model from the tensors of a file, once each has the name and the shape that the file's entries ask for."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from sodgp.errors import ModelFileError
from sodgp.estimator.files.record_fields import check_whole, refuse, tensor_of, typed
from sodgp.inference.contract import Inference
from sodgp.kernels.dense import covariance
from sodgp.model.architecture import Architecture
from sodgp.model.deep_gp import DeepGP

__all__ = ["MAX_DIMENSION", "STATE", "check_same_covariances", "rebuilt"]

MAX_DIMENSION = 10**7
# Names of the model's tensors begin with it.
STATE = "model."
_MAX_LAYERS = 1000


def rebuilt(
    info: Mapping[str, Any], tensors: Mapping[str, Tensor], sizes: Architecture, method: Inference, n_layers: int | None
) -> DeepGP:
    """The trained model: built anew, then given the file's numbers once each of them has the right name and shape.

    Where the options leave `n_layers` open, it has as many layers as the file says.
    """
    D, P, M, dtype = sizes.input_dim, sizes.n_outputs, sizes.size, sizes.dtype
    given = method.rows_given(M, typed(info, "n_rows", int))
    for name, shape in {"subset.X": (given, D), "subset.y": (given, P)}.items():
        tensor_of(tensors, name, shape, dtype)
    if "subset.weight" in tensors and not bool((tensor_of(tensors, "subset.weight", (given, 1), dtype) > 0).all()):
        refuse("subset.weight", "not positive")
    known = {"subset.X", "subset.y", "subset.weight", *(["subset.indices"] if method.uses_subset else [])}
    strange = sorted(name for name in tensors if name not in known and not name.startswith(STATE))
    if strange:
        refuse(strange[0][:60], "not part of such a model")
    widths = typed(info, "hidden_widths", list)
    if len(widths) != (n_layers or len(widths) + 1) - 1 or len(widths) >= _MAX_LAYERS:
        refuse("hidden_widths", f"{len(widths)} entries for n_layers={n_layers}")
    for width in widths:
        check_whole("hidden_widths", width, 1, MAX_DIMENSION)
    state = {name.removeprefix(STATE): tensor for name, tensor in tensors.items() if name.startswith(STATE)}
    shapes = list(itertools.pairwise([D, *widths, P]))
    weights = [tensor_of(state, f"layers.{i}.mean.weight", shape, dtype) for i, shape in enumerate(shapes)][:-1]
    _check_vouched(state, method, shapes, M)
    try:
        model = method.build(replace(sizes, mean_weights=weights), None, torch.Generator().manual_seed(0))
    except (ModelFileError, MemoryError):
        raise
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        raise ModelFileError(f"no model can be built from its entries: {error}.") from error
    expected = model.state_dict()
    if expected.keys() != state.keys():
        name = sorted(expected.keys() ^ state.keys())[0]
        refuse(STATE + name, "missing" if name in expected else "not part of such a model")
    for name, tensor in expected.items():
        # Bounds and columns are those of the options; a file may repeat them, not change them.
        is_fixed = name.endswith(("lower_bound", "upper_bound", "active_dims"))
        found = tensor_of(state, name, tuple(tensor.shape), tensor.dtype, finite=not is_fixed)
        if is_fixed and not torch.equal(found, tensor.cpu()):
            refuse(STATE + name, "another one than its options say")
    precision = state.get("likelihood.subset_precision")
    if precision is not None and not bool((precision > 0).all()):
        refuse(STATE + "likelihood.subset_precision", "not positive")
    for name, tensor in state.items():
        if name.endswith(".lambda_2") and not bool((tensor >= 0).all()):
            refuse(STATE + name, "negative")
    model.load_state_dict(state, strict=True)
    return model.requires_grad_(False).eval()


def _check_vouched(state: Mapping[str, Tensor], method: Inference, shapes: list[tuple[int, int]], M: int) -> None:
    """Refuse sizes that the file's tensors do not have, or a few digits in a small file could ask for a huge matrix."""
    for layer, (_, width) in enumerate(shapes):
        for name, shape in method.state_shapes(M, width).items():
            found = state.get(f"layers.{layer}.{name}")
            if found is None or tuple(found.shape) != shape:
                refuse(f"{STATE}layers.{layer}.{name}", f"missing, or not of shape {list(shape)}")


def check_same_covariances(again: DeepGP, model: DeepGP) -> None:
    """Refuse a kernel whose description misses something that shows in its values."""
    generator = torch.Generator().manual_seed(0)
    for ours, theirs in zip(again.layers, model.layers, strict=True):
        dims = ours.mean.weight.shape[-2]
        raw = theirs.q_mean
        X = torch.randn(5, dims, generator=generator, dtype=torch.float64).to(raw.dtype)
        with torch.no_grad():
            found = covariance(ours.kernel.cpu(), X)
            wanted = covariance(theirs.kernel, X.to(raw.device)).cpu()
        if not torch.allclose(found, wanted, rtol=1e-6, atol=1e-12):
            raise ModelFileError(
                f"the kernel {type(theirs.kernel).__name__} computes something else than GPyTorch's kernel of that"
                " name, and a model file holds no code. Keep the estimator with pickle or joblib instead."
            )
