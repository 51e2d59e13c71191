"""Adding rows to a fitted model.

New rows arrive every week. With `warm_start=True` the next `fit` begins where the last
one ended: kernels, noise and the posterior are carried over to the new rows, and fewer
steps are enough.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from sodgp import DeepGPRegressor
from sodgp.predictive.metrics import nlpp

STEPS = int(os.environ.get("STEPS", "155"))


def rows(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A function of two inputs with a ridge."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (count, 2))
    return X, np.tanh(5 * (X[:, 0] + X[:, 1])) + 0.1 * rng.standard_normal(count)


X, y = rows(600, seed=0)
X_test, y_test = rows(500, seed=1)

# %%
# The first week has 200 rows, each further week brings 100. There is no `partial_fit`:
# give all rows that the model should know.
model = DeepGPRegressor(max_iter=STEPS, random_state=0).fit(X[:200], y[:200])
scores = [nlpp(y_test, model.predict_distribution(X_test))]
model.set_params(warm_start=True, max_iter=STEPS // 5)
for known in (300, 400, 500, 600):
    model.fit(X[:known], y[:known])
    scores.append(nlpp(y_test, model.predict_distribution(X_test)))

# %%
# A fit from the start with all rows, for comparison: five times as many steps as each
# warm fit.
fresh = DeepGPRegressor(max_iter=STEPS, random_state=0).fit(X, y)
fresh_score = nlpp(y_test, fresh.predict_distribution(X_test))
print(f"600 rows: NLPP {scores[-1]:.3f} warm, {fresh_score:.3f} from the start")

# %%
figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.plot([200, 300, 400, 500, 600], scores, "o-", label="warm start")
ax.axhline(fresh_score, color="black", linestyle="--", label="from the start, 600 rows")
ax.set(xlabel="rows", ylabel="NLPP of other rows")
ax.legend()
plt.show()
