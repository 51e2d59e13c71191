"""Predictions of SoD-VI: the subset is drawn and factorised first, and other rows then only meet L^-1.

Per sample and layer F_S ~ q and Z_S = F_S + noise, as in ancestral coupling, whatever the rows. That part depends on
the model and the random numbers alone: it is done once for all chunks of rows, and kept for the next prediction. Rows
that are drawn together come from p(F_R | F_S), whose covariance K_RR - K_RS K_SS^-1 K_SR all outputs with one kernel
share: the distribution of (Z_S, Z_R) is that of the ``"joint"`` coupling, at N x N instead of (M + N) x (M + N) a draw.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from sodgp.kernels.dense import covariance, is_captureable, variance
from sodgp.layers.contract import Points
from sodgp.layers.subset import ROWS_TOGETHER, SubsetLayer
from sodgp.likelihoods.contract import Sites
from sodgp.linalg.cholesky import draw_root
from sodgp.linalg.draws import Draws, SharedDraws
from sodgp.linalg.products import explained_variances, transpose_times
from sodgp.model.deep_gp import DeepGP

__all__ = ["DrawnLayer", "MarginalPredictor", "SubsetPredictor", "kept_or_drawn"]

# The most that a model keeps for its next prediction, copies of its parameters included.
_KEPT_BYTES = 2**26


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

    def prior_variance(self, Z: Tensor) -> Tensor:
        """Of f at rows [..., N, D_in] in the layout of the kernel, [..., N]."""
        return variance(self.layer.kernel, Z) + self.layer.jitter.prior_extra

    def draw_rows(self, Z: Tensor, draws: Draws) -> Tensor:
        """Noisy outputs [..., T, N, D] at rows [..., T or 1, N, D_in], each drawn on its own."""
        layer, rows = self.layer, self.layer.to_kernel_layout(Z)
        A = self.L_inv @ covariance(layer.kernel, self.Z_s, rows)
        mean = layer.prior_mean(rows) + transpose_times(A, self.w)
        V = (self.prior_variance(rows) - A.square_().sum(-2)).clamp_min(0.0)
        return layer.from_kernel_layout(layer.draw_rows(mean, V, layer.draw_variance, layer.draws_in_layout(draws)))

    def draw_rows_together(self, Z: Tensor, draws: Draws) -> Tensor:
        """The same with one draw over all N rows."""
        layer = self.layer
        mean, residual, _ = self.conditional(layer.to_kernel_layout(Z))
        eye = torch.eye(residual.shape[-1], dtype=Z.dtype, device=Z.device)
        root = draw_root(residual + layer.draw_variance * eye, layer=layer.index, what="Cov(Z | F_S)")
        return layer.from_kernel_layout(mean + root @ layer.draws_in_layout(draws).rest(*mean.shape[-2:]))

    def conditional(self, Z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean [*, T, N, D] and residual covariance [*, T, N, N] at rows [*, T or 1, N, D_in] in the kernel's layout.

        Also A' [T, B N, M], with the rows of all B batches below each other.
        """
        # All batches meet one L^-1 in one product: PyTorch would copy it for each of them.
        A = self.L_inv @ covariance(self.layer.kernel, self.Z_s, _stack_batches(Z, self.L_inv.dim()))
        explained, roots = _split_batches(transpose_times(A, self.w), Z), _split_batches(A.mT, Z)
        eye = torch.eye(Z.shape[-2], dtype=Z.dtype, device=Z.device)
        residual = covariance(self.layer.kernel, Z) + self.layer.jitter.prior_extra * eye - roots @ roots.mT
        return self.layer.prior_mean(Z) + explained, residual, A.mT


