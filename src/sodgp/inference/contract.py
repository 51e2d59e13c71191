"""The contract of an inference method: its predictor, and the method itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sodgp.errors import ConfigurationError
from sodgp.inference.training_set import Batch, Subset, TrainingSet, rest_of
from sodgp.likelihoods.contract import LikelihoodOptions
from sodgp.linalg.draws import Draws
from sodgp.model.architecture import Architecture
from sodgp.model.deep_gp import DeepGP

if TYPE_CHECKING:
    from sodgp.inference.sampler import Sampler

__all__ = [
    "Batch",
    "Inference",
    "Moves",
    "Parameters",
    "Predictor",
    "Subset",
    "Terms",
    "TrainingSet",
    "bound",
    "rest_of",
]


Parameters = list[tuple[Float[Tensor, "M D"], Float[Tensor, "D M M"]]]
"""``q_mean`` and ``q_factor`` of every layer, for a model without replicates."""

Moves = list[tuple[Tensor, Tensor]]
"""Buffers of a model, each with its next value."""

Terms = dict[str, Float[Tensor, "*replicates"]]
"""The terms of an objective by their names."""


def bound(terms: Terms) -> Float[Tensor, "*replicates"]:
    """The sum of the terms.

    Examples
    --------
    >>> bound({"rest": torch.tensor(-3.0), "kl_last": torch.tensor(-1.0)})
    tensor(-4.)
    """
    return torch.stack(list(terms.values())).sum(0)


@runtime_checkable
class Predictor(Protocol):
    """Predictions of f under a trained model, with everything prepared that does not depend on the new rows.

    New rows X are in scaled units. All random numbers for them come from `draws`: with `SharedDraws` a row's prediction
    does not depend on the rows that it is predicted with. Where all samples of f have the same distribution, T is 1.

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

    def mean(self, X: Float[Tensor, "*batch 1 N D"], draws: Draws) -> Float[Tensor, "*batch T N P"]:
        """The means that `rows` returns, bit for bit; they may cost less without the variances."""
        return self.rows(X, draws)[0]

    def rows(
        self, X: Float[Tensor, "*batch 1 N D"], draws: Draws
    ) -> tuple[Float[Tensor, "*batch T N P"], Float[Tensor, "*batch T N P"]]:
        """Mean and variance of f at every row, for each Monte Carlo sample of the layers below."""

    def joint(
        self, X: Float[Tensor, "*batch 1 N D"], draws: Draws
    ) -> tuple[Float[Tensor, "*batch T N P"], Float[Tensor, "*batch T P N N"]]:
        """Mean and covariance of f over all rows, whose hidden layers are drawn jointly."""

    def hidden(self, X: Float[Tensor, "*batch 1 N D"], draws: Draws, layer: int) -> Float[Tensor, "*batch T N D_l"]:
        """Samples of the outputs of hidden layer number `layer`, from 1, each row drawn on its own; X itself for 0."""

    @property
    def joint_size(self) -> int:
        """How many covariance matrices over all rows a joint prediction needs at once for each sample."""


