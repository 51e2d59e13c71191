"""Kernels by name, and kernels of the user's own, as GPyTorch objects."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TypeAlias

import torch
from gpytorch import kernels
from gpytorch.constraints import Positive
from gpytorch.kernels import Kernel, LinearKernel, MaternKernel, RBFKernel, RQKernel, ScaleKernel

from sodgp.errors import ConfigurationError

__all__ = ["KERNEL_NAMES", "KernelFactory", "make_kernel"]

KernelFactory = Callable[[int], Kernel]
KernelSpec: TypeAlias = str | KernelFactory | Kernel

_BASES: dict[str, Callable[[int | None], Kernel]] = {
    "rbf": lambda dims: RBFKernel(ard_num_dims=dims),
    "matern12": lambda dims: MaternKernel(nu=0.5, ard_num_dims=dims),
    "matern32": lambda dims: MaternKernel(nu=1.5, ard_num_dims=dims),
    "matern52": lambda dims: MaternKernel(nu=2.5, ard_num_dims=dims),
    "rq": lambda dims: RQKernel(ard_num_dims=dims),
}
_KNOWN = (
    *(RBFKernel, MaternKernel, RQKernel, LinearKernel, ScaleKernel),
    *(kernels.PeriodicKernel, kernels.AdditiveKernel, kernels.ProductKernel),
)
KERNEL_NAMES = (*_BASES, *(f"{name}-iso" for name in _BASES))


def make_kernel(
    spec: KernelSpec,
    input_dim: int,
    *,
    variance: float = 1.0,
    lengthscale: float | None = None,
    log_scale: bool = False,
    dtype: torch.dtype = torch.float64,
    replicates: torch.Size = torch.Size(),
) -> Kernel:
    """A scaled kernel for one layer.

    Parameters
    ----------
    spec : str, callable or gpytorch kernel
        ``"rbf"``, ``"matern12"``, ``"matern32"``, ``"matern52"`` or ``"rq"``, with one lengthscale per input (ARD), or
        one for all with ``-iso`` after the name; or a function ``input_dim -> gpytorch kernel``; or such a kernel, if
        all layers have equally many inputs. Kernels are used with their priors and initial values.
    input_dim : int
    variance, lengthscale : float
        Initial values of named kernels; ``lengthscale=None`` is the square root of `input_dim`, the typical distance
        of standardised rows.
    log_scale : bool
        Whether variance and lengthscales of named kernels are trained as logarithms instead of through softplus.
    dtype : torch.dtype
    replicates : torch.Size
        Leading axes of independent models; the Monte Carlo axis is put behind them.

    Raises
    ------
    ConfigurationError
        For an unknown name, a function that does not return a GPyTorch kernel, or a kernel for other inputs.

    Examples
    --------
    >>> make_kernel("matern52", 3).base_kernel.lengthscale.shape
    torch.Size([1, 3])
    >>> make_kernel("rbf-iso", 3, lengthscale=0.5).base_kernel.lengthscale.item()
    0.5
    """
    if isinstance(spec, str):
        if spec not in KERNEL_NAMES:
            raise ConfigurationError(f"kernel={spec!r} is unknown; choose one of {', '.join(KERNEL_NAMES)}.")
        name, _, isotropic = spec.partition("-")
        kernel: Kernel = ScaleKernel(_BASES[name](None if isotropic else input_dim)).to(dtype)
        if log_scale:
            kernel.register_constraint("raw_outputscale", _positive())
            kernel.base_kernel.register_constraint("raw_lengthscale", _positive())
        kernel.outputscale = torch.tensor(variance, dtype=dtype)
        start = float(input_dim) ** 0.5 if lengthscale is None else lengthscale
        kernel.base_kernel.lengthscale = torch.tensor(start, dtype=dtype)
    else:
        kernel = spec if isinstance(spec, Kernel) else _made_by(spec, input_dim)
        _check_inputs(kernel, input_dim)
        one = torch.zeros(1, input_dim)
        if kernel.batch_shape.numel() != 1 or kernel.num_outputs_per_input(one, one) != 1:
            raise ConfigurationError(
                f"kernel: {type(kernel).__name__} has a batch shape, or several outputs; a kernel here is one function"
                " of two rows. For one kernel per output of the first layer use inference=SoD(separate_kernels=True)."
            )
        # A copy: a function may hand out one object again and again, and layers must not share it.
        kernel = copy.deepcopy(kernel).to(dtype).requires_grad_(True)
    return _replicated(kernel, torch.Size([*replicates, 1])) if replicates else kernel


def _positive() -> Positive:
    # Its limits, zero and infinity, are saved with a model: in one type, whatever PyTorch's default is.
    return Positive(transform=torch.exp, inv_transform=torch.log).float()


def _made_by(factory: KernelFactory, input_dim: int) -> Kernel:
    """The kernel of a user's function, or of a class that takes the number of inputs."""
    try:
        kernel = factory(input_dim)
    except Exception as error:
        if not isinstance(factory, type):
            raise
        raise ConfigurationError(
            f"kernel={factory.__name__} cannot be made from the number of inputs ({error}). Give a kernel, or a"
            f" function such as lambda dims: {factory.__name__}(..., ard_num_dims=dims)."
        ) from error
    if not isinstance(kernel, Kernel):
        raise ConfigurationError(
            f"the kernel function must return a gpytorch.kernels.Kernel, not {type(kernel).__name__}."
        )
    return kernel


