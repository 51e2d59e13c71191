"""Scores of a model on rows that it has not seen, with intervals.

Imports `estimator` and below; plots, reports and the command line may import it.
"""

from sodgp.evaluation.classes import ClassEvaluation
from sodgp.evaluation.cross_validation import cross_validate
from sodgp.evaluation.scores import Evaluation, Score, evaluate

__all__ = ["ClassEvaluation", "Evaluation", "Score", "cross_validate", "evaluate"]
