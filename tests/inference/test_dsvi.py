"""DSVI: its term of the data and its options; its theorems are in `tests/theorems/test_dsvi.py`."""

import torch
from problems import case, fresh, randn
from torch.distributions import MultivariateNormal

from sodgp.inference.dsvi import DSVI, collapsed_bound
from sodgp.kernels.make import make_kernel
from sodgp.linalg.cholesky import Jitter

T = 5


def test_the_rest_is_the_expected_log_density_by_hand():
    this = case(DSVI())
    terms = this.method.terms(this.model, this.batch._replace(scale=3.0), fresh(3, T))
    predictor = this.predictor(fresh(0, T))
    mean, variance = predictor.rows(this.batch.X_b, fresh(3, T))
    sigma2 = this.model.noise_variance[..., None, :]
    error = (this.batch.y_b - mean).square() + variance
    by_hand = -0.5 * ((2.0 * torch.pi * sigma2).log() + error / sigma2).sum((-2, -1)).mean()
    torch.testing.assert_close(terms["rest"], 3.0 * by_hand)
    assert list(terms) == ["rest", "kl_1", "kl_last"]


def test_inducing_inputs_are_trained_unless_they_are_fixed():
    for learn in (True, False):
        model = case(DSVI(learn_inducing_inputs=learn)).model
        names = [name for name, _ in model.named_parameters() if name.endswith("inducing_inputs")]
        assert len(names) == (2 if learn else 0)
        assert all("inducing_inputs" in layer.state_dict() for layer in model.layers)


def test_the_collapsed_bound_is_the_evidence_where_all_rows_are_inducing():
    X, kernel = 2.0 * randn(0, 12, 1), make_kernel("rbf", 1)
    y, noise = X[:, 0].sin(), torch.tensor(0.1, dtype=torch.float64)
    K = kernel(X).to_dense() + noise * torch.eye(12, dtype=torch.float64)
    evidence = MultivariateNormal(torch.zeros(12, dtype=torch.float64), K).log_prob(y)
    torch.testing.assert_close(collapsed_bound(kernel, X, X, y, noise, Jitter(1e-10)), evidence, rtol=1e-6, atol=1e-6)
    assert collapsed_bound(kernel, X[::3], X, y, noise, Jitter(1e-10)) < evidence
