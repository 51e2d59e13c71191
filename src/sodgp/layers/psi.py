"""Psi statistics: expectations of an RBF kernel under uncertain inputs, in closed form.

For z_n ~ N(mu_n, diag(s_n)) and inducing inputs Z_1 .. Z_M, the mean-field deep GP needs::

    psi0 = E k(z_n, z_n)     psi1_nm = E k(z_n, Z_m)     psi2_mm' = sum_n E k(Z_m, z_n) k(z_n, Z_m')

and, because its hidden layers have linear means, the covariance between an input and the kernel::

    cross_mq = sum_n E (z_nq - mu_nq) k(z_n, Z_m)

A product of Gaussians in each input column makes all of them closed for the RBF kernel, and only for few others.

References
----------
M. Titsias and N. Lawrence. Bayesian Gaussian process latent variable model. AISTATS 2010 (psi0, psi1, psi2).
A. Damianou and N. Lawrence. Deep Gaussian processes. AISTATS 2013.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from gpytorch.kernels import Kernel, RBFKernel, ScaleKernel
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sodgp.errors import ConfigurationError

# Numbers in one chunk of rows by pairs of inducing inputs: 32 MB in float64.
_CHUNK_ELEMENTS = 2**22


class RBF(NamedTuple):
    """k(z, z') = variance exp(-sum_q (z_q - z'_q)^2 / (2 lengthscale_q^2)).

    Attributes
    ----------
    variance : Tensor of shape [...]
    lengthscale : Tensor of shape [..., 1, Q], or [..., 1, 1] for one in all columns
    """

    variance: Float[Tensor, "*batch"]
    lengthscale: Float[Tensor, "*batch 1 #Q"]

    def to(self, dtype: torch.dtype) -> RBF:
        """The same parameters in another precision."""
        return RBF(self.variance.to(dtype), self.lengthscale.to(dtype))


def rbf_of(kernel: Kernel) -> RBF:
    """Parameters of a GPyTorch RBF kernel, scaled or not.

    Raises
    ------
    ConfigurationError
        For any other kernel: its psi statistics are not closed.
    """
    parts = [kernel, kernel.base_kernel] if type(kernel) is ScaleKernel else [kernel]
    base = parts[-1]
    if type(base) is not RBFKernel:
        raise ConfigurationError(
            f"inference='mean_field' needs the RBF kernel, not {type(base).__name__}: its psi statistics are closed for"
            " RBF only. Use kernel='rbf' or 'rbf-iso', or a function that returns ScaleKernel(RBFKernel(...)); other"
            " kernels work with inference='sod' or 'dsvi'."
        )
    if any(part.active_dims is not None for part in parts):
        raise ConfigurationError("inference='mean_field' needs an RBF kernel over all columns: leave active_dims out.")
    lengthscale: Tensor = base.lengthscale
    variance = kernel.outputscale if len(parts) == 2 else lengthscale.new_ones(lengthscale.shape[:-2])
    return RBF(variance, lengthscale)


def psi1(
    rbf: RBF, mu: Float[Tensor, "*batch N Q"], s: Float[Tensor, "*batch N Q"], Z: Float[Tensor, "*batch2 M Q"]
) -> Float[Tensor, "*batch N M"]:
    """E k(z_n, Z_m): an RBF that is wider, and lower by the factor that keeps its integral.

    ::

        variance prod_q (1 + s_nq/l_q^2)^(-1/2) exp(-(mu_nq - Z_mq)^2 / (2 (l_q^2 + s_nq)))

    Parameters
    ----------
    rbf : RBF
    mu, s : Tensor of shape [..., N, Q]
        Means and variances of the inputs, with every leading axis of `rbf`. Zero variances give k(mu, Z).
    Z : Tensor of shape [..., M, Q]
    """
    square = rbf.lengthscale.square()
    log_height = rbf.variance.log()[..., None] - 0.5 * torch.log1p(s / square).sum(-1)
    return _log_bumps(log_height, 1.0 / (square + s), mu, Z).exp()


def psi2(
    rbf: RBF, mu: Float[Tensor, "*batch N Q"], s: Float[Tensor, "*batch N Q"], Z: Float[Tensor, "*batch2 M Q"]
) -> Float[Tensor, "*batch M M"]:
    """Sum over rows of E k(Z_m, z_n) k(z_n, Z_m').

    With Zbar = (Z_m + Z_m') / 2::

        variance^2 prod_q exp(-(Z_mq - Z_m'q)^2 / (4 l_q^2))
          sum_n prod_q (1 + 2 s_nq/l_q^2)^(-1/2) exp(-(mu_nq - Zbar_q)^2 / (l_q^2 + 2 s_nq))

    Only pairs m <= m' are evaluated, in chunks of rows. Where there is more than one, chunks are recomputed in the
    backward pass, so that N x M x M numbers are never in memory at once.

    Parameters
    ----------
    rbf, mu, s, Z
        As for `psi1`.
    """
    size = Z.shape[-2]
    i, j = torch.triu_indices(size, size, device=Z.device)
    Z_i, Z_j = Z[..., i, :], Z[..., j, :]
    square, centres = rbf.lengthscale.square(), 0.5 * (Z_i + Z_j)
    precision = 2.0 / (square + 2.0 * s)
    log_height = 2.0 * rbf.variance.log()[..., None] - 0.5 * torch.log1p(2.0 * s / square).sum(-1)
    rows = max(1, _CHUNK_ELEMENTS // (len(i) * mu[..., 0, 0].numel()))
    if rows >= mu.shape[-2]:
        total = _summed_bumps(log_height, precision, mu, centres)
    else:
        chunks = zip(log_height.split(rows, -1), precision.split(rows, -2), mu.split(rows, -2), strict=True)
        sums = [
            checkpoint(_summed_bumps, *chunk, centres, use_reentrant=False, preserve_rng_state=False)
            for chunk in chunks
        ]
        total = torch.stack(sums).sum(0)
    values = total * (-0.25 * ((Z_i - Z_j) / rbf.lengthscale).square().sum(-1)).exp()
    result = values.new_zeros(*values.shape[:-1], size, size)
    result[..., i, j] = values
    result[..., j, i] = values
    return result


def cross(
    rbf: RBF,
    mu: Float[Tensor, "*batch N Q"],
    s: Float[Tensor, "*batch N Q"],
    Z: Float[Tensor, "*batch2 M Q"],
    psi1: Float[Tensor, "*batch N M"],
) -> Float[Tensor, "*batch M Q"]:
    """Sum over rows of E (z_nq - mu_nq) k(z_n, Z_m): the kernel pulls z_n from mu_n towards Z_m.

    The product of N(z; mu_n, s_n) and the kernel's bump at Z_m is a Gaussian around mu_n + r_n (Z_m - mu_n) with
    r_nq = s_nq / (l_q^2 + s_nq), so that::

        cross_mq = sum_n psi1_nm r_nq (Z_mq - mu_nq)

    Zero where the inputs are certain.

    Parameters
    ----------
    rbf, mu, s, Z
        As for `psi1`.
    psi1 : Tensor of shape [..., N, M]
    """
    pull = s / (rbf.lengthscale.square() + s)
    return (psi1.mT @ pull) * Z - psi1.mT @ (pull * mu)


def _log_bumps(
    log_height: Float[Tensor, "*batch N"],
    precision: Float[Tensor, "*batch N Q"],
    mu: Float[Tensor, "*batch N Q"],
    points: Float[Tensor, "*#batch J Q"],
) -> Float[Tensor, "*batch N J"]:
    """log_height_n - sum_q precision_nq (mu_nq - points_jq)^2 / 2, in one matrix product.

    Everything is shifted by the mean of the points first: far from the origin the difference of squares loses digits.
    """
    shift = points.detach().mean(-2, keepdim=True)
    a, b = mu - shift, points - shift
    constant = log_height - 0.5 * (precision * a.square()).sum(-1)
    left = torch.cat([precision * a, -0.5 * precision, constant.unsqueeze(-1)], -1)
    right = torch.cat([b, b.square(), torch.ones_like(b[..., :1])], -1)
    return left @ right.mT


def _summed_bumps(
    log_height: Float[Tensor, "*batch N"],
    precision: Float[Tensor, "*batch N Q"],
    mu: Float[Tensor, "*batch N Q"],
    points: Float[Tensor, "*#batch J Q"],
) -> Float[Tensor, "*batch J"]:
    return _log_bumps(log_height, precision, mu, points).exp().sum(-2)
