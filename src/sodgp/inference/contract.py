"""What every inference method has in common: data, batches, named terms, and the expected log density."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from sodgp.likelihoods.contract import LikelihoodOptions
from sodgp.linalg.draws import Draws
from sodgp.model.architecture import Architecture
from sodgp.model.deep_gp import DeepGP

if TYPE_CHECKING:
    from sodgp.inference.sampler import Sampler

__all__ = [
    "Batch",
    "Inference",
    "Predictor",
    "Subset",
    "Terms",
    "TrainingSet",
    "bound",
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
        subset are in the likelihood.

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


class Subset(NamedTuple):
    """Inputs [M, D] and targets [M, P] of a subset, in scaled units.

    Examples
    --------
    >>> Subset(torch.zeros(5, 2), torch.zeros(5, 1)).X.shape
    torch.Size([5, 2])
    """

    X: Tensor
    y: Tensor


Parameters = list[tuple[Tensor, Tensor]]
"""``q_mean`` [M, D] and ``q_factor`` [D, M, M] of every layer."""


@runtime_checkable
class Predictor(Protocol):
    """Predictions of f under a trained model: what does not depend on the new rows is prepared once.

    Rows X are [..., 1, N, D], in scaled units; `draws` gives the random numbers of the other rows.

    Examples
    --------
    >>> from sodgp.inference.dsvi import DSVI
    >>> from sodgp.linalg.draws import SharedDraws
    >>> model = DSVI().build(Architecture(1, 1, 5, []), None, torch.Generator())
    >>> X, draws = torch.zeros(1, 3, 1, dtype=torch.float64), SharedDraws(0, 10, dtype=torch.float64)
    >>> mean, variance = DSVI().predictor(model, X[:, :0], X[:, :0], draws).rows(X, draws)
    >>> mean.shape
    torch.Size([1, 3, 1])
    """

    def mean(self, X: Tensor, draws: Draws) -> Tensor:
        """The means of `rows` alone, which may cost less."""
        ...

    def rows(self, X: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """Mean and variance of f at every row on its own, for each Monte Carlo sample, [..., T or 1, N, P]."""
        ...

    def joint(self, X: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """Mean [..., T or 1, N, P] and covariance [..., T or 1, P, N, N] of f over rows that are drawn together."""
        ...

    def hidden(self, X: Tensor, draws: Draws, layer: int) -> Tensor:
        """The rows after that many hidden layers, every row drawn on its own, [..., T, N, D]."""
        ...

    @property
    def joint_size(self) -> int:
        """Covariances over all rows, the subset's included, that a joint prediction holds for each sample."""
        ...


