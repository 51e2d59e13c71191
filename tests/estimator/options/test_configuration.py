"""Options that depend on the data, and what the named ones turn into."""

import pytest
import torch

from sodgp import DSVI, SGHMC, DeepGPRegressor, SoD
from sodgp.errors import ConfigurationError, NumericalWarning, SubsetSizeWarning
from sodgp.estimator.options.configuration import Configuration
from sodgp.estimator.options.fields import EFFORTS
from sodgp.likelihoods import HeavyTailed
from sodgp.linalg.cholesky import Jitter
from sodgp.model.architecture import Initialization


def configuration(**options):
    return Configuration.from_estimator(DeepGPRegressor().set_params(**options))


def batch_rows(options, size, n_rest):
    return options.batch_rows(options.method, size, n_rest)


@pytest.mark.parametrize(
    ("option", "n_rows", "size"),
    [(None, 10_000, 100), ("paper", 4999, 50), ("paper", 5000, 100), ("paper", 20, 20), (30, 40, 30), (40, 40, 40)],
)
def test_the_size_of_the_subset(option, n_rows, size):
    assert configuration(subset_size=option).subset_rows(n_rows) == size


@pytest.mark.parametrize("n_rows", [1, 2, 7, 60])
def test_the_default_subset_of_small_data_leaves_a_rest(n_rows):
    size = configuration().subset_rows(n_rows)
    assert 1 <= size <= max(1, (n_rows + 1) // 2)


def test_a_subset_larger_than_the_data_warns_only_where_it_was_asked_for():
    with pytest.warns(SubsetSizeWarning, match="more than the 20 rows"):
        assert configuration(subset_size=30).subset_rows(20) == 20


def test_the_batch_counts_the_subset_in():
    assert batch_rows(configuration(batch_size=100), 30, 1000) == 70
    assert batch_rows(configuration(batch_size=100), 30, 50) == 50
    assert batch_rows(configuration(batch_size=100), 100, 0) == 0
    assert batch_rows(configuration(batch_size=10), 100, 0) == 0
    with pytest.raises(ConfigurationError, match="use more than 100"):
        batch_rows(configuration(batch_size=100), 100, 1)


def test_mean_field_sees_all_rows():
    assert batch_rows(configuration(inference="mean_field"), 0, 4321) == 4321


@pytest.mark.parametrize(
    ("n_layers", "option", "input_dim", "widths"),
    [(1, None, 8, []), (3, None, 8, [8, 8]), (2, None, 90, [30]), (3, 5, 8, [5, 5]), (3, [4, 6], 8, [4, 6])],
)
def test_hidden_widths(n_layers, option, input_dim, widths):
    assert configuration(n_layers=n_layers, hidden_width=option).hidden_widths(SoD(), 100, input_dim) == widths


def test_a_list_of_widths_has_one_for_each_hidden_layer():
    with pytest.raises(ConfigurationError, match="has 3 entries, but n_layers=3 has 2 hidden layers"):
        configuration(n_layers=3, hidden_width=[1, 2, 3])


@pytest.mark.parametrize("width", [1, 2])
def test_the_papers_family_warns_of_narrow_layers(width):
    paper = SoD(parameterization="paper")
    with pytest.warns(NumericalWarning, match="badly conditioned"):
        configuration(hidden_width=width).hidden_widths(paper, 100, 8)
    assert configuration(hidden_width=3).hidden_widths(paper, 100, 8) == [3, 3]


@pytest.mark.parametrize(
    ("option", "dtype", "jitter"),
    [
        (None, "float64", Jitter(1e-6)),
        (None, "float32", Jitter(1e-4)),
        (1e-3, "float64", Jitter(1e-3)),
        ("program", "float64", Jitter(1e-6, relative=False, on_draws=True)),
    ],
)
def test_jitter(option, dtype, jitter):
    assert configuration(tuning__jitter=option, dtype=dtype).jitter == jitter


def test_a_name_stands_for_a_method_or_likelihood_with_its_defaults():
    assert configuration().method == SoD()
    assert configuration(inference="dsvi").method == DSVI()
    sampler = SGHMC(n_posterior_samples=20, n_chains=4)
    assert configuration(inference=sampler).method is sampler
    assert configuration(likelihood="heavy_tailed").likelihood == HeavyTailed()
    for name, value in (("inference", "map"), ("inference", SoD), ("likelihood", "beta"), ("likelihood", 3)):
        with pytest.raises(ConfigurationError, match=name):
            configuration(**{name: value})


def test_verbose_adds_a_progress_bar_behind_the_users_callbacks():
    def watch(state):
        return None

    assert configuration(callbacks=[watch]).callbacks == [watch]
    for verbose in (1, True, 2):
        with_bar = configuration(callbacks=[watch], verbose=verbose).callbacks
        assert len(with_bar) == 2
        assert with_bar[0] is watch


def test_a_bar_is_automatic_where_somebody_watches(monkeypatch):
    assert configuration().callbacks == []
    monkeypatch.setattr("sodgp.estimator.options.fields.is_watched", lambda: True)
    assert len(configuration().callbacks) == 1
    assert [configuration(verbose=quiet).callbacks for quiet in (0, False)] == [[], []]
    with pytest.raises(ConfigurationError, match=r"verbose \(unless it is 'auto'\) must be an integer"):
        configuration(verbose="loud")


def test_dtype_and_initial_values():
    assert configuration(dtype="float32").dtype == torch.float32
    start = Initialization(noise_variance=0.3)
    assert configuration(tuning__initialization=start).initialization is start
    assert configuration().initialization == Initialization()


def test_efforts_decide_what_is_left_open():
    def resolved(rows=1000, **options):
        chosen = configuration(**options)
        size, method = (
            chosen.subset_rows(rows),
            chosen.method.settled(n_rows=rows, n_layers=None, kernel=chosen.kernel, likelihood=chosen.likelihood),
        )
        return size, chosen.steps_of(method, rows), chosen.batch_rows(method, size, rows - size)

    def bound(**options):
        return resolved(inference__objective="bound", **options)

    assert bound() == (100, 1400, 200)
    assert bound(effort="quick") == (50, 450, 150)
    assert bound(effort="thorough") == (200, 2000, 500)
    assert bound(rows=60, effort="thorough") == (30, 2000, 30)
    assert bound(effort="thorough", subset_size=7, max_iter=5, batch_size=20) == (7, 5, 13)
    # With all labels in q_hat a step sees all rows, and there are a ninth as many, in small tables more.
    assert resolved() == (100, 155, 900)
    assert resolved(effort="quick") == (50, 50, 950)
    assert resolved(effort="thorough") == (200, 222, 800)
    assert resolved(rows=60, effort="thorough") == (30, 592, 30)
    assert resolved(effort="thorough", subset_size=7, max_iter=5, batch_size=20) == (7, 5, 13)
    # A twentieth of many rows, up to 1,800.
    assert resolved(rows=20_000) == (100, 1400, 1000)
    assert resolved(rows=10**6) == resolved(rows=10**5) == (100, 1400, 1800)
    # A large subset leaves as many rows beside it, and the other methods have the paper's batches.
    assert bound(subset_size=600) == (600, 1400, 400)
    assert bound(rows=2000, subset_size=600) == (600, 1400, 600)
    assert resolved(rows=5000, inference="dsvi") == (100, 1400, 1900)
    with pytest.raises(ConfigurationError, match="effort='heroic'"):
        resolved(effort="heroic")


@pytest.mark.parametrize(
    ("options", "members"),
    [
        ({}, 1),
        ({"effort": "quick"}, 1),
        ({"effort": "thorough"}, EFFORTS["thorough"].members),
        ({"effort": "thorough", "n_members": 1}, 1),
        ({"effort": "thorough", "n_restarts": 2}, 1),
        ({"effort": "thorough", "warm_start": True}, 1),
        ({"effort": "thorough", "validation_fraction": 0.1}, 1),
        ({"effort": "thorough", "inference": "dsvi"}, 1),
        ({"effort": "thorough", "kernel": lambda dims: None}, 1),
        ({"n_members": 2, "inference": "dsvi"}, 2),
    ],
)
def test_who_has_members(options, members):
    assert configuration(**options).n_members == members
