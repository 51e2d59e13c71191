"""Weights of rows in fits: checked, rows of weight zero left out, kept where predictions and later fits need them."""

import numpy as np
import pandas as pd
import pytest
import torch

from sodgp import DSVI, DeepGPClassifier, DeepGPRegressor, SoD
from sodgp.errors import CheckpointError, ConfigurationError, InputError, ModelFileError
from sodgp.estimator.files.records import from_record, to_record
from sodgp.estimator.many import fit_replicates
from sodgp.estimator.row_weights import rows_of_table, with_weights

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (30, 2))
Y = np.sin(X[:, 0]) + 0.2 * RNG.normal(size=30)
W = np.where(np.arange(30) % 5 == 0, 0.0, RNG.uniform(0.5, 2.0, 30))
METHODS = [SoD(objective="collapsed"), SoD(objective="bound"), DSVI()]


def tiny(**options):
    return DeepGPRegressor(n_layers=2, subset_size=6, n_predict_samples=5, n_samples=2).set_params(
        **{"max_iter": 4, "random_state": 0, **options}
    )


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (W[:4], r"one number for each of 30 rows, the shape \[30\], not \[4\]"),
        (np.ones((30, 2)), r"not \[30, 2\]"),
        (1.0, r"not \[\]"),
        (np.where(np.arange(30) == 3, -1.0, 1.0), "negative or not finite in 1 row.*-1 in row 3"),
        (np.where(np.arange(30) == 7, np.nan, 1.0), "nan in row 7"),
        (np.full(30, np.inf), "inf in row 0"),
        (np.full(30, 1e308), "overflows"),
        (np.zeros(30), "zero in all rows"),
        (["a"] * 30, "must hold numbers only"),
    ],
)
def test_bad_weights_are_named(weight, message):
    with pytest.raises(InputError, match=message):
        tiny().fit(X, Y, weight)


def test_rows_of_weight_zero_are_left_out():
    """Bit for bit, and the numbers of rows are those of the given ones."""
    kept = np.flatnonzero(W)
    model, other = (
        tiny(validation_fraction=0.2).fit(X, Y, W),
        tiny(validation_fraction=0.2).fit(X[kept], Y[kept], W[kept]),
    )
    assert (model.predict(X) == other.predict(X)).all()
    assert (model.subset_indices_ == kept[other.subset_indices_]).all()
    assert (model.validation_indices_ == kept[other.validation_indices_]).all()
    assert model.fitted_.n_left_out == 6
    again = from_record(DeepGPRegressor, to_record(model))
    assert again.fitted_.n_left_out == 6
    assert (again.subset_indices_ == model.subset_indices_).all()


@pytest.mark.parametrize("kind", [list, torch.as_tensor, pd.DataFrame, np.asarray])
def test_rows_are_left_out_of_any_table(kind):
    values = kind([[1.0], [2.0], [3.0]])
    assert np.asarray(rows_of_table(values, np.array([0, 2]))).tolist() == [[1.0], [3.0]]
    given = with_weights(values, [1, 2, 3], [0.1, 0.2, 0.3], [1, 0, 1])
    assert (given.weight, given.y, given.noise_variance) == (None, [1, 3], [0.1, 0.3])


def test_a_row_that_is_left_out_has_no_say_in_what_a_table_becomes():
    frame = pd.DataFrame({"x": X[:, 0], "kind": ["a", "b", "c", "a", "b", "c"] * 4 + ["d"] * 6})
    model = tiny().fit(frame, Y, np.arange(30) < 24)
    assert "d" not in model.columns_["kind"]


def test_the_scaling_is_that_of_repeated_rows():
    times = np.arange(30) % 4
    weighted, repeated = tiny().fit(X, Y, times).fitted_, tiny().fit(X.repeat(times, 0), Y.repeat(times)).fitted_
    for name in ("x_scaler", "y_scaler"):
        for part in ("mean_", "scale_"):
            np.testing.assert_allclose(
                getattr(getattr(weighted, name), part), getattr(getattr(repeated, name), part), rtol=1e-12
            )
    assert weighted.n_rows == (times > 0).sum()


