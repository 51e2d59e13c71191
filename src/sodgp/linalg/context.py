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
        kind: str

        def save_for_backward(self, *tensors: Tensor) -> None:
            """Keep tensors for `backward`."""

        def set_materialize_grads(self, value: bool) -> None:
            """Whether outputs that nobody used have gradients of zeros, and not None."""

else:
    Context = BackwardCFunction
