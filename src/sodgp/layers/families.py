"""The two families of q(F_S): the paper's, and the whitened one.

Both have the same methods, in the coordinates w = L^-1 (F_S - mean(Z_S)), in which the prior is N(0, I) and the
conditional of another row n is N(mean(z_n) + A_n' w, V_n).

========  ==============================================  ==========================================
name      q                                               prior in the KL
========  ==============================================  ==========================================
paper     F_S,d ~ N(m_d, C_d C_d') for every Z_S          N(mean(Z_S), K_SS)
whitened  F_S = mean(Z_S) + L u, u_d ~ N(m_d, C_d C_d')   N(0, I) for u
========  ==============================================  ==========================================

Axes are replicates, Monte Carlo samples T (1 where nothing depends on the sample), rows, outputs D. Factors have the
outputs in front of the matrix: [*replicates, T, D, M, M].
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sodgp.layers.prior import Conditional
from sodgp.linalg.cholesky import Factor, Jitter, factorise
from sodgp.linalg.products import Gram

__all__ = ["FAMILIES", "Family", "Gaussian", "LabelInformed", "PaperFamily", "WhitenedFamily"]

# Arguments of every method of a family: m and C of q, mean(Z_S), standard normal numbers or draws, labels and noise.
Mean = Float[Tensor, "*#batch 1 M D"]
Root = Float[Tensor, "*#batch 1 D M M"]
MeanOfS = Float[Tensor, "*#batch #T M D"]
Image = Float[Tensor, "*#batch T D M M"]
Columns = Float[Tensor, "*#batch T M D"]
Labels = Float[Tensor, "*#batch 1 M D"]
LabelNoise = Float[Tensor, "*#batch 1 #M D"]
# Natural parameters of Gaussian sites exp(lambda_1 f - lambda_2 f^2 / 2), for every row and output.
Natural = Float[Tensor, "*#batch 1 M D"]


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

    mean: Float[Tensor, "*batch T M D"]
    factor: Float[Tensor, "*batch T D M M"]

    @property
    def variance(self) -> Float[Tensor, "*batch T M D"]:
        """Marginal variances."""
        return self.factor.square().sum(-1).mT


def half_log_det(C: Root) -> Float[Tensor, "*#batch 1 D"]:
    """Half the log determinant of C C' for a lower-triangular C; the sign of its diagonal is free."""
    return C.diagonal(dim1=-2, dim2=-1).abs().log().sum(-1)


