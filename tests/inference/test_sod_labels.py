"""The labels of all rows in q_hat: against exact Gaussian processes, refits without a row, and in a fit."""

import numpy as np
import pytest
import torch
from torch.distributions import MultivariateNormal, Normal

from sodgp import DeepGPRegressor, SoD
from sodgp.errors import ConfigurationError
from sodgp.inference import sod_prediction
from sodgp.inference.contract import Batch, TrainingSet, bound
from sodgp.inference.sod_labels import OBJECTIVES, leave_one_out
from sodgp.kernels.dense import covariance
from sodgp.likelihoods import Gaussian, HeavyTailed
from sodgp.linalg.cholesky import Jitter
from sodgp.linalg.draws import FreshDraws, SharedDraws
from sodgp.model.architecture import Architecture, Initialization

M, N, D = 4, 9, 2
TINY = Jitter(1e-10)


def randn(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def fresh(seed=0, n_samples=3):
    return FreshDraws(torch.Generator().manual_seed(seed), n_samples)


def data(size=M, outputs=1):
    X, y = randn(0, N, D), randn(1, N, outputs)
    return TrainingSet(X[:size], y[:size], X[size:], y[size:])


def built(objective, rows, *, hidden=(), size=M, outputs=1):
    weights = [torch.eye(D, width, dtype=torch.float64) for width in hidden]
    start = Initialization(noise_variance=0.3, lengthscale=1.2, hidden_factor=0.3)
    architecture = Architecture(D, outputs, size, weights, initialization=start, jitter=TINY)
    method = SoD(objective=objective)
    return method, method.build(architecture, rows, torch.Generator().manual_seed(0)).requires_grad_(False)


def batch_of(rows):
    return Batch(*(t.unsqueeze(0) for t in (rows.X_s, rows.y_s, rows.X_r, rows.y_r)), scale=1.0)


def noisy(model, X):
    return covariance(model.last.kernel, X) + 0.3 * torch.eye(len(X), dtype=torch.float64)


def test_with_every_row_in_the_subset_the_collapsed_objective_is_the_evidence():
    rows = data(size=N - 1)
    method, model = built("collapsed", rows, size=N - 1)
    X, y = torch.cat([rows.X_s, rows.X_r]), torch.cat([rows.y_s, rows.y_r])
    exact = MultivariateNormal(torch.zeros(N, dtype=torch.float64), noisy(model, X)).log_prob(y[:, 0])
    found = bound(method.terms(model, batch_of(rows), fresh()))
    assert found < exact
    assert float(exact - found) < 0.2  # one row is not in the subset


def test_with_one_layer_no_q_has_a_higher_bound_than_the_collapsed_one():
    rows = data()
    collapsed = bound(built("collapsed", rows)[0].terms(built("collapsed", rows)[1], batch_of(rows), fresh()))
    method, model = built("bound", rows)
    for seed in range(5):
        with torch.no_grad():
            model.last.q_mean.copy_(0.3 * randn(seed, M, 1))
        assert bound(method.terms(model, batch_of(rows), fresh())) <= collapsed


def test_a_row_is_predicted_from_all_others():
    rows = data(outputs=2)
    _, model = built("leave_one_out", rows, outputs=2)
    X, y = torch.cat([rows.X_s, rows.X_r]), torch.cat([rows.y_s, rows.y_r])
    v = torch.tensor([[[0.3, 0.7]]], dtype=torch.float64)
    mean, variance = leave_one_out(model.last, X[None, :M], X[None], y[None], v)
    K, L = covariance(model.last.kernel, X), torch.linalg.cholesky(covariance(model.last.kernel, X[:M]))
    A = torch.linalg.solve_triangular(L, K[:M], upper=False)
    for n in range(N):
        others = [i for i in range(N) if i != n]
        for output in range(2):
            Q = torch.eye(M, dtype=torch.float64) + A[:, others] @ A[:, others].mT / v[0, 0, output]
            weights = torch.linalg.solve(Q, A[:, others] @ y[others, output]) / v[0, 0, output]
            torch.testing.assert_close(mean[0, n, output], A[:, n] @ weights, rtol=1e-6, atol=1e-8)
            unexplained = K[n, n] - A[:, n].square().sum()
            wanted = A[:, n] @ torch.linalg.solve(Q, A[:, n]) + unexplained
            torch.testing.assert_close(variance[0, n, output], wanted, rtol=1e-5, atol=1e-8)


def test_the_objective_is_the_log_density_of_every_row():
    rows = data()
    method, model = built("leave_one_out", rows)
    X, y = torch.cat([rows.X_s, rows.X_r])[None], torch.cat([rows.y_s, rows.y_r])[None]
    mean, variance = leave_one_out(model.last, X[:, :M], X, y, torch.full((1, 1, 1), 0.3, dtype=torch.float64))
    each = Normal(mean, (variance + 0.3).sqrt()).log_prob(y)[0, :, 0]
    found = method.terms(model, batch_of(rows), fresh())
    torch.testing.assert_close(found["subset"], each[:M].sum())
    torch.testing.assert_close(found["rest"], each[M:].sum())


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_one_layer_predicts_as_the_exact_gp_and_so_in_parts(objective, monkeypatch):
    rows = data(size=N - 1)
    method, model = built(objective, rows, size=N - 1)
    given, X_new = method.given(rows), randn(5, 3, D)
    assert len(given.X) == method.rows_given(N - 1, N) == N
    inverse = torch.linalg.inv(noisy(model, given.X))
    k = covariance(model.last.kernel, given.X, X_new)
    found = []
    for rows_at_once in (1000, 1):
        monkeypatch.setattr(sod_prediction, "LABEL_ROWS", rows_at_once)
        draws = SharedDraws(rows_at_once, 5, dtype=torch.float64)
        predictor = method.predictor(model, given.X[None], given.y[None], draws)
        found.append(predictor.rows(X_new[None], draws))
    torch.testing.assert_close(*found)
    mean, variance = found[0]
    torch.testing.assert_close(mean[0, :, 0], (k.mT @ inverse @ given.y)[:, 0], rtol=0, atol=0.02)
    exact = covariance(model.last.kernel, X_new).diagonal() - (k * (inverse @ k)).sum(0)
    torch.testing.assert_close(variance[0, :, 0], exact, rtol=0, atol=0.02)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gradients_are_those_of_finite_differences(objective):
    rows = data()
    method, model = built(objective, rows, hidden=[2])
    parameters = [p for p in model.requires_grad_(True).parameters() if p.numel() < 50]

    def value():
        return bound(method.terms(model, batch_of(rows), fresh(7)))

    gradients = torch.autograd.grad(value(), parameters)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        direction = randn(3, *parameter.shape)
        step, ends = 1e-6, []
        for sign in (1, -1):
            with torch.no_grad():
                parameter.add_(sign * step * direction)
                ends.append(value())
                parameter.sub_(sign * step * direction)
        difference = (ends[0] - ends[1]) / (2 * step)
        torch.testing.assert_close((gradient * direction).sum(), difference, rtol=1e-4, atol=1e-5)


def test_a_batch_stands_for_all_rows():
    rows = data()
    for objective in OBJECTIVES:
        method, model = built(objective, rows)
        whole = method.terms(model, batch_of(rows), fresh())
        twice = method.terms(model, batch_of(rows)._replace(scale=2.0), fresh())
        if objective == "collapsed":
            torch.testing.assert_close(twice["labels"], whole["labels"] * (M + 2 * (N - M)) / N)
        else:
            torch.testing.assert_close(twice["rest"], 2 * whole["rest"])
            torch.testing.assert_close(twice["subset"], whole["subset"])


@pytest.mark.parametrize("options", [{"parameterization": "paper"}, {"coupling": "joint"}, {"tie_label_noise": False}])
def test_what_it_cannot_be_combined_with_is_said(options):
    with pytest.raises(ConfigurationError, match="objective='collapsed' cannot be combined with"):
        SoD(objective="collapsed", **options).settled(n_rows=10, n_layers=2, kernel="rbf", likelihood=Gaussian())
    with pytest.raises(ConfigurationError, match="needs Gaussian noise of one variance"):
        SoD(objective="collapsed").settled(n_rows=10, n_layers=2, kernel="rbf", likelihood=HeavyTailed())


X = np.random.default_rng(0).normal(size=(40, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * X[:, 1]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_fit_learns_and_its_file_predicts_the_same(objective, tmp_path):
    model = DeepGPRegressor(inference=SoD(objective=objective), max_iter=40, subset_size=10, random_state=0).fit(X, Y)
    assert model.objective_ == objective
    assert model.fitted_.X_s.shape == (1, 40, 2)
    assert model.fitted_.subset.X.shape == (10, 2)
    assert model.history_.bound[-1] > model.history_.bound[0]
    assert np.corrcoef(model.predict(X), Y)[0, 1] > 0.9
    model.save(tmp_path / "m.sodgp")
    again = DeepGPRegressor.load(tmp_path / "m.sodgp")
    for ours, theirs in zip(model.predict(X, return_std=True), again.predict(X, return_std=True), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (model.outlier_probability_ > 0) is (objective == "leave_one_out")


def test_members_in_one_program_are_those_of_single_fits():
    options = {"max_iter": 5, "subset_size": 8, "n_samples": 2, "n_predict_samples": 4}
    both = DeepGPRegressor(n_members=2, random_state=3, **options).fit(X, Y)
    for member in both.members_:
        alone = DeepGPRegressor(random_state=member.random_state, **options).fit(X, Y)
        np.testing.assert_allclose(member.predict(X), alone.predict(X), rtol=1e-7, atol=1e-9)


def test_a_warm_start_goes_on_where_the_fit_ended():
    model = DeepGPRegressor(warm_start=True, max_iter=60, subset_size=10, random_state=0).fit(X, Y)
    before = model.history_.bound[-1]
    model.set_params(max_iter=1).fit(X[:-2], Y[:-2])
    assert model.objective_ == "collapsed"
    assert abs(model.history_.bound[0] - before) < 0.3 * abs(before) + 5


def test_held_out_rows_are_predicted_from_all_labels():
    model = DeepGPRegressor(validation_fraction=0.2, max_iter=60, subset_size=10, random_state=0).fit(X, Y)
    assert model.fitted_.X_s.shape[1] == 32
    assert model.history_.validation[-1] > model.history_.validation[0]
