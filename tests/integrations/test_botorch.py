"""DeepGPModel as BoTorch sees it."""

import pytest
import torch

pytest.importorskip("botorch")

from botorch.acquisition.analytic import LogExpectedImprovement
from botorch.acquisition.knowledge_gradient import qKnowledgeGradient
from botorch.acquisition.logei import qLogExpectedImprovement, qLogNoisyExpectedImprovement
from botorch.acquisition.monte_carlo import qUpperConfidenceBound
from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
from botorch.acquisition.objective import LinearMCObjective, ScalarizedPosteriorTransform
from botorch.models import ModelList
from botorch.models.transforms.input import AppendFeatures, ChainedInputTransform, InputPerturbation, Normalize
from botorch.models.transforms.outcome import Log, Standardize
from botorch.optim import optimize_acqf
from botorch.posteriors.fully_bayesian import GaussianMixturePosterior
from botorch.sampling.normal import SobolQMCNormalSampler

from sodgp import SGHMC, DeepGPRegressor, SoD
from sodgp.errors import ConfigurationError, InputError
from sodgp.integrations.botorch import DeepGPModel
from sodgp.integrations.joint_moments import JointMoments

T = 6
GENERATOR = torch.Generator().manual_seed(0)
X = torch.rand(14, 2, generator=GENERATOR, dtype=torch.float64)
Y = torch.stack([torch.sign(X[:, 0] - 0.5), X.sum(-1)], -1)
POINTS = torch.rand(3, 2, 2, generator=GENERATOR, dtype=torch.float64)
BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


def small(**options):
    return DeepGPRegressor(
        **{"n_layers": 2, "max_iter": 30, "n_samples": 3, "n_predict_samples": T, "random_state": 0, **options}
    )


def make(m=1, *, estimator=None, **options):
    return DeepGPModel(X, Y[:, :m], estimator=estimator or small(), refit_iter=10, **options)


@pytest.fixture(scope="module")
def one():
    return make(1)


@pytest.fixture(scope="module")
def two():
    return make(2)


@pytest.mark.parametrize("m", [1, 2])
def test_the_posterior_is_a_mixture_over_a_batch_axis(m, one, two):
    model = (one, two)[m - 1]
    assert model.num_outputs == m
    assert model.batch_shape == (T,)
    posterior = model.posterior(POINTS)
    assert type(posterior) is GaussianMixturePosterior
    assert posterior.mean.shape == (3, T, 2, m)
    assert posterior.variance.shape == (3, T, 2, m)
    assert posterior.mixture_mean.shape == (3, 2, m)
    assert posterior.rsample(torch.Size([5])).shape == (5, 3, T, 2, m)
    assert model.posterior(POINTS[0]).mean.shape == (T, 2, m)
    assert model.posterior(POINTS.unsqueeze(0)).mean.shape == (1, 3, T, 2, m)


def test_the_mixture_of_one_point_is_the_estimators_prediction():
    """Another estimate of the same law: at one layer the law itself, in original units."""
    model = make(2, estimator=small(n_layers=1))
    posterior = model.posterior(POINTS[0].unsqueeze(1))
    dist = model.estimators[0].predict_distribution(POINTS[0], latent=True)
    torch.testing.assert_close(posterior.mixture_mean.squeeze(1), torch.tensor(dist.mean), rtol=0, atol=1e-8)
    torch.testing.assert_close(posterior.mixture_variance.squeeze(1), torch.tensor(dist.variance), rtol=1e-6, atol=0)
    noisy = model.posterior(POINTS[0].unsqueeze(1), observation_noise=True)
    whole = torch.tensor(model.estimators[0].predict_distribution(POINTS[0]).variance)
    torch.testing.assert_close(noisy.mixture_variance.squeeze(1), whole, rtol=1e-6, atol=0)


def test_points_of_a_batch_are_correlated(one):
    close = torch.tensor([[0.3, 0.3], [0.31, 0.3], [0.9, 0.9]], dtype=torch.float64)
    covariance = one.posterior(close).mixture_covariance_matrix
    correlation = covariance / covariance.diagonal().sqrt().outer(covariance.diagonal().sqrt())
    assert correlation[0, 1] > 0.8
    assert correlation[0, 2].abs() < 0.5


def test_given_noise_is_added(two):
    noise = torch.tensor([[0.5, 0.25]], dtype=torch.float64)
    plain, noisy = (two.posterior(POINTS, observation_noise=n).variance for n in (False, noise))
    torch.testing.assert_close(noisy - plain, noise.expand_as(plain))


