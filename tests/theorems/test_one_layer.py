"""One layer: SoD-VI against the collapsed bound, the exact evidence and Bayes' rule."""

import pytest
import torch
from helpers import (
    FAMILIES,
    NUGGET,
    build,
    collapsed_bound,
    convert_to_paper,
    data,
    everything,
    exact_log_evidence,
    fresh,
    label_noise_of,
    maximise,
    predict,
    predict_joint,
    predict_joint_as_batch,
    prior,
    q_of_subset,
    randn,
    randomise,
    set_q,
    sites,
    value,
)
from torch.distributions import MultivariateNormal, kl_divergence

from sodgp.inference.contract import Batch
from sodgp.inference.sod import SoD
from sodgp.layers.contract import Points
from sodgp.linalg.cholesky import Jitter

SIGMA2 = 0.1
JITTERS = {"none": Jitter(0.0), "absolute": NUGGET, "relative": Jitter(1e-3)}
ONE = torch.ones(1, dtype=torch.float64)


def close(ours, theirs, tolerance=1e-9):
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def informed(model, batch):
    """Precision of the best q_hat without I/v, and its right side: Sigma^-1 = K^-1 + WW'/s2 + (1/s2 - 1/v) I."""
    X, _ = everything(batch)
    size = batch.X_s.shape[-2]
    K, _ = prior(model.last, X, size)
    K_inv = torch.linalg.inv(K[:size, :size])
    W = K_inv @ K[:size, size:]
    eye = torch.eye(size, dtype=torch.float64)
    precision = K_inv + W @ W.mT / SIGMA2 + eye / SIGMA2
    return precision, W @ batch.y_b[0] / SIGMA2 + batch.y_s[0] / SIGMA2


def set_optimal_q(model, batch):
    """The formula of DESIGN.md, section 4, in the paper family."""
    v = float(label_noise_of(model))
    eye = torch.eye(batch.X_s.shape[-2], dtype=torch.float64)
    precision, right = informed(model, batch)
    Sigma = torch.linalg.inv(precision - eye / v)
    set_q(model.last, Sigma @ (right - batch.y_s[0] / v), torch.linalg.cholesky(0.5 * (Sigma + Sigma.mT)))


@pytest.mark.parametrize("jitter", JITTERS)
@pytest.mark.parametrize("v", [None, SIGMA2, 4 * SIGMA2, 1000 * SIGMA2])
def test_optimal_q_gives_the_collapsed_bound_over_all_data(v, jitter):
    batch = data(1, 5, 8)
    model = build([], 2, size=5, family="paper", noise=SIGMA2, label_noise=v, jitter=JITTERS[jitter])
    set_optimal_q(model, batch)
    close(value(model, batch, fresh(0)), collapsed_bound(model, batch))


def test_optimal_q_from_the_rest_alone_when_the_noises_are_tied():
    batch = data(1, 5, 8)
    model = build([], 2, size=5, family="paper", noise=SIGMA2)
    set_optimal_q(model, batch)
    K, _ = prior(model.last, everything(batch)[0], 5)
    K_ss, K_sr = K[:5, :5], K[:5, 5:]
    posterior = torch.linalg.inv(K_ss + K_sr @ K_sr.mT / SIGMA2)
    close(model.last.q_factor[0] @ model.last.q_factor[0].mT, K_ss @ posterior @ K_ss)
    close(model.last.q_mean.detach(), K_ss @ posterior @ K_sr @ batch.y_b[0] / SIGMA2)


@pytest.mark.parametrize("v", [None, 3 * SIGMA2])
@pytest.mark.parametrize("family", FAMILIES)
def test_optimising_q_reaches_the_collapsed_bound_and_no_more(family, v):
    batch = data(1, 5, 8)
    model = build([], 2, size=5, family=family, noise=SIGMA2, label_noise=v)
    best = maximise(model, lambda m: value(m, batch, fresh(0)), [model.last.q_mean, model.last.q_factor])
    target = collapsed_bound(model, batch)
    assert best <= target + 1e-9
    close(best, target, 1e-6)


