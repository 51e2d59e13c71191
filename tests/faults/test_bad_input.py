"""Bad data and bad options: each has a typed error that says where and what to do, or a documented treatment."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from sodgp import DeepGPRegressor, SoD
from sodgp.errors import ConfigurationError, InputError, NumericalWarning, SubsetSizeWarning
from sodgp.model.architecture import Initialization

QUICK = {"max_iter": 10, "n_samples": 2, "n_predict_samples": 5, "random_state": 0}
RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(30)
NAMES = ["age", "mass", "dose"]
FRAME = pd.DataFrame(X, columns=NAMES)


def fit(rows=X, targets=Y, **options):
    return DeepGPRegressor().set_params(**{**QUICK, **options}).fit(rows, targets)


def spoilt(values, place, number):
    values = values.copy()
    values[place] = number
    return values


def assert_sensible(model, rows, targets):
    """Finite predictions in the range of the targets, with a spread that is not absurd."""
    mean, std = model.predict(rows, return_std=True)
    spread = max(np.std(targets), 1e-9)
    assert np.isfinite(mean).all()
    assert np.abs(mean - np.mean(targets)).max() < 10 * spread
    assert (std > 0).all()
    assert std.max() < 10 * spread


# ----- values that are not numbers


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_placed_by_column_and_row(number):
    with pytest.raises(InputError, match="X is not finite in columns 1; rows 4"):
        fit(spoilt(X, (4, 1), number))
    with pytest.raises(InputError, match="X is not finite in columns mass; rows 4"):
        fit(pd.DataFrame(spoilt(X, (4, 1), number), columns=NAMES), columns="numeric")
    with pytest.raises(InputError, match="y is not finite in rows 7"):
        fit(targets=spoilt(Y, 7, number))
    with pytest.raises(InputError, match=r"X is not finite in columns 0; rows 2\. Impute or drop those rows\.$"):
        fit().predict(spoilt(X, (2, 0), number))


def test_many_bad_rows_are_counted():
    with pytest.raises(InputError, match="rows 0, 1, 2, 3, 4 and 3 more"):
        fit(spoilt(X, (slice(8), 2), np.nan))


def test_missing_values_of_a_second_target_are_placed():
    with pytest.raises(InputError, match="y is not finite in columns 1; rows 3"):
        fit(targets=spoilt(np.column_stack([Y, Y]), (3, 1), np.nan))


def test_text_and_date_columns_are_named():
    frame = FRAME.assign(colour="red", shape=pd.Categorical(["round"] * 30))
    with pytest.raises(InputError, match="columns 'colour', 'shape'"):
        fit(frame, columns="numeric")
    with pytest.raises(InputError, match="column 'day'"):
        fit(FRAME.assign(day=pd.date_range("2020-01-01", periods=30)), columns="numeric")
    mixed = np.column_stack([X.astype(object), ["red"] * 30])
    with pytest.raises(InputError, match="column 3"):
        fit(mixed)
    with pytest.raises(InputError, match="column 3"):
        fit(mixed.tolist())
    with pytest.raises(InputError, match="column 'colour'"):
        fit(FRAME).predict(FRAME.assign(colour="red"))


def test_text_targets_are_refused():
    with pytest.raises(InputError, match=r"y holds text or dates in column 0\. Classes need DeepGPClassifier"):
        fit(targets=np.array(["low", "high"] * 15))
    with pytest.raises(InputError, match="y holds text or dates in column 'grade'"):
        fit(targets=pd.DataFrame({"grade": ["low", "high"] * 15}))
    days = pd.Series(pd.date_range("2024-01-01", periods=30), name="day")
    for series in (days, days - days[0], pd.Series(["low", "high"] * 15, name="day")):
        with pytest.raises(InputError, match="y holds text or dates in column 'day'"):
            fit(targets=series)
    with pytest.raises(InputError, match="y holds text or dates in column 0"):
        fit(targets=pd.DatetimeIndex(days.to_numpy()))
    fit(targets=pytest.importorskip("pyarrow").array(Y))


def test_numbers_in_object_columns_are_taken():
    expected = fit().predict(X)
    assert_array_equal(fit(FRAME.astype(object)).predict(FRAME.astype(object)), expected)


def test_text_among_the_targets_is_named():
    targets = Y.astype(object)
    targets[3] = "high"
    with pytest.raises(InputError, match="y holds text or dates in column 0"):
        fit(targets=targets)


def test_complex_numbers_are_refused():
    with pytest.raises(InputError, match="Complex data"):
        fit(X + 1j)


# ----- shapes


@pytest.mark.parametrize(
    ("rows", "targets", "message"),
    [
        (np.empty((0, 3)), np.empty(0), "0 sample"),
        (np.empty((30, 0)), Y, "0 feature"),
        (X[:, 0], Y, "2D array"),
        (X[:, :, None], Y, "dim 3"),
        (X, Y[:-1], "inconsistent numbers of samples"),
        (X, None, "requires y"),
    ],
    ids=["no-rows", "no-columns", "vector", "cube", "lengths", "no-targets"],
)
def test_shapes_that_do_not_fit_are_refused(rows, targets, message):
    with pytest.raises(InputError, match=message):
        fit(rows, targets)


def test_other_columns_at_predict_are_refused():
    model = fit(FRAME)
    with pytest.raises(InputError, match="has 2 features, but DeepGPRegressor is expecting 3"):
        fit().predict(X[:, :2])
    with pytest.raises(InputError, match="dose"):
        model.predict(FRAME.rename(columns={"dose": "weight"}))
    with pytest.raises(InputError, match="same order"):
        model.predict(FRAME[NAMES[::-1]])
    with pytest.raises(InputError):
        model.predict_distribution(FRAME[NAMES[:2]])
    with pytest.raises(InputError):
        model.sample_y(FRAME[NAMES[:2]])


def test_predicting_before_fitting_says_so():
    for call in ("predict", "predict_distribution", "sample_y"):
        with pytest.raises(NotFittedError):
            getattr(DeepGPRegressor(), call)(X)


def test_joint_predictions_refuse_more_rows_than_a_full_matrix_serves():
    model = fit()
    with pytest.raises(InputError, match="at most 1000 rows, not 1001"):
        model.predict(np.zeros((1001, 3)), return_cov=True)
    with pytest.raises(InputError, match="at most 1000 rows, not 1001"):
        model.sample_y(np.zeros((1001, 3)))
    with pytest.raises(InputError, match="not for both"):
        model.predict(X, return_std=True, return_cov=True)
    with pytest.raises(ConfigurationError, match="n_samples"):
        model.sample_y(X, n_samples=0)


# ----- degenerate data that is fitted all the same


@pytest.mark.parametrize("inference", ["sod", "dsvi"])
def test_a_constant_column_changes_nothing(inference):
    model = fit(np.column_stack([X, np.full(30, 7.0)]), inference=inference)
    assert_sensible(model, np.column_stack([X, np.full(30, 7.0)]), Y)
    # Another value than the constant is far away, not an error.
    assert np.isfinite(model.predict(np.column_stack([X, np.zeros(30)]))).all()


def test_columns_that_are_all_constant_predict_the_mean():
    model = fit(np.ones((30, 2)), max_iter=200, learning_rate=0.05)
    mean = model.predict(np.ones((4, 2)))
    assert_allclose(mean, mean[0])
    assert abs(mean[0] - Y.mean()) < Y.std()


@pytest.mark.parametrize("inference", ["sod", "dsvi"])
@pytest.mark.parametrize("subset_size", [None, 20])
def test_duplicate_rows_are_fitted(inference, subset_size):
    rows, targets = np.repeat(X[:10], 3, axis=0), np.repeat(Y[:10], 3)
    model = fit(rows, targets, inference=inference, subset_size=subset_size)
    assert_sensible(model, rows, targets)
    assert_allclose(model.predict(rows)[0::3], model.predict(rows)[1::3])


@pytest.mark.parametrize("level", [0.0, 7.0, 1e12])
def test_a_constant_target_is_predicted_exactly(level):
    model = fit(targets=np.full(30, level))
    mean, std = model.predict(X, return_std=True)
    assert_allclose(mean, level, rtol=1e-9, atol=1e-9)
    assert np.isfinite(std).all()


@pytest.mark.parametrize("inference", ["sod", "dsvi", "mean_field", "sghmc"])
@pytest.mark.parametrize("n_rows", [1, 2])
def test_one_and_two_rows_are_fitted(inference, n_rows):
    options = {"inference__n_posterior_samples": 4, "inference__thinning": 2} if inference == "sghmc" else {}
    if inference in ("sghmc", "mean_field"):
        options["n_samples"] = 10
    model = fit(X[:n_rows], Y[:n_rows], inference=inference, **options)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()


def test_one_column_is_fitted():
    model = fit(X[:, :1])
    assert model.n_features_in_ == 1
    assert_sensible(model, X[:, :1], Y)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_units_of_any_size_are_scaled_away(scale, dtype):
    expected = fit(subset="random", dtype=dtype).predict(X)
    # Rounding of the scaling grows through the steps of training.
    close = {"rtol": 1e-2} if dtype == "float32" else {"rtol": 1e-5}
    assert_allclose(fit(X * scale, subset="random", dtype=dtype).predict(X * scale), expected, **close)
    assert_allclose(fit(targets=Y * scale, subset="random", dtype=dtype).predict(X) / scale, expected, **close)


def test_rows_far_from_the_data_get_the_prior():
    mean, std = fit().predict(X * 1e12, return_std=True)
    assert_allclose(mean, mean[0])
    assert_allclose(mean, Y.mean(), atol=0.1)
    assert (std > 0.5 * Y.std()).all()


def test_units_whose_variance_overflows_are_refused():
    with pytest.raises(InputError, match="variance of column 1 of X overflows"):
        fit(X * (1.0, 1e200, 1.0))
    with pytest.raises(InputError, match="of y overflows"):
        fit(targets=Y * 1e200)


# ----- the subset


@pytest.mark.parametrize("objective", ["bound", "leave_one_out"])
def test_asking_for_more_subset_rows_than_there_are_warns_and_takes_all(objective):
    with pytest.warns(SubsetSizeWarning, match="subset_size=50 is more than the 30 rows"):
        model = fit(subset_size=50, inference=SoD(objective=objective))
    assert_array_equal(np.sort(model.subset_indices_), np.arange(30))
    assert model.history_.terms["rest"] == [0.0, 0.0]
    assert_sensible(model, X, Y)


@pytest.mark.parametrize("subset_size", [None, "paper", 30])
def test_a_subset_that_the_user_did_not_ask_to_be_larger_does_not_warn(subset_size):
    assert len(fit(subset_size=subset_size).subset_indices_) <= 30


@pytest.mark.parametrize("batch_size", [1, 10])
def test_a_batch_that_holds_only_the_subset_is_refused(batch_size):
    with pytest.raises(ConfigurationError, match=rf"batch_size={batch_size} counts the 10 rows of the subset"):
        fit(subset_size=10, batch_size=batch_size)
    with pytest.warns(SubsetSizeWarning):  # no rest, so nothing to see
        fit(subset_size=31, batch_size=batch_size)


def test_a_narrow_hidden_layer_in_the_papers_family_warns():
    with pytest.warns(NumericalWarning, match="hidden width of 1 or 2"):
        fit(inference__parameterization="paper", hidden_width=1)


# ----- options


UNKNOWN = {
    "inference": ("vi", "'sod', 'dsvi', 'sghmc', 'mean_field'"),
    "likelihood": ("beta", "'gaussian', 'heteroscedastic', 'heavy_tailed'"),
    "subset": ("best", "'kmeans', 'random'"),
    "kernel": ("periodic", "'rbf', 'matern12', 'matern32', 'matern52', 'rq'"),
    "inference__parameterization": ("natural", "'whitened', 'paper'"),
    "inference__coupling": ("loose", "'ancestral', 'marginal', 'joint'"),
    "hidden_mean": ("quadratic", "'linear', 'zero'"),
    "tuning__schedule": ("linear", "'constant', 'cosine'"),
    "dtype": ("float16", "'float64', 'float32'"),
    "device": ("abacus", "'auto', 'cpu' or 'cuda'"),
    "subset_size": ("half", "a number of rows, 'paper' or None"),
    "tuning__jitter": ("large", "a number, 'program' or None"),
}


@pytest.mark.parametrize("option", UNKNOWN)
def test_an_unknown_value_is_named_with_those_that_exist(option):
    value, known = UNKNOWN[option]
    with pytest.raises(ConfigurationError, match=known) as caught:
        fit(**{option: value})
    assert value in str(caught.value)


OUT_OF_RANGE = [
    ("n_layers", 0),
    ("n_layers", 1.5),
    ("hidden_width", 0),
    ("subset_size", 0),
    ("subset_size", 2.5),
    ("kernel", None),
    ("kernel", lambda input_dim: input_dim),
    ("inference__objective", "evidence"),
    ("likelihood__outlier_probability", 1.0),
    ("n_samples", 0),
    ("n_samples", True),
    ("n_predict_samples", 0),
    ("max_iter", 0),
    ("batch_size", 0),
    ("learning_rate", 0.0),
    ("learning_rate", np.nan),
    ("tuning__schedule", None),
    ("tuning__initialization", "paper"),
    ("tuning__initialization", Initialization(means="ones")),
    ("tuning__initialization", Initialization(noise_variance=-1.0)),
    ("tuning__initialization", Initialization(lengthscale=0.0)),
    ("tuning__jitter", -1e-6),
    ("random_state", "seed"),
    ("random_state", -1),
    ("verbose", "loud"),
    ("checkpoint", 3),
    ("checkpoint", ""),
    ("tuning", "none"),
    ("likelihood", 3),
    ("inference", DeepGPRegressor),
    ("callbacks", "print"),
    ("callbacks", ["print"]),
]


@pytest.mark.parametrize(("option", "value"), OUT_OF_RANGE, ids=lambda part: str(part)[:20])
def test_a_value_out_of_range_is_refused_by_name(option, value):
    with pytest.raises(ConfigurationError, match=option.split("__")[-1]):
        fit(**{option: value})


def test_there_is_one_width_for_each_hidden_layer():
    with pytest.raises(ConfigurationError, match=r"hidden_width=\[2, 2, 2\] has 3 entries, but n_layers=3"):
        fit(n_layers=3, hidden_width=[2, 2, 2])
    assert len(fit(hidden_width=[2, 2, 2]).model_.layers) == 4


SAMPLER = [
    ("inference__n_posterior_samples", 0),
    ("inference__thinning", 0),
    ("inference__step_size", -0.1),
    ("inference__n_chains", 0),
    ("inference__n_chains", 3),
]


@pytest.mark.parametrize(("option", "value"), SAMPLER)
def test_a_samplers_value_out_of_range_is_refused_by_name(option, value):
    with pytest.raises(ConfigurationError, match=option.split("__")[-1]):
        fit(inference="sghmc", n_samples=10, **{option: value})


def test_values_of_a_wrong_type_in_a_method_are_refused_by_name():
    """In a process of its own: here the run-time check of types would speak first."""
    script = """
