"""Bayesian optimisation of a function with a cliff.

The best point lies at the edge of a drop. A stationary surrogate must blur the edge; a
deep GP can be steep there. BoTorch does the search, `DeepGPModel` is the surrogate.
Needs the extra `botorch`.
"""

import os
import warnings

import matplotlib.pyplot as plt
import torch
from botorch.acquisition import qLogExpectedImprovement
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from torch import Tensor

from sodgp import DeepGPRegressor
from sodgp.integrations.botorch import DeepGPModel

STEPS = int(os.environ.get("STEPS", "300"))
POINTS = 2 if "STEPS" in os.environ else 12


def cliff(X: Tensor) -> Tensor:
    """Slowly better up to the edge x0 + x1 = 1.2, the best value; then a drop of 2."""
    total = X.sum(-1, keepdim=True)
    return torch.where(total <= 1.2, total, total - 2.0)


# %%
# Six random points, then one point after the other where the expected improvement is
# largest.
bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
X = torch.rand(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
Y = cliff(X)
estimator = DeepGPRegressor(
    n_layers=2, n_predict_samples=16, max_iter=STEPS, random_state=0
)
for number in range(POINTS):
    model = DeepGPModel(X, Y, estimator=estimator)
    sampler = SobolQMCNormalSampler(torch.Size([64]), seed=number)
    acquisition = qLogExpectedImprovement(model, best_f=Y.max(), sampler=sampler)
    with (
        warnings.catch_warnings()
    ):  # BoTorch warns when a start of its search does not converge
        warnings.simplefilter("ignore")
        candidate, _ = optimize_acqf(
            acquisition, bounds, q=1, num_restarts=4, raw_samples=64
        )
    X, Y = torch.cat([X, candidate]), torch.cat([Y, cliff(candidate)])
best = Y.max().item()
print(f"best value after {len(Y)} points: {best:.3f} of 1.2")

# %%
# Left: where the points are; the line is the edge. Right: the best value so far.
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.plot([0.2, 1.0], [1.0, 0.2], "k--", label="edge")
left.scatter(*X[:6].T, marker="s", label="random")
points = left.scatter(*X[6:].T, c=range(6, len(X)), cmap="viridis", label="chosen")
figure.colorbar(points, ax=left, label="number of the point")
left.set(xlabel="$x_0$", ylabel="$x_1$", xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
right.step(range(1, len(Y) + 1), Y.flatten().cummax(0).values, where="post")
right.axhline(1.2, color="black", linestyle="--")
right.set(xlabel="points", ylabel="best value so far")
plt.show()
