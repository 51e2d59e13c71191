from __future__ import annotations

import pytest
import torch
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from scipy.stats import chisquare

from sodgp.errors import ConfigurationError
from sodgp.kernels.dense import covariance
from sodgp.selectors.leverage import Leverage, _inclusion, recursive_scores


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator(seed))


def definition(kernel: RBFKernel, X: torch.Tensor, ridge: float) -> torch.Tensor:
    K = covariance(kernel, X).detach()
    return torch.linalg.solve(K + ridge * torch.eye(X.shape[0], dtype=torch.float64), K, left=False).diagonal()


@pytest.mark.parametrize("ridge", [1e-4, 0.01, 3.0])
def test_exact_scores_are_the_definition(ridge: float) -> None:
    X = normal(120, 3)
    for kernel in (ScaleKernel(RBFKernel()).double(), MaternKernel(nu=2.5).double()):
        scores = Leverage().scores(X, kernel, ridge)
        torch.testing.assert_close(scores, definition(kernel, X, ridge), rtol=1e-9, atol=1e-11)
        assert not scores.requires_grad


def test_the_ridge_is_the_noise_variance_unless_given() -> None:
    X = normal(40, 2)
    torch.testing.assert_close(Leverage(noise_variance=0.3).scores(X), Leverage().scores(X, None, 0.3))


@pytest.mark.parametrize("n_outliers", [0, 40])
def test_recursive_scores_approximate_the_exact_ones(n_outliers: int) -> None:
    X = normal(1500, 2)
    X[:n_outliers] *= 6.0
    kernel = RBFKernel().double()
    exact = definition(kernel, X, 1.0)
    assert exact.sum() < 70  # the sketch is well above the number of parameters that the data can tell apart
    approximate = Leverage(exact_limit=1, sketch_size=400).scores(X, kernel, 1.0, generator())
    assert float(approximate.sum() / exact.sum()) == pytest.approx(1.0, abs=0.1)
    ratio = approximate / exact
    assert float(ratio.quantile(0.02)) > 0.6
    assert float(ratio.quantile(0.98)) < 1.8


def test_a_sketch_of_all_rows_is_exact() -> None:
    X, kernel = normal(60, 2), RBFKernel().double()
    torch.testing.assert_close(
        recursive_scores(X, kernel, 0.05, 60, generator()), definition(kernel, X, 0.05), rtol=1e-8, atol=1e-10
    )


@pytest.mark.parametrize("sketch_size", [1, 2, 7])
def test_tiny_sketches_do_not_fail(sketch_size: int) -> None:
    scores = Leverage(exact_limit=1, sketch_size=sketch_size).scores(normal(101, 2), None, 0.01, generator())
    assert scores.shape == (101,)
    assert 0.0 <= float(scores.min()) <= float(scores.max()) <= 1.0


def test_inclusion_probabilities_add_up() -> None:
    scores = torch.tensor([1.0, 0.9, 0.01, 0.02, 0.03, 0.0]).double()
    probability = _inclusion(scores, 3)
    assert float(probability.sum()) == pytest.approx(3.0)
    assert probability[:2].tolist() == [1.0, 1.0]
    assert float(probability[4] / probability[2]) == pytest.approx(3.0)
    assert _inclusion(scores, 6).tolist() == [1.0, 1.0, 1.0, 1.0, 1.0, 0.0]


def test_the_first_row_is_drawn_in_proportion_to_the_scores() -> None:
    X = torch.tensor([[0.0], [0.1], [0.2], [0.3], [2.0], [4.0]]).double()
    scores = Leverage(noise_variance=0.5).scores(X)
    source = generator()
    counts = torch.zeros(6)
    for _ in range(500):
        counts[Leverage(noise_variance=0.5).select(X, None, 1, None, source)] += 1
    assert chisquare(counts.numpy(), (500 * scores / scores.sum()).numpy(), sum_check=False).pvalue > 0.01


def test_large_data_takes_the_recursive_way() -> None:
    X = normal(3000, 2)
    indices = Leverage(sketch_size=64).select(X, None, 30, None, generator())
    assert indices.unique().numel() == 30
    assert torch.equal(indices, Leverage(sketch_size=64).select(X, None, 30, None, generator()))


def test_refuses_bad_options() -> None:
    with pytest.raises(ConfigurationError, match="noise_variance is 0"):
        Leverage(noise_variance=0.0)
    with pytest.raises(ConfigurationError, match="sketch_size is 0"):
        Leverage(sketch_size=0)
    with pytest.raises(ConfigurationError, match="must be positive"):
        Leverage().scores(normal(5, 1), None, -1.0)
