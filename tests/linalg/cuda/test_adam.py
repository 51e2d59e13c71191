"""Adam in two kernels: their source on the processor's threads, the way around them, and themselves on a GPU."""

import ctypes

import pytest
import torch
from cuda_on_threads import build, needs_a_compiler, pointer
from torch import nn

from sodgp.linalg.cuda import adam as cuda_adam
from sodgp.linalg.cuda import nvrtc
from sodgp.linalg.cuda.adam import CHUNK, TENSORS, THREADS, CudaAdam, Tensors, agrees, describe
from sodgp.training.steps import GuardedAdam

SHAPES = [(3,), (), (12, CHUNK // 10)]
RATE = 0.1


def parameters_and_gradients(dtype, device="cpu", steps=3):
    generator = torch.Generator().manual_seed(0)

    def normal(shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype)

    return [nn.Parameter(normal(shape)) for shape in SHAPES], [
        [normal(shape) for shape in SHAPES] for _ in range(steps)
    ]


def expected(dtype, bad=None):
    """Parameters and moments of plain Adam, which never sees the gradient number `bad`."""
    parameters, gradients = parameters_and_gradients(dtype)
    optimizer = torch.optim.Adam(parameters, lr=float(torch.tensor(RATE)))
    for number, step in enumerate(gradients):
        if number != bad:
            for parameter, gradient in zip(parameters, step, strict=True):
                parameter.grad = gradient
            optimizer.step()
    return parameters, optimizer


def assert_equal(ours, theirs, dtype):
    (parameters, state), (their_parameters, optimizer) = ours, theirs
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    for p, q in zip(parameters, their_parameters, strict=True):
        torch.testing.assert_close(p.cpu(), q, rtol=tolerance, atol=tolerance)
        for key, value in optimizer.state[q].items():
            torch.testing.assert_close(state[p][key].cpu(), value, rtol=tolerance, atol=tolerance)


@needs_a_compiler
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_source_makes_the_steps_of_adam_and_leaves_out_a_bad_one(tmp_path, dtype):
    entry = f"""void run(
            int blocks, Tensors tensors, REAL *parts, int *arrived, float *refusal, float *refused, float *rate)
        {{ launch(sodgp_adam_guard, {{blocks, 1}}, {THREADS}, tensors, parts, arrived, refusal, refused);
           launch(sodgp_adam, {{blocks, 1}}, {THREADS}, tensors, refusal, rate, 0.9, 0.999, 1e-8); }}"""
    program = build(cuda_adam._SOURCE, tmp_path, entry, REAL=cuda_adam.REAL[dtype], TENSORS=TENSORS)
    program.run.argtypes = [ctypes.c_int, Tensors, *[ctypes.c_void_p] * 5]
    parameters, gradients = parameters_and_gradients(dtype)
    gradients[1][2][7, 5] = float("inf")
    state = {
        p: {"exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p), "step": torch.zeros(())}
        for p in parameters
    }
    arrived, refusal, refused, rate = (
        torch.zeros((), dtype=torch.int32),
        torch.ones(()),
        torch.zeros(()),
        torch.tensor(RATE),
    )
    for step in gradients:
        rows = [(p.detach(), g, *state[p].values()) for p, g in zip(parameters, step, strict=True)]
        tensors = describe(rows)
        blocks = tensors.first[len(rows)]
        assert blocks == 1 + 1 + 2
        parts = torch.full((blocks,), float("nan"), dtype=dtype)
        program.run(blocks, tensors, *map(pointer, (parts, arrived, refusal, refused, rate)))
    assert int(refused) == 1
    assert_equal((parameters, state), expected(dtype, bad=1), dtype)


def test_the_tensors_fit_into_the_arguments_of_a_kernel():
    assert ctypes.sizeof(Tensors) <= 4096 - 8 * 6


def test_what_the_kernels_cannot_do_is_left_to_pytorch(monkeypatch):
    monkeypatch.setattr(cuda_adam, "load", lambda *_, **__: pytest.fail("asked for a kernel"))
    parameter = nn.Parameter(torch.ones(3))
    kernels, good = (
        CudaAdam(torch.zeros(())),
        {"exp_avg": torch.ones(3), "exp_avg_sq": torch.ones(3), "step": torch.ones(())},
    )
    group = {"params": [parameter], "lr": torch.tensor(RATE), "betas": (0.9, 0.999), "eps": 1e-8}
    assert not kernels.step(group, {})  # no gradient
    parameter.grad = torch.ones(3)
    assert not kernels.step(group, {})  # no state yet
    for key, value in (("exp_avg", torch.ones(3).double()), ("exp_avg_sq", torch.ones(6)[::2]), ("step", 1)):
        assert not kernels.step(group, {parameter: {**good, key: value}})
    assert not kernels.step({**group, "lr": RATE}, {parameter: good})
    assert not kernels.step({**group, "params": [parameter] * (TENSORS + 1)}, {parameter: good})
    monkeypatch.setattr(cuda_adam, "load", lambda *_, **__: None)
    assert not kernels.step(group, {parameter: good})
    nvrtc._TRIED.clear()  # on a GPU the next tests want kernels
    assert GuardedAdam([parameter], RATE)._kernels is None


@pytest.mark.parametrize("fault", [None, "rate", "refusal"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_kernels_that_are_wrong_are_found_out(dtype, fault):
    refused = torch.zeros(())

    def step(rows, rate, constants):
        if fault != "refusal" and not all(gradient.isfinite().all() for _, gradient, *_ in rows):
            refused.add_(1)
            return
        beta1, beta2, eps = constants
        for parameter, gradient, mean, square, count in rows:
            count.add_(1)
            mean.lerp_(gradient, 1 - beta1)
            square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
            size = rate / (1 - beta1**count) * (1.1 if fault == "rate" and len(parameter) == 3 else 1.0)
            parameter.sub_(size * mean / ((square / (1 - beta2**count)).sqrt() + eps))

    assert agrees(step, refused, dtype) == (fault is None)


# ----- on a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("bad", [None, 1])
def test_a_gpu_makes_the_steps_of_adam(monkeypatch, dtype, kernels, bad):
    parameters, gradients = parameters_and_gradients(dtype, "cuda")
    if bad is not None:
        gradients[bad][2][7, 5] = float("nan")
    optimizer = GuardedAdam(parameters, torch.tensor(RATE, device="cuda"), capturable=True)
    made, honest = [], CudaAdam.step
    monkeypatch.setattr(CudaAdam, "step", lambda *a: kernels and (made.append(honest(*a)) or made[-1]))
    for step in gradients:
        for parameter, gradient in zip(parameters, step, strict=True):
            parameter.grad = gradient
        optimizer.step()
    assert made == ([False, True, True] if kernels else [])  # PyTorch's own step makes the state
    assert optimizer.look() == (0 if bad is None else 1)
    assert_equal((parameters, optimizer.state), expected(dtype, bad), dtype)


@pytest.mark.gpu
def test_a_recorded_step_of_adam_replays():
    parameters, gradients = parameters_and_gradients(torch.float64, "cuda")
    optimizer = GuardedAdam(parameters, torch.tensor(RATE, device="cuda"), capturable=True)
    for parameter, gradient in zip(parameters, gradients[0], strict=True):
        parameter.grad = gradient.clone()
    optimizer.step()
    before = (
        [p.detach().clone() for p in parameters],
        [{key: value.clone() for key, value in optimizer.state[p].items()} for p in parameters],
    )
    optimizer.step()  # compiles
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        optimizer.step()
    with torch.no_grad():
        for parameter, value, state in zip(parameters, *before, strict=True):
            parameter.copy_(value)
            for key, held in optimizer.state[parameter].items():
                held.copy_(state[key])
    for step in gradients[1:]:
        for parameter, gradient in zip(parameters, step, strict=True):
            parameter.grad.copy_(gradient)
        graph.replay()
    assert_equal((parameters, optimizer.state), expected(torch.float64), torch.float64)
