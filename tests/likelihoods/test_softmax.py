"""Several classes: the softmax formulas, and agreement with two classes."""

import torch
from latent_cases import integrated
from noisy import draws
from problems import randn
from protocols import keeps

from sodgp.likelihoods import Softmax
from sodgp.likelihoods.contract import Likelihood, LikelihoodOptions, RowLikelihood, Sizes
from sodgp.linalg.draws import SharedDraws

ROWS, CLASSES = 3, 4
Y = torch.eye(CLASSES).double()[[0, 2, 2]][None]


def rows(n_samples=3, n_pairs=2, n_classes=CLASSES, source=None):
    likelihood = Softmax(n_pairs=n_pairs).build(Sizes(subset=ROWS, input_dim=1, n_outputs=n_classes))
    with torch.no_grad():
        likelihood.offset.copy_(0.3 * torch.arange(n_classes))
    X = torch.zeros(1, ROWS, 1, dtype=torch.float64)
    return likelihood, likelihood.at(X, X, source or draws(n_samples))[1]


def moments(n_classes=CLASSES):
    return randn(3, 1, ROWS, n_classes), 0.2 + randn(4, 1, ROWS, n_classes).square()


def test_the_contract():
    likelihood, p = rows()
    assert isinstance(Softmax(), LikelihoodOptions)
    assert keeps(likelihood, Likelihood)
    assert isinstance(p, RowLikelihood)
    assert p.sites(Y) == ()


def test_the_density_is_that_of_the_field():
    likelihood, p = rows()
    f = randn(5, 6, ROWS, CLASSES)
    by_hand = torch.distributions.OneHotCategorical(logits=f + likelihood.offset).log_prob(Y)
    torch.testing.assert_close(p.log_density(Y, f).squeeze(-1), by_hand)


def test_expectations_and_sites_are_averages_over_draws():
    likelihood, p = rows(20_000, n_pairs=10)
    mean, variance = moments()
    f = mean + variance.sqrt() * randn(6, 200_000, ROWS, CLASSES)
    share = (f + likelihood.offset).softmax(-1)
    density = torch.log_softmax(f + likelihood.offset, -1)
    close = {"atol": 6e-3, "rtol": 1e-2}
    found = p.expected(Y, mean, variance).mean(-3)
    torch.testing.assert_close(found.squeeze(-1), (Y * density).sum(-1).mean(0), **close)
    predictive = p.log_predictive_density(Y, mean, variance).exp().mean(-3)
    torch.testing.assert_close(predictive.squeeze(-1), (Y * share).sum(-1).mean(0), **close)
    found = p.natural_sites(Y, mean, variance)
    lambda_2 = (share * (1.0 - share)).mean(0)
    torch.testing.assert_close(found.lambda_2.mean(0), lambda_2, **close)
    torch.testing.assert_close(found.lambda_1.mean(0), (Y - share.mean(0) + lambda_2 * mean)[0], **close)


def test_sites_are_the_derivatives_of_the_expected_density():
    _, p = rows(200_000, n_pairs=1)
    mean, variance = (v.requires_grad_() for v in moments())
    slope, half = torch.autograd.grad(p.expected(Y, mean, variance).mean(-3).sum(), (mean, variance))
    found = rows(200_000, n_pairs=1)[1].natural_sites(Y, mean.detach(), variance.detach())
    torch.testing.assert_close(found.lambda_2.mean(0), -2.0 * half[0], atol=1e-2, rtol=2e-2)
    torch.testing.assert_close(found.lambda_1.mean(0), (slope - 2.0 * half * mean)[0].detach(), atol=2e-2, rtol=2e-2)


def test_two_classes_are_a_logistic_function_of_the_difference():
    likelihood, p = rows(50_000, n_pairs=1, n_classes=2)
    mean, variance = moments(2)
    y = torch.eye(2).double()[[0, 1, 1]][None]
    shift = likelihood.offset[1] - likelihood.offset[0]
    between = mean[..., 1:] - mean[..., :1], variance.sum(-1, keepdim=True)
    sign = 2.0 * y[..., 1:] - 1.0
    by_hand = integrated(lambda f: torch.nn.functional.logsigmoid(sign * (f + shift)), *between)
    found = p.expected(y, mean, variance).mean(-3, keepdim=True)
    torch.testing.assert_close(found, by_hand.detach(), atol=1e-2, rtol=1e-2)
    law = p.predictive(*moments(2)).mean[:, 1]
    share = integrated(lambda f: torch.sigmoid(f + shift), *between)
    torch.testing.assert_close(torch.as_tensor(law), share.flatten().detach(), atol=5e-3, rtol=5e-3)


def test_a_row_alone_has_the_same_numbers():
    mean, variance = moments()
    whole = rows(source=SharedDraws(0, 5, dtype=torch.float64))[1].log_predictive_density(Y, mean, variance)
    alone = rows(source=SharedDraws(0, 5, dtype=torch.float64))[1]
    one = alone.log_predictive_density(Y[:, 1:2], mean[:, 1:2], variance[:, 1:2])
    torch.testing.assert_close(one, whole[:, 1:2])


def test_offsets_start_at_the_shares():
    shares = torch.tensor([0.5, 0.3, 0.2, 0.0]).double()
    likelihood = Softmax().build(Sizes(subset=4, input_dim=2, n_outputs=4, target_mean=shares))
    torch.testing.assert_close(likelihood.offset.softmax(-1), shares, atol=2e-3, rtol=2e-3)
