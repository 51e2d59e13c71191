// What a CUDA source needs to run on the processor's threads, blocks one after the other.
#include <barrier>
#include <cmath>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(threads)

struct Index { int x, y; };
static thread_local Index threadIdx, blockIdx;
static Index gridDim, blockDim;
static std::barrier<> *of_block;
static std::vector<std::barrier<> *> of_warps;

static void __syncthreads() { of_block->arrive_and_wait(); }
static void __syncwarp() { of_warps[threadIdx.x / 32]->arrive_and_wait(); }
static void __threadfence() {}
static int atomicAdd(int *count, int more) { return __atomic_fetch_add(count, more, __ATOMIC_SEQ_CST); }
template <class Real> static Real rsqrt(Real value) { return 1 / std::sqrt(value); }
using std::isfinite, std::pow, std::sqrt;

template <class Function, class... Arguments>
static void launch(Function function, Index grid, int threads, Arguments... arguments)
{
    gridDim = grid, blockDim = {threads, 1};
    std::barrier<> block(threads);
    of_block = &block;
    for (int warp = 0; warp < threads / 32; ++warp)
        of_warps.push_back(new std::barrier<>(32));
    std::vector<std::thread> running;
    for (int t = 0; t < threads; ++t)
        running.emplace_back([=] {
            threadIdx = {t, 0};
            for (int y = 0; y < grid.y; ++y)
                for (int x = 0; x < grid.x; ++x) {
                    blockIdx = {x, y};
                    function(arguments...);
                    of_block->arrive_and_wait();
                }
        });
    for (auto &thread : running)
        thread.join();
    for (auto *warp : of_warps)
        delete warp;
    of_warps.clear();
}
