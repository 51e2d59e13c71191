"""Expectations over a Gaussian by Gauss-Hermite quadrature, for every row and output at once.

With the nodes x_i and weights w_i for the weight function exp(-x^2)::

    E g(f) = pi^(-1/2) sum_i w_i g(m + sqrt(2 v) x_i),        f ~ N(m, v)

which is exact for polynomials g of a degree up to twice the order less one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sodgp.errors import ConfigurationError
from sodgp.system.validation import check_integer

__all__ = ["ORDER", "Rule", "check_order", "expectation", "log_expectation", "nodes_under"]

ORDER = 20
"""Default number of nodes."""

_LARGEST_ORDER = 200
# The square root of a smaller variance would have no gradient.
_SMALLEST_VARIANCE = 1e-12

Moments = Float[Tensor, "*#shape"]


def check_order(order: int) -> int:
    """The order itself; ConfigurationError where it is no number of nodes."""
    if check_integer("quadrature_order", order, minimum=2) > _LARGEST_ORDER:
        raise ConfigurationError(f"quadrature_order={order!r} must be at most {_LARGEST_ORDER}.")
    return order


class Rule(NamedTuple):
    """Nodes for a standard normal variable, and the logs of their weights, which sum to one.

    Examples
    --------
    >>> Rule.of_order(3).nodes
    tensor([-1.7321,  0.0000,  1.7321], dtype=torch.float64)
    """

    nodes: Float[Tensor, " Q"]
    log_weights: Float[Tensor, " Q"]

    @classmethod
    def of_order(cls, order: int, like: Tensor | None = None) -> Rule:
        """The rule with so many nodes, of the type and on the device of a tensor."""
        x, w = np.polynomial.hermite_e.hermegauss(order)
        kept = w > 0.0  # far nodes of large orders have weights that underflow
        numbers = torch.as_tensor(x[kept]), torch.as_tensor(np.log(w[kept] / w.sum()))
        return cls(*(values if like is None else values.to(like) for values in numbers))


def nodes_under(
    mean: Moments, variance: Moments, rule: Rule
) -> tuple[Float[Tensor, "Q *shape"], Float[Tensor, "Q *ones"]]:
    """The nodes of N(mean, variance), on a new axis in front, and the logs of their weights.

    Examples
    --------
    >>> f, log_weights = nodes_under(torch.zeros(4, 1), torch.ones(4, 1), Rule.of_order(3, torch.ones(())))
    >>> f[:, 0, 0], log_weights.exp().flatten()
    (tensor([-1.7321,  0.0000,  1.7321]), tensor([0.1667, 0.6667, 0.1667]))
    """
    shape = torch.broadcast_shapes(mean.shape, variance.shape)
    ones = (-1, *[1] * len(shape))
    deviation = variance.clamp_min(_SMALLEST_VARIANCE).sqrt()
    return mean + deviation * rule.nodes.reshape(ones), rule.log_weights.reshape(ones)


def expectation(values: Float[Tensor, "Q *shape"], log_weights: Float[Tensor, "Q *ones"]) -> Float[Tensor, "*shape"]:
    """The mean of a function from its values at the nodes.

    Examples
    --------
    >>> f, log_weights = nodes_under(torch.tensor([1.0]), torch.tensor([0.5]), Rule.of_order(3, torch.ones(())))
    >>> expectation(f.square(), log_weights)
    tensor([1.5000])
    """
    return (log_weights.exp() * values).sum(0)


def log_expectation(
    log_values: Float[Tensor, "Q *shape"], log_weights: Float[Tensor, "Q *ones"]
) -> Float[Tensor, "*shape"]:
    """The log of the mean of a positive function from its logs at the nodes."""
    return (log_weights + log_values).logsumexp(0)
