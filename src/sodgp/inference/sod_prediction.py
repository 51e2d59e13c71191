"""SoD-VI after its subset: what predictions draw and factorise before they have seen a row."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from sodgp.inference.sod import label_noise
from sodgp.layers.subset import Points, SubsetLayer
from sodgp.linalg.draws import Draws
from sodgp.model.deep_gp import DeepGP

__all__ = ["DrawnLayer", "DrawnSubset"]


class DrawnLayer(NamedTuple):
    """A layer given its subset: in the layout of its kernel, all that other rows need.

    Attributes
    ----------
    layer : SubsetLayer
    Z_s : Tensor of shape [..., T or 1, M, D_in]
        Inputs of the subset.
    L_inv : Tensor of shape [..., T or 1, M, M]
    w : Tensor of shape [..., T, M, D]
        L^-1 (F_S - mean(Z_s)); in the last layer, its mean under q_hat.
    """

    layer: SubsetLayer
    Z_s: Tensor
    L_inv: Tensor
    w: Tensor


class DrawnSubset:
    """A subset sent through all layers, in ancestral coupling: F_S ~ q, Z_S = F_S + noise, and q_hat of the last layer.

    Parameters
    ----------
    model : DeepGP
        One model, without replicates.
    X_s, y_s : Tensor of shape [1, M, D] and [1, M, P]
        The subset.
    draws : Draws
        Only its numbers for the subset are taken.

    Attributes
    ----------
    hidden : list of DrawnLayer
    last : DrawnLayer
    factor : Tensor of shape [T, P, M, M]
        Of the covariance of w in the last layer.

    Examples
    --------
    >>> from sodgp.model.architecture import Architecture
    >>> from sodgp.linalg.draws import SharedDraws
    >>> from sodgp.inference.sod import SubsetOfData
    >>> architecture = Architecture(2, 1, 5, [torch.eye(2, dtype=torch.float64)])
    >>> model = SubsetOfData().build(architecture, None, torch.Generator().manual_seed(0))
    >>> X_s, y_s = torch.eye(5, 2).double()[None], torch.ones(1, 5, 1).double()
    >>> drawn = DrawnSubset(model, X_s, y_s, SharedDraws(0, 10, dtype=torch.float64))
    >>> len(drawn.hidden), drawn.last.Z_s.shape, drawn.factor.shape
    (1, torch.Size([10, 5, 2]), torch.Size([10, 1, 5, 5]))
    """

    @torch.no_grad()
    def __init__(self, model: DeepGP, X_s: Tensor, y_s: Tensor, draws: Draws) -> None:
        self.hidden: list[DrawnLayer] = []
        Z_s = X_s
        for layer in list(model.layers)[:-1]:
            beside, numbers = layer.beside(Z_s), layer.own(draws)
            cond = layer.condition(_with_one_row(beside))
            m, C = layer.variational_parameters()
            f_s, w = layer.family.draw(m, C, cond, layer.prior_mean(beside), numbers.subset(*m.shape[-2:]))
            self.hidden.append(DrawnLayer(layer, beside, cond.factor.inverse_value, w))
            Z_s = layer.together(f_s + layer.draw_variance.sqrt() * numbers.subset(*m.shape[-2:]))
        cond, q_hat, _ = model.last.conditioned_on_labels(_with_one_row(Z_s), y_s, label_noise(model, X_s))
        self.last = DrawnLayer(model.last, Z_s, cond.factor.inverse_value, q_hat.w.mean)
        self.factor = q_hat.w.factor


def _with_one_row(Z_s: Tensor) -> Points:
    """A subset, and a single other row: kernels of users may have no answer for none at all."""
    return Points(Z_s, Z_s[..., :1, :])
