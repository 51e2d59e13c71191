"""Whole steps as CUDA graphs: recorded once, replayed without the host."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from sodgp.errors import NumericalWarning
from sodgp.inference.contract import Terms
from sodgp.training.moving import Moving
from sodgp.training.steps import EagerStep, GuardedAdam, Snapshot

_WARM_UP = 3


class CapturedStep(EagerStep):
    """An `EagerStep` recorded once as a CUDA graph: forward, backward and Adam replay without the host.

    On a GPU a step is hundreds of tiny kernels, and launching them one by one takes most of the time. The numbers are
    those of the plain step: parameters, optimiser and generators are restored after the recording. The objective must
    not wait for the device; `generators` are the CUDA generators that it draws from.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Callable[[], Terms],
        learning_rate: float,
        advance: Callable[[], None],
        generators: Sequence[torch.Generator],
        moving: Moving | None = None,
    ) -> None:
        device = next(p.device for p in model.parameters() if p.requires_grad)
        self._rate = torch.tensor(learning_rate, dtype=torch.float32, device=device)
        super().__init__(model, objective, self._rate, advance, moving=moving, capturable=True)
        self._recording: Recording | None = Recording(self._once, self.parameters, self.optimizer, generators)

    def set_learning_rate(self, rate: float) -> None:
        """Use this rate from now on."""
        self._rate.fill_(rate)

    @property
    def pace(self) -> Tensor:
        """As of a plain step, on the device."""
        return self._rate / self._initial_rate

    def fall_back(self) -> bool:
        """Stop using the recording, in which a failed factorisation becomes NaN, and the compiler."""
        was_recorded, self._recording = self._recording is not None, None
        super().fall_back()
        return was_recorded

    def __call__(self) -> Terms:
        """Replay the step; a failed factorisation shows as NaN, which the training loop finds when it next checks."""
        self.advance()
        return self._once() if self._recording is None else self._recording()


class Recording:
    """A function without arguments, recorded once as a CUDA graph and replayed at every call.

    It reads and writes tensors in place and never waits for the device; RuntimeError if it cannot be recorded. It is
    run a few times first; afterwards all that it changes (parameters, optimiser, CUDA generators) is restored.
    """

    def __init__(
        self,
        once: Callable[[], Terms],
        parameters: Sequence[Tensor],
        optimizer: torch.optim.Optimizer,
        generators: Sequence[torch.Generator],
    ) -> None:
        self._graph = torch.cuda.CUDAGraph()
        for generator in generators:
            self._graph.register_generator_state(generator)
        start = Snapshot(parameters, optimizer)
        states = [generator.get_state() for generator in generators]
        try:
            # Libraries allocate their workspaces in the first calls, which a recording must not contain.
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(_WARM_UP):
                    once()
            torch.cuda.current_stream().wait_stream(side)
            with torch.cuda.graph(self._graph):
                self._values = once()
        finally:
            start.restore(parameters, optimizer)
            if isinstance(optimizer, GuardedAdam):
                optimizer.refused.zero_()
            for generator, state in zip(generators, states, strict=True):
                generator.set_state(state)

    def __call__(self) -> Terms:
        """Run it; the next call overwrites the values."""
        self._graph.replay()
        return self._values


def warn_of_no_recording(error: RuntimeError) -> None:
    """Say that a step runs plainly, and why."""
    reason = str(error).splitlines()[0]
    message = f"the step could not be recorded as a CUDA graph and runs plainly, which is slower: {reason}"
    warnings.warn(message, NumericalWarning, stacklevel=3)
