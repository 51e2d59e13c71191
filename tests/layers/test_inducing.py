"""A layer with inducing points: its moments by hand, its draws, its KL, replicates, and where its inputs start."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel
from torch.distributions import MultivariateNormal, kl_divergence

from sodgp import DeepGPRegressor
from sodgp.inference.contract import Batch, TrainingSet, bound
from sodgp.inference.dsvi import DSVI
from sodgp.inference.inducing import inducing_start
from sodgp.layers.contract import Points
from sodgp.layers.inducing import InducingLayer
from sodgp.layers.prior import HiddenMean
from sodgp.linalg.cholesky import Jitter
from sodgp.linalg.draws import FreshDraws
from sodgp.model.architecture import Architecture, linear_weights
from sodgp.model.deep_gp import DeepGP
from sodgp.selectors.kmeans import KMeans

NONE = torch.Size()
D_IN, SIZE, WIDTH = 2, 4, 3
JITTERS = {
    "relative": Jitter(1e-3),
    "absolute": Jitter(1e-3, relative=False),
    "on draws": Jitter(1e-3, relative=False, on_draws=True),
}


def generator(seed):
    return torch.Generator().manual_seed(seed)


def randn(seed, *shape):
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64)


def close(ours, theirs, tolerance=1e-10):
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def rbf(d_in, replicates=NONE):
    batch_shape = torch.Size([*replicates, 1]) if replicates else NONE
    base = RBFKernel(ard_num_dims=d_in, batch_shape=batch_shape)
    return ScaleKernel(base, batch_shape=batch_shape).double()


def make(d_in=D_IN, width=WIDTH, *, seed=0, replicates=NONE, nugget=0.03, **options):
    """A layer with a random linear mean, random q and a random kernel; one output's factor has a negative diagonal."""
    layer = InducingLayer(
        rbf(d_in, replicates),
        HiddenMean(0.7 * randn(seed, *replicates, d_in, width)),
        1.5 * randn(seed + 1, *replicates, SIZE, d_in),
        width=width,
        nugget=nugget,
        replicates=replicates,
        **{"jitter": JITTERS["relative"], **options},
    )
    with torch.no_grad():
        layer.q_mean.copy_(0.7 * randn(seed + 2, *layer.q_mean.shape))
        for parameter in layer.kernel.parameters():
            parameter.add_(0.3 * randn(seed + 3, *parameter.shape))
        if not layer.is_point:
            noise = 0.3 * randn(seed + 4, *layer.q_factor.shape)
            layer.q_factor.copy_(noise + 0.5 * torch.eye(SIZE, dtype=torch.float64))
            layer.q_factor[..., 0, :, :].neg_()
    return layer


def kernel_by_hand(layer, Z1, Z2):
    difference = (Z1.unsqueeze(-2) - Z2.unsqueeze(-3)) / layer.kernel.base_kernel.lengthscale[0]
    return layer.kernel.outputscale * (-0.5 * difference.square().sum(-1)).exp()


@torch.no_grad()
def by_hand(layer, X, u=None):
    """Mean [B, D] and covariance [D, B, B] of f at X [B, D_in], with the nugget and the jitter where they belong."""
    Z, eye_z, eye_x = layer.inducing_inputs, torch.eye(SIZE, dtype=X.dtype), torch.eye(len(X), dtype=X.dtype)
    nugget = 0.0 if layer.noise_variance is None else layer.noise_variance
    K_zz = kernel_by_hand(layer, Z, Z) + nugget * eye_z
    amount = layer.jitter.amount * (K_zz.diagonal().mean() if layer.jitter.relative else 1.0)
    K_zz = K_zz + amount * eye_z
    K_zx = kernel_by_hand(layer, Z, X)
    K_xx = kernel_by_hand(layer, X, X) + (nugget + layer.jitter.prior_extra) * eye_x
    prior_z, L = Z @ layer.mean.weight, torch.linalg.cholesky(K_zz)
    G = K_zx.mT @ torch.linalg.inv(K_zz)
    # U = mean(Z) + L u, and u is N(m, C C') or given.
    values = prior_z + L @ (layer.q_mean if u is None else u)
    mean = X @ layer.mean.weight + G @ (values - prior_z)
    covariance = (K_xx - G @ K_zx).expand(values.shape[-1], -1, -1)
    if u is None and not layer.is_point:
        LC = L @ layer.q_factor.tril()
        covariance = covariance + G @ LC @ LC.mT @ G.mT
    return mean, covariance


