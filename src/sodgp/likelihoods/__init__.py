"""The likelihoods p(y | f), one file each, behind the protocols of `sodgp.likelihoods.contract`.

Imports `predictive`, `layers` and below; every model owns one likelihood.
"""

from sodgp.likelihoods.bernoulli import Bernoulli
from sodgp.likelihoods.dirichlet import Dirichlet
from sodgp.likelihoods.gaussian import Gaussian
from sodgp.likelihoods.heavy_tailed import HeavyTailed
from sodgp.likelihoods.heteroscedastic import Heteroscedastic
from sodgp.likelihoods.negative_binomial import NegativeBinomial
from sodgp.likelihoods.poisson import Poisson
from sodgp.likelihoods.softmax import Softmax
from sodgp.likelihoods.student_t import StudentT

__all__ = [
    "Bernoulli",
    "Dirichlet",
    "Gaussian",
    "HeavyTailed",
    "Heteroscedastic",
    "NegativeBinomial",
    "Poisson",
    "Softmax",
    "StudentT",
]
