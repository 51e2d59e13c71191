"""The paper's configurations: text and program differ, and each can be fitted."""

import numpy as np
import pytest
from sklearn.base import clone

from sodgp import DSVI, SGHMC, SoD
from sodgp.errors import ConfigurationError
from sodgp.estimator.presets import METHODS, SOURCES, paper

TRAINING = {
    "max_iter": 20_000,
    "batch_size": 2000,
    "learning_rate": 0.01,
    "n_samples": 10,
    "n_predict_samples": 50,
    "subset_size": "paper",
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("method", ["SoD", "SoD*"])
def test_sod_as_the_paper_reports_it(method, source):
    model = paper(3, method, source=source)
    start = model.tuning.initialization
    assert model.get_params() | TRAINING == model.get_params()
    assert (type(model.inference), model.n_layers, model.kernel) == (SoD, 3, "rbf-iso")
    assert model.tuning.schedule == "constant"
    assert (model.inference.parameterization, model.hidden_mean) == ("paper", "zero")
    assert model.subset == ("kmeans" if method == "SoD" else "random")
    assert (start.kernel_variance, start.lengthscale) == (0.5, 0.5)
    assert (start.noise_variance, start.layer_noise_variance, start.last_factor) == (0.01, 1e-5, 1.0)


def test_program_and_text_differ_in_coupling_label_noise_hidden_factor_and_jitter():
    program, text = paper(2, source="program"), paper(2, source="text")
    assert (program.inference.coupling, text.inference.coupling) == ("marginal", "ancestral")
    assert (program.inference.tie_label_noise, text.inference.tie_label_noise) == (False, True)
    assert program.tuning.initialization.hidden_factor == 1e-5
    assert text.tuning.initialization.hidden_factor**2 == pytest.approx(1e-5)
    assert program.tuning.initialization.label_noise_variance == 1e-5
    assert (program.tuning.jitter, text.tuning.jitter) == ("program", None)


def test_the_program_is_the_default_source():
    assert paper(2).get_params() == paper(2, "SoD", source="program").get_params()


def test_the_rivals_keep_or_learn_their_inducing_inputs():
    assert paper(2, "DSVI").inference == DSVI()
    assert paper(2, "DSVI*").inference == DSVI(learn_inducing_inputs=False)
    assert paper(5, "SVGP").n_layers == 1
    assert paper(2, "SGHMC").inference == SGHMC()


def test_options_can_be_changed():
    model = paper(2, "SoD", random_state=4, max_iter=10, inference__coupling="joint")
    assert (model.random_state, model.max_iter, model.inference.coupling) == (4, 10, "joint")
    assert model.inference.parameterization == "paper"


def test_unknown_names_are_listed():
    with pytest.raises(ConfigurationError, match="choose one of SoD, SoD"):
        paper(2, "EP")
    with pytest.raises(ConfigurationError, match="choose one of program, text"):
        paper(2, source="slides")


@pytest.mark.parametrize("n_layers", [1, 2, 3])
@pytest.mark.parametrize(("method", "source"), [*((m, "program") for m in METHODS), ("SoD", "text"), ("SoD*", "text")])
def test_every_preset_fits_and_predicts(method, source, n_layers):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    quick = {"inference__n_posterior_samples": 4, "inference__thinning": 2} if method == "SGHMC" else {"n_samples": 2}
    model = paper(n_layers, method, source=source, max_iter=5, n_predict_samples=4, random_state=0, **quick)
    mean, std = clone(model).fit(X, X[:, 0]).predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
