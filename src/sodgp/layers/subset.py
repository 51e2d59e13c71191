"""One GP layer conditioned on a subset of the data (SoD-VI).

The inducing inputs are the subset's own representations: handed in, never trained. The layer holds only q(F_S), its
kernel and its noise variance.
"""

from __future__ import annotations

from typing import NamedTuple

import gpytorch
import torch
from gpytorch.kernels import Kernel
from torch import Tensor, nn

from sodgp.errors import ConfigurationError
from sodgp.kernels.dense import covariance
from sodgp.layers.contract import Points
from sodgp.layers.families import FAMILIES, Gaussian, LabelInformed, trained_numbers
from sodgp.layers.floors import register_floored
from sodgp.layers.prior import Conditional, HiddenMean, condition
from sodgp.linalg.cholesky import Jitter, draw_root
from sodgp.linalg.draws import Draws
from sodgp.linalg.products import OutputVariances

__all__ = ["COUPLINGS", "Points", "Posterior", "SubsetLayer"]

COUPLINGS = ("ancestral", "marginal", "joint")
# For draws of functions under "marginal" coupling: S as there, and the other rows together, but apart from S.
ROWS_TOGETHER = "rows together"


class Posterior(NamedTuple):
    """The last layer with the subset's labels taken in, for each Monte Carlo sample.

    Attributes
    ----------
    subset : SubsetMarginals
        q_hat(F_S).
    rest : RestMarginals
        f at the other rows.
    kl : Tensor of shape [..., T]
        KL(q_hat || p(F_S | Z_S)).

    Examples
    --------
    >>> from sodgp.kernels.make import make_kernel
    >>> layer = SubsetLayer(make_kernel("rbf", 1), HiddenMean(torch.zeros(1, 1).double()), size=3, width=1)
    >>> Z = torch.linspace(-1, 1, 8, dtype=torch.float64)[None, :, None]
    >>> v = torch.full((1, 1, 1), 0.1, dtype=torch.float64)
    >>> mean, variance = layer.label_informed(Points(Z[:, :3], Z[:, 3:]), Z[:, :3], v).rest.rows()
    >>> mean.shape, variance.shape
    (torch.Size([1, 5, 1]), torch.Size([1, 5, 1]))
    """

    subset: SubsetMarginals
    rest: RestMarginals
    kl: Tensor


class SubsetMarginals:
    """Marginals of F_S under q_hat, whose sites have the variance v [..., 1, 1 or M, P]."""

    def __init__(self, q_hat: LabelInformed, v: Tensor) -> None:
        self._q_hat, self._v = q_hat, v

    def rows(self) -> tuple[Tensor, Tensor]:
        """Means and variances, [..., T, M, P]."""
        return self._q_hat.mean, self._q_hat.f.variance

    def totals(self) -> tuple[Tensor, Tensor]:
        """Means, and variances summed over rows, [..., T, 1, P]."""
        if self._v.shape[-2] > 1:
            mean, variance = self.rows()
            return mean, variance.sum(-2, keepdim=True)
        mean, total = self.over_sites()
        return mean, self._v * total

    def over_sites(self) -> tuple[Tensor, Tensor]:
        """Means, and variances over those of the sites, summed over rows, [..., T, 1, P]."""
        return self._q_hat.mean, self._q_hat.relative_variance.unsqueeze(-2)


class RestMarginals:
    """Marginals of f at rows outside the subset; sums over rows cost less than the rows themselves."""

    def __init__(self, cond: Conditional, w: Gaussian, mean_b: Tensor) -> None:
        self._cond, self._w, self._mean_b = cond, w, mean_b
        self._rows: tuple[Tensor, Tensor] | None = None

    def rows(self) -> tuple[Tensor, Tensor]:
        """Means and variances, [..., T, B, P]."""
        if self._rows is None:
            mean, variance = self._cond.rows_under(*self._w)
            self._rows = self._mean_b + mean, variance
        return self._rows

    def totals(self) -> tuple[Tensor, Tensor]:
        """Means, and variances summed over rows, [..., T, 1, P]."""
        if self._rows is not None:
            return self._rows[0], self._rows[1].sum(-2, keepdim=True)
        mean, total = self._cond.totals_under(*self._w)
        return self._mean_b + mean, total.unsqueeze(-2)

    def over_sites(self) -> None:
        """These rows have no sites."""
        return


