"""The type of `ctx`, which PyTorch hands to the two halves of an autograd function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Size, Tensor
from torch.autograd.function import BackwardCFunction

if TYPE_CHECKING:

    class Context:
        """PyTorch's own declaration leaves out the attributes that functions add, and the number of tensors."""

        saved_tensors: tuple[Tensor, ...]
        needs_input_grad: tuple[bool, ...]
        shape: Size
        shapes: tuple[Size, ...]

        def save_for_backward(self, *tensors: Tensor) -> None:
            """Keep tensors for `backward`."""

else:
    Context = BackwardCFunction