class SubsetPredictor:
    """Eq. (prediction) in ancestral coupling, for a subset that was sent through all layers.

    Parameters
    ----------
    model : DeepGP
        One model, without replicates.
    X_s : Tensor of shape [1, M, D]
    sites : Sites
        Of the last layer's labels.
    draws : Draws
        Only its numbers for the subset are taken.

    Examples
    --------
    >>> from sodgp.inference.sod import SoD
    >>> from sodgp.model.architecture import Architecture
    >>> architecture = Architecture(2, 1, 5, [torch.eye(2, dtype=torch.float64)])
    >>> model = SoD().build(architecture, None, torch.Generator().manual_seed(0))
    >>> X_s, y_s = torch.eye(5, 2).double()[None], torch.ones(1, 5, 1).double()
    >>> draws = SharedDraws(0, 10, dtype=torch.float64)
    >>> mean, variance = SoD().predictor(model, X_s, y_s, draws).rows(X_s, draws)
    >>> mean.shape, variance.shape
    (torch.Size([10, 5, 1]), torch.Size([10, 5, 1]))
    """

    @torch.no_grad()
    def __init__(self, model: DeepGP, X_s: Tensor, sites: Sites, draws: Draws) -> None:
        self._hidden: list[DrawnLayer] = []
        Z_s = X_s
        layers = cast("list[SubsetLayer]", list(model.layers))
        for layer in layers[:-1]:
            inputs = layer.to_kernel_layout(Z_s)
            cond = layer.condition(_with_one_row(inputs))
            m, C = layer.variational_parameters()
            mean_s, numbers = layer.prior_mean(inputs), layer.draws_in_layout(draws)
            Z_s, w = layer.draw_subset(m, C, cond, mean_s, layer.draw_variance, numbers)
            self._hidden.append(DrawnLayer(layer, inputs, cond.factor.inverse_value, w))
            Z_s = layer.from_kernel_layout(Z_s)
        cond, q_hat, _ = layers[-1].conditioned_on_labels(_with_one_row(Z_s), *sites)
        self._last = DrawnLayer(layers[-1], Z_s, cond.factor.inverse_value, q_hat.w.mean)
        # Of the covariance of w in the last layer, [T, P, M, M], and what rows lose of it.
        self._factor = q_hat.w.factor
        eye = torch.eye(self._factor.shape[-1], dtype=self._factor.dtype, device=self._factor.device)
        self._S = eye - self._factor @ self._factor.mT
        # For the mean of a row, A' w = K_RS (L^-T w): no product of L^-1 with the rows.
        self._weights = self._last.L_inv.mT @ self._last.w

    @property
    def tensors(self) -> list[Tensor]:
        """All that it holds."""
        parts = (part for _, *parts in (*self._hidden, self._last) for part in parts)
        return [self._factor, self._S, self._weights, *parts]

    @property
    def joint_size(self) -> int:
        """Outputs of a hidden layer share a covariance; those of the last one have their own."""
        return int(self._factor.shape[-3])

    def mean(self, X: Tensor, draws: Draws) -> Tensor:
        """As of `Predictor`; of `draws` only the numbers for other rows are taken."""
        Z = self.hidden(X, draws, len(self._hidden))
        return self._mean(Z, covariance(self._last.layer.kernel, self._last.Z_s, Z))

    def rows(self, X: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """As of `Predictor`."""
        Z = self.hidden(X, draws, len(self._hidden))
        K = covariance(self._last.layer.kernel, self._last.Z_s, Z)
        explained = explained_variances(self._last.L_inv @ K, self._S)
        return self._mean(Z, K), (self._last.prior_variance(Z).unsqueeze(-1) - explained).clamp_min(0.0)

    def joint(self, X: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """As of `Predictor`; smooth in the rows where the numbers of `draws` are fixed."""
        Z = X
        for given in self._hidden:
            Z = given.draw_rows_together(Z, draws)
        mean, residual, A_rows = self._last.conditional(Z)
        spread = _split_batches(A_rows.unsqueeze(-3) @ self._factor, Z.unsqueeze(-3))
        return mean, residual.unsqueeze(-3) + spread @ spread.mT

    def hidden(self, X: Tensor, draws: Draws, layer: int) -> Tensor:
        """As of `Predictor`."""
        for given in self._hidden[:layer]:
            X = given.draw_rows(X, draws)
        return X

    def _mean(self, Z: Tensor, K: Tensor) -> Tensor:
        return self._last.layer.mean(Z) + K.mT @ self._weights


class MarginalPredictor:
    """Eq. (prediction) in marginal coupling: S and every other row are drawn from their own marginals.

    Rows that are drawn together are so among themselves, but apart from S, and keep their marginals.

    Parameters
    ----------
    model, X_s, sites
        As of `SubsetPredictor`.
    """

    def __init__(self, model: DeepGP, X_s: Tensor, sites: Sites) -> None:
        self._model, self._X_s, self._sites = model, X_s, sites
        self._last = cast(SubsetLayer, model.last)

    @property
    def joint_size(self) -> int:
        """Every output of every layer has a covariance of its own."""
        return max(self._model.widths)

    def mean(self, X: Tensor, draws: Draws) -> Tensor:
        """As of `Predictor`."""
        return self.rows(X, draws)[0]

    def rows(self, X: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """As of `Predictor`."""
        points, _ = self._model.propagate(Points(self._X_s, X), draws, "marginal")
        return self._last.label_informed(points, *self._sites).rest.rows()

    def joint(self, X: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """As of `Predictor`."""
        points, _ = self._model.propagate(Points(self._X_s, X), draws, ROWS_TOGETHER)
        return self._last.label_informed_joint(points, *self._sites)

    def hidden(self, X: Tensor, draws: Draws, layer: int) -> Tensor:
        """As of `Predictor`."""
        points = Points(self._X_s, X)
        for each in self._model.hidden[:layer]:
            points, _ = each.propagate(points, draws, "marginal")
        return points.rest


class _Kept(NamedTuple):
    """A predictor and what it was made of: samples, seed and structure; copies of subset, parameters and buffers.

    Values are compared: GPyTorch's setters pass by PyTorch's counters of versions.
    """

    predictor: SubsetPredictor
    description: tuple[Any, ...]
    values: list[Tensor]


# By model; one that is collected takes its predictor along.
_KEPT: WeakKeyDictionary[DeepGP, _Kept] = WeakKeyDictionary()


def kept_or_drawn(model: DeepGP, X_s: Tensor, sites: Sites, draws: Draws) -> SubsetPredictor:
    """The predictor of the last call where a new one would be the same, bit for bit; otherwise a new one.

    Only with `SharedDraws`, which say by a seed what numbers they give.
    """
    if not isinstance(draws, SharedDraws) or not _can_be_kept(model):
        return SubsetPredictor(model, X_s, sites, draws)
    description = (draws.n_samples, draws.seed, model.structure)
    values = [X_s, *sites, *(tensor.detach() for tensor in (*model.parameters(), *model.buffers()))]
    kept = _KEPT.get(model)
    if kept is not None and kept.description == description and _are_equal(kept.values, values):
        return kept.predictor
    _KEPT.pop(model, None)
    copies = [tensor.detach().clone() for tensor in values]
    predictor = SubsetPredictor(model, X_s, sites, draws)
    if sum(tensor.nbytes for tensor in (*predictor.tensors, *copies)) <= _KEPT_BYTES:
        _KEPT[model] = _Kept(predictor, description, copies)
    return predictor


def _can_be_kept(model: DeepGP) -> bool:
    """Whether a change of the model would be seen: not that of any attribute of a user's kernel.

    Nor has a model in training anything to keep: it changes with every step, and PyTorch may round products of what
    requires a gradient otherwise.
    """
    trains = model.training or any(parameter.requires_grad for parameter in model.parameters())
    return not trains and all(is_captureable(layer.kernel) for layer in model.layers)


def _are_equal(old: list[Tensor], new: list[Tensor]) -> bool:
    return len(old) == len(new) and all(
        a.dtype == b.dtype and a.device == b.device and torch.equal(a, b) for a, b in zip(old, new, strict=True)
    )


def _with_one_row(Z_s: Tensor) -> Points:
    """A subset, and a single other row: kernels of users may have no answer for none at all."""
    return Points(Z_s, Z_s[..., :1, :])


def _stack_batches(Z: Tensor, layout: int) -> Tensor:
    """Rows of all batches below each other: [*batch, *axes, N, D] -> [*axes, B N, D], the last `layout` axes in all."""
    return Z.reshape(-1, *Z.shape[-layout:]).movedim(0, -3).flatten(-3, -2)


def _split_batches(rows: Tensor, Z: Tensor) -> Tensor:
    """Undo `_stack_batches`, with the batch and the N rows of Z: [*axes, B N, D] -> [*batch, *axes, N, D]."""
    batch = Z.shape[: Z.dim() - rows.dim()]
    return rows.unflatten(-2, (-1, Z.shape[-2])).movedim(-3, 0).reshape(*batch, *rows.shape[:-2], -1, rows.shape[-1])
