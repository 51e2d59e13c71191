"""A predictor that is kept for the next prediction of the same model: its subset is drawn and factorised once."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from sodgp.inference.sod_prediction import SubsetPredictor
from sodgp.kernels.dense import is_captureable
from sodgp.likelihoods.contract import Sites
from sodgp.linalg.draws import Draws, SharedDraws
from sodgp.model.deep_gp import DeepGP, Structure

__all__ = ["kept_or_drawn"]

# Largest size of what is kept, copies of the model's parameters included.
_KEPT_BYTES = 2**26


class _Kept(NamedTuple):
    """A predictor and what it depends on: number of samples, seed, structure; copies of all values.

    The values are those of the subset, the parameters and the buffers. They are compared, since PyTorch's version
    counters miss changes by GPyTorch's setters.
    """

    predictor: SubsetPredictor
    description: tuple[int, int, Structure]
    values: list[Tensor]


# By model, for as long as the model exists.
_KEPT: WeakKeyDictionary[DeepGP, _Kept] = WeakKeyDictionary()


def kept_or_drawn(
    model: DeepGP, X_s: Tensor, sites: Sites | tuple[()], draws: Draws, weight: Tensor | None = None
) -> SubsetPredictor:
    """The predictor of the last call, if a new one would be the same bit for bit; otherwise a new one.

    Predictors are kept only with `SharedDraws`, whose numbers are known by their seed.
    """
    if not isinstance(draws, SharedDraws) or not _can_be_kept(model):
        return SubsetPredictor(model, X_s, sites, draws, weight)
    description = (draws.n_samples, draws.seed, model.structure)
    weights = [] if weight is None else [weight]
    values = [X_s, *sites, *weights, *(tensor.detach() for tensor in (*model.parameters(), *model.buffers()))]
    kept = _KEPT.get(model)
    if kept is not None and kept.description == description and _are_equal(kept.values, values):
        return kept.predictor
    _KEPT.pop(model, None)
    copies = [tensor.detach().clone() for tensor in values]
    predictor = SubsetPredictor(model, X_s, sites, draws, weight)
    if sum(tensor.nbytes for tensor in (*predictor.tensors, *copies)) <= _KEPT_BYTES:
        _KEPT[model] = _Kept(predictor, description, copies)
    return predictor


def _can_be_kept(model: DeepGP) -> bool:
    """Whether any change of the model would be noticed, which is not so for attributes of a user's kernel.

    For a model in training nothing is kept: it changes in every step, and where gradients are required PyTorch may
    round products differently.
    """
    trains = model.training or any(parameter.requires_grad for parameter in model.parameters())
    return not trains and all(is_captureable(layer.kernel) for layer in model.layers)


def _are_equal(old: list[Tensor], new: list[Tensor]) -> bool:
    return len(old) == len(new) and all(
        a.dtype == b.dtype and a.device == b.device and torch.equal(a, b) for a, b in zip(old, new, strict=True)
    )
