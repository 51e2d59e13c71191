"""Fitting by sampling: burn in, take posterior draws with hyper-parameters and adaptation frozen, and judge them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sodgp.errors import CholeskyError, NumericalError, SamplerDivergedError
from sodgp.inference.diagnostics import FloatArray, SamplerDiagnostics, over_chains
from sodgp.inference.sghmc import SamplerInfo, unflatten
from sodgp.model import DeepGP
from sodgp.training.loop import Callback, History, train
from sodgp.training.sampling import ADVICE, SamplingStep

# Mean p^2 over its stationary variance: a sampler this hot jumps about, even where it stays within bounds.
_LARGEST_TEMPERATURE = 10.0
_DIAGNOSED_ROWS = 16
_MAX_HALVINGS = 6


def fit_by_sampling(step: SamplingStep, *, callbacks: Sequence[Callback] = ()) -> list[History]:
    """Burn in for the iterations of the step's schedule, then fill the model's ``posterior_draws`` and ``diagnostics``.

    Hyper-parameters and adaptation move in burn-in only. Progress and callbacks see burn-in; the
    ``n_draws / n_chains * thinning`` transitions behind it are about half as dear each. One `History` a replicate.

    Raises
    ------
    SamplerDivergedError
        When the sampler runs away with smaller and smaller steps too.
    """
    model = step.model
    try:
        histories = train(step, model, step.schedule, replicates=model.replicates.numel(), callbacks=callbacks)
    except (CholeskyError, SamplerDivergedError):
        raise
    except NumericalError as error:
        raise SamplerDivergedError(f"{error.args[0]} The sampler left every sane region. {ADVICE}") from error
    model.requires_grad_(False)
    positions, potential, info = collect(step)
    keep(model, positions)
    model.diagnostics = _diagnose(step, potential, info)
    return histories


def collect(step: SamplingStep) -> tuple[Tensor, Tensor, SamplerInfo]:
    """Run the frozen sampler and keep every `thinning`-th position.

    Returns
    -------
    positions : Tensor of shape [*replicates, C, n, P]
    potential : Tensor of shape [*replicates, C, n]
    info : SamplerInfo
        Averaged over all transitions, [*replicates, C].
    """
    good = step.snapshot()
    for _ in range(_MAX_HALVINGS + 1):
        kept = _try_to_collect(step)
        if kept is not None:
            return kept
        step.restore(good)
    raise SamplerDivergedError(
        f"the sampler left every sane region after burn-in, and did so again with step sizes down to"
        f" {2.0 * float(step.step_size):.1e}. {ADVICE}"
    )


def _try_to_collect(step: SamplingStep) -> tuple[Tensor, Tensor, SamplerInfo] | None:
    positions, potentials, temperature = [], [], torch.zeros((), device=step.step_size.device)
    for _ in range(step.method.n_draws // step.method.n_chains):
        for _ in range(step.method.thinning):
            potential, info = step.sample_frozen()
            temperature = temperature + info.temperature
        # The only wait for the device: once for every draw that is kept.
        if not bool(step.is_sane(potential, info).all()):
            return None
        positions.append(step.state.position.detach().clone())
        potentials.append(potential.clone())
    temperature = temperature / (len(positions) * step.method.thinning)
    if not bool((temperature < _LARGEST_TEMPERATURE).all()):
        return None
    return torch.stack(positions, -2), torch.stack(potentials, -1), info._replace(temperature=temperature)


def keep(model: DeepGP, positions: Tensor) -> None:
    """Store draws [*replicates, C, n, P] in the model, one chain behind the other; q_mean becomes their mean."""
    for layer, u in zip(model.layers, unflatten(model, positions.flatten(-3, -2)), strict=True):
        layer.posterior_draws.copy_(u)
        layer.q_mean.copy_(u.mean(-3))


class _Centre:
    """Draws that are all zero: the hidden layers at their means."""

    def __init__(self, n_samples: int, like: Tensor) -> None:
        self.n_samples, self.like = n_samples, like

    def subset(self, rows: int, width: int) -> Tensor:
        return self.like.new_zeros(self.n_samples, rows, width)

    rest = subset


def _diagnose(step: SamplingStep, potential: Tensor, info: SamplerInfo) -> SamplerDiagnostics:
    method, data = step.method, step.batcher.data
    rows = torch.linspace(0, data.n_rest - 1, min(_DIAGNOSED_ROWS, data.n_rest)).long().to(data.X_r.device)
    X = data.X_r.index_select(-2, rows).unsqueeze(-3)
    mean, _ = method.predict(step.model, X, X, X, _Centre(method.n_draws, X))
    # [*replicates, C n, rows, P] -> [*replicates, rows, C, n]: the first output speaks for the others.
    chains = mean[..., 0].unflatten(-2, (method.n_chains, -1)).movedim(-1, -3)
    ess_potential, r_hat_potential = over_chains(_numpy(potential))
    ess_prediction, r_hat_prediction = over_chains(_numpy(chains))
    return SamplerDiagnostics(
        n_draws=method.n_draws,
        n_chains=method.n_chains,
        thinning=method.thinning,
        step_size=float(step.step_size),
        friction=method.friction,
        potential=_numpy(potential),
        ess_potential=ess_potential,
        r_hat_potential=r_hat_potential,
        ess_prediction=ess_prediction,
        r_hat_prediction=r_hat_prediction,
        temperature=_numpy(info.temperature.mean(-1)),
        noise_share=_numpy(info.noise_share.amax(-1)),
    )


def _numpy(values: Tensor) -> FloatArray:
    return values.detach().double().cpu().numpy()
