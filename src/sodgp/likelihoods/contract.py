"""The protocols of a likelihood: the options, the module that owns the parameters, and p(y | f) at given rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Tensor

from sodgp.likelihoods.rows import RowWeight
from sodgp.linalg.cholesky import Jitter
from sodgp.linalg.draws import Draws
from sodgp.predictive.contract import Unitless

__all__ = [
    "ClassOptions",
    "Likelihood",
    "LikelihoodOptions",
    "Marginals",
    "NaturalSites",
    "RowLikelihood",
    "Sites",
    "Sizes",
]

# Labels, function values or moments for every sample, row and output, [..., T, N, P]; axes along which they are equal
# may have size 1, or in front be missing.
Elementwise = Float[Tensor, "*#batch #N #P"]
# The same for every component of y in the place of the samples of f, [..., C, N, P].
Components = Float[Tensor, "*#components #N #P"]
# One number for every row and output, the same for all samples.
PerRow = Float[Tensor, "*#batch 1 N P"]
# Inputs of the model at the subset and at other rows.
SubsetInputs = Float[Tensor, "*subset 1 M D"]
RestInputs = Float[Tensor, "*rest 1 N D"]


class Sites(NamedTuple):
    """Gaussian sites N(label_n; f_n, variance_n) through which q_hat is conditioned on the subset's labels.

    Attributes
    ----------
    label : Tensor of shape [..., 1, M, P]
    variance : Tensor of shape [..., 1, 1 or M, P]
        One for all rows, or one for each (paper: v).

    Examples
    --------
    >>> Sites(torch.zeros(1, 5, 1), torch.ones(1, 1, 1)).variance.shape
    torch.Size([1, 1, 1])
    """

    label: Float[Tensor, "*batch 1 M P"]
    variance: Float[Tensor, "*batch 1 #M P"]


class NaturalSites(NamedTuple):
    """Gaussian sites exp(lambda_1 f - lambda_2 f^2 / 2) by their natural parameters, for every sample, row and output.

    Examples
    --------
    >>> NaturalSites(torch.zeros(10, 5, 1), torch.ones(10, 5, 1)).lambda_2.shape
    torch.Size([10, 5, 1])
    """

    lambda_1: Float[Tensor, "*batch N P"]
    lambda_2: Float[Tensor, "*batch N P"]


@runtime_checkable
class Marginals(Protocol):
    """Gaussian marginals of f at N rows, for each Monte Carlo sample.

    An inference method hands them to a likelihood, which computes only what it needs: sums over rows cost less than the
    variance of every row.
    """

    def rows(self) -> tuple[Float[Tensor, "*batch T N P"], Float[Tensor, "*batch T N P"]]:
        """Means and variances."""

    def totals(self) -> tuple[Float[Tensor, "*batch T N P"], Float[Tensor, "*batch #T 1 P"]]:
        """Means, and variances summed over rows."""

    def over_sites(self) -> tuple[Float[Tensor, "*batch T N P"], Float[Tensor, "*batch T 1 P"]] | None:
        """Means, and variances divided by those of the sites, summed over rows; None for rows without sites."""


@runtime_checkable
class RowLikelihood(Protocol):
    """p(y_n | f_n) at N given rows, with everything fixed that depends on the rows.

    This is where a likelihood is written: its density, the expectations of it that the objectives need, and the
    distribution of new observations. `Likelihood.at` makes one for the subset and one for the other rows of a step. The
    means and variances of f are those of T Monte Carlo samples.

    A row may stand for w_n observations with the same label (`weighted`). Then it counts w_n times in the sums over
    rows, `expected_log_density` and `log_mixture_density`, and in both kinds of sites; all else is of one observation.
    """

    def weighted(self, weight: RowWeight | None) -> RowLikelihood:
        """The same rows, each of which stands for `weight` observations; None for one each."""

    def log_density(self, y: Elementwise, f: Elementwise) -> Float[Tensor, "*batch N P"]:
        """Log p(y_n | f_n) at given function values, for every row and output."""

    def expected_log_density(self, y: Elementwise, f: Marginals) -> Float[Tensor, "*replicates"]:
        """E log p(y_n | f_n), summed over rows and outputs and averaged over samples; a lower bound of it will do."""

    def log_predictive_density(
        self, y: Elementwise, mean: Elementwise, variance: Elementwise
    ) -> Float[Tensor, "*batch N P"]:
        """Log E p(y_n | f_n) for f_n ~ N(mean, variance), for every row and output."""

    def log_mixture_density(self, y: Elementwise, f: Marginals) -> Float[Tensor, "*replicates"]:
        """Log 1/T sum_t E_t[p(y_n | f_n)], by which predictions are scored, summed over rows and outputs."""

    def sites(self, y: Float[Tensor, "*#batch 1 M P"]) -> Sites | tuple[()]:
        """The Gaussian sites of the subset's labels y in q_hat; only asked for at the subset's rows.

        Empty where p(y | f) is not Gaussian in f: `natural_sites` then says where the sites of q_hat move to.
        """

    def natural_sites(self, y: Elementwise, mean: Elementwise, variance: Elementwise) -> NaturalSites:
        """The sites to which q_hat is drawn where f_n ~ N(mean, variance) under it, for every sample.

        With e the expected log density, lambda_2 = E[-d2 log p] = -2 de/dv, but not below zero, and lambda_1 =
        E[d log p] + lambda_2 mean with E[d log p] = de/dm (Khan & Lin 2017). Without a gradient.
        """

    def predictive(self, mean: Elementwise, variance: Elementwise) -> tuple[Components, Components] | Unitless:
        """The distribution of y given means and variances of f.

        Of Gaussian noise means and variances [..., C, N, P] of C >= T equally likely components; else an object of
        `sodgp.predictive`.
        """

    def noise_variance(self, *, drawn: bool) -> Float[Tensor, "*batch #T #N P"]:
        """Variance of y given f. With `drawn` that of a random observation of every row and sample, else its mean."""


@runtime_checkable
class Likelihood(Protocol):
    """A module that owns the trained parameters of p(y | f) in a model.

    Attributes
    ----------
    n_outputs : int
        Columns P of y.
    """

    n_outputs: int

    @property
    def offset(self) -> Float[Tensor, "*replicates P"] | float:
        """What is added to f, whose prior mean is zero."""

    @property
    def noise_variance(self) -> Float[Tensor, "*replicates 1 P"] | None:
        """Variance of y given f in scaled units; where it varies over rows, a typical value. None where it has none."""

    @property
    def mean_noise_variance(self) -> Float[Tensor, "*replicates 1 P"] | None:
        """Mean over rows of the variance of y given f; equal to `noise_variance` where that does not vary."""

    @property
    def n_parameters(self) -> int:
        """How many numbers one replicate trains."""

    @property
    def n_levels(self) -> int:
        """How many components `RowLikelihood.predictive` makes of each Monte Carlo sample of f."""

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels of the likelihood itself, such as that of a noise process."""

    @property
    def varies(self) -> bool:
        """Whether the noise variance of a new row depends on the row or is random."""

    def at(
        self, X_s: SubsetInputs, X: RestInputs, draws: Draws, precision: PerRow | None = None
    ) -> tuple[RowLikelihood, RowLikelihood]:
        """The likelihood at the subset's rows and at N other rows.

        Parameters
        ----------
        X_s, X : Tensor of shape [..., 1, M, D] and [..., 1, N, D]
            Inputs of the model, not of the last layer.
        draws : Draws
            Used only by densities that need random numbers.
        precision : Tensor of shape [..., 1, N, P], optional
            Relative precisions of the other rows, where their noise is known.
        """

    def kl(self, weight: Float[Tensor, "*#replicates 1 M 1"] | None = None) -> Float[Tensor, "*replicates 1"] | None:
        """KL(q || p) of the likelihood's own latent variables; None where it has none.

        Those that every observation of the subset has for itself count as often as the `weight` of its row.
        """

    def continues(self, old: Likelihood) -> bool:
        """Whether training can start from the parameters of the likelihood `old`."""


