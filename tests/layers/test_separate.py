"""A kernel for each output of the first layer."""

import numpy as np
import pytest
import torch

from sodgp import DeepGPRegressor, plots
from sodgp.errors import ConfigurationError, ModelFileError
from sodgp.estimator.files.records import from_record, to_record
from sodgp.estimator.many import fit_replicates
from sodgp.kernels.make import make_kernel
from sodgp.layers.contract import Points
from sodgp.layers.prior import HiddenMean
from sodgp.layers.subset import SeparateLayer, SubsetLayer
from sodgp.linalg.draws import FreshDraws

M, B, D_IN, D, T = 6, 9, 3, 4, 5
COUPLINGS = ("ancestral", "marginal", "joint")


def randn(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def lengthscales(layer):
    return layer.kernel.base_kernel.raw_lengthscale


def fill(layer, seed=0):
    with torch.no_grad():
        layer.q_mean.copy_(randn(seed, *layer.q_mean.shape))
        layer.q_factor.copy_(0.3 * randn(seed + 1, *layer.q_factor.shape))
        layer.q_factor.diagonal(dim1=-2, dim2=-1).copy_(0.5 + randn(seed + 2, *layer.q_factor.shape[:-1]).abs())


def separate():
    kernel = make_kernel("rbf", D_IN, replicates=torch.Size([D]))
    layer = SeparateLayer(kernel, HiddenMean(randn(9, D_IN, D)), size=M, width=D, noise_variance=0.01)
    fill(layer)
    return layer


def points():
    return Points(randn(3, 1, M, D_IN), randn(4, 1, B, D_IN))


def draws():
    return FreshDraws(torch.Generator().manual_seed(5), T)


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_equal_kernels_are_one_kernel(coupling):
    """In value and gradient: the shared kernel's gradient is the sum of those of the separate ones."""
    ours = separate()
    shared = SubsetLayer(make_kernel("rbf", D_IN), ours.mean, size=M, width=D, noise_variance=0.01)
    fill(shared)
    results = []
    for layer in (ours, shared):
        out, kl = layer.propagate(points(), draws(), coupling)
        value = (out.subset * randn(6, *out.subset.shape)).sum() + (out.rest * randn(7, *out.rest.shape)).sum()
        parameters = (layer.q_mean, layer.q_factor, layer.raw_noise, lengthscales(layer))
        results.append((out.subset, out.rest, kl, *torch.autograd.grad(value + kl.sum(), parameters)))
    *first, ours_lengths = results[0]
    *second, shared_lengths = results[1]
    for a, b in zip(first, second, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(ours_lengths.reshape(D, D_IN).sum(0), shared_lengths.reshape(D_IN), rtol=1e-8, atol=1e-9)


class OneColumn:
    """The numbers of one output among those of all."""

    def __init__(self, column):
        self.draws, self.column, self.n_samples = draws(), column, T

    def subset(self, rows, width):
        return self.draws.subset(rows, D)[..., self.column : self.column + 1]

    def rest(self, rows, width):
        return self.draws.rest(rows, D)[..., self.column : self.column + 1]


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_every_output_has_its_own_kernel(coupling):
    layer = separate()
    with torch.no_grad():
        lengthscales(layer).add_(0.5 * randn(8, *lengthscales(layer).shape))
        layer.kernel.raw_outputscale.add_(0.5 * randn(10, *layer.kernel.raw_outputscale.shape))
    out, kl = layer.propagate(points(), draws(), coupling)
    total = torch.zeros_like(kl)
    for d in range(D):
        kernel = make_kernel("rbf", D_IN)
        alone = SubsetLayer(kernel, HiddenMean(layer.mean.weight[:, d : d + 1]), size=M, width=1, noise_variance=0.01)
        with torch.no_grad():
            kernel.base_kernel.raw_lengthscale.copy_(lengthscales(layer)[d].reshape(1, D_IN))
            kernel.raw_outputscale.copy_(layer.kernel.raw_outputscale[d].squeeze())
            alone.q_mean.copy_(layer.q_mean[:, d : d + 1])
            alone.q_factor.copy_(layer.q_factor[d : d + 1])
        single, single_kl = alone.propagate(points(), OneColumn(d), coupling)
        torch.testing.assert_close(out.subset[..., d : d + 1], single.subset)
        torch.testing.assert_close(out.rest[..., d : d + 1], single.rest)
        total = total + single_kl
    torch.testing.assert_close(kl, total)


def table(seed=0, rows=40):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=rows)


OPTIONS = {"separate_kernels": True, "max_iter": 12, "subset_size": 10, "random_state": 0}


@pytest.mark.parametrize("options", [{"n_layers": 2}, {"hidden_width": [2, 3]}, {"predictive_weight": 1.0}])
def test_the_whole_estimator(tmp_path, options):
    X, y = table()
    model = DeepGPRegressor(**OPTIONS, **options).fit(X, y)
    plain = DeepGPRegressor(**{**OPTIONS, "separate_kernels": False}, **options).fit(X, y)
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
    model = DeepGPRegressor(kernel=lambda d: ScaleKernel(MaternKernel(nu=1.5, ard_num_dims=d)), **OPTIONS).fit(X, y)
    model.save(tmp_path / "m.sodgp")
    np.testing.assert_allclose(DeepGPRegressor.load(tmp_path / "m.sodgp").predict(X), model.predict(X), rtol=1e-10)


def test_replicates_are_the_single_fits():
    data = [table(seed) for seed in range(2)]
    options = {name: value for name, value in OPTIONS.items() if name != "random_state"}
    alone = [DeepGPRegressor(random_state=s, **options).fit(*xy) for s, xy in enumerate(data)]
    together = fit_replicates([DeepGPRegressor(random_state=s, **options) for s in range(2)], data)
    for one, other, (X, _) in zip(alone, together, data, strict=True):
        np.testing.assert_allclose(other.predict(X, return_std=True), one.predict(X, return_std=True), rtol=1e-8)


FEW = {"max_iter": 2, "n_samples": 2, "n_predict_samples": 3, "subset_size": 10, "random_state": 0}


@pytest.mark.parametrize(
    ("options", "rows", "separates"),
    [
        ({}, 500, True),
        ({}, 499, False),
        ({"validation_fraction": 0.1}, 500, False),
        ({"predictive_weight": 0.0}, 500, True),
        ({"n_layers": 1}, 500, False),
        ({"reselect_every": 1}, 500, False),
        ({"parameterization": "paper"}, 500, False),
        ({"inference": "dsvi"}, 500, False),
        ({"inference": "dsvi", "separate_kernels": False}, 500, False),
        ({"separate_kernels": False}, 500, False),
        ({"separate_kernels": True}, 40, True),
    ],
    ids=str,
)
def test_many_rows_have_them_by_default(tmp_path, options, rows, separates):
    X, y = table(rows=rows)
    model = DeepGPRegressor(**{**FEW, **options}).fit(X, y)
    assert model.model_.has_separate_kernels is separates
    model.save(tmp_path / "m.sodgp")
    again = DeepGPRegressor.load(tmp_path / "m.sodgp")
    assert again.model_.has_separate_kernels is separates
    np.testing.assert_allclose(again.predict(X[:3]), model.predict(X[:3]), rtol=1e-12)


@pytest.mark.parametrize("options", [{}, {"hidden_width": 1}, {"noise": "heavy_tailed"}, {"dtype": "float32"}], ids=str)
@pytest.mark.parametrize("columns", [1, 2])
def test_narrow_models_and_two_targets_can_be_saved(tmp_path, options, columns):
    X, y = table(rows=500)
    X, Y = X[:, :columns], np.stack([y, y**2], 1)
    model = DeepGPRegressor(**{**FEW, **options}).fit(X, Y)
    assert model.model_.has_separate_kernels
    model.save(tmp_path / "m.sodgp")
    np.testing.assert_allclose(
        DeepGPRegressor.load(tmp_path / "m.sodgp").predict(X[:5]), model.predict(X[:5]), rtol=1e-6
    )


def test_a_kernel_given_as_code_is_shared_unless_asked_otherwise():
    from gpytorch.kernels import RBFKernel

    X, y = table(rows=500)
    model = DeepGPRegressor(**FEW, kernel=lambda d: RBFKernel(ard_num_dims=d)).fit(X, y)
    assert not model.model_.has_separate_kernels
    assert model.set_params(separate_kernels=True).fit(X, y).model_.has_separate_kernels


def test_a_warm_start_that_wants_to_move_the_subset_is_refused():
    X, y = table(rows=500)
    model = DeepGPRegressor(**FEW, warm_start=True).fit(X, y)
    with pytest.raises(ConfigurationError, match="separate_kernels, reselect_every"):
        model.set_params(reselect_every=1).fit(X, y)


def test_replicates_of_both_kinds_are_refused():
    X, y = table(rows=505)
    warm = [DeepGPRegressor(**FEW, warm_start=True).fit(X[:n], y[:n]) for n in (499, 503)]
    with pytest.raises(ConfigurationError, match="a kernel for each output of the first layer, or none"):
        fit_replicates(warm, [(X, y), (X, y)])


def test_a_checkpoint_of_a_default_fit_resumes(tmp_path):
    X, y = table(rows=500)
    options = {**FEW, "checkpoint": str(tmp_path / "run")}
    first = DeepGPRegressor(**options).fit(X, y)
    np.testing.assert_array_equal(DeepGPRegressor(**options).fit(X, y, resume=True).predict(X), first.predict(X))


@pytest.mark.parametrize(("first", "then"), [(499, 500), (500, 499)])
def test_a_warm_start_keeps_the_kernels_that_there_are(tmp_path, first, then):
    X, y = table(rows=500)
    model = DeepGPRegressor(**FEW, warm_start=True).fit(X[:first], y[:first])
    model.fit(X[:then], y[:then])
    assert model.model_.has_separate_kernels is (first == 500)
    model.save(tmp_path / "m.sodgp")
    np.testing.assert_allclose(DeepGPRegressor.load(tmp_path / "m.sodgp").predict(X), model.predict(X), rtol=1e-12)


def test_a_file_cannot_claim_them_for_a_model_that_has_none():
    record = to_record(DeepGPRegressor(**FEW, n_layers=1).fit(*table()))
    record.info["separate_kernels"] = True
    with pytest.raises(ModelFileError, match="separate_kernels"):
        from_record(DeepGPRegressor, record)


def test_a_file_that_never_heard_of_them_has_one_kernel():
    X, y = table(rows=500)
    model = DeepGPRegressor(**FEW, separate_kernels=False).fit(X, y)
    record = to_record(model)
    del record.info["separate_kernels"], record.info["parameters"]["separate_kernels"]
    np.testing.assert_allclose(from_record(DeepGPRegressor, record).predict(X), model.predict(X), rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_layers": 1}, "n_layers=2 or more"),
        ({"parameterization": "paper"}, "parameterization"),
        ({"reselect_every": 5}, "reselect_every"),
        ({"inference": "dsvi"}, "no meaning"),
        ({"separate_kernels": "yes"}, "separate_kernels"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ConfigurationError, match=message):
        DeepGPRegressor(**{**OPTIONS, **options}).fit(*table())
