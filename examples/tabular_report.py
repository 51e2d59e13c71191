"""From a table to a report: split, fit, save, evaluate, write one HTML page.

    python examples/tabular_report.py                       scikit-learn's diabetes data, about 15 seconds
    python examples/tabular_report.py data.csv target       a table of your own, numbers only

The same on the command line, once the held-out rows are a file of their own:

    sodgp fit train.csv --target y --out model/
    sodgp report model/ held-out.csv --out report.html
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from sodgp import DeepGPRegressor
from sodgp.report import Report, write_report


def diabetes_table(folder: Path) -> Path:
    """A CSV file to begin with: 442 patients, ten measurements, and how the disease went on."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    path = folder / "diabetes.csv"
    X.assign(progression=y).to_csv(path, index=False)
    return path


def main(data: Path, target: str, out: Path, max_iter: int = 400) -> Report:
    """Fit on three quarters of the rows, and report on the rest."""
    table = pd.read_csv(data)
    train, test = train_test_split(table, test_size=0.25, random_state=0)

    model = DeepGPRegressor(n_layers=2, subset_size=50, max_iter=max_iter, random_state=0)
    model.fit(train.drop(columns=target), train[target])
    model.save(out / "model.sodgp")

    report = write_report(
        out / "report.html",
        model,
        test.drop(columns=target),
        test[target],
        title=f"{target} from {data.name}",
        model_name="model.sodgp",
        data_name=f"{data.name}, {len(test)} rows kept apart",
    )
    scores = report.evaluation.scores()
    for name in ("rmse", "r2", "nlpp", "coverage_90"):
        print(f"{name:<12} {scores[name].value:8.3f}   ({scores[name].low:.3f} to {scores[name].high:.3f})")
    for finding in report.findings:
        print(f"{finding.level}: {finding.text}")
    print(f"Open {out / 'report.html'} in a browser.")
    return report


if __name__ == "__main__":
    folder = Path("tabular-report")
    folder.mkdir(exist_ok=True)
    if len(sys.argv) == 3:
        main(Path(sys.argv[1]), sys.argv[2], folder)
    else:
        main(diabetes_table(folder), "progression", folder)
