"""The scikit-learn estimator of classes: fitting, class probabilities, and how uncertain they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast, overload

import numpy as np

from sodgp.errors import InputTypeError
from sodgp.estimator.base import DeepGPEstimator
from sodgp.estimator.scoring import CheckedAccuracy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sodgp.estimator.columns import ColumnsOption
    from sodgp.estimator.options.fields import Checkpoint, Tuning
    from sodgp.inference.contract import Inference
    from sodgp.kernels.make import KernelSpec
    from sodgp.likelihoods.contract import LikelihoodOptions
    from sodgp.predictive.classes import ClassDistribution
    from sodgp.predictive.mixture import GaussianMixture
    from sodgp.selectors import Selector
    from sodgp.selectors.auto import Auto
    from sodgp.system.files import StrPath
    from sodgp.system.validation import FloatArray
    from sodgp.training.history import Callback

__all__ = ["DeepGPClassifier"]


class DeepGPClassifier(CheckedAccuracy, DeepGPEstimator):
    """Deep Gaussian process classification; by default with subset-of-data variational inference.

    Labels are text, whole numbers or booleans, of 2 to 100 classes. Inputs are standardised inside. There is no
    argument ``class_weight``: weights of classes are weights of their rows, ``fit(X, y,
    sample_weight=compute_sample_weight("balanced", y))`` with `sklearn.utils.class_weight.compute_sample_weight`.

    Parameters
    ----------
    inference : {"sod", "dsvi", "sghmc"} or object, default="sod"
        As in `sodgp.DeepGPRegressor`.
    likelihood : {"bernoulli", "softmax", "dirichlet"}, object or None, default=None
        None is ``"bernoulli"`` for two classes and ``"softmax"`` for more. ``"dirichlet"`` turns labels into regression
        with known noise, by a function for each class (with `SoD` only). Options are those of `Bernoulli` (``link``),
        `Softmax` and `Dirichlet` (``alpha``) of `sodgp.likelihoods`.
    columns, n_layers, hidden_width, hidden_mean, kernel, subset, subset_size, n_samples, n_predict_samples, effort, \
max_iter, batch_size, learning_rate, n_members, n_restarts, warm_start, validation_fraction, max_minutes, callbacks, \
checkpoint, tuning, n_jobs, n_threads, dtype, device, random_state, verbose
        As in `sodgp.DeepGPRegressor`. Members are mixed without `member_spread`.

    Attributes
    ----------
    classes_ : ndarray of shape [K]
        The labels, in ascending order.
    model_, history_, inference_, likelihood_, objective_, subset_size_, n_members_, subset_indices_, \
