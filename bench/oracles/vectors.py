"""Vectors with queries, and their exact neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

K = 10
#: An id counts as right if it is no farther than the k-th neighbour, to this share.
_TIE = 1e-6
_BLOCK = 256

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Vectors:
    """Rows (n, d), queries that Vectrial is given (q, d), and others of the same distribution.

    metric: "l2" or "cosine".
    """

    name: str
    metric: str
    rows: Floats
    queries: Floats
    fresh: Floats

    def first(self, count: int) -> Vectors:
        """The same queries over the first rows."""
        return Vectors(self.name, self.metric, self.rows[:count], self.queries, self.fresh)


def clustered(rows: int, dim: int, seed: int = 7, inner: int = 26) -> Vectors:
    """Rows in 400 clusters of uneven size, within a space of `inner` dimensions that is turned into
    `dim` of them."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(400, inner))
    shares = rng.dirichlet(np.full(400, 0.5))
    turn, _ = np.linalg.qr(rng.normal(size=(dim, inner)))

    def drawn(count: int) -> Floats:
        inside = centres[rng.choice(400, count, p=shares)] + 1.3 * rng.normal(size=(count, inner))
        found: Floats = (inside @ turn.T).astype(np.float32)
        return found

    return Vectors(f"answers-{dim}d", "l2", drawn(rows), drawn(1000), drawn(1000))


@dataclass(frozen=True)
class Neighbours:
    """Exact distances (q, n is not kept): of the k-th neighbour of each query, and how to judge."""

    data: Vectors
    queries: Floats
    farthest: NDArray[np.float64]

    @staticmethod
    def find(data: Vectors, queries: Floats) -> Neighbours:
        """By brute force in float64."""
        farthest = [
            np.partition(_distances(data, queries[at : at + _BLOCK]), K - 1, axis=1)[:, K - 1]
            for at in range(0, len(queries), _BLOCK)
        ]
        return Neighbours(data, queries, np.concatenate(farthest))

    def recall(self, ids: Ids) -> float:
        """Mean share of the k best among answers (q, k)."""
        rows = self.data.rows[ids].astype(np.float64)
        queries = self.queries[: len(ids), None].astype(np.float64)
        if self.data.metric == "cosine":
            rows /= np.linalg.norm(rows, axis=2, keepdims=True)
            queries = queries / np.linalg.norm(queries, axis=2, keepdims=True)
            found = 1 - (rows * queries).sum(axis=2)
        else:
            found = ((rows - queries) ** 2).sum(axis=2)
        limit = self.farthest[: len(ids), None]
        return float((found <= limit + _TIE * np.abs(limit) + 1e-12).mean())


def _distances(data: Vectors, queries: Floats) -> NDArray[np.float64]:
    rows, some = data.rows.astype(np.float64), queries.astype(np.float64)
    if data.metric == "cosine":
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        some /= np.linalg.norm(some, axis=1, keepdims=True)
        return np.asarray(1 - some @ rows.T)
    squares = (rows**2).sum(axis=1) + (some**2).sum(axis=1)[:, None]
    return np.asarray(np.maximum(squares - 2 * some @ rows.T, 0.0))
