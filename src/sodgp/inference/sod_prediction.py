"""Predictions of SoD-VI: the subset is drawn and factorised once, and new rows are conditioned on it.

For every sample and layer F_S ~ q and Z_S = F_S + noise, as in ancestral coupling. This part does not depend on the
new rows, only on the model and the random numbers: it is done once for all chunks of rows, and kept for the next
prediction. Joint predictions draw the new rows from p(F_R | F_S), whose covariance K_RR - K_RS K_SS^-1 K_SR is the same
for all outputs with one kernel. (Z_S, Z_R) then has the distribution of ``"joint"`` coupling, with matrices of size
N x N instead of (M + N) x (M + N).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor

from sodgp.inference.contract import Predictor
from sodgp.inference.sod_labels import given_labels
from sodgp.kernels.dense import covariance
from sodgp.kernels.prepared import PreparedCovariance
from sodgp.layers.contract import Points
from sodgp.layers.subset import ROWS_JOINTLY, SubsetLayer
from sodgp.likelihoods.contract import Sites
from sodgp.likelihoods.rows import RowWeight
from sodgp.linalg.cholesky import draw_root
from sodgp.linalg.draws import Draws
from sodgp.linalg.products import by_sample, transpose_times
from sodgp.model.deep_gp import DeepGP

__all__ = ["LABEL_ROWS", "DrawnLayer", "MarginalPredictor", "SubsetPredictor"]

# Rows with labels that are propagated at once.
LABEL_ROWS = 2000

Rows = Float[Tensor, "*#batch #T N D_in"]


class _Memory:
    """Memory for the two [M, N] arrays of a sample, used by all of them: new pages for each would take as long.

    Where gradients are wanted every array is new.
    """

    def __init__(self) -> None:
        self._K: Tensor | None = None
        self._A: Tensor | None = None

    def covariance(self, k: PreparedCovariance, rows: Tensor) -> Float[Tensor, "*layout #T M N"]:
        self._K = k(rows, self._K)
        return self._K

    def product(self, left: Tensor, right: Tensor) -> Float[Tensor, "*layout #T _ N"]:
        if torch.is_grad_enabled():
            return left @ right
        self._A = torch.matmul(left, right, out=self._A)
        return self._A

    def squared(self, A: Tensor) -> Tensor:
        return A.square() if torch.is_grad_enabled() else A.square_()


class DrawnLayer(NamedTuple):
    """A layer with its subset drawn: everything that new rows need, in the kernel layout.

    Attributes
    ----------
    layer : SubsetLayer
    Z_s : Tensor of shape [..., T or 1, M, D_in]
        Inputs of the subset.
    L_inv : Tensor of shape [..., T or 1, M, M]
    w : Tensor of shape [..., T, M, D]
        L^-1 (F_S - mean(Z_s)); in the last layer its mean under q_hat.
    covariance : PreparedCovariance
        Of the subset with other rows.
    """

    layer: SubsetLayer
    Z_s: Float[Tensor, "*layout #T M D_in"]
    L_inv: Float[Tensor, "*layout #T M M"]
    w: Float[Tensor, "*layout T M D"]
    covariance: PreparedCovariance

    @classmethod
    def of(cls, layer: SubsetLayer, Z_s: Tensor, L_inv: Tensor, w: Tensor) -> DrawnLayer:
        """A layer with these values."""
        return cls(layer, Z_s, L_inv, w, PreparedCovariance(layer.kernel, Z_s))

    def draw_rows(self, Z: Rows, draws: Draws) -> Float[Tensor, "*batch T N D"]:
        """Noisy outputs at rows Z, each row drawn on its own."""
        layer, rows, memory = self.layer, self.layer.to_kernel_layout(Z), _Memory()
        numbers = layer.draws_in_layout(draws).rest(rows.shape[-2], self.w.shape[-1])
        extra, noise = layer.jitter.prior_extra, layer.draw_variance

        def drawn(k: PreparedCovariance, L_inv: Tensor, w: Tensor, rows: Tensor, numbers: Tensor) -> tuple[Tensor]:
            A = memory.product(L_inv, memory.covariance(k, rows))
            # Outputs as rows, which the next layer needs.
            mean = layer.prior_means(rows)[0] + _columns_times(w, A).mT
            V = (k.variance(rows) + extra - memory.squared(A).sum(-2)).clamp_min(0.0)
            return (layer.draw_rows(mean, V, noise, _Numbers(numbers)).mT,)

        parts = (self.covariance, self.L_inv, self.w, rows, numbers)
        (values,) = by_sample(drawn, self.L_inv.shape[-3], self.L_inv.shape[-1] * rows.shape[-2], *parts)
        return layer.from_kernel_layout(values.mT)

    def draw_rows_jointly(self, Z: Rows, draws: Draws) -> Float[Tensor, "*batch T N D"]:
        """Noisy outputs at rows Z from one draw over all rows."""
        layer = self.layer
        mean, residual, _ = self.conditional(layer.to_kernel_layout(Z))
        eye = torch.eye(residual.shape[-1], dtype=Z.dtype, device=Z.device)
        root = draw_root(residual + layer.draw_variance * eye, layer=layer.index, what="Cov(Z | F_S)")
        return layer.from_kernel_layout(mean + root @ layer.draws_in_layout(draws).rest(*mean.shape[-2:]))

    def conditional(
        self, Z: Rows
    ) -> tuple[Float[Tensor, "*batch T N D"], Float[Tensor, "*batch #T N N"], Float[Tensor, "*layout #T rows M"]]:
        """Mean and residual covariance at rows Z in the kernel layout, and A' with the rows of all batches stacked."""
        # One product with L^-1 for all batches: otherwise PyTorch would copy L^-1 for each of them.
        A = self.L_inv @ covariance(self.layer.kernel, self.Z_s, _stack_batches(Z, self.L_inv.dim()))
        explained, roots = _split_batches(transpose_times(A, self.w), Z), _split_batches(A.mT, Z)
        eye = torch.eye(Z.shape[-2], dtype=Z.dtype, device=Z.device)
        residual = covariance(self.layer.kernel, Z) + self.layer.jitter.prior_extra * eye - roots @ roots.mT
        return self.layer.prior_means(Z)[0] + explained, residual, A.mT


