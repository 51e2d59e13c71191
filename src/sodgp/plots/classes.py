"""Classes: how far the probabilities can be trusted, and which classes are taken for which."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import binom

from sodgp.evaluation.classes import BINS, ClassEvaluation
from sodgp.plots.style import ALARM, BAND_Y, CYCLE, GREY, MEAN, axes_or_current, plain, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Of a cell's own row: from here on its number is white.
_DARK = 0.5
# More curves cannot be distinguished; of more classes the ones with most rows have one.
_MOST_CURVES = 5


def plot_reliability(evaluation: ClassEvaluation, *, bins: int = BINS, ax: Axes | None = None) -> Axes:
    """Share of right labels among the rows that have about the same largest probability.

    Below the diagonal the model is overconfident, above it underconfident. The band of every bin holds 95 % of the
    shares that a perfectly calibrated model would have there by chance. The size of a dot grows with the rows of its
    bin.

    Parameters
    ----------
    evaluation : sodgp.evaluation.classes.ClassEvaluation
    bins : int, of equal width
    ax : Axes, default=the current one

    Examples
    --------
    >>> from sodgp import DeepGPClassifier, evaluation
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = DeepGPClassifier(n_layers=1, max_iter=5, random_state=0).fit(X, X[:, 0] > 0)
    >>> plot_reliability(evaluation.evaluate(model, X, X[:, 0] > 0)).get_xlabel()
    'largest probability (%)'
    """
    ax = axes_or_current(ax)
    confidence, accuracy, rows = evaluation.reliability(bins)
    there = rows > 0
    confidence, accuracy, rows = confidence[there], accuracy[there], rows[there]
    low, high = (binom.ppf(tail, rows, confidence) / rows for tail in (0.025, 0.975))
    ax.vlines(
        100 * confidence,
        100 * low,
        100 * high,
        color=BAND_Y,
        linewidth=9,
        zorder=1,
        label=f"95 % range of chance, {len(evaluation):,} rows",
    )
    ax.plot([0, 100], [0, 100], color=GREY, linewidth=1.0, linestyle="--", zorder=2, label="perfect")
    sizes = 25 + 175 * rows / rows.max()
    wrong = (accuracy < low) | (accuracy > high)
    ax.plot(100 * confidence, 100 * accuracy, color=MEAN, linewidth=1.2, zorder=3)
    ax.scatter(
        100 * confidence[~wrong], 100 * accuracy[~wrong], sizes[~wrong], color=MEAN, zorder=4, label="bin of rows"
    )
    if wrong.any():
        ax.scatter(
            100 * confidence[wrong],
            100 * accuracy[wrong],
            sizes[wrong],
            color=ALARM,
            marker="s",
            zorder=4,
            label="beyond chance",
        )
    least = 100 / len(evaluation.classes)
    ax.set(xlim=(least - 3, 103), ylim=(min(least, 100 * accuracy.min()) - 5, 103))
    ax.set(xlabel="largest probability (%)", ylabel="right labels (%)")
    return tidy(ax)


def plot_confusion(evaluation: ClassEvaluation, *, ax: Axes | None = None) -> Axes:
    """Numbers of rows by label and predicted class; the shade is the share of the label's rows.

    Parameters
    ----------
    evaluation : sodgp.evaluation.classes.ClassEvaluation
    ax : Axes, default=the current one

    Examples
    --------
    >>> from sodgp import DeepGPClassifier, evaluation
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = DeepGPClassifier(n_layers=1, max_iter=50, random_state=0).fit(X, X[:, 0] > 0)
    >>> ax = plot_confusion(evaluation.evaluate(model, X, X[:, 0] > 0))
    >>> ax.get_ylabel(), [text.get_text() for text in ax.texts]
    ('label', ['15', '0', '0', '15'])
    """
    ax = axes_or_current(ax)
    counts = evaluation.confusion
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    names, count = [plain(str(label), 14) for label in evaluation.classes.tolist()], len(evaluation.classes)
    ax.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0, aspect="equal")
    # With many classes the numbers would overlap; the shades remain.
    if count <= 20:
        for (row, column), rows in np.ndenumerate(counts):
            colour = "white" if shares[row, column] > _DARK else "black"
            ax.text(column, row, f"{rows:,}", ha="center", va="center", color=colour)
        ax.set_xticks(range(count), names, rotation=0 if count <= 6 else 90)
        ax.set_yticks(range(count), names)
    ax.set(xlabel="predicted class", ylabel="label")
    return ax


def plot_roc(evaluation: ClassEvaluation, *, ax: Axes | None = None) -> Axes:
    """Share of a class that is found against the share of other rows that are taken for it, over all limits.

    Of two classes the curve is that of the second; of more each has one against the rest, and with more than five those
    with most rows. Labels have the area below.

    Parameters
    ----------
    evaluation : sodgp.evaluation.classes.ClassEvaluation
    ax : Axes, default=the current one

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sodgp import DeepGPClassifier, evaluation
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = DeepGPClassifier(n_layers=1, max_iter=50, random_state=0).fit(X, X[:, 0] > 0)
    >>> ax = plot_roc(evaluation.evaluate(model, X, X[:, 0] > 0), ax=Figure().subplots())
    >>> [line.get_label() for line in ax.lines]
    ['True: 1.000', 'chance']
    """
    from sklearn.metrics import roc_auc_score, roc_curve

    ax = axes_or_current(ax)
    for place, colour, name in _curves(evaluation):
        is_class, p = evaluation.y == place, evaluation.probability[:, place]
        wrong, right, _ = roc_curve(is_class, p, drop_intermediate=len(p) > 100)
        label = f"{name}: {roc_auc_score(is_class, p):.3f}"
        ax.plot(100 * wrong, 100 * right, color=colour, linewidth=1.8, zorder=3, label=label)
    ax.plot([0, 100], [0, 100], color=GREY, linewidth=1.0, linestyle="--", zorder=2, label="chance")
    ax.set(xlim=(-2, 102), ylim=(-2, 102))
    ax.set(xlabel="other rows that are taken for it (%)", ylabel="rows of the class found (%)")
    return tidy(ax)


def plot_precision_recall(evaluation: ClassEvaluation, *, ax: Axes | None = None) -> Axes:
    """Share of right ones among the rows taken for a class against the share of the class found, over all limits.

    It says more than the ROC where a class is rare. A dotted line is the share of the class: what chance has. Labels
    have the mean precision. Classes are chosen as for `plot_roc`.

    Parameters
    ----------
    evaluation : sodgp.evaluation.classes.ClassEvaluation
    ax : Axes, default=the current one

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sodgp import DeepGPClassifier, evaluation
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = DeepGPClassifier(n_layers=1, max_iter=50, random_state=0).fit(X, X[:, 0] > 0)
    >>> ax = plot_precision_recall(evaluation.evaluate(model, X, X[:, 0] > 0), ax=Figure().subplots())
    >>> ax.lines[0].get_label(), ax.get_xlabel()
    ('True: 1.000', 'rows of the class found (%)')
    """
    from sklearn.metrics import average_precision_score, precision_recall_curve

    ax = axes_or_current(ax)
    for place, colour, name in _curves(evaluation):
        is_class, p = evaluation.y == place, evaluation.probability[:, place]
        precision, recall, _ = precision_recall_curve(is_class, p)
        label = f"{name}: {average_precision_score(is_class, p):.3f}"
        ax.step(100 * recall, 100 * precision, where="post", color=colour, linewidth=1.8, zorder=3, label=label)
        ax.axhline(100 * is_class.mean(), color=colour, linewidth=1.0, linestyle=":", zorder=2)
    ax.set(xlim=(-2, 102), ylim=(-2, 102))
    ax.set(xlabel="rows of the class found (%)", ylabel="right ones among them (%)")
    return tidy(ax)


def _curves(evaluation: ClassEvaluation) -> list[tuple[int, str, str]]:
    """Place, colour and name of the classes that have a curve: some rows are of the class, and some are not."""
    rows = np.bincount(evaluation.y, minlength=len(evaluation.classes))
    places = np.flatnonzero((rows > 0) & (rows < len(evaluation)))
    if len(evaluation.classes) == 2:
        places = places[places == 1]
    if len(places) > _MOST_CURVES:
        places = np.sort(places[np.argsort(-rows[places], kind="stable")[:_MOST_CURVES]])
    names = evaluation.classes.tolist()
    return [(int(place), CYCLE[i], plain(str(names[place]), 18)) for i, place in enumerate(places)]
