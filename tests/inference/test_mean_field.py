"""The mean-field deep GP: its bound against DSVI, brute force and the evidence."""

import math
from itertools import pairwise

import pytest
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.priors import GammaPrior
from helpers import predict, predict_joint
from torch.distributions import MultivariateNormal, Normal

from sodgp.errors import InputError
from sodgp.inference.contract import Batch, TrainingSet, bound
from sodgp.inference.dsvi import DSVI
from sodgp.inference.mean_field import MeanField
from sodgp.linalg.cholesky import Jitter
from sodgp.linalg.draws import FreshDraws, SharedDraws
from sodgp.model.architecture import Architecture

NONE = torch.Size()
HIDDEN = {"1 layer": [], "2 layers": [2], "3 layers": [2, 1], "wider": [3]}


def generator(seed):
    return torch.Generator().manual_seed(seed)


def randn(seed, *shape):
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64)


def training_set(seed, rows=6, d_in=2, n_outputs=1, replicates=NONE):
    X, y = 1.2 * randn(seed, *replicates, rows, d_in), randn(seed + 1, *replicates, rows, n_outputs)
    return TrainingSet(X[..., :0, :], y[..., :0, :], X, y)


def batch_of(data):
    return Batch(*(t.unsqueeze(-3) for t in (data.X_s, data.y_s, data.X_r, data.y_r)), scale=1.0)


def architecture(hidden, *, d_in=2, n_outputs=1, size=3, linear=True, replicates=NONE, **options):
    sizes = [d_in, *hidden]
    weights = [
        0.7 * randn(900 + i, *replicates, *pair) if linear else torch.zeros(*replicates, *pair, dtype=torch.float64)
        for i, pair in enumerate(pairwise(sizes))
    ]
    return Architecture(
        d_in, n_outputs, size, weights, replicates=replicates, **{"jitter": Jitter(0.01, relative=False), **options}
    )


@torch.no_grad()
def randomise(model, seed):
    source = generator(seed)
    for name, parameter in model.named_parameters():
        # A kernel expanded to replicates shares its numbers among them.
        parameter.data = parameter.data.clone()
        noise = torch.randn(parameter.shape, generator=source, dtype=torch.float64)
        if name.endswith("q_factor"):
            parameter.copy_(0.3 * noise.tril(-1) + torch.diag_embed(0.4 + 0.2 * noise.diagonal(dim1=-2, dim2=-1).abs()))
        elif name.endswith("q_mean"):
            parameter.copy_(0.7 * noise)
        elif name.endswith(("raw_variance", "raw_layer_noise", "raw_noise")):
            parameter.copy_(-1.0 + 0.4 * noise)
        else:
            parameter.add_(0.3 * noise)
    return model


def random_case(hidden, seed=0, *, rows=4, n_outputs=1, **options):
    data = training_set(seed, rows, n_outputs=n_outputs)
    model = MeanField().build(architecture(hidden, n_outputs=n_outputs, **options), data, generator(seed))
    return randomise(model, seed + 7), data


def value(model, data):
    return bound(MeanField().terms(model, batch_of(data), FreshDraws(generator(0), 1)))


# The same mathematics a second time, from samples.


def kernel_by_hand(layer, Z1, Z2):
    difference = (Z1.unsqueeze(-2) - Z2.unsqueeze(-3)) / layer.kernel.base_kernel.lengthscale[0]
    return layer.kernel.outputscale * (-0.5 * difference.square().sum(-1)).exp()


def draw_layer(layer, z, source):
    """F [T, N, D] at rows z [T, N, D_in] (marginally exact for every row), and log p(u) - log q(u): [T]."""
    Z, m, C = layer.inducing_inputs, layer.q_mean, layer.q_factor.tril()
    L = torch.linalg.cholesky(kernel_by_hand(layer, Z, Z) + layer.jitter.amount * torch.eye(len(Z), dtype=Z.dtype))
    q = MultivariateNormal(m.mT, scale_tril=C)
    noise = torch.randn(len(z), *m.mT.shape, generator=source, dtype=Z.dtype)
    u = m.mT + (C @ noise.unsqueeze(-1)).squeeze(-1)
    k = kernel_by_hand(layer, z, Z)
    A = torch.linalg.solve_triangular(L, k.mT, upper=False)
    variance = layer.kernel.outputscale - A.square().sum(-2)
    noise = torch.randn(*z.shape[:-1], m.shape[-1], generator=source, dtype=Z.dtype)
    F = z @ layer.mean.weight + A.mT @ u.mT + variance.sqrt().unsqueeze(-1) * noise
    return F, (Normal(0.0, 1.0).log_prob(u).sum(-1) - q.log_prob(u)).sum(-1)