@dataclass(frozen=True)
class Sizes:
    """Sizes and initial values of the model that a likelihood is built for.

    Parameters
    ----------
    subset : int
        Rows M of the subset, or inducing points.
    input_dim, n_outputs : int
        Columns of X and of y.
    noise_variance : float
        Initial noise variance.
    lengthscale : float or None
        Initial lengthscale of kernels over X; None for that of `sodgp.kernels.make.make_kernel`.
    jitter : Jitter
    dtype : torch.dtype
    replicates : torch.Size
    target_mean : Tensor of shape [*replicates, P] or [P], optional
        Mean of the training labels.

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
    target_mean: Float[Tensor, "*#replicates P"] | None = None


@runtime_checkable
class LikelihoodOptions(Protocol):
    """The likelihood as a user chooses it: a frozen object of options that builds the module.

    A new likelihood is one file with such an object, its `Likelihood` and its `RowLikelihood`.
    """

    @property
    def name(self) -> str:
        """The name in ``DeepGPRegressor(likelihood=...)`` and in model files."""

    @property
    def targets(self) -> str:
        """What y is: ``"numbers"``, which training standardises, ``"counts"`` or ``"classes"``, which it does not.

        Classes are given as numbers: two as 0 and 1 in one column, more as columns of which one is 1 in every row.
        """

    @property
    def is_plain(self) -> bool:
        """Whether the noise is one Gaussian for all rows, which every inference method supports."""

    @property
    def is_conjugate(self) -> bool:
        """Whether p(y | f) is Gaussian in f, so that `RowLikelihood.sites` are functions of the parameters."""

    @property
    def uses_subset(self) -> bool:
        """Whether rows of the subset have parameters of their own, for which a method needs a subset."""

    def build(self, sizes: Sizes) -> Likelihood:
        """The module with its initial parameters."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Name and value of every option."""

    def set_params(self, **changes: Any) -> LikelihoodOptions:
        """A copy with other values."""


@runtime_checkable
class ClassOptions(LikelihoodOptions, Protocol):
    """The likelihood of classes."""

    def outputs(self, n_classes: int) -> int:
        """How many latent functions so many classes have: one column of 0 and 1 in y, or a column for each class.

        Raises
        ------
        InputError
            The likelihood is not for so many classes.
        """
