"""What the estimators share: the options, the members, files.

The modules that work with PyTorch are imported where a method needs them: PyTorch takes longer to import than the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from sodgp.estimator.batches import BatchPrediction
from sodgp.estimator.fitted import FittedAttributes
from sodgp.estimator.options.nested import NestedParameters, copy_of

if TYPE_CHECKING:
    from sodgp.estimator.columns import ColumnsOption
    from sodgp.estimator.options.fields import Checkpoint, Tuning
    from sodgp.inference.contract import Inference
    from sodgp.kernels.make import KernelSpec
    from sodgp.likelihoods.contract import LikelihoodOptions
    from sodgp.selectors import Selector
    from sodgp.selectors.auto import Auto
    from sodgp.system.files import StrPath
    from sodgp.training.history import Callback

__all__ = ["DeepGPEstimator"]


class DeepGPEstimator(FittedAttributes, BatchPrediction, NestedParameters):
    """Base of `sodgp.DeepGPRegressor` and `sodgp.DeepGPClassifier`, which say what the options mean."""

    # What y may be: "numbers", "counts" or "classes", as likelihoods say it.
    takes: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        *,
        inference: str | Inference = "sod",
        likelihood: str | LikelihoodOptions | None = "gaussian",
        columns: ColumnsOption = "auto",
        target_transform: str = "none",
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
        self.inference = inference
        self.likelihood = likelihood
        self.columns = columns
        self.target_transform = target_transform
        self.n_layers = n_layers
        self.hidden_width = hidden_width
        self.hidden_mean = hidden_mean
        self.kernel = kernel
        self.subset = subset
        self.subset_size = subset_size
        self.n_samples = n_samples
        self.n_predict_samples = n_predict_samples
        self.effort = effort
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.n_members = n_members
        self.n_restarts = n_restarts
        self.warm_start = warm_start
        self.validation_fraction = validation_fraction
        self.max_minutes = max_minutes
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.tuning = tuning
        self.n_jobs = n_jobs
        self.n_threads = n_threads
        self.dtype = dtype
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @property
    def members_(self) -> list[Self]:
        """The members, each as an estimator with its seed."""
        if not self.fitted_.members:
            raise AttributeError("this fit has no members_")
        views = [copy_of(self, n_members=1, n_restarts=1, random_state=m.seed) for m in self.fitted_.members]
        for view, member in zip(views, self.fitted_.members, strict=True):
            view.fitted_ = member
        return views

    @property
    def outlier_probability_(self) -> float:
        """Probability that predictions give to observations unlike those that were seen; 0 where there is no option."""
        from sodgp.estimator.options.fields import likelihood_of

        likelihood = likelihood_of(self.likelihood)
        options = {} if likelihood is None else likelihood.get_params()
        if "outlier_probability" not in options:
            return 0.0
        return self.fitted_.outlier_probability(options["outlier_probability"])

    def calibrate(self, X: Any, y: Any = None) -> Self:
        """Correct predictions by rows that the model was not trained on; ``calibrate(None)`` takes that back.

        Of numbers the cdf levels are moved, so that 50, 80, 90, 95 and 99 % intervals hold at least that share of new
        observations like these, in finite samples and whatever the model (with enough rows: 19 for 90 %, 199 for 99 %).
        Everything of `predict_distribution` follows, and `predict` has its mean. Class probabilities are raised to a
        power (temperature scaling), without such a guarantee. The next `fit` removes it; model files keep it.

        Parameters
        ----------
        X : array, data frame or tensor of shape [n, D], or None
        y : array, data frame or tensor of shape [n] or [n, P]

        Returns
        -------
        self

        Raises
        ------
        InputError
            Too few rows, rows that do not fit the model, or rows that it was trained on, as far as it keeps those.
        ConfigurationError
            The model is of counts.

        Examples
        --------
        >>> from sodgp import DeepGPRegressor
        >>> X = np.linspace(-1, 1, 90)[:, None]
        >>> y = np.sin(3 * X[:, 0]) + np.random.default_rng(0).normal(size=90)
        >>> model = DeepGPRegressor(n_layers=1, max_iter=20, random_state=0).fit(X[::2], y[::2])
        >>> model.calibrate(X[1::2], y[1::2]).calibration_.n_rows
        45
        """
        from dataclasses import replace

        from sklearn.utils.validation import check_is_fitted

        from sodgp.errors import InputError
        from sodgp.estimator.calibrate import calibrate

        check_is_fitted(self)
        if X is None:
            if y is not None:
                raise InputError("calibrate needs rows X for the targets y; calibrate(None) removes a calibration.")
            self.fitted_ = replace(self.fitted_, calibration=None)
        else:
            if y is None:
                raise InputError("calibrate needs the targets y of the rows X.")
            self.fitted_ = calibrate(self, X, y)
        return self

    def save(self, path: StrPath) -> None:
        """Write the fitted model to a file (``"m.sodgp"``) or a folder (``"model/"``), without pickle.

        The file holds the rows that predictions are conditioned on, in scaled units with the scaling: of `SoD` the
        subset, and up to 2,000 rows by default *all training rows*, inputs and targets. Whoever has the file can read
        them; `SoD(objective="predictive")` or ``"bound"`` keeps the subset only.

        Callbacks, and random states that are not integers, are left out; see `sodgp.estimator.files.records`.

        Raises
        ------
        ModelFileError
            Something that is not a model is in the way, the disk refuses, or the kernel is code that has no
            description (see `sodgp.kernels.description`).

        Examples
        --------
        >>> import tempfile
        >>> from sodgp import DeepGPRegressor
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X, np.sign(X[:, 0]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/m.sodgp")
        ...     bool((DeepGPRegressor.load(f"{folder}/m.sodgp").predict(X) == model.predict(X)).all())
        True
        """
        from sodgp.estimator.files.records import save

        save(self, path)

    @classmethod
    def load(cls, path: StrPath) -> Self:
        """Read a model that `save` wrote. Nothing in the file is run; one trained on a GPU loads without one.

        Raises
        ------
        ModelFileError
            The file is missing, damaged, of another version, or not a model.

        Examples
        --------
        >>> from sodgp import DeepGPRegressor
        >>> DeepGPRegressor.load("nowhere.sodgp")
        Traceback (most recent call last):
        sodgp.errors.ModelFileError: nowhere.sodgp does not exist. ...
        """
        from sodgp.estimator.files.records import load

        return load(cls, path)
