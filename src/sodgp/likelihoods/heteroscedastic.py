"""Gaussian noise with a variance that varies over the inputs: its log is a GP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import gpytorch
import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Tensor, nn

from sodgp.kernels.make import make_kernel
from sodgp.layers.families import Gaussian as Normal
from sodgp.layers.families import half_log_det, kl_to_standard_normal, trained_numbers
from sodgp.layers.prior import condition
from sodgp.likelihoods.contract import Likelihood, PerRow, RestInputs, RowLikelihood, Sizes, SubsetInputs
from sodgp.likelihoods.gaussian import GaussianLikelihood, GaussianOptions, VaryingRows
from sodgp.likelihoods.rows import RowWeight
from sodgp.linalg.cholesky import Jitter
from sodgp.linalg.draws import Draws
from sodgp.linalg.products import OutputVariances

__all__ = ["Heteroscedastic", "HeteroscedasticLikelihood", "LogNoise", "NoiseProcess"]

# Initial variance of g: the noise varies by about a third of itself until the data require more.
START_VARIANCE = 0.1


@dataclass(frozen=True, kw_only=True)
class Heteroscedastic(GaussianOptions):
    """Gaussian noise that varies smoothly: y_n ~ N(f_n, sigma^2 exp(g_n)) with g a GP over the inputs.

    The variational distribution has another factor q(G_S), and the bound one more term, ``kl_noise``. Given q(G_S) the
    optimal label-informed q_hat is closed: the precision of label n is the expected one, E[exp(-g_n)] / sigma^2.

    Parameters
    ----------
    outlier_probability : float or None
        As in `GaussianOptions`.

    Examples
    --------
    >>> likelihood = Heteroscedastic().build(Sizes(subset=5, input_dim=2, n_outputs=1))
    >>> likelihood.varies, likelihood.kl().item()
    (True, 0.0)
    """

    name: ClassVar[str] = "heteroscedastic"
    is_plain: ClassVar[bool] = False
    uses_subset: ClassVar[bool] = True

    def build(self, sizes: Sizes) -> Likelihood:
        """The module with its initial parameters, whose noise hardly varies."""
        kernel = make_kernel(
            "rbf",
            sizes.input_dim,
            variance=START_VARIANCE,
            lengthscale=sizes.lengthscale,
            dtype=sizes.dtype,
            replicates=sizes.replicates,
        )
        process = NoiseProcess(
            kernel,
            size=sizes.subset,
            n_outputs=sizes.n_outputs,
            jitter=sizes.jitter,
            dtype=sizes.dtype,
            replicates=sizes.replicates,
        )
        return HeteroscedasticLikelihood(process, sizes.noise_variance)


class LogNoise(NamedTuple):
    """Marginal means and variances of g at N rows, where the noise variance is sigma^2 exp(g).

    Examples
    --------
    >>> LogNoise(torch.zeros(1, 3, 1), torch.zeros(1, 3, 1)).precision.flatten()
    tensor([1., 1., 1.])
    """

    mean: Float[Tensor, "*batch 1 N P"]
    variance: Float[Tensor, "*batch 1 N P"]

    @property
    def precision(self) -> Float[Tensor, "*batch 1 N P"]:
        """E exp(-g): the expected precision of an observation, relative to 1 / sigma^2."""
        return (0.5 * self.variance - self.mean).exp()

    def draw(self, normal: Float[Tensor, "*#batch T #N P"]) -> Float[Tensor, "*batch T N P"]:
        """exp(g) for draws of g from standard normal numbers."""
        return (self.mean + self.variance.clamp_min(0.0).sqrt() * normal).exp()


class NoiseProcess(gpytorch.Module):
    """The GP of the log noise, g ~ GP(0, k_g), with a whitened Gaussian q(G_S) over the rows of the subset.

    Its inputs are X and not a hidden layer, so that it has no Monte Carlo axis and costs little compared with a layer.

    Parameters
    ----------
    kernel : gpytorch.kernels.Kernel
        k_g.
    size : int
        Rows M of the subset.
    n_outputs : int
        Columns P of y; each has its own g with the same kernel.
    jitter : Jitter
    dtype : torch.dtype
    replicates : torch.Size

    Examples
    --------
    >>> from sodgp.kernels.make import make_kernel
    >>> noise = NoiseProcess(make_kernel("rbf", 1), size=4, n_outputs=1, jitter=Jitter(), dtype=torch.float64)
    >>> X = torch.linspace(-1, 1, 10, dtype=torch.float64)[None, :, None]
    >>> at_subset, at_rest = noise.at(X[:, :4], X[:, 4:])
    >>> at_subset.mean.shape, at_rest.variance.shape, noise.kl().item()
    (torch.Size([1, 4, 1]), torch.Size([1, 6, 1]), 0.0)
    """

    q_mean: nn.Parameter
    q_factor: nn.Parameter

    def __init__(
        self,
        kernel: Kernel,
        *,
        size: int,
        n_outputs: int,
        jitter: Jitter,
        dtype: torch.dtype,
        replicates: torch.Size = torch.Size(),
    ) -> None:
        super().__init__()
        self.kernel = kernel
        self.jitter = jitter
        self.register_parameter("q_mean", nn.Parameter(torch.zeros(*replicates, size, n_outputs, dtype=dtype)))
        factor = torch.eye(size, dtype=dtype).expand(*replicates, n_outputs, size, size)
        self.register_parameter("q_factor", nn.Parameter(factor.clone()))

    @property
    def n_parameters(self) -> int:
        """How many numbers one replicate trains; of a covariance factor only the lower triangle counts."""
        return trained_numbers(self)

    @property
    def kernels(self) -> list[Kernel]:
        """The kernel k_g."""
        return [self.kernel]

    def at(self, X_s: SubsetInputs, X_b: RestInputs) -> tuple[LogNoise, LogNoise]:
        """Marginals of g at the subset's rows and at other rows."""
        cond = condition(self.kernel, X_s, X_b, self.jitter, what="K_SS of the noise process")
        m, C = self._q()
        image = cond.factor.over_outputs().times(C)
        subset = LogNoise(cond.factor.times(m), image.square().sum(-1).mT)
        rest = LogNoise(cond.A.mT @ m, cond.V.unsqueeze(-1) + OutputVariances.apply(cond.A, C))
        return subset, rest

    def kl(self) -> Float[Tensor, "*replicates 1"]:
        """KL(q(G_S) || p(G_S)), summed over outputs."""
        m, C = self._q()
        return kl_to_standard_normal(Normal(m, C), half_log_det(C).sum(-1))

    def _q(self) -> tuple[Float[Tensor, "*replicates 1 M P"], Float[Tensor, "*replicates 1 P M M"]]:
        """Mean and lower-triangular factor of q(G_S), with the sample axis in place."""
        return self.q_mean.unsqueeze(-3), self.q_factor.tril().unsqueeze(-4)


