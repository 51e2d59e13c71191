"""The base of the likelihoods that are not Gaussian in f: p(y | f + offset), with labels taken in through moving sites.

A likelihood of this kind gives its log density, and closed forms of the expectations where they exist; the others are
found by quadrature.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import gpytorch
import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Tensor, nn

from sodgp.errors import ConfigurationError
from sodgp.likelihoods.contract import (
    Elementwise,
    Likelihood,
    Marginals,
    NaturalSites,
    PerRow,
    RestInputs,
    RowLikelihood,
    Sizes,
    SubsetInputs,
)
from sodgp.likelihoods.quadrature import ORDER, Rule, check_order, expectation, log_expectation, nodes_under
from sodgp.likelihoods.rows import CountedRows, RowWeight
from sodgp.linalg.draws import Draws
from sodgp.predictive.density import log_mixture
from sodgp.system.parameters import Parameters

__all__ = ["LatentLikelihood", "LatentOptions", "QuadratureLikelihood", "QuadratureOptions", "QuadratureRows"]

# Nodes of predictions that are mixtures over samples of f: the samples spread the components as well.
_NODES_OF_MANY = 7

Values = Float[Tensor, "*batch N P"]


@dataclass(frozen=True, kw_only=True)
class LatentOptions(Parameters):
    """What the options of all these likelihoods have in common; none is of Gaussian noise."""

    is_plain: ClassVar[bool] = False
    is_conjugate: ClassVar[bool] = False
    uses_subset: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class QuadratureOptions(LatentOptions):
    """Options of the likelihoods that need quadrature.

    Parameters
    ----------
    quadrature_order : int
        Nodes of the expectations over f that are not closed.
    """

    quadrature_order: int = ORDER

    def __post_init__(self) -> None:
        check_order(self.quadrature_order)


class LatentLikelihood(gpytorch.Module, ABC):
    """Base of the modules: a trained offset that is added to f, one for each output.

    The prior mean of f is zero; the offset is what the model says where it knows nothing.

    Parameters
    ----------
    start : Tensor of shape [*replicates, P]
        Initial offset.
    """

    # Predictions have so many components or draws for each sample of f; nothing of y given f depends on the row.
    n_levels: ClassVar[int] = _NODES_OF_MANY
    varies: ClassVar[bool] = False

    offset: nn.Parameter

    def __init__(self, start: Float[Tensor, "*replicates P"]) -> None:
        super().__init__()
        self.n_outputs = start.shape[-1]
        self.register_parameter("offset", nn.Parameter(start.clone()))

    @abstractmethod
    def rows(self, draws: Draws) -> RowLikelihood:
        """P(y | f) at any rows; `draws` is for expectations that need random numbers."""

    @property
    def noise_variance(self) -> Float[Tensor, "*replicates 1 P"] | None:
        """None: y given f has no noise variance."""
        return None

    @property
    def mean_noise_variance(self) -> Float[Tensor, "*replicates 1 P"] | None:
        """None, as `noise_variance`."""
        return self.noise_variance

    @property
    def n_parameters(self) -> int:
        """All parameters have one number for each output."""
        return sum(parameter.shape[-1] for parameter in self.parameters())

    @property
    def kernels(self) -> list[Kernel]:
        """No kernels."""
        return []

    def at(
        self, X_s: SubsetInputs, X: RestInputs, draws: Draws, precision: PerRow | None = None
    ) -> tuple[RowLikelihood, RowLikelihood]:
        """The same at all rows."""
        rows = self.rows(draws)
        return rows, rows

    def kl(self, weight: RowWeight | None = None) -> Float[Tensor, "*replicates 1"] | None:
        """None: there are no latent variables."""
        return None

    def continues(self, old: Likelihood) -> bool:
        """From any likelihood of the same kind."""
        return type(old) is type(self)


class QuadratureLikelihood(LatentLikelihood):
    """Base of the modules that need quadrature, whose rule is a buffer: steps on a GPU do not wait for it.

    Parameters
    ----------
    start : Tensor of shape [*replicates, P]
        Initial offset.
    order : int
        Nodes.
    """

    nodes: Tensor
    log_weights: Tensor

    def __init__(self, start: Float[Tensor, "*replicates P"], order: int) -> None:
        super().__init__(start)
        for name, values in Rule.of_order(order, start)._asdict().items():
            self.register_buffer(name, values, persistent=False)

    @property
    def rule(self) -> Rule:
        """Nodes and weights."""
        return Rule(self.nodes, self.log_weights)


def start_of(sizes: Sizes, link: Any) -> Float[Tensor, "*replicates P"]:
    """The link of the mean label of every output, where the training labels are known; else zero."""
    shape = (*sizes.replicates, sizes.n_outputs)
    if sizes.target_mean is None:
        return torch.zeros(shape, dtype=sizes.dtype)
    start: Tensor = link(sizes.target_mean.to(torch.float64)).to(sizes.dtype)
    return start.expand(shape)


class LatentRows(CountedRows, ABC):
    """What p(y | f) at given rows has in common, whether its outputs are independent given f or not."""

    @abstractmethod
    def log_density(self, y: Elementwise, f: Elementwise) -> Values:
        """As in `RowLikelihood`."""

    @abstractmethod
    def expected(self, y: Elementwise, mean: Elementwise, variance: Elementwise) -> Values:
        """E log p(y_n | f_n) for f_n ~ N(mean, variance), for every row and output."""

    @abstractmethod
    def log_predictive_density(self, y: Elementwise, mean: Elementwise, variance: Elementwise) -> Values:
        """As in `RowLikelihood`."""

    @abstractmethod
    def predictive(self, mean: Elementwise, variance: Elementwise) -> Any:
        """As in `RowLikelihood`."""

    def expected_log_density(self, y: Elementwise, f: Marginals) -> Float[Tensor, "*replicates"]:
        """As in `RowLikelihood`."""
        return self.counted(self.expected(y, *f.rows())).sum((-2, -1)).mean(-1)

    def log_mixture_density(self, y: Elementwise, f: Marginals) -> Float[Tensor, "*replicates"]:
        """As in `RowLikelihood`, over whole rows."""
        each = self.log_predictive_density(y, *f.rows()).sum(-1, keepdim=True)
        return self.total(log_mixture(each))

    def sites(self, y: Float[Tensor, "*#batch 1 M P"]) -> tuple[()]:
        """Empty: the sites move."""
        return ()

    def natural_sites(self, y: Elementwise, mean: Elementwise, variance: Elementwise) -> NaturalSites:
        """From the derivatives of `expected`."""
        with torch.enable_grad():
            m = mean.detach().clone().requires_grad_()
            v = variance.detach().clone().requires_grad_()
            slope, half = torch.autograd.grad(self.expected(y, m, v).sum(), (m, v))
        lambda_2 = (-2.0 * half).clamp_min(0.0)
        return NaturalSites(self.counted(slope + lambda_2 * mean.detach()), self.counted(lambda_2))

    def noise_variance(self, *, drawn: bool) -> Float[Tensor, "*batch #T #N P"]:
        """ConfigurationError: y given f has none."""
        raise ConfigurationError(
            "joint draws and covariances of observations exist for Gaussian noise only; ask for those of f"
            " (latent=True), or for the distribution of every row (predict_distribution)."
        )


class QuadratureRows(LatentRows):
    """p(y | f) whose outputs are independent given f, with expectations by quadrature."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    def expected(self, y: Elementwise, mean: Elementwise, variance: Elementwise) -> Values:
        """As in `LatentRows`."""
        f, log_weights = nodes_under(mean, variance, self.rule)
        return expectation(self.log_density(y, f), log_weights)

    def log_predictive_density(self, y: Elementwise, mean: Elementwise, variance: Elementwise) -> Values:
        """As in `RowLikelihood`."""
        f, log_weights = nodes_under(mean, variance, self.rule)
        return log_expectation(self.log_density(y, f), log_weights)

    def components(
        self, mean: Float[Tensor, "T N P"], variance: Float[Tensor, "#T #N P"]
    ) -> tuple[Float[Tensor, "C N P"], Float[Tensor, " C"]]:
        """Function values in the place of all Gaussians of f, and the logs of their weights, which sum to one."""
        samples = mean.shape[-3]
        is_long = samples > 1 and len(self.rule.nodes) > _NODES_OF_MANY
        f, log_weights = nodes_under(mean, variance, Rule.of_order(_NODES_OF_MANY, mean) if is_long else self.rule)
        log_weights = (log_weights - math.log(samples)).expand(-1, samples, 1, 1)
        return f.flatten(0, 1), log_weights.flatten()
