"""Hidden layers as functions of the inputs: curves over one input, warped grids over two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sodgp.errors import InputError
from sodgp.estimator.columns import rows_of
from sodgp.estimator.describe import feature_names, n_inputs
from sodgp.estimator.predict import PredictionOptions, hidden_rows
from sodgp.plots.inputs import line_name, with_names
from sodgp.plots.style import DRAW, MEAN, POINT, axes_or_current, tidy, with_unit
from sodgp.system.validation import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    from sodgp.estimator.columns import EncodedRows
    from sodgp.estimator.regressor import DeepGPRegressor

_LINE_POINTS, _GRID_LINES = 120, 13


def plot_hidden(
    model: DeepGPRegressor,
    x: ArrayLike,
    layer: int = 1,
    *,
    output: int = 0,
    n_samples: int = 20,
    unit: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draws of one output of a hidden layer over one input, as the model's predictions use them.

    Parameters
    ----------
    model : DeepGPRegressor
        With one input and at least ``layer + 1`` layers; of several members the first is shown.
    x : array of shape [N]
    layer : int, hidden layer from 1
    output : int, of the layer, from 0
    n_samples : int, number of draws
    unit : str, of the input
    ax : Axes, default=the current one

    Raises
    ------
    InputError
        The model has no such hidden layer or output, or several inputs.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sodgp import DeepGPRegressor
    >>> x = np.linspace(-1, 1, 30)
    >>> model = DeepGPRegressor(max_iter=5, random_state=0).fit(x[:, None], np.sign(x))
    >>> len(plot_hidden(model, x, layer=1, n_samples=4, ax=Figure().subplots()).lines)
    4
    """
    ax = axes_or_current(ax)
    if n_inputs(model) != 1:
        raise InputError(f"plot_hidden needs a model with one input, this one has {n_inputs(model)}; see plot_warp.")
    x = np.asarray(x, dtype=np.float64).reshape(-1)
    values = _output(hidden_draws(model, with_names(model, x[:, None]), layer, n_samples), output)
    ax.plot(x, values.T, color=MEAN, linewidth=0.8, alpha=0.35)
    ax.set_xlim(x[0], x[-1])
    ax.set(xlabel=with_unit(line_name(model), unit), ylabel=f"z{output + 1} of layer {layer} (scaled)")
    return tidy(ax, grid="y")


def plot_warp(
    model: DeepGPRegressor,
    layer: int = 1,
    *,
    X: ArrayLike | None = None,
    inputs: tuple[int, int] = (0, 1),
    outputs: tuple[int, int] | None = None,
    n_samples: int = 20,
    ax: Axes | None = None,
) -> Axes:
    """A regular grid over two inputs, mapped by a hidden layer: where it is stretched, the model can change faster.

    The grid goes through the mean of the layer's draws; other inputs stay at their training mean. A layer with one
    output is drawn as level lines over the inputs instead.

    Parameters
    ----------
    model : DeepGPRegressor
        With at least two inputs and ``layer + 1`` layers; of several members the first is shown.
    layer : int, hidden layer from 1
    X : array of shape [N, D] or None
        The grid spans the range of these rows; None takes two standard deviations about the training mean.
    inputs : (int, int)
        Columns that the grid spans.
    outputs : (int, int) or None
        Outputs of the layer on the axes, from 0; None takes those of `inputs` if the layer's mean is the identity, else
        the first two.
    n_samples : int, draws that are averaged
    ax : Axes, default=the current one

    Raises
    ------
    InputError
        The model has no such hidden layer, output or column, or fewer than two inputs.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sodgp import DeepGPRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(30, 2))
    >>> model = DeepGPRegressor(max_iter=5, random_state=0).fit(X, np.sign(X[:, 0]))
    >>> plot_warp(model, 1, X=X, n_samples=3, ax=Figure().subplots()).get_xlabel()
    'z1 of layer 1 (scaled)'
    """
    if n_inputs(model) < 2:
        raise InputError("plot_warp needs a model with at least two inputs; see plot_hidden for one.")
    first, second = (_column(model, column) for column in inputs)
    ends = _ends(model, X)
    names = [with_unit(name, "") for name in feature_names(model)]
    long, coarse = np.linspace(0, 1, _LINE_POINTS), np.linspace(0, 1, _GRID_LINES)
    ax = axes_or_current(ax)
    width = _width(model, layer)
    if width == 1:
        _level_lines(ax, model, layer, ends, (first, second), n_samples)
        ax.set(xlabel=names[first], ylabel=names[second])
        return tidy(ax, grid="")
    same = model.hidden_mean == "linear" and width == n_inputs(model)
    places = outputs or ((first, second) if same else (0, 1))
    for column, other, colour, z in ((first, second, POINT, 2), (second, first, DRAW, 3)):
        # One call for all lines on which `column` is constant.
        fixed, free = (part.ravel() for part in np.meshgrid(coarse, long, indexing="ij"))
        rows = _rows(model, {column: _between(ends, column, fixed), other: _between(ends, other, free)})
        draws = hidden_draws(model, rows, layer, n_samples)
        warped = [_output(draws, place).mean(0).reshape(_GRID_LINES, _LINE_POINTS) for place in places]
        for number, path in enumerate(zip(*warped, strict=True)):
            # From faint to strong along the input, so that folds can be followed.
            strength = 0.3 + 0.7 * number / (_GRID_LINES - 1)
            label = f"constant {names[column]}, rising" if number == _GRID_LINES - 1 else None
            ax.plot(*path, color=colour, alpha=strength, linewidth=1.3, zorder=z, label=label)
    across, up = (f"z{place + 1} of layer {layer} (scaled)" for place in places)
    ax.set(xlabel=across, ylabel=up)
    ax.set_aspect("equal", adjustable="datalim")
    return tidy(ax, grid="")


