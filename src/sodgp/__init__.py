"""Deep Gaussian processes whose inducing points are a subset of the data."""

from sodgp.estimators import DeepGPRegressor
from sodgp.predictive import GaussianMixture

__version__ = "0.1.0"
__all__ = ["DeepGPRegressor", "GaussianMixture", "__version__"]
