"""DSVI against GPyTorch's SVGP and deep GP, Titsias's collapsed bound and the exact GP; and the counts of Fig. 1."""

import math
from itertools import pairwise

import gpytorch
import pytest
import torch
from gpytorch.constraints import GreaterThan
from gpytorch.models.deep_gps import DeepGP as TheirDeepGP
from gpytorch.models.deep_gps import DeepGPLayer
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy
from helpers import NONE, by_hand, fresh, generator, matern12, maximise, predict, predict_joint, randn, rbf, set_q
from torch.distributions import MultivariateNormal

from sodgp.inference.contract import Batch, TrainingSet, bound
from sodgp.inference.dsvi import DSVI, collapsed_bound
from sodgp.inference.mean_field import MeanField
from sodgp.inference.sghmc import SGHMC
from sodgp.inference.sod import SoD
from sodgp.layers.contract import Points
from sodgp.layers.inducing import InducingLayer
from sodgp.layers.prior import NOISE_FLOOR, HiddenMean
from sodgp.likelihoods.gaussian import GaussianLikelihood
from sodgp.linalg.cholesky import Jitter
from sodgp.model.architecture import Architecture
from sodgp.model.deep_gp import DeepGP

# As GPyTorch does it in float64: on K_ZZ and on the variance of every row.
THEIR_JITTER = Jitter(1e-6, relative=False, on_draws=True)
METHOD = DSVI()


def close(ours, theirs, tolerance=1e-8):
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def build(hidden, d_in, *, size, n_outputs=1, linear=False, nugget=None, jitter=THEIR_JITTER, kernel=rbf, seed=0):
    """A model with random inducing inputs and q; nuggets in the hidden layers only, as the method builds it."""
    layers = []
    for i, (rows, columns) in enumerate(pairwise([d_in, *hidden, n_outputs])):
        weight = 0.7 * randn(900 + i, rows, columns) if linear else torch.zeros(rows, columns, dtype=torch.float64)
        layer = InducingLayer(
            kernel(0.9 + 0.2 * i, 1.3 - 0.2 * i),
            HiddenMean(weight),
            1.5 * randn(seed + 10 * i, size, rows),
            width=columns,
            nugget=None if i == len(hidden) else nugget,
            jitter=jitter,
            index=i + 1,
        )
        noise = 0.3 * randn(seed + 10 * i + 1, columns, size, size)
        set_q(
            layer,
            0.7 * randn(seed + 10 * i + 2, size, columns),
            noise.tril(-1) + torch.diag_embed(0.2 + noise.diagonal(dim1=-2, dim2=-1).abs()),
        )
        layers.append(layer)
    return DeepGP(layers, GaussianLikelihood(n_outputs, 0.1 + 0.05 * torch.arange(n_outputs)))


def data(seed, rows, d_in=2, n_outputs=1, scale=1.0):
    X, y = 1.5 * randn(seed, 1, rows, d_in), randn(seed + 1, 1, rows, n_outputs)
    return Batch(X[:, :0], y[:, :0], X, y, scale=scale)


def value(model, batch, draws=None):
    return bound(METHOD.terms(model, batch, fresh(0) if draws is None else draws))


def noises(model):
    return model.noise_variance.squeeze(-2)


# 1. One layer: GPyTorch's SVGP.


def strategy_of(layer, module, output_dims=None):
    """GPyTorch's whitened strategy with the parameters of one of our layers; its jitter holds the layer's nugget."""
    batch_shape = NONE if output_dims is None else torch.Size([output_dims])
    size = layer.q_mean.shape[0]
    q = CholeskyVariationalDistribution(size, batch_shape=batch_shape).double()
    with torch.no_grad():
        q.variational_mean.copy_(layer.q_mean.mT if output_dims else layer.q_mean[:, 0])
        q.chol_variational_covar.copy_(layer.q_factor if output_dims else layer.q_factor[0])
    nugget = 0.0 if layer.noise_variance is None else layer.noise_variance.item()
    strategy = VariationalStrategy(module, layer.inducing_inputs.detach(), q, jitter_val=1e-6 + nugget)
    strategy.variational_params_initialized.fill_(1)
    return strategy


