"""A step: the classic failure of a shallow GP, and what a second and a third layer make of it.

python examples/step_function.py --out step.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from sodgp import DeepGPRegressor
from sodgp.data import step
from sodgp.plots import plot_fit
from sodgp.predictive.metrics import scores


def main(arguments: list[str] | None = None) -> dict[int, float]:
    """Fit with 1, 2 and 3 layers, print the scores, draw the fits; the NLPP of each depth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("step-function.png"))
    parser.add_argument("--iterations", type=int, default=1000)
    options = parser.parse_args(arguments)

    data, test = step(40, random_state=0), step(200, random_state=1)
    x = np.linspace(-1.1, 1.1, 300)
    figure = Figure(figsize=(12, 3.2), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    found = {}
    for n_layers, ax in zip((1, 2, 3), panels, strict=True):
        model = DeepGPRegressor(n_layers=n_layers, max_iter=options.iterations, random_state=0).fit(data.X, data.y)
        result = scores(test.y, model.predict_distribution(test.X))
        found[n_layers] = result["nlpp"]
        print(f"layers {n_layers}: NLPP {result['nlpp']:.3f}, RMSE {result['rmse']:.3f}")
        plot_fit(model, x, data=(data.X, data.y), ax=ax)
        ax.set_title(f"{n_layers} layer{'s' * (n_layers > 1)}, NLPP {result['nlpp']:.2f}")
    panels[0].legend(fontsize="small")
    figure.savefig(options.out)
    return found


if __name__ == "__main__":
    main()
