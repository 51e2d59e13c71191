"""Options as results hold them: flat names that estimators of any interface can be compared by."""

import json

import pytest
from benchmarks.records import estimator_of, options_of

from sodgp import DSVI, SGHMC, DeepGPRegressor, SoD, Tuning
from sodgp.errors import ConfigurationError
from sodgp.likelihoods import HeavyTailed

ESTIMATORS = [
    DeepGPRegressor(),
    DeepGPRegressor(inference=SoD(coupling="joint", separate_kernels=False), n_layers=2, hidden_width=[3]),
    DeepGPRegressor(inference=DSVI(learn_inducing_inputs=False, objective="predictive"), tuning=Tuning(jitter=1e-5)),
    DeepGPRegressor(inference=SGHMC(thinning=3, n_posterior_samples=8), max_iter=7),
    DeepGPRegressor(likelihood=HeavyTailed(outlier_probability=0.01), effort="thorough"),
]


@pytest.mark.parametrize(
    "estimator", ESTIMATORS, ids=lambda e: e.inference if isinstance(e.inference, str) else "object"
)
def test_an_estimator_of_the_options_of_another_has_the_same_options(estimator):
    options = options_of(estimator)
    assert json.loads(json.dumps(options)) == options
    names = {*type(estimator.inference if not isinstance(estimator.inference, str) else SoD()).__dataclass_fields__}
    names |= {"predictive_weight"} if "objective" in names else set()
    others = {"coupling", "parameterization", "tie_label_noise", "separate_kernels", "predictive_weight", "friction"}
    others |= {"member_spread", "learn_inducing_inputs", "step_size", "window", "thinning", "n_chains"}
    others |= {"n_posterior_samples", "reselect_every"}
    own = {name: value for name, value in options.items() if name in names or name not in others}
    again = options_of(estimator_of(own))
    assert again == options


def test_what_an_effort_or_method_decides_is_written_out():
    thorough = options_of(DeepGPRegressor(effort="thorough"))
    assert (thorough["max_iter"], thorough["n_members"], thorough["member_spread"]) == (2000, 4, SoD().usual_spread(4))
    dsvi = options_of(DeepGPRegressor(inference="dsvi"))
    assert (dsvi["batch_size"], dsvi["predictive_weight"], dsvi["outlier_probability"]) == (2000, 0.0, 0.0)
    assert options_of(DeepGPRegressor(n_layers=1))["separate_kernels"] is False
    assert options_of(DeepGPRegressor())["separate_kernels"] is None  # the rows decide


@pytest.mark.parametrize(("weight", "objective"), [(None, None), (0.0, "bound"), (1.0, "predictive")])
def test_results_hold_an_objective_as_the_weight_of_the_predictive_density(weight, objective):
    assert estimator_of({"predictive_weight": weight}).inference.objective == objective
    assert options_of(DeepGPRegressor(inference=SoD(objective=objective)))["predictive_weight"] == weight
    with pytest.raises(ConfigurationError, match=r"predictive_weight=0\.5 is no longer trainable"):
        estimator_of({"predictive_weight": 0.5})


def test_what_changes_no_number_is_left_out():
    one = options_of(DeepGPRegressor(random_state=1, verbose=1, tuning=Tuning(compile=True), checkpoint="folder"))
    assert one == options_of(DeepGPRegressor())
