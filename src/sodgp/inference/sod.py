"""Subset-of-data variational inference (Jain, Srijith & Khan, UAI 2021)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from sodgp.inference.contract import (
    Batch,
    Terms,
    TrainingSet,
    expected_log_density,
    mixture_log_density,
    total_log_density,
    with_log_prior,
)
from sodgp.kernels.make import make_kernel
from sodgp.layers.separate import SeparateLayer
from sodgp.layers.subset import ROWS_TOGETHER, Points, Posterior, SubsetLayer
from sodgp.likelihoods.noise import START_VARIANCE, HeavyTails, LevelNoise, LogNoise, NoiseProcess, crossed
from sodgp.linalg.draws import Draws
from sodgp.model.architecture import Architecture
from sodgp.model.deep_gp import DeepGP

__all__ = ["SubsetOfData"]


@dataclass(frozen=True)
class SubsetOfData:
    """The lower bound of eq. (SOD_Elbo), term by term.

    With B rows of the rest R (never of S), Z^0 = X and T samples of Z^1 .. Z^(L-1)::

        L =   (N - M)/B  sum_{n in B}  E[log p(y_n | f_n^L)]                     rest
            + sum_{n in S}  E_q_hat[log p(y_n | f_n^L)]                          subset
            - sum_{l < L}  E[KL(q(F_S^l) || p(F_S^l | Z_S^(l-1)))]               kl_1 ... kl_(L-1)
            - E[KL(q_hat(F_S^L) || p(F_S^L | Z_S^(L-1)))]                        kl_last

    Expectations over Z are averages over the Monte Carlo samples; those over f given Z are closed. q_hat is normalised
    for each Z_S.

    Parameters
    ----------
    coupling : {"ancestral", "marginal", "joint"}
        How Z_S and the other rows of a hidden layer are drawn together.
    predictive_weight : float
        Weight gamma of the log predictive density in place of the expected log density, for the rest::

            rest = (N - M)/B sum_{n in B} (1 - gamma) E[log p(y_n | f_n^L)] + gamma log E[p(y_n | f_n^L)]

        Above 0 the sum is no lower bound of the evidence any more, but what is scored: the density of unseen rows.
        The subset's labels are inside q_hat already, and keep the expected log density.
    noise : {"homoscedastic", "heteroscedastic", "heavy_tailed"}
        Let the noise vary: y_n ~ N(f_n^L, sigma^2 exp(g_n)), see `sodgp.likelihoods.noise`, with g a GP over the inputs
        (``"heteroscedastic"``) or one of eight values in every row (``"heavy_tailed"``). The sum is the bound under
        q(G_S) beside the other q, with one more term, ``kl_noise``. Given q(G_S) the best label-informed q_hat is
        again closed: it takes y_n in with the expected precision E[exp(-g_n)] / sigma^2.

    Examples
    --------
    >>> from sodgp.linalg.draws import FreshDraws
    >>> X = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    >>> architecture = Architecture(1, 1, 5, [torch.eye(1, dtype=torch.float64)])
    >>> data, method = TrainingSet(X[:5], X[:5].sign(), X[5:], X[5:].sign()), SubsetOfData()
    >>> model = method.build(architecture, data, torch.Generator().manual_seed(0))
    >>> batch = Batch(*(t[None] for t in (data.X_s, data.y_s, data.X_r, data.y_r)), scale=1.0)
    >>> list(method.terms(model, batch, FreshDraws(torch.Generator().manual_seed(0), n_samples=10)))
    ['rest', 'subset', 'kl_1', 'kl_last']
    """

    coupling: str = "ancestral"
    predictive_weight: float = 0.0
    noise: str = "homoscedastic"
    name: str = "sod"
    uses_subset: bool = True

    @property
    def row_coupling(self) -> str:
        """The coupling of rows that are predicted one by one.

        A row has one marginal under ``"joint"`` and ``"ancestral"`` coupling, and the latter looks at each row alone.
        """
        return "ancestral" if self.coupling == "joint" else self.coupling

    def build(self, architecture: Architecture, data: TrainingSet | None, generator: torch.Generator) -> DeepGP:
        """A model at its initial values."""
        start, size = architecture.initialization, architecture.size
        last = len(architecture.widths) - 1
        layers = []
        for index, width in enumerate(architecture.widths):
            noise: float | None = start.layer_noise_variance
            if index == last:
                noise = None if architecture.tie_label_noise else start.label_noise_variance
            layer = (SeparateLayer if architecture.is_separate(index) else SubsetLayer)(
                architecture.kernel_of(index),
                architecture.mean_of(index),
                size=size,
                width=width,
                parameterization=architecture.parameterization,
                noise_variance=noise,
                factor_scale=start.last_factor if index == last else start.hidden_factor,
                jitter=architecture.jitter,
                index=index + 1,
                replicates=architecture.replicates,
                label_precision=architecture.label_precision if index == last else None,
            )
            layers.append(layer)
        if start.means == "uniform":
            _start_uniform(layers, generator)
        elif architecture.parameterization == "paper" and data is not None:
            _start_at_prior_means(layers, data.X_s)
        return DeepGP(
            layers,
            n_outputs=architecture.n_outputs,
            noise_variance=start.noise_variance,
            noise_process=_noise_process(architecture, self.noise),
            known_noise=architecture.known_noise,
            replicates=architecture.replicates,
        )

    def terms(self, model: DeepGP, batch: Batch, draws: Draws) -> Terms:
        """Named terms of eq. (SOD_Elbo), each of shape [*replicates]."""
        points, kls = model.propagate(Points(batch.X_s, batch.X_b), draws, self.coupling)
        if model.noise_process is not None or batch.precision_b is not None:
            last, rest, subset = self._row_by_row(model, points, batch, draws)
        elif self.predictive_weight:
            last, rest, subset = self._for_prediction(model, points, batch)
        else:
            last, rest, subset = _constant_noise(model, points, batch)
        terms = {"rest": batch.scale * rest, "subset": subset}
        # Not |=, which the compiler of PyTorch 2.6 cannot follow.
        terms.update({f"kl_{layer}": -kl.mean(-1) for layer, kl in enumerate(kls, start=1)})
        terms["kl_last"] = -last.kl.mean(-1)
        if model.noise_process is not None:
            terms["kl_noise"] = -model.noise_process.kl().mean(-1)
        return with_log_prior(terms, model)

    def _for_prediction(self, model: DeepGP, points: Points, batch: Batch) -> tuple[Posterior, Tensor, Tensor]:
        """The last layer and the terms ``rest`` and ``subset`` with one noise, and the rest as it will be scored."""
        sigma2, v = model.noise_variance[..., None, :], label_noise(model)
        last = model.last.label_informed(points, batch.y_s, v)
        rest = mixture_log_density(batch.y_b, last.mean, last.variance + sigma2)
        if self.predictive_weight < 1.0:
            expected = total_log_density(batch.y_b, last.mean, last.variance.sum(-2, keepdim=True), sigma2)
            rest = torch.lerp(expected, rest, self.predictive_weight)
        return last, rest, total_log_density(batch.y_s, last.subset_mean, v * last.subset_total, sigma2)

    def _row_by_row(
        self, model: DeepGP, points: Points, batch: Batch, draws: Draws
    ) -> tuple[Posterior, Tensor, Tensor]:
        """The last layer and the terms ``rest`` and ``subset`` where every row has a noise of its own."""
        sigma2, process = model.noise_variance[..., None, :], model.noise_process
        if isinstance(process, HeavyTails):
            return self._heavy_tailed(model, process, points, batch)
        if process is not None:
            g_s, g_b = process.at(batch.X_s, batch.X_b)
            v = sigma2 / g_s.precision
        else:
            known = model.last.label_precision.unsqueeze(-3), cast(Tensor, batch.precision_b)
            g_s, g_b = (_known(precision) for precision in known)
            v = label_noise(model)
        last = model.last.label_informed(points, batch.y_s, v)
        # Relative to the likelihood's noise, which is v unless v is a parameter of its own.
        spread = v / sigma2 * last.subset_total if model.last.has_noise else last.subset_total
        subset = _subset_log_density(batch.y_s, last, g_s, sigma2, spread)
        rest = _log_density(batch.y_b, last.mean, last.variance, g_b, sigma2)
        if self.predictive_weight:
            # Known noise has no variance to draw from.
            normal = 0.0 if process is None else draws.rest(batch.y_b.shape[-2], model.n_outputs)
            predictive = mixture_log_density(batch.y_b, last.mean, last.variance + sigma2 * g_b.draw(normal))
            rest = torch.lerp(rest, predictive, self.predictive_weight)
        return last, rest, subset

    def _heavy_tailed(
        self, model: DeepGP, process: HeavyTails, points: Points, batch: Batch
    ) -> tuple[Posterior, Tensor, Tensor]:
        """The same where the noise of a row has one of a few levels."""
        sigma2, g_s = model.noise_variance[..., None, :], process.at_subset()
        last = model.last.label_informed(points, batch.y_s, sigma2 / g_s.precision)
        subset = _subset_log_density(batch.y_s, last, g_s, sigma2, last.subset_total)
        return last, self._over_levels(last, batch.y_b, sigma2.unsqueeze(-4) * process.levels()), subset

    def _over_levels(self, last: Posterior, y: Tensor, noise: Tensor) -> Tensor:
        """The term ``rest`` where any of K noise variances [..., K, 1, 1, P] is equally likely in a row.

        log 1/K sum_k exp E log N(y; f, noise_k) is below E log 1/K sum_k N(y; f, noise_k), so the sum stays a bound.
        """
        rest = torch.zeros_like(noise[..., 0, 0, 0, 0])
        if self.predictive_weight < 1.0:
            mean, variance = last.mean.unsqueeze(-4), last.variance.unsqueeze(-4)
            values = expected_log_density(y.unsqueeze(-4), mean, variance, noise)
            expected = (values.logsumexp(-4) - math.log(values.shape[-4])).sum((-2, -1)).mean(-1)
            rest = (1.0 - self.predictive_weight) * expected
        if self.predictive_weight:
            mixture = crossed(last.mean, last.variance, noise)
            rest = rest + self.predictive_weight * mixture_log_density(y, *mixture)
        return rest

    def predict(self, model: DeepGP, X_s: Tensor, y_s: Tensor, X: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """Eq. (prediction): test rows take the batch's place; one Gaussian for each sample."""
        points, _ = model.propagate(Points(X_s, X), draws, self.row_coupling)
        last = model.last.label_informed(points, y_s, label_noise(model, X_s))
        return last.mean, last.variance

    def predict_joint(self, model: DeepGP, X_s: Tensor, y_s: Tensor, X: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """Mean [..., T, N, P] and covariance [..., T, P, N, N] of f at X, drawn jointly through the layers.

        Every row has the law that `predict` gives it: where S is drawn apart from the rows there, it is here.
        """
        coupling = ROWS_TOGETHER if self.coupling == "marginal" else "joint"
        points, _ = model.propagate(Points(X_s, X), draws, coupling)
        return model.last.label_informed_joint(points, y_s, label_noise(model, X_s))


def label_noise(model: DeepGP, X_s: Tensor | None = None) -> Tensor:
    """The noise v of q_hat, [*replicates, 1, 1 or M, P]: the last layer's own, or the likelihood's where they are tied.

    Where the noise varies, that of every row of the subset, whose inputs are X_s [*replicates, 1, M, D]; so, too, where
    the noise of every row is known.
    """
    sigma2 = model.noise_variance[..., None, :]
    if model.last.label_precision is not None:
        return sigma2 / model.last.label_precision.unsqueeze(-3)
    if isinstance(model.noise_process, HeavyTails):
        return sigma2 / model.noise_process.at_subset().precision
    if model.noise_process is not None and X_s is not None:
        return sigma2 / model.noise_process.at(X_s, X_s[..., :1, :])[0].precision
    if model.last.has_noise:
        return model.last.noise_variance[..., None, None, None].expand_as(sigma2)
    return sigma2


def _constant_noise(model: DeepGP, points: Points, batch: Batch) -> tuple[Posterior, Tensor, Tensor]:
    """The last layer and the terms ``rest`` and ``subset`` from sums over rows alone: the fast path."""
    sigma2, v = model.noise_variance[..., None, :], label_noise(model)
    last = model.last.label_informed_totals(points, batch.y_s, v)
    rest = total_log_density(batch.y_b, last.mean, last.variance, sigma2)
    return last, rest, total_log_density(batch.y_s, last.subset_mean, v * last.subset_total, sigma2)


def _subset_log_density(y: Tensor, last: Posterior, g: LogNoise | LevelNoise, sigma2: Tensor, spread: Tensor) -> Tensor:
    """The same for the subset under q_hat, whose variances come as a sum relative to the noise."""
    return _log_density(y, last.subset_mean, 0.0, g, sigma2) - 0.5 * spread.sum((-2, -1)).mean(-1)


def _log_density(y: Tensor, mean: Tensor, variance: Tensor | float, g: LogNoise | LevelNoise, sigma2: Tensor) -> Tensor:
    """E log N(y; f, sigma^2 exp(g)) for f ~ N(mean, variance), summed over rows and outputs, [*replicates]."""
    squares = ((y - mean).square() + variance) * (g.precision / sigma2)
    return (-0.5 * (math.log(2.0 * math.pi) + sigma2.log() + g.mean + squares)).sum((-2, -1)).mean(-1)


def _known(precision: Tensor) -> LogNoise:
    """The log noise, relative to sigma^2, of rows with these relative precisions: nothing about it is uncertain."""
    return LogNoise(-precision.log(), torch.zeros_like(precision))


def _noise_process(architecture: Architecture, noise: str) -> NoiseProcess | HeavyTails | None:
    if noise == "homoscedastic":
        return None
    sizes: dict[str, Any] = {"size": architecture.size, "n_outputs": architecture.n_outputs}
    sizes.update(dtype=architecture.dtype, replicates=architecture.replicates)
    if noise == "heavy_tailed":
        return HeavyTails(**sizes)
    kernel = make_kernel(
        "rbf",
        architecture.input_dim,
        variance=START_VARIANCE,
        lengthscale=architecture.initialization.lengthscale,
        dtype=architecture.dtype,
        replicates=architecture.replicates,
    )
    return NoiseProcess(kernel, jitter=architecture.jitter, **sizes)


def _start_at_prior_means(layers: list[SubsetLayer], Z_s: Tensor) -> None:
    """Means of the paper's absolute q at the subset's prior means, layer by layer; the whitened q is there at 0."""
    with torch.no_grad():
        for layer in layers:
            Z_s = layer.mean(Z_s)
            layer.q_mean.copy_(Z_s)


def _start_uniform(layers: list[SubsetLayer], generator: torch.Generator) -> None:
    """Means of q uniform on [0, 1), the same numbers in every hidden layer (the authors' program resets its seed)."""
    widest = max(layer.q_mean.shape[-1] for layer in layers)
    numbers = torch.rand(layers[0].q_mean.shape[-2], widest, generator=generator, dtype=layers[0].q_mean.dtype)
    with torch.no_grad():
        for layer in layers:
            layer.q_mean.copy_(numbers[:, : layer.q_mean.shape[-1]])
