"""The input space: where the subset is, and which inputs matter to a layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from gpytorch.kernels import Kernel
from numpy.typing import ArrayLike

from sodgp.errors import InputError
from sodgp.estimator.columns import EncodedRows, rows_of
from sodgp.estimator.describe import feature_names, input_groups, input_names, n_inputs, numbers_first
from sodgp.layers.inducing import InducingLayer
from sodgp.plots.style import ALARM, GREY, POINT, axes_or_current, dots, plain, tidy, told_apart
from sodgp.system.validation import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    from sodgp.estimator.regressor import DeepGPRegressor


def plot_subset(
    model: DeepGPRegressor, X: ArrayLike | None = None, *, inputs: tuple[int, int] | None = None, ax: Axes | None = None
) -> Axes:
    """The subset S (or the inducing inputs of layer 1) in the space of two inputs, or over one.

    Parameters
    ----------
    model : DeepGPRegressor
        Fitted; of several members the first is shown.
    X : array of shape [N, D] or None
        Rows to show behind it, such as the training data.
    inputs : (int, int) or None
        Columns; None takes the two that layer 1's kernel finds most relevant, or the first two.
    ax : Axes, default=the current one

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sodgp import DeepGPRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(30, 2))
    >>> model = DeepGPRegressor(max_iter=5, random_state=0).fit(X, np.sign(X[:, 0]))
    >>> plot_subset(model, X, inputs=(0, 1), ax=Figure().subplots()).get_xlabel()
    'x0'
    """
    ax = axes_or_current(ax)
    chosen, names = subset_inputs(model), feature_names(model)
    # Columns with names must be those of the fit; an array is taken as it is.
    named = hasattr(X, "columns") or isinstance(X, EncodedRows)
    rows = rows_of(model, X) if named else None if X is None else np.asarray(X, np.float64)
    what = "subset S" if model.inference_.uses_subset else "inducing inputs"
    label = f"{what} ({len(chosen):,})"
    if n_inputs(model) == 1:
        return _over_one_input(ax, chosen[:, 0], None if rows is None else rows[:, 0], label, names[0])
    first, second = _most_relevant(model) if inputs is None else inputs
    if rows is not None:
        name = f"rows ({len(rows):,})"
        ax.plot(rows[:, first], rows[:, second], color="0.6", zorder=2, label=name, **dots(len(rows)))
    x, y = chosen[:, first], chosen[:, second]
    ax.plot(x, y, "o", mfc="none", mec=ALARM, mew=1.3, markersize=6.5, zorder=3, label=label)
    ax.set(xlabel=plain(names[first]), ylabel=plain(names[second]))
    return tidy(ax)


def plot_relevance(model: DeepGPRegressor, layer: int = 1, *, most: int = 15, ax: Axes | None = None) -> Axes:
    """Inverse lengthscales (ARD) of a layer's inputs, longest bar first: how fast its GP changes along each.

    Inputs of layer 1 are those of the data, in standard deviations (of a table its columns: a category has one bar, the
    root of the sum of squares over its levels); of layer l > 1 the outputs of layer l - 1. Linear
    hidden means pass inputs on to the next layer: a short bar in layer 1 alone does not make an input useless.

    Parameters
    ----------
    model : DeepGPRegressor
        Fitted; of several members the first is shown.
    layer : int, GP layer from 1
    most : int, bars at most
    ax : Axes, default=the current one

    Raises
    ------
    InputError
        There is no such layer, or its kernel has no lengthscale for each input.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sodgp import DeepGPRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(30, 2))
    >>> model = DeepGPRegressor(max_iter=5, random_state=0).fit(X, np.sign(X[:, 0]))
    >>> len(plot_relevance(model, ax=Figure().subplots()).patches)  # a bar for each input
    2
    """
    ax = axes_or_current(ax)
    values = relevance(model, layer)
    names = input_names(model) if layer == 1 else [f"z{i + 1} of layer {layer - 1}" for i in range(len(values))]
    order = np.argsort(-values)[:most]
    places = np.arange(len(order))
    ax.barh(places, values[order], color=POINT, height=0.68)
    ax.set_yticks(places, [plain(name, 26) for name in told_apart([names[i] for i in order], 24)])
    ax.set_ylim(len(order) - 0.4, -0.6)
    left = len(values) - len(order)
    ax.set_xlabel("1 / lengthscale" + (f" ({left} shorter bars left out)" if left else ""))
    ax.tick_params(axis="y", length=0)
    return tidy(ax, grid="x")


def relevance(model: DeepGPRegressor, layer: int = 1) -> FloatArray:
    """Inverse lengthscale of every input of a layer, [D_in], in scaled units, over all parts of its kernel.

    In layer 1 of a model of a table the inputs are the table's columns, [C]: of those that became many numbers it is
    the root of the sum of squares.

    Arguments and errors are those of `plot_relevance`: `model` and `layer`.

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(30, 2))
    >>> model = DeepGPRegressor(max_iter=5, random_state=0).fit(X, np.sign(X[:, 0]))
    >>> relevance(model, layer=1).shape
    (2,)
    """
    values, groups = _of_numbers(model, layer), input_groups(model)
    if layer > 1 or model.fitted_.columns.encoder is None:
        return values
    return np.asarray(np.sqrt(np.bincount(groups, weights=values**2)), dtype=np.float64)


def _of_numbers(model: DeepGPRegressor, layer: int) -> FloatArray:
    """Inverse lengthscale of every number that a layer gets."""
    layers = list(model.model_.layers)
    if not 1 <= layer <= len(layers):
        raise InputError(f"layer={layer} does not exist; the model has {len(layers)} layers, from 1.")
    kernel, width = layers[layer - 1].kernel, [n_inputs(model), *model.model_.widths][layer - 1]
    found = [
        part.lengthscale.detach().double().cpu().reshape(-1, part.lengthscale.shape[-1])
        for part in kernel.modules()
        if isinstance(part, Kernel) and part.has_lengthscale
    ]
    found = [lengthscales for lengthscales in found if lengthscales.shape[-1] == width]
    if not found:
        raise InputError(
            f"the kernel of layer {layer} has no lengthscale for each of its {width} inputs, so it cannot tell them"
            " apart; use kernel='rbf' or another without -iso."
        )
    # The average over outputs with separate kernels.
    values: FloatArray = torch.stack([(lengthscales**-2).mean(0) for lengthscales in found]).sum(0).sqrt().numpy()
    return values


def subset_inputs(model: DeepGPRegressor) -> FloatArray:
    """Inputs of the subset, or else the inducing inputs of layer 1, [M, D], in original units."""
    scaled = (
        model.fitted_.subset.X
        if model.inference_.uses_subset
        else cast(InducingLayer, model.model_.layers[0]).inducing_inputs
    )
    values: FloatArray = model.fitted_.x_scaler.inverse_transform(scaled.detach().double().cpu().numpy())
    return values


def subset_labels(model: DeepGPRegressor) -> FloatArray:
    """Targets of the subset, [M, P], in original units; only for a method with a subset."""
    fitted = model.fitted_
    values: FloatArray = fitted.y_scaler.inverse_transform(fitted.subset.y.detach().double().cpu().numpy())
    return values if fitted.transform is None else fitted.transform.inverse(values)


def line_name(model: DeepGPRegressor) -> str:
    """Name of the one input; ``x`` where the model was fitted without names."""
    return feature_names(model)[0] if hasattr(model, "feature_names_in_") else "x"


def with_names(model: DeepGPRegressor, rows: FloatArray) -> FloatArray | DataFrame | EncodedRows:
    """Rows of the model's inputs as predictions take them: a frame where the model was fitted with column names."""
    if model.fitted_.columns.encoder is not None:
        return EncodedRows(rows)
    if not hasattr(model, "feature_names_in_"):
        return rows
    try:
        import pandas as pd
    except ImportError:
        return rows  # a warning is better than no picture
    return pd.DataFrame(rows, columns=model.feature_names_in_)


def _most_relevant(model: DeepGPRegressor) -> tuple[int, int]:
    try:
        first, second = numbers_first(model, _of_numbers(model, 1))[:2]
    except InputError:
        return 0, 1
    return int(first), int(second)


def _over_one_input(ax: Axes, chosen: FloatArray, rows: FloatArray | None, label: str, name: str) -> Axes:
    """A histogram of the rows, with ticks for the subset."""
    height = 0.06
    if rows is None:
        ax.set_yticks([])
    else:
        bins = int(np.clip(len(rows) // 10, 5, 30))
        ax.hist(rows, bins=bins, color="0.8", edgecolor="white", label=f"rows ({len(rows):,})", zorder=2)
        ax.set_ylabel("rows")
        height *= ax.get_ylim()[1]
    ax.vlines(chosen, 0, height, color=ALARM, linewidth=1.4, label=label, zorder=3)
    ax.axhline(0, color=GREY, linewidth=0.8)
    ax.set(xlabel=plain(name), ylim=(0, None))
    return tidy(ax, grid="")
