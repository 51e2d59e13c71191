"""Sites that move in training: roll-backs, checkpoints, warm starts and files carry them."""

import copy

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from sodgp import DeepGPClassifier, DeepGPRegressor
from sodgp.errors import ModelFileError, NumericalError
from sodgp.inference import sod_sites
from sodgp.inference.contract import TrainingSet
from sodgp.inference.sod import SoD
from sodgp.likelihoods import Gaussian, Poisson
from sodgp.linalg.draws import FreshDraws, TapeDraws
from sodgp.model.architecture import Architecture
from sodgp.training.batches import Batcher
from sodgp.training.loop import train
from sodgp.training.moving import Moving
from sodgp.training.steps import EagerStep, Schedule

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (30, 2))
COUNTS = RNG.poisson(np.exp(1.0 + np.sin(X[:, 0])))
OPTIONS = {"n_layers": 2, "subset_size": 8, "max_iter": 10, "n_samples": 2, "n_predict_samples": 4, "random_state": 0}


def regressor(**options):
    return DeepGPRegressor().set_params(**{**OPTIONS, "likelihood": "poisson", **options})


def pieces(likelihood):
    rows, y = torch.as_tensor(X), torch.as_tensor(COUNTS, dtype=torch.float64)[:, None]
    data = TrainingSet(rows[:8], y[:8], rows[8:], y[8:])
    method = SoD()
    model = method.build(Architecture(2, 1, 8, [], likelihood=likelihood), data, torch.Generator().manual_seed(0))
    batcher = Batcher(data, 10, [torch.Generator().manual_seed(1)])
    draws = TapeDraws(torch.Generator().manual_seed(2), 3)
    return model, batcher, draws, Moving(method, model, batcher, draws)


def test_gaussian_labels_have_nothing_to_move_and_draw_no_number():
    model, _, draws, moving = pieces(Gaussian())
    state = draws.generators[0].get_state()
    moving(1.0)
    assert moving.buffers == []
    assert torch.equal(draws.generators[0].get_state(), state)
    assert not model.last.has_sites


def test_the_pace_is_a_share_of_the_way():
    model, _, _, moving = pieces(Poisson())
    assert [id(buffer) for buffer in moving.buffers] == [id(model.last.lambda_1), id(model.last.lambda_2)]
    moving(0.0)
    assert not bool(model.last.lambda_2.any())
    with torch.no_grad():
        p_s, _ = model.likelihood.at(
            moving.batcher.batch().X_s, moving.batcher.batch().X_s, FreshDraws(torch.Generator(), 1)
        )
        # With one layer nothing is drawn, and q starts as the prior.
        at_prior = p_s.natural_sites(
            moving.batcher.batch().y_s, torch.zeros(1, 8, 1).double(), torch.ones(1, 8, 1).double()
        )
    moving(0.5)
    expected = 0.5 * sod_sites.STEP * at_prior.lambda_2[0]
    torch.testing.assert_close(model.last.lambda_2, expected, rtol=1e-4, atol=1e-6)


def test_a_failed_step_brings_the_sites_back():
    model, _, _, moving = pieces(Poisson())
    seen, calls = [], [0]

    def objective():
        calls[0] += 1
        seen.append(model.last.lambda_2.clone())
        if calls[0] == 3:
            raise NumericalError("the bound is not finite.")
        return {"fit": -model.last.q_mean.square().sum()}

    step = EagerStep(model, objective, 0.1, moving=moving)
    (history,) = train(step, model, Schedule(0.1, "constant", 4), log_every=1)
    assert history.rollbacks == 1
    # The third call failed; the fourth begins where the second, the last that was seen to be good, began.
    assert torch.equal(seen[3], seen[1])
    assert not torch.equal(seen[2], seen[1])
    assert step.pace == pytest.approx(0.5)