def test_label_noise_between_the_threshold_and_sigma2_still_reaches_the_collapsed_bound():
    batch = data(1, 5, 8)
    model = build([], 2, size=5, family="paper", noise=SIGMA2, label_noise=SIGMA2)
    threshold = float(1.0 / torch.linalg.eigvalsh(informed(model, batch)[0])[0])
    assert threshold < SIGMA2
    model = build([], 2, size=5, family="paper", noise=SIGMA2, label_noise=0.5 * (threshold + SIGMA2))
    set_optimal_q(model, batch)
    close(value(model, batch, fresh(0)), collapsed_bound(model, batch))


@pytest.mark.parametrize("family", FAMILIES)
def test_label_noise_below_the_threshold_is_strictly_worse(family):
    # q_hat^-1 = Sigma^-1 + I/v exceeds I/v, but the best q_hat^-1 has a smaller eigenvalue than 1/v.
    batch = data(1, 5, 8)
    reached = []
    for fraction in (0.5, 0.1):
        model = build([], 2, size=5, family=family, noise=SIGMA2, label_noise=fraction * SIGMA2)
        smallest = torch.linalg.eigvalsh(informed(model, batch)[0])[0]
        assert smallest < 1.0 / (fraction * SIGMA2)
        best = maximise(model, lambda m: value(m, batch, fresh(0)), [model.last.q_mean, model.last.q_factor], steps=80)
        reached.append(float(best - collapsed_bound(model, batch)))
    assert reached[0] < -0.01
    assert reached[1] < reached[0]


def whole(seed, size):
    batch = data(seed, size, 0)
    return batch._replace(scale=0.0)


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_subset_of_all_data_with_q_the_prior_gives_the_exact_evidence(family, linear):
    batch = whole(3, 7)
    model = build([], 2, size=7, family=family, noise=SIGMA2, linear=linear)
    K, mean = prior(model.last, batch.X_s[0])
    if family == "paper":
        set_q(model.last, mean, torch.linalg.cholesky(K))
    terms = SoD().terms(model, batch, fresh(0))
    assert bool(terms["rest"] == 0.0)
    total = sum(terms.values())
    close(total.detach(), exact_log_evidence(model, batch))
    gradients = torch.autograd.grad(total, [model.last.q_mean, model.last.q_factor])
    assert max(float(g.abs().max()) for g in gradients) < 1e-9


