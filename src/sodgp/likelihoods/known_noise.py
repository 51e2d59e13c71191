"""Gaussian noise with a known variance for every training row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from sodgp.likelihoods.contract import Likelihood, PerRow, RestInputs, RowLikelihood, Sites, Sizes, SubsetInputs
from sodgp.likelihoods.gaussian import GaussianLikelihood, GaussianOptions, GaussianRows, VaryingRows
from sodgp.likelihoods.heteroscedastic import LogNoise
from sodgp.linalg.draws import Draws

__all__ = ["KnownNoise", "KnownNoiseLikelihood"]


@dataclass(frozen=True, kw_only=True)
class KnownNoise(GaussianOptions):
    """Known noise variances, as given to ``fit(X, y, noise_variance=...)``.

    Parameters
    ----------
    outlier_probability : float or None
        As in `GaussianOptions`.
    variance : Tensor of shape [*replicates, P], optional
        Mean noise variance, which new rows have. None for both where a state is loaded later.
    precision : Tensor of shape [*replicates, M, P], optional
        The mean noise variance over that of every row of the subset.

    Examples
    --------
    >>> noise = KnownNoise(variance=torch.ones(1).double(), precision=torch.ones(5, 1).double())
    >>> noise.build(Sizes(subset=5, input_dim=2, n_outputs=1)).n_parameters
    0
    """

    variance: Float[Tensor, "*replicates P"] | None = None
    precision: Float[Tensor, "*replicates M P"] | None = None

    name: ClassVar[str] = "known_noise"
    is_plain: ClassVar[bool] = False
    uses_subset: ClassVar[bool] = True

    def with_noise(self, variance: Float[Tensor, " P"], precision: Float[Tensor, "M P"]) -> KnownNoise:
        """The same with the noise of one data set."""
        return self.set_params(variance=variance, precision=precision)

    def build(self, sizes: Sizes) -> Likelihood:
        """The module, in which nothing is trained."""
        outputs = (*sizes.replicates, sizes.n_outputs)
        rows = (*sizes.replicates, sizes.subset, sizes.n_outputs)
        variance = torch.ones(outputs) if self.variance is None else self.variance.expand(outputs)
        precision = torch.ones(rows) if self.precision is None else self.precision.expand(rows)
        return self._module(variance.to(sizes.dtype), precision.to(sizes.dtype).clone())

    def _module(
        self, variance: Float[Tensor, "*replicates P"], precision: Float[Tensor, "*replicates M P"]
    ) -> KnownNoiseLikelihood:
        return KnownNoiseLikelihood(variance, precision)


class KnownNoiseLikelihood(GaussianLikelihood):
    """The module of known noise: y_n = f_n + noise, noise ~ N(0, sigma^2 / precision_n), with nothing to train.

    Parameters
    ----------
    variance : Tensor of shape [*replicates, P]
        sigma^2.
    precision : Tensor of shape [*replicates, M, P]
        Of the rows of the subset.
    """

    subset_precision: Tensor

    def __init__(self, variance: Float[Tensor, "*replicates P"], precision: Float[Tensor, "*replicates M P"]) -> None:
        super().__init__(variance.shape[-1], variance, dtype=variance.dtype, replicates=torch.Size(variance.shape[:-1]))
        self.raw_noise.requires_grad_(False)
        self.register_buffer("subset_precision", precision)

    @property
    def n_parameters(self) -> int:
        """Nothing is trained."""
        return 0

    def at(
        self, X_s: SubsetInputs, X: RestInputs, draws: Draws, precision: PerRow | None = None
    ) -> tuple[RowLikelihood, RowLikelihood]:
        """The known noise of every row; without `precision` the mean noise for the other rows."""
        sigma2 = self.noise_variance[..., None, :]
        subset = KnownNoiseRows(sigma2, self.subset_precision.unsqueeze(-3))
        return subset, GaussianRows(self) if precision is None else KnownNoiseRows(sigma2, precision)


class KnownNoiseRows(VaryingRows):
    """Noise variances sigma^2 / precision_n at given rows."""

    def __init__(self, sigma2: Float[Tensor, "*#batch 1 1 P"], precision: PerRow) -> None:
        super().__init__(sigma2, LogNoise(-precision.log(), torch.zeros_like(precision)))
        self.precision = precision

    def noise_variance(self, *, drawn: bool) -> Float[Tensor, "*batch 1 N P"]:
        """The known variances."""
        return self.sigma2 * self.g.mean.exp()

    def sites(self, y: Float[Tensor, "*#batch 1 M P"]) -> Sites:
        """The labels with their known noise variances."""
        return self.sites_with(y, self.sigma2 / self.precision)
