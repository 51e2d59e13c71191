"""Kernels given as code: saved by their GPyTorch description, or refused with the reason."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import torch
from benchmarks.reliability.mutations import parts, signed
from gpytorch.constraints import GreaterThan, Interval, LessThan
from gpytorch.kernels import (
    CosineKernel,
    LinearKernel,
    MaternKernel,
    PeriodicKernel,
    RBFKernel,
    RQKernel,
    ScaleKernel,
)
from gpytorch.priors import (
    GammaPrior,
    HalfCauchyPrior,
    HalfNormalPrior,
    LogNormalPrior,
    NormalPrior,
    SmoothedBoxPrior,
    UniformPrior,
)

from sodgp import DeepGPRegressor
from sodgp.errors import ConfigurationError, ModelFileError
from sodgp.kernels.dense import covariance
from sodgp.kernels.description import DescribedKernel, built, described
from sodgp.kernels.make import make_kernel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
Y = np.sin(X[:, 0]) + X[:, 1]


def warm(kernel):
    """The kernel with values of its own in every parameter."""
    generator = torch.Generator().manual_seed(1)
    for parameter in kernel.parameters():
        parameter.data = parameter.data + 0.3 * torch.randn(parameter.shape, generator=generator)
    return kernel


KERNELS = {
    "rbf": lambda dims: RBFKernel(),
    "rbf-ard": lambda dims: ScaleKernel(RBFKernel(ard_num_dims=dims)),
    "matern": lambda dims: ScaleKernel(MaternKernel(nu=0.5, ard_num_dims=dims)),
    "rq": lambda dims: RQKernel(ard_num_dims=dims, alpha_constraint=GreaterThan(0.25)),
    "periodic": lambda dims: PeriodicKernel(),
    "periodic-ard": lambda dims: PeriodicKernel(ard_num_dims=dims, period_length_constraint=LessThan(5.0)),
    "linear": lambda dims: LinearKernel() + LinearKernel(ard_num_dims=dims),
    "columns": lambda dims: ScaleKernel(RBFKernel(active_dims=(0, 2), ard_num_dims=2)) * LinearKernel(active_dims=(1,)),
    "nested": lambda dims: ScaleKernel(RBFKernel() + ScaleKernel(MaternKernel(nu=1.5) * PeriodicKernel())),
    "interval": lambda dims: ScaleKernel(RBFKernel(lengthscale_constraint=Interval(0.1, 7.0))),
    "priors": lambda dims: ScaleKernel(
        RBFKernel(lengthscale_prior=GammaPrior(3.0, 6.0))
        + MaternKernel(lengthscale_prior=LogNormalPrior(0.1, 1.0))
        + PeriodicKernel(period_length_prior=UniformPrior(0.5, 2.0), lengthscale_prior=HalfNormalPrior(2.0))
        + LinearKernel(variance_prior=HalfCauchyPrior(0.3)),
        outputscale_prior=NormalPrior(1.0, 0.5),
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_description_gives_back_the_same_kernel_through_json(name):
    kernel = make_kernel(lambda dims: warm(KERNELS[name](dims)), 3)
    again = built(json.loads(json.dumps(described(kernel), allow_nan=False)), 3).double()
    points = torch.as_tensor(X)
    torch.testing.assert_close(covariance(again, points), covariance(kernel, points), rtol=0, atol=0)
    assert again.state_dict().keys() == kernel.state_dict().keys()
    assert described(again) == described(kernel)
    priors = [prior.log_prob(closure(module)).sum() for _, module, prior, closure, _ in again.named_priors()]
    expected = [prior.log_prob(closure(module)).sum() for _, module, prior, closure, _ in kernel.named_priors()]
    assert priors == expected


@pytest.mark.parametrize("name", ["columns", "nested", "priors"])
def test_a_model_with_a_kernel_as_code_is_saved_predicts_the_same_and_can_be_fitted_again(name, tmp_path):
    options = {"subset_size": 8, "max_iter": 4, "n_predict_samples": 5, "random_state": 0}
    model = DeepGPRegressor(kernel=KERNELS[name], **options).fit(X, Y)
    model.save(tmp_path / "m.sodgp")
    again = DeepGPRegressor.load(tmp_path / "m.sodgp")
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=0, atol=1e-12)
    assert isinstance(again.kernel, DescribedKernel)
    again.save(tmp_path / "twice")
    twice = DeepGPRegressor.load(tmp_path / "twice")
    np.testing.assert_array_equal(twice.predict(X), again.predict(X))
    np.testing.assert_allclose(twice.fit(X, Y).predict(X), model.predict(X), rtol=1e-9)
    with pytest.raises(ConfigurationError, match="known for layers with 3 inputs only, not 2"):
        again.fit(X[:, :2], Y)


def test_layers_of_different_widths_have_descriptions_of_their_own(tmp_path):
    model = DeepGPRegressor(
        kernel=KERNELS["rbf-ard"], subset_size=8, max_iter=2, hidden_width=[2, 4], n_layers=3, random_state=0
    ).fit(X, Y)
    model.save(tmp_path / "m")
    again = DeepGPRegressor.load(tmp_path / "m")
    assert sorted(again.kernel.descriptions) == [2, 3, 4]
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_a_kernel_object_is_taken_where_it_fits_every_layer(tmp_path):
    kernel = ScaleKernel(RBFKernel(ard_num_dims=3))
    model = DeepGPRegressor(kernel=kernel, subset_size=8, max_iter=2, random_state=0).fit(X, Y)
    assert model.model_.layers[0].kernel is not model.model_.layers[1].kernel
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(DeepGPRegressor.load(tmp_path / "m").predict(X), model.predict(X))
    with pytest.raises(ConfigurationError, match=r"LinearKernel has ard_num_dims=3, but a layer gives it 2 inputs"):
        make_kernel(LinearKernel(ard_num_dims=3), 2)
    with pytest.raises(ConfigurationError, match=r"ard_num_dims=3, but a layer gives it 2 inputs.*function"):
        DeepGPRegressor(kernel=kernel, hidden_width=2, subset_size=8, max_iter=2).fit(X, Y)
    with pytest.raises(ConfigurationError, match=r"looks at columns \[5\], but a layer has 3 inputs"):
        DeepGPRegressor(kernel=RBFKernel(active_dims=(5,)), subset_size=8, max_iter=2).fit(X, Y)


def test_columns_in_the_tensors_that_the_description_does_not_have_are_refused(tmp_path):
    model = DeepGPRegressor(kernel=KERNELS["columns"], subset_size=8, max_iter=2, random_state=0).fit(X, Y)
    model.save(tmp_path / "m.sodgp")
    info, tensors = parts((tmp_path / "m.sodgp").read_bytes())
    name = next(name for name in tensors if name.endswith("active_dims"))
    tensors[name] = tensors[name] + 7
    (tmp_path / "m.sodgp").write_bytes(signed(info, tensors))
    with pytest.raises(ModelFileError, match="active_dims"):
        DeepGPRegressor.load(tmp_path / "m.sodgp")


class Mine(RBFKernel):
    """Code of the user's."""


