"""One GP layer conditioned on inducing points of its own (DSVI, SGHMC, mean-field).

The layer owns M inducing inputs and the law of the function values there, whitened: U = mean(Z) + L u. The layer noise
sits inside the kernel, so what is propagated is f itself and no Z exists (Appendix A).
"""

from __future__ import annotations

from typing import NamedTuple

import gpytorch
import torch
from gpytorch.kernels import Kernel
from torch import Tensor, nn

from sodgp.kernels.dense import covariance
from sodgp.layers.contract import Points
from sodgp.layers.families import Gaussian, kl_to_standard_normal, trained_numbers
from sodgp.layers.floors import register_floored
from sodgp.layers.prior import Conditional, HiddenMean, condition
from sodgp.linalg.cholesky import Jitter, draw_root, log_diagonal
from sodgp.linalg.draws import Draws
from sodgp.linalg.products import OutputVariances

__all__ = ["InducingLayer", "InducingMarginals", "Moments"]

_NO_REPLICATES = torch.Size()


class Moments(NamedTuple):
    """Marginal mean and variance of f at every row and output, [..., T, B, D].

    Examples
    --------
    >>> Moments(torch.zeros(10, 5, 1), torch.ones(10, 5, 1)).variance.shape
    torch.Size([10, 5, 1])
    """

    mean: Tensor
    variance: Tensor


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
        False keeps them where they start (DSVI*).
    nugget : float or None
        Start of the noise variance inside the kernel; None for none.
    factor_scale : float or None
        q starts with covariance factor ``factor_scale * I``; None holds u as a point (SGHMC samples it).
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

    q_mean: nn.Parameter
    inducing_inputs: Tensor

    def __init__(
        self,
        kernel: Kernel,
        mean: HiddenMean,
        inducing_inputs: Tensor,
        *,
        width: int,
        learn_inducing_inputs: bool = True,
        nugget: float | None = 1e-5,
        factor_scale: float | None = 1.0,
        jitter: Jitter | None = None,
        index: int = 1,
        replicates: torch.Size = _NO_REPLICATES,
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
    def has_kernel_per_output(self) -> bool:
        """All outputs share one kernel."""
        return False

    @property
    def noise_variance(self) -> Tensor | None:
        """Noise variance inside the kernel, of shape [*replicates]; None for none."""
        return self.raw_noise_constraint.transform(self.raw_noise) if self.has_noise else None

    @property
    def n_parameters(self) -> int:
        """Trained numbers of one replicate; of a covariance factor only the lower triangle counts."""
        return trained_numbers(self)

    def variational_parameters(self) -> tuple[Tensor, Tensor | None]:
        """Mean [..., 1, M, D] and lower-triangular factor [..., 1, D, M, M] of u; None for a point."""
        return self.q_mean.unsqueeze(-3), None if self.is_point else self.q_factor.tril().unsqueeze(-4)

    def condition(self, Z_b: Tensor) -> Conditional:
        """Condition on the inducing inputs and look at rows [..., T, B, D_in].

        The inducing inputs are the same for every Monte Carlo sample, so all T B rows are the columns of one product.
        """
        samples, rows = Z_b.shape[-3:-1]
        flat = Z_b.reshape(*Z_b.shape[:-3], 1, samples * rows, Z_b.shape[-1])
        noise = self.noise_variance
        nugget = None if noise is None else noise[..., None, None, None]
        Z = self.inducing_inputs.unsqueeze(-3)
        return condition(self.kernel, Z, flat, self.jitter, layer=self.index, nugget=nugget)

    def marginals(self, Z_b: Tensor, u: Tensor | None = None) -> Moments:
        """q(f) at rows [..., T, B, D_in]: mean(z) + A' m and V + |C_d' A|^2.

        Given u [..., T, M, D], one for each sample, p(f | u) instead: mean(z) + A' u and V.
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

    def totals(self, Z_b: Tensor) -> Moments:
        """Means of q(f) as in `marginals`, and variances summed over rows and averaged over samples, [..., 1, 1, D].

        What a Gaussian bound needs of the last layer, for less: no covariance of q meets the batch.
        """
        samples, rows = Z_b.shape[-3:-1]
        m, C = self.variational_parameters()
        if C is None:
            moments = self.marginals(Z_b)
            return Moments(moments.mean, moments.variance.sum(-2, keepdim=True))
        mean, total = self.condition(Z_b).totals_under(m, C)
        mean = mean.unflatten(-2, (samples, rows)).squeeze(-4)
        return Moments(self.mean(Z_b) + mean, total.unsqueeze(-2) / samples)

    def propagate(self, points: Points, draws: Draws, coupling: str) -> tuple[Points, Tensor]:
        """Draw f at every row, the next layer's inputs, and give KL(q(u) || N(0, I)).

        ``coupling="marginal"`` draws every row from its own marginal, which is exact for a sum over rows (Salimbeni &
        Deisenroth 2017, eq. 16); ``"joint"`` draws all rows of a sample together, for function draws.
        """
        return self.propagate_given(points, draws, coupling, None), self.kl()

    def propagate_given(self, points: Points, draws: Draws, coupling: str, u: Tensor | None) -> Points:
        """The same draw, every sample given its own u [..., T, M, D]; None stands for q(u)."""
        Z_b = points.rest
        noise = draws.rest(Z_b.shape[-2], self.q_mean.shape[-1])
        if coupling == "joint":
            mean, covariance = self.joint_moments(Z_b, u)
            root = draw_root(covariance, layer=self.index, what="Cov(F)")
            f = mean + (root @ noise.mT.unsqueeze(-1)).squeeze(-1).mT
        else:
            moments = self.marginals(Z_b, u)
            f = moments.mean + moments.variance.sqrt() * noise
        return Points(points.subset, f)

    def joint_moments(self, Z_b: Tensor, u: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Mean [..., T, B, D] and full covariance [..., T, D, B, B] of f (given u) at rows [..., T, B, D_in]."""
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

    def kl(self) -> Tensor:
        """KL(q(u) || N(0, I)) summed over outputs, [..., 1]; for a point, minus its log prior up to a constant."""
        m, C = self.variational_parameters()
        if C is None:
            return 0.5 * m.square().sum((-2, -1))
        return kl_to_standard_normal(Gaussian(m, C), log_diagonal(C).sum(-1))


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

    def __init__(self, layer: InducingLayer, Z: Tensor) -> None:
        self._layer, self._Z = layer, Z
        self._rows: Moments | None = None

    def rows(self) -> tuple[Tensor, Tensor]:
        """Means and variances, [..., T, N, D]."""
        if self._rows is None:
            self._rows = self._layer.marginals(self._Z)
        return self._rows

    def totals(self) -> tuple[Tensor, Tensor]:
        """Means, and variances summed over rows, [..., 1 or T, 1, D]."""
        if self._rows is not None:
            return self._rows.mean, self._rows.variance.sum(-2, keepdim=True)
        return self._layer.totals(self._Z)

    def over_sites(self) -> None:
        """These rows have no sites."""
        return
