"""k-means, and the data row nearest to each centre."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float, Int64
from numpy.typing import NDArray
from sklearn.cluster import KMeans as SklearnKMeans
from sklearn.cluster import MiniBatchKMeans, kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin_min
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import Generator, Tensor

from sodgp.selectors.base import (
    Chosen,
    Rows,
    RowSelector,
    Targets,
    Weights,
    all_rows,
    check_at_least,
    check_request,
    row_chunks,
    take_distinct,
)

# Rows in all batches together: with more the centres hardly move.
_ROWS_SEEN = 1_000_000


@dataclass(frozen=True)
class KMeans(RowSelector):
    """The data rows nearest to the centres of a k-means clustering of the inputs (the paper's choice).

    Cost: O(I N M D) time for I iterations and O(N D + M D) memory. Above ``minibatch_above`` rows the centres see
    ``max_epochs`` times the rows, but at most a million of them, in random batches of ``batch_size``, and only the
    search for the nearest rows sees all: O(N M D) time, and N bytes beside the rows. The kernel is not used: every
    (standardised) column counts the same. Rows with weights count as often in the centres; their mini-batches are drawn
    uniformly.

    References: S. Lloyd (1982), Least squares quantization in PCM; D. Arthur and S. Vassilvitskii (2007), k-means++:
    the advantages of careful seeding; D. Sculley (2010), Web-scale k-means clustering.

    Parameters
    ----------
    minibatch_above : int
        Number of rows above which the mini-batch algorithm is used.
    n_init : int
        Starts of which the best is kept (of the initial centres only, in random batches).
    batch_size : int
        Rows of a random batch.
    max_epochs : int
        How many times as many rows as there are the batches have at most.

    Examples
    --------
    >>> X = torch.linspace(-1, 1, 50, dtype=torch.float64)[:, None]
    >>> KMeans(n_init=1).select(X, None, 5, None, torch.Generator().manual_seed(0)).shape
    torch.Size([5])
    """

    minibatch_above: int = 20_000
    n_init: int = 2
    batch_size: int = 4096
    max_epochs: int = 5

    takes_any_number: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_at_least(self, 1, "minibatch_above", "n_init", "batch_size", "max_epochs")

    def pick(self, X: Rows, size: int, kernel: Kernel | None, generator: Generator) -> Chosen:
        """The choice of `select`: one row per centre, ascending."""
        return self._pick(X, size, generator, None)

    def select_weighted(
        self, X: Rows, y: Targets | None, size: int, kernel: Kernel | None, generator: Generator, weight: Weights
    ) -> Chosen:
        """As in `WeightedSelector`."""
        check_request(X, y, size)
        return all_rows(X) if size >= len(X) else self._pick(X, size, generator, weight)

    def _pick(self, X: Rows, size: int, generator: Generator, weight: Weights | None) -> Chosen:
        if X.shape[0] > self.minibatch_above:
            return nearest_values(X, self.centres(X, size, generator, weight)).sort().values
        distinct = distinct_rows(X)
        if distinct.numel() <= size:
            return take_distinct(X, all_rows(X), size).sort().values
        centres = self.centres(X, size, generator, weight)
        return distinct[nearest_rows(X[distinct], centres)].sort().values

    def centres(self, X: Rows, size: int, generator: Generator, weight: Weights | None = None) -> Float[Tensor, "M D"]:
        """Centres of the clusters, not more of them than distinct rows."""
        # One OpenMP thread: scikit-learn adds the threads' partial sums in the order in which they finish, so that with
        # more threads the same seed can give other bits.
        with warnings.catch_warnings(), threadpool_limits(limits=1, user_api="openmp"):
            warnings.simplefilter("ignore", ConvergenceWarning)
            if X.shape[0] > self.minibatch_above:
                found = self._centres_of_batches(X, size, generator, weight)
            else:
                seed = int(torch.randint(2**31 - 1, (1,), generator=generator))
                clustering = SklearnKMeans(n_clusters=size, n_init=self.n_init, random_state=seed)
                found = clustering.fit(X.detach().cpu().numpy(), sample_weight=_numpy(weight)).cluster_centers_
        return torch.from_numpy(found).to(X)

    def _centres_of_batches(
        self, X: Rows, size: int, generator: Generator, weight: Weights | None
    ) -> NDArray[np.float64]:
        """Centres that are moved by random batches, which cost the same for any number of rows.

        scikit-learn draws each of its own batches with a pass over all rows.
        """
        n_rows = X.shape[0]

        def batch(rows: int) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
            chosen = torch.randint(n_rows, (rows,), generator=generator).to(X.device)
            values: NDArray[np.float64] = X[chosen].detach().double().cpu().numpy()
            return values, None if weight is None else _numpy(weight[chosen])

        (first, w), batch_rows = batch(3 * max(self.batch_size, size)), max(self.batch_size, size)
        seeds = torch.randint(2**31 - 1, (self.n_init + 1,), generator=generator).tolist()
        starts = [kmeans_plusplus(first, size, sample_weight=w, random_state=seed)[0] for seed in seeds[1:]]
        clustering = MiniBatchKMeans(
            n_clusters=size,
            init=min(starts, key=lambda start: _inertia(first, w, start)),
            n_init=1,
            batch_size=batch_rows,
            random_state=seeds[0],
            compute_labels=False,
        )
        seen = min(self.max_epochs * n_rows, _ROWS_SEEN)
        for _ in range(max(1, round(seen / batch_rows))):
            values, w = batch(batch_rows)
            clustering.partial_fit(values, sample_weight=w)
        centres: NDArray[np.float64] = clustering.cluster_centers_
        return centres


def _inertia(rows: NDArray[np.float64], weight: NDArray[np.float64] | None, centres: NDArray[np.float64]) -> float:
    """Sum of the squared distances to the nearest centre."""
    squares = pairwise_distances_argmin_min(rows, centres, metric="sqeuclidean")[1]
    return float(squares.sum() if weight is None else weight @ squares)


def _numpy(weight: Weights | None) -> NDArray[np.float64] | None:
    return None if weight is None else weight.cpu().numpy()


def distinct_rows(X: Rows) -> Int64[Tensor, " U"]:
    """Row numbers of the first occurrence of every value of a row, ascending.

    Cost: O(N D log N) time, O(N D) memory: one sort of the rows as strings of bytes.
    """
    if X.shape[1] == 0:
        return all_rows(X)[:1]
    rows = np.ascontiguousarray((X.detach() + 0.0).cpu().numpy())  # + 0.0 makes -0.0 and 0.0 the same bytes
    keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    first = np.unique(keys, return_index=True)[1]
    return torch.from_numpy(np.sort(first)).to(X.device)


def nearest_rows(X: Rows, centres: Float[Tensor, "M D"]) -> Chosen:
    """Assign to each of M centres its own row of N >= M, nearest pairs first.

    A centre whose nearest row is taken looks again among the rows that are left. Cost: O(N M D) time for a pass, with
    rarely more than two or three passes, each over fewer centres; memory for one chunk of rows.
    """
    N, M = X.shape[0], centres.shape[0]
    rows = torch.full((M,), -1, dtype=torch.int64, device=X.device)
    free = torch.ones(N, dtype=torch.bool, device=X.device)
    waiting = torch.arange(M, device=X.device)
    while waiting.numel():
        distance, nearest = _nearest_free(X, centres[waiting], free)
        order = distance.argsort(stable=True)
        taken: set[int] = set()
        for position in order.tolist():
            row = int(nearest[position])
            if row not in taken:
                taken.add(row)
                rows[waiting[position]] = row
        free[rows[rows >= 0]] = False
        waiting = (rows < 0).nonzero().ravel()
    return rows


def nearest_values(X: Rows, centres: Float[Tensor, "M D"]) -> Chosen:
    """Assign to each of M centres its own row of N >= M, nearest pairs first, with another value than all others.

    The same as `nearest_rows` among `distinct_rows`, without sorting the rows: rows are compared, by hashes, only with
    those that were taken. Where there are fewer values than centres, the first rows that are left repeat some.
    """
    N, M = X.shape[0], centres.shape[0]
    rows = torch.full((M,), -1, dtype=torch.int64, device=X.device)
    free = torch.ones(N, dtype=torch.bool, device=X.device)
    waiting = torch.arange(M, device=X.device)
    taken: set[int] = set()
    while waiting.numel() and bool(free.any()):
        distance, nearest = _nearest_free(X, centres[waiting], free)
        hashes = _hashes(X[nearest]).tolist()
        for position in distance.argsort(stable=True).tolist():
            if bool(free[nearest[position]]) and hashes[position] not in taken:
                taken.add(hashes[position])
                rows[waiting[position]] = nearest[position]
        waiting = (rows < 0).nonzero().ravel()
        if waiting.numel():
            seen = torch.tensor(sorted(taken), device=X.device)
            for some in row_chunks(N, X.shape[1]):
                free[some] &= ~torch.isin(_hashes(X[some]), seen)
    if waiting.numel():
        left = torch.ones(N, dtype=torch.bool, device=X.device)
        left[rows[rows >= 0]] = False
        rows[waiting] = left.nonzero().ravel()[: waiting.numel()]
    return rows


def _hashes(X: Rows) -> Int64[Tensor, " N"]:
    """A number of 64 bits for every row, equal for equal values."""
    generator = torch.Generator().manual_seed(0x5EED)
    factors = torch.randint(-(2**62), 2**62, (X.shape[1],), generator=generator).to(X.device) | 1
    bits = (X.detach() + 0.0).double().contiguous().view(torch.int64)  # + 0.0 makes -0.0 and 0.0 the same bits
    # Products of integers wrap around; the upper bits, which depend on all others, are mixed into the lower ones.
    mixed = (bits ^ (bits >> 32)) * factors
    return ((mixed ^ (mixed >> 29)) * factors).sum(1)


def _nearest_free(X: Rows, centres: Float[Tensor, "M D"], free: Tensor) -> tuple[Float[Tensor, " M"], Chosen]:
    """Squared distance to, and number of, the nearest free row of every centre."""
    M = centres.shape[0]
    best = torch.full((M,), torch.inf, dtype=X.dtype, device=X.device)
    nearest = torch.zeros(M, dtype=torch.int64, device=X.device)
    for rows in row_chunks(X.shape[0], M + X.shape[1]):
        chunk = X[rows]
        squared = torch.addmm((chunk**2).sum(1, keepdim=True), chunk, centres.T, alpha=-2.0)
        squared.masked_fill_(~free[rows, None], torch.inf)
        value, index = squared.min(0)
        closer = value < best
        best = torch.where(closer, value, best)
        nearest = torch.where(closer, index + rows.start, nearest)
    return best + (centres**2).sum(1), nearest