validation_indices_, members_, diagnostics_, restart_bounds_, subset_size_reason_, n_iter_, n_parameters_, \
n_features_in_, feature_names_in_, columns_
        As in `sodgp.DeepGPRegressor`.

    Examples
    --------
    >>> X = np.linspace(-1, 1, 40)[:, None]; y = np.where(X[:, 0] > 0, "right", "left")
    >>> model = DeepGPClassifier(n_layers=1, max_iter=100, random_state=0).fit(X, y)
    >>> model.classes_, model.predict([[-0.8], [0.8]])
    (array(['left', 'right'], dtype='<U5'), array(['left', 'right'], dtype='<U5'))
    >>> model.predict_proba([[0.8]]).shape
    (1, 2)
    """

    takes: ClassVar[tuple[str, ...]] = ("classes",)

    def __init__(
        self,
        *,
        inference: str | Inference = "sod",
        likelihood: str | LikelihoodOptions | None = None,
        columns: ColumnsOption = "auto",
        n_layers: int | None = None,
        hidden_width: int | Sequence[int] | None = None,
        hidden_mean: str = "linear",
        kernel: KernelSpec = "rbf",
        subset: str | Selector = "kmeans",
        subset_size: int | str | Auto | None = None,
        n_samples: int = 10,
        n_predict_samples: int = 50,
        effort: str = "standard",
        max_iter: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        n_members: int | None = None,
        n_restarts: int = 1,
        warm_start: bool = False,
        validation_fraction: float | None = None,
        max_minutes: float | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        checkpoint: StrPath | Checkpoint | None = None,
        tuning: Tuning | None = None,
        n_jobs: int | None = None,
        n_threads: int | str | None = 1,
        dtype: str = "float64",
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: int | str = "auto",
    ) -> None:
        super().__init__(
            inference=inference,
            likelihood=likelihood,
            columns=columns,
            n_layers=n_layers,
            hidden_width=hidden_width,
            hidden_mean=hidden_mean,
            kernel=kernel,
            subset=subset,
            subset_size=subset_size,
            n_samples=n_samples,
            n_predict_samples=n_predict_samples,
            effort=effort,
            max_iter=max_iter,
            batch_size=batch_size,
            learning_rate=learning_rate,
            n_members=n_members,
            n_restarts=n_restarts,
            warm_start=warm_start,
            validation_fraction=validation_fraction,
            max_minutes=max_minutes,
            callbacks=callbacks,
            checkpoint=checkpoint,
            tuning=tuning,
            n_jobs=n_jobs,
            n_threads=n_threads,
            dtype=dtype,
            device=device,
            random_state=random_state,
            verbose=verbose,
        )

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, in ascending order."""
        return cast("NDArray[Any]", self.fitted_.columns.classes)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, resume: bool = False, **unused: Any) -> Self:
        """Train the deep GP.

        Parameters
        ----------
        X : array, data frame or tensor of shape [N, D], or a source of rows
            As in `sodgp.DeepGPRegressor.fit`.
        y : array, series or list of shape [N]
            Labels: text, whole numbers or booleans.
        sample_weight : array of shape [N], optional
            How many observations each row stands for, as in `sodgp.DeepGPRegressor.fit`. Probabilities are then those
            of the weighted rows.
        resume : bool
            As in `sodgp.DeepGPRegressor.fit`.
        **unused
            Nothing: other arguments are refused with the reason.

        Returns
        -------
        self

        Raises
        ------
        InputError
            For data that cannot be used: a single class, more than 100, labels that are missing, of mixed types, or
            fractions.
        ConfigurationError, ResourceError, NumericalError, CheckpointError
            As in `sodgp.DeepGPRegressor.fit`.

        Examples
        --------
        >>> X = [[0.0], [1.0], [2.0], [3.0]]
        >>> DeepGPClassifier(n_layers=1, max_iter=5).fit(X, [False, False, True, True]).n_iter_
        5
        """
        if unused:
            raise InputTypeError(_refusal(unused))
        from sodgp.estimator.many import fit_replicates

        fit_replicates([self], [(X, y, None, sample_weight)], resume=resume)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The label with the largest probability for every row, [N].

        Examples
        --------
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> DeepGPClassifier(n_layers=1, max_iter=50, random_state=0).fit(X, X[:, 0] > 0).predict([[-0.9], [0.9]])
        array([False,  True])
        """
        probability = self.predict_proba(X)
        labels: NDArray[Any] = self.classes_[probability.argmax(1)]
        return labels

    def predict_proba(self, X: Any) -> FloatArray:
        """Predictive probability of every class, [N, K], in the order of `classes_`.

        Examples
        --------
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> model = DeepGPClassifier(n_layers=1, max_iter=5, random_state=0).fit(X, X[:, 0] > 0)
        >>> model.predict_proba(X).sum(1).round(6)[:3]
        array([1., 1., 1.])
        """
        from sodgp.estimator.predict import asked, predict_mean

        rows, options = asked(self, X)
        return predict_mean(self.fitted_, rows, options)

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logs of `predict_proba`, [N, K].

        Examples
        --------
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> model = DeepGPClassifier(n_layers=1, max_iter=5, random_state=0).fit(X, X[:, 0] > 0)
        >>> bool((model.predict_log_proba(X) == np.log(model.predict_proba(X))).all())
        True
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    @overload
    def predict_distribution(self, X: Any, *, latent: Literal[False] = False) -> ClassDistribution: ...

    @overload
    def predict_distribution(self, X: Any, *, latent: bool) -> ClassDistribution | GaussianMixture: ...

    def predict_distribution(self, X: Any, *, latent: bool = False) -> ClassDistribution | GaussianMixture:
        """Class probabilities with their own uncertainty: mean, and quantiles over draws of the latent function.

        Parameters
        ----------
        X : array, data frame or tensor of shape [N, D]
        latent : bool
            The distribution of the latent function f instead: its ``mean`` and ``variance`` are those of
            scikit-learn's `latent_mean_and_variance`. They have a column for each latent function.

        Returns
        -------
        sodgp.predictive.classes.ClassDistribution, or GaussianMixture if `latent`

        Examples
        --------
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> model = DeepGPClassifier(n_layers=1, max_iter=5, random_state=0).fit(X, X[:, 0] > 0)
        >>> low, high = model.predict_distribution(X).interval(0.9)
        >>> low.shape, bool((low <= high).all())
        ((30, 2), True)
        """
        from sodgp.estimator.predict import asked, predict_distribution

        rows, options = asked(self, X)
        found = predict_distribution(self.fitted_, rows, options, latent=latent)
        return cast("ClassDistribution | GaussianMixture", found)


def _refusal(arguments: dict[str, Any]) -> str:
    """Why `fit` does not take these arguments."""
    name = next(iter(arguments))
    reasons = {
        "class_weight": "give sample_weight=sklearn.utils.class_weight.compute_sample_weight(class_weight, y), which"
        " weights the rows of a class",
        "noise_variance": "labels have no known noise; it is for DeepGPRegressor",
    }
    return f"DeepGPClassifier.fit() takes no argument {name!r}: {reasons.get(name, 'it is unknown')}."
