"""The Dirichlet transform of labels (Milios et al. 2018), and probabilities from draws of f."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sodgp.errors import ConfigurationError
from sodgp.likelihoods.contract import ClassOptions, Sizes
from sodgp.likelihoods.dirichlet import Dirichlet, softmax_of_draws
from sodgp.linalg.draws import SharedDraws


@pytest.mark.parametrize("alpha", [0.01, 0.3])
def test_log_normals_have_the_moments_of_the_gammas(alpha):
    y, variance = Dirichlet(alpha=alpha).transformed(np.eye(3))
    counts = np.eye(3) + alpha
    mean = np.exp(y + variance / 2)
    np.testing.assert_allclose(mean, counts)
    np.testing.assert_allclose((np.exp(variance) - 1) * mean**2, counts)


def test_probabilities_are_expectations_of_the_softmax():
    mean = torch.tensor([[[0.5, -0.3, 1.0]]]).double()
    variance = torch.tensor([[[0.4, 1.0, 0.2]]]).double()
    found = softmax_of_draws(mean, variance)
    f = mean + variance.sqrt() * torch.randn(400_000, 1, 3, generator=torch.Generator().manual_seed(0)).double()
    p = f.softmax(-1)
    np.testing.assert_allclose(found.mean, p.mean(0), atol=3e-3)
    np.testing.assert_allclose(found.std, p.std(0), atol=1e-2)


def test_a_row_does_not_depend_on_the_others():
    generator = torch.Generator().manual_seed(0)
    mean, variance = (torch.rand(3, 5, 4, generator=generator) for _ in range(2))
    together, alone = softmax_of_draws(mean, variance), softmax_of_draws(mean[:, 2:3], variance[:, 2:3])
    # Vectorised exponentials round by their place in memory.
    np.testing.assert_allclose(together[2].draws, alone.draws, rtol=1e-14)
    np.testing.assert_allclose(together[2].mean, alone.mean, rtol=1e-14)


def test_training_rows_have_their_known_noise_and_new_rows_are_classes():
    variance, precision = torch.tensor([2.0, 3.0]).double(), torch.rand(5, 2).double() + 0.5
    likelihood = Dirichlet().with_noise(variance, precision).build(Sizes(subset=5, input_dim=2, n_outputs=2))
    assert likelihood.n_parameters == 0
    X = torch.zeros(1, 5, 2).double()
    draws = SharedDraws(0, 3, dtype=torch.float64)
    subset, rest = likelihood.at(X, X, draws, precision[None])
    torch.testing.assert_close(subset.noise_variance(drawn=False)[0], variance / precision)
    torch.testing.assert_close(rest.noise_variance(drawn=False)[0], variance / precision)
    new = likelihood.at(X, X, draws)[1].predictive(torch.zeros(3, 5, 2).double(), torch.ones(3, 5, 2).double())
    np.testing.assert_allclose(new.mean, 0.5, atol=0.01)


def test_options():
    assert isinstance(Dirichlet(), ClassOptions)
    assert Dirichlet().outputs(7) == 7
    assert Dirichlet().set_params(alpha=0.5).alpha == 0.5
    with pytest.raises(ConfigurationError, match="alpha must be a positive number"):
        Dirichlet(alpha=0.0)