class SparseGP(gpytorch.models.ApproximateGP):
    def __init__(self, layer):
        super().__init__(strategy_of(layer, self))
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = layer.kernel

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def likelihood_of(model):
    likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=GreaterThan(NOISE_FLOOR)).double()
    likelihood.noise = noises(model).detach()
    return likelihood


@pytest.mark.parametrize("kernel", [rbf, matern12])
@pytest.mark.parametrize("n_data", [9, 45], ids=["all rows", "a batch"])
def test_one_layer_has_the_bound_of_gpytorchs_svgp(kernel, n_data):
    batch = data(1, 9, scale=n_data / 9)
    model = build([], 2, size=6, kernel=kernel)
    theirs = SparseGP(model.last)
    elbo = gpytorch.mlls.VariationalELBO(likelihood_of(model), theirs, num_data=n_data)
    close(value(model, batch), n_data * elbo(theirs(batch.X_b[0]), batch.y_b[0, :, 0]))


@pytest.mark.parametrize("kernel", [rbf, matern12])
def test_one_layer_has_the_gradients_of_gpytorchs_svgp(kernel):
    batch = data(1, 9)
    model = build([], 2, size=6, kernel=kernel)
    theirs, likelihood = SparseGP(model.last), likelihood_of(model)
    elbo = gpytorch.mlls.VariationalELBO(likelihood, theirs, num_data=9)
    (9 * elbo(theirs(batch.X_b[0]), batch.y_b[0, :, 0])).backward()
    # Our kernel is theirs too: take its gradients away before ours are added.
    kernel_gradients = [p.grad.clone() for p in model.last.kernel.parameters()]
    model.zero_grad()
    value(model, batch).backward()
    q = theirs.variational_strategy._variational_distribution
    layer = model.last
    close(layer.inducing_inputs.grad, theirs.variational_strategy.inducing_points.grad, 1e-7)
    close(layer.q_mean.grad[:, 0], q.variational_mean.grad, 1e-7)
    close(layer.q_factor.grad[0], q.chol_variational_covar.grad, 1e-7)
    close(model.likelihood.raw_noise.grad.flatten(), likelihood.raw_noise.grad.flatten(), 1e-7)
    for ours, theirs_ in zip(layer.kernel.parameters(), kernel_gradients, strict=True):
        close(ours.grad, theirs_, 1e-7)


@torch.no_grad()
@pytest.mark.parametrize("kernel", [rbf, matern12])
def test_one_layer_predicts_as_gpytorchs_svgp(kernel):
    model = build([], 2, size=6, kernel=kernel)
    theirs = SparseGP(model.last).eval()
    X = 2.0 * randn(3, 1, 7, 2)
    f = theirs(X[0])
    for draws in (fresh(1), fresh(2, 3)):
        mean, variance = predict(METHOD, model, X[:, :0], X[:, :0], X, draws)
        close(mean[0, :, 0], f.mean)
        close(variance[0, :, 0], f.variance)
    joint_mean, joint = predict_joint(METHOD, model, X[:, :0], X[:, :0], X, fresh(1))
    close(joint_mean[0, :, 0], f.mean)
    close(joint[0, 0], f.covariance_matrix)
    y = likelihood_of(model).eval()(f)
    close(variance[0, :, 0] + noises(model), y.variance)


# 2. One layer at its optimum: Titsias's collapsed bound, and the exact GP.


def optimal_q(kernel, Z, X, y, noise, jitter):
    """The optimal q(u), U = L u: covariance (I + A A' / noise)^-1 and mean covariance A y / noise."""
    K = by_hand(kernel, Z)
    amount = jitter.amount * (K.diagonal().mean() if jitter.relative else 1.0)
    L = torch.linalg.cholesky(K + amount * torch.eye(len(Z), dtype=torch.float64))
    A = torch.linalg.solve_triangular(L, by_hand(kernel, Z, X), upper=False)
    covariance = torch.linalg.inv(torch.eye(len(Z), dtype=torch.float64) + A @ A.mT / noise)
    covariance = 0.5 * (covariance + covariance.mT)
    return covariance @ A @ y / noise, torch.linalg.cholesky(covariance)


