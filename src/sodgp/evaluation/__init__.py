"""Scores of a model on rows that it has not seen, with intervals.

Imports `estimator` and below; plots, reports and the command line may import it.
"""

from sodgp.evaluation.classes import ClassEvaluation
from sodgp.evaluation.cross_validation import cross_validate
from sodgp.evaluation.pipelines import predict_distribution
from sodgp.evaluation.scorers import neg_crps, neg_nlpp
from sodgp.evaluation.scores import Evaluation, Score, evaluate

__all__ = [
    "ClassEvaluation",
    "Evaluation",
    "Score",
    "cross_validate",
    "evaluate",
    "neg_crps",
    "neg_nlpp",
    "predict_distribution",
]
