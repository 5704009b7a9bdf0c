"""Qdrant Edge: the storage and search engine of Qdrant as a library, one shard in this process.

The facts below hold for qdrant-edge-py 0.9.0: they were read in its type stubs and tested.
"""

from __future__ import annotations

import importlib.metadata
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.model.filters import Filter, Range, renamed
from vectrial.stores import common as vt
from vectrial.stores.qdrant.common import (
    NORMS,
    QdrantHnswBuild,
    QdrantHnswSearch,
    from_point_ids,
    points_batch,
    to_point_ids,
)
from vectrial.stores.qdrant.filters import ConditionConstructors, translate

_UPSERT_ROWS = 1_000
#: Above any collection that fits this machine, so that optimizing ends with one segment.
_ONE_SEGMENT_KB = 1 << 30


class QdrantEdge(vt.Store):
    """One shard with one unnamed vector per point; metadata is its payload.

    Ids are unsigned in Qdrant: int64 is kept as its two's complement. A missing value is a
    missing payload key.
    """

    name = "qdrant-edge"
    title = "Qdrant Edge"
    module = "qdrant_edge"
    extra = "qdrant-edge"
    capabilities = vt.Capabilities(
        scores={
            vt.Metric.L2: vt.ScoreKind.L2,
            vt.Metric.COSINE: vt.ScoreKind.COSINE_SIMILARITY,
            vt.Metric.IP: vt.ScoreKind.INNER_PRODUCT,
        },
        default_index="hnsw",
        indexes={
            "hnsw": vt.IndexKind(
                QdrantHnswBuild, QdrantHnswSearch, high_recall_params={"ef_search": 512}
            ),
            "flat": vt.IndexKind(exact=True),
        },
        filters=vt.ALL_OPERATORS,
        find=vt.ALL_OPERATORS,
        field_types=frozenset(vt.FieldType),
        nulls=True,
        norms=NORMS,
        most_int=2**53,  # they are float64 there
        payload_index=True,
        persistent=True,
        concurrent_search=True,
        caveats=(
            "nothing is in the graph before the build step: until then every search is exact",
            "while fewer than full_scan_threshold_kb of vectors qualify, a search under hnsw is"
            " an exact scan whatever ef_search says",
            "optimized to a single segment and searched with one thread",
            "searches in one process follow one another: more client threads give no more of them",
            "vectors are normalised when stored under cosine",
            "a range compares integers as float64, exact up to 2^53",
            "vectors cross into the engine as Python lists of floats",
        ),
    )

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        import qdrant_edge

        self._q = qdrant_edge
        self._path = location / "shard"
        self._shard: Any = None

    def version(self) -> str:
        return importlib.metadata.version("qdrant-edge-py")

    def create(self, schema: vt.Schema, index: vt.Index) -> None:
        self._bind(schema, index)
        self._shard = self._q.EdgeShard.create(str(self._path), self._config())
        kinds = self._q.PayloadSchemaType
        types = {
            vt.FieldType.INT: kinds.Integer,
            vt.FieldType.FLOAT: kinds.Float,
            vt.FieldType.STRING: kinds.Keyword,
            vt.FieldType.BOOL: kinds.Bool,
        }
        for field in schema.fields:
            if field.indexed:
                operation = self._q.UpdateOperation.create_field_index(
                    schema.columns[field.name], types[field.type]
                )
                self._shard.update(operation)

    def open(self, schema: vt.Schema, index: vt.Index) -> None:
        self._bind(schema, index)
        self._shard = self._q.EdgeShard.load(str(self._path), self._config())

    def _bind(self, schema: vt.Schema, index: vt.Index) -> None:
        self._schema, self._index = schema, index

    def _config(self) -> Any:
        q = self._q
        distance = {
            vt.Metric.L2: q.Distance.Euclid,
            vt.Metric.COSINE: q.Distance.Cosine,
            vt.Metric.IP: q.Distance.Dot,
        }[self._schema.metric]
        build = self._index.params
        if isinstance(build, QdrantHnswBuild):
            hnsw = q.HnswIndexConfig(
                m=build.m,
                ef_construct=build.ef_construction,
                full_scan_threshold=build.full_scan_threshold_kb,
            )
        else:
            hnsw = q.HnswIndexConfig(m=0, ef_construct=100, full_scan_threshold=10_000)
        return q.EdgeConfig(
            vectors=q.EdgeVectorParams(size=self._schema.dim, distance=distance),
            hnsw_config=hnsw,
            max_search_threads=1,  # more only spin beside it: there is one segment
            optimizers=q.EdgeOptimizersConfig(
                # One kilobyte: whatever its size, what was loaded gets its graph.
                indexing_threshold=1,
                default_segment_number=1,
                max_segment_size=_ONE_SEGMENT_KB,
            ),
        )

    def close(self) -> None:
        if self._shard is not None:
            self._shard.close()
            self._shard = None

    def drop(self) -> None:
        self.close()
        shutil.rmtree(self._path, ignore_errors=True)

    def flush(self) -> None:
        self._shard.flush()

    def build(self) -> None:
        self._shard.optimize()

    def wait_indexed(self) -> str:
        while self._shard.optimize():
            pass
        info = self._shard.info()
        if self._index.kind == "flat":
            return "optimize() finds nothing left to do; searches ask for exact=True"
        # Segments below indexing_threshold (1 KB of vectors) stay outside the graph.
        loose = info.points_count - info.indexed_vectors_count
        if loose * self._schema.dim * 4 > 1024:
            raise vt.StoreError(f"{loose} of {info.points_count} points are not indexed")
        build = self._index.params
        assert isinstance(build, QdrantHnswBuild)
        known = (
            f"optimize() finds nothing left to do; {info.indexed_vectors_count} of "
            f"{info.points_count} vectors indexed"
        )
        if info.points_count * self._schema.dim * 4 < build.full_scan_threshold_kb * 1024:
            known += (
                f"; fewer than full_scan_threshold_kb = {build.full_scan_threshold_kb}, "
                "so searches scan exactly"
            )
        return known

    def insert(self, batch: pa.RecordBatch) -> None:
        self.upsert(batch)

    def upsert(self, batch: pa.RecordBatch) -> None:
        make, write = self._q.Point, self._q.UpdateOperation.upsert_points
        for part in vt.slices(batch, _UPSERT_ROWS):
            ids, vectors = to_point_ids(vt.ids_of(part)), vt.vectors_of(part).tolist()
            points = map(make, ids, vectors, vt.row_values(part, self._schema))
            self._shard.update(write(list(points)))

    def delete(self, ids: NDArray[np.int64]) -> None:
        self._shard.update(self._q.UpdateOperation.delete_points(to_point_ids(ids)))

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        found = self._shard.retrieve(to_point_ids(ids), with_payload=True, with_vector=True)
        return vt.table_of(self._schema, [points_batch(self._schema, found)])

    def count(self) -> int:
        return int(self._shard.count(self._q.CountRequest(exact=True)))

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        offset = None
        while True:
            request = self._q.ScrollRequest(
                offset=offset, limit=batch_size, with_payload=True, with_vector=True
            )
            found, offset = self._shard.scroll(request)
            if found:
                yield points_batch(self._schema, found)
            if offset is None:
                return

    def searcher(self, k: int, params: vt.Params, where: Filter | None = None) -> vt.Searcher:
        q, search = self._q, self._shard.search
        if isinstance(params, QdrantHnswSearch):
            settings = q.SearchParams(hnsw_ef=params.ef_search)
        else:
            assert isinstance(params, vt.NoParams)
            settings = q.SearchParams(exact=True)
        condition = None if where is None else self._translate(where)
        request, nearest = q.SearchRequest, q.Query.Nearest

        def run(vector: NDArray[np.float32], /) -> vt.Hits:
            found = search(request(nearest(vector.tolist()), k, None, condition, settings))
            scores = np.array([point.score for point in found], dtype=np.float32)
            return from_point_ids([point.id for point in found]), scores

        return run

    def find(self, where: Filter, limit: int) -> NDArray[np.int64]:
        request = self._q.ScrollRequest(
            limit=limit, filter=self._translate(where), with_payload=False, with_vector=False
        )
        found, _ = self._shard.scroll(request)
        return from_point_ids([record.id for record in found])

    def _translate(self, where: Filter) -> Any:
        columns = self._schema.columns
        types = {columns[name]: kind for name, kind in self._schema.types.items()}
        return translate(renamed(where, columns), types, _constructors(self._q))


def _constructors(q: Any) -> ConditionConstructors:
    """The binding's spelling of the conditions."""

    def equal(path: str, value: str | int | bool) -> Any:
        # The binding takes Python's True for the integer 1, but numpy's for a boolean.
        exact = np.bool_(value) if isinstance(value, bool) else value
        return q.FieldCondition(path, match=q.MatchValue(exact))

    def within(path: str, where: Range) -> Any:
        return q.FieldCondition(path, range=q.RangeFloat(**where.bounds))

    return ConditionConstructors(
        must=lambda conditions: q.Filter(must=conditions),
        should=lambda conditions: q.Filter(should=conditions),
        must_not=lambda conditions: q.Filter(must_not=conditions),
        empty=q.IsEmptyCondition,
        equal=equal,
        any_of=lambda path, values: q.FieldCondition(path, match=q.MatchAny(list(values))),
        within=within,
    )
