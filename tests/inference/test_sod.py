"""SoD-VI: initial values, what is decided from the data, and what cannot be combined."""

import pytest
import torch
from problems import SIZE, case, randn

from sodgp.errors import ConfigurationError
from sodgp.inference.contract import TrainingSet
from sodgp.inference.sod import ALL_LABELS_ROWS, MANY_ROWS, SoD
from sodgp.likelihoods import Bernoulli, Gaussian, HeavyTailed, Heteroscedastic, Poisson, Softmax, StudentT
from sodgp.model.architecture import Architecture, Initialization


def settled(method=None, *, rows=MANY_ROWS, n_layers=2, kernel="rbf", likelihood=None, previous=None):
    return (method or SoD()).settled(
        n_rows=rows, n_layers=n_layers, kernel=kernel, likelihood=likelihood or Gaussian(), previous=previous
    )


@pytest.mark.parametrize(
    ("options", "method", "separate", "objective"),
    [
        ({}, SoD(), True, "leave_one_out"),
        ({"n_layers": None}, SoD(), True, "leave_one_out"),
        ({"rows": MANY_ROWS - 1}, SoD(), True, "collapsed"),
        ({"n_layers": 1}, SoD(), False, "collapsed"),
        ({"kernel": lambda dims: None}, SoD(), False, "leave_one_out"),
        ({"rows": ALL_LABELS_ROWS + 1}, SoD(), True, "predictive"),
        ({"rows": ALL_LABELS_ROWS + 1, "n_layers": 1}, SoD(), False, "bound"),
        ({"rows": ALL_LABELS_ROWS + 1}, SoD(objective="leave_one_out"), True, "leave_one_out"),
        ({"likelihood": HeavyTailed()}, SoD(), True, "predictive"),
        ({"rows": 10, "likelihood": HeavyTailed()}, SoD(), False, "bound"),
        ({}, SoD(coupling="joint"), True, "predictive"),
        ({}, SoD(tie_label_noise=False), True, "predictive"),
        ({}, SoD(parameterization="paper"), False, "predictive"),
        ({}, SoD(separate_kernels=False, objective="bound"), False, "bound"),
        ({"rows": 10}, SoD(separate_kernels=True), True, "collapsed"),
        ({"rows": 10}, SoD(objective="predictive"), False, "predictive"),
    ],
)
def test_many_rows_are_trained_for_prediction_with_separate_kernels(options, method, separate, objective):
    found = settled(method, **options)
    assert (found.separate_kernels, found.objective) == (separate, objective)


@pytest.mark.parametrize(
    ("likelihood", "method", "natural", "objective"),
    [
        (Bernoulli(), SoD(), True, "bound"),
        (Poisson(), SoD(objective="predictive"), True, "predictive"),
        (StudentT(), SoD(natural_gradients=False), False, "predictive"),
        (Softmax(), SoD(parameterization="paper"), None, "predictive"),
        (Gaussian(), SoD(), None, "leave_one_out"),
    ],
)
def test_labels_that_are_not_gaussian_have_natural_gradients_and_few_steps(likelihood, method, natural, objective):
    found = settled(method, likelihood=likelihood)
    assert (found.natural_gradients, found.objective) == (natural, objective)
    assert settled(found, likelihood=likelihood) == found
    if natural:
        assert (found.usual_steps(1400, 1000), found.usual_layers(1000), found.usual_rate(2)) == (200, 2, 0.1)


def test_natural_gradients_need_sites_and_the_whitened_family():
    with pytest.raises(ConfigurationError, match="labels that are not Gaussian"):
        settled(SoD(natural_gradients=True))
    with pytest.raises(ConfigurationError, match="parameterization"):
        SoD(natural_gradients=True, parameterization="paper")


@pytest.mark.parametrize("separate", [True, False])
def test_a_fit_that_goes_on_keeps_its_kernels(separate):
    previous = case(SoD(separate_kernels=separate)).model
    for rows in (10, MANY_ROWS):
        assert settled(rows=rows, previous=previous).separate_kernels is separate


@pytest.mark.parametrize("likelihood", [Heteroscedastic(), HeavyTailed()], ids=repr)
def test_noise_that_varies_needs_tied_labels(likelihood):
    method = SoD(tie_label_noise=False)
    assert SoD().supports(likelihood)
    assert not method.supports(likelihood)
    with pytest.raises(ConfigurationError, match="cannot be combined with"):
        settled(method, likelihood=likelihood)


def test_separate_kernels_need_the_whitened_family_and_a_hidden_layer():
    with pytest.raises(ConfigurationError, match="separate_kernels=True cannot be combined with"):
        SoD(separate_kernels=True, parameterization="paper")
    with pytest.raises(ConfigurationError, match="n_layers=2 or more"):
        settled(SoD(separate_kernels=True), n_layers=1)


def test_narrow_layers_of_the_papers_family_are_cautioned():
    assert SoD().caution([1]) is None
    assert SoD(parameterization="paper").caution([3]) is None
    assert "badly conditioned" in SoD(parameterization="paper").caution([3, 2])


def test_batches_are_a_share_of_the_data_within_limits():
    usual = SoD().usual_batch
    assert usual(10, 1_000, 30) == 50
    assert usual(10, 100, 30) == 30
    assert usual(100, 500, 30) == 100
    assert usual(100, 50, 30) == 50
    assert usual(100, 10**6, 30) == 1800


@pytest.mark.parametrize("replicates", [(), (2,)])
def test_the_papers_q_starts_at_the_prior_means_of_the_subset(replicates):
    X, y = randn(0, *replicates, 12, 3), randn(1, *replicates, 12, 1)
    weights = [randn(2 + i, *replicates, *shape) for i, shape in enumerate([(3, 2), (2, 2)])]
    architecture = Architecture(3, 1, 5, weights, replicates=torch.Size(replicates))
    data = TrainingSet(X[..., :5, :], y[..., :5, :], X[..., 5:, :], y[..., 5:, :])
    model = SoD(parameterization="paper").build(architecture, data, torch.Generator())
    first = data.X_s @ weights[0]
    torch.testing.assert_close(model.layers[0].q_mean.detach(), first)
    torch.testing.assert_close(model.layers[1].q_mean.detach(), first @ weights[1])
    assert not bool(model.layers[2].q_mean.any())
    whitened = SoD().build(architecture, data, torch.Generator())
    assert not any(bool(layer.q_mean.any()) for layer in whitened.layers)


def test_the_authors_program_starts_with_uniform_means():
    design = case(SoD(), 3).architecture
    design = Architecture(2, 2, SIZE, design.mean_weights, initialization=Initialization(means="uniform"))
    first, second, last = (
        layer.q_mean.detach() for layer in SoD().build(design, None, torch.Generator().manual_seed(0)).layers
    )
    assert torch.equal(first, second)
    assert torch.equal(first, last)
    assert 0.0 <= first.min() < first.max() < 1.0
