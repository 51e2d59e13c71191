"""Small models built by hand, and the same mathematics written a second time without the library."""

import math
from itertools import pairwise

import torch
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from torch.distributions import MultivariateNormal, Normal, kl_divergence

from sodgp.inference.contract import Batch, bound
from sodgp.inference.sod import SoD
from sodgp.layers.contract import Points
from sodgp.layers.prior import HiddenMean
from sodgp.layers.subset import SubsetLayer
from sodgp.likelihoods.contract import Sites
from sodgp.likelihoods.gaussian import GaussianLikelihood
from sodgp.linalg.cholesky import Jitter
from sodgp.linalg.draws import FreshDraws
from sodgp.model.deep_gp import DeepGP

FAMILIES = ("whitened", "paper")
COUPLINGS = ("ancestral", "marginal", "joint")
NONE = torch.Size()
NUGGET = Jitter(0.01, relative=False)


def generator(seed):
    return torch.Generator().manual_seed(seed)


def randn(seed, *shape):
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64)


def fresh(seed, n_samples=1):
    return FreshDraws(generator(seed), n_samples)


def rbf(lengthscale=0.8, outputscale=1.3, batch_shape=NONE):
    return _scaled(RBFKernel(batch_shape=batch_shape), lengthscale, outputscale, batch_shape)


def matern12(lengthscale=0.8, outputscale=1.3, batch_shape=NONE):
    return _scaled(MaternKernel(nu=0.5, batch_shape=batch_shape), lengthscale, outputscale, batch_shape)


def _scaled(base, lengthscale, outputscale, batch_shape):
    kernel = ScaleKernel(base, batch_shape=batch_shape).double()
    kernel.outputscale = torch.full(batch_shape, outputscale, dtype=torch.float64)
    kernel.base_kernel.lengthscale = torch.full((*batch_shape, 1, 1), lengthscale, dtype=torch.float64)
    return kernel


def build(
    hidden,
    d_in,
    *,
    size,
    family="whitened",
    n_outputs=1,
    linear=False,
    jitter=NUGGET,
    noise=0.1,
    layer_noise=0.05,
    label_noise=None,
    kernel=rbf,
    weights=None,
    replicates=NONE,
):
    """A DeepGP with hidden widths `hidden`; `linear` gives every layer, the last too, a random linear mean."""
    sizes = [d_in, *hidden, n_outputs]
    layers = []
    for i, (rows, columns) in enumerate(pairwise(sizes)):
        last = i == len(hidden)
        weight = 0.7 * randn(900 + i, rows, columns) if linear else torch.zeros(rows, columns, dtype=torch.float64)
        layers.append(
            SubsetLayer(
                kernel(),
                HiddenMean(weight if weights is None else weights[i]),
                size=size,
                width=columns,
                parameterization=family,
                noise_variance=label_noise if last else layer_noise,
                jitter=jitter,
                index=i + 1,
                replicates=replicates,
            )
        )
    return DeepGP(layers, GaussianLikelihood(n_outputs, noise, replicates=replicates), replicates=replicates)


@torch.no_grad()
def randomise(model, seed):
    """Random q, kernels and noises; diagonals of the factors take both signs."""
    source = generator(seed)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=source, dtype=torch.float64)
        if name.endswith("q_factor"):
            parameter.copy_(
                0.3 * noise.tril(-1) + torch.diag_embed(0.4 * noise.diagonal(dim1=-2, dim2=-1).sign() + 0.2)
            )
        elif name.endswith("q_mean"):
            parameter.copy_(0.7 * noise)
        else:
            parameter.add_(0.3 * noise)
    return model


def data(seed, size, rest, d_in=2, n_outputs=1):
    """A batch that holds the whole rest: scale 1."""
    X, y = 1.5 * randn(seed, size + rest, d_in), randn(seed + 1, size + rest, n_outputs)
    return Batch(X[None, :size], y[None, :size], X[None, size:], y[None, size:], scale=1.0)


def everything(batch):
    """All inputs [N, D] and targets [N, P], subset first."""
    return torch.cat([batch.X_s[0], batch.X_b[0]]), torch.cat([batch.y_s[0], batch.y_b[0]])


def value(model, batch, draws, coupling="ancestral"):
    return bound(SoD(coupling=coupling).terms(model, batch, draws))


