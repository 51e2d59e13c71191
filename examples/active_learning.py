"""Active learning: which label to ask for next.

Labels are expensive, inputs are not. Ask for the label where the model knows least: for
a regression where the standard deviation of the *function* is largest (`latent=True`,
without the noise, which no label removes).
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from sodgp import DeepGPRegressor
from sodgp.plots import plot_fit

STEPS = int(os.environ.get("STEPS", "155"))
LABELS = 4 if "STEPS" in os.environ else 24


def function(x: np.ndarray) -> np.ndarray:
    """Flat on the left, fast on the right."""
    return np.where(x < 0.4, 0.0, np.sin(25 * (x - 0.4)) * (x - 0.4))


rng = np.random.default_rng(0)
pool = rng.uniform(0, 1, 400)
labels = function(pool) + 0.02 * rng.standard_normal(400)
x = np.linspace(0, 1, 300)

# %%
# Start with eight rows; add one at a time, by the rule or at random.
errors, chosen = {}, {}
for rule in ("largest standard deviation", "random"):
    known, errors[rule] = list(range(8)), []
    model = DeepGPRegressor(n_layers=2, subset_size=8, max_iter=STEPS, random_state=0)
    for _ in range(LABELS):
        model.set_params(subset_size=min(len(known), 20)).fit(
            pool[known][:, None], labels[known]
        )
        errors[rule].append(
            float(np.sqrt(np.mean((model.predict(x[:, None]) - function(x)) ** 2)))
        )
        spread = model.predict_distribution(pool[:, None], latent=True).std
        spread[known] = -np.inf
        rest = np.setdiff1d(np.arange(400), known)
        known.append(
            int(spread.argmax() if rule.startswith("largest") else rng.choice(rest))
        )
    chosen[rule] = model, known
    print(f"{rule}: error {errors[rule][-1]:.3f} with {len(known) - 1} labels")

# %%
# Chosen labels go to where the function is hard.
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
for rule, values in errors.items():
    left.plot(range(8, 8 + LABELS), values, label=rule)
left.set(xlabel="labels", ylabel="RMSE", yscale="log")
left.legend()
model, known = chosen["largest standard deviation"]
plot_fit(model, x, data=(pool[known], labels[known]), ax=right)
right.legend(fontsize="small")
plt.show()

# %%
# For classes, `model.predict_distribution(X).mutual_information` is the same question:
# what would a label tell?
