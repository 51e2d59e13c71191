"""A selector of your own: which rows form the subset.

The inducing points are a subset of the rows. k-means, the default, spreads them over
the inputs. If you know where it matters, say so: a selector is any object with a method
`select`. Here more rows are taken where neighbours differ in y.
"""

import os
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import torch

from sodgp import DeepGPRegressor, SoD
from sodgp.plots import plot_fit
from sodgp.predictive.metrics import nlpp
from sodgp.selectors.base import all_rows, check_request

STEPS = int(os.environ.get("STEPS", "300"))


# %%
# Options are fields; random numbers come from the generator alone, so that one seed
# gives one subset. X and y are in scaled units.
@dataclass(frozen=True)
class WhereItChanges:
    """Rows drawn with weights: a constant, plus how y differs among near rows."""

    neighbours: int = 6
    constant: float = 0.1

    def select(self, X, y, size, kernel, generator):
        """Return `size` different row numbers."""
        check_request(X, y, size)
        if size >= len(X):
            return all_rows(X)
        nearest = torch.cdist(X, X).topk(self.neighbours, largest=False).indices
        weight = y[nearest].std(1).mean(-1) + self.constant
        return torch.multinomial(weight, size, generator=generator)


# %%
# A jump at zero, 400 rows, and a subset of 16 of them. `SoD(objective="bound")` trains
# on the subset and batches, where the choice of rows matters most.
rng = np.random.default_rng(0)
X = np.sort(rng.uniform(-1, 1, 400))[:, None]
y = np.tanh(30 * X[:, 0]) + 0.2 * X[:, 0] + 0.05 * rng.standard_normal(400)
X_test = np.linspace(-1, 1, 500)[:, None]
y_test = (
    np.tanh(30 * X_test[:, 0]) + 0.2 * X_test[:, 0] + 0.05 * rng.standard_normal(500)
)

figure, panels = plt.subplots(
    1, 2, figsize=(10, 3.4), sharey=True, layout="constrained"
)
scores = {}
for subset, ax in zip(("kmeans", WhereItChanges()), panels, strict=True):
    model = DeepGPRegressor(
        n_layers=2,
        subset=subset,
        subset_size=16,
        inference=SoD(objective="bound"),
        max_iter=STEPS,
        random_state=0,
    ).fit(X, y)
    name = subset if isinstance(subset, str) else "where it changes"
    scores[name] = nlpp(y_test, model.predict_distribution(X_test))
    plot_fit(model, X_test[:, 0], data=(X, y), ax=ax)
    ax.set_title(f"{name}, NLPP {scores[name]:.2f}")
panels[1].legend(fontsize="small")
plt.show()
