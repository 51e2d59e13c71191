"""One step of Adam on minus the objective: learning rate, objective, optimiser, and the step that combines them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import unwrap
from types import FunctionType, MethodType
from typing import Protocol

import torch
from torch import Tensor, nn

from sodgp.errors import ConfigurationError, GradientError, NumericalError, NumericalWarning
from sodgp.inference.contract import Inference, Terms
from sodgp.linalg.cuda.adam import CudaAdam
from sodgp.linalg.draws import TapeDraws
from sodgp.model.deep_gp import DeepGP
from sodgp.training.batches import Batcher
from sodgp.training.distributed.contract import ALONE, Ranks
from sodgp.training.moving import Moving

__all__ = ["Schedule"]

SCHEDULES = ("constant", "cosine")
# Far below what moves a parameter, and far above where single precision ends: the rate may fall and be halved.
_SMALLEST_RATE = 1e-30


@dataclass(frozen=True)
class Schedule:
    """Learning rate over a run.

    Parameters
    ----------
    learning_rate : float
    kind : {"constant", "cosine"}
        ``"cosine"`` holds the rate for the first part of the run, then lets it fall along half a cosine to 1 %.
    max_iter : int
    hold : float
        Share of the run before the fall.

    Examples
    --------
    >>> schedule = Schedule(0.03, "cosine", max_iter=1000)
    >>> schedule.at(500), round(schedule.at(1000), 6)
    (0.03, 0.0003)
    """

    learning_rate: float
    kind: str
    max_iter: int
    hold: float = 0.5

    def __post_init__(self) -> None:
        if self.learning_rate < _SMALLEST_RATE:
            raise ConfigurationError(
                f"learning_rate={self.learning_rate!r} is below {_SMALLEST_RATE:g}, too small for the single precision"
                " in which steps keep it; choose a larger one."
            )
        if self.kind not in SCHEDULES:
            raise ConfigurationError(f"schedule={self.kind!r} is unknown; choose one of {', '.join(SCHEDULES)}.")

    def at(self, iteration: int) -> float:
        """The rate at an iteration, from 1."""
        progress = iteration / max(self.max_iter, 1)
        if self.kind == "constant" or progress <= self.hold:
            return self.learning_rate
        fall = (progress - self.hold) / (1.0 - self.hold)
        return self.learning_rate * (0.01 + 0.99 * 0.5 * (1.0 + math.cos(math.pi * fall)))


class Step(Protocol):
    """What the training loop drives."""

    @property
    def parameters(self) -> Sequence[Tensor]:
        """Everything that a roll-back restores: trained parameters, and buffers that steps move."""

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The optimiser of the parameters."""

    def set_learning_rate(self, rate: float) -> None:
        """Use this rate from now on."""

    def fall_back(self) -> bool:
        """Step without recording or compiler, so that a failed factorisation gets more jitter; whether that is new."""

    def __call__(self) -> Terms:
        """Step once; the terms before the step, detached, each of shape [*replicates]."""


