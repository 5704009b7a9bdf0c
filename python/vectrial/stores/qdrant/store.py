"""Qdrant, driven by its official client over gRPC; its server is `vectrial.stores.qdrant.server`.

No package registry has the server. So this driver was tested with Qdrant's other software: the same
filters in Qdrant Edge, every call in the client's in-memory mode, and every request of the native
lane against the client's message types.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field as Bound

from vectrial.model.filters import Filter, Range, for_float64, renamed
from vectrial.stores import common as vt
from vectrial.stores.qdrant import existing as qdrant_existing
from vectrial.stores.qdrant.common import (
    NORMS,
    QdrantHnswBuild,
    QdrantHnswSearch,
    from_point_ids,
    points_batch,
    to_point_ids,
)
from vectrial.stores.qdrant.filters import ConditionConstructors, translate

if TYPE_CHECKING:
    from qdrant_client import QdrantClient


#: Rows of one request that writes or reads.
_ROWS = 1_000
_POLL_S = 0.1
_TIMEOUT_S = 300
#: Kilobytes of vectors from which a segment gets its graph once the load is over.
_INDEX_ALL_KB = 1


class Quantization(StrEnum):
    """Compression of vectors, whose originals are kept too."""

    SCALAR = "scalar"  # a byte a component
    BINARY = "binary"  # a bit a component
    PRODUCT = "product"  # sixteenfold


class ServerBuild(QdrantHnswBuild):
    """segments: that the server keeps; 0: as many as it has processors."""

    segments: int = Bound(default=0, ge=0, le=1000)


class QuantizedBuild(ServerBuild):
    """quantization: compression of the vectors in memory."""

    quantization: Quantization = Quantization.SCALAR


class QdrantQuantizedSearch(QdrantHnswSearch):
    """rescore: the best candidates are compared again by their original vectors. oversampling:
    number of these candidates as a multiple of k; None: the server's default."""

    rescore: bool = True
    oversampling: float | None = Bound(default=None, ge=1.0, le=1000.0)