class SubsetPredictor:
    """Eq. (prediction) in ancestral coupling, given one draw of the subset through all layers.

    Parameters
    ----------
    model : DeepGP
        Without replicates.
    X_s : Tensor of shape [1, M, D], or [1, N, D]
        The subset; where all labels are in q_hat, followed by the other rows.
    sites : Sites
        Of these rows' labels; empty where the last layer has sites of its own.
    draws : Draws
        The numbers for the subset are used, and where all labels are in q_hat those for the other rows.
    weight : Tensor of shape [1, N, 1], optional
        Of these rows where all labels are in q_hat; otherwise the sites have taken it in.

    Examples
    --------
    >>> from sodgp.inference.sod import SoD
    >>> from sodgp.linalg.draws import SharedDraws
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
    def __init__(
        self,
        model: DeepGP,
        X_s: Float[Tensor, "*batch 1 M D"],
        sites: Sites | tuple[()],
        draws: Draws,
        weight: RowWeight | None = None,
    ) -> None:
        self._hidden: list[DrawnLayer] = []
        layers = cast("list[SubsetLayer]", list(model.layers))
        size = layers[0].q_mean.shape[-2]
        Z_s = X_s[..., :size, :]
        for layer in layers[:-1]:
            inputs = layer.to_kernel_layout(Z_s)
            cond = layer.condition(_with_one_row(inputs))
            m, C = layer.variational_parameters()
            (mean_s,), numbers = layer.prior_means(inputs), layer.draws_in_layout(draws)
            Z_s, w = layer.draw_subset(m, C, cond, mean_s, layer.draw_variance, numbers)
            self._hidden.append(DrawnLayer.of(layer, inputs, cond.factor.inverse_value, w))
            Z_s = layer.from_kernel_layout(Z_s)
        last = layers[-1]
        if last.trains_q:
            cond, q_hat, _ = last.conditioned_on_labels(_with_one_row(Z_s), *sites)
            given = q_hat.w
        else:
            cond = last.condition(_with_one_row(Z_s))
            label, v = cast(Sites, sites)
            first, others = (
                (values[..., rows, :], label[..., rows, :], None if weight is None else weight[..., rows, :])
                for values, rows in ((Z_s, slice(0, size)), (X_s, slice(size, None)))
            )
            parts = chain([first], self._labelled(*others, draws))
            given = given_labels(last, Z_s, cond.factor.inverse_value, parts, v)
        self._last = DrawnLayer.of(last, Z_s, cond.factor.inverse_value, given.mean)
        # Factor of the covariance of w in the last layer, [T, P, M, M].
        self._factor = given.factor
        eye = torch.eye(self._factor.shape[-1], dtype=self._factor.dtype, device=self._factor.device)
        # What is explained of a row's variance is A' S A with S = I - F F' = Q diag(e) Q', of any sign: for each output
        # one product with Q' L^-1, [T, P M, M].
        self._shares, Q = torch.linalg.eigh(eye - self._factor @ self._factor.mT)
        self._turned = (Q.mT @ self._last.L_inv.unsqueeze(-3)).flatten(-3, -2)
        # The mean of a row is A' w = K_RS (L^-T w), without a product of L^-1 with the rows.
        self._weights = self._last.L_inv.mT @ self._last.w
        self._samples = self._last.L_inv.shape[-3]

    def _labelled(
        self, X: Float[Tensor, "*batch 1 N D"], y: Float[Tensor, "*batch 1 N P"], weight: RowWeight | None, draws: Draws
    ) -> Iterator[tuple[Rows, Float[Tensor, "*batch 1 _ P"], RowWeight | None]]:
        """Inputs of the last layer at rows outside the subset, their labels and weights; rows in parts."""
        for start in range(0, max(1, X.shape[-2]), LABEL_ROWS):
            rows = slice(start, start + LABEL_ROWS)
            w = None if weight is None else weight[..., rows, :]
            yield self.hidden(X[..., rows, :], draws, len(self._hidden)), y[..., rows, :], w

    @property
    def tensors(self) -> list[Tensor]:
        """Everything that is kept with the predictor."""
        layers = [*self._hidden, self._last]
        parts = (part for given in layers for part in (given.Z_s, given.L_inv, given.w, *given.covariance.tensors))
        return [self._factor, self._shares, self._turned, self._weights, *parts]

    @property
    def joint_size(self) -> int:
        """A covariance for each output of the last layer; those of a hidden layer share one."""
        return int(self._factor.shape[-3])

    def mean(self, X: Float[Tensor, "*batch 1 N D"], draws: Draws) -> Float[Tensor, "*batch T N P"]:
        """As in `Predictor`; of `draws` only the numbers for other rows are used."""
        Z, memory = self.hidden(X, draws, len(self._hidden)), _Memory()

        def means(k: PreparedCovariance, weights: Tensor, Z: Tensor) -> tuple[Tensor]:
            return (self._means(Z, weights, memory.covariance(k, Z)),)

        elements = self._weights.shape[-2] * Z.shape[-2]
        return by_sample(means, self._samples, elements, self._last.covariance, self._weights, Z)[0]

    def rows(
        self, X: Float[Tensor, "*batch 1 N D"], draws: Draws
    ) -> tuple[Float[Tensor, "*batch T N P"], Float[Tensor, "*batch T N P"]]:
        """As in `Predictor`."""
        Z, memory, extra = self.hidden(X, draws, len(self._hidden)), _Memory(), self._last.layer.jitter.prior_extra

        def moments(
            k: PreparedCovariance, weights: Tensor, Z: Tensor, turned: Tensor, shares: Tensor
        ) -> tuple[Tensor, Tensor]:
            K = memory.covariance(k, Z)
            squares = memory.squared(memory.product(turned, K)).unflatten(-2, (-1, K.shape[-2]))
            explained = (shares.unsqueeze(-2) @ squares).squeeze(-2)
            return self._means(Z, weights, K), ((k.variance(Z) + extra).unsqueeze(-2) - explained).clamp_min(0.0).mT

        parts = (self._last.covariance, self._weights, Z, self._turned, self._shares)
        mean, variance = by_sample(moments, self._samples, self._turned.shape[-2] * Z.shape[-2], *parts)
        return mean, variance

    def joint(
        self, X: Float[Tensor, "*batch 1 N D"], draws: Draws
    ) -> tuple[Float[Tensor, "*batch T N P"], Float[Tensor, "*batch T P N N"]]:
        """As in `Predictor`; with fixed random numbers a smooth function of the rows."""
        Z = X
        for given in self._hidden:
            Z = given.draw_rows_jointly(Z, draws)
        mean, residual, A_rows = self._last.conditional(Z)
        spread = _split_batches(A_rows.unsqueeze(-3) @ self._factor, Z.unsqueeze(-3))
        return mean, residual.unsqueeze(-3) + spread @ spread.mT

    def hidden(self, X: Float[Tensor, "*batch 1 N D"], draws: Draws, layer: int) -> Float[Tensor, "*batch T N D_l"]:
        """As in `Predictor`."""
        for given in self._hidden[:layer]:
            X = given.draw_rows(X, draws)
        return X

    def _means(
        self, Z: Rows, weights: Float[Tensor, "*batch #T M P"], K: Float[Tensor, "*batch #T M N"]
    ) -> Float[Tensor, "*batch T N P"]:
        return self._last.layer.mean(Z) + _columns_times(weights, K).mT


class MarginalPredictor(Predictor):
    """Eq. (prediction) in marginal coupling: every row, also of the subset, is drawn from its own marginal.

    In joint predictions the new rows covary among themselves but not with the subset, and keep their marginals.

    Parameters
    ----------
    model, X_s, sites
        As in `SubsetPredictor`.
    """

    def __init__(self, model: DeepGP, X_s: Float[Tensor, "*batch 1 M D"], sites: Sites | tuple[()]) -> None:
        self._model, self._X_s, self._sites = model, X_s, sites
        self._last = cast(SubsetLayer, model.last)

    @property
    def joint_size(self) -> int:
        """A covariance for each output of the widest layer."""
        return max(self._model.widths)

    def rows(
        self, X: Float[Tensor, "*batch 1 N D"], draws: Draws
    ) -> tuple[Float[Tensor, "*batch T N P"], Float[Tensor, "*batch T N P"]]:
        """As in `Predictor`."""
        points, _ = self._model.propagate(Points(self._X_s, X), draws, "marginal")
        return self._last.label_informed(points, *self._sites).rest.rows()

    def joint(
        self, X: Float[Tensor, "*batch 1 N D"], draws: Draws
    ) -> tuple[Float[Tensor, "*batch T N P"], Float[Tensor, "*batch T P N N"]]:
        """As in `Predictor`."""
        points, _ = self._model.propagate(Points(self._X_s, X), draws, ROWS_JOINTLY)
        return self._last.label_informed_joint(points, *self._sites)

    def hidden(self, X: Float[Tensor, "*batch 1 N D"], draws: Draws, layer: int) -> Float[Tensor, "*batch T N D_l"]:
        """As in `Predictor`."""
        points = Points(self._X_s, X)
        for each in self._model.hidden[:layer]:
            points, _ = each.propagate(points, draws, "marginal")
        return points.rest


def _columns_times(w: Float[Tensor, "*w T M D"], A: Float[Tensor, "*a #T M N"]) -> Float[Tensor, "*out T D N"]:
    """The product w' A for every sample: one product for all that share A."""
    if A.shape[-3] > 1:
        return w.mT @ A
    return (w.mT.flatten(-3, -2) @ A.squeeze(-3)).unflatten(-2, (w.shape[-3], w.shape[-1]))


