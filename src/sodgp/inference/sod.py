"""Subset-of-data variational inference (Jain, Srijith & Khan, UAI 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sodgp.architecture import Architecture
from sodgp.draws import Draws
from sodgp.inference.base import Batch, Terms, TrainingSet, total_log_density, with_log_prior
from sodgp.layers.subset import Points, SubsetLayer
from sodgp.model import DeepGP


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
    """

    coupling: str = "ancestral"
    name: str = "sod"
    uses_subset: bool = True

    def build(self, architecture: Architecture, data: TrainingSet | None, generator: torch.Generator) -> DeepGP:
        """A model at its initial values."""
        start, size = architecture.initialization, architecture.size
        last = len(architecture.widths) - 1
        layers = []
        for index, width in enumerate(architecture.widths):
            noise: float | None = start.layer_noise_variance
            if index == last:
                noise = None if architecture.tie_label_noise else start.label_noise_variance
            layer = SubsetLayer(
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
            replicates=architecture.replicates,
        )

    def terms(self, model: DeepGP, batch: Batch, draws: Draws) -> Terms:
        """Named terms of eq. (SOD_Elbo), each of shape [*replicates]."""
        points, kls = model.propagate(Points(batch.X_s, batch.X_b), draws, self.coupling)
        noise = model.noise_variance[..., None, :]
        last = model.last.label_informed_totals(points, batch.y_s, label_noise(model))
        rest = total_log_density(batch.y_b, last.mean, last.variance, noise)
        subset = total_log_density(batch.y_s, last.subset_mean, last.subset_total, noise)
        terms = {"rest": batch.scale * rest, "subset": subset}
        terms |= {f"kl_{layer}": -kl.mean(-1) for layer, kl in enumerate(kls, start=1)}
        terms["kl_last"] = -last.kl.mean(-1)
        return with_log_prior(terms, model)

    def predict(self, model: DeepGP, X_s: Tensor, y_s: Tensor, X: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """Eq. (prediction): test rows take the batch's place; one Gaussian for each sample.

        A row has one marginal under ``"joint"`` and ``"ancestral"`` coupling, and the latter looks at each row alone.
        """
        coupling = "ancestral" if self.coupling == "joint" else self.coupling
        points, _ = model.propagate(Points(X_s, X), draws, coupling)
        last = model.last.label_informed(points, y_s, label_noise(model))
        return last.mean, last.variance

    def predict_joint(self, model: DeepGP, X_s: Tensor, y_s: Tensor, X: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """Mean [..., T, N, P] and covariance [..., T, P, N, N] of f at X, drawn jointly through the layers."""
        points, _ = model.propagate(Points(X_s, X), draws, "joint")
        return model.last.label_informed_joint(points, y_s, label_noise(model))


def label_noise(model: DeepGP) -> Tensor:
    """The noise v of q_hat, [*replicates, 1, P]: the last layer's own, or the likelihood's where they are tied."""
    if model.last.has_noise:
        return model.last.noise_variance[..., None, None].expand_as(model.noise_variance)
    return model.noise_variance


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