@torch.no_grad()
def put_at_optimum(model, batch):
    layer = model.last
    optima = [
        optimal_q(layer.kernel, layer.inducing_inputs, batch.X_b[0], y, noise, layer.jitter)
        for y, noise in zip(batch.y_b[0].mT, noises(model), strict=True)
    ]
    set_q(layer, torch.stack([mean for mean, _ in optima], -1), torch.stack([factor for _, factor in optima]))


def collapsed(model, batch):
    layer = model.last
    return sum(
        collapsed_bound(layer.kernel, layer.inducing_inputs, batch.X_b[0], y, noise, layer.jitter)
        for y, noise in zip(batch.y_b[0].mT, noises(model), strict=True)
    )


@torch.no_grad()
def collapsed_by_hand(model, batch):
    """log N(y; 0, Q + noise I) - tr(K - Q) / (2 noise) with dense matrices."""
    layer, X = model.last, batch.X_b[0]
    Z, eye = layer.inducing_inputs, torch.eye(len(X), dtype=torch.float64)
    K_zz = by_hand(layer.kernel, Z)
    K_zz += layer.jitter.amount * K_zz.diagonal().mean() * torch.eye(len(Z), dtype=torch.float64)
    K_zx, K = by_hand(layer.kernel, Z, X), by_hand(layer.kernel, X)
    Q = K_zx.mT @ torch.linalg.solve(K_zz, K_zx)
    Q = 0.5 * (Q + Q.mT)
    total = 0.0
    for y, noise in zip(batch.y_b[0].mT, noises(model), strict=True):
        total += MultivariateNormal(torch.zeros_like(y), Q + noise * eye).log_prob(y) - (K - Q).trace() / (2 * noise)
    return total


@torch.no_grad()
def log_evidence(model, batch):
    X = batch.X_b[0]
    K, eye = by_hand(model.last.kernel, X), torch.eye(len(X), dtype=torch.float64)
    return sum(
        MultivariateNormal(torch.zeros_like(y), K + noise * eye).log_prob(y)
        for y, noise in zip(batch.y_b[0].mT, noises(model), strict=True)
    )


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("kernel", [rbf, matern12])
def test_at_the_optimal_q_the_bound_is_the_collapsed_one(kernel, n_outputs):
    batch = data(20, 12, n_outputs=n_outputs)
    model = build([], 2, size=5, n_outputs=n_outputs, kernel=kernel, jitter=Jitter())
    put_at_optimum(model, batch)
    close(value(model, batch), collapsed(model, batch))
    close(collapsed(model, batch), collapsed_by_hand(model, batch))
    assert collapsed(model, batch) < log_evidence(model, batch)


def test_the_optimal_q_is_stationary_and_shares_the_collapsed_bounds_gradients():
    # The envelope theorem: at the optimum only the explicit dependence on kernel, noise and inducing inputs is left.
    batch = data(20, 12)
    model = build([], 2, size=5, jitter=Jitter())
    put_at_optimum(model, batch)
    q = {"layers.0.q_mean", "layers.0.q_factor"}
    names = [name for name, _ in model.named_parameters()]
    ours = dict(zip(names, torch.autograd.grad(value(model, batch), list(model.parameters())), strict=True))
    for name in q:
        close(ours[name], torch.zeros_like(ours[name]))
    others = {name: p for name, p in model.named_parameters() if name not in q}
    theirs = torch.autograd.grad(collapsed(model, batch), list(others.values()))
    for name, gradient in zip(others, theirs, strict=True):
        close(ours[name], gradient)


@torch.no_grad()
@pytest.mark.parametrize("seed", range(5))
def test_no_q_exceeds_the_collapsed_bound(seed):
    batch = data(20, 12)
    model = build([], 2, size=5, jitter=Jitter(), seed=100 * seed)
    top = collapsed(model, batch)
    assert value(model, batch) < top
    put_at_optimum(model, batch)
    set_q(model.last, model.last.q_mean + 1e-3 * randn(seed, 5, 1), model.last.q_factor)
    assert value(model, batch) < top