class HeteroscedasticLikelihood(GaussianLikelihood):
    """The module of heteroscedastic noise: sigma^2 and the process of g.

    Parameters
    ----------
    process : NoiseProcess
        Of g.
    noise_variance : float
        Initial sigma^2.
    """

    # The noise depends on the row, and g is uncertain.
    varies: ClassVar[bool] = True

    def __init__(self, process: NoiseProcess, noise_variance: float) -> None:
        *replicates, _, n_outputs = process.q_mean.shape
        dtype = process.q_mean.dtype
        super().__init__(n_outputs, noise_variance, dtype=dtype, replicates=torch.Size(replicates))
        self.process = process

    @property
    def n_parameters(self) -> int:
        """Those of sigma^2, k_g and q(G_S)."""
        return super().n_parameters + self.process.n_parameters

    @property
    def kernels(self) -> list[Kernel]:
        """The kernel k_g."""
        return self.process.kernels

    def at(
        self, X_s: SubsetInputs, X: RestInputs, draws: Draws, precision: PerRow | None = None
    ) -> tuple[RowLikelihood, RowLikelihood]:
        """The noise given the marginals of g at these rows."""
        sigma2 = self.noise_variance[..., None, :]
        subset, rest = self.process.at(X_s, X)
        return LogNoiseRows(sigma2, subset, draws), LogNoiseRows(sigma2, rest, draws)

    def kl(self, weight: RowWeight | None = None) -> Float[Tensor, "*replicates 1"]:
        """KL(q(G_S) || p(G_S)), of one process for all observations."""
        return self.process.kl()


class LogNoiseRows(VaryingRows):
    """Noise variances sigma^2 exp(g_n) with Gaussian marginals of g_n, which is drawn for predictive densities."""

    g: LogNoise

    def __init__(self, sigma2: Float[Tensor, "*batch 1 1 P"], g: LogNoise, draws: Draws) -> None:
        super().__init__(sigma2, g)
        self.draws = draws

    def noise_variance(self, *, drawn: bool) -> Float[Tensor, "*batch T N P"]:
        """The variance at a draw of g for every sample, in either case."""
        rows, outputs = self.g.mean.shape[-2:]
        return self.sigma2 * self.g.draw(self.draws.rest(rows, outputs))
