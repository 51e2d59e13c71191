"""Sites of labels that are not Gaussian: what q_hat and the bound must be, whatever the code looks like."""

import math
from itertools import pairwise

import gpytorch
import pytest
import torch
from helpers import COUPLINGS, FAMILIES, NUGGET, build, data, everything, fresh, generator, prior, randn, randomise, rbf
from torch.distributions import MultivariateNormal

from sodgp.inference import sod_sites
from sodgp.inference.contract import Batch, bound
from sodgp.inference.sod import SoD
from sodgp.layers.contract import Points
from sodgp.layers.prior import HiddenMean
from sodgp.layers.subset import SubsetLayer
from sodgp.likelihoods import Bernoulli, NegativeBinomial, Poisson, Softmax, StudentT
from sodgp.likelihoods.contract import NaturalSites, Sizes
from sodgp.likelihoods.gaussian import GaussianRows
from sodgp.model.deep_gp import DeepGP

LIKELIHOODS = {
    "logit": (Bernoulli(quadrature_order=40), 1),
    "probit": (Bernoulli(link="probit"), 1),
    "poisson": (Poisson(), 1),
    "negative_binomial": (NegativeBinomial(), 1),
    "student_t": (StudentT(), 1),
    "softmax": (Softmax(), 3),
}
every_likelihood = pytest.mark.parametrize("name", LIKELIHOODS)
families = pytest.mark.parametrize("family", FAMILIES)


def labelled(batch, options, n_outputs):
    """The batch with labels that suit the likelihood."""

    def of(y):
        if options.targets == "numbers":
            return y
        if options.targets == "counts":
            return (1.5 * y).exp().floor()
        return (y > 0).double() if n_outputs == 1 else torch.eye(n_outputs).double()[y.argmax(-1)]

    return batch._replace(y_s=of(batch.y_s), y_b=of(batch.y_b))


def model_of(options, n_outputs, hidden, *, size, family="whitened", kernel=rbf, d_in=2, moves_q=False):
    """A model of `helpers.build` with another likelihood, whose last layer has sites."""
    model = build(hidden, d_in, size=size, family=family, n_outputs=n_outputs, kernel=kernel)
    width = [d_in, *hidden][-1]
    last = SubsetLayer(
        kernel(),
        HiddenMean(torch.zeros(width, n_outputs, dtype=torch.float64)),
        size=size,
        width=n_outputs,
        parameterization=family,
        noise_variance=None,
        has_sites=True,
        jitter=NUGGET,
        index=len(hidden) + 1,
        moves_q=moves_q,
    )
    likelihood = options.build(Sizes(subset=size, input_dim=d_in, n_outputs=n_outputs, noise_variance=0.3))
    return DeepGP([*model.hidden, last], likelihood)


def with_random_sites(model, seed):
    last = model.last
    with torch.no_grad():
        last.lambda_1.copy_(randn(seed, *last.lambda_1.shape))
        last.lambda_2.copy_(randn(seed + 1, *last.lambda_2.shape).clamp_min(0.0))
    return model


# Three times the step of training: the fixed point is the same.
def step(model, batch, seed, n_samples=1, pace=3.0, coupling="ancestral"):
    with torch.no_grad():
        for buffer, value in sod_sites.moves(model, batch, fresh(seed, n_samples), pace, coupling):
            buffer.copy_(value)


@families
@pytest.mark.parametrize("coupling", COUPLINGS)
def test_gaussian_labels_by_moved_sites_give_the_terms_of_today(family, coupling):
    batch = data(3, 4, 5, n_outputs=2)
    today = randomise(build([2], 2, size=4, family=family, n_outputs=2), 5)
    last = today.last
    moved = SubsetLayer(
        last.kernel,
        last.mean,
        size=4,
        width=2,
        parameterization=family,
        noise_variance=None,
        has_sites=True,
        jitter=NUGGET,
        index=2,
    )
    moved.q_mean, moved.q_factor = last.q_mean, last.q_factor
    other = DeepGP([*today.hidden, moved], today.likelihood)
    # One step of size one, whatever the sites were, and whatever the draws.
    with_random_sites(other, 8)
    step(other, batch, 9, n_samples=3, pace=1.0 / sod_sites.STEP)
    noise = today.noise_variance.expand(4, 2)
    torch.testing.assert_close(moved.lambda_1, batch.y_s[0] / noise)
    torch.testing.assert_close(moved.lambda_2, 1.0 / noise)
    method = SoD(coupling=coupling)
    ours = method.terms(today, batch, fresh(10, 3))
    points, _ = other.propagate(Points(batch.X_s, batch.X_b), fresh(10, 3), coupling)
    q_hat, p = moved.label_informed(points), GaussianRows(today.likelihood)
    theirs = {
        "rest": p.expected_log_density(batch.y_b, q_hat.rest),
        "subset": p.expected_log_density(batch.y_s, q_hat.subset),
        "kl_last": -q_hat.kl.mean(-1),
    }
    for name, value in theirs.items():
        torch.testing.assert_close(value, ours[name], rtol=1e-9, atol=1e-9)