@torch.no_grad()
def set_q(layer, mean, factor):
    layer.q_mean.copy_(mean)
    layer.q_factor.copy_(factor)


@torch.no_grad()
def convert_to_paper(whitened, paper, batch):
    """Give a one-layer paper model the parameters of a whitened one: m = mean + L m_w, C = L C_w."""
    paper.load_state_dict(whitened.state_dict())
    layer = whitened.last
    K, mean = prior(layer, batch.X_s[0])
    L = torch.linalg.cholesky(K)
    set_q(paper.last, mean + L @ layer.q_mean, L @ layer.q_factor.tril())


# The same mathematics a second time: explicit inverses, GPyTorch-free kernels, torch.distributions.


def by_hand(kernel, Z1, Z2=None):
    """Scaled RBF or Matern-1/2 from explicit differences."""
    Z2 = Z1 if Z2 is None else Z2
    difference = (Z1.unsqueeze(-2) - Z2.unsqueeze(-3)) / kernel.base_kernel.lengthscale.item()
    square = difference.square().sum(-1)
    correlation = (-0.5 * square).exp() if isinstance(kernel.base_kernel, RBFKernel) else (-square.sqrt()).exp()
    return kernel.outputscale.item() * correlation


def prior(layer, Z, size=None):
    """Covariance [..., N, N] and mean [..., N, D] of F at Z; the nugget sits on the first `size` rows."""
    K = by_hand(layer.kernel, Z)
    size = Z.shape[-2] if size is None else size
    nugget = torch.zeros(K.shape[:-1], dtype=K.dtype)
    amount = layer.jitter.amount
    if layer.jitter.relative:
        amount = amount * K[..., :size, :size].diagonal(dim1=-2, dim2=-1).mean(-1, keepdim=True)
    nugget[..., :size] += amount
    return K + torch.diag_embed(nugget), Z @ layer.mean.weight


def q_of_subset(layer, K_ss, mean_s):
    """Mean [..., D, M] and covariance [..., D, M, M] of q(F_S)."""
    m, C = layer.q_mean.detach(), layer.q_factor.detach().tril()
    if layer.parameterization == "paper":
        return m.mT, C @ C.mT
    L = torch.linalg.cholesky(K_ss)
    LC = L.unsqueeze(-3) @ C
    return (mean_s + L @ m).mT, LC @ LC.mT


def with_labels(mean, covariance, y_s, v):
    """q_hat as the paper writes it: Sigma_hat = (Sigma^-1 + I/v)^-1 and so on; v is [P]."""
    eye = torch.eye(covariance.shape[-1], dtype=torch.float64)
    precision = torch.linalg.inv(covariance)
    covariance_hat = torch.linalg.inv(precision + eye / v[:, None, None])
    right = y_s.mT / v[:, None] + (precision @ mean.unsqueeze(-1)).squeeze(-1)
    covariance_hat = 0.5 * (covariance_hat + covariance_hat.mT)
    return (covariance_hat @ right.unsqueeze(-1)).squeeze(-1), covariance_hat


def predict(method, model, X_s, y_s, X, draws):
    """Mean and variance of f at rows X [1, N, D], for each sample."""
    return method.predictor(model, X_s, y_s, draws).rows(X, draws)


def predict_joint(method, model, X_s, y_s, X, draws):
    """Mean and covariance of f over rows X [1, N, D] that are drawn together."""
    return method.predictor(model, X_s, y_s, draws).joint(X, draws)


def sites(model, X_s, y_s):
    """The sites of q_hat."""
    p_s, _ = model.likelihood.at(X_s, X_s[..., :1, :], fresh(0))
    label, variance = p_s.sites(y_s)
    return Sites(label, model.last.label_noise(variance))


def predict_as_batch(method, model, X_s, y_s, X, draws):
    """The same as `predict` by the way of a training step: rows X take the batch's place."""
    coupling = "ancestral" if method.coupling == "joint" else method.coupling
    points, _ = model.propagate(Points(X_s, X), draws, coupling)
    return model.last.label_informed(points, *sites(model, X_s, y_s)).rest.rows()


