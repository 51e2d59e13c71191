"""What the processes of `test_group.py` do: each check is a function of the rank, and returns what it found."""

import os
import signal
import time
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist

from sodgp import DSVI, DeepGPClassifier, DeepGPRegressor, SoD
from sodgp.data import open_rows
from sodgp.errors import CholeskyError, SodgpError
from sodgp.estimator.options.configuration import Configuration
from sodgp.estimator.prepare import checked_data, prepare
from sodgp.likelihoods.student_t import StudentT
from sodgp.training import run
from sodgp.training.distributed.contract import ALONE
from sodgp.training.distributed.group import ranks_here

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
Y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=60)
COUNTS = rng.poisson(2.0 + X[:, 0] ** 2)
CLASSES = np.digitize(X[:, 0], [-0.5, 0.5])
NOISE = rng.uniform(0.01, 0.1, size=60)
WEIGHTS = rng.uniform(0.5, 2.0, size=60)
SMALL = {"n_layers": 2, "subset_size": 8, "batch_size": 25, "n_samples": 2, "random_state": 0, "verbose": False}
BOUND, PREDICTIVE = SoD(objective="bound"), SoD(objective="predictive")


def regressor(**options):
    return DeepGPRegressor(**{**SMALL, "inference": BOUND, **options}), (X, Y)


def counts(likelihood):
    return DeepGPRegressor(**SMALL, inference=BOUND, likelihood=likelihood), (X, COUNTS)


def classes(likelihood, labels=CLASSES):
    return DeepGPClassifier(**SMALL, inference=PREDICTIVE, likelihood=likelihood), (X, labels)


STEPS = {
    "bound": lambda: regressor(),
    "predictive": lambda: regressor(inference=PREDICTIVE),
    "one layer": lambda: regressor(n_layers=1),
    "three layers": lambda: regressor(n_layers=3, hidden_width=2),
    "marginal": lambda: regressor(inference=BOUND.set_params(coupling="marginal")),
    "the paper's family": lambda: regressor(inference=BOUND.set_params(parameterization="paper")),
    "one kernel": lambda: regressor(inference=PREDICTIVE.set_params(separate_kernels=False)),
    "a label noise of its own": lambda: regressor(inference=BOUND.set_params(tie_label_noise=False)),
    "all rows": lambda: regressor(batch_size=60),
    "as many rows as the subset": lambda: regressor(batch_size=24),
    "two targets": lambda: (regressor()[0], (X, np.column_stack([Y, X[:, 1]]))),
    "known noise": lambda: (regressor(likelihood="gaussian")[0], (X, Y, NOISE)),
    "weights": lambda: (regressor()[0], (X, Y, None, WEIGHTS)),
    "weights and known noise": lambda: (regressor(inference=PREDICTIVE)[0], (X, Y, NOISE, WEIGHTS)),
    "heteroscedastic": lambda: regressor(likelihood="heteroscedastic", inference=PREDICTIVE),
    "heavy tails": lambda: regressor(likelihood="heavy_tailed"),
    "student_t": lambda: regressor(likelihood=StudentT()),
    "poisson": lambda: counts("poisson"),
    "negative_binomial": lambda: counts("negative_binomial"),
    "bernoulli": lambda: classes("bernoulli", CLASSES > 0),
    "softmax": lambda: classes("softmax"),
    "dirichlet": lambda: classes("dirichlet"),
    "dsvi": lambda: regressor(inference=DSVI()),
    "dsvi, fixed inputs": lambda: regressor(inference=DSVI(learn_inducing_inputs=False, objective="predictive")),
}


