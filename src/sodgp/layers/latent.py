"""Hidden layers of the mean-field deep GP: Z^l = F^l + noise, with a Gaussian q(Z^l) for every data point.

Here the layer noise is explicit and not in the kernel (Appendix A, Fig. 1a of the paper), and q(Z^l) does not depend on
the layer below: the bound is therefore closed, and the dependence between the layers is lost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import gpytorch
import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Tensor, nn

from sodgp.layers.contract import Points
from sodgp.layers.inducing import InducingLayer, Moments, Sampled
from sodgp.layers.prior import HiddenMean, correlated, register_floored
from sodgp.layers.psi import cross, psi1, psi2, rbf_of
from sodgp.linalg.cholesky import Jitter, factorise
from sodgp.linalg.draws import Draws

__all__ = ["LatentGaussian", "LatentLayer", "expected_squared_error"]

_LATENTS = ("mean", "raw_variance")


class LatentGaussian(gpytorch.Module):
    """q(Z) = prod_n prod_d N(mu_nd, s_nd): two trained numbers for every row and output.

    Predictions at new rows do not need it. A state dict therefore holds mu and s only in training mode, for a
    checkpoint. In evaluation mode it holds the number of rows, so that a model file does not grow with the data. A
    state dict may be loaded with any number of rows, or without mu and s.

    Parameters
    ----------
    mean : Tensor of shape [*replicates, N, D]
        Initial mu.
    variance : float
        Initial value of every s.
    """

    mean: nn.Parameter
    raw_variance: nn.Parameter
    n_rows: Tensor

    def __init__(self, mean: Float[Tensor, "*replicates N D"], variance: float) -> None:
        super().__init__()
        self.register_parameter("mean", nn.Parameter(mean.clone()))
        register_floored(self, "raw_variance", torch.full_like(mean, variance))
        self.register_buffer("n_rows", torch.tensor(mean.shape[-2]))

    @property
    def n_parameters(self) -> int:
        """How many numbers one replicate trained, also for a model that was loaded without them."""
        return 2 * int(self.n_rows) * self.mean.shape[-1]

    @property
    def moments(self) -> Moments:
        """Means and variances with the sample axis in place, [*replicates, 1, N, D]."""
        s: Tensor = self.raw_variance_constraint.transform(self.raw_variance)
        return Moments(self.mean.unsqueeze(-3), s.unsqueeze(-3))

    def entropy(self) -> Float[Tensor, "*replicates"]:
        """H[q(Z)] = sum_nd log(2 pi e s_nd) / 2."""
        s = self.moments.variance.squeeze(-3)
        return 0.5 * (math.log(2.0 * math.pi * math.e) + s.log()).sum((-2, -1))

    def _save_to_state_dict(self, destination: dict[str, Tensor], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if not self.training or not self.mean.numel():
            for name in _LATENTS:
                del destination[prefix + name]

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Tensor],
        prefix: str,
        metadata: Mapping[str, int],
        strict: bool,
        missing: list[str],
        *lists: list[str],
    ) -> None:
        for name in _LATENTS:
            stored, own = state_dict.get(prefix + name), getattr(self, name)
            if stored is not None and stored.shape != own.shape:
                setattr(self, name, nn.Parameter(own.new_empty(stored.shape), requires_grad=own.requires_grad))
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, *lists)
        missing[:] = [key for key in missing if key not in {prefix + name for name in _LATENTS}]


class LatentLayer(InducingLayer):
    """A hidden GP layer with inducing points and explicit noise, Z = F + N(0, sigma_l^2).

    Parameters
    ----------
    kernel, mean, inducing_inputs, width, factor_scale, jitter, index, replicates
        As in `InducingLayer`; the inducing inputs are trained, and the kernel contains no noise.
    latent_mean : Tensor of shape [*replicates, N, width]
        Initial means of q(Z).
    latent_variance : float
        Initial variances of q(Z).
    layer_noise_variance : float
        Initial sigma_l^2.
    """

    def __init__(
        self,
        kernel: Kernel,
        mean: HiddenMean,
        inducing_inputs: Float[Tensor, "*replicates M D_in"],
        *,
        width: int,
        latent_mean: Float[Tensor, "*replicates N D"],
        latent_variance: float,
        layer_noise_variance: float,
        factor_scale: float = 1e-2,
        jitter: Jitter | None = None,
        index: int = 1,
        replicates: torch.Size = torch.Size(),
    ) -> None:
        super().__init__(
            kernel,
            mean,
            inducing_inputs,
            width=width,
            nugget=None,
            factor_scale=factor_scale,
            jitter=jitter,
            index=index,
            replicates=replicates,
        )
        self.latent = LatentGaussian(latent_mean, latent_variance)
        noise = torch.full(replicates, layer_noise_variance, dtype=inducing_inputs.dtype)
        register_floored(self, "raw_layer_noise", noise)

    @property
    def n_parameters(self) -> int:
        """How many numbers one replicate trains, those of q(Z) included."""
        held = 2 * math.prod(self.latent.mean.shape[-2:])
        return super().n_parameters - held + self.latent.n_parameters

    @property
    def layer_noise_variance(self) -> Float[Tensor, "*replicates 1 1"]:
        """sigma_l^2."""
        noise: Tensor = self.raw_layer_noise_constraint.transform(self.raw_layer_noise)
        return noise[..., None, None]

    def propagate_given(self, points: Points, draws: Draws, coupling: str, u: Sampled | None) -> Points:
        """Draw Z = F + noise at new rows; q(Z) of the training rows is not used.

        ``coupling="marginal"`` draws every row from its own marginal, ``"joint"`` all rows of a sample jointly.
        """
        X, sigma2 = points.rest, self.layer_noise_variance
        noise = draws.rest(X.shape[-2], self.q_mean.shape[-1])
        if coupling == "joint":
            mean, full = self.joint_moments(X, u)
            full = full + sigma2[..., None, None] * torch.eye(full.shape[-1], dtype=full.dtype, device=full.device)
            z = mean + correlated(full, noise, layer=self.index, what="Cov(Z)")
        else:
            moments = self.marginals(X, u)
            z = moments.mean + (moments.variance + sigma2.unsqueeze(-1)).sqrt() * noise
        return Points(points.subset, z)


def expected_squared_error(
    layer: InducingLayer, inputs: Float[Tensor, "*batch 1 N D_in"] | Moments, target: Moments
) -> Float[Tensor, "*batch 1 D"]:
    """sum_n E (t_nd - f_d(z_n))^2 for independent t_n, z_n and f ~ q, which the expected log densities need.

    With f_d(z) = z W_d + k(z, Z) L^-T u_d + residual, u_d ~ N(m_d, C_d C_d'), e = E t - mu W, A = L^-1 psi1' and
    P = L^-1 psi2 L^-T (sums over rows)::

        sum_n [ Var t_nd + e_nd^2 + s_n W_d^2 - 2 e_nd A_n' m_d ]  +  2 m_d' L^-1 cross W_d
          +  m_d' P m_d  +  tr(C_d' P C_d)  +  N psi0 - tr P

    Parameters
    ----------
    layer : InducingLayer
    inputs : Tensor of shape [..., 1, N, D_in], or Moments of that shape
        Known inputs, or means and variances of uncertain ones.
    target : Moments of shape [..., 1, N, D]
        Means and variances of t.
    """
    if isinstance(inputs, Tensor):
        f = layer.marginals(inputs)
        return ((target.mean - f.mean).square() + f.variance + target.variance).sum(-2)
    dtype = inputs.mean.dtype
    # Always in double precision: the condition number of P is that of K, and for known inputs A has its square root.
    rbf = rbf_of(layer.kernel).to(torch.float64)
    mu, s, t, t_variance, Z, W = (
        x.double() for x in (*inputs, *target, layer.inducing_inputs.unsqueeze(-3), layer.mean.weight)
    )
    W = W.unsqueeze(-3) if W.dim() > 2 else W
    K, psi_1 = psi1(rbf, Z, torch.zeros_like(Z), Z), psi1(rbf, mu, s, Z)
    L_inv = factorise(K, layer.jitter, layer=layer.index).L_inv
    A, G = L_inv @ psi_1.mT, L_inv @ cross(rbf, mu, s, Z, psi_1) @ W
    P = L_inv @ psi2(rbf, mu, s, Z) @ L_inv.mT
    e = t - mu @ W
    m, C = layer.variational_parameters()
    m = m.double()
    mean_part = (t_variance + e.square() + s @ W.square() - 2.0 * e * (A.mT @ m)).sum(-2)
    mean_part = mean_part + (m * (2.0 * G + P @ m)).sum(-2)
    residual = mu.shape[-2] * (rbf.variance + layer.jitter.prior_extra) - P.diagonal(dim1=-2, dim2=-1).sum(-1)
    # Rounding can push the residual below zero where the inducing inputs explain every row.
    error = mean_part + residual.clamp_min(0.0).unsqueeze(-1)
    if C is not None:
        error = error + ((P.unsqueeze(-3) @ C.double()) * C.double()).sum((-2, -1))
    return error.to(dtype)