def predict_joint_as_batch(method, model, X_s, y_s, X, draws):
    """The same as `predict_joint`, from the whole covariance of subset and rows."""
    points, _ = model.propagate(Points(X_s, X), draws, "joint")
    return model.last.label_informed_joint(points, *sites(model, X_s, y_s))


def label_noise_of(model):
    noise = model.noise_variance.detach().squeeze(-2)
    return model.last.noise_variance.detach().expand_as(noise) if model.last.has_noise else noise


def exact_log_evidence(model, batch):
    """log N(y; mean, K + sigma^2 I) of a one-layer model."""
    X, y = everything(batch)
    K, mean = prior(model.last, X, batch.X_s.shape[-2])
    noise = model.noise_variance.detach().squeeze(-2)
    covariance = K + noise[:, None, None] * torch.eye(len(X), dtype=torch.float64)
    return MultivariateNormal(mean.mT, covariance).log_prob(y.mT).sum()


def collapsed_bound(model, batch):
    """Titsias (2009) with the inducing variables F_S: log N(y; mean, Q + sigma^2 I) - tr(K - Q) / (2 sigma^2)."""
    X, y = everything(batch)
    size = batch.X_s.shape[-2]
    K, mean = prior(model.last, X, size)
    Q = K[:, :size] @ torch.linalg.inv(K[:size, :size]) @ K[:size]
    noise = model.noise_variance.detach().squeeze(-2)
    covariance = 0.5 * (Q + Q.mT) + noise[:, None, None] * torch.eye(len(X), dtype=torch.float64)
    fit = MultivariateNormal(mean.mT, covariance).log_prob(y.mT).sum()
    return fit - ((K - Q).trace() / (2.0 * noise)).sum()


def draw(mean, covariance, source, shape=()):
    """A draw of N(mean, covariance), [*shape, ...]."""
    L = torch.linalg.cholesky(covariance)
    batch = torch.broadcast_shapes(mean.shape, L.shape[:-1], (*shape, *(1,) * mean.dim()))
    noise = torch.randn(batch, generator=source, dtype=torch.float64)
    return mean + (L @ noise.unsqueeze(-1)).squeeze(-1)


@torch.no_grad()
def evidence_by_sampling(model, batch, seed, n_samples):
    """Monte Carlo log evidence of a two-layer model over draws of its prior, and its standard error."""
    source = generator(seed)
    X, y = everything(batch)
    size = batch.X_s.shape[-2]
    hidden, last = model.layers
    K, mean = prior(hidden, X, size)
    F = draw(mean.mT, K.expand(mean.shape[-1], -1, -1), source, (n_samples,)).mT
    Z = F + hidden.noise_variance.sqrt() * torch.randn(F.shape, generator=source, dtype=torch.float64)
    K, mean = prior(last, Z, size)
    covariance = K + model.noise_variance.item() * torch.eye(len(X), dtype=torch.float64)
    log_density = MultivariateNormal(mean[..., 0], covariance).log_prob(y[:, 0])
    log_evidence = log_density.logsumexp(0) - math.log(n_samples)
    relative = (log_density - log_evidence).exp()
    return float(log_evidence), float(relative.std()) / math.sqrt(n_samples)


