"""The course of training: the bound and its terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sodgp.errors import InputError
from sodgp.estimator.base import DeepGPEstimator
from sodgp.plots.style import CYCLE, MEAN, axes_or_current, tidy
from sodgp.training.history import History

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The first iterations would flatten all the rest.
_SHOWN_FROM = 0.1
_NAMES = {
    "rest": "fit of the rest",
    "subset": "fit of the subset",
    "kl_last": "−KL, last layer",
    "kl_noise": "−KL, noise",
    "log_prior": "log prior",
    "log_density": "fit",
    "log_prior_u": "log prior of u",
}
_DASHES = ("-", "--", "-.", ":")


def plot_history(model: DeepGPEstimator | History, *, terms: bool = True, ax: Axes | None = None) -> Axes:
    """The bound over the iterations, and its terms: fits to the data and negative KLs, which add up to it.

    A model that was trained on another objective of `SoD` has that instead. The vertical axis is scaled without the
    first tenth of the run and lone spikes.

    Parameters
    ----------
    model : DeepGPRegressor, DeepGPClassifier or History
        Fitted, or its ``history_``; of several members, that of the first.
    terms : bool
        Also draw the terms.
    ax : Axes, default=the current one

    Raises
    ------
    InputError
        Nothing was logged.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> history = History([1, 50], [-30.0, -20.0], {"rest": [-30.0, -19.0], "kl_last": [0.0, -1.0]}, [0.1, 0.5])
    >>> [line.get_label() for line in plot_history(history, ax=Figure().subplots()).lines]
    ['bound', 'fit of the rest', '−KL, last layer']
    """
    if isinstance(model, DeepGPEstimator):
        check_is_fitted(model)
        history, objective = model.history_, model.objective_
    elif isinstance(model, History):
        history, objective = model, "bound"
    else:
        raise InputError("plot_history takes a fitted estimator, or its history_.")
    if not history.iteration:
        raise InputError("the history is empty: no iteration was logged.")
    ax = axes_or_current(ax)
    iterations = np.asarray(history.iteration)
    label = "bound" if objective == "bound" else "objective"
    ax.plot(iterations, history.bound, color=MEAN, linewidth=2.2, label=label, zorder=4)
    shown = [np.asarray(history.bound)]
    if terms:
        for number, (name, values) in enumerate(history.terms.items()):
            colour, dashes = CYCLE[number % len(CYCLE)], _DASHES[number % len(_DASHES)]
            ax.plot(iterations, values, dashes, color=colour, linewidth=1.3, zorder=3, label=_label(name))
            shown.append(np.asarray(values))
    late = [values[iterations >= _SHOWN_FROM * iterations[-1]] for values in shown]
    # The deep spike of a single bad batch may leave the picture.
    low, high = min(np.quantile(values, 0.1) for values in late), max(values.max() for values in late)
    margin = 0.08 * (high - low) or 1.0
    ax.set_ylim(low - margin, high + margin)
    ax.set(xlabel="iteration", ylabel="nats")
    return tidy(ax)


def _label(name: str) -> str:
    if name in _NAMES:
        return _NAMES[name]
    kind, _, layer = name.partition("_")
    words = {"kl": f"−KL, layer {layer}", "z": f"fit of layer {layer}"}
    return words.get(kind, name)
