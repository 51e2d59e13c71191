"""Gaussian noise whose log variance is a GP over the inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import gpytorch
import torch
from gpytorch.kernels import Kernel
from torch import Tensor, nn

from sodgp.kernels.make import make_kernel
from sodgp.layers.families import Gaussian as Normal
from sodgp.layers.families import kl_to_standard_normal, trained_numbers
from sodgp.layers.prior import condition
from sodgp.likelihoods.contract import Likelihood, Marginals, RowLikelihood, Sites, Sizes
from sodgp.likelihoods.gaussian import GaussianLikelihood, GaussianOptions, NoiseRows, varying_log_density
from sodgp.linalg.cholesky import Jitter, log_diagonal
from sodgp.linalg.draws import Draws
from sodgp.linalg.products import OutputVariances

__all__ = ["Heteroscedastic", "HeteroscedasticLikelihood", "LogNoise", "NoiseProcess"]

# The first variance of g: noise that varies by a third of itself, until the data ask for more.
START_VARIANCE = 0.1


@dataclass(frozen=True, kw_only=True)
class Heteroscedastic(GaussianOptions):
    """y_n ~ N(f_n, sigma^2 exp(g_n)) with g a GP over the inputs.

    The bound gets q(G_S) beside the other q and one more term, ``kl_noise``. Given q(G_S) the best label-informed q_hat
    is again closed: it takes y_n in with the expected precision E[exp(-g_n)] / sigma^2.

    Parameters
    ----------
    outlier_probability : float or None
        As of `Gaussian`.

    Examples
    --------
    >>> likelihood = Heteroscedastic().build(Sizes(subset=5, input_dim=2, n_outputs=1))
    >>> likelihood.varies, likelihood.kl().item()
    (True, 0.0)
    """

    name: ClassVar[str] = "heteroscedastic"
    is_plain: ClassVar[bool] = False

    def build(self, sizes: Sizes) -> Likelihood:
        """The module at its initial values: a noise that hardly varies."""
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
    """Marginals of g at some rows, [..., 1, N, P] each; the noise variance there is sigma^2 exp(g).

    Examples
    --------
    >>> LogNoise(torch.zeros(1, 3, 1), torch.zeros(1, 3, 1)).precision.flatten()
    tensor([1., 1., 1.])
    """

    mean: Tensor
    variance: Tensor

    @property
    def precision(self) -> Tensor:
        """E exp(-g): the expected precision of an observation, relative to 1 / sigma^2."""
        return (0.5 * self.variance - self.mean).exp()

    def draw(self, normal: Tensor | float) -> Tensor:
        """exp(g) for draws of g from standard normal numbers that broadcast to [..., T, N, P]."""
        return (self.mean + self.variance.clamp_min(0.0).sqrt() * normal).exp()


class NoiseProcess(gpytorch.Module):
    """g ~ GP(0, k_g) over the *inputs*, with a Gaussian q(G_S) over the rows of the subset, in whitened form.

    It looks at X itself and not at a hidden layer, so it has no Monte Carlo axis and costs next to nothing beside the
    layers. Where g = 0 the noise is the likelihood's.

    Parameters
    ----------
    kernel : gpytorch.kernels.Kernel
        k_g.
    size : int
        Rows M of the subset.
    n_outputs : int
        Targets P; each has its own g under the same kernel.
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
        """Trained numbers of one replicate; of a covariance factor only the lower triangle counts."""
        return trained_numbers(self)

    @property
    def kernels(self) -> list[Kernel]:
        """Whose parameters are trained."""
        return [self.kernel]

    def at(self, X_s: Tensor, X_b: Tensor) -> tuple[LogNoise, LogNoise]:
        """Marginals of g at the subset's rows and at other rows.

        Parameters
        ----------
        X_s, X_b : Tensor of shape [..., 1, M, D] and [..., 1, B, D]
        """
        cond = condition(self.kernel, X_s, X_b, self.jitter, what="K_SS of the noise process")
        m, C = self._q()
        image = cond.factor.over_outputs().times(C)
        subset = LogNoise(cond.factor.times(m), image.square().sum(-1).mT)
        rest = LogNoise(cond.A.mT @ m, cond.V.unsqueeze(-1) + OutputVariances.apply(cond.A, C))
        return subset, rest

    def kl(self) -> Tensor:
        """KL(q(G_S) || p(G_S)), summed over outputs, [..., 1]."""
        m, C = self._q()
        return kl_to_standard_normal(Normal(m, C), log_diagonal(C).sum(-1))

    def _q(self) -> tuple[Tensor, Tensor]:
        """Mean [..., 1, M, P] and lower-triangular factor [..., 1, P, M, M], with the sample axis in place."""
        return self.q_mean.unsqueeze(-3), self.q_factor.tril().unsqueeze(-4)


class HeteroscedasticLikelihood(GaussianLikelihood):
    """Gaussian noise with variance sigma^2 exp(g_n).

    Parameters
    ----------
    process : NoiseProcess
        Of g.
    noise_variance : float
        Start of sigma^2.
    """

    def __init__(self, process: NoiseProcess, noise_variance: float) -> None:
        *replicates, _, n_outputs = process.q_mean.shape
        dtype = process.q_mean.dtype
        super().__init__(n_outputs, noise_variance, dtype=dtype, replicates=torch.Size(replicates))
        self.process = process

    @property
    def n_parameters(self) -> int:
        """sigma^2, k_g and q(G_S)."""
        return super().n_parameters + self.process.n_parameters

    @property
    def kernels(self) -> list[Kernel]:
        """k_g."""
        return [self.process.kernel]

    @property
    def varies(self) -> bool:
        """G is uncertain."""
        return True

    def at(
        self, X_s: Tensor, X: Tensor, draws: Draws, precision: Tensor | None = None
    ) -> tuple[RowLikelihood, RowLikelihood]:
        """With the marginals of g at these rows."""
        sigma2 = self.noise_variance[..., None, :]
        subset, rest = self.process.at(X_s, X)
        return LogNoiseRows(sigma2, subset, draws), LogNoiseRows(sigma2, rest, draws)

    def kl(self) -> Tensor:
        """KL(q(G_S) || p(G_S))."""
        return self.process.kl()

    def continues(self, old: Likelihood) -> bool:
        """Never: q(G_S) belongs to the rows of one fit."""
        return False


class LogNoiseRows(NoiseRows):
    """Noise variances sigma2 exp(g_n) with Gaussian marginals of g_n; g is drawn for predictive densities."""

    def __init__(self, sigma2: Tensor, g: LogNoise, draws: Draws) -> None:
        self.sigma2, self.g, self.draws = sigma2, g, draws

    def noise_variance(self, *, drawn: bool) -> Tensor:
        """With a draw of g in either case."""
        rows, outputs = self.g.mean.shape[-2:]
        return self.sigma2 * self.g.draw(self.draws.rest(rows, outputs))

    def expected_log_density(self, y: Tensor, f: Marginals) -> Tensor:
        """As of `RowLikelihood`."""
        return varying_log_density(y, f, self.g.mean, self.g.precision, self.sigma2)

    def sites(self, y: Tensor) -> Sites:
        """v_n = sigma^2 / E[exp(-g_n)]."""
        return Sites(y, self.sigma2 / self.g.precision)