def test_the_posterior_is_deterministic_and_differentiable(one):
    first, second = (one.posterior(POINTS).mean for _ in range(2))
    assert torch.equal(first, second)
    acquisition = qLogExpectedImprovement(one, best_f=0.5, sampler=SobolQMCNormalSampler(torch.Size([16]), seed=0))
    assert torch.equal(acquisition(POINTS), acquisition(POINTS))
    assert torch.autograd.gradcheck(acquisition, POINTS[:1].clone().requires_grad_(), atol=1e-3, rtol=1e-2)
    # A batch element's value does not depend on its company.
    torch.testing.assert_close(acquisition(POINTS)[1], acquisition(POINTS[1:2])[0], rtol=0, atol=1e-8)


def test_the_log_of_an_expected_improvement_is_that_of_the_mixture(one):
    """BoTorch averages over components inside the logarithm, not outside."""
    value = LogExpectedImprovement(one, best_f=0.2)(POINTS[:, :1])
    posterior = one.posterior(POINTS[:, :1])
    draws = posterior.rsample(torch.Size([40_000]))
    improvement = (draws - 0.2).clamp_min(0).mean((0, 2)).squeeze((-1, -2))
    torch.testing.assert_close(value.exp(), improvement, rtol=0.05, atol=1e-3)


@pytest.mark.parametrize("q", [1, 2])
def test_acquisition_functions_can_be_optimised(one, q):
    torch.manual_seed(0)
    for acquisition in (
        qLogExpectedImprovement(one, best_f=Y[:, 0].max()),
        qLogNoisyExpectedImprovement(one, X),
        qUpperConfidenceBound(one, beta=0.2),
    ):
        points, value = optimize_acqf(
            acquisition, bounds=BOUNDS, q=q, num_restarts=2, raw_samples=8, options={"maxiter": 5}
        )
        assert points.shape == (q, 2)
        assert torch.isfinite(value)


def test_several_outputs_can_be_scalarised(two):
    weights = torch.tensor([1.0, -0.5], dtype=torch.float64)
    # An improvement that samples can see.
    best = float((two.posterior(POINTS[:, :1]).mean @ weights).min())
    objective, sampler = LinearMCObjective(weights), SobolQMCNormalSampler(torch.Size([4096]), seed=1)
    by_samples = qLogExpectedImprovement(two, best_f=best, objective=objective, sampler=sampler)
    by_posterior = LogExpectedImprovement(two, best_f=best, posterior_transform=ScalarizedPosteriorTransform(weights))
    torch.testing.assert_close(by_samples(POINTS[:, :1]), by_posterior(POINTS[:, :1]), rtol=0.05, atol=0.05)


def test_lists_of_models_and_several_objectives(one, two):
    both = ModelList(one, one)
    assert both.posterior(POINTS).mean.shape == (3, T, 2, 2)
    total = LinearMCObjective(torch.ones(2, dtype=torch.float64))
    assert torch.isfinite(qLogExpectedImprovement(both, best_f=0.0, objective=total)(POINTS)).all()
    volume = qLogNoisyExpectedHypervolumeImprovement(two, ref_point=[-1.0, 0.0], X_baseline=X)
    assert torch.isfinite(volume(POINTS)).all()


def test_outputs_can_be_chosen(two):
    whole, second = two.posterior(POINTS), two.subset_output([1])
    assert second.num_outputs == 1
    assert second.train_targets.shape == (14,)
    for view in (second.posterior(POINTS), two.posterior(POINTS, output_indices=[1])):
        torch.testing.assert_close(view.mean, whole.mean[..., 1:])
    with pytest.raises(ConfigurationError, match="condition the model on observations first"):
        second.condition_on_observations(X[:1], Y[:1])