class SubsetLayer(gpytorch.Module):
    """A GP layer with q(F_S) over a subset of M rows.

    Parameters
    ----------
    kernel : gpytorch.kernels.Kernel
        Shared by all outputs of the layer.
    mean : HiddenMean
    size : int
        Rows M of the subset.
    width : int
        Outputs D of the layer.
    parameterization : {"whitened", "paper"}
    noise_variance : float or None
        Start of the layer's noise variance (paper: sigma_l^2). In the last layer it is the label noise v of q_hat, and
        None ties v to the likelihood's noise.
    factor_scale : float
        q starts with covariance factor ``factor_scale * I``.
    jitter : Jitter
    index : int
        Position in the stack, from 1, for error messages.
    replicates : torch.Size
        Leading axes of independent models that train in one program.

    Examples
    --------
    >>> from sodgp.linalg.draws import FreshDraws
    >>> from sodgp.kernels.make import make_kernel
    >>> layer = SubsetLayer(make_kernel("rbf", 2), HiddenMean(torch.eye(2).double()), size=3, width=2)
    >>> X = torch.randn(1, 8, 2, generator=torch.Generator().manual_seed(0)).double()
    >>> draws = FreshDraws(torch.Generator().manual_seed(0), n_samples=10)
    >>> points, kl = layer.propagate(Points(X[:, :3], X[:, 3:]), draws, "ancestral")
    >>> points.subset.shape, points.rest.shape, kl.shape
    (torch.Size([10, 3, 2]), torch.Size([10, 5, 2]), torch.Size([1]))
    """

    q_mean: nn.Parameter
    q_factor: nn.Parameter

    def __init__(
        self,
        kernel: Kernel,
        mean: HiddenMean,
        *,
        size: int,
        width: int,
        parameterization: str = "whitened",
        noise_variance: float | None = 1e-5,
        factor_scale: float = 1.0,
        jitter: Jitter | None = None,
        index: int = 1,
        replicates: torch.Size = torch.Size(),
    ) -> None:
        super().__init__()
        self.kernel = kernel
        self.mean = mean
        self.parameterization = parameterization
        self.family = FAMILIES[parameterization]
        self.index = index
        dtype = mean.weight.dtype
        self.jitter = Jitter.default(dtype) if jitter is None else jitter
        self.register_parameter("q_mean", nn.Parameter(torch.zeros(*replicates, size, width, dtype=dtype)))
        factor = factor_scale * torch.eye(size, dtype=dtype).expand(*replicates, width, size, size)
        self.register_parameter("q_factor", nn.Parameter(factor.clone()))
        self.has_noise = noise_variance is not None
        if noise_variance is not None:
            register_floored(self, "raw_noise", torch.full(replicates, noise_variance, dtype=dtype))

    @property
    def noise_variance(self) -> Tensor:
        """The layer's noise variance, of shape [*replicates]."""
        return self.raw_noise_constraint.transform(self.raw_noise)

    @property
    def n_parameters(self) -> int:
        """Trained numbers of one replicate; of a covariance factor only the lower triangle counts."""
        return trained_numbers(self)

    def condition(self, points: Points) -> Conditional:
        """Condition the layer's GP on the subset's inputs."""
        return condition(self.kernel, points.subset, points.rest, self.jitter, layer=self.index)

    def variational_parameters(self) -> tuple[Tensor, Tensor]:
        """Mean [..., 1, M, D] and lower-triangular factor [..., 1, D, M, M] of q, with the sample axis in place."""
        return self.q_mean.unsqueeze(-3), self.q_factor.tril().unsqueeze(-4)

    def propagate(self, points: Points, draws: Draws, coupling: str) -> tuple[Points, Tensor]:
        """Draw this layer's noisy outputs Z, the next layer's inputs, and give KL(q(F_S) || p(F_S | Z_S)).

        Returns
        -------
        points : Points
            [..., T, M, D] and [..., T, B, D].
        kl : Tensor of shape [..., T] or [..., 1]
            Summed over outputs.
        """
        return self._draw(points, draws, coupling)

    @property
    def has_kernel_per_output(self) -> bool:
        """All outputs share one kernel."""
        return False

    def to_kernel_layout(self, Z: Tensor) -> Tensor:
        """Inputs [..., T, N, D_in] in the layout of the layer's kernel, which other layers may have."""
        return Z

    def from_kernel_layout(self, Z: Tensor) -> Tensor:
        """Outputs [..., T, N, D] from that layout."""
        return Z

    def draws_in_layout(self, draws: Draws) -> Draws:
        """Random numbers in that layout."""
        return draws

    def prior_mean(self, Z: Tensor) -> Tensor:
        """Of the outputs at inputs Z, both in that layout."""
        return self.mean(Z)

    def _draw(self, points: Points, draws: Draws, coupling: str) -> tuple[Points, Tensor]:
        """As `propagate`, everything in the layout of the kernel."""
        cond = self.condition(points)
        m, C = self.variational_parameters()
        mean_s, mean_b = (self.prior_mean(Z) for Z in points)
        kl = self.family.kl(m, C, cond, mean_s)
        if coupling == "ancestral":
            noise = self.draw_variance
            Z_s, w = self.draw_subset(m, C, cond, mean_s, noise, draws)
            explained, V = cond.rows_given(w)
            return Points(Z_s, self.draw_rows(mean_b + explained, V, noise, draws)), kl
        f_s, q_w = self.family.in_f(m, C, cond, mean_s), self.family.in_w(m, C, cond, mean_s)
        if coupling == "marginal":
            return self._marginal(cond, f_s, q_w, mean_b, draws), kl
        if coupling == "joint":
            return self._joint(cond, f_s, q_w, mean_b, points.rest, draws), kl
        if coupling == ROWS_TOGETHER:
            return self._rows_together(cond, f_s, q_w, mean_b, points.rest, draws), kl
        raise ConfigurationError(f"coupling={coupling!r} is unknown; choose one of {', '.join(COUPLINGS)}.")

    def label_informed(self, points: Points, label: Tensor, variance: Tensor) -> Posterior:
        """The last layer, with the subset's labels taken in through Gaussian sites (paper: q_hat).

        Parameters
        ----------
        points : Points
        label : Tensor of shape [..., 1, M, P]
        variance : Tensor of shape [..., 1, 1 or M, P]
            Of the sites, for all rows or for each (paper: v).
        """
        cond, q_hat, mean_b = self.conditioned_on_labels(points, label, variance)
        return Posterior(SubsetMarginals(q_hat, variance), RestMarginals(cond, q_hat.w, mean_b), q_hat.kl)

    def label_informed_joint(self, points: Points, label: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Mean [..., T, B, P] and full covariance [..., T, P, B, B] of f at the other rows."""
        cond, q_hat, mean_b = self.conditioned_on_labels(points, label, variance)
        return mean_b + cond.A.mT @ q_hat.w.mean, self._rest_covariance(cond, q_hat.w, points.rest)

    def conditioned_on_labels(
        self, points: Points, label: Tensor, variance: Tensor
    ) -> tuple[Conditional, LabelInformed, Tensor]:
        """What `label_informed` is made of: the conditional of other rows, q_hat, and the mean function there."""
        cond = self.condition(points)
        m, C = self.variational_parameters()
        mean_s, mean_b = self.mean(points.subset), self.mean(points.rest)
        return cond, self.family.label_informed(m, C, cond, mean_s, label, variance), mean_b

    @property
    def draw_variance(self) -> Tensor:
        """Noise variance of a hidden draw, [..., 1, 1, 1]."""
        return self.noise_variance[..., None, None, None] + self.jitter.draw_extra

    def draw_subset(
        self, m: Tensor, C: Tensor, cond: Conditional, mean_s: Tensor, noise: Tensor, draws: Draws
    ) -> tuple[Tensor, Tensor]:
        """F_S ~ q and Z_S = F_S + noise: Z_S, and w = L^-1 (F_S - mean(Z_S)), each [..., T, M, D]."""
        size, width = m.shape[-2:]
        f_s, w = self.family.draw(m, C, cond, mean_s, draws.subset(size, width))
        return f_s + noise.sqrt() * draws.subset(size, width), w

    def draw_rows(self, mean: Tensor, V: Tensor, noise: Tensor, draws: Draws) -> Tensor:
        """Every other row from p(f_n | F_S) = N(mean_n, V_n), + noise; given F_S the rows are independent.

        The distributions of (S, S), (S, n) and (n, n) are those of Appendix B.2 (blocks A, B, C and the diagonal of D),
        which is all that the bound sees, and no covariance of q meets the batch.
        """
        # One draw carries the residual of p(f_n | F_S) and the layer noise: both are independent over rows.
        spread = (V.unsqueeze(-1) + noise).sqrt()
        return mean + spread * draws.rest(*mean.shape[-2:])

    def _marginal(self, cond: Conditional, f_s: Gaussian, w: Gaussian, mean_b: Tensor, draws: Draws) -> Points:
        """Every row, also within S, from its own marginal, as the authors' program does. Its bound is not a bound."""
        size, width = f_s.mean.shape[-2:]
        noise = self.draw_variance
        mean, variance = _at_rest(cond, w, mean_b)
        Z_s = f_s.mean + (f_s.variance + noise).sqrt() * draws.subset(size, width)
        Z_b = mean + (variance + noise).sqrt() * draws.rest(mean.shape[-2], width)
        return Points(Z_s, Z_b)

    def _rows_together(
        self, cond: Conditional, f_s: Gaussian, w: Gaussian, mean_b: Tensor, Z_b: Tensor, draws: Draws
    ) -> Points:
        """As `_marginal`, but with one draw over all rows outside S: each has its marginal, and its neighbours."""
        size, width = f_s.mean.shape[-2:]
        noise = self.draw_variance
        Z_s = f_s.mean + (f_s.variance + noise).sqrt() * draws.subset(size, width)
        full = self._rest_covariance(cond, w, Z_b)
        full = full + noise[..., None] * torch.eye(full.shape[-1], dtype=full.dtype, device=full.device)
        root = draw_root(full, layer=self.index, what="Cov(Z)", jitter=0.0 if self.jitter.on_draws else 1e-12)
        residual = (root @ draws.rest(mean_b.shape[-2], width).mT.unsqueeze(-1)).squeeze(-1).mT
        return Points(Z_s, mean_b + cond.A.mT @ w.mean + residual)

    def _joint(
        self, cond: Conditional, f_s: Gaussian, w: Gaussian, mean_b: Tensor, Z_b: Tensor, draws: Draws
    ) -> Points:
        """One draw over S and the other rows from the whole covariance of Appendix B.2, per output."""
        mean, covariance = self.joint_moments(cond, f_s, w, mean_b, Z_b)
        size, width = f_s.mean.shape[-2:]
        noise = torch.cat([draws.subset(size, width), draws.rest(mean_b.shape[-2], width)], -2)
        # What the authors' program adds to draws is already in the covariance: nothing on top of it.
        root = draw_root(covariance, layer=self.index, what="Cov(Z)", jitter=0.0 if self.jitter.on_draws else 1e-12)
        Z = mean + (root @ noise.mT.unsqueeze(-1)).squeeze(-1).mT
        return Points(Z[..., :size, :], Z[..., size:, :])

    def joint_moments(
        self, cond: Conditional, f_s: Gaussian, w: Gaussian, mean_b: Tensor, Z_b: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Mean [..., T, M + B, D] and covariance [..., T, D, M + B, M + B] of Z over subset and other rows."""
        spread = w.factor.mT @ cond.A.unsqueeze(-3)  # W' A, [..., T, D, M, B]
        A_block = f_s.factor @ f_s.factor.mT
        B_block = f_s.factor @ spread
        D_block = self._residual_covariance(cond, Z_b).unsqueeze(-3) + spread.mT @ spread
        A_block, B_block, D_block = _same_batch(A_block, B_block, D_block)
        covariance = torch.cat([torch.cat([A_block, B_block], -1), torch.cat([B_block.mT, D_block], -1)], -2)
        eye = torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
        mean_rest = mean_b + cond.A.mT @ w.mean
        mean = torch.cat(_same_batch(f_s.mean, mean_rest), -2)
        return mean, covariance + self.draw_variance[..., None] * eye

    def _rest_covariance(self, cond: Conditional, w: Gaussian, Z_b: Tensor) -> Tensor:
        """Covariance of F at the other rows when w ~ N(w.mean, w.factor w.factor'), [..., T, D, B, B]."""
        spread = w.factor.mT @ cond.A.unsqueeze(-3)
        return self._residual_covariance(cond, Z_b).unsqueeze(-3) + spread.mT @ spread

    def _residual_covariance(self, cond: Conditional, Z_b: Tensor) -> Tensor:
        """K_RR - K_RS K_SS^-1 K_SR in full, [..., B, B]."""
        K_bb = covariance(self.kernel, Z_b)
        eye = torch.eye(K_bb.shape[-1], dtype=K_bb.dtype, device=K_bb.device)
        return K_bb + self.jitter.prior_extra * eye - cond.A.mT @ cond.A


def _at_rest(cond: Conditional, w: Gaussian, mean_b: Tensor) -> tuple[Tensor, Tensor]:
    """Marginal mean and variance of f at the other rows when w ~ N(w.mean, w.factor w.factor')."""
    mean = mean_b + cond.A.mT @ w.mean
    variance = cond.V.unsqueeze(-1) + OutputVariances.apply(cond.A, w.factor)
    return mean, variance


def _same_batch(*tensors: Tensor) -> list[Tensor]:
    """Broadcast all leading axes but the last two."""
    shape = torch.broadcast_shapes(*(t.shape[:-2] for t in tensors))
    return [t.expand(*shape, *t.shape[-2:]) for t in tensors]
