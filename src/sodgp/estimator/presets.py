"""The configurations of the paper's methods, as estimators ready to fit.

>>> paper(2, "SoD").max_iter
20000
"""

from __future__ import annotations

from typing import Any

from sodgp.errors import ConfigurationError
from sodgp.estimator.options.fields import Tuning
from sodgp.estimator.regressor import DeepGPRegressor
from sodgp.inference.dsvi import DSVI
from sodgp.inference.sghmc import SGHMC
from sodgp.inference.sod import SoD
from sodgp.likelihoods import Gaussian
from sodgp.model.architecture import Initialization

__all__ = ["METHODS", "SOURCES", "paper"]

METHODS = ("SoD", "SoD*", "DSVI", "DSVI*", "SGHMC", "SVGP")
SOURCES = ("program", "text")


def paper(n_layers: int, method: str = "SoD", source: str = "program", **changes: Any) -> DeepGPRegressor:
    """The paper's configuration of a method.

    Parameters
    ----------
    n_layers : int
        GP layers, the last one included. DGPx of the paper's table is ``n_layers=x`` as the authors' program counts;
        the text says x hidden layers.
    method : {"SoD", "SoD*", "DSVI", "DSVI*", "SGHMC", "SVGP"}
        ``"SoD*"`` takes a random subset, ``"DSVI*"`` keeps its inducing inputs; ``"SVGP"`` has one layer whatever
        `n_layers`.
    source : {"program", "text"}
        For SoD: what the authors' program does (marginal coupling, a separate label noise, hidden factor 1e-5 I,
        absolute jitter) or what the paper's text says (draws from the joint distribution, one noise for labels and
        likelihood, hidden covariance 1e-5 I). The other methods' settings are those of their papers and programs.
    **changes
        Options of `DeepGPRegressor` to set otherwise, such as ``random_state`` or ``inference__coupling``.

    Returns
    -------
    DeepGPRegressor

    Raises
    ------
    ConfigurationError
        For an unknown method or source.

    Examples
    --------
    >>> from sodgp.estimator.presets import paper
    >>> paper(3, "SoD", source="text", random_state=0).inference.coupling
    'ancestral'
    """
    if method not in METHODS:
        raise ConfigurationError(f"method={method!r} is unknown; choose one of {', '.join(METHODS)}.")
    if source not in SOURCES:
        raise ConfigurationError(f"source={source!r} is unknown; choose one of {', '.join(SOURCES)}.")
    if "effort" in changes:
        raise ConfigurationError("the paper's methods fix steps and subsets: leave effort out.")
    # The paper, "Training and Preprocessing"; as in the authors' program, batch 2000 counts the subset in.
    model = DeepGPRegressor(
        n_layers=1 if method == "SVGP" else n_layers,
        max_iter=20_000,
        batch_size=2000,
        learning_rate=0.01,
        n_samples=10,
        n_predict_samples=50,
        subset_size="paper",
    )
    if method in ("SoD", "SoD*"):
        model.set_params(subset="kmeans" if method == "SoD" else "random")
        _subset_of_data(model, is_program=source == "program")
    elif method == "SGHMC":
        _sghmc(model)
    else:
        _dsvi(model, learn_inducing_inputs=method != "DSVI*")
    return model.set_params(**changes)


def _subset_of_data(model: DeepGPRegressor, *, is_program: bool) -> None:
    """Zero means, isotropic RBF 0.5/0.5, noise 0.01 and 1e-5 (section "Model and Variational Parameters")."""
    start = Initialization(
        kernel_variance=0.5,
        lengthscale=0.5,
        noise_variance=0.01,
        layer_noise_variance=1e-5,
        label_noise_variance=1e-5,
        # The program scales the factor by 1e-5, the text the covariance.
        hidden_factor=1e-5 if is_program else 1e-5**0.5,
        last_factor=1.0,
        means="uniform",
    )
    method = SoD(
        parameterization="paper",
        coupling="marginal" if is_program else "ancestral",
        tie_label_noise=not is_program,
        separate_kernels=False,
        objective="bound",
    )
    model.set_params(
        inference=method,
        likelihood=Gaussian(outlier_probability=0.0),
        kernel="rbf-iso",
        hidden_mean="zero",
        tuning=Tuning(start, "program" if is_program else None, "constant"),
    )


def _dsvi(model: DeepGPRegressor, *, learn_inducing_inputs: bool) -> None:
    """Salimbeni & Deisenroth (2017), section 5 and its program: linear means, RBF of variance and lengthscale 2.

    Inner factors start at 1e-5 I, white noise of 2e-6 sits in inner kernels, the likelihood's noise starts at 0.01.
    """
    start = Initialization(
        kernel_variance=2.0,
        lengthscale=2.0,
        noise_variance=0.01,
        layer_noise_variance=2e-6,
        hidden_factor=1e-5,
        last_factor=1.0,
    )
    model.set_params(
        inference=DSVI(learn_inducing_inputs=learn_inducing_inputs),
        likelihood=Gaussian(outlier_probability=0.0),
        kernel="rbf-iso",
        tuning=Tuning(start, schedule="constant"),
    )


def _sghmc(model: DeepGPRegressor) -> None:
    """Havasi et al. (2018), section 5 and its program: RBF with lengthscale sqrt(D), variance 0.01 inside."""
    start = Initialization(kernel_variance=0.01, lengthscale=None, noise_variance=0.01)
    model.set_params(inference=SGHMC(), tuning=Tuning(start, schedule="constant"))
