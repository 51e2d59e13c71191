"""Every inference method keeps the contract. A new method is one line in `METHODS`."""

import math
import pickle
from dataclasses import FrozenInstanceError, fields

import pytest
import torch
from jaxtyping import config
from problems import INPUTS, OUTPUTS, SIZE, case, fresh, randn
from sklearn.base import clone

from sodgp.errors import ConfigurationError
from sodgp.inference.contract import Inference, Predictor, Subset, bound
from sodgp.inference.dsvi import DSVI
from sodgp.inference.mean_field import MeanField
from sodgp.inference.sghmc import SGHMC
from sodgp.inference.sod import SoD
from sodgp.likelihoods import Gaussian
from sodgp.linalg.draws import SharedDraws

# A method, an option with another value, and values that are refused.
METHODS = [
    (SoD(), {"coupling": "joint"}, {"coupling": "loose", "parameterization": "bold", "objective": "posterior"}),
    (DSVI(), {"objective": "predictive"}, {"objective": "posterior"}),
    (SGHMC(n_posterior_samples=6), {"step_size": 0.02}, {"friction": 1.0, "n_chains": 7, "thinning": 0}),
    (MeanField(), {"max_rows": 50}, {"latent_variance": 0.0, "max_rows": 0}),
]
T, N = 5, 7

every_method = pytest.mark.parametrize("method", [m for m, _, _ in METHODS], ids=lambda m: m.name)
every_depth = pytest.mark.parametrize("n_layers", [1, 2])


@every_method
def test_it_is_an_inference(method):
    assert isinstance(method, Inference)
    settled = method.settled(n_rows=N, n_layers=2, kernel="rbf", likelihood=Gaussian())
    assert settled.objective in {"bound", "collapsed", "posterior"}
    assert (method.sampler is not None) is (settled.objective == "posterior")
    assert method.supports(Gaussian())
    assert method.usual_members(1) == 1
    assert method.usual_spread(1) == 1.0


@pytest.mark.parametrize(("method", "other", "_"), METHODS, ids=lambda m: getattr(m, "name", ""))
def test_options_are_frozen_and_scikit_learns(method, other, _):
    parameters = method.get_params()
    assert set(parameters) == {field.name for field in fields(method)}
    changed = method.set_params(**other)
    assert changed != method
    assert method.get_params() == parameters
    assert changed.get_params() == {**parameters, **other}
    for copied in (clone(changed), pickle.loads(pickle.dumps(changed)), type(method)(**changed.get_params())):
        assert copied == changed
    (name, value), *_ = other.items()
    with pytest.raises(FrozenInstanceError):
        setattr(method, name, value)
    with pytest.raises(ConfigurationError, match="no parameter colour"):
        method.set_params(colour="red")


@pytest.mark.parametrize(("method", "_", "bad"), METHODS, ids=lambda m: getattr(m, "name", ""))
def test_bad_values_are_refused_at_construction(method, _, bad):
    for name, value in bad.items():
        with pytest.raises(ConfigurationError, match=name):
            type(method)(**{name: value})