# Moments.


@torch.no_grad()
@pytest.mark.parametrize("jitter", JITTERS.values(), ids=JITTERS)
@pytest.mark.parametrize("nugget", [None, 0.03])
def test_moments_are_those_of_the_dense_formulas(nugget, jitter):
    layer = make(nugget=nugget, jitter=jitter)
    Z_b, u = randn(10, 3, 5, D_IN), randn(11, 3, SIZE, WIDTH)
    for given in (None, u):
        mean, variance = layer.marginals(Z_b, given)
        joint_mean, joint = layer.joint_moments(Z_b, given)
        for t in range(3):
            expected_mean, expected = by_hand(layer, Z_b[t], None if given is None else given[t])
            close(mean[t], expected_mean)
            close(joint_mean[t], expected_mean)
            close(joint[t], expected)
            close(variance[t], expected.diagonal(dim1=-2, dim2=-1).mT)


@torch.no_grad()
@pytest.mark.parametrize("replicates", [NONE, torch.Size([2])], ids=["single", "replicates"])
def test_all_samples_in_one_product_are_the_samples_one_by_one(replicates):
    layer = make(replicates=replicates)
    Z_b, u = randn(10, *replicates, 4, 5, D_IN), randn(11, *replicates, 4, SIZE, WIDTH)
    for given in (None, u):
        together = layer.marginals(Z_b, given)
        alone = [
            layer.marginals(Z_b[..., t : t + 1, :, :], None if given is None else given[..., t : t + 1, :, :])
            for t in range(4)
        ]
        for ours, theirs in zip(together, zip(*alone, strict=True), strict=True):
            assert ours.shape == (*replicates, 4, 5, WIDTH)
            close(ours, torch.cat(theirs, -3))


@torch.no_grad()
def test_rows_that_all_samples_share_meet_every_u():
    # Layer 1: the inputs have a sample axis of one, the u of SGHMC's chains have not.
    layer = make()
    X, u = randn(10, 1, 5, D_IN), randn(11, 3, SIZE, WIDTH)
    ours, theirs = layer.marginals(X, u), layer.marginals(X.expand(3, -1, -1), u)
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == (3, 5, WIDTH)
        close(a, b)


@torch.no_grad()
@pytest.mark.parametrize("jitter", JITTERS.values(), ids=JITTERS)
@pytest.mark.parametrize("nugget", [None, 0.03])
@pytest.mark.parametrize("replicates", [NONE, torch.Size([2])], ids=["single", "replicates"])
def test_marginal_variances_are_the_joint_covariances_diagonals(replicates, nugget, jitter):
    layer = make(replicates=replicates, nugget=nugget, jitter=jitter)
    Z_b, u = randn(10, *replicates, 3, 5, D_IN), randn(11, *replicates, 3, SIZE, WIDTH)
    for given in (None, u):
        mean, variance = layer.marginals(Z_b, given)
        joint_mean, joint = layer.joint_moments(Z_b, given)
        close(joint_mean, mean)
        close(joint.diagonal(dim1=-2, dim2=-1).mT, variance)


@torch.no_grad()
def test_the_nugget_sits_on_both_diagonals_and_between_no_two_rows():
    with_nugget, without = make(nugget=0.5, jitter=Jitter(0.0)), make(nugget=None, jitter=Jitter(0.0))
    X = with_nugget.inducing_inputs.detach()[None]
    # f at the inducing inputs is the function with a fresh nugget: K - K (K + nugget)^-1 K + nugget.
    K, noise = kernel_by_hand(without, X[0], X[0]), with_nugget.noise_variance
    eye = torch.eye(SIZE, dtype=torch.float64)
    expected = K - K @ torch.linalg.inv(K + noise * eye) @ K + noise * eye
    u = torch.zeros(1, SIZE, WIDTH, dtype=torch.float64)
    close(with_nugget.marginals(X, u).variance[0, :, 0], expected.diagonal())
    close(with_nugget.joint_moments(X, u)[1][0, 0], expected)
    # Without one the inducing inputs' own rows are certain.
    assert float(without.marginals(X, u).variance.max()) < 1e-12


# Draws.


class GivenDraws:
    def __init__(self, numbers):
        self.n_samples, self.numbers = len(numbers), numbers

    def rest(self, rows, width):
        return self.numbers

    subset = rest


