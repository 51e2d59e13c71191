"""Marginals of the last layer: sums over rows are the sums of the rows."""

import pytest
import torch

from sodgp.kernels.make import make_kernel
from sodgp.layers.contract import Points
from sodgp.layers.prior import HiddenMean
from sodgp.layers.subset import SubsetLayer

M, B, D, P, T = 4, 6, 2, 3, 5


def randn(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture(params=["whitened", "paper"])
def layer(request):
    mean = HiddenMean(randn(0, D, P))
    made = SubsetLayer(
        make_kernel("rbf", D), mean, size=M, width=P, parameterization=request.param, noise_variance=None
    )
    with torch.no_grad():
        made.q_mean.copy_(randn(1, M, P))
        made.q_factor.copy_(randn(2, P, M, M))
    return made


@pytest.mark.parametrize("rows", [1, M], ids=["one variance", "one for each row"])
@pytest.mark.parametrize("samples", [1, T])
def test_totals_are_sums_of_the_rows(layer, rows, samples):
    points = Points(randn(3, samples, M, D), randn(4, samples, B, D))
    variance = randn(5, 1, rows, P).square() + 0.1
    found = layer.label_informed(points, randn(6, 1, M, P), variance)
    assert found.kl.shape == (samples,)
    for marginals in (found.subset, found.rest):
        totals = marginals.totals()  # before the rows, which would be summed
        mean, variances = marginals.rows()
        torch.testing.assert_close(totals[0], mean, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(totals[1], variances.sum(-2, keepdim=True), rtol=1e-8, atol=1e-8)
    relative = (found.subset.rows()[1] / variance).sum(-2, keepdim=True)
    torch.testing.assert_close(found.subset.over_sites()[1], relative, rtol=1e-8, atol=1e-8)
    assert found.rest.over_sites() is None


def test_the_joint_distribution_has_these_marginals(layer):
    points, y, v = Points(randn(3, T, M, D), randn(4, T, B, D)), randn(6, 1, M, P), torch.full((1, 1, P), 0.2).double()
    mean, covariance = layer.label_informed_joint(points, y, v)
    rows = layer.label_informed(points, y, v).rest.rows()
    torch.testing.assert_close(mean, rows[0], rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(covariance.diagonal(dim1=-2, dim2=-1).mT, rows[1], rtol=1e-8, atol=1e-8)
