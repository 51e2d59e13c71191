// Cholesky factor and its inverse of a batch of symmetric positive-definite matrices, one block of threads a matrix.
// Compile with REAL (double or float) and TILES (ceil(n / 16)) defined.
//
// The lower triangle W starts as K. Step k takes away the outer product of column k; what it leaves to the left of
// column k in the rows below is the inverse in the making:
//
//     r       = 1 / sqrt(W[k][k])
//     L[i][k] = W[i][k] r,   i > k,      X[k][j] = W[k][j] r,   j < k,      L[k][k] = 1 / r,   X[k][k] = r
//     W[i][j] -= L[i][k] v[j] r,   i > k,   v[j] = W[k][j] for j < k,   1 for j = k with W[i][k] = 0,   W[j][k] for j > k
//
// Thread (y, x) of 16 by 16 keeps the elements (16 a + y, 16 b + x), b <= a, in registers. Rows up to k are over: what
// the update makes of them, and of the upper halves of the diagonal tiles, is never read. A ninth warp keeps the
// diagonal and has the next r ready when the others have done their update, so that nobody waits for a square root.

#define SIDE 16
#define SIZE (SIDE * TILES)
#define WORKERS (SIDE * SIDE)
#define LANES 32
#define TURNS ((SIZE + LANES - 1) / LANES)

extern "C" __global__ void __launch_bounds__(WORKERS + LANES)
sodgp_factor(const REAL *K, REAL *U, REAL *X, int *info, int n)  // U = L', so that rows are written at a stretch
{
    // Two of each: step k + 1 is prepared while step k is still read.
    __shared__ REAL vectors[2][LANES * TURNS], pivots[2], roots[2];
    __shared__ int failure;
    const long long offset = (long long)blockIdx.x * n * n;
    const int t = threadIdx.x, y = t / SIDE, x = t % SIDE, lane = t % LANES;
    const bool worker = t < WORKERS;
    int failed = 0;
    REAL W[TILES][TILES], (&diagonal)[TILES] = W[TILES - 1];  // no thread has both
    K += offset, U += offset, X += offset;

    if (worker) {
#pragma unroll
        for (int a = 0; a < TILES; ++a)
#pragma unroll
            for (int b = 0; b <= a; ++b) {
                const int i = SIDE * a + y, j = SIDE * b + x;
                W[a][b] = i < n && j < n ? K[i * n + j] : (REAL)0;
            }
    } else {
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn) {
            const int i = LANES * turn + lane;
            diagonal[turn] = i < n ? K[i * n + i] : (REAL)0;
        }
        if (lane == 0) {
            pivots[0] = diagonal[0];
            roots[0] = rsqrt(diagonal[0]);
        }
    }

#pragma unroll
    for (int c = 0; c < TILES; ++c)
        for (int z = 0; z < SIDE; ++z) {
            const int k = SIDE * c + z;
            if (k >= n)
                break;
            REAL *v = vectors[k & 1];
            if (worker && x == z)
#pragma unroll
                for (int a = c; a < TILES; ++a)
                    if (a > c || y >= z)
                        v[SIDE * a + y] = a == c && y == z ? (REAL)1 : W[a][c];
            if (worker && y == z)
#pragma unroll
                for (int b = 0; b <= c; ++b)
                    if (b < c || x < z)
                        v[SIDE * b + x] = W[c][b];
            __syncthreads();

            const REAL p = pivots[k & 1], r = roots[k & 1], inverse = r * r;
            if (worker) {
                REAL right[TILES];
#pragma unroll
                for (int b = 0; b < TILES; ++b)
                    right[b] = v[SIDE * b + x];
#pragma unroll
                for (int a = c; a < TILES; ++a) {
                    const REAL left = v[SIDE * a + y] * inverse;
                    if (x == z)
                        W[a][c] = 0;
#pragma unroll
                    for (int b = 0; b <= a; ++b)
                        W[a][b] -= left * right[b];
                }
                const int j = t % (WORKERS / 2);
                if (j < n && t < WORKERS / 2)
                    X[k * n + j] = j <= k ? v[j] * r : (REAL)0;
                else if (j < n)
                    U[k * n + j] = j > k ? v[j] * r : j == k ? p * r : (REAL)0;
            } else {
                REAL next = 0;
#pragma unroll
                for (int turn = 0; turn < TURNS; ++turn) {
                    const int i = LANES * turn + lane;
                    diagonal[turn] -= v[i] * v[i] * inverse;
                    next = i == k + 1 ? diagonal[turn] : next;
                }
                if (lane == (k + 1) % LANES) {
                    pivots[(k + 1) & 1] = next;
                    roots[(k + 1) & 1] = rsqrt(next);
                }
                if (!failed && !(p * r > 0))
                    failed = k + 1;
            }
        }

    if (t == WORKERS)
        failure = failed;
    __syncthreads();
    if (t == 0)
        info[blockIdx.x] = failure;
    if (failure)
        for (int e = t; e < n * n; e += WORKERS + LANES)
            U[e] = X[e] = (REAL)0 / (REAL)0;
}