def test_input_and_outcome_transforms():
    scale, shift = torch.tensor([10.0, 100.0], dtype=torch.float64), torch.tensor([3.0, -5.0], dtype=torch.float64)
    # Rounding must not matter: no k-means, whose ties it may break, and a rest that is not empty, without which q of
    # the last layer begins at its optimum, where Adam magnifies it.
    plain = make(2, estimator=small(subset_size=8, subset="random"))
    transformed = DeepGPModel(
        X * scale,
        Y * scale + shift,
        estimator=small(subset_size=8, subset="random"),
        input_transform=Normalize(2, bounds=BOUNDS * scale),
        outcome_transform=Standardize(2),
    )
    posterior = transformed.posterior(POINTS * scale)
    assert type(posterior) is GaussianMixturePosterior
    torch.testing.assert_close(posterior.mean, plain.posterior(POINTS).mean * scale + shift, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(posterior.variance, plain.posterior(POINTS).variance * scale**2, rtol=1e-3, atol=1e-5)
    assert torch.equal(transformed.train_inputs[0], X * scale)
    view = transformed.subset_output([1]).posterior(POINTS * scale)
    torch.testing.assert_close(view.mean, posterior.mean[..., 1:])
    longer = transformed.condition_on_observations(POINTS[0] * scale, torch.zeros(2, 2, dtype=torch.float64))
    assert longer.posterior(POINTS * scale).mean.shape == (3, T, 2, 2)


def test_a_transform_that_bends():
    model = DeepGPModel(X, Y[:, 1:] + 0.1, estimator=small(), outcome_transform=Log())
    posterior = model.posterior(POINTS)
    assert bool((posterior.rsample(torch.Size([7])) > 0).all())
    assert torch.isfinite(qLogExpectedImprovement(model, best_f=1.0)(POINTS)).all()


def test_new_observations_are_learned_by_a_warm_refit(one):
    where = torch.tensor([[0.05, 0.95], [0.1, 0.9]], dtype=torch.float64)
    model = DeepGPModel(X, Y[:, :1], estimator=small(), refit_iter=100)
    longer = model.condition_on_observations(where, torch.full((2, 1), 2.0, dtype=torch.float64))
    assert longer.train_inputs[0].shape == (16, 2)
    assert model.train_inputs[0].shape == (14, 2)
    before, after = (each.posterior(where).mixture_mean.mean() for each in (model, longer))
    assert after > before + 0.5 * (2.0 - before)
    assert longer.estimators[0].n_iter_ == 100
    assert longer.estimators[0].subset_size == 16


def test_the_posterior_is_the_distribution_of_predictions_under_marginal_coupling():
    model = make(estimator=small(inference=SoD(coupling="marginal"), n_predict_samples=2000, n_layers=3))
    posterior = model.posterior(POINTS)
    mean, variance = (v.reshape(-1, 1).numpy() for v in (posterior.mixture_mean, posterior.mixture_variance))
    law = model.estimators[0].predict_distribution(POINTS.reshape(-1, 2).numpy(), latent=True)
    assert mean == pytest.approx(law.mean, abs=0.1 * law.std.max())
    assert variance == pytest.approx(law.variance, rel=0.1)


def test_a_model_made_without_gradients_has_a_posterior_with_them(one):
    for off in (torch.no_grad, torch.inference_mode):
        with off():
            longer = one.condition_on_observations(POINTS[0].clone(), Y[:2, :1].clone())
        x = POINTS[1].clone().requires_grad_()
        longer.posterior(x).mixture_mean.sum().backward()
        assert bool(x.grad.any())


def test_a_short_refit_holds_no_rows_out():
    model = make(estimator=small(validation_fraction=0.25, subset_size=8))
    longer = model.condition_on_observations(POINTS[0], Y[:2, :1])
    assert [e.validation_fraction for e in longer.estimators] == [None]


def test_fantasies_are_models_of_their_own(one):
    torch.manual_seed(0)
    sampler = SobolQMCNormalSampler(torch.Size([3]), seed=0)
    fantasies = one.fantasize(POINTS[:2], sampler)
    assert fantasies.batch_shape == (3, 2, T)
    assert fantasies.train_inputs[0].shape == (3, 2, 16, 2)
    assert len(fantasies.estimators) == 6
    posterior = fantasies.posterior(POINTS[:1])
    assert posterior.mean.shape == (3, 2, T, 2, 1)
    # Every fantasy is the model of its own data, wherever it stands in the batch.
    alone, _, _ = JointMoments(fantasies.estimators[4])(POINTS[0])
    torch.testing.assert_close(posterior.mean[2, 0], alone, rtol=0, atol=1e-12)
    assert fantasies.estimators[4].fitted_.x_scaler.n_samples_seen_ == 16
    assert posterior.mixture_mean[:, 0].std(0).max() > 1e-4
    again = fantasies.condition_on_observations(POINTS[2, :1], torch.ones(1, 1, dtype=torch.float64))
    assert again.batch_shape == (3, 2, T)
    assert again.train_inputs[0].shape == (3, 2, 17, 2)
    noise = torch.full((1, 1), 0.01, dtype=torch.float64)
    assert one.fantasize(POINTS[0], sampler, observation_noise=noise).batch_shape == (3, T)


@pytest.mark.parametrize("objective", [None, LinearMCObjective(torch.tensor([-1.0], dtype=torch.float64))])
def test_the_knowledge_gradient_of_every_batch(one, objective):
    sampler = SobolQMCNormalSampler(torch.Size([2]), seed=0)
    inner = SobolQMCNormalSampler(torch.Size([4]), seed=1)
    gradient = qKnowledgeGradient(one, None, sampler, objective=objective, inner_sampler=inner)
    points = torch.cat([POINTS, POINTS[:, :1] / 2], -2)  # a candidate, and where each of two fantasies looks
    with torch.no_grad():
        values = gradient(points)
        fantasies = one.fantasize(points[:, :1], sampler)
        means = fantasies.posterior(points[:, 1:].movedim(-2, 0).unsqueeze(-2)).mixture_mean[..., 0, 0]
    assert values.shape == (3,)
    if objective is None:
        torch.testing.assert_close(values, means.mean(0), rtol=0, atol=1e-12)
    else:  # by four draws
        torch.testing.assert_close(values, -means.mean(0), rtol=0, atol=0.5 * means.std().item())


def test_the_knowledge_gradient_can_be_maximised_without_gradients():
    model = DeepGPModel(X, Y[:, :1], estimator=small(max_iter=5), refit_iter=1)
    gradient = qKnowledgeGradient(model, num_fantasies=2)
    options = {"with_grad": False, "maxiter": 1}
    candidate, value = optimize_acqf(gradient, BOUNDS, q=1, num_restarts=1, raw_samples=2, options=options)
    assert candidate.shape == (1, 2)
    assert value.isfinite()


def test_a_kernel_for_each_output_of_the_first_layer():
    model = make(1, estimator=small(inference=SoD(separate_kernels=True), max_iter=5))
    assert torch.isfinite(qLogExpectedImprovement(model, best_f=0.0)(POINTS)).all()
    refit = model.condition_on_observations(POINTS[0], Y[:2, :1])
    assert refit.train_inputs[0].shape == (16, 2)
    assert refit.estimators[0].warm_start
    assert refit.estimators[0].model_.has_separate_kernels


@pytest.mark.parametrize("noise", ["heteroscedastic", "heavy_tailed"])
def test_noise_that_varies(noise):
    model = make(1, estimator=small(likelihood=noise, max_iter=5))
    plain, noisy = (model.posterior(POINTS, observation_noise=flag) for flag in (False, True))
    assert bool((noisy.variance > plain.variance).all())
    assert model.condition_on_observations(POINTS[0], Y[:2, :1]).train_inputs[0].shape == (16, 2)


@pytest.mark.parametrize("method", ["dsvi", "sghmc", "mean_field"])
def test_other_methods_too(method):
    options = {} if method == "dsvi" else {"n_samples": 10}
    inference = SGHMC(n_posterior_samples=4, thinning=2) if method == "sghmc" else method
    model = make(1, estimator=small(inference=inference, max_iter=10, **options))
    assert torch.isfinite(qLogExpectedImprovement(model, best_f=0.0)(POINTS)).all()
    assert model.condition_on_observations(X[:1] + 0.01, Y[:1, :1]).train_inputs[0].shape == (15, 2)


def test_single_precision_inputs_stay_single():
    model = DeepGPModel(X.float(), Y[:, :1].float(), estimator=small(max_iter=5))
    assert model.posterior(POINTS.float()).mean.dtype == torch.float32


def test_bad_data_are_refused(one):
    with pytest.raises(InputError, match=r"Y\.unsqueeze"):
        DeepGPModel(X, Y[:, 0])
    with pytest.raises(InputError, match="the model has d, m"):
        one.condition_on_observations(X[:1, :1], Y[:1, :1])
    with pytest.raises(ConfigurationError, match="Gaussian posteriors of y, and likelihood='poisson' has none"):
        DeepGPModel(X, Y, estimator=DeepGPRegressor(likelihood="poisson"))
    with pytest.raises(ConfigurationError, match="must be a DeepGPRegressor"):
        DeepGPModel(X, Y, estimator="deep")
    with pytest.raises(TypeError, match="unexpected keyword argument 'surprise'"):
        one.condition_on_observations(X[:1], Y[:1, :1], surprise=1)


def test_known_noise_is_taken_as_it_is():
    """Rows with little noise are believed; the same data without their noises are averaged."""
    noise = torch.where(torch.arange(14) % 2 == 0, 1e-4, 4.0).double().unsqueeze(-1)
    wrong = Y[:, :1] + torch.where(noise > 1, 3.0, 0.0)
    known = DeepGPModel(X, wrong, noise, estimator=small(max_iter=150), refit_iter=10)
    error = (known.posterior(X.unsqueeze(1)).mixture_mean.reshape(-1, 1) - wrong).abs()
    assert error[noise < 1].max() < 0.3
    assert error[noise > 1].mean() > 1.0
    plain, noisy = (known.posterior(POINTS, observation_noise=flag).mixture_variance for flag in (False, True))
    torch.testing.assert_close(noisy - plain, noise.mean().expand_as(plain), rtol=1e-6, atol=0)
    longer = known.condition_on_observations(POINTS[0], torch.zeros(2, 1, dtype=torch.float64))
    torch.testing.assert_close(longer.train_Yvar[-2:], noise.mean().expand(2, 1))
    own = torch.full((2, 1), 0.5, dtype=torch.float64)
    longer = known.condition_on_observations(POINTS[0], torch.zeros(2, 1, dtype=torch.float64), noise=own)
    assert torch.equal(longer.train_Yvar[-2:], own)
    fantasies = known.fantasize(POINTS[0], SobolQMCNormalSampler(torch.Size([2]), seed=0), observation_noise=own)
    assert fantasies.train_Yvar.shape == (2, 16, 1)
    assert torch.equal(fantasies.train_Yvar[0, -2:], own)
    with pytest.raises(InputError, match="train_Yvar must have the shape"):
        DeepGPModel(X, Y, noise)


def test_known_noise_passes_through_the_outcome_transform():
    noise = torch.full_like(Y, 0.04)
    models = [
        DeepGPModel(X, Y, noise, estimator=small(subset_size=8, subset="random"), outcome_transform=transform)
        for transform in (None, Standardize(2))
    ]
    ours, theirs = (m.posterior(POINTS, observation_noise=True) for m in models)
    torch.testing.assert_close(ours.variance, theirs.variance, rtol=1e-3, atol=1e-6)


def test_noise_for_a_model_that_trains_its_own_is_refused(one):
    with pytest.raises(ConfigurationError, match="this model trains its noise"):
        one.condition_on_observations(X[:1], Y[:1, :1], noise=Y[:1, :1])


def test_points_with_other_columns_are_refused(one):
    for d in (1, 3):  # one column would broadcast
        with pytest.raises(InputError, match=rf"the model has 2 inputs; after its transforms X is \[3, {d}\]"):
            one.posterior(torch.rand(3, d, dtype=torch.float64))


def test_transforms_that_do_not_act_on_training_data_leave_refits_alone():
    shifts = torch.tensor([[0.0, 0.0], [0.01, 0.01]], dtype=torch.float64)
    normalize, perturb = Normalize(2), InputPerturbation(shifts)
    inner = ChainedInputTransform(normalize=normalize, perturb=perturb)
    model = make(input_transform=ChainedInputTransform(inner=inner))
    assert model.posterior(POINTS[0]).mixture_mean.shape == (4, 1)  # every point and its perturbation
    later = model.condition_on_observations(POINTS[0], Y[:2, :1])
    (inputs, _), *_ = later._data_sets()
    torch.testing.assert_close(inputs, normalize.transform(torch.cat([X, POINTS[0]])))
    fantasies = model.fantasize(POINTS[0], SobolQMCNormalSampler(torch.Size([2]), seed=0))
    assert fantasies.train_Y.shape == (2, 16, 1)


def test_features_that_are_appended_at_evaluation_are_columns_of_the_training_data():
    features = torch.tensor([[0.3]], dtype=torch.float64)
    model = make(input_transform=AppendFeatures(features))
    assert model.posterior(POINTS[0][:, :1]).mixture_mean.shape == (2, 1)
    later = model.condition_on_observations(POINTS[0], Y[:2, :1])
    assert later.posterior(POINTS[0][:, :1]).mixture_mean.shape == (2, 1)
