"""Subsets that move: q is carried over, the bound's jump is logged, and nothing else changes."""

import copy
import functools

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from sodgp import DeepGPRegressor
from sodgp.errors import ConfigurationError, ModelFileError, NumericalError
from sodgp.estimator.files.record_fields import decode_history
from sodgp.estimator.many import fit_replicates
from sodgp.inference.contract import Batch, bound
from sodgp.inference.sod_transfer import Subset, carried, put
from sodgp.kernels.make import make_kernel
from sodgp.linalg.draws import FreshDraws
from sodgp.selectors import KMeans, Leverage
from sodgp.training.restart import reselect
from sodgp.training.restart.reselect import Reselection, aligned

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.standard_normal(60)
TWO = np.stack([Y, np.cos(X[:, 1])], 1)
FAST = {"subset_size": 12, "n_samples": 3, "n_predict_samples": 4, "max_iter": 40, "random_state": 0, "device": "cpu"}
# Rows far from each other, as k-means picks them; which it picks depends on the version of scikit-learn.
SPREAD = [9, 17, 19, 22, 29, 37, 39, 41, 44, 49, 52, 53]
KEYS = {"iteration", "bound_before", "bound_after", "n_changed", "variant"}


class Fixed:
    """A selector that takes the next of some given subsets."""

    def __init__(self, *subsets):
        self.subsets = list(subsets)

    def select(self, X, y, size, kernel, generator):
        return torch.tensor(self.subsets.pop(0) if len(self.subsets) > 1 else self.subsets[0])


@functools.cache
def fitted(n_outputs, options):
    return DeepGPRegressor(**{**FAST, "max_iter": 150, **dict(options)}).fit(X, Y if n_outputs == 1 else TWO)


def trained(y=Y, **options):
    model = copy.deepcopy(fitted(y.ndim, tuple(options.items())))
    X_t = torch.as_tensor(model._x_scaler.transform(X))
    y_t = torch.as_tensor(model._y_scaler.transform(y.reshape(len(y), -1)))
    return model, X_t, y_t, torch.as_tensor(model.subset_indices_)


def bound_at(estimator, model, X_t, y_t, chosen):
    rest = torch.tensor([row for row in range(len(X_t)) if row not in set(chosen.tolist())])
    batch = Batch(*(t[rows].unsqueeze(0) for rows in (chosen, rest) for t in (X_t, y_t)), scale=1.0)
    with torch.no_grad():
        draws = FreshDraws(torch.Generator().manual_seed(3), 50)
        return float(bound(estimator._method.terms(model, batch, draws)))


def moved(model, X_t, y_t, old, new):
    """Copies of the model for every variant of a carried q."""
    places = {int(row): place for place, row in enumerate(old)}
    kept = torch.tensor([places.get(int(row), -1) for row in new])
    for name, parameters in carried(model, Subset(X_t[old], y_t[old]), Subset(X_t[new], y_t[new]), kept).items():
        other = copy.deepcopy(model)
        put(other, parameters)
        yield name, other


FAMILIES = [
    {"n_layers": 1},
    {"n_layers": 1, "parameterization": "paper"},
    {"n_layers": 1, "tie_label_noise": False},
    {"n_layers": 2},
    {"n_layers": 3, "parameterization": "paper", "max_iter": 30},
]


@pytest.mark.parametrize("options", FAMILIES)
@pytest.mark.parametrize("y", [Y, TWO], ids=["one-output", "two-outputs"])
def test_the_same_subset_changes_nothing(options, y):
    estimator, X_t, y_t, old = trained(y, **options)
    ((name, other),) = moved(estimator.model_, X_t, y_t, old, old)
    assert name == "reordered"
    for before, after in zip(estimator.model_.layers, other.layers, strict=True):
        assert_allclose(after.q_mean, before.q_mean, atol=1e-7)
        (_, C), (_, C_new) = before.variational_parameters(), after.variational_parameters()
        assert_allclose(C_new @ C_new.mT, C @ C.mT, atol=1e-7)


