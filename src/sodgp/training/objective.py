"""The objective of a step as a function of nothing: it looks at the present batch and takes fresh numbers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from types import FunctionType, MethodType

import torch
from torch import Tensor

from sodgp.errors import NumericalWarning
from sodgp.inference.contract import Inference, Terms
from sodgp.linalg.draws import TapeDraws
from sodgp.model.deep_gp import DeepGP
from sodgp.training.batches import Batcher


class Objective:
    """Named terms of an inference method at the present parameters, batch and a fresh tape of random numbers.

    Parameters
    ----------
    inference : Inference
    model : DeepGP
    batcher : Batcher
    draws : TapeDraws
        New; it is rehearsed here.
    compile : bool
        Let PyTorch's compiler fuse the operations between the matrix products. It takes 10 to 60 seconds once, and
        pays in long runs.
    """

    def __init__(
        self, inference: Inference, model: DeepGP, batcher: Batcher, draws: TapeDraws, *, compile: bool = False
    ) -> None:
        self.inference, self.model, self.batcher, self.draws = inference, model, batcher, draws
        with torch.no_grad():
            inference.terms(model, batcher.batch(), draws)
        draws.finish_rehearsal()
        self._terms = self._compiled() if compile else self._plain
        if compile and (trouble := self._trouble_with_the_compiler()):
            self.fall_back()
            warnings.warn(
                f"PyTorch {torch.__version__} {trouble}; training goes on without its compiler. Another version of"
                " PyTorch may do better.",
                NumericalWarning,
                stacklevel=2,
            )

    def __call__(self) -> Terms:
        """The terms, each of shape [*replicates]."""
        return self._terms(*self.draws.refill())

    def fall_back(self) -> bool:
        """Give up the compiler; whether there was one."""
        was_compiled = self._terms != self._plain
        self._terms = self._plain
        return was_compiled

    def _trouble_with_the_compiler(self) -> str:
        """What is wrong with the compiled function; empty where values and gradients are the plain ones somewhere.

        Compilers have bugs, and one that loses a part of a gradient shows in nothing but the fit. The place is
        random because many gradients are zero by symmetry at the initial values; the parameters are put back.
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
            # Everything that its compiler raises is one: no C++ compiler, an operation that it cannot follow.
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
        """`_plain` through the compiler, with code of its own.

        The compiler keeps what it made by the code object that it made it from, and gives up at the ninth model.
        """
        function = Objective._plain
        own = FunctionType(function.__code__.replace(), function.__globals__, function.__name__)
        return torch.compile(MethodType(own, self), dynamic=False, fullgraph=True)

    def _plain(self, *numbers: Tensor) -> Terms:
        self.draws.load(numbers)
        return self.inference.terms(self.model, self.batcher.batch(), self.draws)


def _with_gradients(
    terms: Callable[..., Terms], numbers: tuple[Tensor, ...], parameters: Sequence[torch.nn.Parameter]
) -> list[Tensor]:
    values = torch.stack(list(terms(*numbers).values()))
    gradients = torch.autograd.grad(values.sum(), parameters, allow_unused=True, materialize_grads=True)
    return [values.detach(), *gradients]
