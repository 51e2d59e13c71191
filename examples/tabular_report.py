"""From a table to a report.

Fit, save, and write one HTML page about how the model does on rows it has not seen:
scores with intervals, calibration, worst rows, what matters, warnings. On the command
line:

    sodgp fit train.csv --target progression --out model/
    sodgp report model/ held-out.csv --out report.html
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from sodgp import DeepGPRegressor, write_report
from sodgp.plots import plot_coverage, plot_predictions

STEPS = int(os.environ.get("STEPS", "155"))

# %%
# 442 patients, ten measurements, and how the disease went on.
X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
y = y.rename("progression")
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.25, random_state=0
)
model = DeepGPRegressor(max_iter=STEPS, random_state=0).fit(X_train, y_train)
model.save("model.sodgp")

# %%
# The page opens offline, prints, and runs no scripts.
report = write_report(
    "report.html", model, X_test, y_test, title="Progression of diabetes"
)
print(f"report.html has {Path('report.html').stat().st_size // 1000} kB")
for finding in report.findings:
    print(f"{finding.level}: {finding.text}")

# %%
# The numbers and pictures of the page are there for code, too.
scores = report.evaluation.scores()
for name in ("rmse", "r2", "nlpp", "coverage_90"):
    score = scores[name]
    print(f"{name}: {score.value:.3f} ({score.low:.3f} to {score.high:.3f})")
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
plot_predictions(report.evaluation, ax=left)
plot_coverage(report.evaluation, ax=right)
left.legend(fontsize="small")
right.legend(fontsize="small")
plt.show()
