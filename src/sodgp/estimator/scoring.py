"""scikit-learn's scores, for targets that are checked like those of `fit`."""

from __future__ import annotations

from typing import Any

from sklearn.base import ClassifierMixin, RegressorMixin

__all__ = ["CheckedAccuracy", "CheckedScore"]


class CheckedScore(RegressorMixin):
    """R^2 of the predicted means."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2, the share of the variance of y that the means explain.

        Parameters
        ----------
        X : array, data frame or tensor of shape [N, D]
        y : array, data frame or tensor of shape [N] or [N, P]
        sample_weight : array of shape [N], optional

        Raises
        ------
        InputError
            For targets or rows that cannot be used, as in `fit`.

        Examples
        --------
        >>> import numpy as np
        >>> from sodgp import DeepGPRegressor
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> model = DeepGPRegressor(n_layers=1, max_iter=50, random_state=0).fit(X, X[:, 0])
        >>> model.score(X, X[:, 0]) > 0.9
        True
        """
        from sklearn.metrics import r2_score

        from sodgp.errors import InputError
        from sodgp.system.validation import check_targets

        targets, means = check_targets(y), self.predict(X)
        wanted, found = (values.reshape(len(values), -1).shape for values in (means, targets))
        if wanted != found:
            raise InputError(f"y must have {wanted[0]} rows and {wanted[1]} columns, not {found[0]} and {found[1]}.")
        return float(r2_score(targets, means, sample_weight=sample_weight))


class CheckedAccuracy(ClassifierMixin):
    """Share of the rows whose label is the most probable one."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy, the share of the rows whose label is the most probable one.

        Parameters
        ----------
        X : array, data frame or tensor of shape [N, D]
        y : array, series or list of shape [N]
            Labels.
        sample_weight : array of shape [N], optional

        Raises
        ------
        InputError
            For labels or rows that cannot be used, as in `fit`.

        Examples
        --------
        >>> import numpy as np
        >>> from sodgp import DeepGPClassifier
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> model = DeepGPClassifier(n_layers=1, max_iter=50, random_state=0).fit(X, X[:, 0] > 0)
        >>> model.score(X, X[:, 0] > 0) > 0.9
        True
        """
        from sklearn.metrics import accuracy_score

        from sodgp.errors import InputError
        from sodgp.estimator.targets import checked_labels

        labels, found = checked_labels(y), self.predict(X)
        if len(labels) != len(found):
            raise InputError(f"X has {len(found)} rows, but y has {len(labels)}.")
        return float(accuracy_score(labels, found, sample_weight=sample_weight))