@torch.no_grad()
def log_ratio_by_sampling(model, data, seed, count):
    """log p(y, Z, U) - log q(Z, U) at draws of q; p(F | U, Z) stands in both."""
    source = generator(seed)
    z, total = data.X_r.expand(count, -1, -1), torch.zeros(count, dtype=torch.float64)
    for layer in model.layers:
        F, ratio = draw_layer(layer, z, source)
        total += ratio
        if layer is model.last:
            return total + Normal(F, model.noise_variance.sqrt()).log_prob(data.y_r).sum((-2, -1))
        q = Normal(*(x.squeeze(0) for x in (layer.latent.moments.mean, layer.latent.moments.variance.sqrt())))
        z = q.mean + q.stddev * torch.randn(F.shape, generator=source, dtype=torch.float64)
        p = Normal(F, layer.layer_noise_variance.sqrt())
        total += (p.log_prob(z) - q.log_prob(z)).sum((-2, -1))
    raise AssertionError


@torch.no_grad()
def evidence_by_sampling(model, data, seed, count):
    """Monte Carlo log evidence of a two-layer model over draws of its prior, and its standard error."""
    source, X, y = generator(seed), data.X_r, data.y_r[:, 0]
    hidden, last = model.layers
    eye = torch.eye(len(X), dtype=torch.float64)
    root = torch.linalg.cholesky(kernel_by_hand(hidden, X, X) + hidden.layer_noise_variance.squeeze() * eye)
    Z = X @ hidden.mean.weight + root @ torch.randn(
        count, len(X), hidden.q_mean.shape[-1], generator=source, dtype=torch.float64
    )
    covariance = kernel_by_hand(last, Z, Z) + model.noise_variance.squeeze() * eye
    density = MultivariateNormal(torch.zeros_like(y), covariance).log_prob(y)
    evidence = density.logsumexp(0) - math.log(count)
    return float(evidence), float((density - evidence).exp().std()) / math.sqrt(count)


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_one_layer_is_dsvi(n_outputs):
    model, data = random_case([], n_outputs=n_outputs, rows=20)
    batch, draws = batch_of(data), FreshDraws(generator(0), 1)
    ours, theirs = MeanField().terms(model, batch, draws), DSVI().terms(model, batch, draws)
    assert ours.keys() == theirs.keys()
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-12, atol=1e-12)


def test_one_layer_is_below_the_evidence():
    for seed in range(3):
        model, data = random_case([], seed, rows=8)
        K = kernel_by_hand(model.last, data.X_r, data.X_r) + model.noise_variance.squeeze() * torch.eye(8)
        evidence = MultivariateNormal(torch.zeros(8, dtype=torch.float64), K).log_prob(data.y_r[:, 0])
        assert value(model, data) < evidence


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("hidden", [[2], [2, 1], [1, 3]], ids=str)
def test_sum_of_terms_is_the_expectation_of_log_p_minus_log_q(hidden, linear):
    model, data = random_case(hidden, 3, linear=linear, n_outputs=2)
    ratios = log_ratio_by_sampling(model, data, 11, 80_000)
    error = float(ratios.std()) / math.sqrt(len(ratios))
    ours = float(value(model, data).detach())
    assert error < 0.01 * abs(ours)
    assert abs(ours - float(ratios.mean())) < 4 * error


@pytest.mark.parametrize("linear", [False, True])
def test_two_layers_are_below_the_evidence(linear):
    for seed in range(3):
        model, data = random_case([1], seed, rows=3, linear=linear)
        evidence, error = evidence_by_sampling(model, data, 21, 100_000)
        assert error < 0.05
        assert float(value(model, data).detach()) < evidence - 4 * error


