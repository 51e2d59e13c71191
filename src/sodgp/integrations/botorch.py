"""Deep GPs as surrogates in BoTorch (Balandat et al. 2020, "BoTorch: a framework for efficient Bayesian optimization").

The posterior of a deep GP at q points is a mixture of T joint Gaussians, one per Monte Carlo sample of the layers.
`DeepGPModel` follows BoTorch's fully Bayesian models: components are a batch axis before the q points (``MCMC_DIM``),
over which acquisition functions average (in logarithms by logmeanexp). For an expected utility that average is exact.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sodgp.errors import ConfigurationError, InputError
from sodgp.estimator.many import fit_replicates
from sodgp.estimator.options.fields import likelihood_for, method_of
from sodgp.estimator.options.nested import copy_of
from sodgp.estimator.regressor import DeepGPRegressor
from sodgp.integrations.joint_moments import JointMoments
from sodgp.selectors.auto import Auto

__all__ = ["DeepGPModel", "default_estimator"]

try:
    from botorch.models.model import Model
    from botorch.models.utils import fantasize
    from botorch.posteriors.fully_bayesian import MCMC_DIM, GaussianMixturePosterior
    from botorch.posteriors.gpytorch import GPyTorchPosterior
    from gpytorch.distributions import MultitaskMultivariateNormal, MultivariateNormal
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"sodgp.integrations.botorch needs BoTorch ({error}); install it with pip install 'sodgp[botorch]'.",
        name=error.name,
    ) from error

if TYPE_CHECKING:
    from botorch.acquisition.objective import PosteriorTransform
    from botorch.models.transforms.input import InputTransform
    from botorch.models.transforms.outcome import OutcomeTransform
    from botorch.posteriors import Posterior
    from botorch.sampling.base import MCSampler

DEFAULT_SUBSET_SIZE = 64
"""All rows are in the subset up to this number, where the estimator leaves `subset_size` at None."""


def default_estimator() -> DeepGPRegressor:
    """The estimator of a `DeepGPModel` that is given none: two layers, 16 mixture components, a few seconds a fit.

    Examples
    --------
    >>> default_estimator().n_predict_samples
    16
    """
    return DeepGPRegressor(n_layers=2, n_predict_samples=16, max_iter=500, random_state=0)


class DeepGPModel(Model):
    """A deep GP that BoTorch's acquisition functions can use; trained when it is made.

    Parameters
    ----------
    train_X : Tensor of shape [n, d]
    train_Y : Tensor of shape [n, m]
    train_Yvar : Tensor of shape [n, m], optional
        Noise variances of the observations, if known; else one noise variance is trained.
    estimator : DeepGPRegressor, optional
        The options of the model, `n_predict_samples` being the number T of mixture components; it is not changed. None
        is `default_estimator`. With `subset_size=None` all rows are in the subset, up to 64; there is one member.
    input_transform : botorch InputTransform, optional
        Applied to every X; inputs are standardised in any case.
    outcome_transform : botorch OutcomeTransform, optional
        For nonlinear transforms, such as `Log`; targets are standardised in any case.
    refit_iter : int
        Adam steps of a warm refit, in `condition_on_observations` and `fantasize`.

    Attributes
    ----------
    estimators : list of DeepGPRegressor
        The fitted models: one, or one per fantasy.

    Notes
    -----
    Random numbers are fixed in training: `posterior` is smooth and deterministic in X, as `optimize_acqf` expects.

    Examples
    --------
    >>> X = torch.rand(12, 2, dtype=torch.float64)
    >>> model = DeepGPModel(X, (X.sum(-1, keepdim=True) > 1).double(), estimator=DeepGPRegressor(max_iter=5))
    >>> model.posterior(torch.rand(4, 3, 2, dtype=torch.float64)).mixture_mean.shape
    torch.Size([4, 3, 1])
    """

    _is_ensemble = True
    _supports_cache_root = False

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        train_Yvar: Tensor | None = None,
        *,
        estimator: DeepGPRegressor | None = None,
        input_transform: InputTransform | None = None,
        outcome_transform: OutcomeTransform | None = None,
        refit_iter: int = 200,
    ) -> None:
        super().__init__()
        _check_data(train_X, train_Y, train_Yvar)
        template = default_estimator() if estimator is None else estimator
        if not isinstance(template, DeepGPRegressor):
            raise ConfigurationError(f"estimator must be a DeepGPRegressor or None, not {type(template).__name__}.")
        likelihood = likelihood_for(template.likelihood, template.takes, None)
        if not likelihood.is_conjugate:
            raise ConfigurationError(
                f"BoTorch needs Gaussian posteriors of y, and likelihood={likelihood.name!r} has none; use 'gaussian'."
            )
        if template.target_transform != "none":
            raise ConfigurationError(
                f"target_transform={template.target_transform!r} gives no Gaussian posteriors: leave it at 'none', and"
                " give an outcome_transform, such as botorch.models.transforms.Log()."
            )
        if template.n_members not in (None, 1):
            raise ConfigurationError(
                f"a model for BoTorch has one member: leave n_members={template.n_members!r} at None."
            )
        self.template, self.refit_iter = template, refit_iter
        if input_transform is not None:
            self.input_transform = input_transform
        if outcome_transform is not None:
            self.outcome_transform = outcome_transform
            outcome_transform.train()
            outcome_transform(train_Y, train_Yvar)
            outcome_transform.eval()
        self._fantasy_shape = torch.Size()
        self._outputs: list[int] | None = None
        self._set_data(train_X, train_Y, train_Yvar)
        fresh = copy_of(template, subset_size=self._subset_size(train_X.shape[-2]), n_members=1)
        self._set_estimators(fit_replicates([fresh], list(self._data_sets())))
        self.eval()

    @property
    def num_outputs(self) -> int:
        """Outputs m."""
        return self.train_Y.shape[-1] if self._outputs is None else len(self._outputs)

    @property
    def batch_shape(self) -> torch.Size:
        """Fantasies, if any, and the T mixture components."""
        return torch.Size([*self._fantasy_shape, self._joint[0].n_samples])

    @property
    def train_inputs(self) -> tuple[Tensor]:
        """Training inputs as they were given, [*fantasies, n, d], in a tuple as GPyTorch has it."""
        return (self.train_X,)

    @property
    def train_targets(self) -> Tensor:
        """Training targets as they were given: [*fantasies, n], or [*fantasies, m, n] for several outputs."""
        Y = self.train_Y if self._outputs is None else self.train_Y[..., self._outputs]
        return Y.squeeze(-1) if Y.shape[-1] == 1 else Y.mT

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """The joint posterior over the q points of every batch.

        Parameters
        ----------
        X : Tensor of shape [*batch, q, d]
            Its batch broadcasts with that of the fantasies, if any.
        output_indices : list of int, optional
        observation_noise : bool or Tensor of shape [..., 1 or q, m]
            True adds the model's noise variance (the mean of known ones) to every point, a tensor these variances, in
            transformed units.
        posterior_transform : botorch PosteriorTransform, optional

        Returns
        -------
        GaussianMixturePosterior
            Over [*batch, T, q, m]; `mixture_mean` and `mixture_variance` are [*batch, q, m]. With a nonlinear outcome
            transform a TransformedPosterior of it.
        """
        self.eval()
        X = self.transform_inputs(X)
        if X.shape[-1] != (d := self.estimators[0].n_features_in_):
            raise InputError(f"the model has {d} inputs; after its transforms X is {list(X.shape)}.")
        mean, covariance, noise = self._moments(X)
        if isinstance(observation_noise, Tensor):
            given = observation_noise.unsqueeze(MCMC_DIM)
            # One row stands for all q points.
            given = given.expand(*given.shape[:-2], mean.shape[-2], given.shape[-1])
            covariance = covariance + torch.diag_embed(given.mT)
        elif observation_noise:
            covariance = covariance + torch.diag_embed(noise.mT)
        chosen = list(range(mean.shape[-1])) if self._outputs is None else self._outputs
        if output_indices is not None:
            chosen = [chosen[index] for index in output_indices]
        transform = getattr(self, "outcome_transform", None)
        if transform is not None and chosen != list(range(mean.shape[-1])):
            transform = transform.subset_output(idcs=chosen)
        # Outcome transforms know the plain posterior, not the mixture.
        posterior: Posterior = GPyTorchPosterior(_distribution(mean[..., chosen], covariance[..., chosen, :, :]))
        if transform is not None:
            posterior = transform.untransform_posterior(posterior)
        if isinstance(posterior, GPyTorchPosterior):
            posterior = GaussianMixturePosterior(posterior.distribution)
        return posterior if posterior_transform is None else posterior_transform(posterior)

    def condition_on_observations(self, X: Tensor, Y: Tensor, noise: Tensor | None = None) -> DeepGPModel:
        """A model of the training data and new observations, trained on from this one's parameters.

        Parameters
        ----------
        X : Tensor of shape [*batch, n', d]
        Y : Tensor of shape [*batch', n', m]
            Batches broadcast. Every element of the common batch gets its own model; all are trained together.
        noise : Tensor of shape [..., n' or 1, m], optional
            Noise variances of `Y`, for a model with `train_Yvar`; None is the mean of those.

        Returns
        -------
        DeepGPModel
            With the batch as its fantasies, and no gradient with respect to `X` and `Y`.
        """
        if self._outputs is not None:
            raise ConfigurationError("condition the model on observations first, then take a subset of its outputs.")
        if noise is not None and self.train_Yvar is None:
            raise ConfigurationError("this model trains its noise: give noise only to a model with train_Yvar.")
        X, Y = X.detach(), Y.detach()
        _check_data(X[(0,) * (X.dim() - 2)], Y[(0,) * (Y.dim() - 2)], like=self)
        batch = torch.broadcast_shapes(X.shape[:-2], Y.shape[:-2], self._fantasy_shape)
        new = [X, Y]
        if self.train_Yvar is not None:
            variances = self.train_Yvar.mean(-2, keepdim=True) if noise is None else noise.detach()
            new.append(variances.expand(*batch, *Y.shape[-2:]))
        old = [self.train_X, self.train_Y, *([] if self.train_Yvar is None else [self.train_Yvar])]
        joined = [torch.cat([t.expand(*batch, *t.shape[-2:]) for t in pair], -2) for pair in zip(old, new, strict=True)]
        model = copy.copy(self)
        # nn.Module keeps children and buffers in dictionaries, which the parent must not share.
        model.__dict__ = {k: copy.copy(v) if k.startswith("_") else v for k, v in vars(self).items()}
        model._fantasy_shape = batch
        model._set_data(*joined)
        parents = [self.estimators[i] for i in self._parents(batch)]
        model._set_estimators(self._refit(parents, list(model._data_sets())))
        return model

    def fantasize(self, X: Tensor, sampler: MCSampler, observation_noise: Tensor | None = None) -> DeepGPModel:
        """Models conditioned on simulated observations at X, one for each sample of the sampler.

        A fantasy is a draw of y from the mixture: sample i takes component floor(i T / n) of T.

        Parameters
        ----------
        X : Tensor of shape [*batch, n', d]
        sampler : botorch MCSampler
            Its sample shape [n] is the number of fantasies.
        observation_noise : Tensor of shape [..., 1 or n', m], optional
            Noise variances of the observations; None is the model's.

        Returns
        -------
        DeepGPModel
            With fantasies [n, *batch], and no gradient with respect to `X`: optimise look-ahead acquisition functions,
            such as the knowledge gradient, without gradients. Acquisition values are [n, *batch, T], which a look-ahead
            function averages over fantasies and components.
        """
        noise = True if observation_noise is None else observation_noise
        # Observations are made at X itself: input perturbations do not act here.
        with torch.no_grad(), fantasize():
            samples = sampler(self.posterior(X, observation_noise=noise)).movedim(MCMC_DIM, 1)
        count, n_components = samples.shape[:2]
        component = torch.arange(count, device=samples.device) * n_components // count
        known = None if self.train_Yvar is None else observation_noise
        fantasies = self.condition_on_observations(X, samples[torch.arange(count), component], noise=known)
        # A look-ahead function averages over the components itself.
        fantasies._is_ensemble = False
        return fantasies

    def subset_output(self, idcs: list[int]) -> DeepGPModel:
        """The same model with some of its outputs."""
        kept = list(range(self.num_outputs)) if self._outputs is None else self._outputs
        model = copy.deepcopy(self)
        model._outputs = [kept[index] for index in idcs]
        return model

    def _moments(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean [*b, T, q, m], covariance [*b, T, m, q, q] and noise variances [*b, T, q, m], in the targets' units."""
        shape = torch.broadcast_shapes(X.shape[:-2], self._fantasy_shape)
        depth = len(self._fantasy_shape)
        if not depth:
            return self._joint[0](X)
        X = X.expand(*shape, *X.shape[-2:])
        leading = len(shape) - depth
        places = itertools.product(*map(range, self._fantasy_shape))
        parts = [joint(X[(slice(None),) * leading + place]) for joint, place in zip(self._joint, places, strict=True)]
        mean, covariance, noise = (
            torch.stack(values, leading).unflatten(leading, self._fantasy_shape) for values in zip(*parts, strict=True)
        )
        return mean, covariance, noise

    def _set_data(self, X: Tensor, Y: Tensor, Yvar: Tensor | None = None) -> None:
        self.train_X, self.train_Y = X.detach(), Y.detach()
        self.train_Yvar = None if Yvar is None else Yvar.detach()

    @torch.no_grad()
    def _data_sets(self) -> Iterator[tuple[Tensor, ...]]:
        """Training data of every fantasy after their transforms, as the estimator gets them."""
        parts = [self.train_X, self.train_Y, *([] if self.train_Yvar is None else [self.train_Yvar])]
        for x, *targets in zip(*(t.reshape(-1, *t.shape[-2:]) for t in parts), strict=True):
            if hasattr(self, "outcome_transform"):
                targets = [t for t in self.outcome_transform(*targets) if t is not None]
            yield self._training_inputs(x), *targets

    def _training_inputs(self, X: Tensor) -> Tensor:
        """X after the transforms that act on training data; they learn only when the model is made."""
        transform = getattr(self, "input_transform", None)
        if transform is None or transform.training:
            return self.transform_inputs(X)
        return transform.preprocess_transform(X)

    def _set_estimators(self, estimators: Sequence[DeepGPRegressor]) -> None:
        self.estimators: list[DeepGPRegressor] = list(estimators)
        # Posteriors are differentiated later, even if the model is made in inference mode.
        with torch.inference_mode(False):
            self._joint = [JointMoments(estimator) for estimator in self.estimators]

    def _parents(self, batch: torch.Size) -> list[int]:
        """Index of the model that every element of the batch continues."""
        here = torch.arange(len(self.estimators)).reshape(self._fantasy_shape)
        return here.expand(batch).reshape(-1).tolist()

    def _refit(self, parents: Sequence[DeepGPRegressor], data: Sequence[tuple[Tensor, ...]]) -> list[DeepGPRegressor]:
        method = method_of(self.template.inference)
        warm = method.can_warm_start and likelihood_for(self.template.likelihood, self.template.takes, None).is_plain
        # The same objects for all: copies of callbacks, kernels and selectors would count as different options.
        shared = {name: getattr(self.template, name) for name in ("callbacks", "kernel", "subset", "tuning")}
        size, children = self._subset_size(len(data[0][0])), [copy.deepcopy(parent) for parent in parents]
        for child in children:
            child.set_params(subset_size=size, n_restarts=1, **shared)
            if warm:
                child.set_params(warm_start=True, max_iter=self.refit_iter)
            if warm or len(parents) > 1:
                child.set_params(validation_fraction=None)
        return fit_replicates(children, data)

    def _subset_size(self, n_rows: int) -> int | str | Auto | None:
        size = self.template.subset_size
        by_default = size is None and method_of(self.template.inference).uses_subset
        return min(n_rows, DEFAULT_SUBSET_SIZE) if by_default else size

    # Training data are kept as given, and transformed for each fit.
    def _set_transformed_inputs(self) -> None:
        pass

    def _revert_to_original_inputs(self) -> None:
        pass


def _distribution(mean: Tensor, covariance: Tensor) -> MultivariateNormal:
    """Over the q points for one output; over points and independent outputs for several."""
    if mean.shape[-1] == 1:
        return MultivariateNormal(mean.squeeze(-1), covariance.squeeze(-3))
    return MultitaskMultivariateNormal.from_batch_mvn(MultivariateNormal(mean.mT, covariance), task_dim=-1)


def _check_data(X: Tensor, Y: Tensor, Yvar: Tensor | None = None, like: DeepGPModel | None = None) -> None:
    if X.dim() != 2 or Y.dim() != 2 or len(X) != len(Y):
        raise InputError(
            f"X and Y must be [n, d] and [n, m] with the same n; got {list(X.shape)} and {list(Y.shape)}. One output"
            " is a column: Y.unsqueeze(-1)."
        )
    if Yvar is not None and Yvar.shape != Y.shape:
        raise InputError(f"train_Yvar must have the shape of train_Y, {list(Y.shape)}; got {list(Yvar.shape)}.")
    if like is not None and (X.shape[-1], Y.shape[-1]) != (like.train_X.shape[-1], like.train_Y.shape[-1]):
        expected = [like.train_X.shape[-1], like.train_Y.shape[-1]]
        raise InputError(f"the model has d, m = {expected}; these observations have {[X.shape[-1], Y.shape[-1]]}.")
