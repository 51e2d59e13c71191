"""The prior of one GP layer: its mean function, and p(F_R | F_S) in factored form.

Every inference method uses it: SoD-VI conditions on the subset's inputs to the layer, DSVI on learned inducing inputs.
"""

from __future__ import annotations

from functools import cached_property

import torch
from gpytorch import Module as GPyTorchModule
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Tensor, nn

from sodgp.kernels.dense import covariance_pair, variance
from sodgp.linalg.cholesky import Factor, Jitter, draw_root, factorise
from sodgp.linalg.products import HiddenRows, QuadraticTrace, SpreadRows, TotalRows

__all__ = ["NOISE_FLOOR", "Conditional", "HiddenMean", "condition", "correlated", "register_floored"]


NOISE_FLOOR = 1e-6
"""Smallest noise variance, in scaled units."""


class HiddenMean(nn.Module):
    """A linear prior mean, mean(z) = z W, with fixed weights.

    Parameters
    ----------
    weight : Tensor of shape [*replicates, D_in, D_out]
        Zero for a zero mean.

    Examples
    --------
    >>> mean = HiddenMean(torch.eye(3, 2))
    >>> mean(torch.ones(5, 3)).shape, mean.kind
    (torch.Size([5, 2]), 'linear')
    """

    weight: Tensor

    def __init__(self, weight: Float[Tensor, "*replicates D_in D_out"]) -> None:
        super().__init__()
        self.register_buffer("weight", weight)

    @cached_property
    def kind(self) -> str:
        """``"zero"``, ``"identity"`` or ``"linear"``, found at the first use; the first two need no product."""
        if not bool(self.weight.any()):
            return "zero"
        square = self.weight.shape[-1] == self.weight.shape[-2]
        if square and torch.equal(self.weight, torch.eye(self.weight.shape[-1]).to(self.weight).expand_as(self.weight)):
            return "identity"
        return "linear"

    def at(self, *inputs: Tensor) -> list[Tensor]:
        """Prior means at several sets of inputs."""
        return [self(Z) for Z in inputs]

    def forward(self, Z: Float[Tensor, "*batch N D_in"]) -> Float[Tensor, "*batch N D_out"]:
        """Prior mean at Z, for every output."""
        if self.kind == "zero":
            return Z.new_zeros(()).expand(*Z.shape[:-1], self.weight.shape[-1])
        if self.kind == "identity":
            return Z
        return Z @ self.weight.unsqueeze(-3) if self.weight.dim() > 2 else Z @ self.weight


class Conditional:
    """The conditional of a layer's function at B rows given its values at M rows.

    With w = L^-1 (f_S - mean(Z_S)) the conditional of row n is N(mean(z_n) + A_n' w, V_n).

    Parameters
    ----------
    factor : Factor
        K_SS + jitter I = L L', and L^-1, of shape [..., M, M].
    K_sb : Tensor of shape [..., M, B]
    k_bb : Tensor of shape [..., B]
        Prior variances.

    Examples
    --------
    >>> from sodgp.kernels.make import make_kernel
    >>> X = torch.linspace(-1, 1, 10, dtype=torch.float64)[:, None]
    >>> cond = condition(make_kernel("rbf", 1), X[:4], X[4:], Jitter())
    >>> cond.A.shape, cond.V.shape
    (torch.Size([4, 6]), torch.Size([6]))
    """

    def __init__(self, factor: Factor, K_sb: Float[Tensor, "*#batch M B"], k_bb: Float[Tensor, "*#batch B"]) -> None:
        self.factor = factor
        self.K_sb = K_sb
        self.k_bb = k_bb
        # Not functools.cached_property, which PyTorch's compiler cannot trace before Python 3.12.
        self._A: Tensor | None = None
        self._V: Tensor | None = None

    @property
    def L(self) -> Float[Tensor, "*batch M M"]:
        """The Cholesky factor of K_SS."""
        return self.factor.L

    @property
    def L_inv(self) -> Float[Tensor, "*batch M M"]:
        """Inverse of the Cholesky factor."""
        return self.factor.L_inv

    @property
    def A(self) -> Float[Tensor, "*batch M B"]:
        """L^-1 K_SR."""
        if self._A is None:
            self._A = self.factor.solve(self.K_sb)
        return self._A

    @property
    def V(self) -> Float[Tensor, "*batch B"]:
        """Diagonal of K_RR - K_RS K_SS^-1 K_SR."""
        if self._V is None:
            # Rounding can push the difference below zero where a row coincides with one of the subset.
            self._V = (self.k_bb - self.A.square().sum(-2)).clamp_min(0.0)
        return self._V

    def rows_given(
        self, w: Float[Tensor, "*batch T M D"]
    ) -> tuple[Float[Tensor, "*batch T B D"], Float[Tensor, "*#batch #T B"]]:
        """A' w and V in one differentiable operation."""
        f, explained = HiddenRows.apply(self.factor.E, self.factor.inverse_value, self.K_sb, w)
        return f, (self.k_bb - explained).clamp_min(0.0)

    def rows_under(
        self, mean: Float[Tensor, "*batch T M P"], factor: Float[Tensor, "*batch T P M M"]
    ) -> tuple[Float[Tensor, "*batch T B P"], Float[Tensor, "*batch T B P"]]:
        """Means A' w and variances V_n + |factor_p' A_n|^2 for w ~ N(mean_p, factor_p factor_p')."""
        f, explained = SpreadRows.apply(self.factor.E, self.factor.inverse_value, self.K_sb, mean, factor)
        return f, (self.k_bb.unsqueeze(-1) - explained).clamp_min(0.0)

    def totals_under(
        self, mean: Float[Tensor, "*batch T M P"], factor: Float[Tensor, "*batch T P M M"]
    ) -> tuple[Float[Tensor, "*batch T B P"], Float[Tensor, "*batch T P"]]:
        """Means as in `rows_under`, and the variances summed over rows.

        The sum is all that a Gaussian likelihood needs, and costs no product of the factors with the batch:
        sum_n (V_n + |factor' A_n|^2) = sum_n k_nn - tr((I - factor factor') A A').
        """
        f, gram = TotalRows.apply(self.factor.E, self.factor.inverse_value, self.K_sb, mean)
        unexplained = self.k_bb.sum(-1) - gram.diagonal(dim1=-2, dim2=-1).sum(-1)
        return f, unexplained.unsqueeze(-1) + QuadraticTrace.apply(gram, factor)


