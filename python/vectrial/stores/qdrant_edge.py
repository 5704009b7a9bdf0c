"""Qdrant Edge: the storage and search engine of Qdrant as a library, one shard in this process.

Facts below are those of qdrant-edge-py 0.9.0, read from its type stubs and tried.
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
from pydantic import Field as Bound

from vectrial.distance import Metric, ScoreKind
from vectrial.errors import StoreError
from vectrial.filters import And, Eq, Filter, In, IsNull, Not, Or, Range
from vectrial.stores.arrow import batch_of, columns_of, ids_of, table_of, vectors_of
from vectrial.stores.base import (
    ALL_OPERATORS,
    Capabilities,
    FieldType,
    Index,
    IndexKind,
    NoParams,
    Params,
    Schema,
    Searcher,
    Store,
)

_UPSERT_ROWS = 1_000
#: Above any collection that fits this machine, so that optimizing ends with one segment.
_ONE_SEGMENT_KB = 1 << 30


class HnswBuild(Params):
    """m, ef_construction: of the graph. full_scan_threshold_kb: where fewer kilobytes of vectors
    than this qualify (all rows of the segment, or those a filter keeps), they are scanned exactly
    instead of through the graph."""

    m: int = Bound(default=16, ge=2)
    ef_construction: int = Bound(default=100, ge=4)
    full_scan_threshold_kb: int = Bound(default=10_000, ge=10)


class HnswSearch(Params):
    """ef_search: candidates held during the search; None means ef_construction."""

    ef_search: int | None = Bound(default=None, ge=1)


class QdrantEdge(Store):
    """One shard with one unnamed vector per point; metadata is its payload.

    Ids are unsigned in Qdrant: int64 is kept as its two's complement. A missing value is a
    missing payload key. Qdrant's `must_not` is two-valued, so negation is pushed down to the
    comparisons, each of which then also demands that the field is there.
    """

    name = "qdrant-edge"
    title = "Qdrant Edge"
    module = "qdrant_edge"
    extra = "qdrant-edge"
    capabilities = Capabilities(
        scores={
            Metric.L2: ScoreKind.L2,
            Metric.COSINE: ScoreKind.COSINE_SIMILARITY,
            Metric.IP: ScoreKind.INNER_PRODUCT,
        },
        indexes={
            "hnsw": IndexKind(HnswBuild, HnswSearch, generous={"ef_search": 512}),
            "flat": IndexKind(exact=True),
        },
        filters=ALL_OPERATORS,
        find=ALL_OPERATORS,
        field_types=frozenset(FieldType),
        nulls=True,
        payload_index=True,
        persistent=True,
        concurrent_search=True,
        differences=(
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

    # -- life ------------------------------------------------------------------------------

    def version(self) -> str:
        return importlib.metadata.version("qdrant-edge-py")

    def create(self, schema: Schema, index: Index) -> None:
        self._take(schema, index)
        self._shard = self._q.EdgeShard.create(str(self._path), self._config())
        kinds = self._q.PayloadSchemaType
        types = {
            FieldType.INT: kinds.Integer,
            FieldType.FLOAT: kinds.Float,
            FieldType.STRING: kinds.Keyword,
            FieldType.BOOL: kinds.Bool,
        }
        for field in schema.fields:
            if field.indexed:
                operation = self._q.UpdateOperation.create_field_index(
                    _path(field.name), types[field.type]
                )
                self._shard.update(operation)

    def open(self, schema: Schema, index: Index) -> None:
        self._take(schema, index)
        self._shard = self._q.EdgeShard.load(str(self._path), self._config())

    def _take(self, schema: Schema, index: Index) -> None:
        self._schema, self._index = schema, index
        self._types = {field.name: field.type for field in schema.fields}

    def _config(self) -> Any:
        q = self._q
        distance = {
            Metric.L2: q.Distance.Euclid,
            Metric.COSINE: q.Distance.Cosine,
            Metric.IP: q.Distance.Dot,
        }[self._schema.metric]
        build = self._index.params
        if isinstance(build, HnswBuild):
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
            raise StoreError(f"{loose} of {info.points_count} points are not indexed")
        build = self._index.params
        assert isinstance(build, HnswBuild)
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

    # -- data ------------------------------------------------------------------------------

    def insert(self, batch: pa.RecordBatch) -> None:
        self.upsert(batch)

    def upsert(self, batch: pa.RecordBatch) -> None:
        make, write = self._q.Point, self._q.UpdateOperation.upsert_points
        for start in range(0, batch.num_rows, _UPSERT_ROWS):
            part = batch.slice(start, _UPSERT_ROWS)
            points = list(
                map(make, _unsigned(ids_of(part)), vectors_of(part).tolist(), _payloads(part))
            )
            self._shard.update(write(points))

    def delete(self, ids: NDArray[np.int64]) -> None:
        self._shard.update(self._q.UpdateOperation.delete_points(_unsigned(ids)))

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        found = self._shard.retrieve(_unsigned(ids), with_payload=True, with_vector=True)
        return table_of(self._schema, [self._batch(found)])

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
                yield self._batch(found)
            if offset is None:
                return

    def _batch(self, records: list[Any]) -> pa.RecordBatch:
        payloads = [record.payload or {} for record in records]
        return batch_of(
            self._schema,
            np.array([record.id for record in records], dtype=np.uint64).view(np.int64),
            np.array([record.vector for record in records], dtype=np.float32),
            {name: [payload.get(name) for payload in payloads] for name in self._types},
        )

    # -- questions -------------------------------------------------------------------------

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        q, search = self._q, self._shard.search
        if isinstance(params, HnswSearch):
            settings = q.SearchParams(hnsw_ef=params.ef_search)
        else:
            assert isinstance(params, NoParams)
            settings = q.SearchParams(exact=True)
        kept = None if where is None else self._translate(where)
        request, nearest = q.SearchRequest, q.Query.Nearest

        def run(vector: NDArray[np.float32], /) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
            found = search(request(nearest(vector.tolist()), k, None, kept, settings))
            ids = np.array([point.id for point in found], dtype=np.uint64)
            scores = np.array([point.score for point in found], dtype=np.float32)
            return ids.view(np.int64), scores

        return run

    def find(self, where: Filter, limit: int) -> NDArray[np.int64]:
        request = self._q.ScrollRequest(
            limit=limit, filter=self._translate(where), with_payload=False, with_vector=False
        )
        found, _ = self._shard.scroll(request)
        return np.array([record.id for record in found], dtype=np.uint64).view(np.int64)

    def _translate(self, where: Filter) -> Any:
        return self._q.Filter(must=[self._condition(where, holds=True)])

    def _condition(self, where: Filter, *, holds: bool) -> Any:
        """The condition under which `where` is true (`holds`), or false and not unknown."""
        q = self._q
        match where:
            case Not(part):
                return self._condition(part, holds=not holds)
            case And(parts) | Or(parts):
                conditions = [self._condition(part, holds=holds) for part in parts]
                if isinstance(where, And) is holds:
                    return q.Filter(must=conditions)
                return q.Filter(should=conditions)
            case IsNull(name):
                empty = q.IsEmptyCondition(_path(name))
                return q.Filter(must=[empty]) if holds else q.Filter(must_not=[empty])
            case _:
                comparison = self._comparison(where)
                if holds:
                    return comparison
                return q.Filter(must_not=[comparison, q.IsEmptyCondition(_path(where.field))])

    def _comparison(self, where: Eq | In | Range) -> Any:
        q = self._q
        match where:
            case Eq(name, value):
                # Qdrant matches text, integers and booleans; a float equals through a range.
                if self._types[name] is FieldType.FLOAT or isinstance(value, float):
                    return q.FieldCondition(_path(name), range=q.RangeFloat(gte=value, lte=value))
                # The binding takes Python's True for the integer 1, but numpy's for a boolean.
                exact = np.bool_(value) if isinstance(value, bool) else value
                return q.FieldCondition(_path(name), match=q.MatchValue(exact))
            case In(name, values):
                wanted = {FieldType.INT: int, FieldType.STRING: str}.get(self._types[name])
                if wanted is not None and all(type(value) is wanted for value in values):
                    return q.FieldCondition(_path(name), match=q.MatchAny(list(values)))
                return q.Filter(should=[self._comparison(Eq(name, value)) for value in values])
            case Range():
                bounds = q.RangeFloat(gt=where.gt, gte=where.gte, lt=where.lt, lte=where.lte)
                return q.FieldCondition(_path(where.field), range=bounds)


def _path(field: str) -> str:
    """The field as a JSON path of one quoted step, so that dots and brackets are plain text."""
    return field if field.isidentifier() else f'"{field}"'


def _unsigned(ids: NDArray[np.int64]) -> list[Any]:
    values: list[Any] = np.ascontiguousarray(ids, dtype=np.int64).view(np.uint64).tolist()
    return values


def _payloads(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """One payload per row, without the keys whose values are missing."""
    metadata = columns_of(batch)
    if not metadata:
        return [{}] * batch.num_rows
    columns = zip(*metadata.values(), strict=True)
    return [
        {name: value for name, value in zip(metadata, row, strict=True) if value is not None}
        for row in columns
    ]
