"""SoD-VI with the labels of all rows in q_hat: each row is predicted from the labels of all others.

Given one draw of the hidden layers, the last layer is Gaussian: with q(F_S) = p(F_S | Z_S) in front of the labels, and
the labels of the subset *and* of the rest in q_hat, nothing of q is left to train there. In the coordinates w, with
A = L^-1 K_S,all (M x N), V_n the variance of row n given F_S, and Gaussian noise v::

    q_hat(w) = N(c, S),   S = (I + A A' / v)^-1,   c = S A y / v
    mu_n = A_n' c,   h_n = A_n' S A_n / v
    p(y_n | all other labels, Z) = N( (mu_n - h_n y_n) / (1 - h_n),  A_n' S A_n / (1 - h_n) + V_n + v )

The objective is the sum over rows of the log of this density, averaged over the draws of Z, minus the hidden KLs. It is
no bound of the evidence, and no validation score either: the hidden q has seen y_n.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from sodgp.inference.contract import Batch, Terms
from sodgp.layers.contract import Layer, Points
from sodgp.layers.families import Gaussian
from sodgp.layers.prior import condition
from sodgp.linalg.cholesky import inverse_triangular
from sodgp.linalg.draws import Draws
from sodgp.linalg.label_rows import LabelRows, posterior_factor
from sodgp.model.deep_gp import DeepGP
from sodgp.predictive.density import log_mixture

__all__ = ["leave_one_out", "leave_one_out_terms", "posterior"]

Rows = Float[Tensor, "*batch #T N D"]


def leave_one_out(
    layer: Layer, Z_s: Float[Tensor, "*batch #T M D"], Z: Rows, y: Float[Tensor, "*batch #T N P"], v: Float[Tensor, "*v 1 1 P"]
) -> tuple[Float[Tensor, "*batch T N P"], Float[Tensor, "*batch T N P"]]:
    """Mean and variance of f at every row of Z, given the labels of all the other rows.

    Parameters
    ----------
    layer : Layer
    Z_s, Z : Tensor of shape [..., T, M, D] and [..., T, N, D]
        The layer's inputs at the subset, and at all rows with labels.
    y : Tensor of shape [..., 1, N, P]
    v : Tensor of shape [..., 1, 1, P]
        Noise variance.
    """
    cond = condition(layer.kernel, Z_s, Z, layer.jitter, layer=layer.index)
    mean = layer.mean(Z)
    residual = y - mean
    mu, explained, known = LabelRows.apply(cond.factor.E, cond.factor.inverse_value, cond.K_sb, residual, v)
    h = explained / v
    # With noise near its floor and as many inducing points as rows, 1 - h is lost to rounding.
    left = (1.0 - h).clamp_min(torch.finfo(y.dtype).eps ** 0.5)
    unexplained = (cond.k_bb - known).clamp_min(0.0).unsqueeze(-1)
    return mean + (mu - h * residual) / left, explained / left + unexplained


def leave_one_out_terms(model: DeepGP, batch: Batch, draws: Draws, coupling: str) -> Terms:
    """The terms of the objective: the rows of the rest, those of the subset, and the hidden KLs."""
    points, kls = model.propagate(Points(batch.X_s, batch.X_b), draws, coupling)
    p, _ = model.likelihood.at(batch.X_s, batch.X_b, draws)
    y = torch.cat([batch.y_s, batch.y_b], -2)
    v = p.noise_variance(drawn=False)
    mean, variance = leave_one_out(model.last, points.subset, torch.cat(points, -2), y, v)
    import os
    W = float(os.environ.get("W", "1"))
    lp = p.log_predictive_density(y, mean, variance)
    each = (W * log_mixture(lp) + (1 - W) * lp.mean(-3)).sum(-1) if W < 1 else log_mixture(lp).sum(-1)
    size = batch.X_s.shape[-2]
    terms = {"rest": batch.scale * each[..., size:].sum(-1), "subset": each[..., :size].sum(-1)}
    terms.update({f"kl_{layer}": -kl.mean(-1) for layer, kl in enumerate(kls, start=1)})
    return model.with_log_prior(terms)


def posterior(
    gram: Float[Tensor, "*batch T M M"], Ay: Float[Tensor, "*batch T M P"], v: Float[Tensor, "*v 1 1 P"]
) -> Gaussian:
    """q_hat in the coordinates w, given the sums A A' and A y over all rows with labels."""
    root = inverse_triangular(posterior_factor(gram, v)).mT
    columns = (root @ (root.mT @ Ay.mT.unsqueeze(-1))).squeeze(-1).mT
    return Gaussian(columns / v, root)