@pytest.fixture
def unchecked():
    """Without the check of types at run time, which would refuse values of another type before the method does."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("method", "bad"),
    [
        (SoD, {"objective": True}),
        (SoD, {"separate_kernels": "yes"}),
        (SoD, {"tie_label_noise": 1}),
        (DSVI, {"learn_inducing_inputs": 1.0}),
        (SGHMC, {"thinning": 2.5}),
        (MeanField, {"latent_variance": "small"}),
    ],
    ids=str,
)
def test_values_of_another_type_are_refused(method, bad):
    with pytest.raises(ConfigurationError, match=next(iter(bad))):
        method(**bad)


@every_method
@every_depth
def test_terms_are_finite_and_named(method, n_layers):
    this = case(method, n_layers)
    terms = this.method.terms(this.model.train().requires_grad_(), this.batch, fresh(3, T))
    assert all(isinstance(name, str) and value.shape == () and value.isfinite() for name, value in terms.items())
    total = bound(terms)
    torch.testing.assert_close(total, sum(terms.values()))
    gradients = torch.autograd.grad(total, list(this.model.parameters()), allow_unused=True)
    assert all(g is None or bool(g.isfinite().all()) for g in gradients)


@every_method
@every_depth
def test_sums_over_rows_are_those_of_their_parts_or_are_refused(method, n_layers):
    this = case(method, n_layers)
    if this.method.name not in ("sod", "dsvi") or getattr(method, "conditions_on_all", False):
        with pytest.raises(ConfigurationError, match="many processes"):
            this.method.sums_over_rows()
        return
    names = this.method.sums_over_rows()
    rows = this.batch.X_b.shape[-2]
    parts = [slice(0, 2), slice(2, rows)]

    class OfRows:
        """The numbers that the whole batch would have."""

        def __init__(self, part):
            self.n_samples, self.part, self.whole = T, part, fresh(3, T)

        def subset(self, count, width):
            return self.whole.subset(count, width)

        def rest(self, count, width):
            numbers = self.whole.rest(rows if count < rows else count, width)
            return numbers[..., self.part, :] if count < rows else numbers

    whole = this.method.terms(this.model, this.batch, OfRows(slice(None)))
    found = [this.method.terms(this.model, this.batch.of_rows(part), OfRows(part)) for part in parts]
    for name, value in whole.items():
        each = [terms[name] for terms in found]
        torch.testing.assert_close(sum(each) if name in names else each[0], value)


@every_method
@every_depth
def test_predictions_have_the_shapes_of_the_contract(method, n_layers):
    this = case(method, n_layers)
    X, several = randn(4, 1, N, INPUTS), randn(5, 3, 1, N, INPUTS)
    predictor = this.predictor(SharedDraws(0, T, dtype=torch.float64))
    assert isinstance(predictor, Predictor)
    components = T if method.samples_differ(this.model) else 1
    with torch.no_grad():
        mean, variance = predictor.rows(X, SharedDraws(0, T, dtype=torch.float64))
        again = predictor.mean(X, SharedDraws(0, T, dtype=torch.float64))
        joint_mean, covariance = predictor.joint(several, fresh(6, T))
        hidden = predictor.hidden(X, fresh(6, T), n_layers - 1)
    assert mean.shape == variance.shape == (components, N, OUTPUTS)
    assert bool((variance >= 0).all())
    assert torch.equal(again, mean)
    assert joint_mean.shape == (3, components, N, OUTPUTS)
    assert covariance.shape == (3, components, OUTPUTS, N, N)
    assert hidden.shape == (T if n_layers > 1 else 1, N, 2)
    assert predictor.joint_size >= 1


@every_method
@every_depth
def test_samples_differ_where_the_method_says_so(method, n_layers):
    this = case(method, n_layers)
    with torch.no_grad():
        mean, _ = this.predictor(fresh(7, T)).rows(randn(4, 1, N, INPUTS), fresh(8, T))
    assert bool((mean != mean[:1]).any()) is method.samples_differ(this.model)


@every_method
@every_depth
def test_state_shapes_are_those_of_the_model(method, n_layers):
    this = case(method, n_layers)
    for layer in this.model.layers:
        state = layer.state_dict()
        for name, shape in method.state_shapes(SIZE, layer.q_mean.shape[-1]).items():
            assert tuple(state[name].shape) == shape


@every_method
@every_depth
def test_a_model_without_data_takes_a_state(method, n_layers):
    this = case(method, n_layers)
    # As a loaded model: where gradients are required, PyTorch may round products differently.
    empty = method.build(this.architecture, None, torch.Generator()).requires_grad_(False).eval()
    empty.load_state_dict(this.model.state_dict())
    X, (X_s, y_s) = randn(4, 1, N, INPUTS), this.subset
    with torch.no_grad():
        ours, theirs = (method.predictor(m, X_s, y_s, fresh(7, T)).rows(X, fresh(8, T)) for m in (this.model, empty))
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@every_method
@every_depth
def test_memory_is_estimated(method, n_layers):
    this = case(method, n_layers)
    assert method.training_numbers(this.architecture, SIZE + N, N, T) > 0
    fixed, per_row = method.prediction_numbers(this.model, T)
    assert fixed > 0
    assert per_row > 0


@every_method
@every_depth
def test_it_settles_to_its_own_kind(method, n_layers):
    settled = method.settled(n_rows=40, n_layers=n_layers, kernel="rbf", likelihood=Gaussian())
    assert type(settled) is type(method)
    assert settled.settled(n_rows=4000, n_layers=n_layers, kernel="rbf", likelihood=Gaussian()) == settled
    batch = settled.usual_batch(8, 1000, 16)
    assert batch is None or 1 <= batch <= 1000


@every_method
def test_only_a_q_over_rows_is_carried_to_other_rows(method):
    this = case(method)
    X, y = torch.cat([this.data.X_s, this.data.X_r]), torch.cat([this.data.y_s, this.data.y_r])
    old, new = Subset(X[:SIZE], y[:SIZE]), Subset(X[2 : SIZE + 2], y[2 : SIZE + 2])
    kept = torch.tensor([*range(2, SIZE), -1, -1])
    variants = method.carried(this.model, this.model, old, new, kept)
    assert bool(variants) is method.uses_subset
    for parameters in variants.values():
        for layer, (mean, factor) in zip(this.model.layers, parameters, strict=True):
            assert mean.shape == layer.q_mean.shape
            assert factor.shape == layer.get_parameter("q_factor").shape


def test_a_method_with_a_subset_says_what_its_predictions_are():
    assert math.isclose(SoD(member_spread=0.5).usual_spread(3), 0.5)