@torch.no_grad()
def test_marginal_draws_are_mean_and_deviation_of_every_row():
    layer, X, numbers = make(), randn(10, 1, 5, D_IN), randn(12, 3, 5, WIDTH)
    points, kl = layer.propagate(Points(X[:, :0], X), GivenDraws(numbers), "marginal")
    mean, variance = layer.marginals(X)
    close(points.rest, mean + variance.sqrt() * numbers)
    close(kl, layer.kl())


@torch.no_grad()
@pytest.mark.parametrize("is_given", [False, True])
def test_joint_draws_have_the_joint_covariance(is_given):
    # Unit vectors as random numbers give the columns of the root of the covariance.
    layer, rows = make(), 5
    X = randn(10, 1, rows, D_IN)
    u = randn(11, 1, SIZE, WIDTH) if is_given else None
    numbers = torch.eye(rows, dtype=torch.float64).unsqueeze(-1).expand(rows, rows, WIDTH)
    drawn = layer.propagate_given(Points(X[:, :0], X), GivenDraws(numbers), "joint", u).rest
    mean, covariance = layer.joint_moments(X, u)
    columns = drawn - mean
    close(torch.einsum("tnd,tmd->dnm", columns, columns), covariance[0], 1e-8)


# KL.


@torch.no_grad()
@pytest.mark.parametrize("replicates", [NONE, torch.Size([2])], ids=["single", "replicates"])
def test_kl_is_that_of_torch_distributions(replicates):
    layer = make(replicates=replicates)
    C = layer.q_factor.tril()
    q = MultivariateNormal(layer.q_mean.mT, C @ C.mT)
    prior = MultivariateNormal(torch.zeros(SIZE, dtype=torch.float64), torch.eye(SIZE, dtype=torch.float64))
    close(layer.kl(), kl_divergence(q, prior).sum(-1, keepdim=True))


@torch.no_grad()
def test_kl_is_the_same_for_the_function_values_themselves():
    layer = make()
    Z, eye = layer.inducing_inputs, torch.eye(SIZE, dtype=torch.float64)
    K = kernel_by_hand(layer, Z, Z) + layer.noise_variance * eye
    K = K + layer.jitter.amount * K.diagonal().mean() * eye
    L, prior_mean = torch.linalg.cholesky(K), Z @ layer.mean.weight
    LC = L @ layer.q_factor.tril()
    q = MultivariateNormal((prior_mean + L @ layer.q_mean).mT, LC @ LC.mT)
    close(layer.kl(), kl_divergence(q, MultivariateNormal(prior_mean.mT, K)).sum().reshape(1), 1e-9)


def test_a_points_kl_is_minus_its_log_prior_up_to_a_constant():
    layer = make(factor_scale=None)
    prior = torch.distributions.Normal(0.0, 1.0)
    constant = -prior.log_prob(torch.zeros(())).double() * SIZE * WIDTH
    log_prior = prior.log_prob(layer.q_mean).sum().reshape(1)
    close(layer.kl(), -log_prior - constant, 1e-6)
    assert layer.variational_parameters()[1] is None


# What is trained.


def test_fixed_inducing_inputs_are_no_parameters_but_are_kept():
    free, fixed = make(), make(learn_inducing_inputs=False)
    assert "inducing_inputs" in dict(free.named_parameters())
    assert "inducing_inputs" not in dict(fixed.named_parameters())
    assert not fixed.inducing_inputs.requires_grad
    assert "inducing_inputs" in fixed.state_dict()
    assert free.n_parameters - fixed.n_parameters == SIZE * D_IN
    X = randn(10, 1, 5, D_IN)
    for layer in (free, fixed):
        layer.marginals(X).mean.sum().backward()
    assert bool((free.inducing_inputs.grad != 0).all())
    assert fixed.inducing_inputs.grad is None
    close(fixed.q_mean.grad, free.q_mean.grad)