@pytest.mark.parametrize("options", FAMILIES[:3])
def test_one_layer_in_another_order_has_the_same_bound(options):
    estimator, X_t, y_t, old = trained(**options)
    ((_, other),) = moved(estimator.model_, X_t, y_t, old, old.flip(0))
    before = bound_at(estimator, estimator.model_, X_t, y_t, old)
    assert_allclose(bound_at(estimator, other, X_t, y_t, old.flip(0)), before, rtol=1e-8)


@pytest.mark.parametrize("options", [{"n_layers": 1}, {"n_layers": 1, "parameterization": "paper"}, {"n_layers": 2}])
def test_other_rows_cost_little_of_the_bound(options):
    estimator, X_t, y_t, old = trained(**options, subset=Fixed(SPREAD))
    rest = torch.tensor([row for row in range(60) if row not in set(SPREAD)])
    new = torch.cat([rest[:4], old[4:]])
    before = bound_at(estimator, estimator.model_, X_t, y_t, old)
    uncarried = bound_at(estimator, estimator.model_, X_t, y_t, new)
    after = max(bound_at(estimator, other, X_t, y_t, new) for _, other in moved(estimator.model_, X_t, y_t, old, new))
    # Most of what is lost is due to the subset itself: rows in order of number are worse ones than these.
    assert before - after < 0.3 * (before - uncarried)
    assert before - after < 0.5 * len(Y)


def test_a_prior_stays_the_prior():
    """Rows of a hidden layer about which q says nothing come out as the prior says."""
    estimator, X_t, y_t, old = trained(n_layers=2)
    model, layer = estimator.model_, estimator.model_.layers[0]
    with torch.no_grad():
        layer.q_mean.zero_()
        layer.q_factor.copy_(torch.eye(12).expand_as(layer.q_factor))
    new = torch.tensor([row for row in range(60) if row not in set(old.tolist())][:12])
    for _, other in moved(model, X_t, y_t, old, new):
        assert_allclose(other.layers[0].q_mean, layer.q_mean, atol=1e-9)
        assert_allclose(other.layers[0].q_factor, layer.q_factor, atol=1e-6)


def test_the_posterior_at_new_rows_keeps_its_mean():
    """Variant "divided": q_hat with the new labels has the mean that the old posterior had there."""
    estimator, X_t, y_t, old = trained(n_layers=1)
    model, new = estimator.model_, torch.cat([old[:8], torch.tensor([r for r in range(60) if r not in old][:4])])
    from sodgp.inference.sod import label_noise
    from sodgp.layers.contract import Points

    with torch.no_grad():
        was = model.last.label_informed(Points(X_t[old][None], X_t[new][None]), y_t[old][None], label_noise(model))
        other = dict(moved(model, X_t, y_t, old, new))["divided"]
        now = other.last.label_informed(Points(X_t[new][None], X_t[:1][None]), y_t[new][None], label_noise(model))
    assert_allclose(now.subset_mean, was.mean, atol=1e-4)


@pytest.mark.parametrize("subset", ["kmeans", "random", "greedy_variance", "rp_cholesky", "leverage", "dpp"])
def test_history_and_final_subset(subset):
    model = DeepGPRegressor(subset=subset, reselect_every=10, **FAST).fit(X, Y)
    entries = model.history_.reselections
    assert [entry["iteration"] for entry in entries] == [10, 20]
    assert model.history_.iteration == [1, 10, 20, 40]
    for entry in entries:
        assert entry.keys() == KEYS
        assert np.isfinite([entry["bound_before"], entry["bound_after"]]).all()
        assert 0 <= entry["n_changed"] <= 12
        assert entry["variant"] in ("divided", "pulled") if entry["n_changed"] else entry["variant"] == ""
    assert len(set(model.subset_indices_.tolist())) == 12
    scaled = model._x_scaler.transform(X[model.subset_indices_])
    assert_allclose(model._X_s[0], scaled)
    assert_allclose(model._y_s[0, :, 0], model._y_scaler.transform(Y[model.subset_indices_, None])[:, 0])
    assert "moved_subset" not in vars(model.model_)