def test_optimising_q_reaches_the_collapsed_bound_and_stops_there():
    batch = data(20, 12)
    model = build([], 2, size=5, jitter=Jitter())
    top = collapsed(model, batch).detach()
    reached = maximise(model, lambda m: value(m, batch), [model.last.q_mean, model.last.q_factor])
    assert reached <= top + 1e-9
    close(reached, top, 1e-6)


@torch.no_grad()
def test_the_collapsed_bound_rises_with_every_inducing_input():
    batch = data(20, 12)
    model = build([], 2, size=8, kernel=matern12, jitter=Jitter(0.0))
    layer = model.last
    values = [
        collapsed_bound(
            layer.kernel, layer.inducing_inputs[:size], batch.X_b[0], batch.y_b[0, :, 0], noises(model)[0], layer.jitter
        )
        for size in range(1, 9)
    ]
    assert all(more > less for less, more in pairwise(values))
    assert values[-1] < log_evidence(model, batch)


class ExactGP(gpytorch.models.ExactGP):
    def __init__(self, X, y, likelihood, kernel):
        super().__init__(X, y, likelihood)
        self.mean_module, self.covar_module = gpytorch.means.ZeroMean(), kernel

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


@torch.no_grad()
@pytest.mark.parametrize(
    # A row of X and its copy in Z are a rounding error apart; Matern-1/2 feels its root, 1e-8, over the noise.
    ("kernel", "jitter", "tolerance"),
    [(matern12, 0.0, 1e-6), (rbf, 1e-11, 1e-8)],
)
def test_with_all_rows_as_inducing_inputs_it_is_the_exact_gp(kernel, jitter, tolerance):
    batch = data(30, 10)
    model = build([], 2, size=10, kernel=kernel, jitter=Jitter(jitter))
    model.last.inducing_inputs.copy_(batch.X_b[0])
    put_at_optimum(model, batch)
    likelihood = likelihood_of(model)
    exact = ExactGP(batch.X_b[0], batch.y_b[0, :, 0], likelihood, model.last.kernel)
    evidence = 10 * gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, exact)(exact(batch.X_b[0]), batch.y_b[0, :, 0])
    close(evidence, log_evidence(model, batch))
    close(value(model, batch), evidence, tolerance)
    close(collapsed(model, batch), evidence, tolerance)
    X = 2.0 * randn(31, 1, 7, 2)
    theirs = exact.eval()(X[0])
    mean, variance = predict(METHOD, model, X[:, :0], X[:, :0], X, fresh(1))
    close(mean[0, :, 0], theirs.mean, tolerance)
    close(variance[0, :, 0], theirs.variance, tolerance)
    _, joint = predict_joint(METHOD, model, X[:, :0], X[:, :0], X, fresh(1))
    close(joint[0, 0], theirs.covariance_matrix, tolerance)


# 3. Several layers: GPyTorch's deep GP, layer by layer.


class LinearMeans(gpytorch.means.Mean):
    """One fixed linear mean for every output: rows [..., D_out, N, D_in] -> [..., D_out, N]."""

    def __init__(self, weight):
        super().__init__()
        self.register_buffer("weight", weight)

    def forward(self, x):
        return (x * self.weight.mT.unsqueeze(-2)).sum(-1)


class TheirLayer(DeepGPLayer):
    def __init__(self, layer):
        d_in, d_out = layer.mean.weight.shape
        super().__init__(strategy_of(layer, self, d_out), d_in, d_out)
        self.mean_module, self.covar_module = LinearMeans(layer.mean.weight), layer.kernel

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class Stack(TheirDeepGP):
    def __init__(self, model):
        super().__init__()
        self.stack = torch.nn.ModuleList(TheirLayer(layer) for layer in model.layers)

    def forward(self, x):
        outputs = [x]
        for layer in self.stack:
            outputs.append(layer(outputs[-1]))
        return outputs[1:]


class GivenDraws:
    """Draws handed out layer by layer."""

    def __init__(self, numbers):
        self.n_samples, self.numbers = len(numbers[0]), iter(numbers)

    def rest(self, rows, width):
        numbers = next(self.numbers)
        assert numbers.shape[-2:] == (rows, width)
        return numbers

    subset = rest


