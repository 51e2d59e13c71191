"""Estimators trained in one program have the results that each would have had alone."""

import numpy as np
import pytest
from gpytorch.kernels import MaternKernel, PeriodicKernel, RBFKernel, RQKernel, ScaleKernel
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from sodgp import DeepGPRegressor
from sodgp.errors import ConfigurationError, InputError
from sodgp.estimator.many import fit_replicates

SETS = []
for seed in range(3):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((30, 3)) * (1 + seed)
    SETS.append((rows, np.sin(rows[:, 0]) + seed))

OPTIONS = {
    "sod-1": {"n_layers": 1},
    "sod-2": {"n_layers": 2},
    "sod-3-paper": {"n_layers": 3, "inference__parameterization": "paper", "inference__tie_label_noise": False},
    "sod-2-marginal-rq": {"inference__coupling": "marginal", "kernel": "rq"},
    "sod-2-joint": {"inference__coupling": "joint"},
    "sod-2-narrow": {"hidden_width": 1},
    "dsvi-2": {"inference": "dsvi"},
    "mean_field-2": {"inference": "mean_field", "n_samples": 10, "batch_size": None},
    "sghmc-2": {"inference": "sghmc", "n_samples": 10, "inference__n_posterior_samples": 4, "inference__thinning": 2},
}


def models(options, seeds=(5, 6, 7)):
    common = {"subset_size": 8, "n_samples": 2, "n_predict_samples": 4, "max_iter": 20, "batch_size": 20, **options}
    return [DeepGPRegressor().set_params(**common, random_state=seed) for seed in seeds]


@pytest.mark.parametrize("name", OPTIONS)
def test_every_replicate_has_the_result_that_it_has_alone(name):
    together = fit_replicates(models(OPTIONS[name]), SETS)
    for replicate, (X, y) in zip(together, SETS, strict=True):
        alone = clone(replicate).fit(X, y)
        if hasattr(alone, "subset_indices_"):
            assert_array_equal(replicate.subset_indices_, alone.subset_indices_)
        assert replicate.n_parameters_ == alone.n_parameters_
        assert replicate.history_.iteration == alone.history_.iteration
        assert_allclose(replicate.history_.bound, alone.history_.bound, rtol=1e-6)
        assert_allclose(replicate.predict(X), alone.predict(X), rtol=1e-5, atol=1e-6)


def test_one_replicate_is_an_ordinary_fit():
    (together,) = fit_replicates(models({}, seeds=(5,)), SETS[:1])
    assert_array_equal(together.predict(SETS[0][0]), clone(together).fit(*SETS[0]).predict(SETS[0][0]))


def test_different_options_are_named():
    first, second = models({}, seeds=(1, 2))
    second.set_params(kernel="rq", max_iter=7)
    with pytest.raises(ConfigurationError, match="these differ: kernel, max_iter"):
        fit_replicates([first, second], SETS[:2])


def test_different_shapes_and_numbers_are_refused():
    with pytest.raises(ConfigurationError, match="equal numbers of rows"):
        fit_replicates(models({}, seeds=(1, 2)), [SETS[0], (SETS[1][0][:20], SETS[1][1][:20])])
    with pytest.raises(ConfigurationError, match="as many data sets"):
        fit_replicates(models({}), SETS[:2])
    with pytest.raises(ConfigurationError):
        fit_replicates([], [])


@pytest.mark.parametrize(
    "kernel",
    [
        lambda d: ScaleKernel(RBFKernel(ard_num_dims=d)) + ScaleKernel(MaternKernel(nu=1.5)),
        lambda d: ScaleKernel(RBFKernel() * RQKernel()),
        lambda d: ScaleKernel(RBFKernel(active_dims=[0])),
        lambda d: RBFKernel(active_dims=[0]) + ScaleKernel(PeriodicKernel()),
    ],
    ids=["sum", "product", "active_dims", "part_of_a_sum"],
)
def test_kernels_of_the_user_train_as_they_do_alone(kernel):
    # Few steps: rounding differs between the two, and grows from step to step.
    models = [DeepGPRegressor(kernel=kernel, max_iter=4, subset_size=8, random_state=seed) for seed in range(2)]
    alone = [clone(model).fit(X, y) for model, (X, y) in zip(models, SETS, strict=False)]
    for together, single, (X, _) in zip(fit_replicates(models, SETS[:2]), alone, SETS, strict=False):
        assert_allclose(together.predict(X), single.predict(X), rtol=1e-7, atol=1e-7)
        assert any(p.abs().sum() > 0 for p in together.model_.layers[0].kernel.parameters())


def test_a_kernel_function_that_returns_one_object_leaves_it_alone():
    kernel = ScaleKernel(RBFKernel(ard_num_dims=3))
    model = DeepGPRegressor(kernel=lambda d: kernel, max_iter=5, subset_size=8, random_state=0)
    first, second = (clone(model).fit(*SETS[0]).predict(SETS[0][0]) for _ in range(2))
    assert_array_equal(first, second)
    assert all(p.requires_grad and float(p.detach().abs().sum()) == 0.0 for p in kernel.parameters())


def test_a_failure_leaves_earlier_fits_whole():
    models = [DeepGPRegressor(max_iter=5, subset_size=8, random_state=seed) for seed in range(2)]
    fit_replicates(models, SETS[:2])
    before = models[0].predict(SETS[0][0])
    bad = SETS[1][1].copy()
    bad[3] = np.nan
    with pytest.raises(InputError):
        fit_replicates(models, [(SETS[0][0], 1000.0 * SETS[0][1]), (SETS[1][0], bad)])
    assert_array_equal(models[0].predict(SETS[0][0]), before)


def test_one_estimator_cannot_be_two_replicates():
    model = DeepGPRegressor(max_iter=5)
    with pytest.raises(ConfigurationError, match="given twice"):
        fit_replicates([model, model], SETS[:2])


def test_restarts_of_replicates_are_refused():
    models = [DeepGPRegressor(max_iter=5, n_restarts=2, random_state=seed) for seed in range(2)]
    with pytest.raises(ConfigurationError, match="n_restarts"):
        fit_replicates(models, SETS[:2])


def test_restarts_keep_the_best_bound_and_take_objects_as_options():
    class Counter:
        calls = 0

        def __call__(self, state):
            self.calls += 1

    counter = Counter()
    model = DeepGPRegressor(n_restarts=3, max_iter=10, subset_size=8, random_state=0, callbacks=[counter])
    model.fit(*SETS[0])
    assert len(model.restart_bounds_) == 3
    assert np.mean(model.history_.bound[-5:]) == max(model.restart_bounds_)
    assert counter.calls == 2
    model.set_params(n_restarts=1).fit(*SETS[0])
    assert not hasattr(model, "restart_bounds_")


def test_replicates_may_choose_their_subsets_differently():
    X, y = np.linspace(-1, 1, 40)[:, None], np.sin(np.linspace(-3, 3, 40))
    models = [DeepGPRegressor(subset=name, subset_size=8, max_iter=20, random_state=1) for name in ("kmeans", "dpp")]
    alone = [clone(model).fit(X, y) for model in models]
    for single, among in zip(alone, fit_replicates(models, [(X, y)] * 2), strict=True):
        np.testing.assert_array_equal(among.subset_indices_, single.subset_indices_)
        np.testing.assert_allclose(among.predict(X), single.predict(X), rtol=1e-8)
