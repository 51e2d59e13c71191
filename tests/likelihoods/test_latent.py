"""Likelihoods that are not Gaussian: densities, expectations and sites against numerical integrals."""

import copy
import pickle

import pytest
import torch
from latent_cases import OPTIONS, built, integrated, labels, moments, rows
from problems import randn
from protocols import keeps
from torch.distributions import Bernoulli, NegativeBinomial, Normal, Poisson, StudentT

from sodgp.errors import ConfigurationError
from sodgp.likelihoods import Bernoulli as BernoulliOptions
from sodgp.likelihoods import NegativeBinomial as NegativeBinomialOptions
from sodgp.likelihoods import StudentT as StudentTOptions
from sodgp.likelihoods.contract import Likelihood, LikelihoodOptions, RowLikelihood, Sizes

every_kind = pytest.mark.parametrize("name", OPTIONS)


class Given:
    """`moments` as an inference method hands them over."""

    def rows(self):
        return moments()

    def totals(self):
        mean, variance = moments()
        return mean, variance.sum(-2, keepdim=True)

    def over_sites(self):
        return None


def by_hand(name, likelihood, f):
    """The distribution of y given f."""
    g = f + likelihood.offset
    if name == "logit":
        return Bernoulli(logits=g)
    if name == "probit":
        return Bernoulli(probs=Normal(0.0, 1.0).cdf(g))
    if name == "poisson":
        return Poisson(g.exp())
    if name == "negative_binomial":
        r = 1.0 / likelihood.dispersion
        return NegativeBinomial(r, logits=g - r.log())
    return StudentT(likelihood.df, g, likelihood.squared_scale.sqrt())


@every_kind
def test_options_module_and_rows_keep_the_contract(name):
    likelihood = built(name)
    assert isinstance(OPTIONS[name], LikelihoodOptions)
    assert keeps(likelihood, Likelihood)
    assert isinstance(rows(likelihood), RowLikelihood)
    assert not OPTIONS[name].is_conjugate
    assert rows(likelihood).sites(labels(name)) == ()
    assert likelihood.kl() is None
    assert likelihood.kernels == []
    assert likelihood.n_parameters == sum(p.numel() for p in likelihood.parameters())
    assert likelihood.continues(built(name, 0.0))
    other = built(next(kind for kind in OPTIONS if OPTIONS[kind].name != OPTIONS[name].name))
    assert not likelihood.continues(other)
    for again in (pickle.loads(pickle.dumps(likelihood)), copy.deepcopy(likelihood)):
        assert torch.equal(again.offset, likelihood.offset)
    assert pickle.loads(pickle.dumps(OPTIONS[name])) == OPTIONS[name]


@every_kind
def test_the_density_is_that_of_the_field(name):
    likelihood, y, f = built(name), labels(name), randn(5, 3, 4, 2)
    torch.testing.assert_close(rows(likelihood).log_density(y, f), by_hand(name, likelihood, f).log_prob(y))


@every_kind
def test_expectations_equal_dense_integrals(name):
    p, y, (mean, variance) = rows(built(name)), labels(name), moments()
    expected = integrated(lambda f: p.log_density(y, f), mean, variance)
    torch.testing.assert_close(p.expected(y, mean, variance), expected, atol=2e-6, rtol=1e-6)
    predictive = integrated(lambda f: p.log_density(y, f).exp(), mean, variance).log()
    found = p.log_predictive_density(y, mean, variance)
    torch.testing.assert_close(found, predictive, atol=1e-4, rtol=1e-4)


@every_kind
def test_sums_and_mixtures_are_those_of_the_rows(name):
    p, y, (mean, variance) = rows(built(name)), labels(name), moments()
    each = p.expected(y, mean, variance)
    torch.testing.assert_close(p.expected_log_density(y, Given()), each.sum((-2, -1)).mean())
    whole = p.log_predictive_density(y, mean, variance).sum(-1)
    mixture = (whole.logsumexp(0) - torch.tensor(3.0).log()).sum()
    torch.testing.assert_close(p.log_mixture_density(y, Given()), mixture)


@every_kind
def test_sites_are_the_expected_slope_and_curvature(name):
    p, y, (mean, variance) = rows(built(name)), labels(name), moments()

    def derivative(f, order):
        f = f.clone().requires_grad_()
        (first,) = torch.autograd.grad(p.log_density(y, f).sum(), f, create_graph=True)
        return first if order == 1 else torch.autograd.grad(first.sum(), f)[0]

    slope = integrated(lambda f: derivative(f, 1), mean, variance).detach()
    curvature = -integrated(lambda f: derivative(f, 2), mean, variance)
    found = p.natural_sites(y, mean, variance)
    close = {"atol": 2e-5, "rtol": 1e-5}
    torch.testing.assert_close(found.lambda_2, curvature.clamp_min(0.0), **close)
    torch.testing.assert_close(found.lambda_1, slope + curvature.clamp_min(0.0) * mean, **close)
    assert bool((found.lambda_2 >= 0).all())
    # Only Student's t is not log-concave.
    assert bool((curvature < -1e-9).any()) == (name == "student_t")
    assert not found.lambda_1.requires_grad