class _Numbers:
    """Random numbers that were already drawn, as a source of them."""

    def __init__(self, values: Float[Tensor, "*layout #T #N D"]) -> None:
        self.values, self.n_samples = values, int(values.shape[-3])

    def subset(self, rows: int, width: int) -> Float[Tensor, "*layout #T #N D"]:
        return self.values

    rest = subset


def _with_one_row(Z_s: Tensor) -> Points:
    """A subset and one other row, since kernels of users may not accept empty inputs."""
    return Points(Z_s, Z_s[..., :1, :])


def _stack_batches(Z: Float[Tensor, "*batch N D_in"], layout: int) -> Float[Tensor, "*layout rows D_in"]:
    """The rows of all batches as one axis: [*batch, *axes, N, D] -> [*axes, B N, D], which has `layout` axes."""
    return Z.reshape(-1, *Z.shape[-layout:]).movedim(0, -3).flatten(-3, -2)


def _split_batches(rows: Float[Tensor, "*axes rows D"], Z: Tensor) -> Float[Tensor, "*batch N D"]:
    """The inverse of `_stack_batches` for the batch axes and the N rows of Z."""
    batch = Z.shape[: Z.dim() - rows.dim()]
    return rows.unflatten(-2, (-1, Z.shape[-2])).movedim(-3, 0).reshape(*batch, *rows.shape[:-2], -1, rows.shape[-1])
