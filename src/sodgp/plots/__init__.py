"""Pictures. Every function draws into a Matplotlib Axes, the current one by default, and returns it.

The band of f (the function) and that of y (an observation, noise included) are always separate. Colours are of the
Okabe-Ito palette, safe for colour-blind readers, and never the only distinction. Every mark has a label for
``ax.legend()``. Matplotlib is imported when a picture is drawn.
"""

from sodgp.plots.calibration import plot_coverage, plot_pit
from sodgp.plots.classes import plot_confusion, plot_precision_recall, plot_reliability, plot_roc
from sodgp.plots.comparison import plot_comparison
from sodgp.plots.counts import plot_frequencies, plot_rootogram
from sodgp.plots.dependence import partial_dependence, plot_dependence
from sodgp.plots.fits import plot_fit, plot_functions
from sodgp.plots.hidden import hidden_draws, plot_hidden, plot_warp
from sodgp.plots.history import plot_history
from sodgp.plots.inputs import plot_relevance, plot_subset, relevance
from sodgp.plots.predictions import plot_predictions, plot_residuals, plot_spread

__all__ = [
    "hidden_draws",
    "partial_dependence",
    "plot_comparison",
    "plot_confusion",
    "plot_coverage",
    "plot_dependence",
    "plot_fit",
    "plot_frequencies",
    "plot_functions",
    "plot_hidden",
    "plot_history",
    "plot_pit",
    "plot_precision_recall",
    "plot_predictions",
    "plot_relevance",
    "plot_reliability",
    "plot_residuals",
    "plot_roc",
    "plot_rootogram",
    "plot_spread",
    "plot_subset",
    "plot_warp",
    "relevance",
]