@runtime_checkable
class Inference(Protocol):
    """An inference method: a frozen object of its options, whose methods are pure functions.

    `build` makes the model, `terms` is the objective and `predictor` the prediction: these three are the method as its
    paper describes it. The others tell estimator and training loop what applies to the method, so that they never ask
    for its name. A method that inherits from this class gives its own answers only where those here do not suit it.

    Options are fields of a frozen dataclass that are checked at construction, and `sodgp.system.parameters.Parameters`
    gives them scikit-learn's `get_params`, `set_params` and `clone`.

    Examples
    --------
    >>> from sodgp.inference.sod import SoD
    >>> from sodgp.likelihoods import HeavyTailed
    >>> method = SoD(objective="bound")
    >>> method.name, method.objective, method.supports(HeavyTailed())
    ('sod', 'bound', True)
    """

    @property
    def name(self) -> str:
        """The name in ``DeepGPRegressor(inference=...)`` and in model files."""

    @property
    def uses_subset(self) -> bool:
        """Whether the method trains with a subset of the data. Otherwise all rows are the rest, and X_s is empty."""

    @property
    def unused_options(self) -> tuple[str, ...]:
        """Arguments of `DeepGPRegressor` that have no meaning for this method and are refused; by default none."""
        return ()

    @property
    def objective(self) -> str | None:
        """What training maximises: ``"bound"``, one that is none, such as ``"predictive"``, or ``"posterior"``.

        Where a user may choose, an option of the same name is the answer; None until `settled` decides.
        """
        return "bound"

    @property
    def can_warm_start(self) -> bool:
        """Whether training can start from the model of another fit; by default it cannot."""
        return False

    @property
    def sampler(self) -> Sampler | None:
        """The transitions of a method that samples; None for one that optimises parameters."""
        return None

    @property
    def prepares_once(self) -> bool:
        """Whether a predictor serves all chunks of rows without repeating work that the rows share."""
        return True

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Name and value of every option, as in scikit-learn."""

    def set_params(self, **changes: Any) -> Inference:
        """A copy with other values of some options."""

    def settled(
        self,
        *,
        n_rows: int,
        n_layers: int | None,
        kernel: object,
        likelihood: LikelihoodOptions,
        previous: DeepGP | None = None,
    ) -> Inference:
        """A copy in which the options that depend on the data have values; the method itself where none does.

        Parameters
        ----------
        n_rows : int
        n_layers : int or None
            None is `usual_layers` of the settled method.
        kernel : str, function or gpytorch kernel
            As the user gave it.
        likelihood : LikelihoodOptions
        previous : DeepGP, optional
            The model from which training starts.

        Raises
        ------
        ConfigurationError
            For options that cannot be combined with these.
        """
        if not self.supports(likelihood):
            raise ConfigurationError(
                f"inference={self.name!r} trains one noise variance for all rows and cannot be combined with"
                f" likelihood={likelihood.name!r}; use inference='sod'."
            )
        return self

    def supports(self, likelihood: LikelihoodOptions) -> bool:
        """Whether the method can train with this likelihood; by default only if the noise is the same for all rows."""
        return likelihood.is_plain

    def objection_to_weights(self) -> str | None:
        """Why rows cannot count by weights (`TrainingSet.weight_s`); None where they can. By default they cannot."""
        return (
            f"inference={self.name!r} counts every row once and takes no sample_weight. Repeat rows, or use"
            " inference='sod', 'dsvi' or 'sghmc'."
        )

    def caution(self, hidden_widths: Sequence[int]) -> str | None:
        """A warning for users who train hidden layers of these widths; None for no warning."""
        return None

    def given(self, data: TrainingSet) -> Subset:
        """The rows on whose labels predictions are conditioned, the subset first; by default no others."""
        return data.subset

    def rows_given(self, size: int, n_rows: int) -> int:
        """How many rows `given` has, for a subset of that size in so many training rows."""
        return size if self.uses_subset else 0

    def usual_steps(self, wanted: int, n_rows: int) -> int:
        """Default number of training steps for so many rows, of which the chosen effort allows `wanted`."""
        return wanted

    def usual_layers(self, n_rows: int) -> int:
        """Default number of layers for so many rows."""
        return 3

    def usual_rate(self, n_layers: int) -> float:
        """Default learning rate of a model with so many layers."""
        return 0.03

    def depth_rule(self, steps: int) -> tuple[Inference, float] | None:
        """Whose terms of the rows, KLs left out, say what layers are worth, and by how many nats a row and output.

        Many layers are kept where they are worth more than that against one. Asked after so many steps, where the
        number of layers is left open. None, the default, compares nothing.
        """
        return None

    def usual_batch(self, size: int, n_rest: int, least: int) -> int | None:
        """Default number of rows of the rest in a step; None for the paper's 2,000, the subset included.

        There are `size` rows in the subset and `n_rest` outside it, and the chosen effort allows no fewer than `least`.
        """
        return None

    def usual_members(self, wanted: int) -> int:
        """Default number of models in a mixture, of which the chosen effort allows `wanted`.

        One, where the benefit of more has not been measured.
        """
        return 1

    def usual_spread(self, n_members: int) -> float:
        """Default factor by which each member's distribution is shrunk towards its mean in a mixture."""
        return 1.0

    def build(self, architecture: Architecture, data: TrainingSet | None, generator: torch.Generator) -> DeepGP:
        """A model with its initial parameters; without `data` one of the same shapes, for a state to be loaded."""

    def terms(self, model: DeepGP, batch: Batch, draws: Draws) -> Terms:
        """The named terms whose sum training maximises.

        A pure function without `.item()` or conditions on values, since steps are compiled and recorded as CUDA graphs.
        Every random number comes from `draws`.
        """

    def predictor(
        self,
        model: DeepGP,
        X_s: Float[Tensor, "*batch 1 M D"],
        y_s: Float[Tensor, "*batch 1 M P"],
        draws: Draws,
        weight_s: Float[Tensor, "*batch 1 M 1"] | None = None,
    ) -> Predictor:
        """Predictions of f given the subset and its weights, for which `draws` has the random numbers."""

    def sums_over_rows(self) -> tuple[str, ...]:
        """Names of the terms that are sums over the rows of the batch, which many processes can divide among them.

        A row of the batch must have random numbers of its own, and depend on no other row of it.

        Raises
        ------
        ConfigurationError
            By default, and for options with which rows of a step depend on each other.
        """
        raise ConfigurationError(
            f"inference={self.name!r} cannot be trained by many processes; use inference='sod' or 'dsvi', or one."
        )

    def moves(self, model: DeepGP, batch: Batch, draws: Draws, pace: Tensor | float) -> Moves:
        """Next values of buffers that do not follow a gradient but move to a fixed point; by default none.

        Asked after every step of the optimiser, without a gradient, and like `terms` free of conditions on values. All
        random numbers come from `draws`. `pace` is the learning rate relative to the initial one: it falls with the
        schedule, and is halved by a roll-back.
        """
        return []

    def samples_differ(self, model: DeepGP) -> bool:
        """Whether f has a different distribution in each Monte Carlo sample; usually where there are hidden layers."""
        return len(model.layers) > 1

    def state_shapes(self, size: int, width: int) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the tensors of q in a layer with `size` inducing points and `width` outputs."""
        return {"q_mean": (size, width), "q_factor": (width, size, size)}

    def carried(
        self,
        model: DeepGP,
        successor: DeepGP,
        old: Subset,
        new: Subset,
        kept: Int[Tensor, " M_new"],
    ) -> dict[str, Parameters]:
        """Candidates for q on another subset that keep what the model has learned; empty for q without a subset.

        Parameters
        ----------
        model : DeepGP
            Without replicates.
        successor : DeepGP
            The model for the subset `new`, with the hyper-parameters of `model`. Buffers of its that belong to rows of
            the subset are set here.
        old, new : Subset
        kept : Tensor of shape [M'], int64
            For every row of `new` its position in `old`, or -1.
        """
        return {}

    def training_numbers(self, architecture: Architecture, n_rows: int, batch_rows: int, n_samples: int) -> float:
        """Estimate of the largest number of floating-point numbers in memory during training, without the data."""
        return architecture.training_numbers(batch_rows, n_samples)

    def prediction_numbers(self, model: DeepGP, n_samples: int, n_given: int = 0) -> tuple[float, float]:
        """The same for a prediction `given` so many rows: whatever the new rows, and for every one of a chunk."""
        return model.prediction_numbers(n_samples, samples_differ=self.samples_differ(model))