class Objective:
    """Named terms of an inference method at the present parameters and batch, with fresh random numbers.

    Of many processes each has its share of them.

    The tape `draws` is new and rehearsed here. With `compile` PyTorch's compiler fuses the operations between the
    matrix products, which takes 10 to 60 seconds once and pays in long runs.
    """

    def __init__(
        self,
        inference: Inference,
        model: DeepGP,
        batcher: Batcher,
        draws: TapeDraws,
        *,
        compile: bool = False,
        ranks: Ranks = ALONE,
    ) -> None:
        self.inference, self.model, self.batcher, self.draws, self.ranks = inference, model, batcher, draws, ranks
        self._divided = inference.sums_over_rows() if ranks.count > 1 else ()
        with torch.no_grad():
            self.names = list(inference.terms(model, batcher.batch(), draws))
        draws.finish_rehearsal()
        draws.part = ranks.part(batcher.batch_rows)
        self._terms = self._compiled() if compile else self._plain
        if compile and (problem := self._compiler_problem()):
            self.fall_back()
            warnings.warn(
                f"PyTorch {torch.__version__} {problem}; training goes on without its compiler. Another version of"
                " PyTorch may do better.",
                NumericalWarning,
                stacklevel=2,
            )

    def __call__(self) -> Terms:
        """The terms, each of shape [*replicates]."""
        return self._terms(*self.draws.refill())

    def fall_back(self) -> bool:
        """Stop using the compiler; whether it was in use."""
        was_compiled = self._terms != self._plain
        self._terms = self._plain
        return was_compiled

    def _compiler_problem(self) -> str:
        """What is wrong with the compiled function; empty if its values and gradients equal the plain ones.

        Compilers have bugs, and one that loses a part of a gradient shows in nothing but the fit. They are compared at
        random parameters, since many gradients are zero by symmetry at the initial ones, which are then restored.
        """
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        values = [p.detach().clone() for p in parameters]
        device, dtype = parameters[0].device, parameters[0].dtype
        generator = torch.Generator(device).manual_seed(0)
        numbers = self.draws.refill_from([generator] * len(self.draws.generators))
        try:
            with torch.no_grad():
                for p in parameters:
                    p.add_(0.05 * torch.randn(p.shape, generator=generator, device=device, dtype=dtype))
            plain = _with_gradients(self._plain, numbers, parameters)
            compiled = _with_gradients(self._terms, numbers, parameters)
        except RuntimeError as error:
            # All errors of the compiler are RuntimeErrors: no C++ compiler, an operation that it does not support.
            return f"cannot compile this model ({str(error).splitlines()[0]})"
        finally:
            with torch.no_grad():
                for p, value in zip(parameters, values, strict=True):
                    p.copy_(value)
        tolerance = 1e-6 if dtype == torch.float64 else 1e-2
        equal = all(
            bool((a - b).abs().max() <= tolerance * a.abs().max()) or not bool(torch.isfinite(a).all())
            for a, b in zip(plain, compiled, strict=True)
        )
        return "" if equal else "compiles this model to another gradient than that of the plain step"

    def _compiled(self) -> Callable[..., Terms]:
        """`_plain` compiled, from a copy of its code: the compiler caches by code object, and eight models at most."""
        function = Objective._plain
        copied = FunctionType(function.__code__.replace(), function.__globals__, function.__name__)
        return torch.compile(MethodType(copied, self), dynamic=False, fullgraph=True)

    def _plain(self, *numbers: Tensor) -> Terms:
        self.draws.load(numbers)
        terms = self.inference.terms(self.model, self.ranks.rows(self.batcher.batch()), self.draws)
        return self.ranks.share(terms, self._divided)


def _with_gradients(
    terms: Callable[..., Terms], numbers: tuple[Tensor, ...], parameters: Sequence[torch.nn.Parameter]
) -> list[Tensor]:
    values = torch.stack(list(terms(*numbers).values()))
    gradients = torch.autograd.grad(values.sum(), parameters, allow_unused=True, materialize_grads=True)
    return [values.detach(), *gradients]


