"""Milvus Lite: Milvus's interface over FAISS indexes, served within this process by gRPC.

The facts below hold for milvus-lite 3.2.2 with pymilvus 3.0.2: they were read in the sources and
tested.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field as Bound

from vectrial.stores import common as vt
from vectrial.stores.milvus.collection import (
    LONGEST_STRING,
    METRICS,
    build_params,
    collection_schema,
    entities,
    entities_batch,
    search_params,
)
from vectrial.stores.milvus.filters import expression

_ROWS = "rows"
_KINDS = {"hnsw": "HNSW", "ivf_flat": "IVF_FLAT", "flat": "FLAT"}
_WRITE_ROWS = 1_000


class LiteHnswBuild(vt.Params):
    """m, ef_construction: parameters of the graph of each segment."""

    m: int = Bound(default=16, ge=2, le=1024)
    ef_construction: int = Bound(default=200, ge=1, le=100_000)


class LiteHnswSearch(vt.Params):
    """ef_search: candidates held in each graph."""

    ef_search: int = Bound(default=64, ge=1, le=1_000_000)


class LiteIvfBuild(vt.Params):
    """nlist: lists of each segment's index."""

    nlist: int = Bound(default=128, ge=1, le=1_000_000)


class LiteIvfSearch(vt.Params):
    """nprobe: lists looked into."""

    nprobe: int = Bound(default=8, ge=1, le=1_000_000)


