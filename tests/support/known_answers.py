"""Queries whose exact neighbours are known without a search."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vectrial.model.dataset import Truth

K = 3
SCORES = np.zeros(K, dtype=np.float32)


def known_answers(
    queries: int,
) -> tuple[NDArray[np.float32], NDArray[np.int64], Truth]:
    """Vectors (q, 1), ids of their neighbours (q, K), and the truth that says so. Query i is the
    vector (i,): a search knows which query it is asked."""
    vectors = np.arange(queries, dtype=np.float32)[:, None]
    exact = np.arange(queries * K, dtype=np.int64).reshape(queries, K)
    truth = Truth(
        k=K,
        ids=exact,
        distances=np.tile(np.arange(K, dtype=np.float64), (queries, 1)),
        available=np.full(queries, K, dtype=np.int64),
        accept_offsets=np.arange(0, queries * K + 1, K, dtype=np.int64),
        accept_ids=exact.ravel(),
    )
    return vectors, exact, truth