def test_two_layers_come_close_to_the_evidence_and_stay_below():
    model, data = random_case([1], 5, rows=3)
    variational = [p for name, p in model.named_parameters() if "latent" in name or "q_" in name or "inducing" in name]
    optimiser = torch.optim.Adam(variational, lr=0.05)
    start = float(value(model, data).detach())
    for _ in range(200):
        optimiser.zero_grad()
        (-value(model, data)).backward()
        optimiser.step()
    evidence, error = evidence_by_sampling(model, data, 22, 200_000)
    end = float(value(model, data).detach())
    assert end < evidence - 4 * error
    assert evidence - end < 0.3 * (evidence - start)


def test_gradients_are_finite_differences():
    model, data = random_case([2], 4)
    names, parameters = zip(*model.named_parameters(), strict=True)
    value(model, data).backward()
    source = generator(1)
    for name, parameter in zip(names, parameters, strict=True):
        direction = torch.randn(parameter.shape, generator=source, dtype=torch.float64)
        values = []
        for step in (1e-5, -1e-5):
            with torch.no_grad():
                parameter.add_(step * direction)
                values.append(value(model, data))
                parameter.sub_(step * direction)
        slope = (values[0] - values[1]) / 2e-5
        torch.testing.assert_close((parameter.grad * direction).sum(), slope, rtol=1e-5, atol=1e-5, msg=name)


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("hidden", HIDDEN.values(), ids=HIDDEN.keys())
def test_a_replicate_is_the_single_model(hidden, linear):
    replicates, method = torch.Size([3]), MeanField()
    data = training_set(30, replicates=replicates)
    together = architecture(hidden, linear=linear, replicates=replicates)
    stack = randomise(method.build(together, data, generator(0)), 31)
    terms = method.terms(stack, batch_of(data), FreshDraws(generator(0), 1))
    sum(terms.values()).sum().backward()
    X = randn(33, 3, 1, 5, 2)
    sources = [generator(r) for r in range(3)]
    both = [predict, predict_joint]
    predictions = [p(method, stack, *rows_of(data), X, FreshDraws(sources, 4)) for p in both]
    sources = [generator(r) for r in range(3)]
    for r in range(3):
        one = TrainingSet(*(t[r] for t in (data.X_s, data.y_s, data.X_r, data.y_r)))
        alone = architecture(hidden, linear=linear)
        for W, source in zip(alone.mean_weights, together.mean_weights, strict=True):
            W.copy_(source[r])
        single = method.build(alone, one, generator(0))
        with torch.no_grad():
            for name, parameter in single.named_parameters():
                parameter.copy_(stack.get_parameter(name)[r].reshape(parameter.shape))
        assert single.n_parameters == stack.n_parameters
        theirs = method.terms(single, batch_of(one), FreshDraws(generator(0), 1))
        sum(theirs.values()).backward()
        for name in theirs:
            assert terms[name].shape == replicates
            torch.testing.assert_close(terms[name][r], theirs[name], rtol=1e-10, atol=1e-10)
        for name, parameter in single.named_parameters():
            ours = stack.get_parameter(name).grad[r].reshape(parameter.shape)
            torch.testing.assert_close(ours, parameter.grad, rtol=1e-8, atol=1e-8)
        for p, (mean, spread) in zip(both, predictions, strict=True):
            theirs = p(method, single, *rows_of(one), X[r], draws(sources[r]))
            torch.testing.assert_close((mean[r], spread[r]), tuple(theirs))


def rows_of(data):
    """The empty subset, with the sample axis."""
    return data.X_s.unsqueeze(-3), data.y_s.unsqueeze(-3)


def draws(source):
    return FreshDraws(source, 4)


def test_the_priors_of_a_kernel_are_a_term():
    def kernel(dims):
        return ScaleKernel(RBFKernel(ard_num_dims=dims, lengthscale_prior=GammaPrior(2.0, 1.0)))

    model, data = random_case([2], kernel=kernel)
    terms = MeanField().terms(model, batch_of(data), FreshDraws(generator(0), 1))
    assert list(terms) == ["rest", "z_1", "entropy_1", "kl_1", "kl_last", "log_prior"]


