"""Memory: estimates against PyTorch's own count, chunks that halve, refusals with numbers."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from sodgp import DeepGPRegressor
from sodgp.errors import ResourceError, SodgpError
from sodgp.estimator import memory_budget as resources
from sodgp.estimator.options.configuration import Configuration
from sodgp.estimator.prepare import checked_data, prepare
from sodgp.inference.sod import SoD
from sodgp.inference.sod_prediction import SubsetPredictor
from sodgp.system import memory

CPU = torch.device("cpu")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 6))
Y = np.sin(X[:, 0]) + X[:, 1]
NEW = RNG.standard_normal((500, 6))
METHODS = {
    "sod": {"n_layers": 2},
    "sod-3": {"n_layers": 3},
    "sod-8": {"n_layers": 8},
    "predictive": {"n_layers": 3, "inference__objective": "predictive"},
    "sod-1": {"n_layers": 1},
    "separate": {"n_layers": 2, "inference__separate_kernels": True},
    "separate-3": {"n_layers": 3, "inference__separate_kernels": True},
    "heavy tails": {"n_layers": 2, "likelihood": "heavy_tailed"},
    "marginal": {"inference__coupling": "marginal", "n_layers": 3},
    "joint": {"inference__coupling": "joint", "batch_size": 250, "n_layers": 2},
    "joint-3": {"inference__coupling": "joint", "batch_size": 150, "n_layers": 3},
    "joint-4": {"inference__coupling": "joint", "batch_size": 150, "n_layers": 4},
    "dsvi": {"inference": "dsvi", "n_layers": 2},
    "svgp": {"inference": "dsvi", "n_layers": 1},
    "mean_field": {"inference": "mean_field"},
    "sghmc": {"inference": "sghmc", "inference__n_posterior_samples": 10, "inference__thinning": 1},
}


def make(**options):
    return DeepGPRegressor().set_params(**{"subset_size": 80, "max_iter": 1, "random_state": 0, **options})


def prepared(model):
    config = Configuration.from_estimator(model)
    return prepare(config, checked_data("DeepGPRegressor", X, Y), seed=None, previous=None, plan=None)


def peak(action):
    """Bytes that PyTorch held at once."""
    gc.collect()  # not in the middle of the action: what earlier tests left behind would count as given back by it
    with torch.profiler.profile(profile_memory=True, activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        action()
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    changes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    held = np.concatenate([[0], np.cumsum(changes)])
    # Above the lowest point before: what earlier tests left behind may be freed in the meantime.
    return int((held - np.minimum.accumulate(held)).max())


@pytest.mark.parametrize("name", METHODS)
def test_estimates_are_near_what_pytorch_counts(name, monkeypatch):
    model = make(**METHODS[name])
    held = peak(lambda: model.fit(X, Y))
    ready = prepared(model)
    settings = ready.settings
    estimate = resources.training_bytes(
        ready.method, ready.problem.architecture, len(X), settings.batch_rows, settings.n_samples
    )
    assert 0.6 < estimate / held < 1.7
    monkeypatch.setattr(resources, "CHUNK_BYTES", 2**34)
    held = peak(lambda: model.predict(NEW, return_std=True))
    fixed, per_row = resources.prediction_bytes(model.fitted_, model.n_predict_samples)
    estimate = fixed + len(NEW) * per_row
    assert 0.6 < estimate / held < 1.7
    # Means alone take no more, and so the estimate holds for them, too.
    assert peak(lambda: model.predict(NEW)) < 1.01 * held


def test_the_rows_that_a_model_keeps_are_taken_in_blocks(monkeypatch):
    rows = np.random.default_rng(1).standard_normal((2000, 6))
    model = make(n_layers=2).fit(rows, rows[:, 0])
    assert model.fitted_.X_s.shape[1] == 2000
    held = peak(lambda: model.predict(NEW[:10], return_std=True))
    fixed, per_row = resources.prediction_bytes(model.fitted_, model.n_predict_samples)
    # The hidden draws of the kept rows are counted, and their covariances with the subset are never there as a whole.
    assert 0.6 < (fixed + 10 * per_row) / held < 1.7
    few = make(n_layers=2, n_predict_samples=3).fit(X, Y)
    expected = few.predict(NEW[:10], return_std=True)
    monkeypatch.setattr("sodgp.inference.sod_labels._BLOCK_ELEMENTS", 7 * 3 * 80)
    few.set_params(n_predict_samples=4).predict(NEW[:10])  # or what is kept would be used again
    for ours, theirs in zip(
        few.set_params(n_predict_samples=3).predict(NEW[:10], return_std=True), expected, strict=True
    ):
        assert_allclose(ours, theirs, rtol=1e-9)


# ----- how much there is


def test_memory_that_is_there_is_known_here():
    assert 10**7 < memory.available_memory(CPU) < 10**15
    assert memory.available_memory(torch.device("meta")) is None


def test_a_containers_limit_counts(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    unlimited = memory.available_memory(CPU)
    (tmp_path / "memory.current").write_text("900000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert memory._container_limit() is None
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 50000\n")
    assert memory.available_memory(CPU) == 150_000 < unlimited


def test_a_limit_of_the_process_counts():
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (2**46, before[1]))
    try:
        assert 0 < memory._process_limit() < 2**46
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


# ----- refusals


def test_training_that_does_not_fit_is_refused_with_numbers_and_leaves_an_earlier_fit_whole(monkeypatch):
    model = make().fit(X, Y)
    before = model.predict(NEW)
    with monkeypatch.context() as patch:
        patch.setattr(memory, "available_memory", lambda device=None: 10**6)
        with pytest.raises(ResourceError, match=r"needs about 0\.0\d GB .* 0\.00 GB are free.*batch_size") as told:
            model.fit(X * 2.0, Y)
        assert told.value.needed > told.value.available == 10**6
        assert isinstance(told.value, MemoryError)
        assert isinstance(told.value, SodgpError)
    assert_array_equal(model.predict(NEW), before)


def test_all_members_are_counted(monkeypatch):
    monkeypatch.setattr("sodgp.estimator.one_by_one._ALONE", np.inf)  # one program, as on a GPU
    monkeypatch.setattr(memory, "available_memory", lambda device=None: 40 * 10**6)
    make().fit(X, Y)
    with pytest.raises(ResourceError, match="training 50 models at once"):
        make(n_members=50).fit(X, Y)


def test_predictions_that_do_not_fit_are_refused_with_numbers(monkeypatch):
    model = make(n_predict_samples=20).fit(X, Y)
    monkeypatch.setattr(memory, "available_memory", lambda device=None: 10**6)
    with pytest.raises(ResourceError, match=r"a prediction needs about .*n_predict_samples \(20\)"):
        model.predict(NEW)
    with pytest.raises(ResourceError, match=r"mixture of 20 components for 5000 rows.*keeps only two numbers"):
        model.predict_distribution(np.zeros((5000, 6)))
    with pytest.raises(ResourceError, match="100 joint samples over 500 rows"):
        model.sample_y(NEW, 100)


def test_little_memory_means_small_chunks(monkeypatch):
    model = make(n_predict_samples=20).fit(X, Y)
    whole = model.predict(NEW)
    sizes = []
    honest = SubsetPredictor.hidden

    def noted(self, rows, draws, layer):
        sizes.append(rows.shape[-2])
        return honest(self, rows, draws, layer)

    monkeypatch.setattr(SubsetPredictor, "hidden", noted)
    fixed, per_row = resources.prediction_bytes(model.fitted_, 20)
    monkeypatch.setattr(memory, "available_memory", lambda device=None: fixed + 100 * per_row)
    assert_allclose(model.predict(NEW), whole, rtol=0, atol=1e-12)
    assert sizes == [50] * 10


# ----- memory that runs out all the same


def failing(monkeypatch, error, *, above):
    """Let predictions of more than so many rows run out of memory; returns the sizes that were tried."""
    tried = []
    honest = SubsetPredictor.hidden

    def arrived(self, rows, draws, layer):
        tried.append(rows.shape[-2])
        if rows.shape[-2] > above:
            raise error
        return honest(self, rows, draws, layer)

    monkeypatch.setattr(SubsetPredictor, "hidden", arrived)
    return tried


CUDA = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
PLAIN = RuntimeError("[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory")


@pytest.mark.parametrize("error", [CUDA, PLAIN, MemoryError()], ids=["cuda", "cpu", "python"])
def test_out_of_memory_in_a_prediction_halves_the_chunk_and_goes_on(monkeypatch, error):
    model = make(n_predict_samples=5).fit(X, Y)
    expected = model.predict(NEW, return_std=True)
    tried = failing(monkeypatch, error, above=100)
    for ours, theirs in zip(model.predict(NEW, return_std=True), expected, strict=True):
        assert_allclose(ours, theirs, rtol=0, atol=1e-12)
    assert tried == [500, 250, 125, 62, 62, 62, 62, 62, 62, 62, 62, 4]


def test_a_single_row_that_does_not_fit_is_an_error_with_advice(monkeypatch):
    model = make(n_predict_samples=5).fit(X, Y)
    model.predict(NEW[:8])  # what is kept for the next prediction has seen the rows with labels
    tried = failing(monkeypatch, CUDA, above=0)
    with pytest.raises(ResourceError, match=r"single row ran out of memory on cpu .*n_predict_samples"):
        model.predict(NEW[:8])
    assert tried == [8, 4, 2, 1]


def test_other_errors_pass_through(monkeypatch):
    model = make(n_predict_samples=5).fit(X, Y)
    failing(monkeypatch, RuntimeError("something else"), above=0)
    with pytest.raises(RuntimeError, match="something else"):
        model.predict(NEW)


def test_out_of_memory_in_training_says_how_much_it_needs(monkeypatch):
    def terms(*arguments):
        raise CUDA

    model = make()
    monkeypatch.setattr(SoD, "terms", terms)
    with pytest.raises(ResourceError, match=r"training ran out of memory on cpu; it needs about .*CUDA out of memory"):
        model.fit(X, Y)
    assert not hasattr(model, "model_")


# ----- preparation


def test_a_preparation_that_does_not_fit_is_refused_before_the_data_are_touched(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda device=None: 10**4)
    monkeypatch.setattr("sodgp.estimator.many.checked_data", lambda *_, **__: pytest.fail("the data were touched"))
    with pytest.raises(ResourceError, match=r"the preparation of 400 rows and 6 columns needs about 0\.00 GB") as told:
        make().fit(X, Y)
    assert told.value.needed == resources.preparation_bytes(X, Y, 1) > told.value.available
    with pytest.raises(ResourceError, match=r"for 3 models needs.*train fewer models"):
        make(n_members=3).fit(X, Y)


def test_memory_that_runs_out_in_preparation_is_an_error_with_advice(monkeypatch):
    def converted(*arguments, **options):
        raise MemoryError("Unable to allocate 8.00 GiB")

    monkeypatch.setattr("sodgp.estimator.many.checked_data", converted)
    with pytest.raises(ResourceError, match=r"the preparation of 400 rows.*share of the rows.*Unable to allocate"):
        make().fit(X, Y)
    with pytest.raises(ResourceError, match="the preparation of the rows ran out of memory"):
        make().fit(X.tolist(), Y.tolist())


def test_what_has_to_be_converted_is_counted_once_more():
    as_needed = resources.preparation_bytes(X, Y, 1)
    assert resources.preparation_bytes(torch.from_numpy(X), Y, 1) == as_needed
    for other in (np.asfortranarray(X), X.astype(np.float32)):
        assert resources.preparation_bytes(other, Y, 1) == as_needed + X.nbytes
    assert resources.preparation_bytes(X, Y, 2) == as_needed + X.nbytes + 2 * Y.nbytes
    assert resources.preparation_bytes(X.tolist(), Y, 1) is None


def test_the_estimate_of_a_preparation_is_near_what_is_allocated():
    import tracemalloc

    rows = RNG.standard_normal((40_000, 6))
    config = Configuration.from_estimator(make(subset_size=5, subset="random"))
    tracemalloc.start()
    prepare(config, checked_data("DeepGPRegressor", rows, rows[:, 0]), seed=None, previous=None, plan=None)
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.9 < resources.preparation_bytes(rows, rows[:, 0], 1) / held < 1.5