def transformed(dims):
    return RBFKernel(lengthscale_constraint=GreaterThan(0.1, transform=torch.exp, inv_transform=torch.log))


UNDESCRIBED = {
    "class": (lambda dims: Mine(), "Mine is not one of RBFKernel"),
    "part": (lambda dims: ScaleKernel(CosineKernel(active_dims=(0,)) + RBFKernel()), "CosineKernel is not one of"),
    "transform": (transformed, "constraint of lengthscale of RBFKernel"),
    "prior": (
        lambda dims: RBFKernel(lengthscale_prior=SmoothedBoxPrior(0.1, 2.0)),
        "prior on lengthscale of RBFKernel",
    ),
}


@pytest.mark.parametrize("name", UNDESCRIBED)
def test_what_has_no_description_is_refused_with_the_reason_and_the_model_stays_usable(name, tmp_path):
    function, reason = UNDESCRIBED[name]
    model = DeepGPRegressor(kernel=function, subset_size=8, max_iter=2, random_state=0).fit(X, Y)
    with pytest.raises(ModelFileError, match=f"{reason}.*pickle or joblib"):
        model.save(tmp_path / "m")
    assert not any(tmp_path.iterdir())
    assert np.isfinite(model.predict(X)).all()


def test_a_kernel_whose_values_are_not_those_of_its_name_is_refused(tmp_path):
    model = DeepGPRegressor(kernel=lambda dims: PeriodicKernel(), subset_size=8, max_iter=2, random_state=0).fit(X, Y)
    kernel = model.model_.layers[0].kernel
    forward = kernel.forward
    kernel.forward = lambda *arguments, **options: 2.0 * forward(*arguments, **options)
    with pytest.raises(ModelFileError, match="computes something else"):
        model.save(tmp_path / "m")


GOOD = described(KERNELS["columns"](3))


def changed(path, value):
    tree = copy.deepcopy(GOOD)
    place = tree
    for key in path[:-1]:
        place = place[key]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return tree


LENGTHSCALE = ("parts", 0, "parts", 0, "parameters", "lengthscale")
BAD = [
    (("type",), "eval"),
    (("type",), ["rbf"]),
    (("type",), "scale"),
    (("type",), None),
    (("parts",), []),
    (("parts",), "rbf"),
    (("parts", 0, "parts"), [GOOD, GOOD]),
    (("parts", 0, "parts", 0, "active_dims"), [0, 3]),
    (("parts", 0, "parts", 0, "active_dims"), [0.0, 2.0]),
    (("parts", 0, "parts", 0, "active_dims"), [0]),
    (("parts", 0, "parts", 0, "ard_num_dims"), 10**9),
    (("parts", 0, "parts", 0, "ard_num_dims"), True),
    (("parts", 0, "parts", 0, "__class__"), "x"),
    ((*LENGTHSCALE[:-1],), {}),
    ((*LENGTHSCALE,), None),
    ((*LENGTHSCALE, "raw"), [[0.0]]),
    ((*LENGTHSCALE, "raw"), [["a", "b"]]),
    ((*LENGTHSCALE, "raw"), [[0.0, 1e999]]),
    ((*LENGTHSCALE, "raw"), [[10**400, 0.0]]),
    ((*LENGTHSCALE, "constraint"), None),
    ((*LENGTHSCALE, "constraint"), {"type": "interval", "lower_bound": 2.0, "upper_bound": 1.0}),
    ((*LENGTHSCALE, "constraint"), {"type": "positive", "lower_bound": 2.0}),
    ((*LENGTHSCALE, "prior"), {"type": "gamma", "concentration": 1.0}),
    ((*LENGTHSCALE, "prior"), {"type": "Gamma", "concentration": 1.0, "rate": 1.0}),
]


@pytest.mark.parametrize(("path", "value"), BAD, ids=lambda part: str(part)[-40:])
def test_descriptions_that_nobody_wrote_are_refused(path, value):
    assert built(GOOD, 3) is not None
    with pytest.raises(ModelFileError, match="kernel"):
        built(changed(path, value), 3)


def test_a_description_of_many_parts_is_refused():
    tree = described(RBFKernel())
    for _ in range(200):
        tree = {"type": "sum", "parameters": {}, "parts": [tree]}
    with pytest.raises(ModelFileError, match="more than 100 parts"):
        built(tree, 3)
