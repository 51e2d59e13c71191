"""The scikit-learn estimator: the only place that sees data frames, scaling and original units."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from sodgp.architecture import Architecture
from sodgp.configuration import Configuration
from sodgp.draws import FreshDraws, SharedDraws
from sodgp.errors import InputError, NumericalError
from sodgp.inference.base import TrainingSet
from sodgp.layers.means import linear_weights, zero_weights
from sodgp.model import DeepGP
from sodgp.predictive import GaussianMixture
from sodgp.subset import get_selector
from sodgp.training.loop import History
from sodgp.training.run import Problem, Settings, fit
from sodgp.validation import check_fit_data, check_integer, check_predict_data

FloatArray = NDArray[np.float64]

# Numbers in the largest tensor of a prediction: 64 MB in float64.
_CHUNK_ELEMENTS = 2**23
_MAX_JOINT_ROWS = 1000


class DeepGPRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Deep Gaussian process regression; by default with subset-of-data variational inference.

    Inputs and targets are standardised inside; predictions come back in the original units.

    Parameters
    ----------
    inference : {"sod", "dsvi", "mean_field", "sghmc"}, default="sod"
        The inference method: subset-of-data, doubly stochastic (with one layer, SVGP), or the mean-field deep GP, which
        needs an RBF kernel, trains two numbers for every row and hidden output, sees all rows in every step, and so
        takes at most 5,000 rows; or stochastic gradient Hamiltonian Monte Carlo, which burns in for `max_iter`
        iterations and then takes posterior draws of the inducing outputs.
    n_layers : int, default=2
        GP layers, the last one included (paper: L). 1 is a sparse GP.
    hidden_width : int, list of int or None, default=None
        Outputs of the hidden layers (paper: D^l); None is min(30, D). A list gives one per hidden layer.
    subset_size : int, "paper" or None, default=None
        Rows M of the subset S. None takes 100, or half of the rows where there are fewer than 200;
        "paper" takes 50 below 5,000 rows and 100 above. Never more than all rows.
    subset : str or selector, default="kmeans"
        How the rows of S are chosen; see `sodgp.subset`.
    kernel : str or function, default="rbf"
        ``"rbf"``, ``"matern12"``, ``"matern32"``, ``"matern52"``, ``"rq"``, each with one lengthscale per input, or one
        for all with ``-iso`` behind the name; or a function ``input_dim -> gpytorch kernel``, priors included.
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
        Monte Carlo samples T in training and prediction.
    max_iter : int, default=2000
        Steps of Adam.
    batch_size : int, default=2000
        Rows that a step sees, the subset counted in; the whole data where they fit.
    learning_rate : float, default=0.01
    schedule : {"cosine", "constant"}, default="cosine"
        ``"cosine"`` holds the learning rate for half of the run and then lets it fall to one hundredth.
    initialization : sodgp.architecture.Initialization or None, default=None
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
        Each is called with a `sodgp.training.loop.TrainingState` every 50 iterations; returning True ends training.

    Attributes
    ----------
    model_ : DeepGP
        The trained model, in scaled units.
    history_ : History
        Bound and its named terms over the iterations.
    subset_indices_ : ndarray of shape [M]
        Rows of the training data that form S.
    n_parameters_ : int
        Numbers that were trained.
    diagnostics_ : sodgp.inference.diagnostics.SamplerDiagnostics
        For ``"sghmc"``: effective sample size, R-hat, temperature and step size; not stored in model files.
    n_iter_ : int
    n_features_in_, feature_names_in_
        As in scikit-learn.

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
        n_layers: int = 2,
        hidden_width: Any = None,
        subset_size: Any = None,
        subset: Any = "kmeans",
        kernel: Any = "rbf",
        parameterization: str = "whitened",
        coupling: str = "ancestral",
        hidden_mean: str = "linear",
        tie_label_noise: bool = True,
        learn_inducing_inputs: bool = True,
        n_posterior_samples: int = 100,
        thinning: int = 50,
        step_size: float = 0.01,
        n_chains: int = 1,
        n_samples: int = 10,
        n_predict_samples: int = 50,
        max_iter: int = 2000,
        batch_size: int = 2000,
        learning_rate: float = 0.01,
        schedule: str = "cosine",
        initialization: Any = None,
        jitter: Any = None,
        dtype: str = "float64",
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.inference = inference
        self.n_layers = n_layers
        self.hidden_width = hidden_width
        self.subset_size = subset_size
        self.subset = subset
        self.kernel = kernel
        self.parameterization = parameterization
        self.coupling = coupling
        self.hidden_mean = hidden_mean
        self.tie_label_noise = tie_label_noise
        self.learn_inducing_inputs = learn_inducing_inputs
        self.n_posterior_samples = n_posterior_samples
        self.thinning = thinning
        self.step_size = step_size
        self.n_chains = n_chains
        self.n_samples = n_samples
        self.n_predict_samples = n_predict_samples
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.initialization = initialization
        self.jitter = jitter
        self.dtype = dtype
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def fit(self, X: Any, y: Any) -> Self:
        """Train the deep GP.

        Parameters
        ----------
        X : array, data frame or tensor of shape [N, D]
        y : array, data frame or tensor of shape [N] or [N, P]

        Returns
        -------
        self

        Raises
        ------
        InputError
            For data that cannot be used; the message names columns and rows.
        ConfigurationError
            For options that are unknown, out of range, or not used by the chosen method.
        NumericalError
            When training ran away and could not be brought back; the last good parameters are kept in ``model_``.
        """
        problem, settings = self._prepare(X, y)
        try:
            ((model, history),) = fit(self._method, [problem], settings)
        except NumericalError as error:
            # Nothing of an earlier fit may be left: it would predict with the scaling of this one.
            self.__dict__.pop("model_", None)
            if error.kept:
                self._finish(*error.kept[0])
            raise
        return self._finish(model, history)

    def _prepare(self, X: Any, y: Any) -> tuple[Problem, Settings]:
        """Check options and data, scale, choose the subset: everything before training."""
        config = Configuration.from_estimator(self)
        X_raw, y_raw = check_fit_data(self, X, y)
        self._y_is_vector = y_raw.ndim == 1
        self._x_scaler, X_scaled = _standardise(X_raw)
        self._y_scaler, y_scaled = _standardise(y_raw.reshape(len(y_raw), -1))
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=3)
        self._predict_seed = int(seeds[2])

        X_t, y_t = (torch.as_tensor(values, dtype=torch.float64) for values in (X_scaled, y_scaled))
        size = config.subset_rows(len(X_raw))
        method = config.method()
        chosen = torch.empty(0, dtype=torch.int64)
        if method.uses_subset:
            generator = torch.Generator().manual_seed(int(seeds[0]))
            chosen = get_selector(self.subset).select(X_t, y_t, size, None, generator)
            self.subset_indices_ = chosen.numpy()
        data = _split(X_t, y_t, chosen, config.dtype)

        widths = config.hidden_widths(X_raw.shape[1])
        weights = (linear_weights if config.hidden_mean == "linear" else zero_weights)(X_t, widths)
        architecture = Architecture(
            input_dim=X_raw.shape[1],
            n_outputs=y_scaled.shape[1],
            size=size,
            mean_weights=weights,
            kernel=self.kernel,
            parameterization=config.parameterization,
            tie_label_noise=config.tie_label_noise,
            initialization=config.initialization,
            jitter=config.jitter,
            dtype=config.dtype,
        )
        settings = Settings(
            max_iter=config.max_iter,
            batch_rows=config.batch_rows(len(chosen), data.n_rest),
            n_samples=config.n_samples,
            learning_rate=config.learning_rate,
            schedule=config.schedule,
            device=config.device,
            callbacks=config.callbacks,
        )
        self._method = method
        self._X_s, self._y_s = data.X_s.unsqueeze(0), data.y_s.unsqueeze(0)
        return Problem(architecture, data, int(seeds[1])), settings

    def _finish(self, model: DeepGP, history: History) -> Self:
        """Keep a trained model."""
        self.model_, self.history_ = model, history
        if hasattr(self.model_, "diagnostics"):
            self.diagnostics_ = self.model_.diagnostics
        self.n_parameters_ = self.model_.n_parameters
        self.n_iter_ = history.iteration[-1] if history.iteration else 0
        return self

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Mean of y, in original units.

        Parameters
        ----------
        X : array, data frame or tensor of shape [N, D]
        return_std : bool
            Also the standard deviation of y.
        return_cov : bool
            Also the covariance of y over rows, for at most 1,000 rows.

        Returns
        -------
        mean : ndarray of shape [N] or [N, P]
        std : ndarray of the same shape, if `return_std`
        cov : ndarray of shape [N, N] or [P, N, N], if `return_cov`
        """
        if return_std and return_cov:
            raise InputError("ask for return_std or return_cov, not for both: the variances are the diagonal of cov.")
        if return_cov:
            return self._joint_moments(X)
        parts = [(d.mean, d.std) if return_std else (d.mean,) for d in self._mixtures(X, latent=False)]
        joined = tuple(np.concatenate(values) for values in zip(*parts, strict=True))
        return joined if return_std else joined[0]

    def predict_distribution(self, X: Any, *, latent: bool = False) -> GaussianMixture:
        """The predictive distribution, one Gaussian per Monte Carlo sample.

        Parameters
        ----------
        X : array, data frame or tensor of shape [N, D]
        latent : bool
            Of the function f, without observation noise, instead of y.

        Returns
        -------
        GaussianMixture
            With mean, variance, std, log_prob, cdf, quantile, interval, sample and crps, in original units.
        """
        return GaussianMixture.concatenate(list(self._mixtures(X, latent=latent)))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0, *, latent: bool = False) -> FloatArray:
        """Draw whole functions: rows of one draw belong together.

        Parameters
        ----------
        X : array, data frame or tensor of shape [N, D]
            At most 1,000 rows; `predict_distribution(X).sample` draws rows independently for any number.
        n_samples : int
        random_state : int, RandomState or None
        latent : bool
            Without observation noise.

        Returns
        -------
        ndarray of shape [N, n_samples] or [N, P, n_samples]
        """
        check_is_fitted(self)
        count = check_integer("n_samples", n_samples, minimum=1)
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        mean, covariance = self._joint(X, seed, count)
        if not latent:
            noise = self.model_.noise_variance.cpu().double().reshape(1, -1, 1, 1)
            covariance = covariance + noise * torch.eye(covariance.shape[-1], dtype=torch.float64)
        values, vectors = torch.linalg.eigh(covariance)
        normal = torch.randn(*mean.mT.shape, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64)[
            ..., None
        ]
        draws = mean.mT + (vectors @ (values.clamp_min(0.0).sqrt()[..., None] * normal)).squeeze(-1)
        scaled = draws.permute(2, 1, 0).numpy() * self._y_scaler.scale_[:, None] + self._y_scaler.mean_[:, None]
        return scaled[:, 0] if self._y_is_vector else scaled

    def _mixtures(self, X: Any, *, latent: bool) -> Iterator[GaussianMixture]:
        """The predictive distribution in chunks of rows: memory stays bounded for any number of rows."""
        check_is_fitted(self)
        rows = self._scaled_rows(X)
        count = check_integer("n_predict_samples", self.n_predict_samples, minimum=1)
        widest = max(layer.q_mean.shape[-2] * layer.q_mean.shape[-1] for layer in self.model_.layers)
        chunk = max(1, _CHUNK_ELEMENTS // (count * widest))
        for part in rows.split(chunk):
            draws = SharedDraws(self._predict_seed, count, dtype=part.dtype, device=part.device)
            with torch.no_grad():
                mean, variance = self._method.predict(self.model_, *self._anchors(part), part.unsqueeze(0), draws)
                if not latent:
                    variance = variance + self.model_.noise_variance[..., None, :]
            yield self._original_units(mean, variance)

    def _joint(self, X: Any, seed: int, count: int) -> tuple[Tensor, Tensor]:
        """Mean [T, N, P] and covariance [T, P, N, N] of f over rows drawn jointly, in scaled units, on the CPU."""
        rows = self._scaled_rows(X)
        if len(rows) > _MAX_JOINT_ROWS:
            raise InputError(
                f"joint predictions take at most {_MAX_JOINT_ROWS} rows, not {len(rows)}: their covariance is a full"
                " matrix. Use predict(..., return_std=True) or predict_distribution, which take any number."
            )
        moments = []
        # One sample at a time: a joint draw holds a full covariance for every output of every layer.
        for t in range(count):
            generator = torch.Generator(rows.device).manual_seed(seed + t)
            draws = FreshDraws(generator, 1, dtype=rows.dtype, device=rows.device)
            with torch.no_grad():
                moments.append(self._method.predict_joint(self.model_, *self._anchors(rows), rows.unsqueeze(0), draws))
        mean, covariance = (torch.cat(values).cpu().double() for values in zip(*moments, strict=True))
        return mean, covariance

    def _joint_moments(self, X: Any) -> tuple[FloatArray, FloatArray]:
        check_is_fitted(self)
        mean, covariance = self._joint(X, self._predict_seed, self.n_predict_samples)
        noise = self.model_.noise_variance.cpu().double().reshape(-1, 1, 1)
        centred = (mean - mean.mean(0)).permute(2, 1, 0)
        total = covariance.mean(0) + centred @ centred.mT / len(mean)
        total = total + noise * torch.eye(total.shape[-1], dtype=torch.float64)
        scale, shift = self._y_scaler.scale_, self._y_scaler.mean_
        y_mean, y_cov = mean.mean(0).numpy() * scale + shift, total.numpy() * scale[:, None, None] ** 2
        return (y_mean[:, 0], y_cov[0]) if self._y_is_vector else (y_mean, y_cov)

    def _scaled_rows(self, X: Any) -> Tensor:
        scaled = self._x_scaler.transform(check_predict_data(self, X))
        parameter = self.model_.likelihood.raw_noise
        return torch.as_tensor(scaled, dtype=parameter.dtype, device=parameter.device)

    def _anchors(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and labels of the subset, where the model is."""
        return self._X_s.to(like.device), self._y_s.to(like.device)

    def _original_units(self, mean: Tensor, variance: Tensor) -> GaussianMixture:
        # Rounding leaves a variance of f at zero where a row sits on the subset and the noise is at its floor.
        variance = variance.double().clamp_min(torch.finfo(torch.float64).tiny ** 0.25)
        scale, shift = self._y_scaler.scale_, self._y_scaler.mean_
        if self._y_is_vector:
            mean, variance = mean[..., 0], variance[..., 0]
        return GaussianMixture(mean.double().cpu(), variance.cpu()).affine(scale, shift)

    def save(self, path: Any) -> None:
        """Write the fitted model to a file (``"m.sodgp"``) or a folder (``"model/"``), without pickle.

        Callbacks, and random states that are not integers, are left out; see `sodgp.records`.

        Raises
        ------
        ModelFileError
            Something that is not a model is in the way, the disk refuses, or the kernel is a function.
        """
        from sodgp import records

        records.save(self, path)

    @classmethod
    def load(cls, path: Any) -> Self:
        """Read a model that `save` wrote. Nothing in the file is run; one trained on a GPU loads without one.

        Raises
        ------
        ModelFileError
            The file is missing, damaged, from a newer version, or not a model.
        """
        from sodgp import records

        return records.load(cls, path)


def _standardise(values: FloatArray) -> tuple[StandardScaler, FloatArray]:
    """Zero mean and unit variance; constant columns become zero."""
    scaler = StandardScaler().fit(values)
    return scaler, scaler.transform(values)


def _split(X: Tensor, y: Tensor, chosen: Tensor, dtype: torch.dtype) -> TrainingSet:
    rest = torch.ones(len(X), dtype=torch.bool)
    rest[chosen] = False
    return TrainingSet(*(t.to(dtype) for t in (X[chosen], y[chosen], X[rest], y[rest])))