@families
def test_without_curvature_and_slope_q_hat_is_q(family):
    options, width = LIKELIHOODS["poisson"]
    batch = labelled(data(13, 4, 5), options, width)
    model = randomise(model_of(options, width, [2], size=4, family=family), 14)
    points, _ = model.propagate(Points(batch.X_s, batch.X_b), fresh(15, 3), "ancestral")
    last = model.last
    q_hat = last.label_informed(points)
    m, C = last.variational_parameters()
    plain = last.family.in_f(m, C, last.condition(points), last.mean(points.subset))
    mean, variance = q_hat.subset.rows()
    torch.testing.assert_close(mean, plain.mean.expand_as(mean))
    torch.testing.assert_close(variance, plain.variance.expand_as(variance))


def test_poisson_sites_move_towards_the_mean_rate_of_the_draws():
    options, width = LIKELIHOODS["poisson"]
    batch = labelled(data(23, 4, 5), options, width)
    model = with_random_sites(randomise(model_of(options, width, [2], size=4), 24), 25)
    before = model.last.lambda_1.clone(), model.last.lambda_2.clone()
    points, _ = model.propagate(Points(batch.X_s, batch.X_s[:, :1]), fresh(26, 7), "ancestral")
    with torch.no_grad():
        mean, variance = model.last.label_informed(points).subset.rows()
        rate = (mean + model.likelihood.offset + 0.5 * variance).exp()
    step(model, batch, 26, n_samples=7, pace=0.5)
    rho = 0.5 * sod_sites.STEP
    # The rates of all draws are averaged, not their moments.
    torch.testing.assert_close(model.last.lambda_2, (1 - rho) * before[1] + rho * rate.mean(0))
    target = (batch.y_s - rate + rate * mean).mean(0)
    torch.testing.assert_close(model.last.lambda_1, (1 - rho) * before[0] + rho * target)


