"""A kernel for each output of the first layer, through the estimator."""

import numpy as np
import pytest
import torch

from sodgp import Checkpoint, DeepGPRegressor, plots
from sodgp.errors import ConfigurationError, ModelFileError
from sodgp.estimator.files.records import from_record, to_record
from sodgp.estimator.many import fit_replicates


def lengthscales(layer):
    return layer.kernel.base_kernel.raw_lengthscale


def table(seed=0, rows=40):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=rows)


def regressor(**options):
    """`options` may be paths, such as ``inference__coupling``."""
    return DeepGPRegressor().set_params(**options)


OPTIONS = {"inference__separate_kernels": True, "max_iter": 12, "subset_size": 10, "random_state": 0}


@pytest.mark.parametrize("options", [{"n_layers": 2}, {"hidden_width": [2, 3]}, {"inference__objective": "predictive"}])
def test_the_whole_estimator(tmp_path, options):
    X, y = table()
    model = regressor(**OPTIONS, **options).fit(X, y)
    plain = regressor(**{**OPTIONS, "inference__separate_kernels": False}, **options).fit(X, y)
    width = model.model_.layers[0].q_mean.shape[-1]
    assert model.n_parameters_ - plain.n_parameters_ == (width - 1) * 4  # three lengthscales and a variance each
    lengths = lengthscales(model.model_.layers[0]).reshape(width, 3)
    assert not torch.allclose(lengths[0], lengths[1])
    model.save(tmp_path / "m.sodgp")
    again = DeepGPRegressor.load(tmp_path / "m.sodgp")
    np.testing.assert_allclose(again.predict(X, return_std=True), model.predict(X, return_std=True), rtol=1e-12)
    np.testing.assert_allclose(model.predict(X[3:4])[0], model.predict(X)[3])
    assert model.sample_y(X[:4], 3).shape == (4, 3)
    assert np.linalg.eigvalsh(model.predict(X[:4], return_cov=True)[1]).min() > 0
    assert plots.relevance(model, layer=1).shape == (3,)


def test_kernels_of_ones_own(tmp_path):
    from gpytorch.kernels import MaternKernel, ScaleKernel

    X, y = table()
    model = regressor(kernel=lambda d: ScaleKernel(MaternKernel(nu=1.5, ard_num_dims=d)), **OPTIONS).fit(X, y)
    model.save(tmp_path / "m.sodgp")
    np.testing.assert_allclose(DeepGPRegressor.load(tmp_path / "m.sodgp").predict(X), model.predict(X), rtol=1e-10)


def test_replicates_are_the_single_fits():
    data = [table(seed) for seed in range(2)]
    options = {name: value for name, value in OPTIONS.items() if name != "random_state"}
    alone = [regressor(random_state=s, **options).fit(*xy) for s, xy in enumerate(data)]
    together = fit_replicates([regressor(random_state=s, **options) for s in range(2)], data)
    for one, other, (X, _) in zip(alone, together, data, strict=True):
        np.testing.assert_allclose(other.predict(X, return_std=True), one.predict(X, return_std=True), rtol=1e-8)


FEW = {"max_iter": 2, "n_samples": 2, "n_predict_samples": 3, "subset_size": 10, "random_state": 0}


@pytest.mark.parametrize(
    ("options", "rows", "separates"),
    [
        ({}, 500, True),
        ({}, 499, True),
        ({"inference__objective": "bound"}, 499, False),
        ({"validation_fraction": 0.1, "inference__objective": "bound"}, 500, False),
        ({"inference__tie_label_noise": False}, 500, True),
        ({"inference__tie_label_noise": False}, 499, False),
        ({"inference__objective": "bound"}, 500, True),
        ({"n_layers": 1}, 500, False),
        ({"inference__parameterization": "paper"}, 500, False),
        ({"inference": "dsvi"}, 500, False),
        ({"inference__separate_kernels": False}, 500, False),
        ({"inference__separate_kernels": True}, 40, True),
    ],
    ids=str,
)
def test_many_rows_have_them_by_default(tmp_path, options, rows, separates):
    X, y = table(rows=rows)
    model = regressor(**{**FEW, **options}).fit(X, y)
    assert model.model_.has_separate_kernels is separates
    model.save(tmp_path / "m.sodgp")
    again = DeepGPRegressor.load(tmp_path / "m.sodgp")
    assert again.model_.has_separate_kernels is separates
    np.testing.assert_allclose(again.predict(X[:3]), model.predict(X[:3]), rtol=1e-12)


@pytest.mark.parametrize(
    "options", [{}, {"hidden_width": 1}, {"likelihood": "heavy_tailed"}, {"dtype": "float32"}], ids=str
)
@pytest.mark.parametrize("columns", [1, 2])
def test_narrow_models_and_two_targets_can_be_saved(tmp_path, options, columns):
    X, y = table(rows=500)
    X, Y = X[:, :columns], np.stack([y, y**2], 1)
    model = regressor(**{**FEW, **options}).fit(X, Y)
    assert model.model_.has_separate_kernels
    model.save(tmp_path / "m.sodgp")
    np.testing.assert_allclose(
        DeepGPRegressor.load(tmp_path / "m.sodgp").predict(X[:5]), model.predict(X[:5]), rtol=1e-6
    )


def test_a_kernel_given_as_code_is_shared_unless_asked_otherwise():
    from gpytorch.kernels import RBFKernel

    X, y = table(rows=500)
    model = regressor(**FEW, kernel=lambda d: RBFKernel(ard_num_dims=d)).fit(X, y)
    assert not model.model_.has_separate_kernels
    assert model.set_params(inference__separate_kernels=True).fit(X, y).model_.has_separate_kernels


def test_replicates_of_both_kinds_are_refused():
    X, y = table(rows=505)
    options = {**FEW, "inference__objective": "bound", "warm_start": True}
    warm = [regressor(**options).fit(X[:n], y[:n]) for n in (499, 503)]
    with pytest.raises(ConfigurationError, match="separate_kernels"):
        fit_replicates(warm, [(X, y), (X, y)])


def test_a_checkpoint_of_a_default_fit_resumes(tmp_path):
    X, y = table(rows=500)
    options = {**FEW, "checkpoint": Checkpoint(tmp_path / "run")}
    first = regressor(**options).fit(X, y)
    np.testing.assert_array_equal(regressor(**options).fit(X, y, resume=True).predict(X), first.predict(X))


@pytest.mark.parametrize(("first", "then"), [(499, 500), (500, 499)])
def test_a_warm_start_keeps_the_kernels_that_there_are(tmp_path, first, then):
    X, y = table(rows=500)
    model = regressor(**FEW, warm_start=True, inference__objective="bound").fit(X[:first], y[:first])
    model.fit(X[:then], y[:then])
    assert model.model_.has_separate_kernels is (first == 500)
    model.save(tmp_path / "m.sodgp")
    np.testing.assert_allclose(DeepGPRegressor.load(tmp_path / "m.sodgp").predict(X), model.predict(X), rtol=1e-12)


def test_a_file_cannot_claim_them_for_a_model_that_has_none():
    record = to_record(regressor(**FEW, n_layers=1).fit(*table()))
    record.info["method"]["separate_kernels"] = True
    with pytest.raises(ModelFileError, match="separate_kernels"):
        from_record(DeepGPRegressor, record)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_layers": 1}, "n_layers=2 or more"),
        ({"inference__parameterization": "paper"}, "parameterization"),
        ({"inference": "dsvi"}, "no parameter separate_kernels"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ConfigurationError, match=message):
        regressor(**{**OPTIONS, **options}).fit(*table())