class Qdrant(vt.ServerStore):
    """One collection with one unnamed vector per point, one shard; metadata is its payload.

    Ids are unsigned in Qdrant: int64 is kept as its two's complement.
    """

    name = "qdrant"
    title = "Qdrant"
    module = "qdrant_client"
    extra = "qdrant"
    server = "vectrial.stores.qdrant.server:QDRANT"
    protocol = "qdrant"
    capabilities = vt.Capabilities(
        scores={
            vt.Metric.L2: vt.ScoreKind.L2,
            vt.Metric.COSINE: vt.ScoreKind.COSINE_SIMILARITY,
            vt.Metric.IP: vt.ScoreKind.INNER_PRODUCT,
        },
        default_index="hnsw",
        indexes={
            "hnsw": vt.IndexKind(
                ServerBuild, QdrantHnswSearch, high_recall_params={"ef_search": 512}
            ),
            "hnsw_quantized": vt.IndexKind(
                QuantizedBuild,
                QdrantQuantizedSearch,
                recall_floor=0.5,
                high_recall_params={"ef_search": 512, "oversampling": 4.0},
                exact_scores=False,
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
        returns=frozenset(vt.Returning),
        durability={
            vt.Durability.BUFFERED: "wait=true: a write is in the log, a mapped file that the"
            " system writes out, and applied",
        },
        existing=vt.Attaching(defaults=True),
        hybrid=(
            "ranks no texts by their words (its text index only filters); sparse vectors, by which"
            " one could, are not asked for"
        ),
        caveats=(
            "the driver was tested with Qdrant Edge, the client's in-memory mode and its message"
            " types, and with no server, which no package registry has",
            "the load leaves what is below the server's indexing threshold without a graph; the"
            " build step lowers it to 1 KB, where it stays",
            "while fewer than full_scan_threshold_kb of vectors qualify in a segment, a search is"
            " an exact scan of it whatever ef_search says",
            "as many segments as the server has processors, each searched with ef_search",
            "vectors are normalised when stored under cosine",
            "a range compares integers as float64, exact up to 2^53",
            "reads ask one replica: with one node they see every write that was acknowledged",
        ),
    )

    def _connect(self, address: vt.Address) -> QdrantClient:
        from qdrant_client import models

        self._m = models
        self._where = ConditionConstructors(
            must=lambda conditions: models.Filter(must=conditions),
            should=lambda conditions: models.Filter(should=conditions),
            must_not=lambda conditions: models.Filter(must_not=conditions),
            empty=lambda key: models.IsEmptyCondition(is_empty=models.PayloadField(key=key)),
            equal=lambda key, value: models.FieldCondition(
                key=key, match=models.MatchValue(value=value)
            ),
            any_of=lambda key, values: models.FieldCondition(
                key=key,
                match=models.MatchAny(any=list(values)),  # type: ignore[arg-type]
            ),
            within=self._range_condition,
        )
        return connect(address)

    def _range_condition(self, name: str, where: Range) -> Any:
        bounds = where.bounds.items()
        exact = {key: for_float64(v) if isinstance(v, int) else v for key, v in bounds}
        return self._m.FieldCondition(key=name, range=self._m.Range(**exact))

    def version(self) -> str:
        return str(self._client.info().version)

    def _create(self) -> None:
        schema, models, build = self._schema, self._m, self._index.params
        distance = {
            vt.Metric.L2: models.Distance.EUCLID,
            vt.Metric.COSINE: models.Distance.COSINE,
            vt.Metric.IP: models.Distance.DOT,
        }[schema.metric]
        graph = models.HnswConfigDiff(m=0)
        segments = 0
        if isinstance(build, ServerBuild):
            segments = build.segments
            graph = models.HnswConfigDiff(
                m=build.m,
                ef_construct=build.ef_construction,
                full_scan_threshold=build.full_scan_threshold_kb,
            )
        self._client.create_collection(
            self._name,
            vectors_config=models.VectorParams(size=schema.dim, distance=distance),
            shard_number=1,
            replication_factor=1,
            hnsw_config=graph,
            optimizers_config=models.OptimizersConfigDiff(default_segment_number=segments),
            quantization_config=self._quantization(build),
        )
        types = {
            vt.FieldType.INT: models.PayloadSchemaType.INTEGER,
            vt.FieldType.FLOAT: models.PayloadSchemaType.FLOAT,
            vt.FieldType.STRING: models.PayloadSchemaType.KEYWORD,
            vt.FieldType.BOOL: models.PayloadSchemaType.BOOL,
        }
        for field in schema.fields:
            if field.indexed:
                self._client.create_payload_index(
                    self._name, schema.columns[field.name], types[field.type], wait=True
                )

    def _quantization(self, build: vt.Params) -> Any:
        models = self._m
        match build.quantization if isinstance(build, QuantizedBuild) else None:
            case Quantization.SCALAR:
                config = models.ScalarQuantizationConfig(type=models.ScalarType.INT8)
                return models.ScalarQuantization(scalar=config)
            case Quantization.BINARY:
                return models.BinaryQuantization(binary=models.BinaryQuantizationConfig())
            case Quantization.PRODUCT:
                ratio = models.CompressionRatio.X16
                product = models.ProductQuantizationConfig(compression=ratio)
                return models.ProductQuantization(product=product)
            case None:
                return None

    def describe(self, existing: vt.Existing) -> vt.Description:
        return qdrant_existing.describe(self._client, existing)

    @property
    def _vector_argument(self) -> str | None:
        """The name of the vector; None if it has none."""
        return (self._vector_name or None) if self._attached else None

    @property
    def _row_filter(self) -> Any:
        """The filter that keeps points that are rows; None if every point is a row."""
        return qdrant_existing.with_vector(self._vector_name) if self._attached else None

    def _ids(self, found: list[Any]) -> NDArray[np.int64]:
        """Ids (n,) of points of an answer."""
        keys = [point.id for point in found]
        return self._keys.ids(keys) if self._attached else from_point_ids(keys)

    def _rows(self, found: list[Any]) -> pa.RecordBatch:
        if not self._attached:
            return points_batch(self._schema, found)
        name = self._vector_argument
        each = [p.vector if name is None else (p.vector or {}).get(name) for p in found]
        found = [point for point, vector in zip(found, each, strict=True) if vector]
        vectors = [vector for vector in each if vector]
        paths = self._names.values()
        values = [qdrant_existing.values_at(point.payload or {}, paths) for point in found]
        return vt.batch_of_rows(self._schema, self._ids(found), vectors, values, self._names)

    def _exists(self) -> bool:
        return bool(self._client.collection_exists(self._name))

    def drop(self) -> None:
        self._client.delete_collection(self._name)

    def build(self) -> None:
        if isinstance(self._index.params, QdrantHnswBuild):
            all_of_it = self._m.OptimizersConfigDiff(indexing_threshold=_INDEX_ALL_KB)
            self._client.update_collection(self._name, optimizers_config=all_of_it)

    def wait_indexed(self) -> str:
        """Wait until the collection is optimized. A grey one resumes only after a change, so it
        gets one. The number of indexed vectors is inexact: it may count replaced and deleted ones.
        """
        return vt.wait_until(self._progress, poll_s=_POLL_S)

    def _progress(self) -> tuple[bool, str]:
        status = self._m.CollectionStatus
        info = self._client.get_collection(self._name)
        queued = info.update_queue.length if info.update_queue else 0
        points, indexed = info.points_count or 0, info.indexed_vectors_count or 0
        loose = 0
        if isinstance(self._index.params, QdrantHnswBuild):
            loose = max(0, points - indexed) * self._schema.dim * 4
        state = f"the collection is {info.status}, {indexed} of {points} vectors indexed"
        if info.status == status.RED or info.optimizer_status != "ok":
            raise vt.StoreError(f"{state}, and its optimizer {info.optimizer_status}")
        if info.status == status.GREY:
            nothing = self._m.OptimizersConfigDiff()
            self._client.update_collection(self._name, optimizers_config=nothing)
        if info.status == status.GREEN and not queued and loose <= _INDEX_ALL_KB * 1024:
            return True, f"{state}, and its optimizer ok"
        return False, f"{state}, {queued} updates queued"

    def upsert(self, batch: pa.RecordBatch) -> None:
        vt.check(batch, self._schema)
        for part in vt.slices(batch, _ROWS):
            points = self._m.Batch(
                ids=to_point_ids(vt.ids_of(part)),
                vectors=vt.vectors_of(part).tolist(),
                payloads=vt.row_values(part, self._schema),
            )
            self._client.upsert(self._name, points, wait=True)

    def delete(self, ids: NDArray[np.int64]) -> None:
        if len(ids):
            which = self._m.PointIdsList(points=to_point_ids(ids))
            self._client.delete(self._name, which, wait=True)

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        return vt.get_pages(self._schema, ids, _ROWS, self._read)

    def _read(self, ids: list[int]) -> pa.RecordBatch:
        keys = self._keys.keys(ids) if self._attached else to_point_ids(np.array(ids, np.int64))
        return self._rows(
            self._client.retrieve(self._name, keys, with_payload=True, with_vectors=True)
        )

    def count(self) -> int:
        there = self._row_filter
        return int(self._client.count(self._name, count_filter=there, exact=True).count)

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        offset, size = None, min(batch_size, _ROWS)
        while True:
            found, offset = self._client.scroll(
                self._name,
                scroll_filter=self._row_filter,
                limit=size,
                offset=offset,
                with_payload=True,
                with_vectors=True,
            )
            if found:
                yield self._rows(found)
            if offset is None:
                return

    def _searcher(self, request: vt.SearchRequest) -> vt.Searcher:
        from qdrant_client.conversions.conversion import RestToGrpc

        ask, name, k = self._client.query_points, self._name, request.k
        settings = RestToGrpc.convert_search_params(self._settings(request.params))
        where, returning = request.where, request.returning
        condition = None if where is None else RestToGrpc.convert_filter(self._translate(where))
        metadata, vectors = returning is vt.Returning.METADATA, returning is vt.Returning.VECTORS
        using, ids_of = self._vector_argument, self._ids

        def run(vector: NDArray[np.float32], /) -> vt.Hits:
            found = ask(
                name,
                query=vector,
                using=using,
                limit=k,
                query_filter=condition,
                search_params=settings,
                with_payload=metadata,
                with_vectors=vectors,
            ).points
            scores = np.array([point.score for point in found], dtype=np.float32)
            return ids_of(found), scores

        return run

    def _settings(self, params: vt.Params) -> Any:
        models = self._m
        if isinstance(params, QdrantQuantizedSearch):
            quantized = models.QuantizationSearchParams(
                rescore=params.rescore, oversampling=params.oversampling
            )
            return models.SearchParams(hnsw_ef=params.ef_search, quantization=quantized)
        if isinstance(params, QdrantHnswSearch):
            return models.SearchParams(hnsw_ef=params.ef_search)
        assert isinstance(params, vt.NoParams)
        return models.SearchParams(exact=True)

    def _native_search(self, request: vt.SearchRequest) -> vt.NativeSearch:
        # The client's own conversion, so that both lanes ask the same.
        from qdrant_client.conversions.conversion import RestToGrpc

        settings, returning = self._settings(request.params), request.returning
        quantized = settings.quantization
        options = {
            "collection": self._name,
            "vector": self._vector_argument,
            "ef": settings.hnsw_ef,
            "exact": settings.exact,
            "indexed_only": settings.indexed_only,
            "rescore": quantized and quantized.rescore,
            "oversampling": quantized and quantized.oversampling,
            "with_payload": returning is vt.Returning.METADATA or None,
            "with_vector": returning is vt.Returning.VECTORS or None,
        }
        condition = None
        if request.where is not None:
            condition = RestToGrpc.convert_filter(
                self._translate(request.where)
            ).SerializeToString()
        return vt.NativeSearch(self._native_target(), _options(options), condition)

    def native_rows(self) -> vt.NativeRows:
        whole = {"collection": self._name, "wait": True, "with_payload": True, "with_vector": True}
        return vt.NativeRows(self._native_target(), _options(whole), self._names)

    def _native_target(self) -> vt.LoadTarget:
        key = self._address.secrets.get("api_key")
        return self._target(headers=[("api-key", key)] if key else ())

    def find(self, where: Filter, limit: int) -> NDArray[np.int64]:
        found, _ = self._client.scroll(
            self._name,
            scroll_filter=self._m.Filter(must=[self._translate(where), self._row_filter])
            if self._attached
            else self._translate(where),
            limit=limit,
            with_payload=False,
            with_vectors=False,
        )
        return self._ids(found)

    def _translate(self, where: Filter) -> Any:
        named = renamed(vt.coerce_values(where, self._schema), self._names)
        types = {self._names[name]: kind for name, kind in self._schema.types.items()}
        return translate(named, types, self._where)


def connect(address: vt.Address) -> QdrantClient:
    """The official client, using gRPC if it can."""
    from qdrant_client import QdrantClient

    vt.trust(address.ca)
    return QdrantClient(
        host=address.host,
        port=address.ports["http"],
        grpc_port=address.ports["grpc"],
        prefer_grpc=True,
        https=address.tls,
        api_key=address.secrets.get("api_key"),
        timeout=_TIMEOUT_S,
        check_compatibility=False,  # the trial says which version it was
    )


def _options(values: dict[str, Any]) -> dict[str, str]:
    """Options for the engine's protocol; values of None are left to the server."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in values.items()
        if value is not None
    }
