"""Predictions and observations as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from sodgp import DeepGPClassifier, DeepGPRegressor

_CHUNK_ROWS = 20_000
_QUANTILES = (0.05, 0.5, 0.95)


def observed(estimator: DeepGPRegressor | DeepGPClassifier, y: pd.DataFrame) -> Any:
    """The targets of a table as `evaluate` takes them: numbers [N, P], or labels [N]."""
    return y.iloc[:, 0].to_numpy() if "classes" in estimator.takes else y.to_numpy(dtype="float64")


def predictions(
    estimator: DeepGPRegressor | DeepGPClassifier, X: pd.DataFrame, wanted: list[float] | None
) -> pd.DataFrame:
    """A frame with the predictions of every row, in chunks: memory stays bounded."""
    from sodgp import DeepGPClassifier

    if isinstance(estimator, DeepGPClassifier):
        return _of_classes(estimator, X, wanted or [])
    return _of_numbers(estimator, X, list(_QUANTILES) if wanted is None else wanted)


def _of_numbers(estimator: DeepGPRegressor, X: pd.DataFrame, wanted: list[float]) -> pd.DataFrame:
    """Mean, std and quantiles of every target."""
    import numpy as np
    import pandas as pd

    from sodgp.estimator.columns import EncodedRows, rows_of
    from sodgp.estimator.describe import target_names

    parts, rows = [], EncodedRows(rows_of(estimator, X))
    for start in range(0, len(X), _CHUNK_ROWS):
        dist = estimator.predict_distribution(rows[start : start + _CHUNK_ROWS])
        columns = [dist.mean, dist.std, *(dist.quantile(wanted) if wanted else [])]
        parts.append(np.stack([values.reshape(len(dist), -1) for values in columns], axis=-1))
    table = np.concatenate(parts)
    names = ["mean", "std", *(f"q{level}" for level in wanted)]
    header = [f"{target}_{name}" for target in target_names(estimator) for name in names]
    return pd.DataFrame(table.reshape(len(table), -1), columns=header)


def _of_classes(estimator: DeepGPClassifier, X: pd.DataFrame, wanted: list[float]) -> pd.DataFrame:
    """The label, the probability of every class, and quantiles of these."""
    import numpy as np
    import pandas as pd

    from sodgp.estimator.columns import EncodedRows, rows_of
    from sodgp.estimator.describe import target_names

    labels, columns = [], []
    rows, (target,) = EncodedRows(rows_of(estimator, X)), target_names(estimator)
    for start in range(0, len(X), _CHUNK_ROWS):
        dist = estimator.predict_distribution(rows[start : start + _CHUNK_ROWS])
        labels.append(dist.mode)
        columns.append(np.concatenate([dist.mean[..., None], *(dist.quantile(q)[..., None] for q in wanted)], axis=-1))
    table = np.concatenate(columns)
    ends = ["", *(f"_q{level}" for level in wanted)]
    header = [f"{target}_p_{label}{end}" for label in estimator.classes_.tolist() for end in ends]
    frame = pd.DataFrame(table.reshape(len(table), -1), columns=header)
    frame.insert(0, f"{target}_label", np.concatenate(labels))
    return frame
