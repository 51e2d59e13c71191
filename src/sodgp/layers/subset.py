"""One GP layer conditioned on a subset of the data (SoD-VI).

The inducing inputs are those of the subset's rows: they come from the layer below and are not trained. The layer owns
its kernel, its noise variance and q(F_S).
"""

from __future__ import annotations

from typing import ClassVar

import gpytorch
import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Tensor, nn

from sodgp.errors import ConfigurationError
from sodgp.kernels.dense import covariance
from sodgp.layers.contract import Points
from sodgp.layers.families import (
    FAMILIES,
    Gaussian,
    LabelInformed,
    Mean,
    MeanOfS,
    Root,
    trained_numbers,
)
from sodgp.layers.marginals import Posterior, RestMarginals, SubsetMarginals
from sodgp.layers.prior import Conditional, HiddenMean, condition, correlated, register_floored
from sodgp.linalg.cholesky import Jitter
from sodgp.linalg.draws import Draws
from sodgp.linalg.products import OutputVariances

__all__ = ["COUPLINGS", "ROWS_JOINTLY", "SubsetLayer"]

COUPLINGS = ("ancestral", "marginal", "joint")
# Joint predictions under "marginal" coupling: one draw over the other rows, and S drawn apart from them.
ROWS_JOINTLY = "rows jointly"

MeanOfRest = Float[Tensor, "*#layout #T B D"]
InputsOfRest = Float[Tensor, "*#layout #T B D_in"]
# Labels of the subset, and the variances of their sites.
Label = Float[Tensor, "*#batch 1 M P"]
SiteVariance = Float[Tensor, "*#batch 1 #M P"]