@pytest.mark.parametrize("coupling", ["ancestral", "marginal", "joint"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_deep_model_takes_an_empty_rest(family, coupling):
    batch = whole(3, 4)
    model = randomise(build([2, 2], 2, size=4, family=family), 5)
    terms = SoD(coupling=coupling).terms(model, batch, fresh(0, 3))
    assert bool(terms["rest"] == 0.0)
    total = sum(terms.values())
    assert torch.isfinite(total)
    gradients = torch.autograd.grad(total, list(model.parameters()))
    assert all(bool(torch.isfinite(g).all()) for g in gradients)


def q_hat_of(model, batch):
    layer = model.last
    cond = layer.condition(Points(batch.X_s, batch.X_b))
    return layer.family.label_informed(
        *layer.variational_parameters(), cond, layer.mean(batch.X_s), *sites(model, batch.X_s, batch.y_s)
    )


@pytest.mark.parametrize("label", [None, 0.37])
@pytest.mark.parametrize("family", FAMILIES)
def test_q_the_prior_gives_the_posterior_given_the_subset(family, label):
    batch = data(5, 6, 3, n_outputs=2)
    model = build([], 2, size=6, family=family, n_outputs=2, noise=SIGMA2, label_noise=label, linear=True)
    K, mean = prior(model.last, batch.X_s[0])
    if family == "paper":
        set_q(model.last, mean, torch.linalg.cholesky(K))
    v = SIGMA2 if label is None else label
    noisy = K + v * torch.eye(6, dtype=torch.float64)
    q_hat = q_hat_of(model, batch)
    gain = K @ torch.linalg.inv(noisy)
    close(q_hat.f.mean[0].detach(), mean + gain @ (batch.y_s[0] - mean))
    close((q_hat.f.factor @ q_hat.f.factor.mT)[0].detach(), (K - gain @ K).expand(2, -1, -1))
    # E_q_hat log N(y_S; F, v) - KL(q_hat || q) = log Zcal = log N(y_S; mean, K + vI)
    spread = (batch.y_s[0] - q_hat.f.mean[0]).square() + q_hat.f.variance[0]
    expected = -0.5 * (torch.log(2 * torch.pi * v * ONE) + spread / v).sum()
    log_z = MultivariateNormal(mean.mT, noisy).log_prob(batch.y_s[0].mT).sum()
    close((expected - q_hat.kl[0]).detach(), log_z)


@pytest.mark.parametrize("family", FAMILIES)
def test_log_normaliser_for_any_q(family):
    batch = data(5, 6, 3)
    model = randomise(build([], 2, size=6, family=family, noise=SIGMA2, label_noise=0.2, linear=True), 6)
    v = label_noise_of(model)
    K, mean = prior(model.last, batch.X_s[0])
    q_mean, q_covariance = q_of_subset(model.last, K, mean)
    q_hat = q_hat_of(model, batch)
    hat_covariance = (q_hat.f.factor @ q_hat.f.factor.mT)[0].detach()
    hat = MultivariateNormal(q_hat.f.mean[0].mT.detach(), hat_covariance)
    spread = (batch.y_s[0] - q_hat.f.mean[0]).square() + q_hat.f.variance[0]
    expected = -0.5 * ((2 * torch.pi * v).log() + spread / v).sum()
    log_z = MultivariateNormal(q_mean, q_covariance + v * torch.eye(6, dtype=torch.float64)).log_prob(batch.y_s[0].mT)
    close((expected - kl_divergence(hat, MultivariateNormal(q_mean, q_covariance)).sum()).detach(), log_z.sum())
    close(q_hat.kl[0].detach(), kl_divergence(hat, MultivariateNormal(mean.mT, K)).sum())


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("label", [None, 0.3])
def test_both_families_agree_after_conversion(label, linear):
    batch = data(7, 5, 6, n_outputs=2)
    options = {"size": 5, "n_outputs": 2, "label_noise": label, "linear": linear}
    whitened = randomise(build([], 2, family="whitened", **options), 8)
    paper = build([], 2, family="paper", **options)
    convert_to_paper(whitened, paper, batch)
    method = SoD()
    ours, theirs = (method.terms(model, batch, fresh(0)) for model in (whitened, paper))
    for name in ours:
        close(ours[name], theirs[name])
    X = randn(9, 1, 4, 2)
    for ask in (predict, predict_joint):
        for a, b in zip(*(ask(method, m, batch.X_s, batch.y_s, X, fresh(0)) for m in (whitened, paper)), strict=True):
            close(a, b)


@pytest.mark.parametrize("coupling", ["ancestral", "marginal", "joint"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_rest_term_is_made_of_the_predictions_at_those_rows(family, coupling):
    batch = data(7, 5, 6, n_outputs=2)
    model = randomise(build([2], 2, size=5, family=family, n_outputs=2, linear=True), 8)
    method = SoD(coupling=coupling)
    if coupling == "joint":
        mean, covariance = predict_joint_as_batch(method, model, batch.X_s, batch.y_s, batch.X_b, fresh(0, 4))
        variance = covariance.diagonal(dim1=-2, dim2=-1).mT
    else:
        mean, variance = predict(method, model, batch.X_s, batch.y_s, batch.X_b, fresh(0, 4))
    noise = model.noise_variance.squeeze(-2)
    density = -0.5 * ((2 * torch.pi * noise).log() + ((batch.y_b - mean).square() + variance) / noise)
    close(method.terms(model, batch, fresh(0, 4))["rest"], density.sum((-2, -1)).mean())


def test_joint_prediction_has_the_marginals_of_the_plain_one():
    batch = data(7, 5, 6, n_outputs=2)
    model = randomise(build([], 2, size=5, n_outputs=2, linear=True), 8)
    X = randn(9, 1, 4, 2)
    mean, variance = predict(SoD(), model, batch.X_s, batch.y_s, X, fresh(0))
    joint_mean, covariance = predict_joint(SoD(), model, batch.X_s, batch.y_s, X, fresh(0))
    close(joint_mean, mean)
    close(covariance.diagonal(dim1=-2, dim2=-1).mT, variance)


@pytest.mark.parametrize("family", FAMILIES)
def test_prediction_with_q_the_prior_is_the_exact_gp_on_the_subset(family):
    batch = data(7, 6, 0)
    model = build([], 2, size=6, family=family, noise=SIGMA2, linear=True)
    X = randn(9, 4, 2)
    K, mean = prior(model.last, torch.cat([batch.X_s[0], X]), 6)
    if family == "paper":
        set_q(model.last, mean[:6], torch.linalg.cholesky(K[:6, :6]))
    gain = K[6:, :6] @ torch.linalg.inv(K[:6, :6] + SIGMA2 * torch.eye(6, dtype=torch.float64))
    ours, covariance = predict_joint(SoD(), model, batch.X_s, batch.y_s, X[None], fresh(0))
    close(ours[0].detach(), mean[6:] + gain @ (batch.y_s[0] - mean[:6]))
    close(covariance[0, 0].detach(), K[6:, 6:] - gain @ K[:6, 6:])


@pytest.mark.parametrize("label", [None, 0.02, 0.5])
@pytest.mark.parametrize("family", FAMILIES)
def test_bound_is_below_the_exact_evidence(family, label):
    for seed in range(10):
        batch = data(10 + seed, 4, 5)
        model = randomise(build([], 2, size=4, family=family, label_noise=label, linear=True), seed)
        assert value(model, batch, fresh(0)) < collapsed_bound(model, batch) < exact_log_evidence(model, batch)


def test_every_coupling_is_the_same_with_one_layer():
    batch = data(10, 4, 5)
    model = randomise(build([], 2, size=4), 1)
    values = [value(model, batch, fresh(0), coupling) for coupling in ("ancestral", "marginal", "joint")]
    assert values[0] == values[1] == values[2]


@pytest.mark.parametrize("label", [None, 0.3])
@pytest.mark.parametrize("family", FAMILIES)
def test_two_outputs_are_the_sum_of_single_outputs(family, label):
    batch = data(20, 5, 6, n_outputs=2)
    model = build([], 2, size=5, family=family, n_outputs=2, label_noise=label, linear=True)
    randomise(model, 21)
    total = 0.0
    for p in range(2):
        weights = [model.last.mean.weight[:, p : p + 1]]
        single = build([], 2, size=5, family=family, label_noise=label, weights=weights)
        state = model.state_dict()
        state["layers.0.q_mean"] = state["layers.0.q_mean"][:, p : p + 1]
        state["layers.0.q_factor"] = state["layers.0.q_factor"][p : p + 1]
        state["layers.0.mean.weight"] = weights[0]
        name = "likelihood.raw_noise"
        state[name] = state[name][p : p + 1]
        single.load_state_dict(state)
        part = batch._replace(y_s=batch.y_s[..., p : p + 1], y_b=batch.y_b[..., p : p + 1])
        total = total + value(single, part, fresh(0))
    close(value(model, batch, fresh(0)), total)


def test_batches_of_the_rest_are_unbiased():
    batch = data(30, 4, 6)
    model = randomise(build([], 2, size=4), 2)
    parts = [
        Batch(batch.X_s, batch.y_s, batch.X_b[:, i : i + 2], batch.y_b[:, i : i + 2], scale=3.0) for i in (0, 2, 4)
    ]
    average = torch.stack([value(model, part, fresh(0)) for part in parts]).mean()
    close(average, value(model, batch, fresh(0)))
