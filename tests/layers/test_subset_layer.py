"""One SoD layer: its parameters, shapes and draws."""

import pytest
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel

from sodgp.layers.contract import Points
from sodgp.layers.prior import NOISE_FLOOR, HiddenMean
from sodgp.layers.subset import COUPLINGS, ROWS_TOGETHER, SubsetLayer
from sodgp.linalg.cholesky import Jitter
from sodgp.linalg.draws import FreshDraws, SharedDraws

M, B, D_IN, D_OUT, T = 4, 5, 2, 3, 6


def randn(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make(family="whitened", **options):
    kernel = ScaleKernel(RBFKernel()).double()
    mean = HiddenMean(randn(0, D_IN, D_OUT))
    layer = SubsetLayer(kernel, mean, size=M, width=D_OUT, parameterization=family, **options)
    with torch.no_grad():
        layer.q_mean.copy_(randn(1, M, D_OUT))
        layer.q_factor.copy_(randn(2, D_OUT, M, M))
    return layer


def fresh(seed=3, n_samples=T):
    return FreshDraws(torch.Generator().manual_seed(seed), n_samples)


class Constant:
    """One number for all draws of the subset, and one for those of the rest."""

    n_samples = 1

    def __init__(self, subset, rest):
        self.values = subset, rest

    def subset(self, rows, width):
        return torch.full((1, rows, width), self.values[0], dtype=torch.float64)

    def rest(self, rows, width):
        return torch.full((1, rows, width), self.values[1], dtype=torch.float64)


FIRST = Points(randn(4, 1, M, D_IN), randn(5, 1, B, D_IN))
LATER = Points(randn(4, T, M, D_IN), randn(5, T, B, D_IN))


@pytest.mark.parametrize("points", [FIRST, LATER], ids=["first layer", "later layer"])
@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("family", ["whitened", "paper"])
def test_shapes_of_draws_and_kl(family, coupling, points):
    drawn, kl = make(family).propagate(points, fresh(), coupling)
    assert drawn.subset.shape == (T, M, D_OUT)
    assert drawn.rest.shape == (T, B, D_OUT)
    assert kl.shape in ((T,), (1,))


def test_q_starts_at_the_prior_in_the_whitened_family():
    layer = SubsetLayer(RBFKernel().double(), HiddenMean(randn(0, D_IN, D_OUT)), size=M, width=D_OUT)
    _, kl = layer.propagate(FIRST, fresh(), "ancestral")
    torch.testing.assert_close(kl, torch.zeros(1, dtype=torch.float64), rtol=0.0, atol=1e-12)


def test_factor_scale_sets_the_start_of_q():
    layer = SubsetLayer(RBFKernel().double(), HiddenMean(randn(0, D_IN, D_OUT)), size=M, width=D_OUT, factor_scale=1e-5)
    torch.testing.assert_close(layer.q_factor[1].detach(), 1e-5 * torch.eye(M, dtype=torch.float64))


@pytest.mark.parametrize("noise", [1e-5, 0.01, 2.0])
def test_noise_variance_starts_where_it_is_told(noise):
    layer = make(noise_variance=noise)
    assert layer.has_noise
    assert float(layer.noise_variance.detach()) == pytest.approx(noise, rel=1e-9)


def test_noise_variance_never_falls_to_its_floor():
    assert float(make(noise_variance=0.0).noise_variance.detach()) > NOISE_FLOOR


def test_a_tied_last_layer_has_no_noise_of_its_own():
    layer = make(noise_variance=None)
    assert not layer.has_noise
    assert not any("noise" in name for name, _ in layer.named_parameters())


@pytest.mark.parametrize("coupling", ["ancestral", "marginal"])
def test_with_shared_residuals_a_row_does_not_see_its_company(coupling):
    layer = make()
    whole, _ = layer.propagate(FIRST, SharedDraws(0, T, dtype=torch.float64), coupling)
    for rows in ([2], [4, 0], [1, 2, 3]):
        part = Points(FIRST.subset, FIRST.rest[:, rows])
        drawn, _ = layer.propagate(part, SharedDraws(0, T, dtype=torch.float64), coupling)
        torch.testing.assert_close(drawn.rest, whole.rest[:, rows], rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(drawn.subset, whole.subset, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_the_program_adds_its_jitter_to_draws(coupling):
    # Three jitters on the rest, two on the subset: told from the spread around the mean, with one noise for both.
    amount = 0.1
    plain, program = (make("paper", jitter=Jitter(amount, relative=False, on_draws=on)) for on in (False, True))
    moments = []
    for layer in (plain, program):
        cond = layer.condition(FIRST)
        m, C = layer.variational_parameters()
        mean_s, mean_b = layer.mean(FIRST.subset), layer.mean(FIRST.rest)
        f, w = layer.family.in_f(m, C, cond, mean_s), layer.family.in_w(m, C, cond, mean_s)
        _, covariance = layer.joint_moments(cond, f, w, mean_b, FIRST.rest)
        moments.append(covariance.detach())
    expected = torch.tensor([2 * amount] * M + [3 * amount] * B, dtype=torch.float64)
    added = torch.diag_embed(expected).expand(1, D_OUT, M + B, M + B)
    torch.testing.assert_close(moments[1] - moments[0], added, rtol=1e-9, atol=1e-9)
    if coupling == "joint":
        return
    with torch.no_grad():
        # A draw of one standard deviation beside one of none: the squared step is the variance of the draw.
        still, rest, subset = (
            [layer.propagate(FIRST, Constant(*values), coupling)[0] for layer in (plain, program)]
            for values in ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0))
        )
        without, added = ((b.rest - a.rest).square() for a, b in zip(still, rest, strict=True))
        torch.testing.assert_close(added - without, torch.full_like(added, 3 * amount), rtol=0, atol=1e-9)
        if coupling == "marginal":
            without, added = ((b.subset - a.subset).square() for a, b in zip(still, subset, strict=True))
            torch.testing.assert_close(added - without, torch.full_like(added, 2 * amount), rtol=0, atol=1e-9)
        else:
            # F_S is the same in both; only its noise differs.
            step = (plain.noise_variance + 2 * amount).sqrt() - plain.noise_variance.sqrt()
            difference = subset[1].subset - subset[0].subset
            torch.testing.assert_close(difference, step.expand_as(difference), rtol=0, atol=1e-9)


@pytest.mark.parametrize("family", ["paper", "whitened"])
def test_rows_drawn_together_have_the_marginals_of_rows_drawn_apart(family):
    layer = make(family)
    with torch.no_grad():
        for row in range(B):
            alone = Points(FIRST.subset, FIRST.rest[:, [row]])
            apart, together = (layer.propagate(alone, fresh(), way)[0] for way in ("marginal", ROWS_TOGETHER))
            assert torch.equal(together.subset, apart.subset)
            torch.testing.assert_close(together.rest, apart.rest, rtol=0, atol=1e-6)
        together, joint = (
            layer.propagate(FIRST, fresh(n_samples=20_000), way)[0].rest for way in (ROWS_TOGETHER, "joint")
        )
    for output in range(D_OUT):
        torch.testing.assert_close(together[..., output].T.cov(), joint[..., output].T.cov(), rtol=0.05, atol=0.05)


def test_the_upper_triangle_of_the_factor_is_ignored():
    layer = make()
    before, _ = layer.propagate(FIRST, fresh(), "ancestral")
    with torch.no_grad():
        layer.q_factor.copy_(layer.q_factor.tril() + 7.0 * torch.ones(M, M, dtype=torch.float64).triu(1))
    after, _ = layer.propagate(FIRST, fresh(), "ancestral")
    assert torch.equal(before.subset, after.subset)
    assert torch.equal(before.rest, after.rest)
