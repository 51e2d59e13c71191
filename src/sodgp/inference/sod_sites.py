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
from torch import Tensor

from sodgp.inference.contract import Batch, Moves
from sodgp.layers.contract import Points
from sodgp.layers.subset import SubsetLayer
from sodgp.linalg.draws import Draws
from sodgp.model.deep_gp import DeepGP

__all__ = ["STEP", "moves"]

STEP = 0.3
"""rho at the initial learning rate, with which it falls; at most 0.5."""


@torch.no_grad()
def moves(model: DeepGP, batch: Batch, draws: Draws, pace: Tensor | float, coupling: str) -> Moves:
    """The next values of the sites, if the last layer has some."""
    last = cast(SubsetLayer, model.last)
    if not last.has_sites:
        return []
    # One other row, since kernels of users may not accept empty inputs.
    points, _ = model.propagate(Points(batch.X_s, batch.X_s[..., :1, :]), draws, coupling)
    p_s, _ = model.likelihood.at(batch.X_s, batch.X_s[..., :1, :], draws)
    targets = p_s.natural_sites(batch.y_s, *last.label_informed(points).subset.rows())
    rho = STEP * pace
    return [
        (old, old + rho * (target.mean(-3) - old))
        for old, target in zip((last.lambda_1, last.lambda_2), targets, strict=True)
    ]
