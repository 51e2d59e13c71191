"""A program, run by test_compile.py in a process of its own: the tests' run-time check of shapes cannot be compiled.

Compares values and gradients of compiled functions with the plain ones, and prints what differs.
"""

import sys

import numpy as np
import torch

from sodgp import DeepGPRegressor
from sodgp.estimator.options.configuration import Configuration
from sodgp.estimator.prepare import checked_data, prepare
from sodgp.kernels.dense import RBFPair
from sodgp.linalg.cholesky import Jitter, factorise
from sodgp.linalg.draws import TapeDraws
from sodgp.linalg.products import Gram, HiddenRows, OutputVariances, QuadraticTrace, SpreadRows, TotalRows
from sodgp.training.batches import Batcher
from sodgp.training.stacking import stack, stack_data
from sodgp.training.steps import Objective


def randn(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def spd(x):
    return x @ x.mT + torch.eye(x.shape[-1], dtype=x.dtype)


def total(*tensors):
    weights = [torch.arange(t.numel(), dtype=t.dtype).cos().reshape(t.shape) for t in tensors]
    return torch.stack([(t * w).sum() for t, w in zip(tensors, weights, strict=True)]).sum()


ROWS = randn(7, 1, 4, 3), randn(8, 1, 5, 3)
FUNCTIONS = {
    "RBFPair": (lambda a, b, l, v: total(*RBFPair.apply(a, b, l.exp(), v)), [(2, 4, 3), (2, 5, 3), (1, 3), (1, 1)]),
    "RBFPair, inputs fixed": (
        lambda l, v: total(*RBFPair.apply(*ROWS, l.exp(), v)),
        [(1, 3), (1, 1)],
    ),
    "L": (lambda x: total(factorise(spd(x), Jitter(1e-6)).L), [(2, 4, 4)]),
    "L_inv": (lambda x: total(factorise(spd(x), Jitter(1e-6)).L_inv), [(2, 4, 4)]),
    "times": (lambda x, z: total(factorise(spd(x), Jitter(1e-6)).times(z)), [(2, 4, 4), (2, 4, 3)]),
    "transpose_times": (lambda x, z: total(factorise(spd(x), Jitter(1e-6)).transpose_times(z)), [(2, 4, 4), (2, 4, 3)]),
    "solve": (lambda x, z: total(factorise(spd(x), Jitter(1e-6)).solve(z)), [(2, 4, 4), (2, 4, 3)]),
    "log_det": (lambda x: total(factorise(spd(x), Jitter(1e-6)).log_det()), [(2, 4, 4)]),
    "inverse_norm": (lambda x: total(factorise(spd(x), Jitter(1e-6)).inverse_norm()), [(2, 4, 4)]),
    "HiddenRows": (
        lambda x, k, w: total(*HiddenRows.apply((f := factorise(spd(x), Jitter(1e-6))).E, f.inverse_value, k, w)),
        [(2, 4, 4), (2, 4, 5), (2, 4, 3)],
    ),
    "TotalRows": (
        lambda x, k, w: total(*TotalRows.apply((f := factorise(spd(x), Jitter(1e-6))).E, f.inverse_value, k, w)),
        [(2, 4, 4), (2, 4, 5), (2, 4, 3)],
    ),
    "SpreadRows": (
        lambda x, k, w, s: total(*SpreadRows.apply((f := factorise(spd(x), Jitter(1e-6))).E, f.inverse_value, k, w, s)),
        [(2, 4, 4), (2, 4, 5), (2, 4, 3), (2, 3, 4, 4)],
    ),
    "QuadraticTrace": (lambda g, f: total(QuadraticTrace.apply(spd(g), f)), [(2, 4, 4), (2, 3, 4, 4)]),
    "Gram": (lambda x: total(Gram.apply(x)), [(2, 3, 4, 4)]),
    "OutputVariances": (lambda a, w: total(OutputVariances.apply(a, w)), [(2, 4, 5), (2, 3, 4, 4)]),
}
METHODS = {
    "sod": {},
    "sod, one layer": {"n_layers": 1},
    "sod, marginal, paper": {
        "inference__coupling": "marginal",
        "inference__parameterization": "paper",
        "inference__tie_label_noise": False,
    },
    "sod, joint": {"inference__coupling": "joint"},
    "sod, predictive": {"inference__objective": "predictive"},
    "sod, separate kernels": {"inference__separate_kernels": True, "inference__objective": "predictive"},
    "sod, heavy tails": {"likelihood": "heavy_tailed"},
    "sod, heavy tails, predictive": {"likelihood": "heavy_tailed", "inference__objective": "predictive"},
    "sod, heteroscedastic": {"likelihood": "heteroscedastic"},
    "sod, heteroscedastic, predictive": {"likelihood": "heteroscedastic", "inference__objective": "predictive"},
    "dsvi": {"inference": "dsvi"},
    "mean field": {"inference": "mean_field"},
}


def gradients(function, arguments):
    leaves = [argument.clone().requires_grad_(True) for argument in arguments]
    value = function(*leaves)
    return value.detach(), torch.autograd.grad(value, leaves)


def objective_of(options, replicates):
    rng = np.random.default_rng(0)
    problems = []
    for seed in range(replicates):
        estimator = DeepGPRegressor().set_params(subset_size=6, random_state=seed, device="cpu", **options)
        X = rng.normal(size=(20, 3))
        config = Configuration.from_estimator(estimator)
        values = checked_data("estimator", X, np.sin(X[:, 0]))
        prepared = prepare(config, values, seed=None, previous=None, plan=None)
        problems.append(prepared.problem)
    method, settings = prepared.method, prepared.settings
    models = [method.build(p.architecture, p.data, torch.Generator().manual_seed(p.seed)) for p in problems]
    model, data = models[0], problems[0].data
    generators = [torch.Generator().manual_seed(seed) for seed in range(replicates)]
    if replicates > 1:
        model, data = stack(method, problems, models), stack_data([p.data for p in problems])
    with torch.no_grad():
        for index, parameter in enumerate(model.parameters()):
            parameter.add_(0.2 * randn(index, *parameter.shape))
    batcher = Batcher(data, settings.batch_rows, generators)
    batcher.advance()
    objective = Objective(method, model, batcher, TapeDraws(generators if replicates > 1 else generators[0], 2))
    return model, objective


def of_objective(model, terms, numbers):
    model.zero_grad()
    values = terms(*numbers)
    torch.stack(list(values.values())).sum().backward()
    return torch.stack(list(values.values())).detach(), [p.grad.clone() for p in model.parameters() if p.requires_grad]


def report(name, plain, compiled):
    (value, grads), (other, others) = plain, compiled
    pairs = [(value, other), *zip(grads, others, strict=True)]
    worst = max(float((a - b).abs().max() / a.abs().max().clamp_min(1e-9)) for a, b in pairs)
    if worst > 1e-9:
        print(f"{name}: off by {worst:.1e}")
    return worst <= 1e-9


def main(backend, names):
    good = True
    for name, (function, shapes) in FUNCTIONS.items():
        if names and name not in names:
            continue
        torch._dynamo.reset()
        arguments = [randn(10 + i, *shape) for i, shape in enumerate(shapes)]
        compiled = torch.compile(function, fullgraph=True, backend=backend)
        good &= report(name, gradients(function, arguments), gradients(compiled, arguments))
    for name, options in METHODS.items():
        for replicates in (1, 2):
            if names and name not in names:
                continue
            torch._dynamo.reset()
            model, objective = objective_of(options, replicates)
            numbers = objective.draws.refill()
            compiled = torch.compile(objective._plain, dynamic=False, fullgraph=True, backend=backend)
            plain = of_objective(model, objective._plain, numbers)
            good &= report(f"{name} x{replicates}", plain, of_objective(model, compiled, numbers))
    print("equal" if good else f"different with PyTorch {torch.__version__}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