@runtime_checkable
class Inference(Protocol):
    """The contract of an inference method: a frozen object of its options, and pure functions of them.

    Examples
    --------
    >>> from sodgp.inference.sod import SoD
    >>> from sodgp.likelihoods import HeavyTailed
    >>> method = SoD(coupling="joint")
    >>> method.name, method.objective, method.supports(HeavyTailed())
    ('sod', 'bound', True)
    """

    @property
    def name(self) -> str:
        """As in ``DeepGPRegressor(inference=...)``."""
        ...

    @property
    def uses_subset(self) -> bool:
        """Whether a subset of the data is set apart; otherwise all rows are the rest."""
        ...

    @property
    def unused_options(self) -> tuple[str, ...]:
        """Arguments of `DeepGPRegressor` that mean nothing for this method."""
        ...

    @property
    def objective(self) -> str:
        """What is maximised: ``"bound"``, ``"predictive"`` or ``"posterior"``."""
        ...

    @property
    def can_warm_start(self) -> bool:
        """Whether training can begin where another fit ended."""
        ...

    @property
    def sampler(self) -> Sampler | None:
        """The method as a sampler; None where parameters are optimised."""
        ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Name and value of every option."""
        ...

    def set_params(self, **changes: Any) -> Inference:
        """A copy with other values."""
        ...

    def settled(
        self,
        *,
        n_rows: int,
        n_layers: int,
        kernel: object,
        likelihood: LikelihoodOptions,
        previous: DeepGP | None = None,
    ) -> Inference:
        """The method with everything decided that depends on the data.

        Parameters
        ----------
        n_rows, n_layers : int
        kernel : str, function or gpytorch kernel
            As the user gave it.
        likelihood : LikelihoodOptions
        previous : DeepGP, optional
            The model at which training begins.

        Raises
        ------
        ConfigurationError
            For options that do not go with these.
        """
        ...

    def supports(self, likelihood: LikelihoodOptions) -> bool:
        """Whether the method can train with this likelihood."""
        ...

    def caution(self, hidden_widths: Sequence[int]) -> str | None:
        """What a user should know before training hidden layers of these widths; None where all is well."""
        ...

    def usual_batch(self, size: int, n_rest: int, least: int) -> int | None:
        """Rows of the rest in a step, where the user does not say.

        Parameters
        ----------
        size, n_rest : int
            Rows of the subset and outside it.
        least : int
            What the chosen effort asks for.

        Returns
        -------
        int or None
            None for the 2,000 rows of the paper, those of the subset counted in.
        """
        ...

    def usual_members(self, wanted: int) -> int:
        """Models that predict together, where the user does not say and the effort wants so many."""
        ...

    def usual_spread(self, n_members: int) -> float:
        """Factor by which each member's distribution is shrunk towards its mean in the mixture."""
        ...

    def build(self, architecture: Architecture, data: TrainingSet | None, generator: torch.Generator) -> DeepGP:
        """A model at its initial values; without `data` one of the right sizes, about to be given a state."""
        ...

    def terms(self, model: DeepGP, batch: Batch, draws: Draws) -> Terms:
        """Named terms whose sum is maximised, each of shape [*replicates]."""
        ...

    def predictor(self, model: DeepGP, X_s: Tensor, y_s: Tensor, draws: Draws) -> Predictor:
        """Predictions of f, prepared for the subset X_s [..., 1, M, D] and y_s with the numbers of `draws` for it."""
        ...

    def samples_differ(self, model: DeepGP) -> bool:
        """Whether the Monte Carlo samples of f have distributions of their own; in a plain GP one stands for all."""
        ...

    def state_shapes(self, size: int, width: int) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the tensors of q in a layer of that width."""
        ...

    def carried(
        self, model: DeepGP, old: Subset, new: Subset, kept: Tensor, variances: tuple[Tensor, Tensor] | None = None
    ) -> dict[str, Parameters]:
        """Variants of q for another subset that say what the model says now; none where q belongs to no rows.

        Parameters
        ----------
        model : DeepGP
            Without replicates.
        old, new : Subset
        kept : Tensor of shape [M'], int64
            For every row of `new` its position in `old`, or -1.
        variances : pair of Tensor of shape [M or 1, P] and [M' or 1, P], optional
            Noise variances of the labels; None is the model's own, for all rows.
        """
        ...

    def label_variances(self, model: DeepGP, X: Tensor) -> Tensor:
        """Noise variances that q takes the labels of a subset X [M, D] in with, [M or 1, P]."""
        ...

    def training_numbers(self, architecture: Architecture, n_rows: int, batch_rows: int, n_samples: int) -> float:
        """How many numbers training holds at once, the data not counted."""
        ...

    def prediction_numbers(self, model: DeepGP, n_samples: int) -> tuple[float, float]:
        """How many numbers a prediction holds: whatever the number of rows, and for every row of a chunk."""
        ...

    @property
    def prepares_once(self) -> bool:
        """Whether a predictor does its work once, and not again for every chunk of rows."""
        ...


def bound(terms: Terms) -> Tensor:
    """Sum of the terms, [*replicates].

    Examples
    --------
    >>> bound({"rest": torch.tensor(-3.0), "kl_last": torch.tensor(-1.0)})
    tensor(-4.)
    """
    return torch.stack(list(terms.values())).sum(0)
