"""One GP layer with inducing points (DSVI, SGHMC, mean-field).

The layer owns M inducing inputs and the distribution of the function values there, whitened: U = mean(Z) + L u. The
noise of the layer is part of the kernel, so that f itself is the next layer's input (Appendix A).
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import gpytorch
import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Tensor, nn

from sodgp.kernels.dense import covariance
from sodgp.layers.contract import Points
from sodgp.layers.families import Gaussian, half_log_det, kl_to_standard_normal, trained_numbers
from sodgp.layers.prior import Conditional, HiddenMean, condition, correlated, register_floored
from sodgp.linalg.cholesky import Jitter
from sodgp.linalg.draws import Draws
from sodgp.linalg.products import OutputVariances

__all__ = ["InducingLayer", "InducingMarginals", "Moments"]

# Rows at the inputs of a layer, and the whitened inducing outputs u that a sampler has drawn.
Rows = Float[Tensor, "*#batch #T B D_in"]
Sampled = Float[Tensor, "*#batch #T M D"]


class Moments(NamedTuple):
    """Marginal means and variances at every row and output, [..., T, B, D].

    Examples
    --------
    >>> Moments(torch.zeros(10, 5, 1), torch.ones(10, 5, 1)).variance.shape
    torch.Size([10, 5, 1])
    """

    mean: Float[Tensor, "*batch T B D"]
    variance: Float[Tensor, "*batch #T #B D"]


class InducingLayer(gpytorch.Module):
    """A GP layer with inducing inputs Z and u ~ N(m, C C').

    Parameters
    ----------
    kernel : gpytorch.kernels.Kernel
        Shared by all outputs of the layer.
    mean : HiddenMean
    inducing_inputs : Tensor of shape [*replicates, M, D_in]
    width : int
        Outputs D of the layer.
    learn_inducing_inputs : bool
        False keeps their initial values (DSVI*).
    nugget : float or None
        Initial noise variance inside the kernel; None for no noise.
    factor_scale : float or None
        The covariance factor of q starts as ``factor_scale * I``; with None u is a point (SGHMC samples it).
    jitter : Jitter
    index : int
        Position in the stack, from 1, for error messages.
    replicates : torch.Size

    Examples
    --------
    >>> from sodgp.kernels.make import make_kernel
    >>> Z = torch.linspace(-1, 1, 4, dtype=torch.float64)[:, None]
    >>> layer = InducingLayer(make_kernel("rbf", 1), HiddenMean(torch.eye(1).double()), Z, width=1)
    >>> X = torch.zeros(1, 6, 1, dtype=torch.float64)
    >>> layer.marginals(X).mean.shape, layer.kl().shape
    (torch.Size([1, 6, 1]), torch.Size([1]))
    """

    has_kernel_per_output: ClassVar[bool] = False

    q_mean: nn.Parameter
    inducing_inputs: Tensor

    def __init__(
        self,
        kernel: Kernel,
        mean: HiddenMean,
        inducing_inputs: Float[Tensor, "*replicates M D_in"],
        *,
        width: int,
        learn_inducing_inputs: bool = True,
        nugget: float | None = 1e-5,
        factor_scale: float | None = 1.0,
        jitter: Jitter | None = None,
        index: int = 1,
        replicates: torch.Size = torch.Size(),
    ) -> None:
        super().__init__()
        self.kernel = kernel
        self.mean = mean
        self.index = index
        dtype, size = inducing_inputs.dtype, inducing_inputs.shape[-2]
        self.jitter = Jitter.default(dtype) if jitter is None else jitter
        if learn_inducing_inputs:
            self.register_parameter("inducing_inputs", nn.Parameter(inducing_inputs.clone()))
        else:
            self.register_buffer("inducing_inputs", inducing_inputs.clone())
        self.register_parameter("q_mean", nn.Parameter(torch.zeros(*replicates, size, width, dtype=dtype)))
        self.is_point = factor_scale is None
        if factor_scale is not None:
            factor = factor_scale * torch.eye(size, dtype=dtype).expand(*replicates, width, size, size)
            self.register_parameter("q_factor", nn.Parameter(factor.clone()))
        self.has_noise = nugget is not None
        if nugget is not None:
            register_floored(self, "raw_noise", torch.full(replicates, nugget, dtype=dtype))

    @property
    def noise_variance(self) -> Float[Tensor, "*replicates"] | None:
        """Noise variance inside the kernel; None for no noise."""
        return self.raw_noise_constraint.transform(self.raw_noise) if self.has_noise else None

    @property
    def n_parameters(self) -> int:
        """How many numbers one replicate trains; of a covariance factor only the lower triangle counts."""
        return trained_numbers(self)

    def variational_parameters(
        self,
    ) -> tuple[Float[Tensor, "*replicates 1 M D"], Float[Tensor, "*replicates 1 D M M"] | None]:
        """Mean and lower-triangular factor of u, with the sample axis in place; no factor for a point."""
        return self.q_mean.unsqueeze(-3), None if self.is_point else self.q_factor.tril().unsqueeze(-4)

    def condition(self, Z_b: Rows) -> Conditional:
        """The conditional at rows Z_b given the values at the inducing inputs.

        The inducing inputs are the same for every Monte Carlo sample, so that all T B rows are columns of one product.
        """
        samples, rows = Z_b.shape[-3:-1]
        flat = Z_b.reshape(*Z_b.shape[:-3], 1, samples * rows, Z_b.shape[-1])
        noise = self.noise_variance
        nugget = None if noise is None else noise[..., None, None, None]
        Z = self.inducing_inputs.unsqueeze(-3)
        return condition(self.kernel, Z, flat, self.jitter, layer=self.index, nugget=nugget)

    def marginals(self, Z_b: Rows, u: Sampled | None = None) -> Moments:
        """Moments of q(f) at rows Z_b, mean(z) + A' m and V + |C_d' A|^2.

        With u, one for each sample, the moments of p(f | u) instead: mean(z) + A' u and V.
        """
        samples, rows = Z_b.shape[-3:-1]
        cond = self.condition(Z_b)
        if u is not None:
            A = cond.A.squeeze(-3).unflatten(-1, (samples, rows)).movedim(-2, -3)
            f = self.mean(Z_b) + A.mT @ u
            return Moments(f, cond.V.squeeze(-2).unflatten(-1, (samples, rows)).unsqueeze(-1).expand_as(f))
        m, C = self.variational_parameters()
        mean = (cond.A.mT @ m).unflatten(-2, (samples, rows)).squeeze(-4)
        variance = cond.V.unsqueeze(-1).expand(*cond.V.shape, m.shape[-1])
        if C is not None:
            variance = variance + OutputVariances.apply(cond.A, C)
        return Moments(self.mean(Z_b) + mean, variance.unflatten(-2, (samples, rows)).squeeze(-4))

    def totals(self, Z_b: Rows) -> Moments:
        """Means of q(f) as in `marginals`, and variances summed over rows and averaged over samples, [..., 1, 1, D].

        All that a Gaussian bound needs of the last layer, without a product of q's covariance with the batch.
        """
        samples, rows = Z_b.shape[-3:-1]
        m, C = self.variational_parameters()
        if C is None:
            moments = self.marginals(Z_b)
            return Moments(moments.mean, moments.variance.sum(-2, keepdim=True))
        mean, total = self.condition(Z_b).totals_under(m, C)
        mean = mean.unflatten(-2, (samples, rows)).squeeze(-4)
        return Moments(self.mean(Z_b) + mean, total.unsqueeze(-2) / samples)

    def propagate(self, points: Points, draws: Draws, coupling: str) -> tuple[Points, Float[Tensor, "*replicates 1"]]:
        """Draw f, the next layer's inputs, and compute KL(q(u) || N(0, I)).

        ``coupling="marginal"`` draws every row from its own marginal, which is exact for a sum over rows (Salimbeni &
        Deisenroth 2017, eq. 16); ``"joint"`` draws all rows of a sample jointly, for joint predictions.
        """
        return self.propagate_given(points, draws, coupling, None), self.kl()

    def propagate_given(self, points: Points, draws: Draws, coupling: str, u: Sampled | None) -> Points:
        """Draw f as in `propagate`, but given u, one for each sample; None is q(u)."""
        Z_b = points.rest
        noise = draws.rest(Z_b.shape[-2], self.q_mean.shape[-1])
        if coupling == "joint":
            mean, covariance = self.joint_moments(Z_b, u)
            f = mean + correlated(covariance, noise, layer=self.index, what="Cov(F)")
        else:
            moments = self.marginals(Z_b, u)
            f = moments.mean + moments.variance.sqrt() * noise
        return Points(points.subset, f)

    def joint_moments(
        self, Z_b: Rows, u: Sampled | None = None
    ) -> tuple[Float[Tensor, "*batch T B D"], Float[Tensor, "*batch #T D B B"]]:
        """Mean and full covariance of q(f) over the rows Z_b, or with u of p(f | u)."""
        noise = self.noise_variance
        nugget = None if noise is None else noise[..., None, None, None]
        Z = self.inducing_inputs.unsqueeze(-3)
        cond = condition(self.kernel, Z, Z_b, self.jitter, layer=self.index, nugget=nugget)
        m, C = self.variational_parameters() if u is None else (u, None)
        extra = self.jitter.prior_extra if nugget is None else nugget + self.jitter.prior_extra
        eye = torch.eye(Z_b.shape[-2], dtype=Z_b.dtype, device=Z_b.device)
        residual = covariance(self.kernel, Z_b) + extra * eye - cond.A.mT @ cond.A
        full = residual.unsqueeze(-3).expand(*residual.shape[:-2], m.shape[-1], *residual.shape[-2:])
        if C is not None:
            spread = C.mT @ cond.A.unsqueeze(-3)
            full = full + spread.mT @ spread
        return self.mean(Z_b) + cond.A.mT @ m, full

    def kl(self) -> Float[Tensor, "*replicates 1"]:
        """KL(q(u) || N(0, I)) summed over outputs; for a point, minus its log prior up to a constant."""
        m, C = self.variational_parameters()
        if C is None:
            return 0.5 * m.square().sum((-2, -1))
        return kl_to_standard_normal(Gaussian(m, C), half_log_det(C).sum(-1))


class InducingMarginals:
    """Marginals of f at rows Z [..., T, N, D_in] under a layer; sums over rows cost less than the rows themselves.

    Examples
    --------
    >>> from sodgp.kernels.make import make_kernel
    >>> Z = torch.linspace(-1, 1, 4, dtype=torch.float64)[:, None]
    >>> mean = HiddenMean(torch.zeros(1, 1, dtype=torch.float64))
    >>> layer = InducingLayer(make_kernel("rbf", 1), mean, Z, width=1)
    >>> InducingMarginals(layer, Z[None]).totals()[1].shape
    torch.Size([1, 1, 1])
    """

    def __init__(self, layer: InducingLayer, Z: Rows) -> None:
        self._layer, self._Z = layer, Z
        self._rows: Moments | None = None

    def rows(self) -> tuple[Float[Tensor, "*batch T N D"], Float[Tensor, "*batch T N D"]]:
        """Means and variances."""
        if self._rows is None:
            self._rows = self._layer.marginals(self._Z)
        return self._rows

    def totals(self) -> tuple[Float[Tensor, "*batch T N D"], Float[Tensor, "*batch #T 1 D"]]:
        """Means, and variances summed over rows."""
        if self._rows is not None:
            return self._rows.mean, self._rows.variance.sum(-2, keepdim=True)
        return self._layer.totals(self._Z)

    def over_sites(self) -> None:
        """These rows have no sites."""
        return