from sodgp import DSVI, SGHMC, SoD
from sodgp.errors import ConfigurationError
from sodgp.likelihoods import Gaussian
for method, option, value in [
    (SoD, "tie_label_noise", "no"), (SoD, "separate_kernels", 1), (SoD, "objective", 1),
    (SoD, "member_spread", "wide"), (SoD, "member_spread", True), (SoD, "coupling", 3),
    (DSVI, "learn_inducing_inputs", "no"), (DSVI, "objective", None), (SGHMC, "step_size", "small"),
    (SGHMC, "thinning", 1.5), (Gaussian, "outlier_probability", "few"),
]:
    try:
        method(**{option: value})
    except ConfigurationError as error:
        print(option in str(error))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True"] * 11, done.stderr


UNUSED = {
    "sod": {
        "inference__learn_inducing_inputs": False,
        "inference__n_posterior_samples": 7,
        "inference__thinning": 7,
        "inference__step_size": 0.1,
        "inference__n_chains": 2,
    },
    "dsvi": {
        "subset": "random",
        "inference__parameterization": "paper",
        "inference__coupling": "joint",
        "inference__tie_label_noise": False,
    },
    "sghmc": {
        "subset": "random",
        "inference__parameterization": "paper",
        "inference__coupling": "joint",
        "n_samples": 7,
    },
    "mean_field": {
        "inference__learn_inducing_inputs": False,
        "batch_size": 7,
        "n_samples": 7,
        "inference__n_chains": 2,
    },
}


