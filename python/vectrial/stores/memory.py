"""Exact search in memory: every search passes over all vectors once, on one thread."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.stores import common as vt
from vectrial.stores.common.exact import nearest, prepare_vectors


class MemoryStore(vt.RowsStore):
    """Vectors in one array, metadata in Arrow columns, nothing on disk."""

    name: ClassVar[str] = "memory"
    title: ClassVar[str] = "In memory, exact (numpy)"
    capabilities: ClassVar[vt.Capabilities] = vt.Capabilities(
        scores={
            vt.Metric.L2: vt.ScoreKind.L2,
            vt.Metric.COSINE: vt.ScoreKind.COSINE_DISTANCE,
            vt.Metric.IP: vt.ScoreKind.INNER_PRODUCT,
        },
        indexes={"flat": vt.IndexKind(exact=True, recall_floor=1.0)},
        filters=vt.ALL_OPERATORS,
        find=vt.ALL_OPERATORS,
        field_types=frozenset(vt.FieldType),
        nulls=True,
        concurrent_search=True,
        refuses_duplicates=True,
        caveats=(
            "a filter is evaluated once, before the clock starts; every search still passes over"
            " all vectors",
            "a search uses one thread",
        ),
    )

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        from threadpoolctl import threadpool_limits

        self._threads = threadpool_limits(limits=1, user_api="blas")

    def version(self) -> str:
        return f"numpy {np.__version__}, Python {platform.python_version()}"

    def create(self, schema: vt.Schema, index: vt.Index) -> None:
        self._rows = vt.Rows(schema, keep_vectors=True)

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

    def _vectors(self, slots: NDArray[np.int64]) -> NDArray[np.float32]:
        return self._open.vectors[slots]

    def searcher(self, k: int, params: vt.Params, where: vt.Filter | None = None) -> vt.Searcher:
        rows = self._open
        metric = rows.schema.metric
        candidates = prepare_vectors(metric, rows.vectors, rows.ids, rows.matching(where))
        sign = -1 if metric is vt.Metric.IP else 1

        def search(vector: NDArray[np.float32], /) -> vt.Hits:
            ids, distances = nearest(candidates, vector, k)
            return ids, (sign * distances).astype(np.float32)

        return search

    def footprint(self) -> vt.Footprint:
        return vt.Footprint(raw_bytes=self._open.vectors.nbytes)
