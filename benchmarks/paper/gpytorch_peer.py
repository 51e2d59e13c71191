"""GPyTorch's own deep GP, trained as its tutorial does.

Sizes, iterations and float64 are the protocol's, and the
predictive density is that of the mixture over samples (a log-mean-exp), never a mean of log densities.
"""

from __future__ import annotations

import time
from typing import Any

import gpytorch
import torch
from gpytorch.mlls import DeepApproximateMLL, VariationalELBO

from benchmarks.paper.history import LOGGED_EVERY, Curve, is_recorded
from benchmarks.paper.peers import Fitted, Report, Scaling
from benchmarks.paper.splits import Split
from benchmarks.paper.tutorial import TutorialDeepGP
from sodgp import DeepGPRegressor
from sodgp.errors import NumericalError
from sodgp.estimator.options.configuration import Configuration
from sodgp.predictive.mixture import GaussianMixture

_CHUNK_ROWS = 256


def fit_gpytorch(
    split: Split, options: dict[str, Any], seed: int, device: torch.device, every: int, report: Report
) -> Fitted:
    """Train GPyTorch's deep GP.

    Raises
    ------
    NumericalError
        GPyTorch could not go on.
    """
    devices = [device] if device.type == "cuda" else []
    # GPyTorch draws from the global generator, and this leaves it as it was.
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        try:
            return _fit(split, options, seed, device, every, report)
        except (gpytorch.utils.errors.NotPSDError, gpytorch.utils.errors.NanError) as error:
            raise NumericalError(f"GPyTorch's deep GP failed: {error}") from error


def _fit(split: Split, options: dict[str, Any], seed: int, device: torch.device, every: int, report: Report) -> Fitted:
    scaling, curve = Scaling(split), Curve(split)
    X, y = (
        torch.as_tensor(values, dtype=torch.float64, device=device)
        for values in (scaling.inputs(split.X_train), scaling.target(split.y_train))
    )
    n_rows, n_inputs = X.shape
    ours = Configuration.from_estimator(
        DeepGPRegressor(n_layers=options["n_layers"], subset_size=_rows(options["subset_size"], n_rows), device="cpu")
    )
    dims = [n_inputs, *ours.hidden_widths(ours.method, n_rows, n_inputs)]
    model = TutorialDeepGP(dims, ours.subset_rows(n_rows)).to(device, torch.float64)
    optimizer = torch.optim.Adam(model.parameters(), lr=options["learning_rate"])
    mll = DeepApproximateMLL(VariationalELBO(model.likelihood, model, n_rows))
    batch, last = min(options["batch_size"], n_rows), options["max_iter"]
    generator = torch.Generator().manual_seed(seed)
    bounds: dict[int, float] = {}
    history_seconds = 0.0

    def predict(rows: Any, n_samples: int | None = None) -> GaussianMixture:
        return _predict(model, scaling, rows, n_samples or options["n_predict_samples"], device, seed)

    model.train()
    for iteration in range(1, last + 1):
        rows = torch.randperm(n_rows, generator=generator)[:batch].to(device) if batch < n_rows else slice(None)
        with gpytorch.settings.num_likelihood_samples(options["n_samples"]):
            optimizer.zero_grad()
            loss = -mll(model(X[rows]), y[rows])
            loss.backward()
            optimizer.step()
        if iteration in (1, last) or iteration % LOGGED_EVERY == 0:
            report(iteration, last)
        if is_recorded(iteration, every, last):
            began = time.perf_counter()
            # GPyTorch's loss is the bound per row.
            bounds[iteration] = -float(loss.detach()) * n_rows
            curve.record(iteration, predict)
            model.train()
            history_seconds += time.perf_counter() - began
    n_parameters = sum(p.numel() for p in model.parameters())
    notes = {"iterations": last, "inducing_points": ours.subset_rows(n_rows), "hidden_widths": dims[1:]}
    return Fitted(predict, n_parameters, curve.as_dict(bounds) if every else {}, history_seconds, notes)


def _rows(size: Any, n_rows: int) -> Any:
    """Inducing points: never more than rows."""
    return min(size, n_rows) if isinstance(size, int) else size


def _predict(
    model: TutorialDeepGP, scaling: Scaling, rows: Any, n_samples: int, device: torch.device, seed: int
) -> GaussianMixture:
    """The mixture over samples, in chunks of rows; the global generator is left as it was."""
    model.eval()
    X = torch.as_tensor(scaling.inputs(rows), dtype=torch.float64, device=device)
    parts = []
    devices = [device] if device.type == "cuda" else []
    with (
        torch.random.fork_rng(devices=devices),
        torch.no_grad(),
        gpytorch.settings.num_likelihood_samples(n_samples),
    ):
        torch.manual_seed(seed)
        for part in X.split(_CHUNK_ROWS):
            y = model.likelihood(model(part))
            parts.append((y.mean, y.variance))
    mean, variance = (torch.cat(values, -1).cpu() for values in zip(*parts, strict=True))
    return scaling.back(mean, variance)
