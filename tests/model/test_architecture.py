"""What an architecture makes: kernels, means and the likelihood, of the right sizes and types."""

import pytest
import torch

from sodgp.likelihoods import Gaussian, HeavyTailed
from sodgp.model.architecture import Architecture, Initialization


def architecture(**options):
    weights = [torch.eye(4, 3, dtype=torch.float64), torch.zeros(3, 2, dtype=torch.float64)]
    return Architecture(4, 2, 5, weights, **options)


def test_widths_are_those_of_the_means_and_of_y():
    assert architecture().widths == [3, 2, 2]
    assert Architecture(4, 1, 5, []).widths == [1]


@pytest.mark.parametrize("replicates", [(), (7,)])
def test_kernels_have_their_inputs_and_replicates(replicates):
    design = architecture(replicates=torch.Size(replicates), initialization=Initialization(lengthscale=0.3))
    for layer, inputs in enumerate([4, 3, 2]):
        lengthscale = design.kernel_of(layer).base_kernel.lengthscale
        assert lengthscale.shape[-1] == inputs
        torch.testing.assert_close(lengthscale, torch.full_like(lengthscale, 0.3))
    each = design.kernel_of(0, per_output=True).base_kernel.lengthscale
    assert each.shape[: len(replicates) + 1] == (*replicates, 3)


def test_kernels_and_means_are_made_anew():
    design = architecture()
    assert design.kernel_of(0) is not design.kernel_of(0)
    mean = design.mean_of(0)
    mean.weight.zero_()
    assert bool(design.mean_weights[0].any())


def test_the_last_mean_is_zero():
    design = architecture()
    assert [design.mean_of(layer).kind for layer in range(3)] == ["linear", "zero", "zero"]
    assert design.mean_of(2).weight.shape == (2, 2)


@pytest.mark.parametrize("likelihood", [Gaussian(), HeavyTailed()], ids=repr)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_likelihood_starts_as_it_is_asked_to(likelihood, dtype):
    design = architecture(likelihood=likelihood, dtype=dtype, initialization=Initialization(noise_variance=0.2))
    built = design.build_likelihood()
    assert built.n_outputs == 2
    torch.testing.assert_close(built.noise_variance.detach(), torch.full((1, 2), 0.2, dtype=dtype))
