"""SoD-VI with the labels of all rows in q_hat: the last layer has no q to train.

Given one draw of the hidden layers the last layer is Gaussian. Where q(F_S) before the labels is the prior, and q_hat
takes in the labels of the subset *and* of the rest, everything about it is closed. In the coordinates w, with
A = L^-1 K_S,all (M x N), V_n the variance of row n given F_S, and Gaussian noise of variance v::

    q_hat(w) = N(c, S),   S = Q^-1,   Q = I + A A' / v,   c = S A y / v
    mu_n = A_n' c,   h_n = A_n' S A_n / v

A row that stands for w_n observations has the noise variance v / w_n in q_hat: A' -> diag(w)^(1/2) A', and likewise y.

Two objectives, each minus the hidden KLs. ``"collapsed"`` averages over the draws of Z

    log N(y; 0, A'A + v I) - sum_n V_n / (2 v) = - (N log 2 pi v + log |Q| + y'(y - mu) / v + sum_n V_n / v) / 2

With weights N is their sum, and V_n counts w_n times: w_n equal labels. With one layer it is the bound whose q is
optimal for every kernel. ``"leave_one_out"`` is sum_n w_n log 1/T sum_t of

    p(y_n | all other labels, Z) = N( (mu_n - h_n y_n) / (1 - h_n),  A_n' S A_n / (1 - h_n) + V_n + v )

A row is left out as a whole, with its weight in h_n: were w_n - 1 equal labels left, they would give y_n away, and the
noise would go to zero.

With hidden layers neither is a bound of the evidence: q_hat depends on all rows, whose Z are drawn one by one. Nor is
the second a validation score, since the hidden q has seen y_n.

References
----------
Titsias (2009). Variational learning of inducing variables in sparse Gaussian processes. AISTATS.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor

from sodgp.inference.contract import Batch, Terms
from sodgp.kernels.dense import covariance
from sodgp.layers.contract import Layer, Points
from sodgp.layers.families import Gaussian
from sodgp.layers.prior import condition
from sodgp.likelihoods.rows import RowWeight
from sodgp.linalg.draws import Draws
from sodgp.linalg.label_rows import LabelRows, posterior_factor
from sodgp.model.deep_gp import DeepGP
from sodgp.predictive.density import log_mixture

__all__ = ["OBJECTIVES", "given_labels", "leave_one_out", "log_evidence", "terms"]

OBJECTIVES = ("collapsed", "leave_one_out")

# Numbers in the largest temporary where rows with labels go in blocks, over all samples.
_BLOCK_ELEMENTS = 2**20

Inputs = Float[Tensor, "*batch #T N D"]
SubsetInputs = Float[Tensor, "*batch #T M D"]
Labels = Float[Tensor, "*#batch #T N P"]
Noise = Float[Tensor, "*#batch 1 1 P"]


def log_evidence(
    layer: Layer, Z_s: SubsetInputs, Z: Inputs, y: Labels, v: Noise, weight: RowWeight | None = None
) -> Float[Tensor, "*batch T"]:
    """The collapsed objective for each draw of Z; parameters as of `leave_one_out`."""
    cond = condition(layer.kernel, Z_s, Z, layer.jitter, layer=layer.index)
    residual, K, k = y - layer.mean(Z), cond.K_sb, cond.k_bb
    count: int | Tensor = y.shape[-2]
    if weight is not None:
        residual, K, k = residual * weight.sqrt(), K * weight.sqrt().mT, k * weight.squeeze(-1)
        count = weight.sum(-2, keepdim=True)
    mu, _, known, log_det = LabelRows.apply(cond.factor.E, cond.factor.inverse_value, K, residual, v, False)
    unexplained = (k - known).clamp_min(0.0).sum(-1)[..., None, None]
    squares = (residual * (residual - mu)).sum(-2, keepdim=True) + unexplained
    constant = count * (math.log(2.0 * math.pi) + v.log()) + log_det.unsqueeze(-2)
    return -0.5 * (constant + squares / v).sum((-2, -1))


def leave_one_out(
    layer: Layer, Z_s: SubsetInputs, Z: Inputs, y: Labels, v: Noise, weight: RowWeight | None = None
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
    weight : Tensor of shape [..., 1, N, 1], optional
        How many observations each row stands for.
    """
    cond = condition(layer.kernel, Z_s, Z, layer.jitter, layer=layer.index)
    mean = layer.mean(Z)
    residual = y - mean
    E, L_inv, K = cond.factor.E, cond.factor.inverse_value, cond.K_sb
    if weight is None:
        mu, explained, known, _ = LabelRows.apply(E, L_inv, K, residual, v, True)
        h = explained / v
    else:
        root = weight.sqrt()
        mu, explained, known, _ = LabelRows.apply(E, L_inv, K * root.mT, residual * root, v, True)
        h = explained / v
        mu, explained, known = mu / root, explained / weight, known / weight.squeeze(-1)
    # With noise near its floor and as many inducing points as rows, rounding takes 1 - h.
    left = (1.0 - h).clamp_min(torch.finfo(v.dtype).eps ** 0.5)
    unexplained = (cond.k_bb - known).clamp_min(0.0).unsqueeze(-1)
    return mean + (mu - h * residual) / left, explained / left + unexplained