def trained_numbers(layer: nn.Module) -> int:
    """How many numbers one replicate of a layer trains; of `q_factor` only the lower triangle counts."""
    numbers = dict(layer.named_parameters())
    size, width = cast(Tensor, layer.q_mean).shape[-2:]
    replicates = cast(Tensor, layer.q_mean)[..., 0, 0].numel()
    others = sum(p.numel() for name, p in numbers.items() if name != "q_factor") // replicates
    return others + (width * size * (size + 1) // 2 if "q_factor" in numbers else 0)


class LabelInformed(NamedTuple):
    """The label-informed q_hat(F_S) = N(y_S; F_S, diag(v)) q(F_S) / normaliser, normalised for each Z_S.

    1/v is lambda_2 where sites are given by their natural parameters.

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
    >>> q_hat = WhitenedFamily().label_informed(m, C, cond, 0.0 * X, X, torch.ones(1, 1, 1, dtype=torch.float64))
    >>> q_hat.mean.shape, q_hat.kl.shape
    (torch.Size([1, 4, 1]), torch.Size([1]))
    """

    w: Gaussian
    mean: Float[Tensor, "*batch T M P"]
    image: Float[Tensor, "*batch T P M M"]
    Q: Factor
    relative_variance: Float[Tensor, "*batch T P"]
    kl: Float[Tensor, "*batch T"]

    @property
    def f(self) -> Gaussian:
        """The distribution of F_S itself, N(mean, image Q^-1 image')."""
        return Gaussian(self.mean, self.Q.solve(self.image.mT).mT)


@runtime_checkable
class Family(Protocol):
    """A family of q(F_S), as a layer uses it.

    All methods take the trained mean m and lower-triangular factor C, the layer's conditional given the subset's inputs
    Z_S, and mean(Z_S). A new family is a class with these methods and a line in `FAMILIES`.

    Examples
    --------
    >>> sorted(FAMILIES)
    ['paper', 'whitened']
    """

    def draw(self, m: Mean, C: Root, cond: Conditional, mean_s: MeanOfS, noise: Columns) -> tuple[Columns, Columns]:
        """A draw of (F_S, w) from standard normal numbers."""

    def in_f(self, m: Mean, C: Root, cond: Conditional, mean_s: MeanOfS) -> Gaussian:
        """The distribution of F_S under q."""

    def in_w(self, m: Mean, C: Root, cond: Conditional, mean_s: MeanOfS) -> Gaussian:
        """The distribution of w = L^-1 (F_S - mean(Z_S)) under q."""

    def kl(self, m: Mean, C: Root, cond: Conditional, mean_s: MeanOfS) -> Float[Tensor, "*#batch #T"]:
        """KL(q(F_S) || p(F_S | Z_S)) summed over outputs; T is 1 where it does not depend on the sample."""

    def label_informed(
        self, m: Mean, C: Root, cond: Conditional, mean_s: MeanOfS, y_s: Labels, v: LabelNoise
    ) -> LabelInformed:
        """The distribution q conditioned on labels y_s with noise variance v, one for all rows or one for each."""

    def site_informed(
        self, m: Mean, C: Root, cond: Conditional, mean_s: MeanOfS, lambda_1: Natural, lambda_2: Natural
    ) -> LabelInformed:
        """The distribution q times Gaussian sites: y_s/v -> lambda_1, 1/v -> lambda_2, which may be zero."""


class WhitenedFamily:
    """The whitened family, F_S = mean(Z_S) + L u: F_S depends on Z_S as under the prior.

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

    def draw(self, m: Mean, C: Root, cond: Conditional, mean_s: MeanOfS, noise: Columns) -> tuple[Columns, Columns]:
        """F_S = mean(Z_S) + L u and w = u, with u = m + C noise."""
        u = m + _times(C, noise)
        return mean_s + cond.factor.times(u), u

    def in_f(self, m: Mean, C: Root, cond: Conditional, mean_s: MeanOfS) -> Gaussian:
        """N(mean(Z_S) + L m, L C C' L')."""
        return Gaussian(mean_s + cond.factor.times(m), cond.factor.over_outputs().times(C))

    def in_w(self, m: Mean, C: Root, cond: Conditional, mean_s: MeanOfS) -> Gaussian:
        """N(m, C C')."""
        return Gaussian(m, C)

    def kl(self, m: Mean, C: Root, cond: Conditional, mean_s: MeanOfS) -> Float[Tensor, "*#batch #T"]:
        """KL(N(m, C C') || N(0, I)), which depends neither on K nor on the sample."""
        return kl_to_standard_normal(Gaussian(m, C), half_log_det(C).sum(-1))

    def label_informed(
        self, m: Mean, C: Root, cond: Conditional, mean_s: MeanOfS, y_s: Labels, v: LabelNoise
    ) -> LabelInformed:
        """Q = I + C'L'LC/v, C_hat = C L_Q^-T, m_hat = m + C_hat C_hat' L' (y_S - mean(Z_S) - L m)/v, per sample."""
        image = cond.factor.over_outputs().times(C)
        Q = _absorb_labels(image, v)
        return self._informed(m, C, cond, mean_s, image, Q, (y_s - mean_s - cond.factor.times(m)) / v)

    def site_informed(
        self, m: Mean, C: Root, cond: Conditional, mean_s: MeanOfS, lambda_1: Natural, lambda_2: Natural
    ) -> LabelInformed:
        """Q = I + C'L' Lambda L C, m_hat = m + C_hat C_hat' L' (lambda_1 - Lambda (mean(Z_S) + L m)), per sample."""
        image = cond.factor.over_outputs().times(C)
        residual = lambda_1 - lambda_2 * (mean_s + cond.factor.times(m))
        return self._informed(m, C, cond, mean_s, image, _absorb_sites(image, lambda_2), residual)

    def _informed(
        self, m: Mean, C: Root, cond: Conditional, mean_s: MeanOfS, image: Image, Q: Factor, residual: Columns
    ) -> LabelInformed:
        C_hat = Q.solve(C.mT).mT
        m_hat = m + _gram_times(C_hat, cond.factor.transpose_times(residual))
        w = Gaussian(m_hat, C_hat)
        kl = kl_to_standard_normal(w, (half_log_det(C) - Q.log_det()).sum(-1))
        return LabelInformed(w, mean_s + cond.factor.times(m_hat), image, Q, _relative_variance(Q), kl)


class PaperFamily:
    """The paper's family, F_S,d ~ N(m_d, C_d C_d'), in which F_S does not depend on Z_S.

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

    def draw(self, m: Mean, C: Root, cond: Conditional, mean_s: MeanOfS, noise: Columns) -> tuple[Columns, Columns]:
        """F_S = m + C noise and w = L^-1 (F_S - mean(Z_S))."""
        f_s = m + _times(C, noise)
        return f_s, cond.factor.solve(f_s - mean_s)

    def in_f(self, m: Mean, C: Root, cond: Conditional, mean_s: MeanOfS) -> Gaussian:
        """N(m, C C')."""
        return Gaussian(m, C)

    def in_w(self, m: Mean, C: Root, cond: Conditional, mean_s: MeanOfS) -> Gaussian:
        """N(L^-1 (m - mean(Z_S)), L^-1 C C' L^-T)."""
        return Gaussian(cond.factor.solve(m - mean_s), cond.factor.over_outputs().solve(C))

    def kl(self, m: Mean, C: Root, cond: Conditional, mean_s: MeanOfS) -> Float[Tensor, "*#batch #T"]:
        """KL(N(m, C C') || N(mean(Z_S), K_SS)).

        The traces of all outputs are one: sum_d tr(K^-1 C_d C_d') = tr(K^-1 sum_d C_d C_d'), with a sum that is formed
        once for all samples.
        """
        n_rows, n_outputs = m.shape[-2:]
        pooled = (C @ C.mT).sum(-3)
        trace = ((cond.L_inv @ pooled) * cond.L_inv).sum((-2, -1))
        distance = cond.factor.solve(m - mean_s).square().sum((-2, -1))
        log_det = n_outputs * cond.factor.log_det() - half_log_det(C).sum(-1)
        return 0.5 * (trace + distance - n_rows * n_outputs) + log_det

    def label_informed(
        self, m: Mean, C: Root, cond: Conditional, mean_s: MeanOfS, y_s: Labels, v: LabelNoise
    ) -> LabelInformed:
        """Q = I + C'C/v, C_hat = C L_Q^-T, m_hat = m + C_hat C_hat' (y_S - m)/v, without an inverse of Sigma."""
        return self._informed(m, C, cond, mean_s, _absorb_labels(C, v), (y_s - m) / v)

    def site_informed(
        self, m: Mean, C: Root, cond: Conditional, mean_s: MeanOfS, lambda_1: Natural, lambda_2: Natural
    ) -> LabelInformed:
        """Q = I + C' Lambda C, m_hat = m + C_hat C_hat' (lambda_1 - Lambda m)."""
        return self._informed(m, C, cond, mean_s, _absorb_sites(C, lambda_2), lambda_1 - lambda_2 * m)

    def _informed(
        self, m: Mean, C: Root, cond: Conditional, mean_s: MeanOfS, Q: Factor, residual: MeanOfS
    ) -> LabelInformed:
        C_hat = Q.solve(C.mT).mT
        m_hat = m + _gram_times(C_hat, residual)
        w = Gaussian(cond.factor.solve(m_hat - mean_s), cond.factor.over_outputs().solve(C_hat))
        log_det = half_log_det(C) - Q.log_det() - cond.factor.log_det()[..., None]
        kl = kl_to_standard_normal(w, log_det.sum(-1))
        return LabelInformed(w, m_hat, C, Q, _relative_variance(Q), kl)


FAMILIES: dict[str, Family] = {"whitened": WhitenedFamily(), "paper": PaperFamily()}


def _times(C: Root, noise: Columns) -> Columns:
    """C_d noise_d for every sample; the samples are columns of one product."""
    return (C.squeeze(-4) @ noise.transpose(-1, -3)).transpose(-1, -3)


def _gram_times(C: Float[Tensor, "*#batch D M M"], x: Float[Tensor, "*#batch M D"]) -> Float[Tensor, "*#batch M D"]:
    """C_d C_d' x_d for every output d."""
    columns = x.mT.unsqueeze(-1)
    return (C @ (C.mT @ columns)).squeeze(-1).mT


def _absorb_labels(image: Float[Tensor, "*#batch T D M M"], v: LabelNoise) -> Factor:
    """The factor of Q = I + image' diag(1/v) image, where image is the factor of q over F_S."""
    by_output = v.mT.unsqueeze(-1)  # [..., 1, P, 1 or M, 1]
    return _absorb(Gram.apply(image) / by_output if v.shape[-2] == 1 else Gram.apply(image / by_output.sqrt()))


def _absorb_sites(image: Float[Tensor, "*#batch T D M M"], lambda_2: Natural) -> Factor:
    """The factor of Q = I + image' diag(lambda_2) image, for lambda_2 that are not negative."""
    return _absorb(Gram.apply(image * lambda_2.mT.unsqueeze(-1).sqrt()))


def _absorb(gram: Float[Tensor, "*batch T D M M"]) -> Factor:
    # Q is I plus a positive semi-definite matrix: it needs no jitter.
    return factorise(
        torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device) + gram, Jitter(0.0), what="Q of q_hat"
    )


def _relative_variance(Q: Factor) -> Float[Tensor, "*batch T D"]:
    """Trace of diag(1/v) image Q^-1 image' = tr(Q^-1 (Q - I)) = M - tr Q^-1."""
    return Q.E.shape[-1] - Q.inverse_norm()


def kl_to_standard_normal(q: Gaussian, log_det: Float[Tensor, "*#batch"]) -> Float[Tensor, "*#batch"]:
    """KL(q || N(0, I)) summed over outputs; `log_det` is half the log determinant of q's covariance, also summed."""
    n_rows, n_outputs = q.mean.shape[-2:]
    trace = q.factor.square().sum((-3, -2, -1))
    return 0.5 * (trace + q.mean.square().sum((-2, -1)) - n_rows * n_outputs) - log_det
