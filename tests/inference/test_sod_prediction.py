"""Predictions of SoD-VI: those of a training step, means for less, and kept only while nothing has changed."""

import copy
import gc

import pytest
import torch
from gpytorch.kernels import Kernel, ScaleKernel
from helpers import predict_as_batch, predict_joint_as_batch
from problems import INPUTS, case, fresh, randn

from sodgp.inference import sod_kept
from sodgp.inference.contract import bound
from sodgp.inference.sod import SoD
from sodgp.inference.sod_prediction import MarginalPredictor, SubsetPredictor
from sodgp.likelihoods import HeavyTailed, Heteroscedastic
from sodgp.linalg.cholesky import Jitter
from sodgp.linalg.draws import SharedDraws

PROGRAM = Jitter(0.05, relative=False, on_draws=True)
T, NEW = 5, 1.5 * randn(3, 1, 7, INPUTS)
CASES = {
    "one layer": (SoD(), {"n_layers": 1}),
    "two layers": (SoD(), {}),
    "three layers": (SoD(), {"n_layers": 3}),
    "separate kernels": (SoD(separate_kernels=True), {"n_layers": 3}),
    # With a small jitter K(Z_S)^-1 has heavy tails over the samples, and no number of them is enough.
    "the paper's family": (SoD(parameterization="paper"), {"n_layers": 3, "width": 3, "jitter": PROGRAM}),
    "an own label noise": (SoD(tie_label_noise=False), {}),
    "joint": (SoD(coupling="joint"), {"n_layers": 3}),
    "marginal": (SoD(coupling="marginal"), {"n_layers": 3}),
    "marginal, separate kernels": (SoD(coupling="marginal", separate_kernels=True), {}),
    "matern": (SoD(), {"kernel": "matern52"}),
    "float32": (SoD(), {"dtype": torch.float32}),
    "varying noise": (SoD(), {"likelihood": Heteroscedastic()}),
    "heavy tails": (SoD(), {"likelihood": HeavyTailed()}),
}

every_case = pytest.mark.parametrize("name", CASES)


def made(name="two layers"):
    method, options = CASES[name]
    return case(method, **options)


def shared(model, seed=3, n_samples=T):
    return SharedDraws(seed, n_samples, dtype=model.dtype, device=model.device)


def rows(this, seed=3, n_samples=T, X=NEW):
    """Mean and variance, the subset and the rows with the same seed."""
    draws = shared(this.model, seed, n_samples)
    with torch.no_grad():
        return this.predictor(draws).rows(X.to(this.model.dtype), shared(this.model, seed, n_samples))


@pytest.fixture
def drawn(monkeypatch):
    """The models whose subsets were drawn, in turn."""
    models, honest = [], sod_kept.SubsetPredictor

    def noted(model, *others):
        models.append(model)
        return honest(model, *others)

    monkeypatch.setattr(sod_kept, "SubsetPredictor", noted)
    return models


@every_case
def test_predictions_are_those_of_a_training_step(name):
    this = made(name)
    X = NEW.to(this.model.dtype)
    with torch.no_grad():
        predictor = this.predictor(shared(this.model))
        ours, mean = predictor.rows(X, shared(this.model)), predictor.mean(X, shared(this.model))
        theirs = predict_as_batch(this.method, this.model, *this.subset, X, shared(this.model))
    tolerance = 1e-10 if this.model.dtype == torch.float64 else 1e-4
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        torch.testing.assert_close(a, b, rtol=0, atol=tolerance)
    assert torch.equal(mean, ours[0])


@every_case
def test_a_row_depends_on_itself_alone(name):
    this = made(name)
    together = rows(this)
    for chunk in (NEW[:, :1], NEW[:, 3:5]):
        first = int((NEW[0] == chunk[0, 0]).all(-1).nonzero())
        tolerance = 1e-10 if this.model.dtype == torch.float64 else 1e-4
        for part, whole in zip(rows(this, X=chunk), together, strict=True):
            torch.testing.assert_close(part, whole[:, first : first + chunk.shape[1]], rtol=0, atol=tolerance)


@every_case
def test_hidden_rows_are_those_of_a_training_step(name):
    this = made(name)
    X = NEW.to(this.model.dtype)
    with torch.no_grad():
        predictor = this.predictor(shared(this.model))
        for number in range(len(this.model.layers)):
            ours = predictor.hidden(X, shared(this.model), number)
            assert ours.shape == (1 if number == 0 else T, 7, this.model.widths[number - 1] if number else INPUTS)
        assert torch.equal(predictor.hidden(X, shared(this.model), 0), X)


def test_one_subset_serves_all_chunks_and_further_predictions(drawn):
    this = made()
    for X in (NEW, NEW[:, :1], NEW[:, 3:]):
        rows(this, X=X)
    assert drawn == [this.model]


def test_every_model_keeps_its_own_subset(drawn):
    first, second = made(), made()
    for _ in range(2):
        assert all(torch.equal(a, b) for a, b in zip(rows(first), rows(second), strict=True))
    assert len(drawn) == 2


@pytest.mark.parametrize("how", ["lengthscale", "factor", "samples", "seed", "labels", "dtype"])
def test_whatever_changes_is_noticed(how, drawn):
    this, given = made(), {}
    before = rows(this)[0]
    drawn.clear()
    if how == "lengthscale":  # GPyTorch's setter does not raise PyTorch's counter of versions
        kernel = this.model.last.kernel.base_kernel
        kernel.lengthscale = 0.5 * kernel.lengthscale.detach()
    elif how == "factor":
        with torch.no_grad():
            this.model.last.q_mean.add_(0.1)
    elif how in {"samples", "seed"}:
        given = {"samples": {"n_samples": T + 1}, "seed": {"seed": 4}}[how]
    elif how == "labels":
        this.data.y_s.add_(0.1)
    else:
        this.model.float()
        this.data = type(this.data)(*(t.float() for t in (this.data.X_s, this.data.y_s, this.data.X_r, this.data.y_r)))
    after = rows(this, **given)[0]
    assert after.shape != before.shape or not torch.equal(after.to(before), before)
    assert len(drawn) == 1