def inputs_with_values(kernel: Kernel) -> int | None:
    """``ard_num_dims``, also of a linear kernel, where GPyTorch 1.14 forgets it; None is one value for all.

    Examples
    --------
    >>> inputs_with_values(LinearKernel(ard_num_dims=3)), inputs_with_values(LinearKernel())
    (3, None)
    """
    if kernel.ard_num_dims is None and type(kernel) is LinearKernel and kernel.raw_variance.shape[-1] > 1:
        return int(kernel.raw_variance.shape[-1])
    return kernel.ard_num_dims if kernel.ard_num_dims is None else int(kernel.ard_num_dims)


def _check_inputs(kernel: Kernel, input_dim: int) -> None:
    """Raise ConfigurationError for lengthscales or active columns that do not fit the inputs.

    Only GPyTorch's own parts are checked: a user's kernel may hand other columns to its parts.
    """
    if type(kernel) not in _KNOWN:
        return
    columns = None if kernel.active_dims is None else kernel.active_dims.tolist()
    if columns is not None and not all(0 <= column < input_dim for column in columns):
        raise ConfigurationError(
            f"kernel: {type(kernel).__name__} looks at columns {columns}, but a layer has {input_dim} inputs."
        )
    expected = input_dim if columns is None else len(columns)
    dims = inputs_with_values(kernel)
    if dims not in (None, expected):
        raise ConfigurationError(
            f"kernel: {type(kernel).__name__} has ard_num_dims={dims}, but a layer gives it {expected}"
            " inputs. Layers may differ in their inputs: give a function of input_dim."
        )
    inner = [kernel.base_kernel] if type(kernel) is ScaleKernel else getattr(kernel, "kernels", [])
    for part in inner:
        _check_inputs(part, input_dim)


def _replicated(kernel: Kernel, batch_shape: torch.Size) -> Kernel:
    """Give every parameter of the kernel and its parts the leading axes `batch_shape`, in place.

    GPyTorch's ``expand_batch`` leaves the parts of sums and products unchanged, and expands column numbers.
    """
    for part in kernel.modules():
        if isinstance(part, Kernel):
            part.batch_shape = batch_shape
            for parameter in part.parameters(recurse=False):
                wide = parameter.data.expand(*batch_shape, *parameter.shape)
                # A plain clone would keep the strides of the expansion.
                parameter.data = wide.clone(memory_format=torch.contiguous_format)
    return kernel