@every_likelihood
@pytest.mark.parametrize("coupling", ["ancestral", "marginal"])
def test_gradients_equal_finite_differences(name, coupling):
    options, width = LIKELIHOODS[name]
    batch = labelled(data(71, 2, 2, n_outputs=width), options, width)
    model = with_random_sites(randomise(model_of(options, width, [1], size=2), 72), 73)
    names, values = zip(*((n, p.detach().clone().requires_grad_()) for n, p in model.named_parameters()), strict=True)

    class Objective(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self):
            return torch.stack(list(SoD(coupling=coupling).terms(model, batch, fresh(70, 2)).values()))

    objective = Objective()

    def terms(*parameters):
        state = {f"model.{name}": value for name, value in zip(names, parameters, strict=True)}
        return torch.func.functional_call(objective, state)

    assert torch.autograd.gradcheck(terms, values, eps=1e-6, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def log_evidence(model, batch, n_samples=400_000):
    """log p(y) by draws of the prior of a deep GP with one hidden layer, and its standard error."""
    source = generator(5)
    X, y = everything(batch)
    hidden, last = model.layers

    def drawn(layer, Z):
        K, _ = prior(layer, Z, batch.X_s.shape[-2])
        return torch.linalg.cholesky(K) @ torch.randn(n_samples, Z.shape[-2], 1, generator=source).double()

    f = drawn(hidden, X[None])
    Z = f + hidden.noise_variance.sqrt() * torch.randn(f.shape, generator=source).double()
    _, p = model.likelihood.at(batch.X_s, batch.X_b, fresh(0))
    log_p = p.log_density(y, drawn(last, Z)).sum((-2, -1))
    value = float(log_p.logsumexp(0)) - math.log(n_samples)
    return value, float((log_p - value).exp().std()) / math.sqrt(n_samples)


@families
@pytest.mark.parametrize("name", ["logit", "poisson", "student_t"])
def test_the_bound_stays_below_the_evidence_with_any_sites(name, family):
    options, width = LIKELIHOODS[name]
    batch = labelled(data(43, 2, 2), options, width)
    model = model_of(options, width, [1], size=2, family=family)
    evidence, error = log_evidence(model, batch, 40_000)
    assert error < 0.05

    def value():
        with torch.no_grad():
            values = torch.stack([bound(SoD().terms(model, batch, fresh(s, 500))) for s in range(10)])
        return float(values.mean()), float(values.std()) / math.sqrt(10)

    found = {}
    for sites in ("none", "moved", "random"):
        if sites == "moved":
            for seed in range(20):
                step(model, batch, seed, n_samples=50)
        if sites == "random":
            with_random_sites(model, 45)
        mean, spread = value()
        assert mean < evidence + 4.0 * (error + spread), sites
        found[sites] = mean
    # In the whitened family q is the prior here, and only then moved sites are the best ones.
    assert family == "paper" or found["moved"] > max(found["none"], found["random"])


class Peer(gpytorch.models.ApproximateGP):
    """GPyTorch's variational GP whose inducing points are the data."""

    def __init__(self, X, kernel):
        q = gpytorch.variational.CholeskyVariationalDistribution(len(X))
        super().__init__(gpytorch.variational.VariationalStrategy(self, X, q, learn_inducing_locations=False))
        self.mean_module, self.covar_module = gpytorch.means.ZeroMean(), kernel

    def forward(self, X):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


def test_the_fixed_point_is_the_optimum_of_variational_classification():
    options = Bernoulli(link="probit")
    X, size = 1.5 * randn(51, 8, 2), 8
    y = (X[:, :1] + 0.5 * randn(52, 8, 1) > 0).double()
    kernel = rbf()
    model = model_of(options, 1, [], size=size, kernel=lambda: kernel)
    model.layers[0].jitter = type(NUGGET)(1e-6, relative=False)
    # q is the prior, and all rows are in S: the batch counts for nothing.
    batch = Batch(X[None], y[None], X[None, :1], y[None, :1], scale=0.0)
    values = []
    for seed in range(60):
        values.append(bound(SoD().terms(model, batch, fresh(seed))).item())
        step(model, batch, seed)
    # A mirror step of this size never goes down, and the last change nothing.
    assert all(after >= before - 1e-9 for before, after in pairwise(values))
    assert values[-1] - values[-10] < 1e-7

    peer, likelihood = Peer(X, kernel).double(), gpytorch.likelihoods.BernoulliLikelihood().double()
    kernel.requires_grad_(False)
    objective = gpytorch.mlls.VariationalELBO(likelihood, peer, num_data=size)
    optimiser = torch.optim.LBFGS(
        [p for p in peer.parameters() if p.requires_grad],
        max_iter=300,
        line_search_fn="strong_wolfe",
        tolerance_grad=1e-10,
        tolerance_change=1e-14,
    )

    def closure():
        optimiser.zero_grad()
        loss = -objective(peer(X), y[:, 0])
        loss.backward()
        return loss

    with (
        gpytorch.settings.cholesky_jitter(double_value=1e-6),
        gpytorch.settings.variational_cholesky_jitter(double_value=1e-6),
    ):
        peer.train()
        optimiser.step(closure)
        theirs, their_bound = peer(X), -size * closure().item()
    mean, variance = model.last.label_informed(Points(X[None], X[None, :1])).subset.rows()
    assert abs(values[-1] - their_bound) < 1e-4
    torch.testing.assert_close(mean.flatten(), theirs.mean, atol=2e-3, rtol=2e-3)
    torch.testing.assert_close(variance.flatten(), theirs.variance, atol=2e-3, rtol=2e-3)


@every_likelihood
def test_a_fixed_point_does_not_move_and_is_a_maximum(name):
    options, width = LIKELIHOODS[name]
    if name == "softmax":
        pytest.skip("its expectations are averages over other draws in every step")
    batch = labelled(data(61, 5, 1, n_outputs=width), options, width)._replace(scale=0.0)
    model = model_of(options, width, [], size=5)
    for seed in range(150):
        step(model, batch, seed)
    last = model.last
    before = NaturalSites(last.lambda_1.clone(), last.lambda_2.clone())
    step(model, batch, 1000)
    torch.testing.assert_close(last.lambda_1, before.lambda_1, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(last.lambda_2, before.lambda_2, atol=1e-6, rtol=1e-6)
    best = bound(SoD().terms(model, batch, fresh(0))).item()
    is_clipped = bool((before.lambda_2 == 0).any())
    for seed in range(6):
        with torch.no_grad():
            last.lambda_1.copy_(before.lambda_1 + 0.1 * randn(seed, *before.lambda_1.shape))
            last.lambda_2.copy_((before.lambda_2 * (1.0 + 0.1 * randn(seed + 50, *before.lambda_2.shape))).abs())
        # Where the curvature was clipped the fixed point is not the optimum of the bound.
        assert is_clipped or bound(SoD().terms(model, batch, fresh(0))).item() < best


@pytest.mark.parametrize("name", ["logit", "poisson", "negative_binomial"])
def test_natural_steps_of_q_end_where_the_gradient_vanishes(name):
    """The last q takes in the labels of the rest, and no Gaussian q has a higher bound."""
    options, width = LIKELIHOODS[name]
    batch = labelled(data(81, 5, 6, n_outputs=width), options, width)._replace(scale=1.5)
    model = model_of(options, width, [], size=5, moves_q=True)
    for seed in range(150):
        step(model, batch, seed, pace=1.0)
    last = model.last
    assert not [name for name, _ in last.named_parameters() if name.startswith("q_")]
    for buffer in (last.q_mean, last.q_factor):
        buffer.requires_grad_()
    bound(SoD().terms(model, batch, fresh(0))).backward()
    assert last.q_mean.grad.abs().max() < 1e-6
    assert last.q_factor.grad.tril().abs().max() < 1e-6


def test_rows_of_weight_two_move_q_as_rows_that_are_there_twice():
    options = Poisson()
    batch = labelled(data(91, 4, 3, n_outputs=1), options, 1)
    twice = batch._replace(X_b=torch.cat([batch.X_b] * 2, -2), y_b=torch.cat([batch.y_b] * 2, -2))
    weighted = batch._replace(weight_b=torch.full_like(batch.y_b, 2.0))
    model = model_of(options, 1, [], size=4, moves_q=True)
    with torch.no_grad():
        moved = [
            [value for _, value in sod_sites.moves(model, b, fresh(0), 1.0, "ancestral")] for b in (weighted, twice)
        ]
    assert len(moved[0]) == 4
    for ours, theirs in zip(*moved, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_without_a_rest_q_moves_to_the_prior():
    options = Bernoulli()
    batch = labelled(data(95, 4, 1, n_outputs=1), options, 1)
    batch = batch._replace(X_b=batch.X_b[..., :0, :], y_b=batch.y_b[..., :0, :], scale=0.0)
    model = model_of(options, 1, [], size=4, moves_q=True)
    with torch.no_grad():
        model.last.q_mean.add_(1.0)
    for seed in range(80):
        step(model, batch, seed, pace=1.0)
    torch.testing.assert_close(model.last.q_mean, torch.zeros(4, 1).double(), atol=1e-8, rtol=0.0)
    torch.testing.assert_close(model.last.q_factor[0], torch.eye(4).double(), atol=1e-8, rtol=0.0)


def test_the_posterior_of_one_site_is_the_gaussian_that_a_product_of_densities_gives():
    K = torch.tensor([[1.3, 0.4], [0.4, 0.9]]).double()
    lambda_1, lambda_2 = torch.tensor([0.7, -0.2]).double(), torch.tensor([0.0, 2.0]).double()
    covariance = torch.linalg.inv(torch.linalg.inv(K) + torch.diag(lambda_2))
    by_hand = MultivariateNormal(covariance @ lambda_1, covariance)
    model = model_of(LIKELIHOODS["poisson"][0], 1, [], size=2, family="paper")
    last = model.last
    with torch.no_grad():
        last.q_factor.copy_(torch.linalg.cholesky(K)[None])
        last.lambda_1.copy_(lambda_1[:, None])
        last.lambda_2.copy_(lambda_2[:, None])
    X = randn(80, 1, 2, 2)
    mean, variance = last.label_informed(Points(X, X[:, :1])).subset.rows()
    torch.testing.assert_close(mean.flatten(), by_hand.mean)
    torch.testing.assert_close(variance.flatten(), by_hand.variance)
