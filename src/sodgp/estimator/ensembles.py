"""An ensemble of deep GPs: several fits from different seeds, trained in one program, predicting as one mixture."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sodgp.errors import ConfigurationError
from sodgp.estimator.checkpoint_plan import check_seed_is_kept
from sodgp.estimator.many import fit_replicates
from sodgp.estimator.pooling import Together, spread_of
from sodgp.estimator.predict import as_said_now, refuse_both
from sodgp.estimator.regressor import DeepGPRegressor
from sodgp.estimator.several import copy_of
from sodgp.predictive.mixture import GaussianMixture
from sodgp.system.arrays import FloatArray
from sodgp.system.validation import check_integer, seed_from


class DeepGPEnsemble(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Members that differ in their seeds, and so in subset, batches and draws; the mixture is over members and samples.

    Parameters
    ----------
    estimator : DeepGPRegressor or None, default=None
        What every member is; None is ``DeepGPRegressor()``. Its `random_state` is replaced.
    n_members : int, default=5
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    members_ : list of DeepGPRegressor
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 40)[:, None]; y = np.sign(X[:, 0])
    >>> ensemble = DeepGPEnsemble(DeepGPRegressor(max_iter=50), n_members=2, random_state=0).fit(X, y)
    >>> ensemble.predict_distribution(X).n_components
    100
    """

    def __init__(self, estimator: Any = None, *, n_members: int = 5, random_state: Any = None) -> None:
        self.estimator = estimator
        self.n_members = n_members
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, noise_variance: Any = None, resume: bool = False) -> Self:
        """Train all members in one program.

        Parameters
        ----------
        X : array, data frame or tensor of shape [N, D]
        y : array, data frame or tensor of shape [N] or [N, P]
        noise_variance : float, or array of shape [N] or [N, P], optional
            Known noise of every observation, see `DeepGPRegressor.fit`.
        resume : bool
            Continue from the newest checkpoint in the folder `checkpoint` of the members' estimator.

        Raises
        ------
        InputError, ConfigurationError, NumericalError, CheckpointError
            As `DeepGPRegressor.fit`.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> base = DeepGPRegressor(n_layers=1, max_iter=5)
        >>> ensemble = DeepGPEnsemble(base, n_members=2, random_state=0).fit(X, np.sign(X[:, 0]))
        >>> len(ensemble.members_)
        2
        """
        base = DeepGPRegressor() if self.estimator is None else self.estimator
        if not isinstance(base, DeepGPRegressor):
            raise ConfigurationError(f"estimator must be a DeepGPRegressor or None, not {type(base).__name__}.")
        if base.warm_start:
            raise ConfigurationError("the members of an ensemble begin anew at every fit: leave warm_start at False.")
        if base.n_members not in (None, 1):
            raise ConfigurationError(
                f"the members of an ensemble are one model each: leave n_members={base.n_members!r} of estimator at"
                " None, and give the ensemble that number."
            )
        count = check_integer("n_members", self.n_members, minimum=1)
        check_seed_is_kept(base.checkpoint, self.random_state)
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=count)
        members = [copy_of(base, n_members=1, random_state=int(seed)) for seed in seeds]
        self._take(fit_replicates(members, [(X, y, noise_variance)] * count, resume=resume))
        return self

    def _take(self, members: list[DeepGPRegressor]) -> None:
        """Be the ensemble of these fitted members."""
        self.members_ = members
        self.n_features_in_ = members[0].n_features_in_
        if hasattr(members[0], "feature_names_in_"):
            self.feature_names_in_ = members[0].feature_names_in_

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Mean of y in original units, and its standard deviation or covariance; see `DeepGPRegressor.predict`.

        Returns
        -------
        mean : ndarray of shape [N] or [N, P]
        std : ndarray of the same shape, if `return_std`
        cov : ndarray of shape [N, N] or [P, N, N], if `return_cov`

        Examples
        --------
        >>> import numpy as np
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> base = DeepGPRegressor(n_layers=1, max_iter=5)
        >>> ensemble = DeepGPEnsemble(base, n_members=2, random_state=0).fit(X, np.sign(X[:, 0]))
        >>> ensemble.predict(X[:4]).shape
        (4,)
        """
        refuse_both(return_std, return_cov)
        return self._together().predict(X, return_std, return_cov)

    def predict_distribution(self, X: Any, *, latent: bool = False) -> GaussianMixture:
        """The mixture over members and Monte Carlo samples; see `DeepGPRegressor.predict_distribution`.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> base = DeepGPRegressor(n_layers=1, max_iter=5)
        >>> ensemble = DeepGPEnsemble(base, n_members=2, random_state=0).fit(X, np.sign(X[:, 0]))
        >>> ensemble.predict_distribution(X[:4])
        GaussianMixture(n_components=2, n_rows=4, n_outputs=1)
        """
        return self._together().predict_distribution(X, latent=latent)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0, *, latent: bool = False) -> FloatArray:
        """Draw whole functions [N, n_samples] or [N, P, n_samples]; see `DeepGPRegressor.sample_y`.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> base = DeepGPRegressor(n_layers=1, max_iter=5)
        >>> ensemble = DeepGPEnsemble(base, n_members=2, random_state=0).fit(X, np.sign(X[:, 0]))
        >>> ensemble.sample_y(X[:4], n_samples=3).shape
        (4, 3)
        """
        together = self._together()
        count = check_integer("n_samples", n_samples, minimum=1)
        seed = seed_from(random_state)
        return together.sample_y(X, count, seed, latent=latent)

    def _together(self) -> Together:
        """The members as the options of `estimator` are now, as far as predictions use them."""
        check_is_fitted(self)
        members = self.members_ if self.estimator is None else as_said_now(self.estimator, self.members_)
        return Together(members, spread_of(members[0], len(members)))

    def save(self, path: Any) -> None:
        """Write the fitted ensemble to one file (``"m.sodgp"``) or folder (``"model/"``), without pickle.

        What a file leaves out of a member, see `DeepGPRegressor.save`, it leaves out here; the `random_state` of
        `estimator`, which no fit uses, is None afterwards.

        Raises
        ------
        ModelFileError
            As `DeepGPRegressor.save`, or `n_members` was changed after the fit.

        Examples
        --------
        >>> import numpy as np, tempfile
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> base = DeepGPRegressor(n_layers=1, max_iter=5)
        >>> ensemble = DeepGPEnsemble(base, n_members=2, random_state=0).fit(X, np.sign(X[:, 0]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ensemble.save(f"{folder}/m.sodgp")
        ...     again = DeepGPEnsemble.load(f"{folder}/m.sodgp")
        >>> bool((again.predict(X) == ensemble.predict(X)).all())
        True
        """
        from sodgp.estimator.files import ensemble_records, records

        records.save(ensemble_records.to_record, self, path)

    @classmethod
    def load(cls, path: Any) -> Self:
        """Read an ensemble that `save` wrote. Nothing in the file is run; one trained on a GPU loads without one.

        Raises
        ------
        ModelFileError
            The file is missing, damaged, from a newer version, or not an ensemble.

        Examples
        --------
        >>> DeepGPEnsemble.load("nowhere.sodgp")
        Traceback (most recent call last):
        sodgp.errors.ModelFileError: nowhere.sodgp does not exist. ...
        """
        from sodgp.estimator.files import ensemble_records, records

        return records.load(ensemble_records.from_record, cls, path)
