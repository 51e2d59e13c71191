"""Mean-field variational inference for deep GPs (Damianou & Lawrence, AISTATS 2013): Fig. 1a of the paper."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from jaxtyping import Float
from torch import Tensor

from sodgp.errors import InputError
from sodgp.inference.contract import Batch, Terms, TrainingSet
from sodgp.inference.inducing import InducingMethod, inducing_start, linear_path
from sodgp.layers.inducing import InducingLayer, Moments
from sodgp.layers.latent import LatentLayer, expected_squared_error
from sodgp.layers.psi import psi1, rbf_of
from sodgp.likelihoods.contract import LikelihoodOptions
from sodgp.linalg.cholesky import factorise
from sodgp.linalg.draws import Draws
from sodgp.model.architecture import GROUP, Architecture
from sodgp.model.deep_gp import DeepGP
from sodgp.system.validation import check_integer, check_positive

__all__ = ["MeanField"]


@dataclass(frozen=True, kw_only=True)
class MeanField(InducingMethod):
    """Mean-field deep GP: the bound for eq. (damianouVarPost)'s posterior, prod_l p(F^l | U^l, Z^(l-1)) q(U^l) q(Z^l).

    With Z^0 = X::

        L =   sum_n E[log N(y_n; f_n^L, sigma^2)]                                rest
            + sum_{l < L}  E[log N(Z^l; F^l, sigma_l^2)]                         z_1 ... z_(L-1)
            + sum_{l < L}  H[q(Z^l)]                                             entropy_1 ... entropy_(L-1)
            - sum_l  KL(q(U^l) || p(U^l))                                        kl_1 ... kl_(L-1), kl_last

    q(Z^l) is a Gaussian for every row and output; q(U^l) is whitened, with a full covariance for every output. All
    expectations are closed by the psi statistics of the RBF kernel, so that training draws no samples. It trains two
    numbers for every row and hidden output, and every step uses all rows.

    Parameters
    ----------
    latent_variance : float
        Initial variances of q(Z^l), and of the layer noise where `Initialization` has a smaller value: the tiny noise
        that suits samples would keep q(Z^l) at its initial values.
    max_rows, max_latents : int
        Largest N, and largest number of trained numbers in all q(Z^l).

    Examples
    --------
    >>> X = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    >>> architecture = Architecture(1, 1, 5, [torch.eye(1, dtype=torch.float64)])
    >>> data = TrainingSet(X[:0], X[:0], X, X.sign())
    >>> model = MeanField().build(architecture, data, torch.Generator().manual_seed(0))
    >>> any("latent" in name for name, _ in model.named_parameters())  # q(Z), two numbers for every row
    True
    """

    latent_variance: float = 0.01
    max_rows: int = 5_000
    max_latents: int = 1_000_000

    name: ClassVar[str] = "mean_field"
    # The bound is closed over all rows: neither batches nor training samples.
    unused_options: ClassVar[tuple[str, ...]] = ("subset", "n_samples", "batch_size")

    def __post_init__(self) -> None:
        check_positive("latent_variance", self.latent_variance)
        check_integer("max_rows", self.max_rows, minimum=1)
        check_integer("max_latents", self.max_latents, minimum=1)

    def build(self, architecture: Architecture, data: TrainingSet | None, generator: torch.Generator) -> DeepGP:
        """A model with its initial parameters.

        q(Z^l) starts at X mapped by the linear means (by principal directions where the means are zero), and inducing
        inputs at k-means centres mapped in the same way. Without `data` q(Z^l) has no rows until a state is loaded.

        Raises
        ------
        InputError
            For more data than `max_rows` and `max_latents` allow.
        ConfigurationError
            For a kernel other than RBF.
        """
        for index in range(len(architecture.widths)):
            rbf_of(architecture.kernel_of(index))
        if data is not None:
            self._refuse_size(data.n_rest, architecture.widths[:-1])
        start, replicates = architecture.initialization, architecture.replicates
        Z = inducing_start(architecture, data, generator)
        X = Z.new_empty(*replicates, 0, architecture.input_dim) if data is None else data.X_r.to(Z)
        weights = linear_path(architecture, data)
        layers: list[InducingLayer] = []
        for index, W in enumerate(weights):
            carried, X = Z @ W, _spread(X @ W, generator)
            layer = LatentLayer(
                architecture.kernel_of(index),
                architecture.mean_of(index),
                Z,
                width=W.shape[-1],
                latent_mean=X,
                latent_variance=self.latent_variance,
                layer_noise_variance=max(start.layer_noise_variance, self.latent_variance),
                factor_scale=start.hidden_factor,
                jitter=architecture.jitter,
                index=index + 1,
                replicates=replicates,
            )
            if data is not None:
                _start_mean(layer, carried)
            layers.append(layer)
            Z = carried
        last = InducingLayer(
            architecture.kernel_of(len(layers)),
            architecture.mean_of(len(layers)),
            Z,
            width=architecture.n_outputs,
            nugget=None,
            factor_scale=start.last_factor,
            jitter=architecture.jitter,
            index=len(layers) + 1,
            replicates=replicates,
        )
        return DeepGP([*layers, last], architecture.build_likelihood(), replicates=replicates)

    def objection_to_weights(self) -> str | None:
        """Every row has a q(Z) of its own, and the psi statistics are sums over all of them."""
        return (
            "inference='mean_field' has a q(Z) for every row, counts each once and takes no sample_weight. Repeat rows,"
            " or use inference='sod', 'dsvi' or 'sghmc'."
        )

    def supports(self, likelihood: LikelihoodOptions) -> bool:
        """Only Gaussian noise of one variance, for which all expectations are closed."""
        return likelihood.is_plain

    def usual_batch(self, size: int, n_rest: int, least: int) -> int:
        """All rows."""
        return n_rest

    def terms(self, model: DeepGP, batch: Batch, draws: Draws) -> Terms:
        """The terms of the bound, which are closed: `draws` is not used.

        Raises
        ------
        InputError
            For a batch that is not all rows in their order.
        """
        inputs: Tensor | Moments = batch.X_b
        n_rows = batch.X_b.shape[-2]
        hidden: Terms = {}
        for index, layer in enumerate(cast("list[LatentLayer]", model.hidden), start=1):
            target = layer.latent.moments
            if target.mean.shape[-2] != n_rows:
                raise InputError(
                    f"inference='mean_field' has q(Z) for {target.mean.shape[-2]} rows and needs all of them in every"
                    f" step; this batch has {n_rows}."
                )
            error = expected_squared_error(layer, inputs, target)
            hidden[f"z_{index}"] = _log_density(error, layer.layer_noise_variance, n_rows)
            hidden[f"entropy_{index}"] = layer.latent.entropy()
            hidden[f"kl_{index}"] = -layer.kl().squeeze(-1)
            inputs = target
        last = cast(InducingLayer, model.last)
        error = expected_squared_error(last, inputs, Moments(batch.y_b, torch.zeros_like(batch.y_b)))
        rest = batch.scale * _log_density(error, cast(Tensor, model.noise_variance), n_rows)
        return model.with_log_prior({"rest": rest, **hidden, "kl_last": -last.kl().squeeze(-1)})

    def training_numbers(self, architecture: Architecture, n_rows: int, batch_rows: int, n_samples: int) -> float:
        """As in the contract: no samples, but the psi statistics of all rows."""
        scratch = 2.0 * min(n_rows * architecture.size**2 / 2, GROUP)
        return architecture.training_numbers(batch_rows, 1, scratch=scratch)

    def _refuse_size(self, n_rows: int, widths: list[int]) -> None:
        latents = 2 * n_rows * sum(widths)
        if n_rows > self.max_rows or latents > self.max_latents:
            raise InputError(
                f"inference='mean_field' trains a mean and a variance for every row and hidden output, and every step"
                f" uses all rows: {n_rows} rows with hidden widths {widths} make {latents} such numbers. The limits are"
                f" {self.max_rows} rows and {self.max_latents} numbers. Use fewer rows or narrower layers, or"
                " inference='sod' or 'dsvi', whose parameters do not grow with the data."
            )


def _log_density(
    error: Float[Tensor, "*replicates 1 D"], noise_variance: Float[Tensor, "*replicates 1 #D"], n_rows: int
) -> Float[Tensor, "*replicates"]:
    """sum_nd E log N(t_nd; f_nd, noise_d), from the squared errors summed over rows."""
    values = n_rows * (math.log(2.0 * math.pi) + noise_variance.log()) + error / noise_variance
    return -0.5 * values.sum(-1).squeeze(-1)


def _spread(mean: Float[Tensor, "*replicates N D"], generator: torch.Generator) -> Float[Tensor, "*replicates N D"]:
    """Constant columns with a little noise: rows that start equal have equal gradients and would stay equal."""
    if not mean.shape[-2]:
        return mean
    noise = torch.randn(mean.shape, generator=generator, dtype=torch.float64).to(mean)
    is_constant = mean.amax(-2, keepdim=True) == mean.amin(-2, keepdim=True)
    return torch.where(is_constant, mean + 0.01 * noise, mean)


@torch.no_grad()
def _start_mean(layer: LatentLayer, values: Float[Tensor, "*replicates M D"]) -> None:
    """Set the mean of q(U) so that the mean of f at the inducing inputs has these values."""
    Z = layer.inducing_inputs.unsqueeze(-3)
    K = psi1(rbf_of(layer.kernel), Z, torch.zeros_like(Z), Z)
    L_inv = factorise(K, layer.jitter, layer=layer.index).L_inv
    layer.q_mean.copy_((L_inv @ (values.unsqueeze(-3) - layer.mean(Z))).squeeze(-3))
