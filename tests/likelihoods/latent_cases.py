"""Every likelihood that is not Gaussian and whose outputs are independent given f, with labels that suit it."""

import torch
from noisy import draws
from problems import randn

from sodgp.likelihoods import Bernoulli, NegativeBinomial, Poisson, StudentT
from sodgp.likelihoods.contract import Sizes

ORDER = 32
OPTIONS = {
    "logit": Bernoulli(quadrature_order=ORDER),
    "probit": Bernoulli(link="probit", quadrature_order=ORDER),
    "poisson": Poisson(quadrature_order=ORDER),
    "negative_binomial": NegativeBinomial(dispersion=0.4, quadrature_order=ORDER),
    "student_t": StudentT(df=5.0),
}
LABELS = {"classes": [0.0, 1.0, 1.0, 0.0], "counts": [0.0, 1.0, 3.0, 12.0], "numbers": [-3.0, 0.1, 0.5, 2.0]}


def built(name, offset=0.3):
    """The module with an offset, at two outputs."""
    options = OPTIONS[name]
    likelihood = options.build(Sizes(subset=4, input_dim=2, n_outputs=2, noise_variance=0.5))
    with torch.no_grad():
        likelihood.offset.copy_(torch.tensor([offset, -offset]))
    return likelihood


def rows(likelihood, n_samples=3):
    """p(y | f) at four rows."""
    X = torch.zeros(1, 4, 2, dtype=torch.float64)
    return likelihood.at(X, X, draws(n_samples))[1]


def labels(name):
    """Four rows of two outputs."""
    column = torch.tensor(LABELS[OPTIONS[name].targets], dtype=torch.float64)
    return torch.stack([column, column.flip(0)], -1)[None]


def moments():
    """Means and variances of f, [3, 4, 2]."""
    return 0.7 * randn(1, 3, 4, 2), 0.1 + 0.5 * randn(2, 3, 4, 2).square().clamp_max(2.0)


def integrated(function, mean, variance, count=8001):
    """E function(f) by a dense sum over +-10 standard deviations."""
    x = torch.linspace(-10.0, 10.0, count, dtype=torch.float64).reshape(-1, 1, 1, 1)
    weights = torch.exp(-0.5 * x.square())
    return (weights / weights.sum() * function(mean + variance.sqrt() * x)).sum(0)
