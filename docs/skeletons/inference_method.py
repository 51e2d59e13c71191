"""Skeleton of an inference method: copy it, rename it, replace `terms`.

This one works: doubly stochastic inference whose data term is the log of the *mean* density over the Monte Carlo
samples, the density that a prediction is scored by (Jankowiak, Pleiss and Gardner 2020 call such objectives
predictive). It is no lower bound of the log evidence. DSVI has it too, as ``predictive_weight=1``, which the tests use
as a check.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import Normal

from sodgp.inference.contract import Batch, Terms, TrainingSet
from sodgp.inference.inducing import inducing_layers
from sodgp.layers.contract import Points
from sodgp.linalg.draws import Draws
from sodgp.model.architecture import Architecture
from sodgp.model.deep_gp import DeepGP


@dataclass(frozen=True)
class PredictiveDensity:
    """An objective with the layers of DSVI.

    With B rows of the data and T samples of f^1 .. f^(L-1), m and V the last layer's moments at each::

        N/B  sum_{n in B} log 1/T sum_t N(y_n; m_tn, V_tn + sigma^2)  -  beta sum_l KL(q(U^l) || p(U^l))

    Parameters
    ----------
    beta : float
        Weight of the KL terms.
    """

    beta: float = 1.0
    # The contract: a name, and whether a subset of the data is set apart.
    name: str = "predictive_density"
    uses_subset: bool = False

    def build(self, architecture: Architecture, data: TrainingSet | None, generator: torch.Generator) -> DeepGP:
        """A model at its initial values. `data` is None for a model that is about to be loaded or stacked."""
        layers = inducing_layers(architecture, data, generator, learn_inducing_inputs=True, is_point=False)
        return DeepGP(
            layers,
            n_outputs=architecture.n_outputs,
            noise_variance=architecture.initialization.noise_variance,
            replicates=architecture.replicates,
        )

    def terms(self, model: DeepGP, batch: Batch, draws: Draws) -> Terms:
        """Named terms whose sum is maximised, each of shape [*replicates]. Pure: no state, no global seed."""
        points, kls = model.propagate(Points(batch.X_s, batch.X_b), draws, "marginal")
        mean, variance = model.last.marginals(points.rest)  # [*replicates, T, B, P]
        total = variance + model.noise_variance[..., None, :]
        densities = Normal(mean, total.sqrt()).log_prob(batch.y_b)
        log_mean = densities.logsumexp(-3) - math.log(densities.shape[-3])
        terms = {"rest": batch.scale * log_mean.sum((-2, -1))}
        terms |= {f"kl_{layer}": -self.beta * kl.mean(-1) for layer, kl in enumerate(kls, start=1)}
        terms["kl_last"] = -self.beta * model.last.kl().mean(-1)
        return model.with_log_prior(terms)

    def predict(self, model: DeepGP, X_s: Tensor, y_s: Tensor, X: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """Mean and variance of f at X for every sample, each [*replicates, T, N, P]."""
        points, _ = model.propagate(Points(X_s, X), draws, "marginal")
        return model.last.marginals(points.rest)

    def predict_joint(self, model: DeepGP, X_s: Tensor, y_s: Tensor, X: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """Mean [..., T, N, P] and covariance [..., T, P, N, N] of f at X, drawn jointly through the layers."""
        points, _ = model.propagate(Points(X_s, X), draws, "joint")
        return model.last.joint_moments(points.rest)
