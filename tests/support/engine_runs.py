"""Answers that a load engine's run is judged by."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Judge


def judge_of(ids: NDArray[np.int64]) -> Judge:
    """Accepts the ids of each query's row, of shape (queries, k), in any order."""
    queries, k = ids.shape
    offsets = np.arange(0, queries * k + 1, k)
    return Judge(k, offsets, np.sort(ids, axis=1).ravel(), np.full(queries, k))


def half_right(queries: int, k: int) -> Judge:
    """Judges a null server's answers, 0 to k - 1: right for even queries, half right for odd ones,
    so that the mean recall is 0.75."""
    return judge_of(np.array([np.arange(k) + (k // 2) * (query % 2) for query in range(queries)]))


def judge_nearest(distances: NDArray[np.floating], ids: NDArray[np.int64], k: int) -> Judge:
    """Accepts the k nearest rows of each query. distances: of shape (queries, rows); inf for a row
    that a filter leaves out. ids: of shape (rows,)."""
    return judge_of(ids[np.argsort(distances, axis=1)[:, :k]])