def their_outputs(theirs, X, numbers, monkeypatch):
    """GPyTorch's own call of every layer, its standard normal numbers replaced by ours."""
    given = iter(numbers)
    monkeypatch.setattr(torch.distributions.Normal, "rsample", lambda self: self.loc + self.scale * next(given))
    with gpytorch.settings.num_likelihood_samples(len(numbers[0])):
        return theirs(X)


def their_elbo(theirs, last, likelihood, y, n_data):
    """GPyTorch's bound from the output of the last layer, times the number of data."""
    single = gpytorch.distributions.MultivariateNormal(last.mean[..., 0], torch.diag_embed(last.variance[..., 0]))
    elbo = gpytorch.mlls.VariationalELBO(likelihood, theirs, num_data=n_data)
    return n_data * gpytorch.mlls.DeepApproximateMLL(elbo)(single, y)


DEEP = {"2 layers": [3], "narrow": [1], "3 layers": [2, 3]}


@pytest.mark.parametrize("nugget", [None, 0.02])
@pytest.mark.parametrize("linear", [False, True], ids=["zero means", "linear means"])
@pytest.mark.parametrize("hidden", DEEP.values(), ids=DEEP)
def test_every_layer_is_that_of_gpytorchs_deep_gp(hidden, linear, nugget, monkeypatch):
    n_rows, n_samples = 7, 4
    batch = data(40, n_rows, scale=3.0)
    model = build(hidden, 2, size=5, linear=linear, nugget=nugget, seed=41)
    numbers = [randn(50 + i, n_samples, n_rows, width) for i, width in enumerate(hidden)]
    theirs = Stack(model)
    outputs = their_outputs(theirs, batch.X_b[0], numbers, monkeypatch)
    points, draws = Points(batch.X_s, batch.X_b), GivenDraws(numbers)
    for layer, output in zip(model.layers, outputs, strict=True):
        mean, variance = layer.marginals(points.rest)
        close(mean.expand_as(output.mean), output.mean)
        close(variance.expand_as(output.mean), output.variance)
        if layer is not model.last:
            points, _ = layer.propagate(points, draws, "marginal")
    elbo = their_elbo(theirs, outputs[-1], likelihood_of(model), batch.y_b[0, :, 0], 3 * n_rows)
    close(value(model, batch, GivenDraws(numbers)), elbo)


def test_gradients_through_the_layers_are_those_of_gpytorchs_deep_gp(monkeypatch):
    batch = data(40, 7)
    model = build([2, 3], 2, size=5, linear=True, nugget=0.02, seed=41)
    numbers = [randn(50 + i, 4, 7, width) for i, width in enumerate([2, 3])]
    value(model, batch, GivenDraws(numbers)).backward()
    ours = [[p.grad.clone() for p in layer.kernel.parameters()] for layer in model.layers]
    Z_gradients = [layer.inducing_inputs.grad.clone() for layer in model.layers]
    model.layers.zero_grad()
    theirs = Stack(model)
    last = their_outputs(theirs, batch.X_b[0], numbers, monkeypatch)[-1]
    their_elbo(theirs, last, likelihood_of(model), batch.y_b[0, :, 0], 7).backward()
    for layer, gradients in zip(model.layers, ours, strict=True):
        for parameter, gradient in zip(layer.kernel.parameters(), gradients, strict=True):
            close(gradient, parameter.grad, 1e-6)
    for layer, gradient in zip(theirs.stack, Z_gradients, strict=True):
        close(gradient, layer.variational_strategy.inducing_points.grad, 1e-6)


@torch.no_grad()
def test_prediction_is_one_gaussian_of_gpytorchs_deep_gp_for_each_sample(monkeypatch):
    X = 2.0 * randn(60, 1, 6, 2)
    model = build([2, 3], 2, size=5, linear=True, nugget=0.02, seed=61)
    numbers = [randn(62 + i, 4, 6, width) for i, width in enumerate([2, 3])]
    theirs = their_outputs(Stack(model), X[0], numbers, monkeypatch)[-1]
    mean, variance = predict(METHOD, model, X[:, :0], X[:, :0], X, GivenDraws(numbers))
    close(mean, theirs.mean)
    close(variance, theirs.variance)


