"""Known noise of every row; what it does to a model is in `tests/theorems/test_known_noise.py`."""

import torch
from noisy import draws
from problems import randn
from protocols import keeps
from torch.distributions import Normal

from sodgp.likelihoods.contract import Likelihood, LikelihoodOptions, RowLikelihood, Sizes
from sodgp.likelihoods.gaussian import GaussianRows
from sodgp.likelihoods.known_noise import KnownNoise

VARIANCE = torch.tensor([0.3, 0.7], dtype=torch.float64)
PRECISION = randn(0, 4, 2).exp()


def built():
    return KnownNoise(variance=VARIANCE, precision=PRECISION).build(Sizes(subset=4, input_dim=2, n_outputs=2))


def test_nothing_is_trained_and_the_state_holds_all():
    likelihood = built()
    assert isinstance(KnownNoise(), LikelihoodOptions)
    assert keeps(likelihood, Likelihood)
    assert likelihood.n_parameters == 0
    assert not any(p.requires_grad for p in likelihood.parameters())
    empty = KnownNoise().build(Sizes(subset=4, input_dim=2, n_outputs=2))
    empty.load_state_dict(likelihood.state_dict())
    torch.testing.assert_close(empty.noise_variance, VARIANCE[None])
    assert torch.equal(empty.subset_precision, PRECISION)


def test_rows_have_their_noise_and_new_rows_the_mean():
    likelihood, X, precision = built(), randn(1, 1, 4, 2), randn(2, 1, 3, 2).exp()
    subset, rest = likelihood.at(X, X[:, :3], draws(), precision)
    _, new = likelihood.at(X, X[:, :3], draws())
    assert isinstance(subset, RowLikelihood)
    assert isinstance(new, GaussianRows)
    torch.testing.assert_close(subset.noise_variance(drawn=False)[0], VARIANCE / PRECISION)
    torch.testing.assert_close(subset.sites(randn(3, 1, 4, 2)).variance[0], VARIANCE / PRECISION)
    torch.testing.assert_close(new.noise_variance(drawn=True).flatten(), VARIANCE)
    y, f = randn(4, 1, 3, 2), randn(5, 6, 3, 2)
    by_hand = Normal(f, (VARIANCE / precision).sqrt()).log_prob(y)
    torch.testing.assert_close(rest.log_density(y, f), by_hand)
