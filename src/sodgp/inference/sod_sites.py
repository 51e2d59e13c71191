"""Labels that are not Gaussian: natural-gradient steps (conjugate-computation variational inference).

q_hat is q(F_S) times the sites exp(lambda_1n f_n - lambda_2n f_n^2 / 2), normalised for each Z_S. Under it f_n ~ N(m_n,
v_n) given Z_S. With e(m, v) = E log p(y_n | f_n) a step of size rho is

    lambda_2 <- (1 - rho) lambda_2 + rho <-2 de/dv>
    lambda_1 <- (1 - rho) lambda_1 + rho <de/dm - 2 de/dv m_n>

where <.> is the mean over the Monte Carlo samples of Z_S. A mirror step in the space of expectation parameters: the
bound is maximised by its fixed point, which Gaussian likelihoods reach at once.

The same step moves the whitened q = N(m, C C') of the last layer by the labels of the rest. With the natural parameters
P = (C C')^-1 and P m, A = L^-1 K_SB, and lambda_1, lambda_2 of the batch's rows under q_hat, as above:

    P   <- (1 - rho) P   + rho (I + (N - M)/B <A diag(lambda_2) A'>)
    P m <- (1 - rho) P m + rho (N - M)/B <A (lambda_1 - lambda_2 mean(Z_B))>

References
----------
Khan, Lin (2017). Conjugate-computation variational inference: converting variational inference in non-conjugate models
to inferences in conjugate models. AISTATS.

Salimbeni, Eleftheriadis, Hensman (2018). Natural gradients in practice: non-conjugate variational inference in Gaussian
process models. AISTATS.
"""

from __future__ import annotations

from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sodgp.errors import ConfigurationError
from sodgp.inference.contract import Batch, Moves, Subset
from sodgp.layers.contract import Points
from sodgp.layers.marginals import RestMarginals
from sodgp.layers.subset import SubsetLayer
from sodgp.likelihoods.contract import LikelihoodOptions, NaturalSites, Sites
from sodgp.linalg.cholesky import Jitter, factorise, inverse_triangular
from sodgp.linalg.draws import Draws, FreshDraws
from sodgp.model.deep_gp import DeepGP

__all__ = ["STEP", "STEP_OF_Q", "carry", "moves", "moves_q", "of_labels"]

STEP = 0.1
"""rho at the initial learning rate, with which it falls.

From 0.1 to 0.5 it made no difference to classes and counts; Student's t, which is not log-concave, wants small steps.
"""


STEP_OF_Q = 0.3
"""rho of q, likewise."""


def moves_q(
    asked: bool | None, parameterization: str, likelihood: LikelihoodOptions, previous: DeepGP | None
) -> bool | None:
    """Whether q of the last layer follows these steps: as asked, or by default wherever there are sites to move.

    None where the question has no meaning.

    Raises
    ------
    ConfigurationError
        It was asked for, and the likelihood is Gaussian.
    """
    if asked and likelihood.is_conjugate:
        raise ConfigurationError(
            f"natural_gradients=True is for labels that are not Gaussian, and likelihood={likelihood.name!r} has"
            " Gaussian ones: leave natural_gradients at None."
        )
    if asked is not None or parameterization != "whitened" or likelihood.is_conjugate:
        return asked
    # A fit that continues another is of its kind.
    return previous is None or (isinstance(previous.last, SubsetLayer) and previous.last.moves_q)


@torch.no_grad()
def moves(model: DeepGP, batch: Batch, draws: Draws, pace: Tensor | float, coupling: str) -> Moves:
    """The next values of the sites, if the last layer has some, and of its q, if that follows no gradient."""
    last = cast(SubsetLayer, model.last)
    if not last.has_sites:
        return []
    sees_rest = last.moves_q and batch.X_b.shape[-2] > 0
    # Otherwise one other row, since kernels of users may not accept empty inputs.
    X_b = batch.X_b if sees_rest else batch.X_s[..., :1, :]
    points, _ = model.propagate(Points(batch.X_s, X_b), draws, coupling)
    p_s, p_b = model.likelihood.at(batch.X_s, X_b, draws)
    p_s, p_b = p_s.weighted(batch.weight_s), p_b.weighted(batch.weight_b if sees_rest else None)
    cond, q_hat, mean_b = last.conditioned_on_labels(points)
    targets = p_s.natural_sites(batch.y_s, q_hat.mean, q_hat.f.variance)
    rho = STEP * pace
    found = [
        (old, old + rho * (target.mean(-3) - old))
        for old, target in zip((last.lambda_1, last.lambda_2), targets, strict=True)
    ]
    if last.moves_q:
        labels = None
        if sees_rest:
            mean, variance = RestMarginals(cond, q_hat.w, mean_b).rows()
            sites = p_b.natural_sites(batch.y_b, mean, variance)
            labels = _absorbed(cond.A, sites, mean_b, batch.scale)
        found += _moved(last, labels, STEP_OF_Q * pace)
    return found


def _absorbed(
    A: Float[Tensor, "*batch #T M B"], sites: NaturalSites, mean_b: Float[Tensor, "*batch #T B P"], scale: float
) -> tuple[Float[Tensor, "*replicates P M M"], Float[Tensor, "*replicates M P"]]:
    """What the labels of the rest add to P and P m, averaged over the samples."""
    wide = A.unsqueeze(-3)
    precision = ((wide * sites.lambda_2.mT.unsqueeze(-2)) @ wide.mT).mean(-4)
    return scale * precision, scale * (A @ (sites.lambda_1 - sites.lambda_2 * mean_b)).mean(-3)


def _moved(
    last: SubsetLayer,
    labels: tuple[Float[Tensor, "*replicates P M M"], Float[Tensor, "*replicates M P"]] | None,
    rho: Tensor | float,
) -> Moves:
    """A step of size rho of q from the labels of the rest; None without a rest."""
    eye = torch.eye(last.q_factor.shape[-1], dtype=last.q_factor.dtype, device=last.q_factor.device)
    C_inv = inverse_triangular(last.q_factor.tril())
    P = C_inv.mT @ C_inv
    added, slope = (0.0, 0.0) if labels is None else labels
    natural = (1.0 - rho) * _each(P, last.q_mean) + rho * slope
    # P = U U' with an upper U, whose inverse is the transpose of a lower factor of the covariance.
    turned = ((1.0 - rho) * P + rho * (eye + added)).flip(-2, -1)
    C = factorise(turned, Jitter(0.0), what="the precision of q").inverse_value.flip(-2, -1).mT
    return [(last.q_mean, _each(C @ C.mT, natural)), (last.q_factor, C)]


def _each(S: Float[Tensor, "*out P M M"], columns: Float[Tensor, "*c M P"]) -> Float[Tensor, "*out M P"]:
    """S_p times column p."""
    return (S @ columns.mT.unsqueeze(-1)).squeeze(-1).mT


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