def terms(model: DeepGP, batch: Batch, draws: Draws, objective: str) -> Terms:
    """The named terms of either objective; a batch stands for all rows of the rest, also as those with labels."""
    points, kls = model.propagate(Points(batch.X_s, batch.X_b), draws, "ancestral")
    p, _ = model.likelihood.at(batch.X_s, batch.X_b, draws)
    y, Z, v = torch.cat([batch.y_s, batch.y_b], -2), torch.cat(points, -2), p.noise_variance(drawn=False)
    size, n_batch = batch.X_s.shape[-2], batch.X_b.shape[-2]
    weight = None
    if batch.weight_s is not None and batch.weight_b is not None:
        weight = torch.cat([batch.weight_s, batch.weight_b], -2)
        size_w, batch_w = (part.sum((-3, -2, -1)) for part in (batch.weight_s, batch.weight_b))
    if objective == "collapsed":
        share: float | Tensor = (size + batch.scale * n_batch) / (size + n_batch)
        if weight is not None:
            share = (size_w + batch.scale * batch_w) / (size_w + batch_w)
        found = {"labels": share * log_evidence(model.last, points.subset, Z, y, v, weight).mean(-1)}
    else:
        mean, variance = leave_one_out(model.last, points.subset, Z, y, v, weight)
        each = log_mixture(p.log_predictive_density(y, mean, variance)).sum(-1)
        each = each if weight is None else each * weight[..., 0, :, 0]
        found = {"rest": batch.scale * each[..., size:].sum(-1), "subset": each[..., :size].sum(-1)}
    found.update({f"kl_{layer}": -kl.mean(-1) for layer, kl in enumerate(kls, start=1)})
    return model.with_log_prior(found)


def given_labels(
    layer: Layer,
    Z_s: SubsetInputs,
    L_inv: Float[Tensor, "*batch #T M M"],
    parts: Iterable[tuple[Inputs, Labels, RowWeight | None]],
    v: Noise,
) -> Gaussian:
    """q_hat of w in the last layer, for rows with labels that come in parts.

    Parameters
    ----------
    layer : Layer
    Z_s : Tensor of shape [..., T, M, D]
    L_inv : Tensor of shape [..., T, M, M]
    parts : iterable of triples of Tensor of shape [..., T, n, D], [..., 1, n, P] and [..., 1, n, 1]
        The layer's inputs at rows with labels, the labels, and the rows' weights or None.
    v : Tensor of shape [..., 1, 1, P]
    """
    # Rows in blocks, whose covariances with the subset are small beside what else a prediction needs.
    size = max(1, _BLOCK_ELEMENTS // Z_s[..., 0].numel())
    gram = Ay = Z_s.new_zeros(())
    for Z_all, y_all, weight in parts:
        for rows in range(0, max(1, Z_all.shape[-2]), size):
            Z, y = Z_all[..., rows : rows + size, :], y_all[..., rows : rows + size, :]
            A, residual = L_inv @ covariance(layer.kernel, Z_s, Z), y - layer.mean(Z)
            if weight is not None:
                root = weight[..., rows : rows + size, :].sqrt()
                A, residual = A * root.mT, residual * root
            gram, Ay = gram + A @ A.mT, Ay + A @ residual
    _, root = posterior_factor(gram, v)
    columns = root.mT @ (root @ Ay.mT.unsqueeze(-1))
    return Gaussian(columns.squeeze(-1).mT / v, root.mT)
