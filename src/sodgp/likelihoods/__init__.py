"""p(y | f): the noise of the observations in all its forms, one file each.

Imports `predictive`, `layers` and below; models own one likelihood each.
"""

from sodgp.likelihoods.gaussian import Gaussian
from sodgp.likelihoods.heavy_tailed import HeavyTailed
from sodgp.likelihoods.heteroscedastic import Heteroscedastic

__all__ = ["Gaussian", "HeavyTailed", "Heteroscedastic"]
