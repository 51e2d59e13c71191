"""Gaussian noise whose variance is known for every training row, and not trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from sodgp.likelihoods.contract import Likelihood, Marginals, RowLikelihood, Sites, Sizes
from sodgp.likelihoods.gaussian import (
    GaussianLikelihood,
    GaussianOptions,
    GaussianRows,
    NoiseRows,
    varying_log_density,
)
from sodgp.linalg.draws import Draws

__all__ = ["KnownNoise", "KnownNoiseLikelihood"]


@dataclass(frozen=True, kw_only=True)
class KnownNoise(GaussianOptions):
    """Noise variances that were measured: ``fit(X, y, noise_variance=...)`` makes one.

    Parameters
    ----------
    outlier_probability : float or None
        As of `GaussianOptions`.
    variance : Tensor of shape [*replicates, P], optional
        Mean noise variance, which a new row has; None leaves both to a state that is loaded.
    precision : Tensor of shape [*replicates, M, P], optional
        That mean over the variance of every row of the subset.

    Examples
    --------
    >>> noise = KnownNoise(variance=torch.ones(1).double(), precision=torch.ones(5, 1).double())
    >>> noise.build(Sizes(subset=5, input_dim=2, n_outputs=1)).n_parameters
    0
    """

    variance: Tensor | None = None
    precision: Tensor | None = None

    name: ClassVar[str] = "known_noise"
    is_plain: ClassVar[bool] = False

    def build(self, sizes: Sizes) -> Likelihood:
        """The module, complete from the beginning."""
        outputs = (*sizes.replicates, sizes.n_outputs)
        rows = (*sizes.replicates, sizes.subset, sizes.n_outputs)
        variance = torch.ones(outputs) if self.variance is None else self.variance.expand(outputs)
        precision = torch.ones(rows) if self.precision is None else self.precision.expand(rows)
        return KnownNoiseLikelihood(variance.to(sizes.dtype), precision.to(sizes.dtype).clone())


class KnownNoiseLikelihood(GaussianLikelihood):
    """y_n = f_n + noise, noise ~ N(0, sigma^2 / precision_n), with both known.

    Parameters
    ----------
    variance : Tensor of shape [*replicates, P]
        sigma^2.
    precision : Tensor of shape [*replicates, M, P]
        Of the rows of the subset.
    """

    subset_precision: Tensor

    def __init__(self, variance: Tensor, precision: Tensor) -> None:
        super().__init__(variance.shape[-1], variance, dtype=variance.dtype, replicates=torch.Size(variance.shape[:-1]))
        self.raw_noise.requires_grad_(False)
        self.register_buffer("subset_precision", precision)

    @property
    def n_parameters(self) -> int:
        """Nothing is trained."""
        return 0

    def at(
        self, X_s: Tensor, X: Tensor, draws: Draws, precision: Tensor | None = None
    ) -> tuple[RowLikelihood, RowLikelihood]:
        """Each row's own noise; the mean noise where the rows are new."""
        sigma2 = self.noise_variance[..., None, :]
        subset = KnownNoiseRows(sigma2, self.subset_precision.unsqueeze(-3))
        return subset, GaussianRows(self) if precision is None else KnownNoiseRows(sigma2, precision)


class KnownNoiseRows(NoiseRows):
    """Noise variances sigma2 / precision_n, sigma2 [..., 1, 1, P] and precision [..., 1, N, P]."""

    def __init__(self, sigma2: Tensor, precision: Tensor) -> None:
        self.sigma2, self.precision = sigma2, precision
        # Log variance relative to sigma2.
        self.g = -precision.log()

    def noise_variance(self, *, drawn: bool) -> Tensor:
        """The known ones."""
        return self.sigma2 * self.g.exp()

    def expected_log_density(self, y: Tensor, f: Marginals) -> Tensor:
        """As of `RowLikelihood`."""
        return varying_log_density(y, f, self.g, (-self.g).exp(), self.sigma2)

    def sites(self, y: Tensor) -> Sites:
        """v_n is the known variance."""
        return Sites(y, self.sigma2 / self.precision)
