"""A likelihood of your own: counts with extra zeros.

A shop that is closed sells nothing, whatever the weather. With probability p a count is
zero, else Poisson with the rate exp(f). A likelihood is a density and the distribution
that predictions have; expectations, the labels' part of the posterior and the gradients
follow by quadrature and automatic differentiation.
"""

import os
from dataclasses import dataclass
from typing import ClassVar

import matplotlib.pyplot as plt
import numpy as np
import torch

from sodgp import DeepGPRegressor
from sodgp.likelihoods.contract import Sizes
from sodgp.likelihoods.latent import (
    QuadratureLikelihood,
    QuadratureOptions,
    QuadratureRows,
    start_of,
)
from sodgp.plots import plot_rootogram
from sodgp.predictive.counts import CountMixture

STEPS = int(os.environ.get("STEPS", "300"))

# %%
# Three classes: the options, the module with what is trained, and the density at given
# rows. Copy `docs/skeletons/likelihood.py` to begin one of your own.


@dataclass(frozen=True, kw_only=True)
class ZeroInflated(QuadratureOptions):
    """Options: none of its own."""

    name: ClassVar[str] = "zero_inflated"
    targets: ClassVar[str] = "counts"

    def build(self, sizes: Sizes) -> QuadratureLikelihood:
        """Starts at the log of the mean count."""
        return ZeroInflatedLikelihood(
            start_of(sizes, lambda mean: mean.clamp_min(0.1).log()),
            self.quadrature_order,
        )


class ZeroInflatedLikelihood(QuadratureLikelihood):
    """Trains an offset of f, and the logit of the probability of an extra zero."""

    def __init__(self, start: torch.Tensor, order: int) -> None:
        super().__init__(start, order)
        self.logit = torch.nn.Parameter(torch.full_like(start, -1.0))

    def rows(self, draws: object) -> "ZeroInflatedRows":
        """The density at any rows."""
        return ZeroInflatedRows(
            self.offset[..., None, None, :], self.logit[..., None, None, :], self.rule
        )


class ZeroInflatedRows(QuadratureRows):
    """log p(y | f), and the predictive distribution."""

    def __init__(self, offset: torch.Tensor, logit: torch.Tensor, rule: object) -> None:
        super().__init__(rule)
        self.offset = offset
        self.log_zero, self.log_open = (
            torch.nn.functional.logsigmoid(logit),
            torch.nn.functional.logsigmoid(-logit),
        )

    def log_density(self, y: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
        """Log of p [y = 0] + (1 - p) Poisson(y)."""
        g = f + self.offset
        poisson = self.log_open + y * g - g.exp() - torch.lgamma(y + 1.0)
        return torch.where(y == 0, torch.logaddexp(self.log_zero, poisson), poisson)

    def predictive(self, mean: torch.Tensor, variance: torch.Tensor) -> CountMixture:
        """A mixture over samples of f, and one component that is always zero."""
        f, log_weights = self.components(mean, variance)
        rate = (f + self.offset.flatten(0, -2)).exp()
        log_weights = torch.cat(
            [log_weights + self.log_open.flatten(), self.log_zero.flatten()]
        )
        return CountMixture(
            log_weights, torch.cat([rate, torch.zeros_like(rate[:1])]), None
        )


# %%
# Sales over temperature; one day in four the shop was closed, which the inputs do not
# say.
def sales(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Temperature and sales."""
    rng = np.random.default_rng(seed)
    temperature = np.sort(rng.uniform(0, 35, rows))
    rate = np.exp(0.5 + 2.5 / (1 + np.exp(-(temperature - 20) / 2)))
    return temperature[:, None], rng.poisson(rate) * (rng.random(rows) > 0.25)


X, y = sales(300, seed=0)
X_test, y_test = sales(1000, seed=1)
scores, models = {}, {}
for name, likelihood in {"poisson": "poisson", "zero-inflated": ZeroInflated()}.items():
    models[name] = DeepGPRegressor(
        likelihood=likelihood, n_layers=2, max_iter=STEPS, random_state=0
    ).fit(X, y)
    scores[name] = -models[name].predict_distribution(X_test).log_prob(y_test).mean()
    print(f"{name}: NLPP {scores[name]:.2f}")
closed = models["zero-inflated"].model_.likelihood.logit.sigmoid().item()
print(f"probability of an extra zero: {closed:.2f}")

# %%
# Bars hang from the expected frequencies; they should end at zero.
figure, panels = plt.subplots(
    1, 2, figsize=(11, 3.4), sharey=True, layout="constrained"
)
for (name, model), ax in zip(models.items(), panels, strict=True):
    plot_rootogram(model.predict_distribution(X_test), y_test, ax=ax)
    ax.set_title(name)
panels[0].legend()
plt.show()