def one_step(name, ranks=ALONE):
    """Terms, gradients and moved buffers of one step from random parameters."""
    estimator, data = STEPS[name]()
    knows_noise, has_weights = len(data) > 2 and data[2] is not None, len(data) > 3
    config = Configuration.from_estimator(estimator, knows_noise=knows_noise, has_weights=has_weights)
    checked = checked_data("an estimator", *data, as_classes="classes" in estimator.takes)
    prepared = prepare(config, checked, seed=None, previous=None, plan=None, ranks=ranks)
    fit = run._Run(prepared.method, [prepared.problem], prepared.settings)
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for p in fit.model.parameters():
            p.add_(0.1 * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    step = run.training_step(fit.inference, fit.model, fit.batcher, fit.seeds, prepared.settings, fit.generators)
    terms = step()
    gradients = {name: p.grad.clone() for name, p in fit.model.named_parameters() if p.grad is not None}
    return {
        "terms": terms,
        "gradients": gradients,
        "buffers": [buffer.clone() for buffer in step.moving.buffers],
    }


def steps(rank):
    with ranks_here() as ranks:
        return {name: one_step(name, ranks) for name in STEPS}


def vector(model):
    return torch.cat([p.detach().reshape(-1) for p in model.fitted_.model.parameters()])


def fitted(method=BOUND, data=(X, Y), resume=False, **options):
    model = DeepGPRegressor(**{**SMALL, "max_iter": 60, "inference": method, **options}).fit(*data, resume=resume)
    return {
        "parameters": vector(model),
        "bound": model.history_.bound,
        "stopped": model.history_.stopped,
        "iteration": model.history_.iteration[-1],
        "rollbacks": model.history_.rollbacks,
    }


def sixty_steps(rank):
    found = {method.objective: fitted(method) for method in (BOUND, PREDICTIVE)}
    return {**found, "rows on a disk": fitted(data=(open_rows(X, Y),))}


class Patched:
    """Changes SoD's terms in one rank, at the calls from number `at` on (the first is the rehearsal)."""

    def __init__(self, is_mine, change, at, *, once=True):
        self.is_mine, self.change, self.at, self.once = is_mine, change, at, once

    def __enter__(self):
        self.honest, calls = SoD.terms, [0]

        def terms(method, model, batch, draws):
            calls[0] += 1
            found = self.honest(method, model, batch, draws)
            is_now = calls[0] == self.at or (calls[0] > self.at and not self.once)
            return self.change(model, found) if self.is_mine and is_now else found

        SoD.terms = terms

    def __exit__(self, *error):
        SoD.terms = self.honest


def nan(model, terms):
    return {**terms, "rest": terms["rest"] * torch.nan}


def fails(model, terms):
    raise CholeskyError("no factor.", layer=1, condition=1e20)


def breaks(model, terms):
    raise OSError("out of something")


def ctrl_c(model, terms):
    os.kill(os.getpid(), signal.SIGINT)
    return terms


def twice_ctrl_c(model, terms):
    raise KeyboardInterrupt


def drift(model, terms):
    next(model.parameters()).data.add_(1e-9)  # unseen by the backward pass
    return terms


def said(work, *arguments, **options):
    """What an error says, or what was found without one."""
    try:
        return work(*arguments, **options)
    except SodgpError as error:
        return f"{type(error).__name__}: {error}"


def together(rank):
    """What happens on rank 1 alone and must happen on all."""
    found, second = {}, rank == 1
    for change in (nan, fails, ctrl_c, twice_ctrl_c):
        with Patched(second, change, 20):
            found[change.__name__] = fitted(max_iter=30)
    with Patched(second, fails, 20, once=False):
        found["always"] = said(fitted, max_iter=30)
    with Patched(second, breaks, 20):
        try:
            found["breaks"] = said(fitted, max_iter=30)
        except OSError as error:
            found["breaks"] = f"OSError: {error}"
    with Patched(second, drift, 20):
        found["drift"] = said(fitted, max_iter=30)
    found["late"] = fitted(max_minutes=1e-9 if second else None)
    calls = []
    found["stop"] = fitted(callbacks=lambda state: calls.append(state.iteration) or state.iteration == 50)
    found["calls"] = calls
    bad = X.copy()
    bad[3, 0] = np.nan if second else 0.0
    found["bad data"] = said(fitted, data=(bad, Y))
    found["other data"] = said(fitted, data=(X, Y + 0.1 * rank * X[:, 1]))
    found["no seed"] = fitted(random_state=None, max_iter=2)
    return found


def refused(rank):
    """What is not supported, by name."""
    cases = {
        "all labels": {"method": SoD(objective="collapsed")},
        "default": {"method": SoD()},
        "joint": {"method": SoD(objective="bound", coupling="joint")},
        "sghmc": {"method": "sghmc", "n_samples": 10},
        "mean_field": {"method": "mean_field", "n_samples": 10},
        "members": {"n_members": 2},
        "restarts": {"n_restarts": 2},
        "rows": {"batch_size": 9},
    }
    return {name: said(fitted, **{"batch_size": None, "max_iter": 2, **case}) for name, case in cases.items()}


def killed(rank, folder):
    """Rank 1 dies at step 40 of 60; the first one has written a checkpoint every 10 steps."""
    with Patched(rank == 1, lambda model, terms: os._exit(9), 41):
        return said(fitted, checkpoint=_every(folder))


def hung(rank, folder):
    os.environ["SODGP_RANKS_TIMEOUT"] = "2"
    with Patched(rank == 1, lambda model, terms: time.sleep(60), 41):
        return said(fitted, checkpoint=_every(folder))


def resumed(rank, folder):
    return fitted(checkpoint=_every(folder), resume=True)


def _every(folder):
    from sodgp.estimator.options.fields import Checkpoint

    return Checkpoint(folder, every=10)


def work(checks, rank, count, folder):
    """Run these checks in this process, and leave what they found in a file."""
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", count)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=count, timeout=timedelta(seconds=60))
    found = {name: globals()[name](rank, *arguments) for name, *arguments in checks}
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()
