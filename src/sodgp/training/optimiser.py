"""Adam that takes in no gradient that is not finite: one such number would stay in its moments for good."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sodgp.errors import GradientError
from sodgp.linalg.cuda.adam import CudaAdam


class GuardedAdam(torch.optim.Adam):
    """Fused Adam whose parameters and moments stay as they are when the gradient is not finite.

    The test is the gradient's Euclidean norm: a norm that overflows is as bad, because Adam squares what it gets. On
    the CPU the step raises. On a GPU nobody waits for the answer: the step is left out on the device itself, a recorded
    one too, and `refused` counts it until the training loop looks.

    Parameters
    ----------
    parameters : sequence of nn.Parameter
    lr : float or Tensor
    capturable : bool
        As in `torch.optim.Adam`.

    Attributes
    ----------
    waits : bool
        Whether every step waits for the test and raises: on the CPU.
    refused : Tensor of shape []
        Gradients that were left out on a GPU since the last look.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], lr: float | Tensor, *, capturable: bool = False) -> None:
        super().__init__(parameters, lr=lr, fused=True, capturable=capturable)
        device = parameters[0].device if parameters else torch.device("cpu")
        self.waits = device.type == "cpu"
        self.refused = torch.zeros((), dtype=torch.float32, device=device)
        self._kernels = CudaAdam(self.refused) if device.type == "cuda" and capturable else None

    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """One step of Adam, or none.

        Raises
        ------
        GradientError
            On the CPU, when the gradient is not finite; nothing has changed then.
        """
        if self._kernels is not None and self._kernels.step(self.param_groups[0], self.state):
            return
        gradients = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
        if gradients:
            self._guard(nn.utils.get_total_norm(gradients))
        super().step(closure)

    def _guard(self, norm: Tensor) -> None:
        if not self.waits:
            # PyTorch's own switch for mixed precision: the fused kernel reads it on the device.
            self.found_inf = (~torch.isfinite(norm)).to(torch.float32)
            self.refused.add_(self.found_inf)
        elif not bool(torch.isfinite(norm)):
            raise GradientError("a gradient is not finite.")

    def look(self) -> int:
        """How many gradients a GPU has left out since the last look."""
        if self.waits:
            return 0
        count = int(self.refused)
        self.refused.zero_()
        return count