class MilvusLite(vt.Store):
    """One collection in one database folder, reached with `pymilvus.MilvusClient`.

    `describe_index` is wrong about progress here: it reports a finished index even for a type that
    cannot be built. The index file beside each data file shows that the index exists.
    """

    name: ClassVar[str] = "milvus-lite"
    title: ClassVar[str] = "Milvus Lite"
    module: ClassVar[str | None] = "milvus_lite"
    extra: ClassVar[str | None] = "milvus-lite"
    capabilities: ClassVar[vt.Capabilities] = vt.Capabilities(
        scores={
            vt.Metric.L2: vt.ScoreKind.L2_SQUARED,
            vt.Metric.COSINE: vt.ScoreKind.COSINE_SIMILARITY,
            vt.Metric.IP: vt.ScoreKind.INNER_PRODUCT,
        },
        default_index="hnsw",
        indexes={
            "hnsw": vt.IndexKind(
                LiteHnswBuild, LiteHnswSearch, high_recall_params={"ef_search": 2048}
            ),
            "ivf_flat": vt.IndexKind(
                LiteIvfBuild, LiteIvfSearch, high_recall_params={"nprobe": 1024}
            ),
            "flat": vt.IndexKind(exact=True),
        },
        filters=vt.ALL_OPERATORS,
        find=vt.ALL_OPERATORS,
        field_types=frozenset(vt.FieldType),
        nulls=True,
        text_bytes=LONGEST_STRING,
        persistent=True,
        caveats=(
            "every call goes through gRPC to a server thread in the same process, which is Python",
            "index types that its documentation of Milvus names but this library cannot build are"
            " answered by exact scan: only those that are really built are offered",
            "rows that are not flushed, or whose segment has no index yet, are scanned exactly",
            "searches from several threads were not tried: not offered",
            "hnsw and ivf_flat leave rows out of an answer whose squared distance or inner product"
            " is 1e30 or more",
            "hnsw under a filter that few rows pass finds fewer of them than there are, whatever"
            " ef_search",
        ),
    )

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        import pymilvus

        self._pymilvus = pymilvus
        self._path = location / "milvus.db"
        self._client: Any = None

    def version(self) -> str:
        version = importlib.metadata.version
        return f"{version('milvus-lite')}, pymilvus {version('pymilvus')}"

    def create(self, schema: vt.Schema, index: vt.Index) -> None:
        self._connect(schema, index)
        made = collection_schema(self._client, schema, nullable=True)
        indexes = self._client.prepare_index_params()
        indexes.add_index(
            "vector",
            index_type=_KINDS[index.kind],
            metric_type=METRICS[schema.metric],
            # The client puts these beside the type, where the library looks for one entry of all.
            params={"params": build_params(index.params)},
        )
        self._client.create_collection(_ROWS, schema=made, index_params=indexes)

    def open(self, schema: vt.Schema, index: vt.Index) -> None:
        self._connect(schema, index)
        self._client.load_collection(_ROWS)

    def _connect(self, schema: vt.Schema, index: vt.Index) -> None:
        self._schema, self._index = schema, index
        from pymilvus.client.cache import GlobalCache

        # It keeps schemas by address, and this file's server may have the port of an earlier one.
        GlobalCache.schema.clear()
        self._client = self._pymilvus.MilvusClient(str(self._path))

    def close(self) -> None:
        if self._client is None:
            return
        from milvus_lite.server_manager import server_manager_instance

        self._client.close()
        self._client = None
        server_manager_instance.release_server(str(self._path))

    def drop(self) -> None:
        self.close()
        vt.empty_folder(self.location)

    def flush(self) -> None:
        self._client.flush(_ROWS)

    def wait_indexed(self) -> str:
        self._client.flush(_ROWS)
        # A flush leaves indexes to a background thread that only closing waits for, and a load
        # beside it reads index files half written. Loading after that attaches the index of every
        # segment, building those that are missing.
        schema, index = self._schema, self._index
        self.close()
        self.open(schema, index)
        if self._index.kind == "flat":
            return "there is no index to build: every search scans all rows"
        vt.wait_until(self._index_state, limit_s=600)
        return "flushed, opened anew and loaded; every data file has its index file beside it"

    def _index_state(self) -> tuple[bool, str]:
        missing = self._without_index()
        return not missing, f"segments without an index: {missing}"

    def _without_index(self) -> list[str]:
        """Data files that have no index file."""
        kind = _KINDS[self._index.kind].lower()
        partitions = self._path.glob(f"collections/{_ROWS}/partitions/*")
        return [
            data.name
            for partition in partitions
            for data in (partition / "data").glob("data_*.parquet")
            if not (partition / "indexes" / f"{data.stem}.vector.{kind}.idx").exists()
        ]

    def insert(self, batch: pa.RecordBatch) -> None:
        self._write(self._client.insert, batch)

    def upsert(self, batch: pa.RecordBatch) -> None:
        self._write(self._client.upsert, batch)

    def _write(self, write: Any, batch: pa.RecordBatch) -> None:
        vt.check(batch, self._schema)
        for part in vt.slices(batch, _WRITE_ROWS):
            write(_ROWS, entities(part, self._schema))

    def delete(self, ids: NDArray[np.int64]) -> None:
        if len(ids):
            self._client.delete(_ROWS, ids=ids.tolist())

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        if not len(ids):
            return vt.table_of(self._schema, [])
        names = ["id", "vector", *self._schema.columns.values()]
        found = list(self._client.get(_ROWS, ids=ids.tolist(), output_fields=names))
        return vt.table_of(self._schema, [entities_batch(self._schema, found)])

    def count(self) -> int:
        found = self._client.query(_ROWS, filter="", output_fields=["count(*)"])
        return int(found[0]["count(*)"])

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        ids = np.sort(self._ids(""))
        for start in range(0, len(ids), batch_size):
            yield from self.get(ids[start : start + batch_size]).to_batches()

    def searcher(self, k: int, params: vt.Params, where: vt.Filter | None = None) -> vt.Searcher:
        search = self._client.search
        metric = METRICS[self._schema.metric]
        settings = {"metric_type": metric, "params": search_params(params)}
        condition = "" if where is None else self._translate(where)

        def run(vector: NDArray[np.float32], /) -> vt.Hits:
            found = search(_ROWS, [vector], filter=condition, limit=k, search_params=settings)[0]
            ids = np.array([hit["id"] for hit in found], dtype=np.int64)
            return ids, np.array([hit["distance"] for hit in found], dtype=np.float32)

        return run

    def find(self, where: vt.Filter, limit: int) -> NDArray[np.int64]:
        return self._ids(self._translate(where), limit)

    def _ids(self, condition: str, limit: int | None = None) -> NDArray[np.int64]:
        most = self.count() if limit is None else limit
        if not most:
            return np.empty(0, np.int64)
        found = self._client.query(_ROWS, filter=condition, output_fields=["id"], limit=most)
        return np.array([row["id"] for row in found], dtype=np.int64)

    def _translate(self, where: vt.Filter) -> str:
        return expression(vt.coerce_values(where, self._schema), self._schema.columns)
