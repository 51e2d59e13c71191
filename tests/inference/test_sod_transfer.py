"""q(F_S) on another subset: exact for the same rows, and the model's predictions where the new rows can hold them."""

import pytest
import torch
from problems import SIZE, Case, case, fresh, randn

from sodgp.inference.contract import Subset, TrainingSet
from sodgp.inference.sod import SoD

METHODS = [SoD(), SoD(separate_kernels=True), SoD(parameterization="paper"), SoD(tie_label_noise=False)]
every_method = pytest.mark.parametrize("method", METHODS, ids=repr)


def rows_of(this):
    return torch.cat([this.data.X_s, this.data.X_r]), torch.cat([this.data.y_s, this.data.y_r])


def moved(this, chosen):
    """Candidates for the rows `chosen`, each with its case."""
    X, y = rows_of(this)
    kept = torch.where(chosen < SIZE, chosen, -1)
    new = Subset(X[chosen], y[chosen])
    variants = this.method.carried(this.model, this.model, Subset(X[:SIZE], y[:SIZE]), new, kept)
    for name, parameters in variants.items():
        other = case(this.method, len(this.model.layers))
        other.model.load_state_dict(this.model.state_dict())
        with torch.no_grad():
            for layer, (mean, factor) in zip(other.model.layers, parameters, strict=True):
                layer.q_mean.copy_(mean)
                layer.q_factor.copy_(factor)
        yield name, Case(this.method, this.architecture, other.model, TrainingSet(*new[:2], X[:1], y[:1]))


def predictions(this, X):
    with torch.no_grad():
        return this.predictor(fresh(1, 1)).rows(X, fresh(2, 1))


@every_method
@pytest.mark.parametrize("n_layers", [1, 2])
def test_another_order_of_the_same_rows_is_exact(method, n_layers):
    if method.separate_kernels and n_layers == 1:
        pytest.skip("needs a hidden layer")
    this, chosen = case(method, n_layers), torch.tensor([3, 0, 7, 1, 2, 6, 5, 4])
    ((name, other),) = moved(this, chosen)
    assert name == "reordered"
    for layer, same in zip(this.model.layers, other.model.layers, strict=True):
        # In the paper's family q is over F_S itself, whose rows change places.
        if method.parameterization == "paper":
            torch.testing.assert_close(same.q_mean, layer.q_mean[chosen], rtol=1e-7, atol=1e-7)
            Sigma = (layer.q_factor.tril() @ layer.q_factor.tril().mT)[:, chosen][:, :, chosen]
            torch.testing.assert_close(same.q_factor @ same.q_factor.mT, Sigma, rtol=1e-6, atol=1e-6)
        assert bool((same.q_factor.diagonal(dim1=-2, dim2=-1) > 0).all())
    if n_layers == 1:
        X = randn(5, 1, 6, 2)
        for ours, theirs in zip(predictions(other, X), predictions(this, X), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@every_method
def test_new_rows_leave_candidates_that_can_be_used(method):
    this = case(method)
    found = dict(moved(this, torch.tensor([0, 2, 4, 6, 9, 12, 15, 20])))
    assert set(found) == {"divided", "pulled"}
    for other in found.values():
        mean, variance = predictions(other, randn(5, 1, 6, 2))
        assert bool(mean.isfinite().all())
        assert bool((variance > 0).all())
        assert all(torch.equal(layer.q_factor, layer.q_factor.tril()) for layer in other.model.layers)


def test_with_one_row_exchanged_predictions_stay_close():
    this, X = case(SoD(), 1), randn(5, 1, 30, 2)
    before = predictions(this, X)[0]
    divided = dict(moved(this, torch.arange(1, 9)))["divided"]
    after = predictions(divided, X)[0]
    assert float((after - before).square().mean()) < 0.5 * float(before.square().mean())
