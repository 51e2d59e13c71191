"""A large Parquet file, predicted in parts.

A file that does not fit into memory is predicted batch by batch: `predict_batches`
reads, predicts and forgets. On the command line `sodgp predict` does the same, with
several processes, and continues after an interruption. Needs the extra `frames`.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sodgp import DeepGPRegressor

STEPS = int(os.environ.get("STEPS", "200"))
PARTS = 2 if "STEPS" in os.environ else 10

# %%
# A file of 100,000 rows, in row groups of 10,000.
rng = np.random.default_rng(0)
schema = pa.schema(
    {"a": pa.float64(), "b": pa.float64(), "kind": pa.string(), "y": pa.float64()}
)
with pq.ParquetWriter("big.parquet", schema) as writer:
    for _ in range(PARTS):
        a, b = rng.uniform(-1, 1, (2, 10_000))
        kind = rng.choice(["plain", "odd"], 10_000)
        y = (
            np.where(kind == "odd", -1, 1) * np.tanh(8 * a)
            + b
            + 0.1 * rng.standard_normal(10_000)
        )
        writer.write_table(
            pa.table({"a": a, "b": b, "kind": kind, "y": y}, schema=schema)
        )
print(f"{Path('big.parquet').stat().st_size / 1e6:.1f} MB")

# %%
# Fit on one row group. With many rows a random part is often as good as all of them:
# look at the score, then take more.
file = pq.ParquetFile("big.parquet")
train = file.read_row_group(0).to_pandas()
model = DeepGPRegressor(max_iter=STEPS, random_state=0).fit(
    train[["a", "b", "kind"]], train["y"]
)

# %%
# One batch is in memory at a time.
errors, widths = [], []
batches = model.predict_batches("big.parquet", batch_rows=10_000, return_std=True)
for number, (mean, std) in enumerate(batches):
    y = file.read_row_group(number, columns=["y"])["y"].to_numpy()
    errors.append(float(np.sqrt(np.mean((mean - y) ** 2))))
    widths.append(float(std.mean()))
print(f"RMSE over {len(errors)} batches: {np.mean(errors):.3f}; the noise has 0.1")

# %%
# The first batch was trained on. The others are no worse, so more rows would not help.
figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.plot(errors, "o-", label="RMSE")
ax.plot(widths, "s--", label="mean standard deviation")
ax.set(xlabel="row group", ylim=(0, 0.15))
ax.legend()
plt.show()
