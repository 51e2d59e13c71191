"""Gradients of every term of the bound equal finite differences."""

import pytest
import torch
from helpers import COUPLINGS, FAMILIES, build, data, fresh, matern12, randomise, rbf

from sodgp.inference.sod import SoD


class Objective(torch.nn.Module):
    """All terms of the bound as one vector, at the same draws in every call."""

    def __init__(self, model, batch, coupling):
        super().__init__()
        self.model, self.batch, self.method = model, batch, SoD(coupling=coupling)

    def forward(self):
        return torch.stack(list(self.method.terms(self.model, self.batch, fresh(70, 2)).values()))


@pytest.mark.parametrize("kernel", [rbf, matern12])
@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_equal_finite_differences(family, coupling, kernel):
    batch = data(71, 2, 2)
    model = build([2, 1], 2, size=2, family=family, linear=True, label_noise=0.2, kernel=kernel)
    objective = Objective(randomise(model, 72), batch, coupling)
    names, values = zip(
        *((n, p.detach().clone().requires_grad_()) for n, p in objective.named_parameters()), strict=True
    )

    def terms(*parameters):
        return torch.func.functional_call(objective, dict(zip(names, parameters, strict=True)))

    # Smooth at this scale: central differences are good to about 1e-8 of the largest gradient.
    assert torch.autograd.gradcheck(terms, values, eps=1e-6, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_trained_number_moves_the_bound_and_the_upper_triangle_does_not(family, coupling):
    batch = data(71, 3, 2)
    model = randomise(build([2, 2], 2, size=3, family=family, linear=True, label_noise=0.2), 73)
    total = Objective(model, batch, coupling)().sum()
    moved = 0
    for (name, _), gradient in zip(
        model.named_parameters(), torch.autograd.grad(total, list(model.parameters())), strict=True
    ):
        if name.endswith("q_factor"):
            assert bool((gradient.triu(1) == 0).all())
        moved += int((gradient != 0).sum())
    assert moved == model.n_parameters


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_stay_finite_when_rows_of_subset_and_batch_are_equal(family, coupling):
    batch = data(71, 3, 3)
    batch = batch._replace(X_b=batch.X_s.clone(), X_s=batch.X_s[:, [0, 0, 1]])
    model = randomise(build([2], 2, size=3, family=family, kernel=matern12), 74)
    total = Objective(model, batch, coupling)().sum()
    gradients = torch.autograd.grad(total, list(model.parameters()))
    assert all(bool(torch.isfinite(g).all()) for g in gradients)