def test_a_prediction_depends_on_its_own_row_alone():
    model, data = random_case([2, 2])
    X = randn(42, 1, 6, 2)
    shared = lambda: SharedDraws(3, 5, dtype=torch.float64)
    whole = predict(MeanField(), model, *rows_of(data), X, shared())
    part = predict(MeanField(), model, *rows_of(data), X[:, [4, 1]], shared())
    for ours, theirs in zip(part, whole, strict=True):
        torch.testing.assert_close(ours, theirs[:, [4, 1]], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("linear", [False, True])
def test_the_start_follows_the_linear_path(linear):
    # Rows in a grid: whichever of them k-means picks, the others have neighbours within a lengthscale.
    X = torch.cartesian_prod(*[torch.linspace(-1.0, 1.0, 7, dtype=torch.float64)] * 2)
    data = TrainingSet(X[:0], X[:0, :1], X, randn(51, len(X), 1))
    W = torch.eye(2, dtype=torch.float64) if linear else torch.zeros(2, 2, dtype=torch.float64)
    model = MeanField().build(Architecture(2, 1, 20, [W]), data, generator(0))
    layer = model.layers[0]
    torch.testing.assert_close(layer.latent.mean.detach(), data.X_r)
    Z = layer.inducing_inputs.detach()
    torch.testing.assert_close(layer.marginals(Z[None]).mean.detach()[0], Z, rtol=0.0, atol=2e-3)
    assert bool(((layer.marginals(X[None]).mean - X).abs() < 0.1).all())
    assert float(model.last.inducing_inputs.detach().std()) > 0.5


def test_constant_columns_are_moved_apart():
    data = training_set(51, 10)
    model = MeanField().build(Architecture(2, 1, 4, [torch.eye(2, 3, dtype=torch.float64)]), data, generator(0))
    assert bool(model.layers[0].latent.mean[:, 2].std() > 1e-3)


def test_parameters_are_counted_with_those_of_every_row():
    N, M, D, W = 30, 5, 2, 3
    model = MeanField().build(architecture([W], d_in=D, size=M), training_set(60, N, D), generator(0))
    hidden = M * D + M * W + W * M * (M + 1) // 2 + (D + 1) + 1 + 2 * N * W
    last = M * W + M + M * (M + 1) // 2 + (W + 1)
    assert model.n_parameters == hidden + last + 1


def test_a_finished_model_is_loaded_without_its_rows():
    model, data = random_case([2, 1], rows=9)
    empty = MeanField().build(architecture([2, 1]), None, generator(1))
    state = model.eval().state_dict()
    assert not any(9 in tensor.shape for tensor in state.values())
    assert {name: t.shape for name, t in empty.state_dict().items()} == {name: t.shape for name, t in state.items()}
    empty.load_state_dict(state, strict=True)
    assert empty.n_parameters == model.n_parameters
    X = randn(61, 1, 4, 2)
    shared = lambda: SharedDraws(3, 5, dtype=torch.float64)
    for ours, theirs in zip(
        *(predict(MeanField(), m, *rows_of(data), X, shared()) for m in (empty, model)), strict=True
    ):
        assert torch.equal(ours, theirs)
    with pytest.raises(InputError, match=r"q\(Z\) for 0 rows .* this batch has 9"):
        value(empty, data)


def test_a_checkpoint_of_training_brings_its_rows():
    model, data = random_case([2], rows=9)
    empty = MeanField().build(architecture([2]), None, generator(1))
    empty.load_state_dict(model.train().state_dict(), strict=True)
    assert value(empty, data) == value(model, data)
    state = model.state_dict()
    del state["layers.0.q_mean"]
    with pytest.raises(RuntimeError, match="q_mean"):
        empty.load_state_dict(state, strict=True)


@pytest.mark.parametrize(
    ("method", "rows", "hidden", "message"),
    [
        (MeanField(), 5001, [2], r"5001 rows with hidden widths \[2\] make 20004 such numbers.*limits are 5000 rows"),
        (MeanField(max_latents=100), 20, [3], r"make 120 such numbers.*100 numbers.*'sod' or 'dsvi'"),
    ],
)
def test_too_many_rows_are_refused(method, rows, hidden, message):
    with pytest.raises(InputError, match=message):
        method.build(architecture(hidden), training_set(70, rows), generator(0))