def hidden_draws(model: DeepGPRegressor, X: Any, layer: int, n_samples: int) -> FloatArray:
    """Draws of a hidden layer's outputs, [T, N, D_layer], in the units of the scaled inputs.

    Parameters
    ----------
    model : DeepGPRegressor
        Fitted; of several members the first is shown.
    X : array or data frame of shape [N, D]
    layer : int, hidden layer from 1
    n_samples : int, draws T

    Raises
    ------
    InputError
        The model has no such hidden layer.

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> x = np.linspace(-1, 1, 30)
    >>> model = DeepGPRegressor(max_iter=5, random_state=0).fit(x[:, None], np.sign(x))
    >>> hidden_draws(model, x[:, None], layer=1, n_samples=4).shape  # [n_samples, N, D_out]
    (4, 30, 1)
    """
    _width(model, layer)
    options = PredictionOptions(n_samples, n_threads=model.n_threads)
    return hidden_rows(model.fitted_, rows_of(model, X), options, layer)


def _width(model: DeepGPRegressor, layer: int) -> int:
    """Outputs of a hidden layer."""
    *hidden, _ = model.model_.widths
    if not 1 <= layer <= len(hidden):
        raise InputError(f"layer={layer} is not a hidden layer; the model has {len(hidden)} of them.")
    return hidden[layer - 1]


def _output(values: FloatArray, output: int) -> FloatArray:
    if not 0 <= output < values.shape[-1]:
        raise InputError(f"output={output} does not exist; the layer has {values.shape[-1]} outputs, from 0.")
    return values[..., output]


def _column(model: DeepGPRegressor, column: int) -> int:
    if not 0 <= column < n_inputs(model):
        raise InputError(f"inputs: column {column} does not exist; the model has {n_inputs(model)}, from 0.")
    return column


def _ends(model: DeepGPRegressor, X: ArrayLike | None) -> FloatArray:
    """Lower and upper ends of every column, [2, D]."""
    if X is not None:
        values = np.asarray(X, dtype=np.float64)
        return np.stack([values.min(0), values.max(0)])
    mean, scale = model.fitted_.x_scaler.mean_, model.fitted_.x_scaler.scale_
    return np.stack([mean - 2 * scale, mean + 2 * scale])


def _between(ends: FloatArray, column: int, share: FloatArray) -> FloatArray:
    low, high = (float(end) for end in ends[:, column])
    return low + share * (high - low)


def _rows(model: DeepGPRegressor, columns: dict[int, FloatArray]) -> FloatArray | DataFrame | EncodedRows:
    """Rows at the training mean except in `columns`, with the model's names if it has any."""
    count = len(next(iter(columns.values())))
    rows = np.tile(model.fitted_.x_scaler.mean_, (count, 1))
    for column, values in columns.items():
        rows[:, column] = values
    return with_names(model, rows)


def _level_lines(
    ax: Axes, model: DeepGPRegressor, layer: int, ends: FloatArray, inputs: tuple[int, int], n_samples: int
) -> None:
    share = np.linspace(0, 1, 60)
    across, up = np.meshgrid(_between(ends, inputs[0], share), _between(ends, inputs[1], share))
    rows = _rows(model, {inputs[0]: across.ravel(), inputs[1]: up.ravel()})
    height = hidden_draws(model, rows, layer, n_samples).mean(0)[:, 0].reshape(across.shape)
    ax.contourf(across, up, height, levels=12, cmap="cividis")
    lines = ax.contour(across, up, height, levels=12, colors="white", linewidths=0.7)
    ax.clabel(lines, fontsize=8, fmt="%.1f")
    ax.set_title(f"z1 of layer {layer} (scaled)")
