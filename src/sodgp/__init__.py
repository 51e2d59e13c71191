"""Deep Gaussian processes whose inducing points are a subset of the data."""

from sodgp.ensembles import DeepGPEnsemble
from sodgp.estimators import DeepGPRegressor
from sodgp.predictive import GaussianMixture
from sodgp.replicates import fit_replicates

__version__ = "0.1.0"
__all__ = ["DeepGPEnsemble", "DeepGPRegressor", "GaussianMixture", "__version__", "fit_replicates"]
