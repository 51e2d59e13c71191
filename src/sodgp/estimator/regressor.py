"""The scikit-learn estimator: with `prepare` and `predict` all that sees original units.

What it does with several models, restarts and members, is in `sodgp.estimator.several`.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin

from sodgp.errors import NumericalError
from sodgp.estimator.checkpoint_plan import plan_for
from sodgp.estimator.many import fit_replicates, training_memory
from sodgp.estimator.options.efforts import members_of
from sodgp.estimator.predict import Predictions
from sodgp.estimator.prepare import Preparation
from sodgp.estimator.several import Several
from sodgp.model.deep_gp import DeepGP
from sodgp.system.torch_state import cpu_threads, gradients
from sodgp.system.validation import check_integer
from sodgp.training.history import History
from sodgp.training.run import fit


class DeepGPRegressor(Several, Preparation, Predictions, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Deep Gaussian process regression; by default with subset-of-data variational inference.

    Inputs and targets are standardised inside; predictions come back in the original units.

    Parameters
    ----------
    inference : {"sod", "dsvi", "mean_field", "sghmc"}, default="sod"
        The inference method: subset-of-data, doubly stochastic (with one layer, SVGP), or the mean-field deep GP, which
        needs an RBF kernel, trains two numbers for every row and hidden output, sees all rows in every step, and so
        takes at most 5,000 rows; or stochastic gradient Hamiltonian Monte Carlo, which burns in for `max_iter`
        iterations and then takes posterior draws of the inducing outputs.
    n_layers : int, default=3
        GP layers, the last one included (paper: L). 1 is a sparse GP.
    hidden_width : int, list of int or None, default=None
        Outputs of the hidden layers (paper: D^l); None is min(30, D). A list gives one per hidden layer. This and
        whatever else concerns hidden layers has no meaning with one layer.
    subset_size : int, "paper", "auto", sodgp.selectors.auto.Auto or None, default=None
        Rows M of the subset S. None takes 100, or what `effort` says, but at most half of the rows; "paper" takes 50
        below 5,000 rows and 100 above. Never more than all rows. "auto" grows a greedy subset until little variance is
        left, takes its size, and says why in the log (INFO, logger ``"sodgp"``).
    subset : str or selector, default="kmeans"
        How the rows of S are chosen; see `sodgp.selectors`.
    reselect_every : int or None, default=None
        For ``"sod"``: choose S anew after every so many steps, with the kernel that layer 1 has learned, and carry
        q(F_S) over; in the second half of `max_iter` the subset stays. None keeps the first subset.
    kernel : str, function or gpytorch kernel, default="rbf"
        ``"rbf"``, ``"matern12"``, ``"matern32"``, ``"matern52"``, ``"rq"``, each with one lengthscale per input, or one
        for all with ``-iso`` behind the name; or a function ``input_dim -> gpytorch kernel``, priors included; or such
        a kernel, where it fits the inputs of every layer.
    parameterization : {"whitened", "paper"}, default="whitened"
        Family of q(F_S): relative to the layer's prior, or the paper's absolute one.
    coupling : {"ancestral", "marginal", "joint"}, default="ancestral"
        How the subset and the other rows of a hidden layer are drawn together. ``"marginal"`` is what the authors'
        program does; its value is not a bound.
    hidden_mean : {"linear", "zero"}, default="linear"
        Mean function of hidden layers: identity (or the principal directions where the width shrinks), or zero.
    tie_label_noise : bool, default=True
        Whether the label noise v of q_hat is the likelihood's sigma^2 (the paper's formula) or a parameter of its own
        (the authors' program).
    separate_kernels : bool or None, default=None
        For ``"sod"`` with several layers: a kernel for each output of the first layer, in place of one for all of them.
        More accurate where there are rows enough, and about a layer dearer. None is True with 500 rows or more to train
        on, unless `parameterization` or `reselect_every` ask for one kernel or `kernel` is not a name, else False.
    noise : {"homoscedastic", "heteroscedastic", "heavy_tailed"}, default="homoscedastic"
        For ``"sod"``: the same noise everywhere, one whose log variance is a GP over the inputs, or one with heavier
        tails than a normal law, for data with outliers.
    predictive_weight : float or None, default=None
        For ``"sod"`` and ``"dsvi"``: from 0, which trains on the lower bound, to 1, which puts the log predictive
        density of the rows outside the subset in the place of their expected log density. None is 1 for ``"sod"``
        with several layers and 500 rows or more to train on, else 0.
    learn_inducing_inputs : bool, default=True
        For ``"dsvi"`` and ``"sghmc"``: False keeps the inducing inputs at their k-means start (DSVI*).
    n_posterior_samples, thinning : int, default=100 and 50
        For ``"sghmc"``: posterior draws that are kept over all chains, and transitions of the sampler between two of
        them. A prediction with T = `n_predict_samples` components takes draw floor(t S / T) of S for component t:
        evenly spaced draws where T is smaller than S; every draw several times, each with another hidden sample, where
        it is larger.
    step_size : float, default=0.01
        For ``"sghmc"``: of the sampler. One that runs away is taken back and halves it.
    n_chains : int, default=1
        For ``"sghmc"``: chains side by side. R-hat compares the halves of every chain, so one is enough.
    n_samples, n_predict_samples : int, default=10 and 50
        Monte Carlo samples T in training and prediction, there of every member.
    outlier_probability : float or None, default=None
        That an observation is unlike those that were seen; its predictive law is then ten times as wide. None is
        1 / (N + 1) after N training rows where `predictive_weight` is above 0, which makes models surer of themselves
        than N rows can warrant, else 0. Not used in training: `set_params` changes it without a new fit.
    effort : {"quick", "standard", "thorough"}, default="standard"
        What the time affords: a subset of 50, 100 or 200 rows, 450, 1,400 or 2,000 steps, 150, 200 or 500 rows beside
        the subset in a step, and 1, 1 or 4 members, where `subset_size`, `max_iter`, `batch_size` and `n_members` are
        None. Everything else is the same.
    max_iter : int or None, default=None
        Steps of Adam; None takes those of `effort`.
    batch_size : int or None, default=None
        Rows that a step sees, the subset counted in; the whole data where they fit. None is 2,000; for ``"sod"`` it
        takes the rows of `effort`, or a twentieth of the data up to 1,800 rows where that is more.
    learning_rate : float, default=0.03
        Of Adam. SGHMC's authors use 0.01 for its hyper-parameters.
    schedule : {"cosine", "constant"} or function, default="cosine"
        ``"cosine"`` holds the learning rate for half of the run and then lets it fall to one hundredth. A function
        takes the iteration, counted from 1, to a positive factor of `learning_rate`; it is not stored in model files.
    n_members : int or None, default=None
        Models from different seeds (and subsets), trained in one program, whose predictions are one mixture: surer
        means, and intervals that know where the models disagree. None takes those of `effort` for ``"sod"`` with a
        kernel given by name, unless `n_restarts`, `warm_start` or `validation_fraction` ask for one model; else 1.
    member_spread : float or None, default=None
        With several members: the factor by which the law of each is drawn in around its own mean before they are mixed.
        1 is the plain mixture, which is too wide: it adds their disagreement, while their common mean errs less than
        each of them. None is 0.90, 0.87 or 0.85 for 2, 3 or 4 members of ``"sod"``, else 1; see
        `sodgp.estimator.pooling`. Not used in training: `set_params` changes it without a new fit.
    n_restarts : int, default=1
        Fits from different seeds (and subsets), trained in one program; the one with the best bound is kept.
    warm_start : bool, default=False
        For ``"sod"`` and ``"dsvi"``: begin the next `fit` where this estimator's last one ended, with new data of the
        same columns. The scaling, kernels and noises of the last fit are kept as the start; the subset is chosen anew
        and q(F_S) carried over to it. A few hundred steps then do, say `max_iter=200`.
    compile : bool, default=False
        Let PyTorch's compiler fuse the small operations of a step. It takes 10 to 60 seconds once and pays in long
        runs, above all on a GPU; it needs a C++ compiler, or Triton on CUDA. Two such runs on a GPU were the same up to
        rounding, not bit for bit.
    n_threads : int or None, default=1
        CPU threads of training and prediction, at most as many as there are; None leaves PyTorch's own setting. One is
        the default because it never loses: two idle cores make a step about 1.5 times faster, but two threads that meet
        another busy process on those cores were measured up to 40 times slower. Run several fits as processes instead.
    initialization : sodgp.model.architecture.Initialization or None, default=None
        Values at which training starts.
    jitter : float, "program" or None, default=None
        Added to the diagonal of covariance matrices, relative to its mean; None is 1e-6 in float64 and 1e-4 in float32.
        ``"program"`` adds an absolute 1e-6 wherever the authors' program does.
    dtype : {"float64", "float32"}, default="float64"
    device : str, default="auto"
        ``"auto"`` is CUDA where there is a device, else the CPU.
    random_state : int, RandomState or None, default=None
        Fixes the subset, the initial values, the batches, and the draws of training and prediction.
    verbose : int, default=0
        1 shows a progress bar.
    callbacks : list of functions or None, default=None
        Each is called with a `sodgp.training.history.TrainingState` every 50 iterations; returning True ends training.
    validation_fraction : float or None, default=None
        Share of the rows, chosen at random, that training never sees; their mean log predictive density is noted every
        50 iterations in ``history_.validation``, for `sodgp.training.callbacks.EarlyStopping`. Not for ``"sghmc"``.
    max_minutes : float or None, default=None
        Training ends after so many minutes of this call of `fit`, with the model that there is; SGHMC divides them
        between burn-in and posterior draws.
    checkpoint : path or None, default=None
        A folder, for this fit alone, to which training is written at intervals; `fit(X, y, resume=True)` continues from
        it bit for bit.
    checkpoint_every : int or str, default="10min"
        How often: after so many steps, or after a time such as ``"90s"``, ``"10min"`` or ``"2h"``.

    Attributes
    ----------
    model_ : DeepGP
        The trained model, in scaled units.
    history_ : History
        Bound, or the objective in its place where `predictive_weight` is above 0, and its named terms over the
        iterations.
    subset_indices_ : ndarray of shape [M]
        Rows of the training data that form S; the last ones where S has moved.
    subset_size_reason_ : str
        With ``subset_size="auto"``: what was chosen and why.
    n_parameters_ : int
        Numbers that were trained, those of all members together.
    members_ : list of DeepGPRegressor
        With several members: each of them, fitted. The other attributes are those of the first.
    diagnostics_ : sodgp.inference.diagnostics.SamplerDiagnostics
        For ``"sghmc"``: effective sample size, R-hat, temperature and step size.
    validation_indices_ : ndarray of shape [V]
        With `validation_fraction`: the rows that were held out; not stored in model files.
    n_iter_ : int
    restart_bounds_ : list of float
        Bound of every restart, where there were several.
    n_features_in_, feature_names_in_
        As in scikit-learn.
    target_names_ : ndarray of str
        Names of the columns of y, where it had some.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 60)[:, None]; y = np.sign(X[:, 0])
    >>> model = DeepGPRegressor(max_iter=200, random_state=0).fit(X, y)
    >>> mean, std = model.predict(X, return_std=True)
    >>> mean.shape, std.shape
    ((60,), (60,))
    """

    def __init__(
        self,
        *,
        inference: str = "sod",
        n_layers: int = 3,
        hidden_width: Any = None,
        subset_size: Any = None,
        subset: Any = "kmeans",
        reselect_every: int | None = None,
        kernel: Any = "rbf",
        parameterization: str = "whitened",
        coupling: str = "ancestral",
        hidden_mean: str = "linear",
        tie_label_noise: bool = True,
        separate_kernels: bool | None = None,
        noise: str = "homoscedastic",
        predictive_weight: float | None = None,
        learn_inducing_inputs: bool = True,
        n_posterior_samples: int = 100,
        thinning: int = 50,
        step_size: float = 0.01,
        n_chains: int = 1,
        n_samples: int = 10,
        n_predict_samples: int = 50,
        outlier_probability: float | None = None,
        effort: str = "standard",
        max_iter: int | None = None,
        batch_size: int | None = None,
        learning_rate: float = 0.03,
        n_members: int | None = None,
        member_spread: float | None = None,
        n_restarts: int = 1,
        warm_start: bool = False,
        compile: bool = False,
        n_threads: int | None = 1,
        schedule: Any = "cosine",
        initialization: Any = None,
        jitter: Any = None,
        dtype: str = "float64",
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
        validation_fraction: float | None = None,
        max_minutes: float | None = None,
        checkpoint: Any = None,
        checkpoint_every: Any = "10min",
    ) -> None:
        self.inference = inference
        self.n_layers = n_layers
        self.hidden_width = hidden_width
        self.subset_size = subset_size
        self.subset = subset
        self.reselect_every = reselect_every
        self.kernel = kernel
        self.parameterization = parameterization
        self.coupling = coupling
        self.hidden_mean = hidden_mean
        self.tie_label_noise = tie_label_noise
        self.separate_kernels = separate_kernels
        self.noise = noise
        self.predictive_weight = predictive_weight
        self.learn_inducing_inputs = learn_inducing_inputs
        self.n_posterior_samples = n_posterior_samples
        self.thinning = thinning
        self.step_size = step_size
        self.n_chains = n_chains
        self.n_samples = n_samples
        self.n_predict_samples = n_predict_samples
        self.outlier_probability = outlier_probability
        self.effort = effort
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.n_members = n_members
        self.member_spread = member_spread
        self.n_restarts = n_restarts
        self.warm_start = warm_start
        self.compile = compile
        self.n_threads = n_threads
        self.schedule = schedule
        self.initialization = initialization
        self.jitter = jitter
        self.dtype = dtype
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks
        self.validation_fraction = validation_fraction
        self.max_minutes = max_minutes
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def fit(self, X: Any, y: Any, *, noise_variance: Any = None, resume: bool = False) -> Self:
        """Train the deep GP.

        Parameters
        ----------
        X : array, data frame or tensor of shape [N, D]
        y : array, data frame or tensor of shape [N] or [N, P]
        noise_variance : float, or array of shape [N] or [N, P], optional
            For ``"sod"``: the noise variance of every observation, in squared units of y, where it is known. It then
            takes the place of the trained noise; predictions of y at new rows have the mean of the known ones.
        resume : bool
            Continue from the newest checkpoint in the folder `checkpoint`, as if training had never stopped. With none
            there it begins, with a warning; of a finished fit the model comes back at once.

        Returns
        -------
        self

        Raises
        ------
        InputError
            For data that cannot be used; the message names columns and rows.
        ConfigurationError
            For options that are unknown, out of range, or not used by the chosen method.
        ResourceError
            When training needs more memory than there is; the message says how much.
        NumericalError
            When training ran away and could not be brought back; the last good parameters are kept in ``model_`` (with
            several restarts and with SGHMC, which has no posterior yet, nothing is kept).
        CheckpointError
            The checkpoint to resume from belongs to other data or options, nothing can be written to its folder, or an
            unfinished fit there would be lost.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> DeepGPRegressor(n_layers=1, max_iter=5).fit(X, np.sign(X[:, 0])).n_iter_
        5
        """
        count = members_of(self)
        if check_integer("n_restarts", self.n_restarts, minimum=1) > 1:
            return self._fit_restarts(X, y, noise_variance, resume)
        if count > 1:
            fit_replicates([self], [(X, y, noise_variance)], resume=resume)
            return self
        self._warn_of_members_left_behind()
        before = dict(vars(self))
        try:
            plan = plan_for(self, resume)
            with gradients():
                problem, settings = self._prepare(X, y, noise_variance, plan=plan)
                with cpu_threads(self.n_threads), training_memory(self._method, [problem], settings):
                    ((model, history),) = fit(self._method, [problem], settings)
        except NumericalError as error:
            # Nothing of an earlier fit may be left: it would predict with the scaling of this one.
            self.__dict__.pop("model_", None)
            if error.kept:
                self._finish(*error.kept[0])
            raise
        except BaseException:
            # Nothing half-written: an earlier fit stays whole.
            self.__dict__ = before
            raise
        return self._finish(model, history)

    def _finish(self, model: DeepGP, history: History) -> Self:
        """Keep a trained model."""
        self.model_, self.history_ = model, history
        self._final_bound = model.__dict__.pop("final_bound", None)
        moved = model.__dict__.pop("moved_subset", None)
        if moved is not None:
            held = getattr(self, "validation_indices_", [])
            n_rows = int(np.max(self._x_scaler.n_samples_seen_)) + len(held)
            self.subset_indices_ = np.delete(np.arange(n_rows), held)[moved.rows.numpy()]
            self._X_s, self._y_s = moved.X_s.unsqueeze(0), moved.y_s.unsqueeze(0)
        if hasattr(self.model_, "diagnostics"):
            self.diagnostics_ = self.model_.diagnostics
        self.n_parameters_ = self.model_.n_parameters
        self.n_iter_ = history.iteration[-1] if history.iteration else 0
        return self

    def save(self, path: Any) -> None:
        """Write the fitted model to a file (``"m.sodgp"``) or a folder (``"model/"``), without pickle.

        Callbacks, and random states that are not integers, are left out; see `sodgp.estimator.files.records`.

        Raises
        ------
        ModelFileError
            Something that is not a model is in the way, the disk refuses, or the kernel is code that GPyTorch's own
            kernels cannot describe (see `sodgp.kernels.description`).

        Examples
        --------
        >>> import numpy as np, tempfile
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X, np.sign(X[:, 0]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/m.sodgp")
        ...     again = DeepGPRegressor.load(f"{folder}/m.sodgp")
        >>> bool((again.predict(X) == model.predict(X)).all())
        True
        """
        from sodgp.estimator.files import records

        records.save(records.to_record, self, path)

    @classmethod
    def load(cls, path: Any) -> Self:
        """Read a model that `save` wrote. Nothing in the file is run; one trained on a GPU loads without one.

        Raises
        ------
        ModelFileError
            The file is missing, damaged, from a newer version, or not a model.

        Examples
        --------
        >>> DeepGPRegressor.load("nowhere.sodgp")
        Traceback (most recent call last):
        sodgp.errors.ModelFileError: nowhere.sodgp does not exist. ...
        """
        from sodgp.estimator.files import records

        return records.load(records.from_record, cls, path)
