"""A store that compares a query with every vector."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial import (
    Capabilities,
    Filter,
    Index,
    IndexKind,
    Metric,
    Params,
    Schema,
    ScoreKind,
    Searcher,
    Store,
    ids_of,
    vectors_of,
)


class Scan(Store):
    """Vectors in memory, under squared Euclidean distance."""

    name: ClassVar[str] = "scan"
    title: ClassVar[str] = "Scan of a third party"
    capabilities: ClassVar[Capabilities] = Capabilities(
        scores={Metric.L2: ScoreKind.L2_SQUARED},
        indexes={"flat": IndexKind(exact=True)},
        get=False,
        scan=False,
        upsert=False,
        delete=False,
    )

    def version(self) -> str:
        return f"numpy {np.__version__}"

    def create(self, schema: Schema, index: Index) -> None:
        self.ids = np.empty(0, np.int64)
        self.vectors = np.empty((0, schema.dim), np.float32)

    def close(self) -> None:
        self.drop()

    def drop(self) -> None:
        self.ids, self.vectors = np.empty(0, np.int64), np.empty((0, 0), np.float32)

    def insert(self, batch: pa.RecordBatch) -> None:
        self.vectors = np.concatenate([self.vectors, vectors_of(batch)])
        self.ids = np.concatenate([self.ids, ids_of(batch)])

    def count(self) -> int:
        return len(self.ids)

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        def search(vector: NDArray[np.float32], /) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
            distances = ((self.vectors - vector) ** 2).sum(axis=1)
            nearest = np.argsort(distances, kind="stable")[:k]
            return self.ids[nearest], distances[nearest]

        return search
