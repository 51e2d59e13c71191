"""The sites of labels that are not Gaussian: natural-gradient steps (conjugate-computation variational inference).

q_hat is q(F_S) times the sites exp(lambda_1n f_n - lambda_2n f_n^2 / 2), normalised for each Z_S. Under it f_n ~ N(m_n,
v_n) given Z_S. With e(m, v) = E log p(y_n | f_n) a step of size rho is

    lambda_2 <- (1 - rho) lambda_2 + rho <-2 de/dv>
    lambda_1 <- (1 - rho) lambda_1 + rho <de/dm - 2 de/dv m_n>

where <.> is the mean over the Monte Carlo samples of Z_S. A mirror step in the space of expectation parameters: the
bound is maximised by its fixed point, which Gaussian likelihoods reach at once.

References
----------
Khan, Lin (2017). Conjugate-computation variational inference: converting variational inference in non-conjugate models
to inferences in conjugate models. AISTATS.
"""

from __future__ import annotations

from typing import cast

import torch
from jaxtyping import Int
from torch import Tensor

from sodgp.inference.contract import Batch, Moves, Subset
from sodgp.layers.contract import Points
from sodgp.layers.subset import SubsetLayer
from sodgp.likelihoods.contract import NaturalSites, Sites
from sodgp.linalg.draws import Draws, FreshDraws
from sodgp.model.deep_gp import DeepGP

__all__ = ["STEP", "carry", "moves", "of_labels"]

STEP = 0.1
"""rho at the initial learning rate, with which it falls.

From 0.1 to 0.5 it made no difference to classes and counts; Student's t, which is not log-concave, wants small steps.
"""


@torch.no_grad()
def moves(model: DeepGP, batch: Batch, draws: Draws, pace: Tensor | float, coupling: str) -> Moves:
    """The next values of the sites, if the last layer has some."""
    last = cast(SubsetLayer, model.last)
    if not last.has_sites:
        return []
    # One other row, since kernels of users may not accept empty inputs.
    points, _ = model.propagate(Points(batch.X_s, batch.X_s[..., :1, :]), draws, coupling)
    p_s, _ = model.likelihood.at(batch.X_s, batch.X_s[..., :1, :], draws)
    p_s = p_s.weighted(batch.weight_s)
    targets = p_s.natural_sites(batch.y_s, *last.label_informed(points).subset.rows())
    rho = STEP * pace
    return [
        (old, old + rho * (target.mean(-3) - old))
        for old, target in zip((last.lambda_1, last.lambda_2), targets, strict=True)
    ]


@torch.no_grad()
def of_labels(model: DeepGP, subset: Subset) -> NaturalSites:
    """The sites of a subset's labels in the model's q_hat, Gaussian labels included, [M, P] each."""
    last = cast(SubsetLayer, model.last)
    if last.has_sites:
        return NaturalSites(last.lambda_1, last.lambda_2)
    X, y = subset.X.unsqueeze(0), subset.y.unsqueeze(0)
    p_s, _ = model.likelihood.at(X, X[:, :1], FreshDraws(torch.Generator(), 1))
    weight = None if subset.weight is None else subset.weight.unsqueeze(0)
    label, variance = cast(Sites, p_s.weighted(weight).sites(y))
    v = last.label_noise(variance)
    return NaturalSites((label / v).squeeze(0), v.reciprocal().expand_as(label).squeeze(0))


@torch.no_grad()
def carry(model: DeepGP, successor: DeepGP, kept: Int[Tensor, " M_new"]) -> None:
    """Give the successor the sites of the rows that both models have; new rows begin without."""
    old, new = cast(SubsetLayer, model.last), cast(SubsetLayer, successor.last)
    if new.has_sites:
        for ours, theirs in ((new.lambda_1, old.lambda_1), (new.lambda_2, old.lambda_2)):
            ours.copy_(torch.where((kept >= 0).unsqueeze(-1), theirs[kept.clamp_min(0)], 0.0))
