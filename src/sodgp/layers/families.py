"""The two families of q(F_S): the paper's, and the whitened one.

Both answer the same questions about one layer, in the coordinates w = L^-1 (F_S - mean(Z_S)), in which the prior is
N(0, I) and the conditional of another row n is N(mean(z_n) + A_n' w, V_n).

========  ==============================================  ==========================================
name      q                                               prior in the KL
========  ==============================================  ==========================================
paper     F_S,d ~ N(m_d, C_d C_d'), whatever Z_S          N(mean(Z_S), K_SS)
whitened  F_S = mean(Z_S) + L u, u_d ~ N(m_d, C_d C_d')   N(0, I) for u
========  ==============================================  ==========================================

Axes: replicates R..., Monte Carlo samples T (or 1 where nothing depends on the sample), rows, outputs D. Factors carry
their output before the matrix: [R..., T, D, M, M].
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn

from sodgp.layers.prior import Conditional
from sodgp.linalg.cholesky import Factor, Jitter, factorise, log_diagonal
from sodgp.linalg.products import Gram

__all__ = ["FAMILIES", "Family", "Gaussian", "LabelInformed", "PaperFamily", "WhitenedFamily"]


class Gaussian(NamedTuple):
    """N(mean_d, factor_d factor_d') over M rows, one for each output d; a factor need not be triangular.

    Attributes
    ----------
    mean : Tensor of shape [..., T, M, D]
    factor : Tensor of shape [..., T, D, M, M]

    Examples
    --------
    >>> Gaussian(torch.zeros(1, 3, 2), torch.eye(3).expand(1, 2, 3, 3)).variance.shape
    torch.Size([1, 3, 2])
    """

    mean: Tensor
    factor: Tensor

    @property
    def variance(self) -> Tensor:
        """Marginal variances, of shape [..., T, M, D]."""
        return self.factor.square().sum(-1).mT


def trained_numbers(layer: nn.Module) -> int:
    """Trained numbers of one replicate of a layer with `q_mean`; of `q_factor` only the lower triangle counts."""
    numbers = dict(layer.named_parameters())
    size, width = cast(Tensor, layer.q_mean).shape[-2:]
    replicates = cast(Tensor, layer.q_mean)[..., 0, 0].numel()
    others = sum(p.numel() for name, p in numbers.items() if name != "q_factor") // replicates
    return others + (width * size * (size + 1) // 2 if "q_factor" in numbers else 0)


class LabelInformed(NamedTuple):
    """q_hat(F_S) = N(y_S; F_S, diag(v)) q(F_S) / Zcal, normalised for each Z_S.

    Attributes
    ----------
    w : Gaussian
        q_hat in the coordinates w.
    mean : Tensor of shape [..., T, M, P]
        Mean of F_S itself.
    image : Tensor of shape [..., T, P, M, M]
        Factor of q over F_S before the labels.
    Q : Factor
        Of I + image' diag(1/v) image.
    relative_variance : Tensor of shape [..., T, P]
        Variances of F_S over the label noise v, summed over its rows.
    kl : Tensor of shape [..., T]
        KL(q_hat || p(F_S | Z_S)), summed over outputs.

    Examples
    --------
    >>> from sodgp.kernels.make import make_kernel
    >>> from sodgp.layers.prior import condition
    >>> X = torch.linspace(-1, 1, 4, dtype=torch.float64)[None, :, None]
    >>> cond = condition(make_kernel("rbf", 1), X, X, Jitter())
    >>> m, C = torch.zeros(1, 4, 1, dtype=torch.float64), torch.eye(4, dtype=torch.float64)[None, None]
    >>> q_hat = WhitenedFamily().label_informed(m, C, cond, 0.0 * X, X, torch.ones(1, 1, dtype=torch.float64))
    >>> q_hat.mean.shape, q_hat.kl.shape
    (torch.Size([1, 4, 1]), torch.Size([1]))
    """

    w: Gaussian
    mean: Tensor
    image: Tensor
    Q: Factor
    relative_variance: Tensor
    kl: Tensor

    @property
    def f(self) -> Gaussian:
        """The law of F_S itself, with its whole covariance: N(mean, image Q^-1 image')."""
        return Gaussian(self.mean, self.Q.solve(self.image.mT).mT)


@runtime_checkable
class Family(Protocol):
    """What a layer asks of its family of q(F_S); m is [..., 1, M, D] and C lower triangular [..., 1, D, M, M].

    Examples
    --------
    >>> all(isinstance(family, Family) for family in FAMILIES.values())
    True
    """

    def draw(self, m: Tensor, C: Tensor, cond: Conditional, mean_s: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """A draw of (F_S, w) from standard normal `noise`, each of shape [..., T, M, D]."""
        ...

    def in_f(self, m: Tensor, C: Tensor, cond: Conditional, mean_s: Tensor) -> Gaussian:
        """The distribution q over F_S."""
        ...

    def in_w(self, m: Tensor, C: Tensor, cond: Conditional, mean_s: Tensor) -> Gaussian:
        """The same distribution over w."""
        ...

    def kl(self, m: Tensor, C: Tensor, cond: Conditional, mean_s: Tensor) -> Tensor:
        """KL(q(F_S) || p(F_S | Z_S)) summed over outputs, of shape [..., T] or [..., 1]."""
        ...

    def label_informed(
        self, m: Tensor, C: Tensor, cond: Conditional, mean_s: Tensor, y_s: Tensor, v: Tensor
    ) -> LabelInformed:
        """Condition q on the labels y_s [..., 1, M, D] with noise variance v [..., 1, 1 or M, D]."""
        ...


class WhitenedFamily:
    """F_S = mean(Z_S) + L u: keeps the dependence of F_S on Z_S that the paper's family cuts.

    Examples
    --------
    >>> from sodgp.kernels.make import make_kernel
    >>> from sodgp.layers.prior import condition
    >>> X = torch.linspace(-1, 1, 4, dtype=torch.float64)[None, :, None]
    >>> cond = condition(make_kernel("rbf", 1), X, X, Jitter())
    >>> m, C = torch.zeros(1, 4, 1, dtype=torch.float64), torch.eye(4, dtype=torch.float64)[None, None]
    >>> WhitenedFamily().kl(m, C, cond, 0.0 * X).item()  # q is the prior
    0.0
    """

    def draw(self, m: Tensor, C: Tensor, cond: Conditional, mean_s: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """F_S = mean(Z_S) + L u and w = u, with u = m + C noise."""
        u = m + _times(C, noise)
        return mean_s + cond.factor.times(u), u

    def in_f(self, m: Tensor, C: Tensor, cond: Conditional, mean_s: Tensor) -> Gaussian:
        """N(mean(Z_S) + L m, L C C' L')."""
        return Gaussian(mean_s + cond.factor.times(m), cond.factor.over_outputs().times(C))

    def in_w(self, m: Tensor, C: Tensor, cond: Conditional, mean_s: Tensor) -> Gaussian:
        """N(m, C C')."""
        return Gaussian(m, C)

    def kl(self, m: Tensor, C: Tensor, cond: Conditional, mean_s: Tensor) -> Tensor:
        """KL(N(m, C C') || N(0, I)): neither K nor the sample enters."""
        return kl_to_standard_normal(Gaussian(m, C), log_diagonal(C).sum(-1))

    def label_informed(
        self, m: Tensor, C: Tensor, cond: Conditional, mean_s: Tensor, y_s: Tensor, v: Tensor
    ) -> LabelInformed:
        """Q = I + C'L'LC/v, C_hat = C L_Q^-T, m_hat = m + C_hat C_hat' L' (y_S - mean(Z_S) - L m)/v, per sample."""
        image = cond.factor.over_outputs().times(C)
        Q = _absorb_labels(image, v)
        C_hat = Q.solve(C.mT).mT
        residual = (y_s - mean_s - cond.factor.times(m)) / v
        m_hat = m + _gram_times(C_hat, cond.factor.transpose_times(residual))
        w = Gaussian(m_hat, C_hat)
        kl = kl_to_standard_normal(w, (log_diagonal(C) - Q.log_det()).sum(-1))
        return LabelInformed(w, mean_s + cond.factor.times(m_hat), image, Q, _relative_variance(Q), kl)


class PaperFamily:
    """F_S,d ~ N(m_d, C_d C_d') with m absolute and independent of Z_S.

    Examples
    --------
    >>> from sodgp.kernels.make import make_kernel
    >>> from sodgp.layers.prior import condition
    >>> X = torch.linspace(-1, 1, 4, dtype=torch.float64)[None, :, None]
    >>> cond = condition(make_kernel("rbf", 1), X, X, Jitter())
    >>> m, C = torch.zeros(1, 4, 1, dtype=torch.float64), torch.eye(4, dtype=torch.float64)[None, None]
    >>> PaperFamily().kl(m, cond.L[None], cond, 0.0 * X).abs().item() < 1e-9  # q is the prior
    True
    """

    def draw(self, m: Tensor, C: Tensor, cond: Conditional, mean_s: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """F_S = m + C noise and w = L^-1 (F_S - mean(Z_S))."""
        f_s = m + _times(C, noise)
        return f_s, cond.factor.solve(f_s - mean_s)

    def in_f(self, m: Tensor, C: Tensor, cond: Conditional, mean_s: Tensor) -> Gaussian:
        """N(m, C C')."""
        return Gaussian(m, C)

    def in_w(self, m: Tensor, C: Tensor, cond: Conditional, mean_s: Tensor) -> Gaussian:
        """N(L^-1 (m - mean(Z_S)), L^-1 C C' L^-T)."""
        return Gaussian(cond.factor.solve(m - mean_s), cond.factor.over_outputs().solve(C))

    def kl(self, m: Tensor, C: Tensor, cond: Conditional, mean_s: Tensor) -> Tensor:
        """KL(N(m, C C') || N(mean(Z_S), K_SS)); one pooled trace for all outputs of the layer.

        sum_d tr(K^-1 C_d C_d') = tr(K^-1 Sbar) with Sbar = sum_d C_d C_d' formed once, not for each sample.
        """
        n_rows, n_outputs = m.shape[-2:]
        pooled = (C @ C.mT).sum(-3)
        trace = ((cond.L_inv @ pooled) * cond.L_inv).sum((-2, -1))
        distance = cond.factor.solve(m - mean_s).square().sum((-2, -1))
        log_det = n_outputs * cond.factor.log_det() - log_diagonal(C).sum(-1)
        return 0.5 * (trace + distance - n_rows * n_outputs) + log_det

    def label_informed(
        self, m: Tensor, C: Tensor, cond: Conditional, mean_s: Tensor, y_s: Tensor, v: Tensor
    ) -> LabelInformed:
        """Q = I + C'C/v, C_hat = C L_Q^-T, m_hat = m + C_hat C_hat' (y_S - m)/v: Sigma is never inverted."""
        Q = _absorb_labels(C, v)
        C_hat = Q.solve(C.mT).mT
        m_hat = m + _gram_times(C_hat, (y_s - m) / v)
        w = Gaussian(cond.factor.solve(m_hat - mean_s), cond.factor.over_outputs().solve(C_hat))
        log_det = log_diagonal(C) - Q.log_det() - cond.factor.log_det()[..., None]
        kl = kl_to_standard_normal(w, log_det.sum(-1))
        return LabelInformed(w, m_hat, C, Q, _relative_variance(Q), kl)


FAMILIES: dict[str, Family] = {"whitened": WhitenedFamily(), "paper": PaperFamily()}


def _times(C: Tensor, noise: Tensor) -> Tensor:
    """C_d noise_d for every sample, [..., 1, D, M, M] by [..., T, M, D]; the samples ride as columns of one product."""
    return (C.squeeze(-4) @ noise.transpose(-1, -3)).transpose(-1, -3)


def _gram_times(C: Tensor, x: Tensor) -> Tensor:
    """C_d C_d' x_d for factors [..., D, M, M] and columns [..., M, D]."""
    columns = x.mT.unsqueeze(-1)
    return (C @ (C.mT @ columns)).squeeze(-1).mT


def _absorb_labels(image: Tensor, v: Tensor) -> Factor:
    """The factor of Q = I + image' diag(1/v) image, where image is the factor of q over F_S."""
    eye = torch.eye(image.shape[-1], dtype=image.dtype, device=image.device)
    by_output = v.mT.unsqueeze(-1)  # [..., 1, P, 1 or M, 1]
    gram = Gram.apply(image) / by_output if v.shape[-2] == 1 else Gram.apply(image / by_output.sqrt())
    # Q is I plus a positive semi-definite matrix: it needs no jitter.
    return factorise(eye + gram, Jitter(0.0), what="Q of q_hat")


def _relative_variance(Q: Factor) -> Tensor:
    """Trace of diag(1/v) image Q^-1 image' = tr(Q^-1 (Q - I)) = M - tr Q^-1, [..., T, P]."""
    return Q.E.shape[-1] - Q.inverse_norm()


def kl_to_standard_normal(q: Gaussian, log_det: Tensor) -> Tensor:
    """KL to N(0, I) summed over outputs; `log_det` = half log determinant of the covariance, summed over outputs."""
    n_rows, n_outputs = q.mean.shape[-2:]
    trace = q.factor.square().sum((-3, -2, -1))
    return 0.5 * (trace + q.mean.square().sum((-2, -1)) - n_rows * n_outputs) - log_det
