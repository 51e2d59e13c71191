"""One fit on many processes, with torchrun.

A step of a large batch can be divided: each process computes its share of the rows, and
one sum over all processes carries the gradient. The model is that of one process, to
rounding.
"""

import os
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sodgp import DeepGPRegressor, SoD

STEPS = int(os.environ.get("STEPS", "100"))
SIZES = {"subset_size": 50, "batch_size": 1000, "n_layers": 2}

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (3000, 3))
y = np.sign(X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(3000)
table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)
table.to_csv("data.csv", index=False)

# %%
# `python -m torch.distributed.run` is `torchrun`. Here two processes on this machine;
# on several machines the same command runs on each, with the address of the first.
launch = "torch.distributed.run --standalone --nproc-per-node 2 -m sodgp fit data.csv"
options = {**SIZES, "max_iter": STEPS, "objective": "predictive", "random_state": 0}
flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
flags.append("--distributed")
subprocess.run(
    [sys.executable, "-m", *launch.split(), "--target=y", "--out=model/", *flags],
    check=True,
    capture_output=True,
)
divided = DeepGPRegressor.load("model/")

# %%
# The same fit in one process.
method = SoD(objective="predictive")
alone = DeepGPRegressor(inference=method, max_iter=STEPS, random_state=0, **SIZES)
alone.fit(table[["a", "b", "c"]], table["y"])
new = table[["a", "b", "c"]][:500]
two, one = divided.predict(new), alone.predict(new)
difference = float(np.abs(two - one).max())
print(f"largest difference of 500 predictions: {difference:.0e}")

# %%
figure, ax = plt.subplots(figsize=(4.2, 4), layout="constrained")
ax.plot(one, two, ".", markersize=3)
ax.axline((0, 0), slope=1, color="black", linewidth=0.8, linestyle="--")
ax.set(xlabel="prediction, one process", ylabel="prediction, two processes")
plt.show()
