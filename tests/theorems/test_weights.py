"""A row of weight w is w rows: in every term and gradient, in the closed forms, and in what a fit leaves behind."""

from itertools import product

import numpy as np
import pytest
import torch
from helpers import NUGGET, by_hand, fresh, prior, q_of_subset, randn, randomise, with_labels
from torch.distributions import MultivariateNormal, Normal

from sodgp import DSVI, SGHMC, DeepGPRegressor, SoD
from sodgp.inference.sod_labels import leave_one_out
from sodgp.inference.training_set import Batch, TrainingSet
from sodgp.layers.contract import Points
from sodgp.likelihoods import (
    Bernoulli,
    Gaussian,
    HeavyTailed,
    Heteroscedastic,
    NegativeBinomial,
    Poisson,
    Softmax,
    StudentT,
)
from sodgp.likelihoods.known_noise import KnownNoise
from sodgp.model.architecture import Architecture

M, R, T = 4, 5, 3
TIMES = torch.tensor([1, 3, 2, 1, 2])
COPIES = torch.arange(R).repeat_interleave(TIMES)
WEIGHT_S = torch.tensor([2.0, 1.0, 3.0, 1.0], dtype=torch.float64)[:, None]

METHODS = {
    "sod": SoD(objective="bound"),
    "sod-predictive": SoD(objective="predictive"),
    "sod-paper": SoD(objective="bound", parameterization="paper"),
    "sod-marginal": SoD(objective="bound", coupling="marginal"),
    "sod-separate": SoD(objective="bound", separate_kernels=True),
    "dsvi": DSVI(),
    "dsvi-predictive": DSVI(objective="predictive"),
    "sghmc": SGHMC(n_posterior_samples=2, thinning=1),
}
LIKELIHOODS = {
    "gaussian": Gaussian(),
    "known": KnownNoise(
        variance=torch.tensor([0.2], dtype=torch.float64), precision=0.5 + randn(7, M, 1).double().square()
    ),
    "heteroscedastic": Heteroscedastic(),
    "heavy_tailed": HeavyTailed(),
    "student_t": StudentT(),
    "bernoulli": Bernoulli(),
    "softmax": Softmax(),
    "poisson": Poisson(),
    "negative_binomial": NegativeBinomial(),
}
ALL = [(m, name, hidden) for m, name, hidden in product(METHODS, LIKELIHOODS, ((), (2,)))]
GOOD = [
    case
    for case in ALL
    if METHODS[case[0]].supports(LIKELIHOODS[case[1]]) and (case[2] or case[0] not in ("sod-separate", "sod-marginal"))
]


class CopiedDraws:
    """Draws in which copies of a row have the numbers of that row."""

    def __init__(self, draws):
        self.draws, self.n_samples = draws, draws.n_samples

    def subset(self, rows, width):
        return self.draws.subset(rows, width)

    def rest(self, rows, width):
        if rows != len(COPIES):
            return self.draws.rest(rows, width)
        return self.draws.rest(R, width)[..., COPIES, :]


def labels(options, X):
    f = 1.5 * X[:, :1].sin() + X[:, 1:]
    if options.targets == "numbers":
        return f
    if options.targets == "counts":
        return (1.0 + f).exp().floor()
    return (
        (f > 0).double() if options.name == "bernoulli" else torch.eye(3).double()[(f[:, 0] + 1.5).long().clamp(0, 2)]
    )


def problem(method, options, hidden):
    """A model with random parameters, and its batch without weights."""
    X = randn(1, M + R, 2)
    y, size = labels(options, X), M if method.uses_subset else 0
    weights = [torch.eye(2, dtype=torch.float64) for _ in hidden]
    architecture = Architecture(
        2, y.shape[1], M, weights, kernel="rbf-iso", jitter=NUGGET, likelihood=options, target_mean=y.mean(0)
    )
    data = TrainingSet(X[:size], y[:size], X[M:], y[M:])
    model = randomise(method.build(architecture, data, torch.Generator().manual_seed(0)), 3)
    parts = {"X_s": data.X_s, "y_s": data.y_s, "X_b": data.X_r, "y_b": data.y_r}
    if options.name == "known_noise":
        parts["precision_b"] = 0.5 + randn(8, R, 1).square()
    batch = Batch(scale=1.5, **{name: part.unsqueeze(0) for name, part in parts.items()})
    return model, batch


