"""The kernel for L and L^-1: its source on the processor's threads, the way around it, and itself on a GPU."""

import subprocess
import sys
import textwrap

import pytest
import torch
from cuda_on_threads import build, needs_a_compiler, pointer

from sodgp.errors import CholeskyError
from sodgp.linalg import cholesky as factor
from sodgp.linalg.cholesky import Climbs, Jitter, counting, factorise
from sodgp.linalg.cuda import factor as cuda_factor
from sodgp.linalg.cuda import nvrtc
from sodgp.linalg.cuda.factor import LARGEST, THREADS, agrees, factor_pair, fits
from sodgp.linalg.products import inverse_triangular

SOURCE = cuda_factor._SOURCE
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-4}


def matrices(n, *batch, dtype=torch.float64, device="cpu"):
    root = torch.randn(*batch, n, n, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
    return (root @ root.mT / n + 0.1 * torch.eye(n, dtype=torch.float64)).to(device, dtype)


def assert_factored(K, L, L_inv, info):
    expected, failed = torch.linalg.cholesky_ex(K.double())
    good = (failed == 0).cpu()
    assert torch.equal(info > 0, failed > 0)
    assert L[~good.to(L.device)].isnan().all()
    assert L_inv[~good.to(L.device)].isnan().all()
    for ours, theirs in ((L, expected), (L_inv, inverse_triangular(expected))):
        assert ours.shape == K.shape
        ours, theirs = ours.cpu()[good], theirs.cpu()[good]
        assert torch.equal(ours, ours.tril())
        assert float((ours - theirs).abs().max()) <= TOLERANCE[K.dtype] * float(theirs.abs().max())


@needs_a_compiler
@pytest.mark.parametrize(
    ("dtype", "tiles", "sizes"), [(torch.float64, 8, (1, 17, 100, 128)), (torch.float32, 2, (16, 31))]
)
def test_the_source_computes_both_factors(tmp_path, dtype, tiles, sizes):
    entry = f"""void run(int blocks, const REAL *K, REAL *U, REAL *X, int *info, int n)
        {{ launch(sodgp_factor, {{blocks, 1}}, {THREADS}, K, U, X, info, n); }}"""
    program = build(SOURCE, tmp_path, entry, REAL="double" if dtype == torch.float64 else "float", TILES=tiles)
    for n in sizes:
        K = matrices(n, 3, dtype=dtype)
        K[1, n // 2, n // 2] = -1.0
        U, L_inv, info = torch.full_like(K, 7.0), torch.full_like(K, 7.0), torch.full((3,), -1, dtype=torch.int32)
        program.run(3, *map(pointer, (K, U, L_inv, info)), n)
        assert_factored(K, U.mT, L_inv, info)
        assert info.tolist() == [0, n // 2 + 1, 0]


def test_on_the_processor_nothing_has_changed(monkeypatch):
    monkeypatch.setattr(factor, "factor_pair", None)
    L, L_inv = factorise(matrices(5, 2), Jitter(0.0))
    assert torch.equal(L, torch.linalg.cholesky(matrices(5, 2)))
    assert torch.equal(L_inv, inverse_triangular(L))


def test_the_library_does_what_the_kernel_would():
    K = matrices(6, 2, 3)
    K[1, 2, 0, 0] = -1.0
    L, L_inv, info = factor_pair(K)
    assert_factored(K, L, L_inv, info)
    assert (L.stride(-2), L_inv.stride(-1), info.dtype) == (1, 1, torch.int32)
    torch.library.opcheck(factor_pair, (matrices(4, 2),))


def test_a_matrix_that_the_kernel_refuses_climbs(monkeypatch):
    monkeypatch.setattr(factor, "_has_kernel", lambda K: True)
    K = torch.stack([torch.eye(3, dtype=torch.float64), torch.ones(3, 3, dtype=torch.float64) - 1e-9 * torch.eye(3)])
    climbs = Climbs()
    with counting(climbs):
        L, L_inv = factorise(K, Jitter(1e-12))
    assert climbs.count == 1
    torch.testing.assert_close(L @ L_inv, torch.eye(3, dtype=torch.float64).expand(2, 3, 3))
    with pytest.raises(CholeskyError):
        factorise(-K, Jitter(1e-12))


def test_a_kernel_that_is_wrong_is_found_out():
    like = torch.empty((), dtype=torch.float64)
    assert agrees(cuda_factor._by_library, 16, like)
    assert agrees(cuda_factor._by_library, 32, like.float())
    for wrong in (
        lambda L, L_inv, info: (L + 1e-6, L_inv, info),
        lambda L, L_inv, info: (L, 1.001 * L_inv, info),
        lambda L, L_inv, info: (L, L_inv, 0 * info),
    ):
        assert not agrees(lambda K, wrong=wrong: wrong(*cuda_factor._by_library(K)), 16, like)


def test_without_the_compiler_library_there_is_no_kernel(monkeypatch):
    nvrtc.load.cache_clear()
    monkeypatch.setattr(torch.version, "cuda", "999.0")
    assert nvrtc.load(SOURCE, "sodgp_factor", 0, REAL="double", TILES=1) is None
    monkeypatch.setattr(torch.version, "cuda", None)
    assert nvrtc.load(SOURCE, "sodgp_factor", 0, REAL="float", TILES=1) is None
    assert not fits(matrices(4))
    nvrtc.load.cache_clear()  # on a GPU the next tests want a kernel


# In a process of its own: the tests' run-time check of shapes cannot be compiled.
PROGRAM = """
    import torch
    from sodgp.linalg.cuda import factor as cuda_factor
    from sodgp.linalg import cholesky as factor
    from sodgp.linalg.cholesky import Jitter

    class OnCuda:  # what `fits` asks of a tensor, of one on the processor
        def __init__(self, K):
            self.is_cuda, self.shape, self.numel, self.dtype = True, K.shape, K.numel, K.dtype

    factor._has_kernel = lambda K: cuda_factor.fits(OnCuda(K))

    def bound(x):
        made = factor.factorise(x @ x.mT + torch.eye(5, dtype=x.dtype), Jitter(1e-6))
        return made.times(x).square().sum() + made.solve(x).sum() + made.log_det().sum()

    x = torch.randn(2, 5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    compiled = torch.compile(bound, backend="aot_eager", fullgraph=True, dynamic=False)
    pairs = [(f(x), torch.autograd.grad(f(x), x)[0]) for f in (bound, compiled)]
    for plain, ours in zip(*pairs, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-12, atol=1e-12)
    print("equal")
"""


def test_a_compiled_function_keeps_the_operation_and_the_gradient():
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(PROGRAM)], capture_output=True, text=True, check=False
    )
    assert run.stdout.strip() == "equal", run.stderr


# ----- on a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 50, 100, 127, 128])
def test_the_kernel_computes_both_factors(n, dtype):
    K = matrices(n, 2, 3, dtype=dtype, device="cuda")
    K[1, 2, n // 2, n // 2] = -1.0
    assert cuda_factor._kernel(K) is not None
    assert_factored(K, *factor_pair(K))
    assert_factored(K[0, 0], *factor_pair(K[0, 0]))
    assert_factored(K.mT[:, ::2], *factor_pair(K.mT[:, ::2]))


@pytest.mark.gpu
def test_large_matrices_are_left_to_the_library():
    K = matrices(LARGEST + 1, 2, device="cuda")
    assert not fits(K)
    assert_factored(K, *factor_pair(K))
    assert not fits(K.half())


@pytest.mark.gpu
def test_a_recording_replays_the_kernel():
    K = matrices(50, 4, device="cuda")
    factorise(K, Jitter(1e-6))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        L, L_inv = factorise(K, Jitter(0.0))
    K.copy_(2.0 * matrices(50, 4, device="cuda"))
    K[2] = -K[2]
    graph.replay()
    assert_factored(K, L, L_inv, torch.linalg.cholesky_ex(K).info)
