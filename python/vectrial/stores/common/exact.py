"""Exact nearest neighbours in a block of vectors, for stores that compute distances themselves.

One matrix-vector product in float32, a selection of all candidates that rounding could have put
among the k nearest, and their exact distances in float64. Candidates are those within the
rounding bound of a float32 dot product, |computed - true| <= d·u/(1 - d·u) · |q|·|x| with
u = 2^-24 (Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., section 3.1), of
the k-th.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vectrial.model.metric import SHORT_SQUARE, Metric, distances, squared_lengths

_UNIT_ROUNDOFF = 2.0**-24
#: Largest loss of a product by underflow, also on a processor that flushes it to zero.
_UNDERFLOW = 2.0**-126


@dataclass(frozen=True)
class PreparedVectors:
    """Vectors to search, with everything that can be computed before the query.

    vectors: float32 (n, d). ids: int64 (n,). kept: which rows may be found, (n,), None for all.
    A row's key, which ascends with its distance, is offset - scale·dot; +inf for rows left out.
    """

    metric: Metric
    vectors: NDArray[np.float32]
    ids: NDArray[np.int64]
    kept: NDArray[np.bool_] | None
    available: int
    offset: NDArray[np.float32]
    scale: NDArray[np.float32]
    largest_norm: float


def prepare_vectors(
    metric: Metric,
    vectors: NDArray[np.float32],
    ids: NDArray[np.int64],
    mask: NDArray[np.bool_] | None = None,
) -> PreparedVectors:
    """A block of `vectors` (n, d) with `ids` (n,); a search may find those in `mask` (n,)."""
    n = len(vectors)
    squares = squared_lengths(vectors)
    offset = np.zeros(n, np.float32)
    if metric is Metric.L2:
        offset = squares.astype(np.float32)
    if metric is Metric.COSINE:
        lengths = np.sqrt(squares)
        with np.errstate(divide="ignore"):  # a place without a row, which is not kept
            scale = np.where(lengths > 0, 1 / lengths, 0).astype(np.float32)
    else:
        scale = np.full(n, 2 if metric is Metric.L2 else 1, np.float32)
    if mask is not None:
        offset = np.where(mask, offset, np.float32(np.inf))
    available = n if mask is None else int(mask.sum())
    largest = float(np.sqrt(squares.max(initial=0.0)))
    return PreparedVectors(metric, vectors, ids, mask, available, offset, scale, largest)


def nearest(
    rows: PreparedVectors, query: NDArray[np.float32], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Ids and distances of the min(k, available) nearest rows to `query` (d,), nearest first,
    ties by smaller id."""
    found = min(k, rows.available)
    if not found:
        return np.empty(0, np.int64), np.empty(0, np.float64)
    if found == len(rows.ids):
        candidates = np.arange(found)
    else:
        toward = query
        if rows.metric is Metric.COSINE:  # of products of short vectors float32 keeps too little
            toward = query / np.float32(length(query))
        keys = rows.vectors @ toward
        keys *= -rows.scale
        keys += rows.offset
        bound = float(np.partition(keys, found - 1)[found - 1]) + _slack(rows, query)
        # With fewer rows kept than asked for, the bound says nothing against rows left out.
        near = keys <= bound
        candidates = np.flatnonzero(near if rows.kept is None else near & rows.kept)
    exact = distances(query, rows.vectors[candidates], rows.metric)
    ids = rows.ids[candidates]
    order = np.lexsort((ids, exact))[:found]
    return ids[order], exact[order]


def _slack(rows: PreparedVectors, query: NDArray[np.float32]) -> float:
    """Upper bound of how far rounding can move two keys apart."""
    norm = length(query)
    lost = 4 * len(query) * _UNDERFLOW
    # Twice the bound above, for the k-th and for the candidate, and as much again for the few
    # operations that follow the product.
    bound = 4 * (len(query) + 3) * _UNIT_ROUNDOFF
    match rows.metric:
        case Metric.L2:
            return bound * (norm + rows.largest_norm) ** 2 + lost
        case Metric.IP:
            return bound * norm * rows.largest_norm + lost
        case Metric.COSINE:
            return bound + lost * float(rows.scale.max(initial=0.0))


def length(vector: NDArray[np.float32]) -> float:
    """Length of a vector (d,), accurate to float32 even if it is very short."""
    square = vector @ vector
    return float(np.sqrt(square if square >= SHORT_SQUARE else squared_lengths(vector[None])[0]))
