"""Doubly stochastic variational inference (Salimbeni & Deisenroth, NeurIPS 2017); with one layer, SVGP.

Also Titsias's collapsed bound (AISTATS 2009), the closed optimum of the bound with one layer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Tensor

from sodgp.inference.contract import Batch, Terms, TrainingSet
from sodgp.inference.inducing import InducingMethod, inducing_layers
from sodgp.layers.contract import Points
from sodgp.layers.inducing import InducingLayer, InducingMarginals
from sodgp.layers.prior import condition
from sodgp.linalg.cholesky import Jitter, cholesky, log_diagonal
from sodgp.linalg.draws import Draws
from sodgp.model.architecture import Architecture
from sodgp.model.deep_gp import DeepGP
from sodgp.system.validation import check_choice, check_flag

__all__ = ["DSVI", "collapsed_bound"]


@dataclass(frozen=True, kw_only=True)
class DSVI(InducingMethod):
    """Doubly stochastic variational inference: the bound for the posterior of eq. (dsviDGPVarPost).

    With B of all N rows, and expectations over f^1 .. f^(L-1) by T samples::

        L =  N/B  sum_{n in B} w_n E[log p(y_n | f_n^L)]  -  sum_l KL(q(U^l) || p(U^l))

    w_n is how many observations row n stands for, one without weights.
    Every layer is whitened and has its own inducing inputs. Each row is drawn from its own marginal, which is exact
    because the bound is a sum over rows. The layer noise is part of the kernel (Appendix A).

    Parameters
    ----------
    learn_inducing_inputs : bool
        False keeps the initial inducing inputs (DSVI*).
    objective : {"bound", "predictive"}
        What training maximises. ``"predictive"`` has the log predictive density in the place of the expected log
        density, as in `SoD`, here of all rows.

    Examples
    --------
    >>> from sodgp.linalg.draws import FreshDraws
    >>> X = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    >>> architecture = Architecture(1, 1, 5, [torch.eye(1, dtype=torch.float64)])
    >>> data, method = TrainingSet(X[:0], X[:0], X, X.sign()), DSVI()
    >>> model = method.build(architecture, data, torch.Generator().manual_seed(0))
    >>> batch = Batch(*(t[None] for t in (data.X_s, data.y_s, data.X_r, data.y_r)), scale=1.0)
    >>> list(method.terms(model, batch, FreshDraws(torch.Generator().manual_seed(0), n_samples=10)))
    ['rest', 'kl_1', 'kl_last']
    """

    learn_inducing_inputs: bool = True
    objective: str = "bound"

    name: ClassVar[str] = "dsvi"
    can_warm_start: ClassVar[bool] = True
    unused_options: ClassVar[tuple[str, ...]] = ("subset",)

    def __post_init__(self) -> None:
        check_flag("learn_inducing_inputs", self.learn_inducing_inputs)
        check_choice("objective", self.objective, ("bound", "predictive"))

    def build(self, architecture: Architecture, data: TrainingSet | None, generator: torch.Generator) -> DeepGP:
        """A model whose inducing inputs start at k-means centres, mapped through the linear means."""
        layers = inducing_layers(
            architecture, data, generator, learn_inducing_inputs=self.learn_inducing_inputs, is_point=False
        )
        return DeepGP(layers, architecture.build_likelihood(), replicates=architecture.replicates)

    def terms(self, model: DeepGP, batch: Batch, draws: Draws) -> Terms:
        """The expected or the predictive log density, and one KL for each layer."""
        points, kls = model.propagate(Points(batch.X_s, batch.X_b), draws, "marginal")
        last = cast(InducingLayer, model.last)
        _, p_b = model.likelihood.at(batch.X_s, batch.X_b, draws)
        p_b = p_b.weighted(batch.weight_b)
        f = InducingMarginals(last, points.rest)
        density = p_b.log_mixture_density if self.objective == "predictive" else p_b.expected_log_density
        terms = {"rest": batch.scale * density(batch.y_b, f)}
        # Not |=, which the compiler of PyTorch 2.6 cannot follow.
        terms.update({f"kl_{layer}": -kl.mean(-1) for layer, kl in enumerate(kls, start=1)})
        terms["kl_last"] = -last.kl().mean(-1)
        return model.with_log_prior(terms)

    def sums_over_rows(self) -> tuple[str, ...]:
        """The densities."""
        return ("rest",)


def collapsed_bound(
    kernel: Kernel,
    Z: Float[Tensor, "M D"],
    X: Float[Tensor, "N D"],
    y: Float[Tensor, " N"],
    noise: Float[Tensor, ""],
    jitter: Jitter,
) -> Float[Tensor, ""]:
    """Titsias's collapsed bound, log N(y; 0, Q + noise I) - tr(K - Q) / (2 noise), Q = K_XZ K_ZZ^-1 K_ZX.

    The value of the bound with one layer and Gaussian noise at the optimal Gaussian q(U), in O(N M^2).

    Parameters
    ----------
    kernel : gpytorch.kernels.Kernel
    Z, X : Tensor of shape [M, D] and [N, D]
        Inducing inputs and data.
    y : Tensor of shape [N]
    noise : Tensor
        Noise variance, a scalar.
    jitter : Jitter
        On K_ZZ.

    Examples
    --------
    >>> from sodgp.kernels.make import make_kernel
    >>> X = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    >>> noise, kernel = torch.tensor(0.1, dtype=torch.float64), make_kernel("rbf", 1)
    >>> few, all_rows = (collapsed_bound(kernel, Z, X, X[:, 0], noise, Jitter()).item() for Z in (X[::10], X))
    >>> few < all_rows
    True
    """
    cond = condition(kernel, Z, X, jitter)
    B = torch.eye(len(Z), dtype=Z.dtype, device=Z.device) + cond.A @ cond.A.mT / noise
    L_B = cholesky(B, Jitter(0.0), what="I + A A' / noise")
    c = torch.linalg.solve_triangular(L_B, (cond.A @ y[:, None]) / noise, upper=False)
    log_density = -0.5 * (
        len(y) * (math.log(2.0 * math.pi) + noise.log()) + y.square().sum() / noise - c.square().sum()
    )
    return log_density - log_diagonal(L_B) - 0.5 * cond.V.sum() / noise
