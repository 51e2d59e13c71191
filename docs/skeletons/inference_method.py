"""Skeleton of an inference method: copy it, rename it, replace `terms`.

This one works: doubly stochastic inference whose data term is the log of the *mean* density over the Monte Carlo
samples, the density that a prediction is scored by (Jankowiak, Pleiss and Gardner 2020 call such objectives
predictive). It is no lower bound of the log evidence. DSVI has it too, as ``DSVI(objective="predictive")``, which
the tests use as a check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import torch

from sodgp.inference.contract import Batch, Terms, TrainingSet
from sodgp.inference.inducing import InducingMethod, inducing_layers
from sodgp.layers.contract import Points
from sodgp.layers.inducing import InducingLayer
from sodgp.linalg.draws import Draws
from sodgp.model.architecture import Architecture
from sodgp.model.deep_gp import DeepGP
from sodgp.predictive.density import log_mixture
from sodgp.system.validation import check_positive


@dataclass(frozen=True, kw_only=True)
class PredictiveDensity(InducingMethod):
    """An objective with the layers of DSVI.

    With B rows of the data and T samples of f^1 .. f^(L-1)::

        N/B  sum_{n in B} log 1/T sum_t E[p(y_n | f_n) | sample t]  -  beta sum_l KL(q(U^l) || p(U^l))

    Parameters
    ----------
    beta : float
        Weight of the KL terms.
    """

    # Options are fields: checked below, and reached by `set_params(inference__beta=...)`.
    beta: float = 1.0

    name: ClassVar[str] = "predictive_density"
    # Arguments of DeepGPRegressor that mean nothing here: they are refused, not ignored.
    unused_options: ClassVar[tuple[str, ...]] = ("subset",)

    def __post_init__(self) -> None:
        check_positive("beta", self.beta)

    @property
    def objective(self) -> str:
        """No bound."""
        return "predictive"

    def build(self, architecture: Architecture, data: TrainingSet | None, generator: torch.Generator) -> DeepGP:
        """A model at its initial values. `data` is None for a model that is about to be loaded or stacked."""
        layers = inducing_layers(architecture, data, generator, learn_inducing_inputs=True, is_point=False)
        return DeepGP(layers, architecture.build_likelihood(), replicates=architecture.replicates)

    def terms(self, model: DeepGP, batch: Batch, draws: Draws) -> Terms:
        """Named terms whose sum is maximised, each of shape [*replicates]. Pure: no state, no global seed."""
        points, kls = model.propagate(Points(batch.X_s, batch.X_b), draws, "marginal")
        last = cast(InducingLayer, model.last)
        _, p_b = model.likelihood.at(batch.X_s, batch.X_b, draws)  # p(y | f) at the rows of the batch
        densities = p_b.log_predictive_density(batch.y_b, *last.marginals(points.rest))  # [*replicates, T, B, P]
        terms = {"rest": batch.scale * log_mixture(densities).sum((-2, -1))}
        terms |= {f"kl_{layer}": -self.beta * kl.mean(-1) for layer, kl in enumerate(kls, start=1)}
        terms["kl_last"] = -self.beta * last.kl().mean(-1)
        return model.with_log_prior(terms)
