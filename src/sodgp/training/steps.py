"""One step of Adam on minus the bound: operation by operation, or recorded once as a CUDA graph and replayed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from sodgp.errors import NumericalError
from sodgp.inference.base import Terms

_WARM_UP = 3


class Step(Protocol):
    """What the training loop drives."""

    parameters: list[nn.Parameter]

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """Whose state goes with the parameters."""
        ...

    def set_learning_rate(self, rate: float) -> None:
        """Use this rate from now on."""
        ...

    def fall_back(self) -> bool:
        """From now on step plainly, where a failed factorisation gets more jitter; whether anything changed."""
        ...

    def __call__(self) -> Terms:
        """Step once; the terms before the step, detached, each of shape [*replicates]."""
        ...


class EagerStep:
    """A step run operation by operation.

    Parameters
    ----------
    model : nn.Module
    objective : function () -> Terms
        A pure function of the parameters, the present batch and the generators.
    learning_rate : float
    advance : function () -> None
        Chooses the next batch.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Callable[[], Terms],
        learning_rate: float,
        advance: Callable[[], None] = lambda: None,
    ) -> None:
        self.objective = objective
        self.advance = advance
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.Adam(self.parameters, lr=learning_rate, fused=True)

    def set_learning_rate(self, rate: float) -> None:
        """Use this rate from now on."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def fall_back(self) -> bool:
        """Give up a compiled objective, in which a failed factorisation becomes NaN."""
        give_up = getattr(self.objective, "fall_back", None)
        return bool(give_up()) if give_up is not None else False

    def __call__(self) -> Terms:
        """Step once.

        Raises
        ------
        NumericalError
            When the bound is not finite; the parameters are then untouched. On a GPU nobody looks at every step: the
            training loop does, at intervals.
        """
        self.advance()
        terms = self.objective()
        loss = -torch.stack(list(terms.values())).sum()
        if not loss.is_cuda and not bool(torch.isfinite(loss)):
            raise NumericalError("the bound is not finite.")
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return {name: value.detach() for name, value in terms.items()}


class CapturedStep:
    """The same step, recorded once as a CUDA graph: forward, backward and Adam replay without the host.

    On a GPU a step is several hundred tiny kernels, and launching them one by one takes most of the time. The numbers
    are those of `EagerStep`: parameters, optimiser and generators are put back after the recording.

    Parameters
    ----------
    model, objective, learning_rate, advance
        As in `EagerStep`; the objective must not wait for the device.
    generators : sequence of torch.Generator
        The CUDA generators that the objective draws from.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Callable[[], Terms],
        learning_rate: float,
        advance: Callable[[], None],
        generators: Sequence[torch.Generator],
    ) -> None:
        self.objective = objective
        self.advance = advance
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self._rate = torch.tensor(learning_rate, device=self.parameters[0].device)
        self.optimizer = torch.optim.Adam(self.parameters, lr=self._rate, fused=True, capturable=True)
        self._graph = torch.cuda.CUDAGraph()
        for generator in generators:
            self._graph.register_generator_state(generator)
        self._terms = self._record(generators)
        self._is_recorded = True

    def set_learning_rate(self, rate: float) -> None:
        """Use this rate from now on."""
        self._rate.fill_(rate)

    def fall_back(self) -> bool:
        """Give up the recording, in which a failed factorisation becomes NaN, and the compiler."""
        was_recorded, self._is_recorded = self._is_recorded, False
        give_up = getattr(self.objective, "fall_back", None)
        if give_up is not None:
            give_up()
        return was_recorded

    def __call__(self) -> Terms:
        """Replay the step; a failed factorisation shows as NaN, which the training loop finds at its next look."""
        self.advance()
        if not self._is_recorded:
            self.optimizer.zero_grad(set_to_none=True)
            return self._once()
        self._graph.replay()
        return self._terms

    def _once(self) -> Terms:
        terms = self.objective()
        loss = -torch.stack(list(terms.values())).sum()
        loss.backward()
        self.optimizer.step()
        return {name: value.detach() for name, value in terms.items()}

    def _record(self, generators: Sequence[torch.Generator]) -> Terms:
        start = Snapshot(self.parameters, self.optimizer)
        states = [generator.get_state() for generator in generators]
        try:
            # Libraries allocate their workspaces in the first calls, which a recording must not contain.
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(_WARM_UP):
                    self.optimizer.zero_grad(set_to_none=True)
                    self._once()
            torch.cuda.current_stream().wait_stream(side)
            self.optimizer.zero_grad(set_to_none=True)
            with torch.cuda.graph(self._graph):
                return self._once()
        finally:
            start.restore(self.parameters, self.optimizer)
            for generator, state in zip(generators, states, strict=True):
                generator.set_state(state)


class Snapshot:
    """Parameters and optimiser state at a moment known to be good."""

    def __init__(self, parameters: Sequence[nn.Parameter], optimizer: torch.optim.Optimizer) -> None:
        self.values = [p.detach().clone() for p in parameters]
        self.optimizer = {
            p: {key: value.clone() for key, value in state.items() if isinstance(value, Tensor)}
            for p, state in optimizer.state.items()
        }

    def restore(self, parameters: Sequence[nn.Parameter], optimizer: torch.optim.Optimizer) -> None:
        """Put everything back, in place; state that did not exist yet becomes zero."""
        with torch.no_grad():
            for parameter, value in zip(parameters, self.values, strict=True):
                parameter.copy_(value)
            for owner, state in optimizer.state.items():
                good = self.optimizer.get(owner)
                for key, current in state.items():
                    if isinstance(current, Tensor):
                        current.copy_(good[key]) if good is not None else current.zero_()
