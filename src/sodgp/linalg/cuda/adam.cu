// Adam over many tensors in two launches. Compile with REAL (double or float) and TENSORS (the most there may be).
// A block takes CHUNK elements of one tensor.

#define THREADS 256
#define CHUNK 1024

struct Tensors {
    REAL *parameter[TENSORS];
    const REAL *gradient[TENSORS];
    REAL *mean[TENSORS], *square[TENSORS];
    float *step[TENSORS];
    int size[TENSORS], first[TENSORS + 1];  // the block that a tensor begins with
    int count;
};

static __device__ int tensor_of(const Tensors &tensors, int block)
{
    int i = 0;
    while (tensors.first[i + 1] <= block)
        ++i;
    return i;
}

static __device__ REAL sum_of_block(REAL value)
{
    __shared__ REAL sums[THREADS];
    const int t = threadIdx.x;
    sums[t] = value;
    __syncthreads();
    for (int half = THREADS / 2; half; half /= 2) {
        if (t < half)
            sums[t] += sums[t + half];
        __syncthreads();
    }
    return sums[0];
}

// Whether the squares of all gradients have a finite sum. The block that finishes last adds up the others' parts, always
// in the same order, and counts: a step where they do, a refusal where they do not.
extern "C" __global__ void __launch_bounds__(THREADS)
sodgp_adam_guard(const Tensors tensors, volatile REAL *parts, int *arrived, float *refusal, float *refused)
{
    __shared__ bool last;
    const int t = threadIdx.x, i = tensor_of(tensors, blockIdx.x);
    const int begin = (blockIdx.x - tensors.first[i]) * CHUNK;
    REAL sum = 0;
#pragma unroll
    for (int e = begin + t; e < begin + CHUNK; e += THREADS)
        if (e < tensors.size[i])
            sum += tensors.gradient[i][e] * tensors.gradient[i][e];
    sum = sum_of_block(sum);
    if (t == 0) {
        parts[blockIdx.x] = sum;
        __threadfence();
        last = atomicAdd(arrived, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last)
        return;
    __threadfence();
    sum = 0;
    for (int block = t; block < gridDim.x; block += THREADS)
        sum += parts[block];
    const bool finite = isfinite(sum_of_block(sum));
    if (finite && t < tensors.count)
        *tensors.step[t] += 1;
    if (t == 0) {
        *refusal = !finite;
        *refused += !finite;
        *arrived = 0;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
sodgp_adam(const Tensors tensors, const float *refusal, const float *rate, double beta1, double beta2, double eps)
{
    __shared__ REAL step_size, root;
    if (*refusal)
        return;
    const int t = threadIdx.x, i = tensor_of(tensors, blockIdx.x);
    const int begin = (blockIdx.x - tensors.first[i]) * CHUNK;
    if (t == 0) {
        const double step = *tensors.step[i];
        step_size = *rate / (1 - pow(beta1, step));
        root = sqrt(1 - pow(beta2, step));
    }
    __syncthreads();
#pragma unroll
    for (int e = begin + t; e < begin + CHUNK; e += THREADS)
        if (e < tensors.size[i]) {
            const REAL gradient = tensors.gradient[i][e];
            const REAL mean = beta1 * tensors.mean[i][e] + (1 - beta1) * gradient;
            const REAL square = beta2 * tensors.square[i][e] + (1 - beta2) * gradient * gradient;
            const REAL scale = sqrt(square) / root + eps;
            tensors.parameter[i][e] -= step_size * mean / scale;
            tensors.mean[i][e] = mean;
            tensors.square[i][e] = square;
        }
}