class SubsetLayer(gpytorch.Module):
    """A GP layer with q(F_S) over a subset of M rows.

    Parameters
    ----------
    kernel : gpytorch.kernels.Kernel
        Shared by all outputs of the layer.
    mean : HiddenMean
    size, width : int
        Rows M of the subset, and outputs D of the layer.
    parameterization : {"whitened", "paper"}
    noise_variance : float or None
        Initial noise variance of the layer (paper: sigma_l^2). In the last layer it is the label noise v of q_hat, and
        None ties v to the likelihood's noise.
    has_sites : bool
        Whether the layer, a last one, has Gaussian sites of its own through which labels enter q_hat: buffers
        ``lambda_1`` and ``lambda_2``, [*replicates, M, D], that start at zero.
    factor_scale : float
        The covariance factor of q starts as ``factor_scale * I``.
    jitter : Jitter
    index : int
        Position in the stack, from 1, for error messages.
    replicates : torch.Size
        Leading axes of independent models that train at the same time.
    trains_q : bool
        False fixes q at these values: with a factor scale of 1, at the prior.
    moves_q : bool
        Whether q follows natural-gradient steps and no gradient: its values are buffers then.

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

    has_kernel_per_output: ClassVar[bool] = False

    q_mean: Tensor
    q_factor: Tensor
    lambda_1: Tensor
    lambda_2: Tensor

    def __init__(
        self,
        kernel: Kernel,
        mean: HiddenMean,
        *,
        size: int,
        width: int,
        parameterization: str = "whitened",
        noise_variance: float | None = 1e-5,
        has_sites: bool = False,
        factor_scale: float = 1.0,
        jitter: Jitter | None = None,
        index: int = 1,
        replicates: torch.Size = torch.Size(),
        trains_q: bool = True,
        moves_q: bool = False,
    ) -> None:
        super().__init__()
        self.kernel = kernel
        self.mean = mean
        self.parameterization = parameterization
        self.family = FAMILIES[parameterization]
        self.trains_q, self.moves_q = trains_q, moves_q
        self.index = index
        dtype = mean.weight.dtype
        self.jitter = Jitter.default(dtype) if jitter is None else jitter
        mean_of_q = torch.zeros(*replicates, size, width, dtype=dtype)
        factor = factor_scale * torch.eye(size, dtype=dtype).expand(*replicates, width, size, size)
        for name, start in {"q_mean": mean_of_q, "q_factor": factor.clone()}.items():
            if trains_q and not moves_q:
                self.register_parameter(name, nn.Parameter(start))
            else:
                self.register_buffer(name, start)
        self.has_noise = noise_variance is not None
        if noise_variance is not None:
            register_floored(self, "raw_noise", torch.full(replicates, noise_variance, dtype=dtype))
        self.has_sites = has_sites
        if has_sites:
            self.register_buffer("lambda_1", torch.zeros(*replicates, size, width, dtype=dtype))
            self.register_buffer("lambda_2", torch.zeros(*replicates, size, width, dtype=dtype))

    @property
    def noise_variance(self) -> Float[Tensor, "*replicates"]:
        """The layer's noise variance."""
        return self.raw_noise_constraint.transform(self.raw_noise)

    @property
    def n_parameters(self) -> int:
        """How many numbers one replicate trains; of a covariance factor only the lower triangle counts."""
        return trained_numbers(self)

    def condition(self, points: Points) -> Conditional:
        """The conditional of the layer's GP at the other rows given the subset."""
        return condition(self.kernel, points.subset, points.rest, self.jitter, layer=self.index)

    def variational_parameters(self) -> tuple[Float[Tensor, "*layout 1 M D"], Float[Tensor, "*layout 1 D M M"]]:
        """Mean and lower-triangular factor of q, with the sample axis in place."""
        return self.q_mean.unsqueeze(-3), self.q_factor.tril().unsqueeze(-4)

    def propagate(self, points: Points, draws: Draws, coupling: str) -> tuple[Points, Float[Tensor, "*batch T"]]:
        """Draw the noisy outputs Z, the next layer's inputs, and compute KL(q(F_S) || p(F_S | Z_S)) over outputs."""
        return self._draw(points, draws, coupling)

    # The kernel layout: the axes in which this layer's formulas are evaluated. Here it is the usual one; a layer with a
    # kernel for each output (`SeparateLayer`) puts the outputs in front of the samples.

    def to_kernel_layout(self, Z: Float[Tensor, "*batch T N D_in"]) -> Float[Tensor, "*layout T N D_in"]:
        """Inputs of the layer in the kernel layout."""
        return Z

    def from_kernel_layout(self, Z: Float[Tensor, "*layout T N columns"]) -> Float[Tensor, "*batch T N D"]:
        """Outputs of the layer in the usual layout."""
        return Z

    def draws_in_layout(self, draws: Draws) -> Draws:
        """A source of random numbers in the kernel layout."""
        return draws

    def prior_means(self, *inputs: Float[Tensor, "*#layout #T _ D_in"]) -> list[Float[Tensor, "*#layout #T _ D"]]:
        """Prior means of the outputs at several sets of inputs, in the kernel layout."""
        return self.mean.at(*inputs)

    def _draw(self, points: Points, draws: Draws, coupling: str) -> tuple[Points, Float[Tensor, "*layout T"]]:
        """As `propagate`, in the kernel layout."""
        cond = self.condition(points)
        mean_s, mean_b = self.prior_means(*points)
        m, C = self.variational_parameters()
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
        if coupling == ROWS_JOINTLY:
            return self._rows_jointly(cond, f_s, q_w, mean_b, points.rest, draws), kl
        raise ConfigurationError(f"coupling={coupling!r} is unknown; choose one of {', '.join(COUPLINGS)}.")

    def label_informed(
        self, points: Points, label: Label | None = None, variance: SiteVariance | None = None
    ) -> Posterior:
        """The last layer with q conditioned on the subset's labels through Gaussian sites (paper: q_hat).

        Parameters
        ----------
        points : Points
        label : Tensor of shape [..., 1, M, P], optional
            Left out, with `variance`, for the sites that the layer has itself.
        variance : Tensor of shape [..., 1, 1 or M, P], optional
            Of the sites, one for all rows or one for each; a layer with a label noise of its own uses that (paper: v).
        """
        v = None if variance is None else self.label_noise(variance)
        cond, q_hat, mean_b = self._condition_on_labels(points, label, v)
        return Posterior(SubsetMarginals(q_hat, v), RestMarginals(cond, q_hat.w, mean_b), q_hat.kl)

    def label_informed_joint(
        self, points: Points, label: Label | None = None, variance: SiteVariance | None = None
    ) -> tuple[Float[Tensor, "*batch T B P"], Float[Tensor, "*batch T P B B"]]:
        """Mean and full covariance of f at the other rows under q_hat."""
        cond, q_hat, mean_b = self.conditioned_on_labels(points, label, variance)
        return mean_b + cond.A.mT @ q_hat.w.mean, self._rest_covariance(cond, q_hat.w, points.rest)

    def conditioned_on_labels(
        self, points: Points, label: Label | None = None, variance: SiteVariance | None = None
    ) -> tuple[Conditional, LabelInformed, Float[Tensor, "*batch T B P"]]:
        """The parts of `label_informed`: conditional of the other rows, q_hat, and prior mean of the other rows."""
        return self._condition_on_labels(points, label, None if variance is None else self.label_noise(variance))

    def label_noise(self, variance: SiteVariance) -> SiteVariance:
        """The noise variance v of labels in q_hat: the layer's own, or that of the sites."""
        return self.noise_variance[..., None, None, None].expand_as(variance) if self.has_noise else variance

    def _condition_on_labels(
        self, points: Points, label: Label | None, v: SiteVariance | None
    ) -> tuple[Conditional, LabelInformed, Float[Tensor, "*batch T B P"]]:
        cond = self.condition(points)
        m, C = self.variational_parameters()
        mean_s, mean_b = self.mean(points.subset), self.mean(points.rest)
        if label is None or v is None:
            sites = self.lambda_1.unsqueeze(-3), self.lambda_2.unsqueeze(-3)
            return cond, self.family.site_informed(m, C, cond, mean_s, *sites), mean_b
        return cond, self.family.label_informed(m, C, cond, mean_s, label, v), mean_b

    @property
    def draw_variance(self) -> Float[Tensor, "*layout 1 1 1"]:
        """Noise variance of a hidden draw."""
        return self.noise_variance[..., None, None, None] + self.jitter.draw_extra

    def draw_subset(
        self, m: Mean, C: Root, cond: Conditional, mean_s: MeanOfS, noise: Float[Tensor, "*#batch 1 1 1"], draws: Draws
    ) -> tuple[Float[Tensor, "*layout T M D"], Float[Tensor, "*layout T M D"]]:
        """Draw F_S ~ q and return F_S + noise and w = L^-1 (F_S - mean(Z_S))."""
        size, width = m.shape[-2:]
        numbers, noise_numbers = draws.subset(size, width), draws.subset(size, width)
        f_s, w = self.family.draw(m, C, cond, mean_s, numbers)
        return f_s + noise.sqrt() * noise_numbers, w

    def draw_rows(
        self,
        mean: Float[Tensor, "*#layout T B D"],
        V: Float[Tensor, "*#layout #T B"],
        noise: Float[Tensor, "*#layout 1 1 1"],
        draws: Draws,
    ) -> Float[Tensor, "*layout T B D"]:
        """Draw the other rows from p(f_n | F_S) = N(mean_n, V_n), each on its own, and add the layer's noise.

        The distributions of (S, S), (S, n) and (n, n) are those of Appendix B.2 (blocks A, B, C and the diagonal of D).
        The bound depends on nothing else, and no product of q's covariance with the batch is needed.
        """
        # One draw for the residual of p(f_n | F_S) and the layer noise: both are independent over rows.
        spread = (V.unsqueeze(-1) + noise).sqrt()
        return mean + spread * draws.rest(*mean.shape[-2:])

    def _marginal(self, cond: Conditional, f_s: Gaussian, w: Gaussian, mean_b: MeanOfRest, draws: Draws) -> Points:
        """Each row, also within S, from its own marginal, as in the authors' program: the terms are then no bound."""
        noise = self.draw_variance
        mean = mean_b + cond.A.mT @ w.mean
        variance = cond.V.unsqueeze(-1) + OutputVariances.apply(cond.A, w.factor)
        Z_s = f_s.mean + (f_s.variance + noise).sqrt() * draws.subset(*f_s.mean.shape[-2:])
        return Points(Z_s, mean + (variance + noise).sqrt() * draws.rest(*mean.shape[-2:]))

    def _rows_jointly(
        self, cond: Conditional, f_s: Gaussian, w: Gaussian, mean_b: MeanOfRest, Z_b: InputsOfRest, draws: Draws
    ) -> Points:
        """As `_marginal`, but with one draw over all rows outside S, which covary among themselves."""
        noise = self.draw_variance
        Z_s = f_s.mean + (f_s.variance + noise).sqrt() * draws.subset(*f_s.mean.shape[-2:])
        full = self._rest_covariance(cond, w, Z_b)
        full = full + noise[..., None] * torch.eye(full.shape[-1], dtype=full.dtype, device=full.device)
        residual = self._correlated(full, draws.rest(*mean_b.shape[-2:]))
        return Points(Z_s, mean_b + cond.A.mT @ w.mean + residual)

    def _joint(
        self, cond: Conditional, f_s: Gaussian, w: Gaussian, mean_b: MeanOfRest, Z_b: InputsOfRest, draws: Draws
    ) -> Points:
        """One draw over S and the other rows from the whole covariance of Appendix B.2, for every output."""
        mean, covariance = self.joint_moments(cond, f_s, w, mean_b, Z_b)
        size, width = f_s.mean.shape[-2:]
        noise = torch.cat([draws.subset(size, width), draws.rest(mean_b.shape[-2], width)], -2)
        Z = mean + self._correlated(covariance, noise)
        return Points(Z[..., :size, :], Z[..., size:, :])

    def _correlated(
        self, covariance: Float[Tensor, "*#layout #T D N N"], noise: Float[Tensor, "*#layout T N D"]
    ) -> Float[Tensor, "*layout T N D"]:
        # Where the jitter of draws is part of `draw_variance`, as in the authors' program, no more is added.
        jitter = 0.0 if self.jitter.on_draws else 1e-12
        return correlated(covariance, noise, layer=self.index, what="Cov(Z)", jitter=jitter)

    def joint_moments(
        self, cond: Conditional, f_s: Gaussian, w: Gaussian, mean_b: MeanOfRest, Z_b: InputsOfRest
    ) -> tuple[Float[Tensor, "*layout T N D"], Float[Tensor, "*layout #T D N N"]]:
        """Mean and covariance of Z over the N = M + B rows of subset and rest."""
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

    def _rest_covariance(self, cond: Conditional, w: Gaussian, Z_b: InputsOfRest) -> Float[Tensor, "*layout T D B B"]:
        """Covariance of F at the other rows when w ~ N(w.mean, w.factor w.factor')."""
        spread = w.factor.mT @ cond.A.unsqueeze(-3)
        return self._residual_covariance(cond, Z_b).unsqueeze(-3) + spread.mT @ spread

    def _residual_covariance(self, cond: Conditional, Z_b: InputsOfRest) -> Float[Tensor, "*layout T B B"]:
        """K_RR - K_RS K_SS^-1 K_SR in full."""
        K_bb = covariance(self.kernel, Z_b)
        eye = torch.eye(K_bb.shape[-1], dtype=K_bb.dtype, device=K_bb.device)
        return K_bb + self.jitter.prior_extra * eye - cond.A.mT @ cond.A


def _same_batch(*tensors: Tensor) -> list[Tensor]:
    """Broadcast all axes but the last two."""
    shape = torch.broadcast_shapes(*(t.shape[:-2] for t in tensors))
    return [t.expand(*shape, *t.shape[-2:]) for t in tensors]