def test_the_seed_fixes_everything():
    first, second = (DeepGPRegressor(subset="leverage", reselect_every=7, **FAST).fit(X, Y) for _ in range(2))
    assert_array_equal(first.subset_indices_, second.subset_indices_)
    assert first.history_.reselections == second.history_.reselections
    assert_array_equal(first.predict(X), second.predict(X))


@pytest.mark.parametrize("options", [{}, {"n_layers": 1, "subset": "dpp"}, {"batch_size": 30, "subset": "leverage"}])
def test_every_replicate_has_the_result_that_it_has_alone(options):
    common = {**FAST, "reselect_every": 5, "max_iter": 20, **options}
    sets = [(X, Y), (X[::-1] * 2, np.cos(Y))]
    members = [DeepGPRegressor(**{**common, "random_state": seed}) for seed in (1, 2)]
    for member, data in zip(fit_replicates(members, sets), sets, strict=True):
        alone = clone(member).fit(*data)
        assert_array_equal(member.subset_indices_, alone.subset_indices_)
        for together, single in zip(member.history_.reselections, alone.history_.reselections, strict=True):
            assert together["n_changed"] == single["n_changed"]
            assert_allclose(together["bound_after"], single["bound_after"], rtol=1e-6)
        assert_allclose(member.predict(data[0]), alone.predict(data[0]), rtol=1e-5, atol=1e-6)


def test_without_the_option_no_subset_moves():
    assert DeepGPRegressor(**FAST).fit(X, Y).history_.reselections == []


def test_a_pause_longer_than_half_of_the_run_is_refused():
    with pytest.raises(ConfigurationError, match="reselect_every=21 never happens"):
        DeepGPRegressor(reselect_every=21, **FAST).fit(X, Y)


def test_the_same_rows_again_only_restart_the_moments():
    model = DeepGPRegressor(subset=Fixed(range(12), range(11, -1, -1)), reselect_every=10, **FAST).fit(X, Y)
    assert_array_equal(model.subset_indices_, range(12))
    for entry in model.history_.reselections:
        assert entry["n_changed"] == 0
        assert entry["bound_before"] == entry["bound_after"]


def test_rows_change_places_and_no_row_counts_twice():
    model = DeepGPRegressor(subset=Fixed(range(12), range(6, 18)), reselect_every=20, **FAST).fit(X, Y)
    assert sorted(model.subset_indices_) == list(range(6, 18))
    assert_array_equal(model.subset_indices_[6:], range(6, 12))
    assert model.history_.reselections[0]["n_changed"] == 6


def test_a_subset_of_all_rows_stays():
    model = DeepGPRegressor(**{**FAST, "subset_size": 60}, reselect_every=5).fit(X, Y)
    assert model.history_.reselections == []


@pytest.mark.parametrize("error", [NumericalError("no"), torch.linalg.LinAlgError("no")])
def test_a_failure_leaves_the_subset_as_it_is(monkeypatch, error):
    def fails(*_):
        raise error

    monkeypatch.setattr(reselect, "carried", fails)
    model = DeepGPRegressor(subset="random", reselect_every=10, **FAST).fit(X, Y)
    assert model.history_.reselections == []
    assert_array_equal(model.subset_indices_, DeepGPRegressor(subset="random", **FAST).fit(X, Y).subset_indices_)


def test_a_selection_that_fails_leaves_the_subset_as_it_is():
    class Fails(KMeans):
        calls = 0

        def select(self, *arguments, **options):
            Fails.calls += 1
            if Fails.calls > 1:
                raise torch.linalg.LinAlgError("no")
            return super().select(*arguments, **options)

    model = DeepGPRegressor(subset=Fails(), reselect_every=10, **FAST).fit(X, Y)
    assert Fails.calls == 3
    assert model.history_.reselections == []


