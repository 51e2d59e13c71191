"""Models of one shape in one model, and back."""

from dataclasses import replace

import pytest
import torch

from sodgp.errors import ConfigurationError
from sodgp.inference.contract import TrainingSet
from sodgp.inference.sod import SoD
from sodgp.model.architecture import Architecture
from sodgp.training.stacking import Problem, stack, unstack

X = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
WIDER = Architecture(1, 1, 5, [torch.ones(2, 1, dtype=torch.float64)])


def problem(seed, size=5):
    rows = X + 0.1 * seed
    data = TrainingSet(rows[:size], rows[:size].sign(), rows[size:], rows[size:].sign())
    return Problem(Architecture(1, 1, size, []), data, seed=seed)


def test_stacking_and_unstacking_give_the_parameters_back():
    problems = [problem(0), problem(1)]
    singles = [SoD().build(p.architecture, p.data, torch.Generator().manual_seed(p.seed)) for p in problems]
    with torch.no_grad():
        for number, single in enumerate(singles):
            single.last.q_mean.fill_(number + 1.0)
    model = stack(SoD(), problems, singles)
    assert model.last.q_mean.flatten(1).mean(1).tolist() == [1.0, 2.0]
    with torch.no_grad():
        model.last.q_mean.mul_(3.0)
    unstack(model, singles)
    assert [float(single.last.q_mean.detach().mean()) for single in singles] == [3.0, 6.0]


@pytest.mark.parametrize("other", [problem(1, size=6), replace(problem(1), architecture=WIDER)])
def test_other_shapes_are_refused(other):
    with pytest.raises(ConfigurationError, match="equal numbers of rows"):
        stack(SoD(), [problem(0), other], [])