@pytest.mark.parametrize("replicates", [NONE, torch.Size([2])], ids=["single", "replicates"])
def test_counts(replicates):
    q, hyper = WIDTH * (SIZE + SIZE * (SIZE + 1) // 2), D_IN + 1
    assert make(replicates=replicates).n_parameters == SIZE * D_IN + q + hyper + 1
    assert make(replicates=replicates, nugget=None).n_parameters == SIZE * D_IN + q + hyper
    assert make(replicates=replicates, factor_scale=None).n_parameters == SIZE * D_IN + SIZE * WIDTH + hyper + 1


class Objective(torch.nn.Module):
    """All terms of the bound as one vector, at the same draws in every call."""

    def __init__(self, model, batch):
        super().__init__()
        self.model, self.batch = model, batch

    def forward(self):
        draws = FreshDraws(generator(20), 2)
        return torch.stack(list(DSVI().terms(self.model, self.batch, draws).values()))


def batch_of(X, y, scale=1.0):
    return Batch(X[..., :0, :], y[..., :0, :], X, y, scale=scale)


def small_model(replicates=NONE, **options):
    sizes = [D_IN, 2, 1]
    layers = [
        make(*pair, seed=30 + 10 * i, replicates=replicates, nugget=0.03 if i == 0 else None, index=i + 1, **options)
        for i, pair in enumerate(pairwise(sizes))
    ]
    return DeepGP(layers, GaussianLikelihood(1, 0.1, replicates=replicates), replicates=replicates)


@pytest.mark.parametrize("learn", [True, False], ids=["DSVI", "DSVI*"])
def test_gradients_of_the_bound_equal_finite_differences(learn):
    batch = batch_of(randn(21, 1, 3, D_IN), randn(22, 1, 3, 1), scale=2.0)
    objective = Objective(small_model(learn_inducing_inputs=learn), batch)
    names, values = zip(
        *((name, p.detach().clone().requires_grad_()) for name, p in objective.named_parameters()), strict=True
    )

    def terms(*parameters):
        return torch.func.functional_call(objective, dict(zip(names, parameters, strict=True)))

    assert torch.autograd.gradcheck(terms, values, eps=1e-6, atol=1e-6, rtol=1e-5)


def test_gradients_stay_finite_where_rows_and_inducing_inputs_are_equal():
    model = small_model()
    X = model.layers[0].inducing_inputs.detach()[None, [0, 0, 1]]
    total = Objective(model, batch_of(X, randn(22, 1, 3, 1)))().sum()
    assert all(bool(torch.isfinite(g).all()) for g in torch.autograd.grad(total, list(model.parameters())))


# Replicates.


def test_every_replicate_is_the_single_model_with_its_parameters():
    n_replicates = 3
    stack = small_model(torch.Size([n_replicates]))
    X, y = randn(40, n_replicates, 1, 5, D_IN), randn(41, n_replicates, 1, 5, 1)
    draws = FreshDraws([generator(42 + r) for r in range(n_replicates)], 4)
    ours = DSVI().terms(stack, batch_of(X, y), draws)
    bound(ours).sum().backward()
    draws = FreshDraws([generator(42 + r) for r in range(n_replicates)], 4)
    predicted = predict_joint(DSVI(), stack, X, y, X, draws)
    for r in range(n_replicates):
        single = small_model()
        with torch.no_grad():
            for name, tensor in [*single.named_parameters(), *single.named_buffers()]:
                together = dict([*stack.named_parameters(), *stack.named_buffers()])[name]
                if together.shape != tensor.shape:
                    tensor.copy_(together[r].reshape(tensor.shape))
        theirs = DSVI().terms(single, batch_of(X[r], y[r]), FreshDraws(generator(42 + r), 4))
        for name in theirs:
            assert ours[name].shape == (n_replicates,)
            close(ours[name][r], theirs[name])
        bound(theirs).backward()
        for name, parameter in single.named_parameters():
            close(stack.get_parameter(name).grad[r].reshape(parameter.shape), parameter.grad, 1e-9)
        alone = predict_joint(DSVI(), single, X[r], y[r], X[r], FreshDraws(generator(42 + r), 4))
        for a, b in zip(predicted, alone, strict=True):
            close(a[r], b)
        assert single.n_parameters == stack.n_parameters


# Where inducing inputs start.


def training_set(X):
    y = X[..., :1]
    return TrainingSet(X[..., :0, :], y[..., :0, :], X, y)


def architecture(X, widths, size, **options):
    return Architecture(X.shape[-1], 1, size, linear_weights(X, widths), **options)


def test_k_means_centres_are_carried_through_the_linear_means():
    X = randn(50, 60, 4)
    design = architecture(X, [3, 3, 5], 7)
    model = DSVI().build(design, training_set(X), generator(1))
    Z = KMeans().centres(X, 7, generator(1))
    for layer, W in zip(model.layers, [*design.mean_weights, None], strict=True):
        close(layer.inducing_inputs.detach(), Z)
        Z = Z if W is None else Z @ W
    # So the layers' prior means at their inducing inputs are the next layer's inducing inputs.
    first, second = model.layers[:2]
    close(first.mean(first.inducing_inputs), second.inducing_inputs)


def test_zero_means_do_not_put_all_inducing_inputs_on_one_point():
    X = randn(50, 60, 4)
    linear = architecture(X, [3, 2], 7)
    zero = replace(linear, mean_weights=[torch.zeros_like(W) for W in linear.mean_weights])
    ours, theirs = (DSVI(learn_inducing_inputs=False).build(a, training_set(X), generator(1)) for a in (zero, linear))
    for a, b in zip(ours.layers, theirs.layers, strict=True):
        close(a.inducing_inputs, b.inducing_inputs)
        assert float(torch.pdist(a.inducing_inputs).min()) > 1e-2
        assert not bool(a.mean.weight.any())


@pytest.mark.parametrize("is_linear", [True, False], ids=["linear means", "zero means"])
def test_every_replicate_starts_at_its_own_data(is_linear):
    X = randn(51, 2, 40, 3)
    singles = [architecture(x, [2], 5) for x in X]
    weights = [torch.stack(W) for W in zip(*(a.mean_weights for a in singles), strict=True)]
    if not is_linear:
        weights = [torch.zeros_like(W) for W in weights]
    together = replace(singles[0], mean_weights=weights, replicates=torch.Size([2]))
    model = DSVI().build(together, training_set(X), generator(3))
    source = generator(3)
    for r in range(2):
        Z = KMeans().centres(X[r], 5, source)
        close(model.layers[0].inducing_inputs[r].detach(), Z)
        close(model.layers[1].inducing_inputs[r].detach(), Z @ singles[r].mean_weights[0])


def test_where_rows_are_as_many_as_inducing_inputs_they_are_the_start():
    X = randn(52, 6, 3)
    Z = inducing_start(architecture(X, [], 6), training_set(X[[0, 1, 1, 2, 3, 4, 5, 0]]), generator(0))
    assert torch.equal(Z, X)


def test_fewer_distinct_rows_than_inducing_inputs():
    X = randn(53, 4, 3)
    rows = X[torch.arange(20) % 4]
    model = DSVI().build(architecture(X, [2], 10), training_set(rows), generator(0))
    Z = model.layers[0].inducing_inputs.detach()
    assert torch.equal(Z[:4], X)
    assert float((Z - X[torch.arange(10) % 4]).abs().max()) < 0.01
    assert float(torch.pdist(Z).min()) > 0.0
    value = bound(DSVI().terms(model, batch_of(rows[None], rows[None, :, :1]), FreshDraws(generator(0), 2)))
    assert bool(torch.isfinite(value))


def test_constant_columns_and_a_single_distinct_row():
    X = torch.ones(8, 3, dtype=torch.float64)
    Z = inducing_start(architecture(X, [], 3), training_set(X), generator(0))
    assert torch.equal(Z[0], X[0])
    assert len(Z.unique(dim=0)) == 3


def test_without_data_there_is_only_room():
    design = Architecture(3, 1, 5, [torch.eye(3, dtype=torch.float64)])
    model = DSVI().build(design, None, generator(0))
    assert [tuple(layer.inducing_inputs.shape) for layer in model.layers] == [(5, 3), (5, 3)]


@pytest.mark.parametrize("learn", [True, False], ids=["DSVI", "DSVI*"])
def test_a_fit_with_few_distinct_rows(learn):
    X = np.repeat(np.linspace(-1.0, 1.0, 5)[:, None], 6, axis=0)
    model = DeepGPRegressor(
        inference="dsvi", subset_size=12, max_iter=20, random_state=0, learn_inducing_inputs=learn
    ).fit(X, np.sin(3.0 * X[:, 0]))
    assert np.isfinite(model.predict(X)).all()
    assert model.model_.layers[0].inducing_inputs.shape == (12, 1)


def test_a_fit_moves_the_inducing_inputs_of_dsvi_and_not_those_of_its_starred_sister():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    options = {"inference": "dsvi", "subset_size": 6, "random_state": 0}
    moved = {}
    for learn in (True, False):
        early, late = (
            DeepGPRegressor(**options, max_iter=n, learn_inducing_inputs=learn).fit(X, np.sin(X[:, 0])) for n in (1, 30)
        )
        moved[learn] = [
            not torch.equal(a.inducing_inputs, b.inducing_inputs)
            for a, b in zip(early.model_.layers, late.model_.layers, strict=True)
        ]
    assert moved == {True: [True] * 3, False: [False] * 3}
