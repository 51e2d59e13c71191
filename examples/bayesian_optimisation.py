"""Bayesian optimisation with a deep GP as the surrogate, of a function with a cliff. Needs the extra `botorch`.

python examples/bayesian_optimisation.py
"""

from __future__ import annotations

import argparse
import warnings

import torch
from botorch.acquisition import qLogExpectedImprovement
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from torch import Tensor

from sodgp import DeepGPRegressor
from sodgp.integrations.botorch import DeepGPModel


def cliff(X: Tensor) -> Tensor:
    """Slowly better up to the edge x0 + x1 = 1.2, then a drop of 2: [n, 2] to [n, 1], with 1.2 as the best value."""
    total = X.sum(-1, keepdim=True)
    return torch.where(total <= 1.2, total, total - 2.0)


def main(arguments: list[str] | None = None) -> float:
    """Search from six random points; the best value found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--iterations", type=int, default=300)
    options = parser.parse_args(arguments)

    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    X = torch.rand(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    Y = cliff(X)
    estimator = DeepGPRegressor(n_layers=2, n_predict_samples=16, max_iter=options.iterations, random_state=0)
    for number in range(options.steps):
        model = DeepGPModel(X, Y, estimator=estimator)
        acquisition = qLogExpectedImprovement(
            model, best_f=Y.max(), sampler=SobolQMCNormalSampler(torch.Size([64]), seed=number)
        )
        with warnings.catch_warnings():  # BoTorch warns when a start of its search does not converge
            warnings.simplefilter("ignore")
            candidate, _ = optimize_acqf(acquisition, bounds, q=1, num_restarts=4, raw_samples=64)
        X, Y = torch.cat([X, candidate]), torch.cat([Y, cliff(candidate)])
        print(f"step {number + 1}: tried {candidate.flatten().tolist()}, best so far {Y.max().item():.3f}")
    return float(Y.max())


if __name__ == "__main__":
    main()
