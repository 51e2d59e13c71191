"""On scikit-learn's diabetes set, where depth is worth nothing, the defaults are no worse than an exact GP."""

import warnings

import numpy as np
from scipy.stats import norm
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.preprocessing import StandardScaler

from sodgp import DeepGPRegressor
from sodgp.data import paper_split
from sodgp.estimator.many import fit_replicates

X, Y = load_diabetes(return_X_y=True)
SPLITS = [paper_split(len(X), split) for split in range(3)]


def of_exact_gp(train, test):
    """NLPP of every test row in original units; standardised by the training part, as inside our estimator."""
    inputs, targets = StandardScaler().fit(X[train]), StandardScaler().fit(Y[train, None])
    kernel = ConstantKernel() * RBF(np.full(X.shape[1], X.shape[1] ** 0.5)) + WhiteKernel()
    with warnings.catch_warnings():
        # Lengthscales of inputs that do not matter run to their upper bound.
        warnings.simplefilter("ignore", ConvergenceWarning)
        gp = GaussianProcessRegressor(kernel).fit(inputs.transform(X[train]), targets.transform(Y[train, None])[:, 0])
    mean, std = gp.predict(inputs.transform(X[test]), return_std=True)
    return -norm.logpdf(Y[test], mean * targets.scale_ + targets.mean_, std * targets.scale_)


def test_defaults_match_an_exact_gp_over_three_splits():
    models = [DeepGPRegressor(random_state=split) for split in range(len(SPLITS))]
    fit_replicates(models, [(X[train], Y[train]) for train, _ in SPLITS])
    ours = [-m.predict_distribution(X[test]).log_prob(Y[test]) for m, (_, test) in zip(models, SPLITS, strict=True)]
    behind = np.concatenate(ours) - np.concatenate([of_exact_gp(*split) for split in SPLITS])
    assert {model.n_layers_ for model in models} == {1}
    assert behind.mean() <= 0.0
