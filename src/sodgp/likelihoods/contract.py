"""What a likelihood is: an object of options, the module that owns its parameters, and p(y | f) at some rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from sodgp.linalg.cholesky import Jitter
from sodgp.linalg.draws import Draws

__all__ = ["Likelihood", "LikelihoodOptions", "Marginals", "RowLikelihood", "Sites", "Sizes"]


class Sites(NamedTuple):
    """Gaussian sites N(label_n; f_n, variance_n) through which q_hat takes the subset's labels in.

    Attributes
    ----------
    label : Tensor of shape [..., 1, M, P]
    variance : Tensor of shape [..., 1, 1 or M, P]
        Paper: v; one for all rows, or one for each.

    Examples
    --------
    >>> Sites(torch.zeros(1, 5, 1), torch.ones(1, 1, 1)).variance.shape
    torch.Size([1, 1, 1])
    """

    label: Tensor
    variance: Tensor


@runtime_checkable
class Marginals(Protocol):
    """Gaussian marginals of f at some rows, for each Monte Carlo sample. Only what is asked for is computed."""

    def rows(self) -> tuple[Tensor, Tensor]:
        """Means and variances, [..., T, N, P]."""
        ...

    def totals(self) -> tuple[Tensor, Tensor]:
        """Means, and variances summed over rows, [..., 1 or T, 1, P]: less work than the rows themselves."""
        ...

    def over_sites(self) -> tuple[Tensor, Tensor] | None:
        """Means, and variances over those of the sites, summed over rows; None for rows without sites."""
        ...


@runtime_checkable
class RowLikelihood(Protocol):
    """p(y_n | f_n) at some rows: the likelihood with everything in place that depends on the rows.

    Sums are over rows and outputs, and averaged over the Monte Carlo samples, [*replicates].
    """

    def log_density(self, y: Tensor, f: Tensor) -> Tensor:
        """Log p(y | f) at given function values, elementwise, [..., T, N, P]."""
        ...

    def expected_log_density(self, y: Tensor, f: Marginals) -> Tensor:
        """Sum of E log p(y_n | f_n)."""
        ...

    def log_predictive_density(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Log E p(y_n | f_n) for f_n ~ N(mean, variance), elementwise, [..., T, N, P]."""
        ...

    def objective(self, y: Tensor, f: Marginals, predictive_weight: float = 0.0) -> Tensor:
        """What the rows contribute to the objective.

        With gamma the weight::

            sum_n  (1 - gamma) E[log p(y_n | f_n)]  +  gamma log 1/T sum_t E_t[p(y_n | f_n)]

        0 gives a term of a lower bound; 1 the log predictive density, which is what is scored, and no bound.
        """
        ...

    def sites(self, y: Tensor) -> Sites:
        """The sites of the labels y."""
        ...

    def predictive(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances of y [..., C, N, P] from those of f [..., T, N, P]; equally likely components, C >= T."""
        ...

    def noise_variance(self, *, drawn: bool) -> Tensor:
        """Variance of y given f, [..., 1 or T, 1 or N, P]; `drawn` for observations that are drawn themselves."""
        ...


@runtime_checkable
class Likelihood(Protocol):
    """A module that owns the parameters of p(y | f)."""

    n_outputs: int

    @property
    def noise_variance(self) -> Tensor:
        """Typical variance of y given f, [*replicates, 1, P], in scaled units."""
        ...

    @property
    def mean_noise_variance(self) -> Tensor:
        """Its mean over rows, where that is something else, [*replicates, 1, P]."""
        ...

    @property
    def n_parameters(self) -> int:
        """Trained numbers of one replicate."""
        ...

    @property
    def n_levels(self) -> int:
        """Components of y for each Monte Carlo sample of f."""
        ...

    @property
    def kernels(self) -> list[Kernel]:
        """Kernels of its own."""
        ...

    @property
    def varies(self) -> bool:
        """Whether the noise of a new row depends on the row or on chance."""
        ...

    def at(
        self, X_s: Tensor, X: Tensor, draws: Draws, precision: Tensor | None = None
    ) -> tuple[RowLikelihood, RowLikelihood]:
        """The likelihood at the subset's rows and at other rows.

        Parameters
        ----------
        X_s, X : Tensor of shape [..., 1, M, D] and [..., 1, N, D]
        draws : Draws
            Asked only where a density needs it.
        precision : Tensor of shape [..., 1, N, P], optional
            Relative precisions of the other rows, where their noise is known.
        """
        ...

    def kl(self) -> Tensor | None:
        """KL(q || p) of what it has a q over, [*replicates, 1]; None where it has none."""
        ...

    def continues(self, old: Likelihood) -> bool:
        """Whether training can go on where `old` ended, with the same parameters."""
        ...


@dataclass(frozen=True)
class Sizes:
    """What a likelihood must know of the model that it is part of.

    Examples
    --------
    >>> Sizes(subset=5, input_dim=2, n_outputs=1).noise_variance
    0.05
    """

    subset: int
    input_dim: int
    n_outputs: int
    noise_variance: float = 0.05
    lengthscale: float | None = None
    jitter: Jitter = Jitter()  # noqa: RUF009 (frozen)
    dtype: torch.dtype = torch.float64
    replicates: torch.Size = torch.Size()


@runtime_checkable
class LikelihoodOptions(Protocol):
    """What a user chooses: a frozen object that builds the module."""

    @property
    def name(self) -> str:
        """As in ``DeepGPRegressor(likelihood=...)``."""
        ...

    @property
    def is_plain(self) -> bool:
        """Whether the noise is one Gaussian for all rows, which every inference method supports."""
        ...

    def build(self, sizes: Sizes) -> Likelihood:
        """The module at its initial values."""
        ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Name and value of every option."""
        ...

    def set_params(self, **changes: Any) -> LikelihoodOptions:
        """A copy with other values."""
        ...