@pytest.mark.parametrize(
    ("inference", "option", "value"), [(i, option, value) for i, o in UNUSED.items() for option, value in o.items()]
)
def test_an_option_that_the_method_does_not_use_is_refused_by_name(inference, option, value):
    options = {"inference": inference, "n_samples": 10, option: value}
    says = (
        f"has no parameter {option.split('__')[1]}" if "__" in option else f"{option}=.* has no meaning for inference="
    )
    with pytest.raises(ConfigurationError, match=says):
        fit(**options)


def test_mean_field_refuses_other_kernels_and_too_many_rows():
    with pytest.raises(ConfigurationError, match="RBF"):
        fit(inference="mean_field", n_samples=10, kernel="rq")
    with pytest.raises(InputError, match="5000 rows"):
        fit(np.zeros((5001, 1)), np.zeros(5001), inference="mean_field", n_samples=10)


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(ConfigurationError, match="sees no CUDA device"):
        fit(device="cuda")


def test_bad_options_are_found_before_the_data_is_touched():
    with pytest.raises(ConfigurationError):
        fit("not data", inference__coupling="loose")


def raising(state):
    raise RuntimeError("a user's mistake")


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (X, {"inference__coupling": "loose"}),
        (X, {"subset_size": 10, "batch_size": 10}),
        (X, {"callbacks": [raising]}),
        (FRAME.assign(dose=np.inf), {}),
        (np.zeros((5001, 1)), {"inference": "mean_field", "n_samples": 10}),
    ],
    ids=["option", "batch", "callback", "data", "size"],
)
def test_a_refused_fit_leaves_an_earlier_one_whole(rows, options):
    model = fit()
    before = model.predict(X)
    with pytest.raises((ConfigurationError, InputError, RuntimeError)):
        model.set_params(**options).fit(rows * 100.0, np.resize(Y, len(rows)))
    assert_array_equal(model.predict(X), before)