@every_kind
def test_gradients_equal_finite_differences(name):
    likelihood, y, (mean, variance) = built(name), labels(name), moments()
    names, values = zip(*likelihood.named_parameters(), strict=True)

    def of(mean, variance, *parameters):
        module = copy.deepcopy(likelihood)
        for key, value in zip(names, parameters, strict=True):
            del module._parameters[key]
            setattr(module, key, value)
        p = rows(module)
        return p.expected(y, mean, variance).sum(), p.log_predictive_density(y, mean, variance).sum()

    inputs = [mean.requires_grad_(), variance.requires_grad_(), *(v.detach().clone().requires_grad_() for v in values)]
    assert torch.autograd.gradcheck(of, inputs, atol=1e-5, rtol=1e-4)


@every_kind
def test_a_variance_of_zero_is_no_spread_and_has_a_gradient(name):
    p, y, mean = rows(built(name)), labels(name), moments()[0]
    variance = torch.zeros_like(mean, requires_grad=True)
    torch.testing.assert_close(p.expected(y, mean, variance), p.log_density(y, mean), atol=1e-6, rtol=1e-6)
    p.log_predictive_density(y, mean, variance).sum().backward()
    assert bool(torch.isfinite(variance.grad).all())


def test_offsets_start_at_the_data():
    sizes = Sizes(subset=4, input_dim=2, n_outputs=2, target_mean=torch.tensor([0.2, 0.0]).double())
    for name, options in OPTIONS.items():
        start = options.build(sizes).offset
        assert bool(torch.isfinite(start).all())
        if options.targets != "numbers":
            likelihood = options.build(sizes)
            torch.testing.assert_close(by_hand(name, likelihood, torch.zeros(2)).mean[0], sizes.target_mean[0])
        else:
            assert not bool(start.any())


@pytest.mark.parametrize("name", ["logit", "probit", "poisson", "negative_binomial"])
def test_joint_draws_of_observations_are_refused(name):
    assert built(name).noise_variance is None
    with pytest.raises(ConfigurationError, match="latent=True"):
        rows(built(name)).noise_variance(drawn=False)


def test_students_t_has_the_variance_that_it_starts_with():
    likelihood = StudentTOptions(df=3.0).build(Sizes(subset=4, input_dim=2, n_outputs=1, noise_variance=0.2))
    torch.testing.assert_close(likelihood.noise_variance, torch.tensor([[0.2]]).double(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(likelihood.df, torch.tensor([3.0]).double())


@pytest.mark.parametrize(
    ("options", "bad", "message"),
    [
        (BernoulliOptions, {"link": "cloglog"}, "'logit', 'probit'"),
        (BernoulliOptions, {"quadrature_order": 1}, "quadrature_order"),
        (BernoulliOptions, {"quadrature_order": 1000}, "at most 200"),
        (StudentTOptions, {"df": 2.0}, "no variance"),
        (NegativeBinomialOptions, {"dispersion": 0.0}, "dispersion"),
    ],
)
def test_bad_options_are_refused(options, bad, message):
    with pytest.raises(ConfigurationError, match=message):
        options(**bad)


@pytest.mark.parametrize("ratio", [1.0, 100.0, 1e4])
@pytest.mark.parametrize("df", [2.5, 30.0])
def test_students_t_is_right_where_it_is_much_narrower_than_f(ratio, df):
    options = StudentTOptions(df=df)
    variance = 0.01 * df / (df - 2.0)
    likelihood = options.build(Sizes(subset=4, input_dim=2, n_outputs=2, noise_variance=variance))
    p, y = rows(likelihood), 0.2 * labels("student_t")
    mean, wide = 0.2 * moments()[0], torch.full((3, 4, 2), 0.01 * ratio).double()
    fine = {"count": 400_001}
    for row in range(4):
        at = (slice(None), slice(row, row + 1))
        expected = integrated(lambda f, at=at: p.log_density(y[at], f), mean[at], wide[at], **fine)
        torch.testing.assert_close(p.expected(y[at], mean[at], wide[at]), expected, atol=1e-5, rtol=1e-5)
        density = integrated(lambda f, at=at: p.log_density(y[at], f).exp(), mean[at], wide[at], **fine).log()
        found = p.log_predictive_density(y[at], mean[at], wide[at])
        torch.testing.assert_close(found, density, atol=1e-4, rtol=1e-4)
