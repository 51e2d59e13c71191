"""What every inference method has in common: data, batches, named terms, and the expected log density."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from sodgp.linalg.draws import Draws
from sodgp.model.architecture import Architecture
from sodgp.model.deep_gp import DeepGP

__all__ = [
    "Batch",
    "Inference",
    "Terms",
    "TrainingSet",
    "bound",
    "expected_log_density",
    "mixture_log_density",
    "total_log_density",
    "with_log_prior",
]

Terms = dict[str, Tensor]


def rest_of(n_rows: int, chosen: Tensor) -> Tensor:
    """The rows that are not chosen, in their own order, [N - M].

    Examples
    --------
    >>> rest_of(5, torch.tensor([3, 0]))
    tensor([1, 2, 4])
    """
    rest = torch.ones(n_rows, dtype=torch.bool)
    rest[chosen] = False
    return rest.nonzero().ravel()


@dataclass(frozen=True)
class TrainingSet:
    """The data of a fit in scaled units, split into subset and rest.

    Attributes
    ----------
    X_s, y_s : Tensor of shape [*replicates, M, D] and [*replicates, M, P]
    X_r, y_r : Tensor of shape [*replicates, N - M, D] and [*replicates, N - M, P]
    precision_r : Tensor of shape [*replicates, N - M, P], optional
        Where the noise of every row is known: the likelihood's noise variance over that of the row. Those of the
        subset are the last layer's `label_precision`.

    Examples
    --------
    >>> X = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    >>> TrainingSet(X[:5], X[:5].sign(), X[5:], X[5:].sign()).n_rest
    15
    """

    X_s: Float[Tensor, "*replicates M D"]
    y_s: Float[Tensor, "*replicates M P"]
    X_r: Float[Tensor, "*replicates R D"]
    y_r: Float[Tensor, "*replicates R P"]
    precision_r: Float[Tensor, "*replicates R P"] | None = None

    @property
    def n_rest(self) -> int:
        """Rows outside the subset."""
        return self.X_r.shape[-2]

    def in_order(self, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """X and y of all rows in the order they had before the rows `chosen` [M] became the subset."""
        order = torch.cat([chosen, rest_of(len(chosen) + self.n_rest, chosen)]).argsort()
        return torch.cat([self.X_s, self.X_r])[order], torch.cat([self.y_s, self.y_r])[order]

    def to(self, device: torch.device | str) -> TrainingSet:
        """The same data on another device."""
        precision = None if self.precision_r is None else self.precision_r.to(device)
        X_s, y_s, X_r, y_r = (t.to(device) for t in (self.X_s, self.y_s, self.X_r, self.y_r))
        return TrainingSet(X_s, y_s, X_r, y_r, precision)


class Batch(NamedTuple):
    """What one step sees, every tensor with the sample axis in place (size 1).

    Attributes
    ----------
    X_s, y_s : Tensor of shape [*replicates, 1, M, D] and [*replicates, 1, M, P]
        The subset.
    X_b, y_b : Tensor of shape [*replicates, 1, B, D] and [*replicates, 1, B, P]
        Rows of the rest.
    scale : float
        (N - M) / B: every row of the batch stands for that many.
    precision_b : Tensor of shape [*replicates, 1, B, P], optional
        Relative precisions of the rows of the rest, where their noise is known.

    Examples
    --------
    >>> X = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    >>> rows = X[None]  # the sample axis in front
    >>> Batch(rows[:, :5], rows[:, :5].sign(), rows[:, 5:], rows[:, 5:].sign(), scale=1.0).X_b.shape
    torch.Size([1, 15, 1])
    """

    X_s: Tensor
    y_s: Tensor
    X_b: Tensor
    y_b: Tensor
    scale: float
    precision_b: Tensor | None = None


@runtime_checkable
class Inference(Protocol):
    """The contract of an inference method: one file, pure functions of (model, batch, draws).

    Examples
    --------
    >>> from sodgp.inference.sod import SubsetOfData
    >>> isinstance(SubsetOfData(), Inference)
    True
    """

    @property
    def name(self) -> str:
        """As in `DeepGPRegressor(inference=...)`."""
        ...

    @property
    def uses_subset(self) -> bool:
        """Whether a subset of the data is set apart; otherwise all rows are the rest."""
        ...

    def build(self, architecture: Architecture, data: TrainingSet | None, generator: torch.Generator) -> DeepGP:
        """A model at its initial values."""
        ...

    def terms(self, model: DeepGP, batch: Batch, draws: Draws) -> Terms:
        """Named terms whose sum is maximised, each of shape [*replicates]."""
        ...

    def predict(self, model: DeepGP, X_s: Tensor, y_s: Tensor, X: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """Mean and variance of f at X for every Monte Carlo sample, each [*replicates, T, N, P]."""
        ...

    def predict_joint(self, model: DeepGP, X_s: Tensor, y_s: Tensor, X: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """Mean [..., T, N, P] and covariance [..., T, P, N, N] of f at X, drawn jointly through the layers."""
        ...


def expected_log_density(y: Tensor, mean: Tensor, variance: Tensor, noise_variance: Tensor) -> Tensor:
    """E log N(y; f, noise) for f ~ N(mean, variance), elementwise.

    Parameters
    ----------
    y, mean, variance : Tensor of shape [..., N, P]
    noise_variance : Tensor of shape [..., 1, P] or broadcastable

    Examples
    --------
    >>> zero, one = torch.zeros(3, 1), torch.ones(3, 1)
    >>> expected_log_density(zero, zero, one, one)[0].item()  # -0.5 (log 2 pi + 1)
    -1.4189...
    """
    return -0.5 * (math.log(2.0 * math.pi) + noise_variance.log() + ((y - mean).square() + variance) / noise_variance)


def total_log_density(y: Tensor, mean: Tensor, total_variance: Tensor, noise_variance: Tensor) -> Tensor:
    """The same, summed over rows and outputs and averaged over the Monte Carlo samples, [*replicates].

    Parameters
    ----------
    y, mean : Tensor of shape [..., 1 or T, N, P] and [..., T, N, P]
    total_variance : Tensor of shape [..., T, 1, P]
        Variances summed over rows.
    noise_variance : Tensor of shape [..., 1, 1, P]

    Examples
    --------
    >>> y, noise = torch.zeros(1, 3, 1), torch.ones(1, 1, 1)
    >>> total_log_density(y, y, torch.full((1, 1, 1), 3.0), noise).item()  # three times -1.4189
    -4.2568...
    """
    squares = (y - mean).square().sum(-2, keepdim=True) + total_variance
    constant = y.shape[-2] * (math.log(2.0 * math.pi) + noise_variance.log())
    return (-0.5 * (constant + squares / noise_variance)).sum((-2, -1)).mean(-1)


def mixture_log_density(y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """Log of the mixture over Monte Carlo samples, 1/T sum_t N(y; mean_t, variance_t), summed over rows and outputs.

    Parameters
    ----------
    y : Tensor of shape [..., 1, N, P]
    mean, variance : Tensor of shape [..., T, N, P]
        Of the observations: noise included.

    Examples
    --------
    >>> y, mean = torch.zeros(1, 3, 1), torch.zeros(10, 3, 1)
    >>> mixture_log_density(y, mean, torch.ones(10, 3, 1)).item()  # three times log N(0; 0, 1)
    -2.7568...
    """
    values = -0.5 * (math.log(2.0 * math.pi) + variance.log() + (y - mean).square() / variance)
    return (values.logsumexp(-3) - math.log(values.shape[-3])).sum((-2, -1))


def with_log_prior(terms: Terms, model: DeepGP) -> Terms:
    """Add the log density of the user's priors, where there are any (maximum a posteriori for those parameters).

    Examples
    --------
    >>> from sodgp.model.architecture import Architecture
    >>> from sodgp.inference.sod import SubsetOfData
    >>> model = SubsetOfData().build(Architecture(1, 1, 5, []), None, torch.Generator())
    >>> with_log_prior({"rest": torch.zeros(())}, model)  # no priors, nothing added
    {'rest': tensor(0.)}
    """
    prior = model.log_prior()
    return terms if prior is None else {**terms, "log_prior": prior}


def bound(terms: Terms) -> Tensor:
    """Sum of the terms, [*replicates].

    Examples
    --------
    >>> bound({"rest": torch.tensor(-3.0), "kl_last": torch.tensor(-1.0)})
    tensor(-4.)
    """
    return torch.stack(list(terms.values())).sum(0)
