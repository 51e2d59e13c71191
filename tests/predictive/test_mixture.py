"""The mixture against scipy (one component), numerical integration and sampling (several), and extreme mixtures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from sodgp.errors import InputError
from sodgp.predictive import density as mixtures
from sodgp.predictive.mixture import GaussianMixture

T, N, P = 7, 11, 3


def random_mixture(shape=(T, N), seed=0, spread=2.0):
    generator = torch.Generator().manual_seed(seed)
    means = spread * torch.randn(shape, generator=generator, dtype=torch.float64)
    variances = torch.exp(torch.randn(shape, generator=generator, dtype=torch.float64))
    return GaussianMixture(means, variances), means.numpy(), variances.numpy()


@pytest.fixture
def y():
    return np.random.default_rng(1).normal(scale=2, size=N)


# ------------------------------------------------------------------------------------------------------- one component


def test_one_component_is_scipys_normal(y):
    dist, means, variances = random_mixture((1, N))
    norm = stats.norm(means[0], np.sqrt(variances[0]))
    q = np.array([1e-300, 1e-9, 0.05, 0.5, 0.9, 1 - 1e-9])
    np.testing.assert_allclose(dist.mean, norm.mean(), rtol=1e-14)
    np.testing.assert_allclose(dist.std, norm.std(), rtol=1e-14)
    np.testing.assert_allclose(dist.log_prob(y), norm.logpdf(y), rtol=1e-12)
    np.testing.assert_allclose(dist.cdf(y), norm.cdf(y), rtol=1e-12)
    np.testing.assert_allclose(dist.quantile(q), norm.ppf(q[:, None]), rtol=1e-9)
    np.testing.assert_allclose(np.stack(dist.interval(0.8)), np.stack(norm.interval(0.8)), rtol=1e-10)
    z = (y - means[0]) / norm.std()  # Gneiting and Raftery's closed form for one Gaussian
    closed = norm.std() * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    np.testing.assert_allclose(dist.crps(y), closed, rtol=1e-10)


def test_cdf_keeps_relative_accuracy_in_the_lower_tail():
    dist = GaussianMixture(torch.zeros(1, 3), torch.ones(1, 3))
    z = [-5.0, -12.0, -35.0]
    np.testing.assert_allclose(dist.cdf(z), stats.norm.cdf(z), rtol=1e-11)


# --------------------------------------------------------------------------------------------------------------- traps


def test_log_prob_is_the_log_of_the_mean_density(y):
    dist, means, variances = random_mixture()
    density = stats.norm.pdf(y, means, np.sqrt(variances)).mean(0)
    np.testing.assert_allclose(dist.log_prob(y), np.log(density), rtol=1e-12)
    mean_of_logs = stats.norm.logpdf(y, means, np.sqrt(variances)).mean(0)
    assert np.all(dist.log_prob(y) > mean_of_logs + 1e-3)  # Jensen's inequality, strict here


def test_log_prob_does_not_underflow():
    dist = GaussianMixture(torch.zeros(2, 1), torch.tensor([[1.0], [1e-6]]))
    np.testing.assert_allclose(dist.log_prob([100.0]), stats.norm.logpdf(100.0) - np.log(2), rtol=1e-12)


def test_variance_holds_the_spread_of_the_means():
    dist, means, variances = random_mixture()
    np.testing.assert_allclose(dist.variance, variances.mean(0) + means.var(0, ddof=0), rtol=1e-12)
    np.testing.assert_allclose(dist.std**2, dist.variance, rtol=1e-12)
    assert np.all(dist.variance > variances.mean(0))


# ------------------------------------------------------------------------------------------------------------- outliers


def with_outliers(shape=(T, N), probability=0.07, seed=0):
    """A mixture with outliers, and means, variances and weights of its T + 1 components."""
    _, means, variances = random_mixture(shape, seed=seed)
    centre, total = means.mean(0), variances.mean(0) + means.var(0)
    mu, var = np.concatenate([means, centre[None]]), np.concatenate([variances, 100.0 * total[None]])
    weights = np.array([*[(1 - probability) / len(means)] * len(means), probability])
    return GaussianMixture(means, variances, outlier_probability=probability), mu, var, weights


def test_outliers_are_one_more_component(y):
    dist, mu, var, w = with_outliers()
    sd = np.sqrt(var)
    np.testing.assert_allclose(dist.log_prob(y), np.log(w @ stats.norm.pdf(y, mu, sd)), rtol=1e-12)
    np.testing.assert_allclose(dist.cdf(y), w @ stats.norm.cdf(y, mu, sd), rtol=1e-12)
    np.testing.assert_allclose(dist.mean, w @ mu, rtol=1e-12)
    np.testing.assert_allclose(dist.variance, w @ (var + mu**2) - dist.mean**2, rtol=1e-12)
    levels = np.array([1e-6, 0.05, 0.5, 0.999])
    for level, x in zip(levels, dist.quantile(levels), strict=True):
        np.testing.assert_allclose(w @ stats.norm.cdf(x, mu, sd), level, rtol=1e-9)
    for n in range(0, N, 4):
        law = lambda x, n=n: w @ stats.norm.cdf(x, mu[:, n], sd[:, n])
        below, _ = integrate.quad(lambda x: law(x) ** 2, y[n] - 300, y[n], limit=400)  # noqa: B023
        above, _ = integrate.quad(lambda x: (1 - law(x)) ** 2, y[n], y[n] + 300, limit=400)  # noqa: B023
        np.testing.assert_allclose(dist.crps(y)[n], below + above, rtol=1e-5)


def test_outliers_are_drawn_in_every_row_on_its_own():
    dist, *_ = with_outliers(probability=0.2)
    draws = dist.sample(40_000, random_state=3)
    np.testing.assert_allclose(draws.var(0), dist.variance, rtol=0.06)
    far = np.abs(draws - dist.mean) > 4 * GaussianMixture(dist._mu, dist._var).std
    assert 0.1 < far.mean() < 0.15  # of 0.2 times the 0.69 beyond 0.4 standard deviations
    both = (far[:, 0] & far[:, 1]).mean()
    np.testing.assert_allclose(both, far[:, 0].mean() * far[:, 1].mean(), rtol=0.15)


def test_outliers_stay_with_a_mixture(y):
    dist, *_ = with_outliers()
    whole = dist.log_prob(y)
    np.testing.assert_allclose(dist[3:].log_prob(y[3:]), whole[3:], rtol=1e-12)
    np.testing.assert_allclose(GaussianMixture.concatenate([dist[:3], dist[3:]]).log_prob(y), whole, rtol=1e-12)
    np.testing.assert_allclose(GaussianMixture.pool([dist, dist]).log_prob(y), whole, rtol=1e-12)
    np.testing.assert_allclose(dist.affine(2.0, 1.0).log_prob(2.0 * y + 1.0), whole - np.log(2.0), rtol=1e-12)
    for probability in (-0.1, 1.0, np.nan):
        with pytest.raises(InputError, match="outlier_probability"):
            GaussianMixture(dist._mu, dist._var, outlier_probability=probability)


def test_members_of_a_pool_keep_their_own_outliers(y):
    members = [with_outliers(seed=seed)[0] for seed in range(3)]
    pooled = GaussianMixture.pool(members)
    density = np.mean([np.exp(member.log_prob(y)) for member in members], 0)
    np.testing.assert_allclose(np.exp(pooled.log_prob(y)), density, rtol=1e-12)
    np.testing.assert_allclose(pooled.outlier_probability, 0.07, rtol=1e-12)
    means, variances = (np.stack([getattr(m, name) for m in members]) for name in ("mean", "variance"))
    np.testing.assert_allclose(pooled.mean, means.mean(0), rtol=1e-12)
    np.testing.assert_allclose(pooled.variance, variances.mean(0) + means.var(0), rtol=1e-12)
    np.testing.assert_allclose(pooled.sample(60_000, random_state=0).var(0), pooled.variance, rtol=0.08)
    with pytest.raises(InputError, match="the probability of outliers"):
        GaussianMixture.pool([members[0], random_mixture()[0]])


def test_rows_of_a_concatenation_keep_their_own_outliers(y):
    parts = [with_outliers(probability=0.2, seed=1)[0], random_mixture(seed=2)[0]]
    joined = GaussianMixture.concatenate(parts)
    for score in ("log_prob", "cdf", "crps"):
        alone = np.concatenate([getattr(part, score)(y) for part in parts])
        np.testing.assert_allclose(getattr(joined, score)(np.tile(y, 2)), alone, rtol=1e-12)
    np.testing.assert_allclose(joined.quantile(0.9), np.concatenate([p.quantile(0.9) for p in parts]), rtol=1e-9)
    np.testing.assert_allclose(joined.outlier_probability, np.repeat([0.2, 0.0], N), rtol=1e-12)


# ----------------------------------------------------------------------------------------------- against brute force


def test_moments_density_and_cdf_agree_by_integration():
    dist, *_ = random_mixture((3, 1), seed=4)
    x, step = np.linspace(-40, 40, 80_001, retstep=True)
    density = np.exp(
        GaussianMixture(*(np.repeat(a, len(x), 1) for a in random_mixture((3, 1), seed=4)[1:])).log_prob(x)
    )
    mean = (density * x).sum() * step
    np.testing.assert_allclose(density.sum() * step, 1, rtol=1e-9)
    np.testing.assert_allclose(dist.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(dist.variance, (density * (x - mean) ** 2).sum() * step, rtol=1e-8)
    np.testing.assert_allclose(dist.cdf(x[40_300]), integrate.simpson(density[:40_301], dx=step), rtol=1e-7)


def test_crps_is_the_integral_of_the_squared_cdf_error(y):
    dist, means, variances = random_mixture()
    for n in range(0, N, 3):
        mixture_cdf = lambda x, n=n: stats.norm.cdf(x, means[:, n], np.sqrt(variances[:, n])).mean()
        below, _ = integrate.quad(lambda x: mixture_cdf(x) ** 2, y[n] - 60, y[n], limit=400)  # noqa: B023
        above, _ = integrate.quad(lambda x: (1 - mixture_cdf(x)) ** 2, y[n], y[n] + 60, limit=400)  # noqa: B023
        np.testing.assert_allclose(dist.crps(y)[n], below + above, rtol=1e-6)


def test_crps_is_smallest_for_the_true_distribution():
    truth, *_ = random_mixture((T, 1), seed=2)
    draws = truth.sample(20_000, random_state=0)[:, 0]
    rows = [0] * len(draws)
    for other in (truth.affine(1.0, 0.7), truth.affine(1.5, 0.0), truth.affine(0.6, 0.0)):
        assert truth[rows].crps(draws).mean() < other[rows].crps(draws).mean()


def test_samples_have_the_moments_and_the_law_of_the_mixture():
    dist, *_ = random_mixture()
    draws = dist.sample(40_000, random_state=3)
    assert draws.shape == (40_000, N)
    error = dist.std / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(0) - dist.mean) < 5 * error)
    np.testing.assert_allclose(draws.var(0), dist.variance, rtol=0.06)
    distance = stats.kstest(draws[:, 0], lambda x: dist[np.zeros(len(x), int)].cdf(x)).statistic
    assert distance < 2.5 / np.sqrt(len(draws))  # exceeded with probability 1e-5 (Dvoretzky, Kiefer, Wolfowitz)


def test_one_draw_takes_all_rows_from_one_component():
    means = torch.tensor([[-5.0, 5.0], [5.0, -5.0]])
    draws = GaussianMixture(means, torch.full((2, 2), 1e-4)).sample(200, random_state=0)
    np.testing.assert_allclose(draws.sum(1), 0, atol=0.2)
    assert 60 < (draws[:, 0] > 0).sum() < 140


def test_sampling_uses_only_its_own_seed():
    dist, *_ = random_mixture((T, N, P))
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)
    before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    np.testing.assert_array_equal(dist.sample(5, 1), dist.sample(5, np.random.default_rng(1)))
    assert not np.array_equal(dist.sample(5), dist.sample(5))
    np.testing.assert_array_equal(np.random.get_state()[1], before[0])  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[1])


# ------------------------------------------------------------------------------------------------------------ quantile


def assert_inverts(dist, means, variances, q):
    """The cdf at the quantile is q, relative to the smaller tail, or q lies between the cdfs at the next floats."""
    for level, x in zip(q, dist.quantile(q), strict=True):
        sign, tail = (1, level) if level <= 0.5 else (-1, 1 - level)
        tail_mixture = GaussianMixture(sign * means, variances)
        at, below, above = (
            tail_mixture.cdf(v) for v in (sign * x, np.nextafter(sign * x, -np.inf), np.nextafter(sign * x, np.inf))
        )
        exact = np.abs(at - tail) <= 1e-10 * tail
        nearest = (below <= tail * (1 + 1e-10)) & (above >= tail * (1 - 1e-10))
        assert np.all(exact | nearest), (level, at)


def test_quantile_inverts_the_cdf():
    dist, means, variances = random_mixture((50, 40))
    q = [1e-300, 1e-12, 0.01, 0.3, 0.5, 0.77, 0.999, 1 - 1e-12]
    assert_inverts(dist, means, variances, q)
    assert np.all(np.diff(dist.quantile(q), axis=0) > 0)


@given(
    st.integers(1, 60),
    st.floats(-8, 8),
    st.floats(0, 24),
    st.booleans(),
    st.lists(st.floats(1e-300, 1 - 1e-15), min_size=1, max_size=4),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_quantile_inverts_the_cdf_of_any_mixture(n_components, log_spread, decades, clustered, q, seed):
    """Means up to 1e8 apart, variances over up to 24 decades, components in a few far clusters or not."""
    rng = np.random.default_rng(seed)
    means = 10**log_spread * rng.standard_normal((n_components, 8))
    if clustered:
        means = 10**log_spread * np.round(rng.standard_normal(means.shape)) + 1e-3 * means
    variances = 10 ** rng.uniform(-decades / 2, decades / 2, size=means.shape)
    assert_inverts(GaussianMixture(means, variances), means, variances, q)


def test_quantile_between_components_a_million_deviations_apart():
    dist = GaussianMixture([[0.0], [1e6], [2e6]], [[1.0], [1.0], [1e-12]])
    x = dist.quantile([1 / 6, 0.5, 5 / 6, 0.4])[:, 0]
    np.testing.assert_allclose(x[:3], [0, 1e6, 2e6], atol=1e-8)
    np.testing.assert_allclose(x[3], 1e6 + stats.norm.ppf(0.2), atol=1e-8)
    gap = GaussianMixture([[0.0], [1e6]], [[1.0], [1.0]]).quantile(0.5)
    assert 8 < gap[0] < 1e6 - 8


def test_quantile_of_zero_and_one_is_infinite():
    dist, *_ = random_mixture((T, N, P))
    ends = dist.quantile([0, 0.5, 1])
    assert ends.shape == (3, N, P)
    assert np.all(ends[0] == -np.inf)
    assert np.all(np.isfinite(ends[1]))
    assert np.all(ends[2] == np.inf)


def test_interval_has_its_probability():
    dist, *_ = random_mixture((T, N, P))
    lower, upper = dist.interval(0.9)
    np.testing.assert_allclose(dist.cdf(upper) - dist.cdf(lower), 0.9, rtol=1e-10)
    np.testing.assert_allclose(dist.cdf(lower), 0.05, rtol=1e-10)


# ----------------------------------------------------------------------------------------- shapes, rows, chunks, units


@pytest.mark.parametrize("shape", [(T, N), (T, N, 1), (T, N, P), (1, 1), (T, 0), (T, 0, P)])
def test_shapes(shape):
    dist, *_ = random_mixture(shape)
    row = shape[1:]
    y = np.zeros(row)
    for result in (dist.mean, dist.variance, dist.std, dist.log_prob(y), dist.cdf(y), dist.crps(y), dist.quantile(0.3)):
        assert isinstance(result, np.ndarray)
        assert result.dtype == np.float64
        assert result.shape == row
    assert dist.quantile([0.1, 0.9]).shape == (2, *row)
    assert dist.quantile([0.1]).shape == (1, *row)
    assert dist.sample(4, 0).shape == (4, *row)
    assert [bound.shape for bound in dist.interval()] == [row, row]
    assert dist.affine(2.0, 1.0).mean.shape == row
    assert len(dist) == shape[1]
    assert dist.n_components == shape[0]


def test_outputs_do_not_mix():
    dist, means, variances = random_mixture((T, N, P))
    y = np.random.default_rng(2).normal(size=(N, P))
    for p in range(P):
        single = GaussianMixture(means[..., p], variances[..., p])
        np.testing.assert_allclose(dist.log_prob(y)[:, p], single.log_prob(y[:, p]), rtol=1e-12)
        np.testing.assert_allclose(dist.quantile(0.2)[:, p], single.quantile(0.2), rtol=1e-9)
        np.testing.assert_allclose(dist.crps(y)[:, p], single.crps(y[:, p]), rtol=1e-10)


@pytest.mark.parametrize("chunk", [1, 40, 1000])
def test_chunks_change_nothing(monkeypatch, chunk):
    dist, *_ = random_mixture((T, N, P))
    y = np.random.default_rng(2).normal(size=(N, P))
    methods = [
        lambda: dist.log_prob(y),
        lambda: dist.cdf(y),
        lambda: dist.crps(y),
        lambda: dist.quantile([0, 1e-5, 0.4, 0.9]),
        lambda: dist.sample(9, random_state=0),
    ]
    whole = [method() for method in methods]
    monkeypatch.setattr(mixtures, "CHUNK_ELEMENTS", chunk)
    for method, expected in zip(methods, whole, strict=True):
        np.testing.assert_allclose(method(), expected, rtol=1e-11)


def test_no_temporary_is_larger_than_a_chunk(monkeypatch):
    largest = []
    block_functions = ("crps", "cdf", "log_density", "quantile")
    for name in block_functions:
        whole = getattr(mixtures, name)
        spy = lambda mu, *rest, whole=whole: (largest.append(mu.numel()), whole(mu, *rest))[1]
        monkeypatch.setattr(mixtures, name, spy)
    monkeypatch.setattr(mixtures, "CHUNK_ELEMENTS", 10 * T)
    dist, *_ = random_mixture((T, 95))
    for result in (dist.crps(0.0), dist.cdf(0.0), dist.log_prob(0.0), dist.quantile(np.linspace(0.1, 0.9, 17))):
        assert np.all(np.isfinite(result))
    assert max(largest) <= 10 * T
    assert len(largest) == 3 * 10 + 162


@pytest.mark.parametrize("probability", [0.0, 0.2])
@pytest.mark.parametrize("outputs", [(), (2,)])
def test_around_the_mean_only_the_width_changes(probability, outputs):
    rng = np.random.default_rng(0)
    means, variances = rng.normal(size=(5, 3, *outputs)), rng.uniform(0.1, 1.0, (5, 3, *outputs))
    dist = GaussianMixture(means, variances, outlier_probability=probability)
    narrow = dist.around_mean(0.25)
    np.testing.assert_allclose(narrow.mean, dist.mean)
    np.testing.assert_allclose(narrow.std, 0.25 * dist.std)
    ends, narrow_ends = np.stack(dist.interval(0.9)), np.stack(narrow.interval(0.9))
    np.testing.assert_allclose(narrow_ends - narrow.mean, 0.25 * (ends - dist.mean), rtol=1e-6)
    np.testing.assert_allclose(narrow.outlier_probability, dist.outlier_probability)
    np.testing.assert_allclose(narrow.around_mean(4.0).log_prob(0.3), dist.log_prob(0.3))
    assert dist.around_mean(1.0) is dist


def test_around_the_mean_of_a_pool_whose_outliers_are_elsewhere():
    parts = [GaussianMixture(np.full((2, 1), m), np.ones((2, 1)), outlier_probability=0.1) for m in (0.0, 3.0)]
    pooled = GaussianMixture.pool(parts)
    narrow = pooled.around_mean(0.5)
    np.testing.assert_allclose((narrow.mean, narrow.std), (pooled.mean, 0.5 * pooled.std))


@pytest.mark.parametrize("factor", [0.0, -1.0, np.nan, np.inf])
def test_a_width_that_is_none(factor):
    with pytest.raises(InputError, match="factor"):
        GaussianMixture(np.zeros((1, 1)), np.ones((1, 1))).around_mean(factor)


@pytest.mark.parametrize(
    ("scale", "shift"), [(2.5, -4.0), (-0.1, 3.0), ([1.0, -2.0, 1e3], torch.tensor([0.0, 1.0, 2.0]))]
)
def test_affine_is_the_distribution_in_other_units(scale, shift):
    dist, *_ = random_mixture((T, N, P))
    moved = dist.affine(scale, shift)
    a, b = np.asarray(scale), np.asarray(shift)
    y = np.random.default_rng(2).normal(size=(N, P))
    np.testing.assert_allclose(moved.mean, a * dist.mean + b, rtol=1e-10)
    np.testing.assert_allclose(moved.std, np.abs(a) * dist.std, rtol=1e-12)
    np.testing.assert_allclose(moved.log_prob(a * y + b), dist.log_prob(y) - np.log(np.abs(a * np.ones(P))), rtol=1e-8)
    np.testing.assert_allclose(moved.crps(a * y + b), np.abs(a) * dist.crps(y), rtol=1e-8)


def test_rows_and_concatenation():
    dist, *_ = random_mixture((T, N, P))
    y = np.random.default_rng(2).normal(size=(N, P))
    mask = np.arange(N) % 2 == 0
    for rows in (slice(2, 7), slice(None, None, -1), [0, -1, 0], mask, torch.tensor([3, 1]), pd.Series(mask)):
        chosen = np.asarray(rows) if not isinstance(rows, slice) else rows
        np.testing.assert_allclose(dist[rows].log_prob(y[chosen]), dist.log_prob(y)[chosen], rtol=1e-13)
    assert dist[-1].mean.shape == (1, P)
    assert len(dist[np.zeros(N, bool)]) == 0
    whole = GaussianMixture.concatenate([dist[:4], dist[4:5], dist[5:]])
    np.testing.assert_array_equal(whole.mean, dist.mean)
    np.testing.assert_array_equal(GaussianMixture.concatenate(list(dist)).variance, dist.variance)  # a loop over rows
    assert repr(whole) == f"GaussianMixture(n_components={T}, n_rows={N}, n_outputs={P})"
    with pytest.raises(IndexError):
        dist[N]


def test_y_in_any_container(y):
    dist, *_ = random_mixture()
    expected = dist.log_prob(y)
    index = np.arange(N)[::-1]  # a pandas index plays no part
    for values in (list(y), pd.Series(y, index=index), pd.DataFrame({"y": y}), torch.tensor(y), y[:, None]):
        np.testing.assert_array_equal(dist.log_prob(values), expected)
    np.testing.assert_array_equal(dist.cdf(0.5), dist.cdf(np.full(N, 0.5)))
    np.testing.assert_array_equal(dist.cdf(np.inf), np.ones(N))


def test_float32_and_gradients_on_the_way_in():
    means = torch.randn(T, N, generator=torch.Generator().manual_seed(0)).requires_grad_()
    dist = GaussianMixture(means, torch.full((T, N), 0.1))
    np.testing.assert_allclose(dist.mean, means.detach().double().mean(0).numpy(), rtol=1e-14)
    assert dist.log_prob(0.0).dtype == np.float64


# ----------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("means", "variances", "message"),
    [
        (torch.zeros(2, 3), torch.zeros(2, 3), "variances has 6 .* not finite and positive, the first 0 at index"),
        (torch.zeros(2, 3), -torch.ones(2, 3), "positive"),
        (torch.zeros(2, 3), torch.full((2, 3), torch.nan), "nan at index"),
        (torch.zeros(2, 3), torch.full((2, 3), torch.inf), "inf at index"),
        (torch.full((2, 3), torch.inf), torch.ones(2, 3), "means has 6"),
        (torch.zeros(2, 3), torch.ones(2, 4), r"\[2, 3\] and \[2, 4\]"),
        (torch.zeros(3), torch.ones(3), "one shape"),
        (torch.zeros(0, 3), torch.ones(0, 3), "T >= 1"),
    ],
)
def test_bad_components(means, variances, message):
    with pytest.raises(InputError, match=message):
        GaussianMixture(means, variances)


@pytest.mark.parametrize("method", ["log_prob", "cdf", "crps"])
def test_bad_observations(method):
    dist, *_ = random_mixture()
    multi, *_ = random_mixture((T, N, P))
    for bad in (np.zeros(N - 1), np.zeros((N, 2)), np.zeros((1, N)), [], ["a"] * N, [[1.0], [1.0, 2.0]]):
        with pytest.raises(InputError, match="y must"):
            getattr(dist, method)(bad)
    with pytest.raises(InputError, match="y must have the distribution's shape"):
        getattr(multi, method)(np.zeros(N))
    with pytest.raises(InputError, match=r"missing \(NaN\), the first nan at index \[3\]"):
        getattr(dist, method)(np.where(np.arange(N) == 3, np.nan, 0))


def test_bad_arguments():
    dist, *_ = random_mixture((T, N, P))
    for q in (-0.1, 1.1, [0.5, np.nan], [[0.5]], "a"):
        with pytest.raises(InputError, match="q must"):
            dist.quantile(q)
    for level in (0.0, 1.0, -0.5, np.nan):
        with pytest.raises(InputError, match="level must"):
            dist.interval(level)
    with pytest.raises(InputError, match=r"write 0\.9"):
        dist.interval(90.0)
    with pytest.raises(InputError, match="n_samples"):
        dist.sample(0)
    for scale, shift, message in [
        (0.0, 0.0, "zero"),
        ([1, 2], 0.0, "scale must be one"),
        (1.0, np.ones((N, P)), "shift must be one"),
        (1.0, np.nan, "shift has 1"),
    ]:
        with pytest.raises(InputError, match=message):
            dist.affine(scale, shift)
    with pytest.raises(InputError, match="at least one"):
        GaussianMixture.concatenate([])
    with pytest.raises(InputError, match="mixture 1"):
        GaussianMixture.concatenate([dist, random_mixture((T, N))[0]])


@pytest.mark.gpu
def test_the_device_changes_nothing(y):
    dist, means, variances = random_mixture()
    on_gpu = GaussianMixture(torch.tensor(means, device="cuda"), torch.tensor(variances, device="cuda"))
    np.testing.assert_allclose(on_gpu.log_prob(y), dist.log_prob(y), rtol=1e-11)
    np.testing.assert_allclose(on_gpu.crps(y), dist.crps(y), rtol=1e-10)
    np.testing.assert_allclose(on_gpu.quantile([0.1, 0.9]), dist.quantile([0.1, 0.9]), rtol=1e-9)
    np.testing.assert_allclose(on_gpu[1:].sample(3, 0), dist[1:].sample(3, 0), rtol=1e-12)