def test_single_precision_and_other_couplings():
    for options in ({"dtype": "float32"}, {"coupling": "marginal"}, {"coupling": "joint"}, {"kernel": "rq-iso"}):
        model = DeepGPRegressor(reselect_every=10, **FAST, **options).fit(X, Y)
        assert len(model.history_.reselections) == 2
        assert np.isfinite(model.predict(X)).all()


def test_save_and_load(tmp_path):
    model = DeepGPRegressor(subset="leverage", reselect_every=10, **FAST).fit(X, Y)
    model.save(tmp_path / "m.sodgp")
    again = DeepGPRegressor.load(tmp_path / "m.sodgp")
    assert again.history_.reselections == model.history_.reselections
    assert again.reselect_every == 10
    assert_array_equal(again.subset_indices_, model.subset_indices_)
    assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("entries", [3, [3], [{"iteration": 1}], [dict.fromkeys(KEYS, 1.0)]])
def test_wrong_entries_of_a_file_are_refused(entries):
    history = {"iteration": [], "bound": [], "terms": {}, "seconds": [], "rollbacks": 0, "stopped": ""}
    assert decode_history(history).reselections == []
    with pytest.raises(ModelFileError, match="reselections"):
        decode_history({**history, "reselections": entries})


@pytest.mark.parametrize("steps", [0, -3, 2.5, "often", True])
def test_wrong_numbers_of_steps_are_refused(steps):
    with pytest.raises(ConfigurationError, match="reselect_every"):
        DeepGPRegressor(reselect_every=steps, **FAST).fit(X, Y)


@pytest.mark.parametrize("inference", ["dsvi", "sghmc", "mean_field"])
def test_only_subsets_of_data_move(inference):
    with pytest.raises(ConfigurationError, match="reselect_every"):
        DeepGPRegressor(inference=inference, reselect_every=5).fit(X, Y)


def test_selection_sees_the_learned_kernel():
    kernel = make_kernel("rbf", 2)
    kernel.base_kernel.lengthscale = torch.tensor([1.0, 1e4], dtype=torch.float64)
    rows = torch.rand(200, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rows[:, 1] *= 30
    seen = []

    class Spy:
        def select(self, X, y, size, kernel, generator):
            seen.append((X, kernel))
            return torch.arange(size)

    Reselection(1, 1, Spy()).select(rows, rows, 4, kernel, torch.Generator())
    assert seen[0][0] is rows
    assert_allclose(seen[0][1].base_kernel.lengthscale.tolist(), [[1.0, 1e4]], rtol=1e-4)
    # The second column does not matter to the kernel, and so no longer to k-means: its clusters follow the first.
    chosen = Reselection(1, 1, KMeans()).select(rows, rows, 4, kernel, torch.Generator().manual_seed(0))
    assert sorted((rows[chosen, 0] * 4).int().tolist()) == [0, 1, 2, 3]
    assert len(Reselection(1, 1, Leverage()).select(rows, rows, 4, kernel, torch.Generator())) == 4


def test_aligned_rows_keep_their_places():
    rows, kept = aligned(torch.tensor([4, 7, 1, 9]), torch.tensor([1, 2, 4, 3]))
    assert rows.tolist() == [4, 2, 1, 3]
    assert kept.tolist() == [0, -1, 2, -1]


def test_an_interrupted_and_a_failed_fit_keep_the_moved_subset():
    stop = DeepGPRegressor(reselect_every=10, callbacks=[lambda state: state.iteration >= 20], **FAST).fit(X, Y)
    assert [entry["iteration"] for entry in stop.history_.reselections] == [10]
    assert_allclose(stop._X_s[0], stop._x_scaler.transform(X[stop.subset_indices_]))