@pytest.mark.parametrize("inference", ["sod", "dsvi", "sghmc"])
def test_an_interrupted_fit_resumes_bit_for_bit(tmp_path, inference):
    options = {"inference": inference}
    if inference == "sghmc":
        options |= {"inference__n_posterior_samples": 4, "inference__thinning": 2, "n_samples": None}
        options["n_samples"] = DeepGPRegressor().n_samples
    expected = regressor(**options).fit(X, COUNTS)
    folder = {"checkpoint": tmp_path, "checkpoint__every": 3}
    if inference == "sghmc":
        with pytest.warns(UserWarning, match="stopped"):
            regressor(**options, **folder, max_minutes=1e-9).fit(X, COUNTS)
    else:
        regressor(**options, **folder, max_minutes=1e-9).fit(X, COUNTS)
    again = regressor(**options, **folder).fit(X, COUNTS, resume=True)
    for name, value in expected.model_.state_dict().items():
        assert torch.equal(again.model_.state_dict()[name], value), name


def test_a_model_file_carries_the_sites_and_refuses_negative_curvature(tmp_path):
    model = regressor().fit(X, COUNTS)
    model.save(tmp_path / "model.sodgp")
    again = DeepGPRegressor.load(tmp_path / "model.sodgp")
    assert bool((again.model_.last.lambda_2 > 0).any())
    assert_array_equal(again.predict(X), model.predict(X))
    with torch.no_grad():
        model.model_.last.lambda_2.neg_()
    # What is written is read back first.
    with pytest.raises(ModelFileError):
        model.save(tmp_path / "broken.sodgp")


STILL = {"warm_start": True, "max_iter": 1, "learning_rate": 1e-12}


@pytest.mark.parametrize("inference", ["sod", "dsvi"])
def test_a_warm_start_on_the_same_rows_begins_where_the_fit_ended(inference):
    model = regressor(inference=inference, max_iter=30).fit(X, COUNTS)
    before = copy.deepcopy(model)
    model.set_params(**STILL).fit(X, COUNTS)
    assert_allclose(model.predict(X), before.predict(X), rtol=0.05)
    assert model.history_.bound[0] > before.history_.bound[0] + 5.0


def test_sites_of_rows_that_stay_are_carried_and_new_rows_begin_without():
    old = regressor(max_iter=5).fit(X, COUNTS)
    model, chosen = old.model_, old.subset_indices_
    other = SoD().build(old_architecture(), None, torch.Generator())
    kept = torch.tensor([2, -1, 0, 5, -1, 1, 3, 4])
    sod_sites.carry(model, other, kept)
    stay = kept >= 0
    assert torch.equal(other.last.lambda_1[stay], model.last.lambda_1[kept[stay]])
    assert not bool(other.last.lambda_2[~stay].any())
    assert len(chosen) == 8


def old_architecture():
    return Architecture(2, 1, 8, [torch.eye(2, dtype=torch.float64)], likelihood=Poisson())


def test_a_warm_start_with_more_rows_begins_far_above_a_cold_one():
    model = regressor(max_iter=40).fit(X[:24], COUNTS[:24])
    cold = regressor(max_iter=1).fit(X, COUNTS)
    model.set_params(**STILL).fit(X, COUNTS)
    assert model.history_.bound[0] > cold.history_.bound[0] + 5.0


def test_a_warm_start_of_another_likelihood_is_refused():
    model = regressor().fit(X, COUNTS)
    with pytest.raises(Exception, match="warm_start"):
        model.set_params(likelihood="negative_binomial", **STILL).fit(X, COUNTS)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_classifier_moves_its_sites(n_classes):
    labels = np.digitize(X[:, 0], [0.0, 1.0][: n_classes - 1])
    kind = "bernoulli" if n_classes == 2 else "softmax"
    model = DeepGPClassifier().set_params(**OPTIONS, likelihood=kind).fit(X, labels)
    assert bool((model.model_.last.lambda_2 > 0).all())
    assert model.predict_proba(X).shape == (30, n_classes)