class Powered(Kernel):
    """A user's kernel with an attribute that is no parameter, and that takes no empty tensors."""

    has_lengthscale = True

    def __init__(self, power=2.0):
        super().__init__()
        self.power = power

    def forward(self, x1, x2, diag=False, **params):
        a, b = (x.reshape(*x.shape[:-1], -1, 2).flatten(-2) / self.lengthscale for x in (x1, x2))
        difference = a - b if diag else a.unsqueeze(-2) - b.unsqueeze(-3)
        return (-difference.abs().pow(self.power).sum(-1)).exp()


def test_with_a_users_kernel_nothing_is_kept(drawn):
    """Its attributes cannot be compared."""
    this = case(SoD(), kernel=lambda dims: ScaleKernel(Powered()))
    before = rows(this)[0]
    for layer in this.model.layers:
        layer.kernel.base_kernel.power = 1.0
    assert (rows(this)[0] - before).abs().max() > 1e-3
    assert len(drawn) == 2


@pytest.mark.parametrize("how", ["training mode", "gradients"])
def test_of_a_model_in_training_nothing_is_kept(how, drawn):
    this = made()
    this.model.requires_grad_() if how == "gradients" else this.model.train()
    rows(this)
    rows(this)
    assert len(drawn) == 2
    assert this.model not in sod_kept._KEPT


def test_with_fresh_numbers_nothing_is_kept(drawn):
    this = made()
    for seed in (1, 1):
        with torch.no_grad():
            this.predictor(fresh(seed, T)).rows(NEW, fresh(2, T))
    assert len(drawn) == 2


def test_a_copy_begins_anew(drawn):
    this = made()
    mean = rows(this)[0]
    drawn.clear()
    this.model = copy.deepcopy(this.model)
    assert torch.equal(rows(this)[0], mean)
    assert drawn == [this.model]


def test_large_ones_are_not_kept_and_none_outlives_its_model(drawn, monkeypatch):
    this = made()
    rows(this)
    kept = sod_kept._KEPT[this.model]
    size = sum(tensor.nbytes for tensor in (*kept.predictor.tensors, *kept.values))
    for limit, is_kept in ((size - 1, False), (size, True)):
        monkeypatch.setattr(sod_kept, "_KEPT_BYTES", limit)
        sod_kept._KEPT.clear()
        rows(this)
        assert (this.model in sod_kept._KEPT) is is_kept
    del kept
    held = len(sod_kept._KEPT)
    drawn.clear()
    this.model = None
    gc.collect()
    assert len(sod_kept._KEPT) < held


def mixture(mean, covariance):
    """Mean [q, P] and covariance [P, q, q] of the mixture of all components."""
    centred = (mean - mean.mean(0)).permute(2, 1, 0)
    return mean.mean(0), covariance.mean(0) + centred @ centred.mT / len(mean)


JOINT = ("one layer", "two layers", "three layers", "separate kernels", "the paper's family", "joint")


@pytest.mark.parametrize("name", JOINT)
def test_rows_after_a_subset_have_the_distribution_of_both_together(name):
    """The predictor draws the subset first; the batch path draws subset and rows from their whole covariance."""
    this, X, samples = made(name), NEW[:, :4], 8000
    with torch.no_grad():
        mean, covariance = this.predictor(fresh(1, samples)).joint(X, fresh(5, samples))
        theirs = mixture(*predict_joint_as_batch(this.method, this.model, *this.subset, X, fresh(2, samples)))
    ours = mixture(mean, covariance)
    assert mean.shape == (1 if name == "one layer" else samples, 4, 2)
    assert covariance.shape == (len(mean), 2, 4, 4)
    scale = theirs[1].diagonal(dim1=-2, dim2=-1).max().item()
    tolerance = 1e-12 if name == "one layer" else 0.06
    torch.testing.assert_close(ours[0], theirs[0], rtol=0, atol=tolerance * scale**0.5)
    torch.testing.assert_close(ours[1], theirs[1], rtol=0, atol=tolerance * scale)


def test_marginal_coupling_draws_the_subset_apart_from_the_rows():
    """Of one row the joint prediction is the marginal one; only the other couplings prepare the subset."""
    marginal = made("marginal")
    assert isinstance(marginal.predictor(fresh(1, T)), MarginalPredictor)
    assert isinstance(made().predictor(fresh(1, T)), SubsetPredictor)
    X = NEW[:, :1]
    with torch.no_grad():
        mean, covariance = marginal.predictor(fresh(1, T)).joint(X, fresh(5, T))
        theirs = marginal.predictor(fresh(1, T)).rows(X, fresh(5, T))
    torch.testing.assert_close(mean, theirs[0], rtol=0, atol=1e-8)
    torch.testing.assert_close(covariance[..., 0, 0], theirs[1][..., 0, :], rtol=0, atol=1e-8)


def test_predictions_leave_training_as_it_is():
    this = made()
    this.model.train()
    before = bound(this.method.terms(this.model, this.batch, fresh(9, T)))
    rows(this)
    assert torch.equal(bound(this.method.terms(this.model, this.batch, fresh(9, T))), before)
