"""Subset-of-data variational inference (Jain, Srijith & Khan, UAI 2021)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sodgp.errors import ConfigurationError
from sodgp.inference import sod_labels, sod_memory, sod_sites, sod_transfer
from sodgp.inference.contract import Batch, Inference, Moves, Parameters, Predictor, Subset, Terms, TrainingSet
from sodgp.inference.sod_initial import prior_means, uniform_means
from sodgp.inference.sod_kept import kept_or_drawn
from sodgp.inference.sod_prediction import MarginalPredictor
from sodgp.layers.contract import Points
from sodgp.layers.families import FAMILIES
from sodgp.layers.separate import SeparateLayer
from sodgp.layers.subset import COUPLINGS, SubsetLayer
from sodgp.likelihoods.contract import LikelihoodOptions
from sodgp.linalg.draws import Draws
from sodgp.model.architecture import Architecture
from sodgp.model.deep_gp import DeepGP
from sodgp.system import parameters
from sodgp.system.validation import check_choice, check_flag, check_positive

__all__ = ["ALL_LABELS_ROWS", "MANY_ROWS", "OBJECTIVES", "SoD"]

# What training may maximise.
OBJECTIVES = ("bound", "predictive", *sod_labels.OBJECTIVES)

# Rows from which on a deep SoD-VI trains the predictive density by default, with a kernel for each output of layer 1.
# With fewer rows the bound and a single kernel overfit noise less.
MANY_ROWS = 500
# Rows up to which the labels of all of them are in q_hat by default: a step sees them all.
ALL_LABELS_ROWS = 2000
# Rows below which a table is small: a step costs little, and depth is worth one more layer.
_SMALL = 160
# A batch has at least one of so many rows, up to a limit: with less, large data need too many steps, and gradients are
# too noisy.
_ROWS_FOR_ONE, _MOST_ROWS = 20, 1800
# Nats a row by which depth must predict better, chosen on validation rows, and steps without which it is not done.
_DEPTH_MARGIN, _DEEP_STEPS = 0.075, 100
# Share of the members' disagreement that a mixture counts twice; chosen on validation rows (``docs/accuracy.md``).
_DISAGREEMENT = 0.37


@dataclass(frozen=True, kw_only=True)
class SoD(parameters.Parameters, Inference):
    """Subset-of-data variational inference: the lower bound of eq. (SOD_Elbo), term by term.

    With B rows of the rest R (never of S), Z^0 = X and T samples of Z^1 .. Z^(L-1)::

        L =   (N - M)/B  sum_{n in B}  w_n E[log p(y_n | f_n^L)]                 rest
            + sum_{n in S}  w_n E_q_hat[log p(y_n | f_n^L)]                      subset
            - sum_{l < L}  E[KL(q(F_S^l) || p(F_S^l | Z_S^(l-1)))]               kl_1 ... kl_(L-1)
            - E[KL(q_hat(F_S^L) || p(F_S^L | Z_S^(L-1)))]                        kl_last

    Expectations over Z are averages over the samples; those over f given Z are closed. q_hat is normalised for each
    Z_S. Row n stands for w_n observations, one without weights, also in q_hat. Latent variables of a likelihood add the
    term ``kl_noise``.

    Parameters
    ----------
    parameterization : {"whitened", "paper"}
        Family of q(F_S): relative to the layer's prior, or the paper's absolute one.
    coupling : {"ancestral", "marginal", "joint"}
        How the subset and the other rows of a hidden layer are drawn: the rows given the subset, every row from its
        marginal, or all rows jointly. ``"marginal"`` is what the authors' program does, and its objective is not a
        bound.
    tie_label_noise : bool
        Whether the label noise v of q_hat is the likelihood's sigma^2 (the paper's formula) or a parameter of its own
        (the authors' program).
    separate_kernels : bool or None
        With several layers: a kernel for each output of the first layer instead of one for all outputs. More accurate
        with enough rows, and about as expensive as one more layer. None is True with 500 training rows or more, or
        where all labels are in q_hat, unless `parameterization` is the paper's or the kernel is not given by name.
    objective : {"bound", "predictive", "collapsed", "leave_one_out"} or None
        What training maximises. ``"predictive"`` has the log predictive density log E[p(y_n | f_n)], by which
        predictions are scored, in the place of the expected log density of the rest, and is no lower bound of the
        evidence. The subset's labels are in q_hat already and keep the expected log density.

        ``"collapsed"`` and ``"leave_one_out"`` take the labels of *all* rows into q_hat (`sodgp.inference.sod_labels`),
        which leaves no q of the last layer to train: a fit takes a fraction of the steps. They are for Gaussian noise
        of one variance, and for as many rows as a step can see; a model keeps its training rows. The second predicts
        every row from all the others, and the first is less sharp.

        None is ``"leave_one_out"`` up to 2,000 training rows and ``"predictive"`` above; with one layer, or below 500
        rows, ``"collapsed"`` and ``"bound"`` in their places. Other likelihoods, couplings and families have the
        bound or the predictive density; with `natural_gradients` it is the bound.
    natural_gradients : bool or None
        Whether q of the last layer follows natural-gradient steps, as the sites of labels that are not Gaussian do, and
        not Adam's: a fit takes a seventh of the steps. None is True where there are sites, in the whitened family.
    member_spread : float or None
        With several members: the factor by which each member's distribution is shrunk towards its mean in the mixture.
        1 is the plain mixture, which is too wide: their common mean has a smaller error than each of them. None is
        0.90, 0.87 or 0.85 for 2, 3 or 4 members. Not used in training: it can be changed without a new fit.

    Examples
    --------
    >>> from sodgp.linalg.draws import FreshDraws
    >>> X = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    >>> architecture = Architecture(1, 1, 5, [torch.eye(1, dtype=torch.float64)])
    >>> data, method = TrainingSet(X[:5], X[:5].sign(), X[5:], X[5:].sign()), SoD()
    >>> model = method.build(architecture, data, torch.Generator().manual_seed(0))
    >>> batch = Batch(*(t[None] for t in (data.X_s, data.y_s, data.X_r, data.y_r)), scale=1.0)
    >>> list(method.terms(model, batch, FreshDraws(torch.Generator().manual_seed(0), n_samples=10)))
    ['rest', 'subset', 'kl_1', 'kl_last']
    """

    parameterization: str = "whitened"
    coupling: str = "ancestral"
    tie_label_noise: bool = True
    separate_kernels: bool | None = None
    objective: str | None = None
    natural_gradients: bool | None = None
    member_spread: float | None = None

    name: ClassVar[str] = "sod"
    uses_subset: ClassVar[bool] = True
    can_warm_start: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.separate_kernels is True:
            self._check_goes_with("separate_kernels=True", parameterization="whitened")
        check_choice("parameterization", self.parameterization, tuple(FAMILIES))
        check_choice("coupling", self.coupling, COUPLINGS)
        check_flag("tie_label_noise", self.tie_label_noise)
        if self.separate_kernels is not None:
            check_flag("separate_kernels", self.separate_kernels)
        if self.objective is not None:
            check_choice("objective", self.objective, OBJECTIVES)
        if self.natural_gradients is not None and check_flag("natural_gradients", self.natural_gradients):
            self._check_goes_with("natural_gradients=True", parameterization="whitened")
        spread = self.member_spread
        if spread is not None and not 0.1 <= check_positive("member_spread", spread) <= 10.0:
            raise ConfigurationError(f"member_spread={spread!r} must be from 0.1 to 10; 1 leaves members as they are.")

    def _check_goes_with(self, what: str, **needed: object) -> None:
        for name, value in needed.items():
            found = getattr(self, name)
            if found != value:
                raise ConfigurationError(f"{what} cannot be combined with {name}={found!r}; leave {name} at {value!r}.")

    @property
    def conditions_on_all(self) -> bool:
        """Whether q_hat takes in the labels of all rows, and not those of the subset alone."""
        return self.objective in sod_labels.OBJECTIVES

    @property
    def prepares_once(self) -> bool:
        """True but for marginal coupling, where every row needs the covariance of q."""
        return self.coupling != "marginal"

    def supports(self, likelihood: LikelihoodOptions) -> bool:
        """Every likelihood; if its noise varies over rows, only with tied label noise."""
        return likelihood.is_plain or self.tie_label_noise

    def objection_to_weights(self) -> str | None:
        """None with tied label noise: the site of a row that stands for w observations has the variance v / w."""
        objection = "tie_label_noise=False is one label noise for all rows: with sample_weight leave it at True."
        return None if self.tie_label_noise else objection

    def settled(
        self,
        *,
        n_rows: int,
        n_layers: int | None,
        kernel: object,
        likelihood: LikelihoodOptions,
        previous: DeepGP | None = None,
    ) -> SoD:
        """The method with everything decided that depends on the number of rows and the likelihood."""
        if not self.supports(likelihood):
            self._check_goes_with(f"likelihood={likelihood.name!r}", tie_label_noise=True)
        if self.separate_kernels and n_layers == 1:
            raise ConfigurationError("separate_kernels=True needs a hidden layer: use n_layers=2 or more.")
        is_deep = n_layers != 1
        many = n_rows >= MANY_ROWS and is_deep
        separate, objective = self.separate_kernels, self.objective
        natural = sod_sites.moves_q(self.natural_gradients, self.parameterization, likelihood, previous)
        if objective in sod_labels.OBJECTIVES:
            self._check_all_labels(likelihood)
        if objective is None and self._can_use_all_labels(n_rows, likelihood, previous):
            objective = "leave_one_out" if many else "collapsed"
        elif objective is None:
            objective = "predictive" if many and not natural else "bound"
        if separate is None:
            allowed = is_deep and self.parameterization == "whitened"
            enough = many or objective in sod_labels.OBJECTIVES
            # A kernel given as code may not work as a batch; a fit that continues another has that one's kernels.
            wanted = enough and isinstance(kernel, str) if previous is None else previous.has_separate_kernels
            separate = allowed and wanted
        return replace(self, separate_kernels=separate, objective=objective, natural_gradients=natural)

    def _check_all_labels(self, likelihood: LikelihoodOptions) -> None:
        """Raise ConfigurationError for what the objectives with all labels in q_hat cannot be combined with."""
        what = f"objective={self.objective!r}"
        self._check_goes_with(what, parameterization="whitened", coupling="ancestral", tie_label_noise=True)
        if not likelihood.is_plain:
            raise ConfigurationError(
                f"{what} needs Gaussian noise of one variance, not likelihood={likelihood.name!r}; use 'bound' or"
                " 'predictive', or leave objective at None."
            )

    def _can_use_all_labels(self, n_rows: int, likelihood: LikelihoodOptions, previous: DeepGP | None) -> bool:
        """Whether the labels of all rows are in q_hat by default: in tables that a step can see as a whole."""
        plain = self.parameterization == "whitened" and self.coupling == "ancestral" and self.tie_label_noise
        if previous is None:
            enough = n_rows <= ALL_LABELS_ROWS
        else:
            # A fit that continues another is of its kind, whatever the number of rows.
            enough = isinstance(previous.last, SubsetLayer) and not previous.last.trains_q
        return plain and likelihood.is_plain and enough

    def given(self, data: TrainingSet) -> Subset:
        """The subset; where all labels are in q_hat, followed by the other rows."""
        return data.all_rows if self.conditions_on_all else data.subset

    def rows_given(self, size: int, n_rows: int) -> int:
        """As in the contract."""
        return n_rows if self.conditions_on_all else size

    def usual_steps(self, wanted: int, n_rows: int) -> int:
        """A ninth where all labels are in q_hat: such a step sees all rows, and has no last q to train.

        In small tables, whose steps cost little, up to four times as many. A seventh with natural gradients.
        """
        if not self.conditions_on_all:
            return max(1, wanted // 7) if self.natural_gradients else wanted
        return max(1, int(wanted // 9 * min(4.0, max(1.0, _SMALL / n_rows))))

    def usual_layers(self, n_rows: int) -> int:
        """Two where steps are few: a third was not worth its time, but in small tables of numbers."""
        return 2 if self.natural_gradients or (self.conditions_on_all and n_rows >= _SMALL) else 3

    def usual_rate(self, n_layers: int) -> float:
        """Larger where no q has to follow the kernels by gradients: of the last layer, or of any."""
        all_labels = 0.2 if n_layers == 1 else 0.1
        return all_labels if self.conditions_on_all else 0.1 if self.natural_gradients else 0.03

    def depth_rule(self, steps: int) -> tuple[Inference, float] | None:
        """With all labels in q_hat: how well every row is predicted from all the others, once depth had its time."""
        has_one = self.conditions_on_all and steps >= _DEEP_STEPS
        return (replace(self, objective="leave_one_out"), _DEPTH_MARGIN) if has_one else None

    def caution(self, hidden_widths: Sequence[int]) -> str | None:
        """As in the contract: the paper's family is badly conditioned in narrow layers."""
        if self.parameterization != "paper" or all(width > 2 for width in hidden_widths):
            return None
        return (
            "parameterization='paper' with a hidden width of 1 or 2 is badly conditioned: the expected trace of"
            " K(Z_S)^-1 grows without bound as the jitter falls. Use 'whitened', or a wider layer."
        )

    def usual_batch(self, size: int, n_rest: int, least: int) -> int:
        """A twentieth of the data within limits, but at least as many rows as the subset has; all with all labels."""
        if self.conditions_on_all:
            return min(n_rest, ALL_LABELS_ROWS)
        share = min((size + n_rest) // _ROWS_FOR_ONE, _MOST_ROWS)
        return min(max(least, share, size), n_rest)

    def usual_members(self, wanted: int) -> int:
        """As many as the effort allows."""
        return wanted

    def usual_spread(self, n_members: int) -> float:
        """`member_spread`, or by default a factor that falls with the number of members.

        Examples
        --------
        >>> [round(SoD().usual_spread(n), 2) for n in (1, 2, 3, 4, 100)]
        [1.0, 0.9, 0.87, 0.85, 0.8]
        """
        if self.member_spread is not None and n_members > 1:
            return self.member_spread
        return math.sqrt(1.0 - _DISAGREEMENT * (n_members - 1) / n_members)

    def build(self, architecture: Architecture, data: TrainingSet | None, generator: torch.Generator) -> DeepGP:
        """A model with its initial parameters."""
        start, last = architecture.initialization, len(architecture.widths) - 1
        all_labels, moves_q = self.conditions_on_all, bool(self.natural_gradients)
        last_factor = 1.0 if all_labels or moves_q else start.last_factor
        layers = []
        for index, width in enumerate(architecture.widths):
            noise: float | None = None if self.tie_label_noise else start.label_noise_variance
            noise = start.layer_noise_variance if index < last else noise
            has_sites = index == last and not architecture.likelihood.is_conjugate
            per_output = bool(self.separate_kernels) and index == 0 and last > 0
            layer = (SeparateLayer if per_output else SubsetLayer)(
                architecture.kernel_of(index, per_output=per_output, log_scale=all_labels or moves_q),
                architecture.mean_of(index),
                size=architecture.size,
                width=width,
                parameterization=self.parameterization,
                noise_variance=noise,
                has_sites=has_sites,
                factor_scale=last_factor if index == last else start.hidden_factor,
                jitter=architecture.jitter,
                index=index + 1,
                replicates=architecture.replicates,
                trains_q=index < last or not all_labels,
                moves_q=index == last and moves_q,
            )
            layers.append(layer)
        if start.means == "uniform":
            uniform_means(layers, generator)
        elif self.parameterization == "paper" and data is not None:
            prior_means(layers, data.X_s)
        return DeepGP(layers, architecture.build_likelihood(), replicates=architecture.replicates)

    def terms(self, model: DeepGP, batch: Batch, draws: Draws) -> Terms:
        """The terms of eq. (SOD_Elbo), or of an objective with all labels in q_hat."""
        if self.objective in sod_labels.OBJECTIVES:
            return sod_labels.terms(model, batch, draws, self.objective)
        points, kls = model.propagate(Points(batch.X_s, batch.X_b), draws, self.coupling)
        p_s, p_b = model.likelihood.at(batch.X_s, batch.X_b, draws, batch.precision_b)
        p_s, p_b = p_s.weighted(batch.weight_s), p_b.weighted(batch.weight_b)
        last = cast(SubsetLayer, model.layers[-1])
        q_hat = last.label_informed(points, *p_s.sites(batch.y_s))
        density = p_b.log_mixture_density if self.objective == "predictive" else p_b.expected_log_density
        rest, subset = density(batch.y_b, q_hat.rest), p_s.expected_log_density(batch.y_s, q_hat.subset)
        terms = {"rest": batch.scale * rest, "subset": subset}
        kl_noise = model.likelihood.kl(batch.weight_s)
        # Not |=, which the compiler of PyTorch 2.6 cannot follow.
        terms.update({f"kl_{layer}": -kl.mean(-1) for layer, kl in enumerate(kls, start=1)})
        terms["kl_last"] = -q_hat.kl.mean(-1)
        if kl_noise is not None:
            terms["kl_noise"] = -kl_noise.mean(-1)
        return model.with_log_prior(terms)

    def sums_over_rows(self) -> tuple[str, ...]:
        """The densities of the rest; not with all labels in q_hat, nor where all rows are drawn together."""
        if self.conditions_on_all or self.coupling == "joint":
            default = f", the default up to {ALL_LABELS_ROWS:,} rows," if self.conditions_on_all else ""
            what = f"objective={self.objective!r}{default}" if self.conditions_on_all else "coupling='joint'"
            raise ConfigurationError(
                f"{what} ties the rows of a step together, which many processes can therefore not divide; use one"
                " process, or SoD(objective='predictive', coupling='ancestral')."
            )
        return ("rest",)

    def moves(self, model: DeepGP, batch: Batch, draws: Draws, pace: Tensor | float) -> Moves:
        """A natural-gradient step for labels that are not Gaussian; see `sodgp.inference.sod_sites`."""
        return sod_sites.moves(model, batch, draws, pace, self.coupling)

    def predictor(
        self,
        model: DeepGP,
        X_s: Float[Tensor, "*batch 1 M D"],
        y_s: Float[Tensor, "*batch 1 M P"],
        draws: Draws,
        weight_s: Float[Tensor, "*batch 1 M 1"] | None = None,
    ) -> Predictor:
        """Eq. (prediction), with new rows in the place of the batch: one Gaussian for each sample."""
        p_s, _ = model.likelihood.at(X_s, X_s[..., :1, :], draws)
        if self.conditions_on_all:
            return kept_or_drawn(model, X_s, p_s.sites(y_s), draws, weight_s)
        sites = p_s.weighted(weight_s).sites(y_s)
        return kept_or_drawn(model, X_s, sites, draws) if self.prepares_once else MarginalPredictor(model, X_s, sites)

    def carried(
        self,
        model: DeepGP,
        successor: DeepGP,
        old: Subset,
        new: Subset,
        kept: Int[Tensor, " M_new"],
    ) -> dict[str, Parameters]:
        """The distribution q(F_S) transferred through p(F_S' | F_S); see `sodgp.inference.sod_transfer`."""
        sod_sites.carry(model, successor, kept)
        sites = sod_sites.of_labels(model, old), sod_sites.of_labels(successor, new)
        moved = sod_transfer.carried(model, old, new, kept, *sites)
        if not self.conditions_on_all:
            return moved
        # The last q is the prior, of which nothing has to be carried.
        last = cast(SubsetLayer, successor.last)
        return {name: [*q[:-1], (last.q_mean, last.q_factor)] for name, q in moved.items()}

    def training_numbers(self, architecture: Architecture, n_rows: int, batch_rows: int, n_samples: int) -> float:
        """As in the contract; the couplings differ in the size of their draws."""
        return sod_memory.of_training(
            architecture,
            batch_rows,
            n_samples,
            coupling=self.coupling,
            separate_kernels=bool(self.separate_kernels),
        )

    def prediction_numbers(self, model: DeepGP, n_samples: int, n_given: int = 0) -> tuple[float, float]:
        """As in the contract."""
        differ = self.samples_differ(model)
        return sod_memory.of_prediction(
            model, n_samples, n_given, samples_differ=differ, prepares_once=self.prepares_once
        )
