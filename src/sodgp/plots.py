"""Pictures of fits with one input. Every function draws into a Matplotlib Axes and returns it.

The band of f (what the model knows of the function) and the band of y (where an observation would fall, noise included)
are two things, and are always drawn as two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from sodgp.draws import SharedDraws
from sodgp.errors import InputError
from sodgp.layers.subset import Points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sodgp.estimators import DeepGPRegressor

FloatArray = NDArray[np.float64]

# Blue and orange of the Okabe-Ito palette: told apart by all readers, and in grey.
_MEAN, _BAND_Y, _BAND_F, _DRAW, _SUBSET = "#08306b", "#c6dbef", "#4292c6", "#e69f00", "#d55e00"


def plot_fit(
    model: DeepGPRegressor,
    x: ArrayLike,
    *,
    data: tuple[ArrayLike, ArrayLike] | None = None,
    level: float = 0.9,
    ax: Axes | None = None,
) -> Axes:
    """Mean and central bands of f and of y over one input, with the data and the subset's points.

    Parameters
    ----------
    model : DeepGPRegressor
        Fitted, with one input and one target.
    x : array of shape [N]
        Where to draw, ascending.
    data : (X, y) or None
        Training data; rows of the model's subset get a ring of their own.
    level : float
        Probability of the bands.
    ax : Axes or None
        None takes the current one.

    Returns
    -------
    Axes
    """
    ax = _axes(ax)
    x = _grid(model, x)
    y_dist, f_dist = (model.predict_distribution(x[:, None], latent=latent) for latent in (False, True))
    per_cent = f"{100 * level:g} %"
    ax.fill_between(x, *y_dist.interval(level), color=_BAND_Y, linewidth=0, label=f"{per_cent} band of y (with noise)")
    ax.fill_between(
        x, *f_dist.interval(level), color=_BAND_F, alpha=0.55, linewidth=0, label=f"{per_cent} band of f (function)"
    )
    ax.plot(x, y_dist.mean, color=_MEAN, linewidth=1.6, label="mean", zorder=3)
    if data is not None:
        X, y = (np.asarray(values, dtype=np.float64).reshape(-1) for values in data)
        ax.plot(X, y, "o", color="black", markersize=3, label="data", zorder=5)
        chosen = getattr(model, "subset_indices_", np.empty(0, dtype=np.int64))
        if 0 < len(chosen) < len(X):
            ring: dict[str, Any] = {"mfc": "none", "mec": _SUBSET, "mew": 1.2, "markersize": 7, "zorder": 4}
            ax.plot(X[chosen], y[chosen], "o", label=f"subset S ({len(chosen)})", **ring)
    ax.set_xlim(x[0], x[-1])
    return ax


def plot_functions(
    model: DeepGPRegressor, x: ArrayLike, *, n_samples: int = 5, random_state: int = 0, ax: Axes | None = None
) -> Axes:
    """Whole functions f drawn from the posterior, over one input; arguments as in `plot_fit`.

    Parameters
    ----------
    model : DeepGPRegressor
    x : array of shape [N]
        At most 1,000 points.
    n_samples : int
        Number of functions.
    random_state : int
    ax : Axes or None

    Returns
    -------
    Axes
    """
    ax = _axes(ax)
    x = _grid(model, x)
    draws = model.sample_y(x[:, None], n_samples, random_state, latent=True).reshape(len(x), -1)
    lines = ax.plot(x, draws, color=_DRAW, linewidth=0.9, alpha=0.9)
    lines[0].set_label("drawn functions f")
    ax.set_xlim(x[0], x[-1])
    return ax


def plot_hidden(
    model: DeepGPRegressor, x: ArrayLike, layer: int = 1, *, n_samples: int = 20, ax: Axes | None = None
) -> Axes:
    """Draws of a hidden layer's first output, as the model's predictions use them: how it bends its input.

    Parameters
    ----------
    model : DeepGPRegressor
        With at least ``layer + 1`` layers.
    x : array of shape [N]
    layer : int
        Hidden layer, from 1.
    n_samples : int
        Number of draws.
    ax : Axes or None

    Returns
    -------
    Axes

    Raises
    ------
    InputError
        The model has no such hidden layer, or not one input.
    """
    ax = _axes(ax)
    x = _grid(model, x)
    values = hidden_draws(model, x[:, None], layer, n_samples)[..., 0]
    ax.plot(x, values.T, color=_MEAN, linewidth=0.8, alpha=0.35)
    ax.set_xlim(x[0], x[-1])
    return ax


def hidden_draws(model: DeepGPRegressor, X: ArrayLike, layer: int, n_samples: int) -> FloatArray:
    """Draws of a hidden layer's outputs, [T, N, D], in the units of the scaled inputs.

    Raises
    ------
    InputError
        The model has no such hidden layer.
    """
    hidden = list(model.model_.layers)[:-1]
    if not 1 <= layer <= len(hidden):
        raise InputError(f"layer={layer} is not a hidden layer; the model has {len(hidden)} of them.")
    rows = model._scaled_rows(X)
    draws = SharedDraws(model._predict_seed, n_samples, dtype=rows.dtype, device=rows.device)
    points = Points(model._anchors(rows)[0], rows.unsqueeze(0))
    with torch.no_grad():
        for stage in hidden[:layer]:
            points, _ = stage.propagate(points, draws, "ancestral")
    values: FloatArray = points.rest.double().cpu().numpy()
    return values


def _axes(ax: Axes | None) -> Any:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.gca()


def _grid(model: DeepGPRegressor, x: ArrayLike) -> FloatArray:
    if model.n_features_in_ != 1 or model.model_.n_outputs != 1:
        raise InputError(
            f"this picture needs one input and one target; the model has {model.n_features_in_} and"
            f" {model.model_.n_outputs}."
        )
    grid = np.asarray(x, dtype=np.float64).reshape(-1)
    if len(grid) < 2:
        raise InputError("x needs at least two points to draw a line.")
    return grid
