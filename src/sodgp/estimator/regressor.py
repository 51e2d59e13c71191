"""The scikit-learn estimator of numbers and counts: fitting, and predictions in original units.

The modules that work with PyTorch are imported where a method needs them: PyTorch takes longer to import than the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, cast

from sklearn.base import MultiOutputMixin

from sodgp.errors import InputError
from sodgp.estimator.base import DeepGPEstimator
from sodgp.estimator.scoring import CheckedScore

if TYPE_CHECKING:
    from sodgp.predictive.mixture import GaussianMixture
    from sodgp.system.validation import FloatArray

__all__ = ["DeepGPRegressor"]


class DeepGPRegressor(MultiOutputMixin, CheckedScore, DeepGPEstimator):
    """Deep Gaussian process regression; by default with subset-of-data variational inference.

    Inputs and targets are standardised inside; predictions are in the original units. Options of one inference method
    or likelihood are fields of its object, which `set_params` reaches too (``inference__coupling``).

    Parameters
    ----------
    inference : {"sod", "dsvi", "sghmc", "mean_field"} or object, default="sod"
        The inference method, by name or with options: `sodgp.SoD` (subset of data), `sodgp.DSVI` (doubly stochastic;
        with one layer, SVGP), `sodgp.SGHMC` (sampling: burn-in for `max_iter` iterations, then posterior draws), or
        `sodgp.MeanField` (needs an RBF kernel, at most 5,000 rows).
    likelihood : {"gaussian", "heteroscedastic", "heavy_tailed", "student_t", "poisson", "negative_binomial"} or object
        The distribution of y given f, by name or with options: `Gaussian`, `Heteroscedastic` (noise that depends on the
        inputs), `HeavyTailed` (for data with outliers; these two with `SoD` only) or `StudentT` (likewise, with every
        method but mean-field) of `sodgp.likelihoods`, and `Poisson` or `NegativeBinomial` for counts. The default is
        ``"gaussian"``.
    columns : {"auto", "numeric"}, mapping or TableEncoder, default="auto"
        What a data frame becomes: see `sodgp.tables.encoder.TableEncoder`, of which a mapping is the `kinds`. "auto"
        takes frames of numbers without gaps as they are, "numeric" nothing else.
    target_transform : {"none", "log", "box_cox"}, default="none"
        What positive targets are turned into before training: their logs, or the power of Box and Cox, from 0 to 2,
        that makes those of the training rows most like a Gaussian. Predictions are of y itself: positive, with its
        mean, density and quantiles. Not with `noise_variance`, `outlier_probability`, counts or ``"student_t"``.
    n_layers : int or None, default=None
        GP layers, the last one included (paper: L). 1 is a sparse GP. None is 3, or 2 where `SoD` sees the labels of
        all of 160 to 2,000 rows (`SoD.objective`). Up to 2,000 rows it is 1 where more do not raise the objective by
        0.02 nats a row, which `n_layers_reason_` tells.
    hidden_width : int, list of int or None, default=None
        Outputs of the hidden layers (paper: D^l), or a list with one for each; None is min(30, D).
    hidden_mean : {"linear", "zero"}, default="linear"
        Mean function of hidden layers: identity (or the principal directions where the width shrinks), or zero.
    kernel : str, function or gpytorch kernel, default="rbf"
        ``"rbf"``, ``"matern12"``, ``"matern32"``, ``"matern52"``, ``"rq"``, each with one lengthscale per input, or one
        for all with ``-iso`` behind the name; or a function ``input_dim -> gpytorch kernel``, priors included; or such
        a kernel, where it fits the inputs of every layer.
    subset : str or selector, default="kmeans"
        How the rows of the subset S are chosen; see `sodgp.selectors`.
    subset_size : int, "paper", "auto", sodgp.selectors.auto.Auto or None, default=None
        Rows M of S, or inducing points of a layer. None takes 100, or what `effort` says, but at most half of the rows;
        "paper" takes 50 below 5,000 rows and 100 above. "auto" takes the size at which a greedy subset leaves little
        variance, and says why in the log (INFO, logger ``"sodgp"``).
    n_samples, n_predict_samples : int, default=10 and 50
        Monte Carlo samples T in training and prediction, there of every member.
    effort : {"quick", "standard", "thorough"}, default="standard"
        How much time a fit takes: a subset of 50, 100 or 200 rows, 450, 1,400 or 2,000 steps, 150, 200 or 500 other
        rows in a step, and 1, 1 or 4 members, where `subset_size`, `max_iter`, `batch_size` and `n_members` are None.
        Up to 2,000 rows `SoD` sees all of them in every step, and takes a ninth of the steps, or up to four ninths
        below 160 rows (`SoD.objective`).
    max_iter : int or None, default=None
        Steps of Adam; None takes those of `effort`.
    batch_size : int or None, default=None
        Rows that a step sees, the subset counted in; the whole data where they fit. None is 2,000; for `SoD` with more
        rows the rows of `effort`, or a twentieth of the data up to 1,800 rows where that is more.
    learning_rate : float or None, default=None
        Of Adam; None is 0.1 where `SoD` sees the labels of all rows (one layer 0.2), else 0.03. SGHMC's authors
        use 0.01 for its hyper-parameters.
    n_members : int or None, default=None
        Models from different seeds (and subsets) whose predictions are one mixture: more reliable means, and intervals
        that widen where the models disagree. None takes those of `effort` for `SoD` with a kernel given by name, unless
        `n_restarts`, `warm_start` or `validation_fraction` ask for one model; else 1.
    n_restarts : int, default=1
        Fits from different seeds (and subsets); the one with the best bound is kept.
    warm_start : bool, default=False
        For `SoD` and `DSVI`: begin the next `fit` where the last one ended, with new data of the same columns. The
        subset is chosen anew and q(F_S) carried over to it. A few hundred steps are then enough, say `max_iter=200`.
    validation_fraction : float or None, default=None
        Share of the rows that training never sees; ``history_.validation`` has their mean log predictive density every
        50 iterations, for `sodgp.training.callbacks.EarlyStopping`. Not for `SGHMC`.
    max_minutes : float or None, default=None
        Time limit of a call of `fit`, which keeps the model it has by then; shared by members that train one by one,
        and by burn-in and posterior draws of SGHMC.
    callbacks : function, list of functions or None, default=None
        Each is called with a `sodgp.training.history.TrainingState` every 50 iterations; returning True ends training.
    checkpoint : path, sodgp.Checkpoint or None, default=None
        A folder, for this fit alone, to which training is written every 10 minutes, or as often as the object says;
        `fit(X, y, resume=True)` continues from it bit for bit.
    tuning : sodgp.Tuning or None, default=None
        Fine tuning: initial values, jitter, the schedule of the learning rate, PyTorch's compiler.
    n_jobs : int or None, default=None
        Processes for members and restarts, as in joblib: None is 1 unless inside `joblib.parallel_config`, -1 one for
        each core. The bits are the same. On a GPU, and where models are small, all are one program in any case.
    n_threads : int, "auto" or None, default=1
        CPU threads of a process; None leaves PyTorch's setting. "auto" is one for each core that is idle when a fit
        with large steps begins, else 1: threads that meet another busy process were up to 40 times slower than one.
    dtype : {"float64", "float32"}, default="float64"
    device : str, default="auto"
        ``"auto"`` is CUDA where there is a device, else the CPU.
    random_state : int, RandomState or None, default=None
        Fixes all random numbers of training and prediction.
    verbose : "auto", bool or int, default="auto"
        A progress bar with the time left: with "auto" in terminals and notebooks, for fits of more than about three
        seconds, removed at the end; with True or 1 always (in a log a line every ten seconds); with False or 0 never.

    Attributes
    ----------
    model_ : DeepGP
        The trained model, in scaled units.
    history_ : History
        The objective and its named terms over the iterations.
    inference_, likelihood_, objective_, subset_size_, outlier_probability_, n_members_, columns_, target_transform_
        What was decided from the data where an option left it open; `objective_` is that of the method,
        such as ``"bound"``, or ``"posterior"`` of a sampler.
    subset_indices_, validation_indices_ : ndarray of shape [M] and [V]
        Rows of the training data that form S (the last ones where S has moved), and those that were held out, which
        model files do not store.
    members_ : list of DeepGPRegressor
        With more than one member: each, fitted. The other attributes are those of the first.
    diagnostics_ : sodgp.inference.diagnostics.SamplerDiagnostics
        For `SGHMC`: effective sample size, R-hat, temperature and step size.
    restart_bounds_, n_layers_, n_layers_reason_, subset_size_reason_, n_iter_, n_parameters_, n_features_in_,
    feature_names_in_, target_names_

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 60)[:, None]; y = np.sign(X[:, 0])
    >>> model = DeepGPRegressor(max_iter=200, random_state=0).fit(X, y)
    >>> mean, std = model.predict(X, return_std=True)
    >>> mean.shape, std.shape
    ((60,), (60,))
    """

    takes: ClassVar[tuple[str, ...]] = ("numbers", "counts")

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, noise_variance: Any = None, resume: bool = False
    ) -> Self:
        """Train the deep GP.

        Parameters
        ----------
        X : array, data frame or tensor of shape [N, D], or a source of rows
            A source, of `sodgp.data.open_rows`, has rows that need not fit into memory, and its own targets.
        y : array, data frame or tensor of shape [N] or [N, P]
        sample_weight : array of shape [N], optional
            How many observations each row stands for, as given: a weight of 2 is a row that was observed twice *with
            the same y*, so that large weights make the noise look small. Weights that say how important rows are
            should have the mean one. Zero leaves a row out. Not for `MeanField`; see ``docs/scikit-learn.md``.
        noise_variance : float, or array of shape [N] or [N, P], optional
            For `SoD` and the Gaussian likelihood: known noise variances of the observations, in squared units of y, in
            place of the trained noise. Predictions of y at new rows have their mean.
        resume : bool
            Continue from the newest checkpoint in the folder `checkpoint`, as if training had never stopped. With none
            there it begins, with a warning; of a finished fit the model comes back at once.

        Returns
        -------
        self

        Raises
        ------
        InputError
            For data that cannot be used, such as negative counts; the message names columns and rows.
        ConfigurationError
            For options that are unknown, out of range, or not used by the chosen method.
        ResourceError
            When training needs more memory than there is.
        NumericalError
            When training diverged for good; ``model_`` then has the last good parameters (with many restarts, and with
            SGHMC, which has no posterior yet, nothing is kept).
        CheckpointError
            The checkpoint belongs to other data or options, its folder cannot be written, or an unfinished fit there
            would be lost.

        Examples
        --------
        >>> DeepGPRegressor(n_layers=1, max_iter=5).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0]).n_iter_
        5
        """
        from sodgp.estimator.many import fit_replicates

        fit_replicates([self], [(X, y, noise_variance, sample_weight)], resume=resume)
        return self

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Mean of y, in original units.

        Parameters
        ----------
        X : array, data frame or tensor of shape [N, D]
        return_std : bool
            Also the standard deviation of y. Without it only means are computed, and only they have to be finite.
        return_cov : bool
            Also the covariance of y over rows, for at most 1,000 rows: another Monte Carlo estimate than `return_std`.
            Not where y was transformed: there `sample_y` has draws.

        Returns
        -------
        mean : ndarray of shape [N] or [N, P]
        std : ndarray of the same shape, if `return_std`
        cov : ndarray of shape [N, N] or [P, N, N], if `return_cov`

        Examples
        --------
        >>> import numpy as np
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X, np.sign(X[:, 0]))
        >>> mean, cov = model.predict(X[:4], return_cov=True)
        >>> mean.shape, cov.shape
        ((4,), (4, 4))
        """
        if return_std and return_cov:
            raise InputError("ask for return_std or return_cov, not for both: cov has the variances on its diagonal.")
        from sodgp.estimator.predict import asked, predict_covariance, predict_mean, predict_std

        rows, options = asked(self, X)
        if return_cov:
            return predict_covariance(self.fitted_, rows, options)
        return (predict_std if return_std else predict_mean)(self.fitted_, rows, options)

    def predict_distribution(self, X: Any, *, latent: bool = False) -> GaussianMixture:
        """The predictive distribution, a mixture over Monte Carlo samples (and levels of a noise with heavy tails).

        Parameters
        ----------
        X : array, data frame or tensor of shape [N, D]
        latent : bool
            Of the function f, without observation noise, instead of y.

        Returns
        -------
        GaussianMixture, StudentMixture, CountMixture or TransformedMixture
            With mean, variance, std, log_prob, cdf, quantile, interval, sample and crps, in original units. Of f it is
            a GaussianMixture; where y was transformed, f is mapped back, too: it is then the median of y given f.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X, np.sign(X[:, 0]))
        >>> model.predict_distribution(X[:4])  # one layer: nothing is sampled, one component
        GaussianMixture(n_components=1, n_rows=4, n_outputs=1)
        """
        from sodgp.estimator.predict import asked, predict_distribution

        rows, options = asked(self, X)
        return cast("GaussianMixture", predict_distribution(self.fitted_, rows, options, latent=latent))

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Central intervals of y: as often below the lower end as above the upper one.

        Parameters
        ----------
        X : array, data frame or tensor of shape [N, D]
        coverage : float, default=0.9
            Probability of the interval, between 0 and 1.

        Returns
        -------
        low, high : ndarray of shape [N] or [N, P]

        Examples
        --------
        >>> import numpy as np
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X, np.sign(X[:, 0]))
        >>> low, high = model.predict_interval(X[:4], coverage=0.5)
        >>> bool((low < high).all())
        True
        """
        low, high = self.predict_distribution(X).interval(coverage)
        return low, high

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0, *, latent: bool = False) -> FloatArray:
        """Draw whole functions: the rows of one draw are correlated as those of one function.

        Parameters
        ----------
        X : array, data frame or tensor of shape [N, D]
            At most 1,000 rows; `predict_distribution(X).sample` draws rows independently for any number.
        n_samples : int
        random_state : int, RandomState, numpy.random.Generator or None
        latent : bool
            Without observation noise.

        Returns
        -------
        ndarray of shape [N, n_samples] or [N, P, n_samples]

        Examples
        --------
        >>> import numpy as np
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X, np.sign(X[:, 0]))
        >>> model.sample_y(X[:4], n_samples=3, latent=True).shape
        (4, 3)
        """
        from sodgp.estimator.predict import asked, sample_functions
        from sodgp.system.validation import check_integer, seed_from

        rows, options = asked(self, X)
        count = check_integer("n_samples", n_samples, minimum=1)
        return sample_functions(self.fitted_, rows, options, count, seed_from(random_state), latent=latent)

    @property
    def predict_proba(self) -> NoReturn:
        """Not for numbers: `hasattr` says False."""
        raise AttributeError(
            "a DeepGPRegressor predicts numbers and has no class probabilities: fit a DeepGPClassifier to the labels,"
            " or ask predict_distribution(X).cdf(limit) for the probability of a y below a limit."
        )