@torch.no_grad()
def test_rows_drawn_one_by_one_leave_the_bound_of_rows_drawn_together():
    # The bound is a sum over rows, so that drawing every row from its own marginal does not change its expectation.
    batch = data(70, 4)
    model = build([2], 2, size=3, linear=True, nugget=0.02, seed=71)
    values = {}
    for coupling in ("marginal", "joint"):
        points, kls = model.propagate(Points(batch.X_s, batch.X_b), fresh(72, 40_000), coupling)
        mean, variance = model.last.marginals(points.rest)
        noise = noises(model)
        density = -0.5 * ((2 * math.pi * noise).log() + ((batch.y_b - mean).square() + variance) / noise)
        values[coupling] = density.sum((-2, -1)) - kls[0] - model.last.kl()
    error = (values["marginal"].var() / 40_000 + values["joint"].var() / 40_000).sqrt()
    assert abs(values["marginal"].mean() - values["joint"].mean()) < 4.0 * error


# 6. Parameter counts: the paper's Fig. 1.

SHAPES = [(2, 4, 3, 11, 1), (3, 5, 8, 30, 1), (3, 6, 4, 20, 2), (1, 5, 3, 12, 1)]


def counts(L, M, D, N, P):
    """Trained numbers by Fig. 1, with D outputs in every hidden layer and one lengthscale for each input."""
    inputs, outputs = [D] * L, [D] * (L - 1) + [P]
    kernels_and_noises = sum(d + 1 for d in inputs) + (L - 1) + P
    q = sum(d * (M + M * (M + 1) // 2) for d in outputs)
    inducing, latent = sum(M * d for d in inputs), 2 * N * D * (L - 1)
    return {
        "SoD": q + kernels_and_noises,
        "DSVI": inducing + q + kernels_and_noises,
        "DSVI*": q + kernels_and_noises,
        "mean-field": latent + inducing + q + kernels_and_noises,
        "SGHMC": inducing + sum(M * d for d in outputs) + kernels_and_noises,
    }


METHODS = {
    "SoD": SoD(),
    "DSVI": DSVI(),
    "DSVI*": DSVI(learn_inducing_inputs=False),
    "mean-field": MeanField(),
    "SGHMC": SGHMC(),
}


def built(method, L, M, D, N, P):
    X, y = randn(80, N, D), randn(81, N, P)
    size = M if method.uses_subset else 0
    architecture = Architecture(D, P, M, [torch.eye(D, dtype=torch.float64)] * (L - 1))
    return method.build(architecture, TrainingSet(X[:size], y[:size], X[size:], y[size:]), generator(82))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "L{} M{} D{} N{} P{}".format(*shape))
@pytest.mark.parametrize("name", METHODS)
def test_every_method_trains_what_fig_1_says(name, shape):
    model = built(METHODS[name], *shape)
    assert model.n_parameters == counts(*shape)[name]


@pytest.mark.parametrize("shape", SHAPES[:3], ids=lambda shape: "L{} M{} D{} N{} P{}".format(*shape))
def test_subset_of_data_has_the_fewest_parameters_of_fig_1(shape):
    L, M, D, N, _ = shape
    ours = {name: built(METHODS[name], *shape).n_parameters for name in ("SoD", "DSVI", "mean-field")}
    assert ours["SoD"] < ours["DSVI"] < ours["mean-field"]
    assert ours["DSVI"] - ours["SoD"] == L * M * D
    assert ours["mean-field"] - ours["DSVI"] == 2 * N * D * (L - 1)


@pytest.mark.parametrize("name", METHODS)
def test_counted_numbers_are_those_that_the_objective_depends_on(name):
    _, M, D, N, P = shape = (2, 4, 3, 11, 1)
    method, model = METHODS[name], built(METHODS[name], *shape).requires_grad_()
    size = M if method.uses_subset else 0
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * randn(83, *parameter.shape))
    X, y = randn(80, 1, N, D), randn(81, 1, N, P)
    batch = Batch(X[:, :size], y[:, :size], X[:, size:], y[:, size:], scale=1.0)
    total = bound(method.terms(model, batch, fresh(84, 2)))
    gradients = torch.autograd.grad(total, list(model.parameters()))
    assert sum(int((g != 0).sum()) for g in gradients) == model.n_parameters