def of_rest(batch):
    return [name for name in ("X_b", "y_b", "precision_b") if getattr(batch, name) is not None]


def pair(batch, weight_s):
    """A batch with weights, and one whose rest is repeated instead."""
    repeated = batch._replace(**{name: getattr(batch, name)[:, COPIES] for name in of_rest(batch)})
    weighted = batch._replace(weight_s=weight_s, weight_b=TIMES.double()[None, :, None])
    one = None if weight_s is None else torch.ones(1, len(COPIES), 1, dtype=torch.float64)
    return weighted, repeated._replace(weight_s=weight_s, weight_b=one)


def gradients(terms, model):
    wanted = [p for p in model.parameters() if p.requires_grad]
    found = torch.autograd.grad(sum(terms.values()).sum(), wanted, allow_unused=True, materialize_grads=True)
    return dict(zip([name for name, p in model.named_parameters() if p.requires_grad], found, strict=True))


@pytest.mark.parametrize("case", GOOD, ids=lambda case: "-".join(map(str, case)))
def test_weights_of_the_rest_are_repeated_rows(case):
    """With weights of the subset on both sides: they do not disturb each other."""
    method = METHODS[case[0]]
    model, batch = problem(method, LIKELIHOODS[case[1]], case[2])
    weighted, repeated = pair(batch, WEIGHT_S[None] if method.uses_subset else batch.X_s[..., :1])
    ours = method.terms(model, weighted, fresh(0, T))
    theirs = method.terms(model, repeated, CopiedDraws(fresh(0, T)))
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(gradients(ours, model), gradients(theirs, model), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("case", GOOD, ids=lambda case: "-".join(map(str, case)))
def test_weights_of_one_are_none(case):
    method = METHODS[case[0]]
    model, batch = problem(method, LIKELIHOODS[case[1]], case[2])
    ones = batch._replace(
        **{f"weight_{part}": torch.ones_like(getattr(batch, f"X_{part}")[..., :1]) for part in ("s", "b")}
    )
    ours, theirs = (method.terms(model, each, fresh(0, T)) for each in (ones, batch))
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(gradients(ours, model), gradients(theirs, model), rtol=1e-6, atol=1e-8)


def repeated_gp(K, times, y, v):
    """log N(y; 0, E K E' + v I) of repeated rows, E their copies."""
    copies = torch.arange(len(times)).repeat_interleave(times)
    covariance = K[copies][:, copies] + v * torch.eye(len(copies), dtype=torch.float64)
    return MultivariateNormal(torch.zeros(len(copies), dtype=torch.float64), covariance).log_prob(y[copies])


def prior_and_explained(layer, X):
    """K, and the part of it that the five rows of the subset explain, K_NS (K_SS + nugget)^-1 K_SN."""
    K, K_ss = by_hand(layer.kernel, X), prior(layer, X[:5])[0]
    return K, K[:, :5] @ torch.linalg.inv(K_ss) @ K[:5]


def one_layer(objective, size, rest):
    """A model with one layer whose q is the prior, and a batch with weights, [N] and [N, 1]."""
    N = size + rest
    X, y, times = randn(1, N, 2), randn(2, N, 1), torch.tensor([3, 1, 2, 4, 1, 2, 1, 5])[:N]
    architecture = Architecture(2, 1, size, [], kernel="rbf-iso", jitter=NUGGET)
    data = TrainingSet(X[:size], y[:size], X[size:], y[size:])
    method = SoD(objective=objective)
    model = method.build(architecture, data, torch.Generator())
    with torch.no_grad():
        model.last.q_factor.copy_(torch.eye(size, dtype=torch.float64))
    w = times.double()[:, None]
    batch = Batch(
        *(t[None] for t in (X[:size], y[:size], X[size:], y[size:])), 1.0, None, w[None, :size], w[None, size:]
    )
    return method, model, batch, times


def test_a_subset_of_all_rows_is_the_exact_gp_on_repeated_rows():
    method, model, batch, times = one_layer("bound", 8, 0)
    K, _ = prior(model.last, batch.X_s[0], 8)
    exact = repeated_gp(K, times, batch.y_s[0, :, 0], model.noise_variance.item())
    found = sum(method.terms(model, batch, fresh(0)).values())
    torch.testing.assert_close(found.sum(), exact, rtol=1e-10, atol=1e-10)


def test_a_site_of_a_row_counts_as_often_as_the_row():
    """q_hat against inverses with the precision w / v of every label, and prediction with it."""
    method, model, batch, times = one_layer("bound", 5, 3)
    randomise(model, 4)
    K, mean = prior(model.last, batch.X_s[0], 5)
    v = model.noise_variance.detach()[0, 0] / times[:5].double()
    q_mean, q_covariance = q_of_subset(model.last, K, mean)
    precision = torch.linalg.inv(q_covariance)
    S_hat = torch.linalg.inv(precision + (1.0 / v).diag())
    m_hat = S_hat[0] @ (precision[0] @ q_mean[0] + batch.y_s[0, :, 0] / v).unsqueeze(-1)
    p_s, _ = model.likelihood.at(batch.X_s, batch.X_b, fresh(0))
    posterior = model.last.label_informed(Points(batch.X_s, batch.X_b), *p_s.weighted(batch.weight_s).sites(batch.y_s))
    found_mean, found_variance = posterior.subset.rows()
    torch.testing.assert_close(found_mean[0], m_hat, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found_variance[0, :, 0], S_hat[0].diagonal(), rtol=1e-9, atol=1e-9)
    subset = (times[:5] * (Normal(m_hat[:, 0], model.noise_variance[0].sqrt()).log_prob(batch.y_s[0, :, 0]))).sum()
    subset = subset - 0.5 * (S_hat[0].diagonal() / v).sum()
    torch.testing.assert_close(method.terms(model, batch, fresh(0))["subset"].sum(), subset, rtol=1e-9, atol=1e-9)
    ours = method.predictor(model, batch.X_s, batch.y_s, fresh(0), batch.weight_s).rows(batch.X_b, fresh(0))
    torch.testing.assert_close(ours, posterior.rest.rows(), rtol=1e-9, atol=1e-9)
    equal_noise = with_labels(q_mean, q_covariance, batch.y_s[0], model.noise_variance.detach()[0])
    assert not torch.allclose(equal_noise[0][0], m_hat[:, 0], atol=1e-3)


@pytest.mark.parametrize("name", ["student_t", "bernoulli", "softmax", "poisson", "negative_binomial"])
def test_sites_that_move_move_to_as_many_of_one_observation(name):
    method = METHODS["sod"]
    model, batch = problem(method, LIKELIHOODS[name], (2,))
    steps = [
        torch.stack([new for _, new in method.moves(model, each, fresh(0, T), 1.0)])
        for each in (batch, batch._replace(weight_s=WEIGHT_S[None], weight_b=torch.ones(1, R, 1).double()))
    ]
    torch.testing.assert_close(steps[1], WEIGHT_S * steps[0], rtol=1e-12, atol=1e-12)


def test_collapsed_is_titsias_bound_of_repeated_rows():
    """w labels are one label of noise v / w, but for constants; every V_n counts w times."""
    method, model, batch, times = one_layer("collapsed", 5, 3)
    X, y = (torch.cat(parts, -2)[0] for parts in ((batch.X_s, batch.X_b), (batch.y_s, batch.y_b)))
    K, Q = prior_and_explained(model.last, X)
    v = model.noise_variance.item()
    exact = repeated_gp(0.5 * (Q + Q.mT), times, y[:, 0], v) - (times * (K - Q).diagonal()).sum() / (2.0 * v)
    found = sum(method.terms(model, batch, fresh(0)).values())
    torch.testing.assert_close(found.sum(), exact, rtol=1e-9, atol=1e-9)
    w = times.double()
    # log N(y; v)^w = log N(y; v / w) - ((w - 1) log 2 pi v + log w) / 2
    constants = 0.5 * ((w - 1) * np.log(2.0 * np.pi * v) + w.log()).sum()
    varying = MultivariateNormal(torch.zeros(8, dtype=torch.float64), 0.5 * (Q + Q.mT) + (v / w).diag())
    trace = (w * (K - Q).diagonal()).sum() / (2.0 * v)
    expected = varying.log_prob(y[:, 0]) - constants - trace
    torch.testing.assert_close(found.sum(), expected, rtol=1e-9, atol=1e-9)


def test_leave_one_out_leaves_all_copies_of_a_row_out():
    """Against exact conditioning on the repeated rows but for those of row n; weights may be fractions."""
    _, model, batch, times = one_layer("leave_one_out", 5, 3)
    X, y = (torch.cat(parts, -2) for parts in ((batch.X_s, batch.X_b), (batch.y_s, batch.y_b)))
    K, Q = prior_and_explained(model.last, X[0])
    v = model.noise_variance.item()
    for w in (times.double(), times.double() / 3.0):
        mean, variance = leave_one_out(
            model.last, batch.X_s, X, y, model.noise_variance[..., None, :], w[None, :, None]
        )
        for n in range(8):
            others = torch.arange(8) != n
            gain = Q[n, others] @ torch.linalg.inv(Q[others][:, others] + (v / w[others]).diag())
            torch.testing.assert_close(mean[0, n, 0], gain @ y[0, others, 0], rtol=1e-8, atol=1e-8)
            expected = K[n, n] - gain @ Q[others, n]
            torch.testing.assert_close(variance[0, n, 0], expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("objective", ["collapsed", "leave_one_out"])
def test_gradients_with_all_labels_are_finite_differences(objective):
    method, model, batch, _ = one_layer(objective, 5, 3)
    found = gradients(method.terms(model, batch, fresh(0)), model)
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        ends = []
        for step in (1e-5, -2e-5):
            with torch.no_grad():
                parameter.add_(step)
            ends.append(sum(method.terms(model, batch, fresh(0)).values()).sum().item())
        with torch.no_grad():
            parameter.add_(1e-5)
        torch.testing.assert_close(found[name].sum().item(), (ends[0] - ends[1]) / 2e-5, rtol=1e-5, atol=1e-6)


def test_a_batch_of_some_rows_is_unbiased():
    """(N - M) / B times the weighted sum of the batch, over all batches of that size."""
    method = METHODS["sod"]
    model, batch = problem(method, Gaussian(), ())
    weight = TIMES.double()[None, :, None]
    whole = method.terms(model, batch._replace(scale=1.0, weight_s=WEIGHT_S[None], weight_b=weight), fresh(0))
    parts = []
    for chosen in torch.combinations(torch.arange(R), 2):
        part = batch._replace(X_b=batch.X_b[:, chosen], y_b=batch.y_b[:, chosen], scale=R / 2)
        parts.append(method.terms(model, part._replace(weight_s=WEIGHT_S[None], weight_b=weight[:, chosen]), fresh(0)))
    torch.testing.assert_close(torch.stack([part["rest"] for part in parts]).mean(0), whole["rest"])


def rows_of_a_fit():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (14, 2))
    return X, np.sin(X[:, 0]) + 0.3 * rng.normal(size=14), rng.integers(0, 4, 14)


def test_a_fit_with_weights_is_a_fit_with_repeated_rows():
    """One layer, the labels of all rows in q_hat, the same subset: scaling, training and prediction agree."""
    X, y, times = rows_of_a_fit()
    copies = np.repeat(np.arange(14), times)

    class First:
        """The first of every group of equal rows."""

        def select(self, X, y, size, kernel, generator):
            return torch.from_numpy(np.sort(np.unique(X.numpy().round(9), axis=0, return_index=True)[1]))

    def fit(*data):
        chosen = int((times > 0).sum())
        model = DeepGPRegressor(
            inference=SoD(objective="collapsed"), n_layers=1, subset=First(), subset_size=chosen, max_iter=40
        )
        return model.set_params(random_state=0).fit(*data)

    ours, theirs = fit(X, y, times), fit(X[copies], y[copies])
    np.testing.assert_allclose(ours.fitted_.x_scaler.scale_, theirs.fitted_.x_scaler.scale_, rtol=1e-12)
    np.testing.assert_allclose(ours.fitted_.y_scaler.mean_, theirs.fitted_.y_scaler.mean_, rtol=1e-12)
    np.testing.assert_allclose(ours.history_.bound, theirs.history_.bound, rtol=1e-8)
    for one, other in zip(ours.predict(X, return_std=True), theirs.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", [SoD(objective="collapsed"), SoD(objective="bound"), DSVI()], ids=str)
def test_a_fit_with_weights_of_one_has_the_same_bits(method):
    X, y, _ = rows_of_a_fit()
    plain, weighted = (
        DeepGPRegressor(inference=method, n_layers=2, subset_size=5, max_iter=5, random_state=0).fit(X, y, weight)
        for weight in (None, np.ones(14))
    )
    assert (plain.predict(X) == weighted.predict(X)).all()
    assert plain.history_.bound == weighted.history_.bound