def test_a_refused_first_fit_leaves_nothing():
    model = DeepGPRegressor(subset_size=10, batch_size=10)
    with pytest.raises(ConfigurationError):
        model.fit(X, Y)
    assert not [name for name in vars(model) if name.endswith("_") or name.startswith("_")]


def test_training_data_is_not_changed():
    rows, targets = X.copy(), Y.copy()
    fit(rows, targets)
    assert_array_equal(rows, X)
    assert_array_equal(targets, Y)


# ----- what scikit-learn lets pass


def test_none_among_objects_is_a_missing_value_with_a_place():
    targets = Y.astype(object)
    targets[7] = None
    with pytest.raises(InputError, match="y is not finite in rows 7"):
        fit(targets=targets)


def test_dates_in_arrays_are_refused():
    dates = np.full(X.shape, np.datetime64("2020-01-01")) + np.arange(len(X))[:, None]
    with pytest.raises(InputError, match="X holds text or dates in columns 0, 1, 2"):
        fit(dates)
    with pytest.raises(InputError, match="y holds text or dates in column 0"):
        fit(targets=dates[:, 0])


def test_complex_numbers_are_refused_without_printing_them():
    with pytest.raises(InputError, match="real and imaginary parts") as caught:
        fit(X + 1j)
    assert len(str(caught.value)) < 200


def test_targets_whose_variance_underflows_are_refused_and_constant_ones_are_not():
    with pytest.raises(InputError, match="column 0 of y underflows"):
        fit(targets=Y * 1e-200)
    assert_sensible(fit(targets=Y * 1e-140), X, Y * 1e-140)
    assert np.isfinite(fit(targets=np.full(len(X), 3.0)).predict(X)).all()


# ----- the grid of hostile data


def test_a_sample_of_the_hostile_grid_ends_in_numbers_or_typed_errors():
    """The small version of ``python -m benchmarks.reliability.hostile``."""
    from benchmarks.reliability.hostile import METHODS, one
    from benchmarks.reliability.hostile_sets import cases

    grid = list(cases())
    assert len(grid) >= 300
    assert len({case.name for case in grid}) == len(grid)
    small = [case for case in grid if case.n_rows <= 40 and case.n_columns <= 5][::13]
    found = [one(case, list(METHODS)[number % 5]) for number, case in enumerate(small)]
    assert [result for result in found if result["outcome"].startswith("unexplained")] == []
    assert sum(result["outcome"] == "finite" for result in found) > 10
    assert any(result["outcome"] == "InputError" for result in found)
