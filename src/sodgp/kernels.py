"""Kernels by name, and kernels from the user's own function, as GPyTorch objects."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, RQKernel, ScaleKernel

from sodgp.errors import ConfigurationError

KernelFactory = Callable[[int], Kernel]

_BASES: dict[str, Callable[[int | None], Kernel]] = {
    "rbf": lambda dims: RBFKernel(ard_num_dims=dims),
    "matern12": lambda dims: MaternKernel(nu=0.5, ard_num_dims=dims),
    "matern32": lambda dims: MaternKernel(nu=1.5, ard_num_dims=dims),
    "matern52": lambda dims: MaternKernel(nu=2.5, ard_num_dims=dims),
    "rq": lambda dims: RQKernel(ard_num_dims=dims),
}
KERNEL_NAMES = (*_BASES, *(f"{name}-iso" for name in _BASES))


def make_kernel(
    spec: str | KernelFactory,
    input_dim: int,
    *,
    variance: float = 1.0,
    lengthscale: float | None = None,
    dtype: torch.dtype = torch.float64,
    replicates: torch.Size = torch.Size(),
) -> Kernel:
    """A scaled kernel for one layer.

    Parameters
    ----------
    spec : str or callable
        ``"rbf"``, ``"matern12"``, ``"matern32"``, ``"matern52"`` or ``"rq"``, with one lengthscale for each input (ARD)
        or, with ``-iso`` behind the name, one for all; or a function ``input_dim -> gpytorch kernel``, used as it is,
        priors and initial values included.
    input_dim : int
    variance, lengthscale : float
        Initial values of named kernels; ``lengthscale=None`` is the square root of `input_dim`, the typical distance
        of standardised rows.
    dtype : torch.dtype
    replicates : torch.Size
        Leading axes of independent models; the Monte Carlo axis is put behind them.

    Raises
    ------
    ConfigurationError
        For an unknown name, or a function that does not return a GPyTorch kernel.
    """
    if isinstance(spec, str):
        if spec not in KERNEL_NAMES:
            raise ConfigurationError(f"kernel={spec!r} is unknown; choose one of {', '.join(KERNEL_NAMES)}.")
        name, _, isotropic = spec.partition("-")
        kernel: Kernel = ScaleKernel(_BASES[name](None if isotropic else input_dim)).to(dtype)
        kernel.outputscale = torch.tensor(variance, dtype=dtype)
        start = float(input_dim) ** 0.5 if lengthscale is None else lengthscale
        kernel.base_kernel.lengthscale = torch.tensor(start, dtype=dtype)
    else:
        kernel = spec(input_dim)
        if not isinstance(kernel, Kernel):
            raise ConfigurationError(
                f"the kernel function must return a gpytorch.kernels.Kernel, not {type(kernel).__name__}."
            )
        # A copy: a function may hand out one object again and again, and layers must not share it.
        kernel = copy.deepcopy(kernel).to(dtype).requires_grad_(True)
    return _replicated(kernel, torch.Size([*replicates, 1])) if replicates else kernel


def _replicated(kernel: Kernel, batch_shape: torch.Size) -> Kernel:
    """Give every parameter of the kernel and its parts the leading axes `batch_shape`, in place.

    Not GPyTorch's ``expand_batch``: it leaves the parts of sums and products as they are, and expands column numbers.
    """
    for part in kernel.modules():
        if isinstance(part, Kernel):
            part.batch_shape = batch_shape
            for parameter in part.parameters(recurse=False):
                parameter.data = parameter.data.expand(*batch_shape, *parameter.shape).clone()
    return kernel