class GuardedAdam(torch.optim.Adam):
    """Fused Adam whose parameters and moments stay as they are when the gradient is not finite.

    The test is the gradient's Euclidean norm: a norm that overflows is as bad, because Adam squares the gradient. On
    the CPU every step waits for the test (`waits`) and raises. On a GPU nobody waits: the step is skipped on the device
    itself, also in a recording, and counted in `refused` until the training loop looks.
    """

    # Without the wrappers that import PyTorch's compiler, which takes as long as the first hundred steps.
    add_param_group = unwrap(torch.optim.Adam.add_param_group)
    zero_grad = unwrap(torch.optim.Adam.zero_grad)
    _plain_step = torch.no_grad()(unwrap(torch.optim.Adam.step))

    def __init__(self, parameters: Sequence[nn.Parameter], lr: float | Tensor, *, capturable: bool = False) -> None:
        super().__init__(parameters, lr=lr, fused=True, capturable=capturable)
        device = parameters[0].device if parameters else torch.device("cpu")
        self.waits = device.type == "cpu"
        self.refused = torch.zeros((), dtype=torch.float32, device=device)
        self._kernels = CudaAdam(self.refused) if device.type == "cuda" and capturable else None

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step of Adam, or none; on the CPU GradientError, with nothing changed, if the gradient is not finite."""
        if self._kernels is not None and self._kernels.step(self.param_groups[0], self.state):
            return
        gradients = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
        if gradients:
            self._guard(nn.utils.get_total_norm(gradients))
        self._plain_step(closure)

    def _guard(self, norm: Tensor) -> None:
        if not self.waits:
            # PyTorch's own switch for mixed precision: the fused kernel reads it on the device.
            self.found_inf = (~torch.isfinite(norm)).to(torch.float32)
            self.refused.add_(self.found_inf)
        elif not bool(torch.isfinite(norm)):
            raise GradientError("a gradient is not finite.")

    def look(self) -> int:
        """How many steps a GPU has skipped since the last call."""
        if self.waits:
            return 0
        count = int(self.refused)
        self.refused.zero_()
        return count


class EagerStep:
    """A step run operation by operation.

    The objective is a pure function of the parameters, the present batch and the generators; `advance` chooses the
    next batch, and `moving` moves buffers that have no gradient after the parameters have changed. Of many processes
    each has a share of the objective, and all take the same step.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Callable[[], Terms],
        learning_rate: float | Tensor,
        advance: Callable[[], None] = lambda: None,
        *,
        moving: Moving | None = None,
        capturable: bool = False,
        ranks: Ranks = ALONE,
    ) -> None:
        self.objective, self.advance, self.moving, self.ranks = objective, advance, moving, ranks
        trained = [p for p in model.parameters() if p.requires_grad]
        self.parameters: list[Tensor] = [*trained, *(moving.buffers if moving is not None else [])]
        self.optimizer = GuardedAdam(trained, learning_rate, capturable=capturable)
        self._initial_rate = float(learning_rate)

    def set_learning_rate(self, rate: float) -> None:
        """Use this rate from now on."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    @property
    def pace(self) -> Tensor | float:
        """The learning rate relative to the initial one."""
        return float(self.optimizer.param_groups[0]["lr"]) / self._initial_rate

    def fall_back(self) -> bool:
        """Stop using a compiled objective, in which a failed factorisation becomes NaN."""
        give_up = getattr(self.objective, "fall_back", None)
        return bool(give_up()) if give_up is not None else False

    def __call__(self) -> Terms:
        """Step once; on the CPU NumericalError, with the parameters untouched, if bound or gradient are not finite."""
        self.advance()
        return self._once()

    def _once(self) -> Terms:
        self.optimizer.zero_grad(set_to_none=True)
        trained = self.optimizer.param_groups[0]["params"]
        terms = self.ranks.summed(self._backward, trained, getattr(self.objective, "names", ()))
        self.optimizer.step()
        moving = self.moving
        if moving is not None and moving.buffers:
            self.ranks.together(lambda: moving(self.pace))
        return terms

    def _backward(self) -> Terms:
        terms = self.objective()
        loss = -torch.stack(list(terms.values())).sum()
        if not loss.is_cuda and not bool(torch.isfinite(loss)):
            raise NumericalError("the bound is not finite.")
        loss.backward()
        return {name: value.detach() for name, value in terms.items()}


class Snapshot:
    """A copy of parameters and optimiser state, taken while they are known to be good."""

    def __init__(self, parameters: Sequence[Tensor], optimizer: torch.optim.Optimizer) -> None:
        self.values = [p.detach().clone() for p in parameters]
        self.optimizer = {
            p: {key: value.clone() for key, value in state.items() if isinstance(value, Tensor)}
            for p, state in optimizer.state.items()
        }

    def restore(self, parameters: Sequence[Tensor], optimizer: torch.optim.Optimizer) -> None:
        """Restore everything in place; optimiser state that did not exist yet becomes zero."""
        with torch.no_grad():
            for parameter, value in zip(parameters, self.values, strict=True):
                parameter.copy_(value)
            for owner, state in optimizer.state.items():
                good = self.optimizer.get(owner)
                for key, current in state.items():
                    if isinstance(current, Tensor):
                        current.copy_(good[key]) if good is not None else current.zero_()