@torch.no_grad()
def log_ratio_by_sampling(model, batch, seed, n_samples):
    """log p(y, all F and Z) - log q(all F and Z) at draws of all F and Z from q: [n_samples]."""
    source = generator(seed)
    X, y = everything(batch)
    size = batch.X_s.shape[-2]
    Z = X.expand(n_samples, -1, -1)
    log_p, log_q = torch.zeros(n_samples, dtype=torch.float64), torch.zeros(n_samples, dtype=torch.float64)
    for layer in model.layers:
        K, mean = prior(layer, Z, size)
        K_ss, K_sr, K_rr = K[:, :size, :size], K[:, :size, size:], K[:, size:, size:]
        q_mean, q_covariance = q_of_subset(layer, K_ss, mean[:, :size])
        if layer is model.last:
            q_mean, q_covariance = with_labels(q_mean, q_covariance, y[:size], label_noise_of(model))
        F_s = draw(q_mean, q_covariance, source, (n_samples,) if q_mean.dim() == 2 else ())
        G = K_sr.mT @ torch.linalg.inv(K_ss)
        rest_mean = mean[:, size:].mT + (F_s - mean[:, :size].mT) @ G.mT
        rest_covariance = K_rr - G @ K_sr
        rest_covariance = (0.5 * (rest_covariance + rest_covariance.mT)).unsqueeze(-3)
        F_r = draw(rest_mean, rest_covariance, source)
        log_q += MultivariateNormal(q_mean, q_covariance).log_prob(F_s).sum(-1)
        log_q += MultivariateNormal(rest_mean, rest_covariance).log_prob(F_r).sum(-1)
        F = torch.cat([F_s, F_r], -1)
        log_p += MultivariateNormal(mean.mT, K.unsqueeze(-3)).log_prob(F).sum(-1)
        if layer is not model.last:
            noisy = Normal(F.mT, layer.noise_variance.sqrt())
            Z = F.mT + layer.noise_variance.sqrt() * torch.randn(F.mT.shape, generator=source, dtype=torch.float64)
            log_p += noisy.log_prob(Z).sum((-2, -1))
            log_q += noisy.log_prob(Z).sum((-2, -1))
    log_p += Normal(F.mT, model.noise_variance.squeeze(-2).sqrt()).log_prob(y).sum((-2, -1))
    return log_p - log_q


@torch.no_grad()
def terms_by_hand(model, batch, draws, coupling):
    """The terms at the library's own draws of Z, every expectation given Z closed by hand, sample by sample."""
    _, y = everything(batch)
    size, n_samples = batch.X_s.shape[-2], draws.n_samples
    noise = model.noise_variance.squeeze(-2)
    points, terms = Points(batch.X_s, batch.X_b), {}
    for index, layer in enumerate(model.layers, start=1):
        Z = torch.cat([z.expand(n_samples, -1, -1) for z in points], -2)
        K, mean = prior(layer, Z, size)
        K_ss, K_sr = K[:, :size, :size], K[:, :size, size:]
        q_mean, q_covariance = q_of_subset(layer, K_ss, mean[:, :size])
        if layer is model.last:
            q_mean, q_covariance = with_labels(q_mean, q_covariance, y[:size], label_noise_of(model))
        prior_s = MultivariateNormal(mean[:, :size].mT, K_ss.unsqueeze(-3))
        divergence = kl_divergence(MultivariateNormal(q_mean, q_covariance), prior_s).sum(-1).mean()
        terms["kl_last" if layer is model.last else f"kl_{index}"] = -divergence
        if layer is not model.last:
            points, _ = layer.propagate(points, draws, coupling)
    G = (K_sr.mT @ torch.linalg.inv(K_ss)).unsqueeze(-3)
    rest_mean = mean[:, size:].mT + (G @ (q_mean - mean[:, :size].mT).unsqueeze(-1)).squeeze(-1)
    rest_covariance = K[:, None, size:, size:] - G @ K_sr.unsqueeze(-3) + G @ q_covariance @ G.mT
    for name, f_mean, f_covariance, targets in (
        ("subset", q_mean, q_covariance, y[:size]),
        ("rest", rest_mean, rest_covariance, y[size:]),
    ):
        spread = (targets.mT - f_mean).square() + f_covariance.diagonal(dim1=-2, dim2=-1)
        density = -0.5 * ((2 * math.pi * noise).log()[:, None] + spread / noise[:, None])
        terms[name] = density.expand(n_samples, -1, -1).sum((-2, -1)).mean()
    return terms


@torch.no_grad()
def value_with_error(model, batch, seed, *, chunks=40, n_samples=2000, coupling="ancestral"):
    """The bound and its standard error over independent chunks of draws."""
    source = FreshDraws(generator(seed), n_samples)
    values = torch.stack([value(model, batch, source, coupling) for _ in range(chunks)])
    return float(values.mean()), float(values.std()) / math.sqrt(chunks)


def maximise(model, objective, parameters, *, steps=200):
    """L-BFGS on a deterministic objective; returns the value reached."""
    optimiser = torch.optim.LBFGS(
        parameters, max_iter=steps, line_search_fn="strong_wolfe", tolerance_grad=1e-9, tolerance_change=1e-14
    )

    def closure():
        optimiser.zero_grad()
        loss = -objective(model)
        loss.backward()
        return loss

    optimiser.step(closure)
    return objective(model).detach()
