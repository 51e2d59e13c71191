"""Kernels by name and from a user's function."""

import pytest
import torch
from gpytorch.kernels import MaternKernel, MultitaskKernel, RBFKernel, RQKernel, ScaleKernel
from gpytorch.priors import GammaPrior

from sodgp.errors import ConfigurationError
from sodgp.kernels.make import KERNEL_NAMES, make_kernel

BASES = {"rbf": RBFKernel, "matern12": MaternKernel, "matern32": MaternKernel, "matern52": MaternKernel, "rq": RQKernel}


def test_every_base_has_an_ard_and_an_isotropic_name():
    assert set(KERNEL_NAMES) == set(BASES) | {f"{name}-iso" for name in BASES}


@pytest.mark.parametrize("name", KERNEL_NAMES)
def test_a_name_gives_a_scaled_kernel_with_its_lengthscales(name):
    kernel = make_kernel(name, 4)
    assert isinstance(kernel, ScaleKernel)
    assert isinstance(kernel.base_kernel, BASES[name.removesuffix("-iso")])
    assert kernel.base_kernel.lengthscale.shape == (1, 1 if name.endswith("-iso") else 4)
    assert kernel(torch.zeros(2, 4, dtype=torch.float64)).to_dense().dtype == torch.float64


@pytest.mark.parametrize(("name", "nu"), [("matern12", 0.5), ("matern32", 1.5), ("matern52", 2.5)])
def test_the_number_of_a_matern_is_its_smoothness(name, nu):
    assert make_kernel(name, 2).base_kernel.nu == nu


def test_the_start_is_unit_variance_and_the_typical_distance_of_standardised_rows():
    kernel = make_kernel("rbf", 9)
    assert kernel.outputscale.item() == pytest.approx(1.0, abs=1e-12)
    assert kernel.base_kernel.lengthscale.flatten().tolist() == pytest.approx([3.0] * 9, abs=1e-12)
    kernel = make_kernel("rbf", 9, variance=0.3, lengthscale=0.7)
    assert kernel.outputscale.item() == pytest.approx(0.3, abs=1e-12)
    assert kernel.base_kernel.lengthscale[0, 0].item() == pytest.approx(0.7, abs=1e-12)


def test_a_function_is_used_as_it_is_with_its_priors():
    def build(input_dim):
        kernel = ScaleKernel(RBFKernel(lengthscale_prior=GammaPrior(3.0, 2.0)) + MaternKernel(ard_num_dims=input_dim))
        kernel.outputscale = 5.0
        return kernel

    kernel = make_kernel(build, 3, variance=0.1, lengthscale=0.1)
    assert kernel.outputscale.item() == pytest.approx(5.0)
    assert kernel.base_kernel.kernels[1].lengthscale.shape == (1, 3)
    assert len(list(kernel.named_priors())) == 1
    assert next(kernel.parameters()).dtype == torch.float64


def test_replicates_do_not_share_memory():
    kernel = make_kernel("rbf", 2, replicates=torch.Size([3]))
    with torch.no_grad():
        for parameter in kernel.parameters():
            parameter[0] += 1.0
            assert (parameter[1] == parameter[2]).all()
            assert (parameter[0] != parameter[1]).all()


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (RBFKernel(batch_shape=torch.Size([2])), "RBFKernel has a batch shape"),
        (MultitaskKernel(RBFKernel(), num_tasks=2), "MultitaskKernel .* several outputs"),
        (MaternKernel, r"kernel=MaternKernel cannot be made .* lambda dims: MaternKernel"),
        (ScaleKernel, "kernel=ScaleKernel cannot be made"),
    ],
)
def test_kernels_that_are_not_one_function_of_two_rows(kernel, words):
    with pytest.raises(ConfigurationError, match=words):
        make_kernel(kernel, 3)


def test_what_is_not_a_kernel_is_refused():
    with pytest.raises(ConfigurationError, match="'cosine' is unknown; choose one of rbf, matern12"):
        make_kernel("cosine", 2)
    with pytest.raises(ConfigurationError, match="must return a gpytorch"):
        make_kernel(lambda input_dim: "rbf", 2)
