"""Exact search in memory: one pass over all vectors with numpy, for reference.

A search is one matrix-vector product in float32 over every slot (BLAS, held to one thread), a
selection of all candidates that rounding could have put among the k nearest, and their exact
distances in float64. Candidates are those within the rounding bound of a float32 dot product,
|computed - true| <= d·u/(1 - d·u) · |q|·|x| with u = 2^-24 (Higham, "Accuracy and Stability of
Numerical Algorithms", 2nd ed., section 3.1), of the k-th.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.distance import Metric, ScoreKind, distances
from vectrial.filters import Filter
from vectrial.stores.arrow import table_of
from vectrial.stores.base import (
    ALL_OPERATORS,
    Capabilities,
    FieldType,
    Footprint,
    Index,
    IndexKind,
    Params,
    Schema,
    Searcher,
    Store,
)
from vectrial.stores.rows import Rows

_UNIT_ROUNDOFF = 2.0**-24


class MemoryStore(Store):
    """Vectors in one array, metadata in Arrow columns, nothing on disk."""

    name: ClassVar[str] = "memory"
    title: ClassVar[str] = "In memory, exact (numpy)"
    capabilities: ClassVar[Capabilities] = Capabilities(
        scores={
            Metric.L2: ScoreKind.L2,
            Metric.COSINE: ScoreKind.COSINE_DISTANCE,
            Metric.IP: ScoreKind.INNER_PRODUCT,
        },
        indexes={"exact": IndexKind(exact=True, recall_floor=1.0)},
        filters=ALL_OPERATORS,
        find=ALL_OPERATORS,
        field_types=frozenset(FieldType),
        nulls=True,
        concurrent_search=True,
        refuses_duplicates=True,
        differences=(
            "nothing is written to disk",
            "a filter is evaluated once, before the clock starts; every search still passes over"
            " all vectors",
            "a search uses one thread",
        ),
    )

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        from threadpoolctl import threadpool_limits

        self._threads = threadpool_limits(limits=1, user_api="blas")
        self._rows: Rows | None = None

    @property
    def _open(self) -> Rows:
        assert self._rows is not None, "create comes first"
        return self._rows

    def version(self) -> str:
        return f"numpy {np.__version__}, Python {platform.python_version()}"

    def create(self, schema: Schema, index: Index) -> None:
        self._rows = Rows(schema, keep_vectors=True)

    def close(self) -> None:
        self._threads.restore_original_limits()
        self._rows = None

    def drop(self) -> None:
        self._rows = None

    def insert(self, batch: pa.RecordBatch) -> None:
        self._open.insert(batch)

    def upsert(self, batch: pa.RecordBatch) -> None:
        self._open.upsert(batch)

    def delete(self, ids: NDArray[np.int64]) -> None:
        self._open.delete(ids)

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        rows = self._open
        slots = rows.slots(rows.present(ids))
        return table_of(rows.schema, [rows.batch(slots, rows.vectors[slots])])

    def count(self) -> int:
        return len(self._open)

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        rows = self._open
        for slots in rows.live_slots(batch_size):
            yield rows.batch(slots, rows.vectors[slots])

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        rows = self._open
        return _searcher(rows.schema.metric, rows.vectors, rows.ids, rows.kept(where), k)

    def find(self, where: Filter, limit: int) -> NDArray[np.int64]:
        return self._open.find(where, limit)

    def footprint(self) -> Footprint:
        return Footprint(raw_bytes=self._open.vectors.nbytes)


def _searcher(
    metric: Metric,
    vectors: NDArray[np.float32],
    ids: NDArray[np.int64],
    kept: NDArray[np.bool_],
    k: int,
) -> Searcher:
    """Exact search among the `kept` rows of `vectors` (n, d)."""
    n, dim = vectors.shape
    squares = np.einsum("ij,ij->i", vectors, vectors)
    norms = np.sqrt(squares)
    # A candidate's key, ascending with its distance: offset - scale·dot; rows left out get +inf.
    match metric:
        case Metric.L2:
            offset, scale = squares, np.full(n, 2, np.float32)
        case Metric.IP:
            offset, scale = np.zeros(n, np.float32), np.ones(n, np.float32)
        case Metric.COSINE:
            offset, scale = np.zeros(n, np.float32), 1 / np.maximum(norms, 1e-30)
    offset = np.where(kept, offset, np.inf).astype(np.float32)
    scale = scale.astype(np.float32)
    found = min(k, int(kept.sum()))
    largest = float(norms.max(initial=0.0))
    # Twice the bound of the text above, for the k-th and for the candidate, and as much again for
    # the few operations that follow the product.
    slack_per_norm: float = 4 * (dim + 3) * _UNIT_ROUNDOFF
    nothing = (np.empty(0, np.int64), np.empty(0, np.float32))

    def slack(query_norm: float) -> float:
        match metric:
            case Metric.L2:
                return slack_per_norm * float(query_norm + largest) ** 2
            case Metric.IP:
                return slack_per_norm * query_norm * largest
            case Metric.COSINE:
                return slack_per_norm * query_norm

    def search(vector: NDArray[np.float32], /) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        if not found:
            return nothing
        keys = vectors @ vector
        keys *= -scale
        keys += offset
        worst = np.partition(keys, found - 1)[found - 1] if found < n else np.inf
        bound = float(worst) + slack(float(np.sqrt(vector @ vector)))
        candidates = np.flatnonzero((keys <= bound) & kept)
        exact = distances(vector, vectors[candidates], metric)
        nearest = np.lexsort((ids[candidates], exact))[:found]
        scores = -exact[nearest] if metric is Metric.IP else exact[nearest]
        return ids[candidates[nearest]], scores.astype(np.float32)

    return search
