"""One evaluation of the paper authors' own program at fixed parameters and fixed noise, to a relative 1e-8."""

from pathlib import Path

import gpytorch
import numpy as np
import pytest
import torch

from sodgp.inference.contract import Batch, bound
from sodgp.inference.sod import SoD
from sodgp.layers.contract import Points
from sodgp.layers.prior import HiddenMean
from sodgp.layers.subset import SubsetLayer
from sodgp.likelihoods.gaussian import GaussianLikelihood
from sodgp.linalg.cholesky import Jitter
from sodgp.model.deep_gp import DeepGP

MODES = {"diag": "marginal", "full": "joint"}


@pytest.fixture(scope="module")
def golden():
    with np.load(Path(__file__).with_name("authors_sod_step.npz")) as file:
        return {key: torch.as_tensor(file[key], dtype=torch.float64) for key in file.files}


class Recorded:
    """The noise that the authors' program used, layer by layer."""

    def __init__(self, golden, mode):
        self.n_samples = 4
        self._z = [golden[f"{mode}.z{i}"] for i in range(2)]
        self._calls = 0

    def subset(self, rows, width):
        return self._z[self._calls][:, :rows]

    def rest(self, rows, width):
        self._calls += 1
        return self._z[self._calls - 1][:, -rows:]


@pytest.fixture(scope="module")
def model(golden):
    layers = []
    for i, width in enumerate([5, 5, 1]):
        kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()).double()
        kernel.outputscale = golden[f"layer{i}.kv"]
        kernel.base_kernel.lengthscale = golden[f"layer{i}.ls"]
        layer = SubsetLayer(
            kernel,
            HiddenMean(torch.zeros(5, width, dtype=torch.float64)),
            size=20,
            width=width,
            parameterization="paper",
            noise_variance=float(golden[f"layer{i}.v"]),
            jitter=Jitter(1e-6, relative=False, on_draws=True),
            index=i + 1,
        )
        with torch.no_grad():
            layer.q_mean.copy_(golden[f"layer{i}.m"])
            layer.q_factor.copy_(golden[f"layer{i}.C"])
        layers.append(layer)
    return DeepGP(layers, GaussianLikelihood(1, float(golden["lik_var"])))


def label_noise(model):
    return model.last.noise_variance.reshape(1, 1, 1)


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-9 * float(theirs.abs().max()))


def batch_of(golden):
    return Batch(golden["Xsub"][None], golden["Ysub"][None], golden["Xrest"][None], golden["Yrest"][None], scale=1.0)


@pytest.mark.parametrize("mode", MODES)
def test_every_layer_draws_what_the_authors_drew(golden, model, mode):
    points = Points(golden["Xsub"][None], golden["Xrest"][None])
    for i, layer in enumerate(list(model.layers)[:-1]):
        recorded = Recorded(golden, mode)
        recorded._z = [golden[f"{mode}.z{i}"]]
        drawn, _ = layer.propagate(points, recorded, MODES[mode])
        close(torch.cat(drawn, -2), golden[f"{mode}.F{i}"])
        points = drawn


@pytest.mark.parametrize("mode", MODES)
def test_hidden_means_and_covariances(golden, model, mode):
    jitter = float(golden["jitter"])
    points = Points(golden["Xsub"][None], golden["Xrest"][None])
    for i, layer in enumerate(list(model.layers)[:-1]):
        cond = layer.condition(points)
        m, C = layer.variational_parameters()
        mean_s, mean_b = layer.mean(points.subset), layer.mean(points.rest)
        f_s, w = layer.family.in_f(m, C, cond, mean_s), layer.family.in_w(m, C, cond, mean_s)
        mean, covariance = layer.joint_moments(cond, f_s, w, mean_b, points.rest)
        # The program reports a variance before the draw adds its last jitter.
        covariance = (covariance - jitter * torch.eye(50, dtype=torch.float64)).expand(4, -1, -1, -1)
        close(mean.expand(4, -1, -1), golden[f"{mode}.mean{i}"])
        if mode == "full":
            close(covariance.movedim(1, -1), golden[f"full.var{i}"])
        else:
            close(covariance.diagonal(dim1=-2, dim2=-1).mT, golden[f"diag.var{i}"])
        z = golden[f"{mode}.F{i}"]
        points = Points(z[:, :20], z[:, 20:])


@pytest.mark.parametrize("mode", MODES)
def test_last_layer(golden, model, mode):
    z = golden[f"{mode}.F1"]
    last = model.last.label_informed(Points(z[:, :20], z[:, 20:]), golden["Ysub"][None], label_noise(model))
    mean, variance = last.rest.rows()
    close(mean, golden[f"{mode}.mean2"])
    close(variance, golden[f"{mode}.var2"])
    draw = mean + (variance + golden["jitter"]).sqrt() * golden[f"{mode}.z2"]
    close(draw, golden[f"{mode}.F2"])


def test_q_hat(golden, model):
    layer = model.last
    z = golden["diag.F1"]
    cond = layer.condition(Points(z[:, :20], z[:, 20:]))
    m, C = layer.variational_parameters()
    zero = layer.mean(z[:, :20])
    q_hat = layer.family.label_informed(m, C, cond, zero, golden["Ysub"][None], label_noise(model))
    close(q_hat.f.mean[0], golden["qhat_mean"])
    close((q_hat.f.factor @ q_hat.f.factor.mT)[0, 0], golden["qhat_cov"])


@pytest.mark.parametrize("mode", MODES)
def test_terms_of_the_bound(golden, model, mode):
    terms = SoD(coupling=MODES[mode]).terms(model, batch_of(golden), Recorded(golden, mode))
    close(terms["rest"], golden[f"{mode}.pred_term"])
    close(terms["subset"], golden["lik_term"])
    close(-terms["kl_1"], golden["kl0"])
    if mode == "diag":
        close(-terms["kl_2"], golden["kl1"])
        close(-terms["kl_last"], golden["kl2"])
    assert torch.isfinite(bound(terms))
    assert model.n_parameters == sum([2 * (100 + 5 * 210 + 3), 20 + 210 + 3, 1])
