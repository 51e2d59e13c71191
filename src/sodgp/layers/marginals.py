"""What the last layer says of f under q_hat: marginals at the rows of the subset and at the others."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from sodgp.layers.families import Gaussian, LabelInformed
from sodgp.layers.prior import Conditional

__all__ = ["Posterior", "RestMarginals", "SubsetMarginals"]


class Posterior(NamedTuple):
    """The last layer under q_hat, for each Monte Carlo sample.

    Attributes
    ----------
    subset : SubsetMarginals
        q_hat(F_S).
    rest : RestMarginals
        f at the other rows.
    kl : Tensor of shape [..., T]
        KL(q_hat || p(F_S | Z_S)).

    Examples
    --------
    >>> import torch
    >>> from sodgp.kernels.make import make_kernel
    >>> from sodgp.layers.contract import Points
    >>> from sodgp.layers.prior import HiddenMean
    >>> from sodgp.layers.subset import SubsetLayer
    >>> layer = SubsetLayer(make_kernel("rbf", 1), HiddenMean(torch.zeros(1, 1).double()), size=3, width=1)
    >>> Z = torch.linspace(-1, 1, 8, dtype=torch.float64)[None, :, None]
    >>> v = torch.full((1, 1, 1), 0.1, dtype=torch.float64)
    >>> mean, variance = layer.label_informed(Points(Z[:, :3], Z[:, 3:]), Z[:, :3], v).rest.rows()
    >>> mean.shape, variance.shape
    (torch.Size([1, 5, 1]), torch.Size([1, 5, 1]))
    """

    subset: SubsetMarginals
    rest: RestMarginals
    kl: Float[Tensor, "*batch T"]


class SubsetMarginals:
    """Marginals of F_S under q_hat, whose sites have the variance v; None for sites by their natural parameters.

    Sums over rows cost less than the rows, which need the covariance of q_hat.
    """

    def __init__(self, q_hat: LabelInformed, v: Float[Tensor, "*#batch 1 #M P"] | None) -> None:
        self._q_hat, self._v = q_hat, v

    def rows(self) -> tuple[Float[Tensor, "*batch T M P"], Float[Tensor, "*batch T M P"]]:
        """Means and variances."""
        return self._q_hat.mean, self._q_hat.f.variance

    def totals(self) -> tuple[Float[Tensor, "*batch T M P"], Float[Tensor, "*batch T 1 P"]]:
        """Means, and variances summed over rows."""
        if self._v is None or self._v.shape[-2] > 1:
            mean, variance = self.rows()
            return mean, variance.sum(-2, keepdim=True)
        return self._q_hat.mean, self._v * self._q_hat.relative_variance.unsqueeze(-2)

    def over_sites(self) -> tuple[Float[Tensor, "*batch T M P"], Float[Tensor, "*batch T 1 P"]] | None:
        """Means, and variances divided by those of the sites, summed over rows; None for sites without a variance."""
        return None if self._v is None else (self._q_hat.mean, self._q_hat.relative_variance.unsqueeze(-2))


class RestMarginals:
    """Marginals of f at rows outside the subset; sums over rows cost less than the rows."""

    def __init__(self, cond: Conditional, w: Gaussian, mean_b: Float[Tensor, "*#batch #T B P"]) -> None:
        self._cond, self._w, self._mean_b = cond, w, mean_b
        self._rows: tuple[Tensor, Tensor] | None = None

    def rows(self) -> tuple[Float[Tensor, "*batch T B P"], Float[Tensor, "*batch T B P"]]:
        """Means and variances."""
        if self._rows is None:
            mean, variance = self._cond.rows_under(*self._w)
            self._rows = self._mean_b + mean, variance
        return self._rows

    def totals(self) -> tuple[Float[Tensor, "*batch T B P"], Float[Tensor, "*batch T 1 P"]]:
        """Means, and variances summed over rows."""
        if self._rows is not None:
            return self._rows[0], self._rows[1].sum(-2, keepdim=True)
        mean, total = self._cond.totals_under(*self._w)
        return self._mean_b + mean, total.unsqueeze(-2)

    def over_sites(self) -> None:
        """These rows have no sites."""
        return