def condition(
    kernel: Kernel,
    Z_s: Float[Tensor, "*batch M D"],
    Z_b: Float[Tensor, "*batch2 B D"],
    jitter: Jitter,
    *,
    layer: int | None = None,
    nugget: Float[Tensor, "*nugget 1 1"] | None = None,
    what: str = "K_SS",
) -> Conditional:
    """The conditional of a GP at rows Z_b given its values at Z_s.

    Parameters
    ----------
    kernel : gpytorch.kernels.Kernel
    Z_s, Z_b : Tensor of shape [..., M, D] and [..., B, D]
        Layer inputs of the subset (or the inducing inputs) and of the other rows.
    jitter : Jitter
    layer : int, optional
        For error messages.
    nugget : Tensor of shape [..., 1, 1], optional
        Noise variance that sits inside the kernel (DSVI): added to the diagonals of K_SS and K_RR.
    what : str
        Name of the matrix, for error messages.

    Examples
    --------
    >>> from sodgp.kernels.make import make_kernel
    >>> X = torch.linspace(-1, 1, 10, dtype=torch.float64)[:, None]
    >>> condition(make_kernel("rbf", 1), X, X, Jitter()).V.max().item() < 1e-5  # nothing is left at the rows themselves
    True
    """
    K_ss, K_sb = covariance_pair(kernel, Z_s, Z_b)
    k_bb = variance(kernel, Z_b) + jitter.prior_extra
    if nugget is not None:
        K_ss = K_ss + nugget * torch.eye(K_ss.shape[-1], dtype=K_ss.dtype, device=K_ss.device)
        k_bb = k_bb + nugget[..., 0]
    return Conditional(factorise(K_ss, jitter, layer=layer, what=what), K_sb, k_bb)


def correlated(
    covariance: Float[Tensor, "*#batch #T D N N"],
    noise: Float[Tensor, "*#batch T N D"],
    *,
    layer: int,
    what: str,
    jitter: float = 1e-12,
) -> Float[Tensor, "*batch T N D"]:
    """A joint draw of N(0, covariance_d) over all rows for every output d, from standard normal numbers `noise`.

    `covariance` gets at least `jitter`; `layer` and `what` are for the error message.

    Examples
    --------
    >>> z = correlated(torch.ones(1, 1, 2, 2), torch.ones(5, 2, 1), layer=1, what="Cov(Z)")  # correlation one
    >>> z.shape, bool((z[:, 0] - z[:, 1]).abs().max() < 1e-5)
    (torch.Size([5, 2, 1]), True)
    """
    root = draw_root(covariance, layer=layer, what=what, jitter=jitter)
    return (root @ noise.mT.unsqueeze(-1)).squeeze(-1).mT


def above(floor: float) -> GreaterThan:
    """A lower bound as a constraint; its buffers are in single precision whatever PyTorch's default type is."""
    return GreaterThan(floor).float()


def register_floored(module: GPyTorchModule, name: str, start: Float[Tensor, "*shape"]) -> None:
    """Register a variance of at least `NOISE_FLOOR` that starts at `start`: the raw parameter and its constraint.

    Examples
    --------
    >>> module = GPyTorchModule()
    >>> register_floored(module, "raw_noise", torch.tensor([0.5, 0.0]))
    >>> module.raw_noise_constraint.transform(module.raw_noise).tolist()
    [0.5, 1.0...e-06]
    """
    constraint = above(NOISE_FLOOR)
    raw = constraint.inverse_transform(start.clamp_min(1.01 * NOISE_FLOOR))
    module.register_parameter(name, nn.Parameter(raw))
    module.register_constraint(name, constraint)