@pytest.mark.parametrize(
    "method", [SoD(objective="collapsed"), SoD(objective="bound"), DSVI()], ids=lambda m: m.objective
)
def test_a_saved_model_predicts_with_its_weights(method, tmp_path):
    model = tiny(inference=method).fit(X, Y, W)
    model.save(tmp_path / "m.sodgp")
    again = DeepGPRegressor.load(tmp_path / "m.sodgp")
    assert (again.predict(X) == model.predict(X)).all()
    record = to_record(model)
    if method.name == "dsvi":
        return
    assert (record.tensors["0.subset.weight"] > 0).all()
    record.tensors["0.subset.weight"][0] = -1.0
    with pytest.raises(ModelFileError, match=r"subset\.weight is not positive|subset\.weight"):
        from_record(DeepGPRegressor, record)


def test_a_resumed_fit_needs_the_same_weights(tmp_path):
    folder = tmp_path / "run"
    whole = tiny(max_iter=60).fit(X, Y, W)

    def stop(state):
        return state.iteration == 50

    tiny(max_iter=60, checkpoint=folder, callbacks=stop).fit(X, Y, W)
    for other in (None, W + 1.0, np.where(W > 0, W * 2.0, 0.0)):
        with pytest.raises(CheckpointError, match="sample_weight"):
            tiny(max_iter=60, checkpoint=folder, callbacks=stop).fit(X, Y, other, resume=True)
    resumed = tiny(max_iter=60, checkpoint=folder, callbacks=stop).fit(X, Y, W, resume=True)
    assert resumed.history_.bound == whole.history_.bound[: len(resumed.history_.bound)]


@pytest.mark.parametrize(
    "method", [SoD(objective="bound"), SoD(objective="collapsed"), DSVI()], ids=lambda m: m.objective
)
def test_a_warm_start_takes_other_weights(method):
    model = tiny(inference=method, warm_start=True).fit(X, Y, W)
    before = model.history_.bound[-1]
    assert model.fit(X, Y, W).history_.bound[0] > before - 5.0
    assert np.isfinite(model.fit(X, Y).predict(X)).all()
    assert np.isfinite(model.fit(X, Y, W * 2.0).predict(X)).all()


def test_members_and_restarts_have_the_weights():
    mixture = tiny(n_members=2).fit(X, Y, W)
    assert all(member.fitted_.weight_s is not None for member in mixture.members_)
    assert len(tiny(n_restarts=2).fit(X, Y, W).restart_bounds_) == 2
    together, alone = [tiny(random_state=seed) for seed in (0, 1)], tiny(random_state=1).fit(X, Y, W)
    fit_replicates(together, [(X, Y, None, W), (X, Y, None, W)])
    np.testing.assert_allclose(together[1].predict(X), alone.predict(X), rtol=1e-6, atol=1e-6)
    with pytest.raises(ConfigurationError, match="all have a sample_weight, or none"):
        fit_replicates([tiny(random_state=seed) for seed in (0, 1)], [(X, Y, None, W + 1.0), (X, Y)])


def test_a_method_or_an_option_that_counts_every_row_once_is_named():
    with pytest.raises(ConfigurationError, match="mean_field' has"):
        tiny(inference="mean_field").set_params(n_samples=10).fit(X, Y, W)
    with pytest.raises(ConfigurationError, match="tie_label_noise=False is one label noise"):
        tiny(inference=SoD(tie_label_noise=False)).fit(X, Y, W)


def test_weights_and_known_noise_are_both_used():
    """Each of the w observations has the noise of its row."""
    plain, known = (
        tiny(inference=SoD(objective="bound"), n_layers=1).fit(X, Y, W, noise_variance=n) for n in (0.1, 0.5)
    )
    assert plain.likelihood_.name == "known_noise"
    assert not np.allclose(plain.predict(X), known.predict(X))
    mean_noise = np.average(np.linspace(0.1, 1.0, 30), weights=W)
    varied = tiny(inference=SoD(objective="bound")).fit(X, Y, W, noise_variance=np.linspace(0.1, 1.0, 30))
    scale = varied.fitted_.y_scaler.scale_[0] ** 2
    np.testing.assert_allclose(varied.model_.noise_variance.item() * scale, mean_noise, rtol=1e-4)


def test_shares_of_classes_are_weighted(tmp_path):
    model = DeepGPClassifier(n_layers=1, max_iter=3, random_state=0).fit(X, Y > 0, np.where(Y > 0, 2.5, 1.0))
    counts = [(Y <= 0).sum(), 2.5 * (Y > 0).sum()]
    np.testing.assert_allclose(model.fitted_.columns.class_rows, counts)
    model.save(tmp_path / "m.sodgp")
    again = DeepGPClassifier.load(tmp_path / "m.sodgp")
    np.testing.assert_array_equal(again.fitted_.columns.class_rows, model.fitted_.columns.class_rows)
