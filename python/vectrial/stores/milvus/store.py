"""Milvus, driven by its official client; its server is `vectrial.stores.milvus.server`.

The facts below hold for server 2.3.5 and pymilvus 3.0.2: they were read in the sources and tested.

Rows have int64 primary keys, which are their ids, and no dynamic fields. Metadata columns are
fields `f0`, `f1`, … in the schema's order, since fewer names are allowed for fields than for
columns.
"""

from __future__ import annotations

import base64
import importlib.metadata
import io
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.stores import common as vt
from vectrial.stores.milvus import existing as milvus_existing
from vectrial.stores.milvus import files as milvus_files
from vectrial.stores.milvus.cluster import BUCKET
from vectrial.stores.milvus.collection import (
    LONGEST_STRING,
    METRICS,
    build_params,
    collection_schema,
    entities,
    search_params,
    strong_count,
)
from vectrial.stores.milvus.filters import expression
from vectrial.stores.milvus.indexes import (
    FIELD_INDEX,
    INDEXED_FROM,
    INDEXES,
    KINDS,
    IndexProgress,
    MilvusConsistency,
    MilvusReads,
    has_index,
    require_candidates,
)

#: The version that this was tried with, and the part of it that others must share.
TESTED, MAJOR = "2.3.5", "2."
_ID, _VECTOR = "id", "vector"
#: Seconds between questions after an import.
_ASK_S = 0.1
#: Rows of one request that writes or reads, and the most bytes of vectors in one that writes.
_ROWS, _BYTES = 1_000, 16 << 20
#: The most rows that a query with a limit may ask for.
_WINDOW = 16_384


class Milvus(vt.ServerStore):
    """One collection with a shard for each node and one replica."""

    name = "milvus"
    title = "Milvus"
    module = "pymilvus"
    extra = "milvus"
    server = "vectrial.stores.milvus.server:MILVUS"
    tested = (TESTED,)
    files = milvus_files.FILES
    protocol = "milvus"
    capabilities = vt.Capabilities(
        scores={
            vt.Metric.L2: vt.ScoreKind.L2_SQUARED,
            vt.Metric.COSINE: vt.ScoreKind.COSINE_SIMILARITY,
            vt.Metric.IP: vt.ScoreKind.INNER_PRODUCT,
        },
        default_index="hnsw",
        indexes=INDEXES,
        filters=vt.ALL_OPERATORS - {"is_null"},
        find=vt.ALL_OPERATORS - {"is_null"},
        field_types=frozenset(vt.FieldType),
        payload_index=True,
        persistent=True,
        concurrent_search=True,
        clusters=True,
        text_bytes=LONGEST_STRING,
        most_dim=32_768,
        partitions="by a partition key: a hash of the column chooses one of 64",
        columns=62,  # proxy.maxFieldNum is 64, id and vector among them
        returns=frozenset(vt.Returning),
        bulk_import=vt.BulkImport("minio", BUCKET),
        durability={
            vt.Durability.BUFFERED: "in the write-ahead log (rocksmq's, or Kafka's in a cluster),"
            " which is not forced to the disk; there is no way to ask for it"
        },
        existing=vt.Attaching(defaults=True, condition="price < 10"),
        hybrid="ranks texts by their words from 2.5 on, and the server that can be had is 2.3.5",
        caveats=(
            f"tested with {TESTED}, the newest that a package registry has; its program has no"
            " DISKANN, and its SCANN was not seen to end a build",
            "searches are of bounded consistency unless asked otherwise: rows written in the last"
            " 5 s may be missing; strong ones wait for a tick of the server's clock, 0.2 to 0.4 s",
            "segments of fewer than 1,024 rows get no index, whatever is asked: query nodes search"
            " them through one of their own, approximately and whatever ef_search is (recall 0.96"
            " of 1,000 rows of 32 dimensions)",
            "once in some twenty runs of the conformance suite, soon after a flush that the server"
            " compacts, deleted rows were found again; it is judged once that is done",
            "columns of bool get no index; none holds missing values, which are refused",
            "an id that is inserted twice is there twice; the ids -2^63 and 2^63 - 1 cannot be"
            " asked for",
            "ef_search below k is refused",
            "under a filter that keeps some of the rows, a search of the hnsw index may miss near"
            " ones or return fewer than k, whatever ef_search says, and differs from one time to"
            " the next; those of other indexes do not",
            "a query that was asked before may get another answer from the hnsw index than at first"
            " (recall 0.824 and then 0.813 of 300 queries); 20,000 others later it got the first"
            " again",
            "where a collection has several segments, each has an index of its own; build has them"
            " merged first, as the server does by itself in time",
            "rows that come over the wire, or from several callers, come to a collection that is"
            " indexed and served already; those of one caller of the client before that",
        ),
    )

    def _connect(self, address: vt.Address) -> Any:
        import pymilvus

        self._serving = self._flushed = self._natively_written = False
        self._own = ""  #: the application's condition, of a collection that somebody else made
        secrets = address.secrets
        return pymilvus.MilvusClient(
            address.url("grpc"),
            **({"server_pem_path": str(address.ca)} if address.ca else {}),
            user=secrets.get("user", ""),
            password=secrets.get("password", ""),
            token=secrets.get("token", ""),
            timeout=10,
        )

    def version(self) -> str:
        return f"{self._server_version()}, pymilvus {importlib.metadata.version('pymilvus')}"

    def _server_version(self) -> str:
        return str(self._client.get_server_version()).removeprefix("v")

    def _create(self) -> None:
        made = collection_schema(self._client, self._schema)
        self._client.create_collection(
            self._name, schema=made, num_shards=self._shards, consistency_level="Bounded"
        )
        self._serving, self._flushed = False, True

    def describe(self, existing: vt.Existing) -> vt.Description:
        return milvus_existing.describe(self._client, existing)

    def _attach(self) -> None:
        """Open a collection that somebody else loaded, as `describe` has checked."""
        self._serving = self._flushed = True
        self._own = self._own_condition and f"({self._own_condition})"

    def _exists(self) -> bool:
        return bool(self._client.has_collection(self._name))

    def open(self, schema: vt.Schema, index: vt.Index) -> None:
        super().open(schema, index)
        self._index_and_load()
        self._flushed = False
        self.count()  # the reads below need not wait for earlier writes

    def _bind(self, schema: vt.Schema, index: vt.Index) -> None:
        version = self._server_version()
        if not version.startswith(MAJOR):
            raise vt.StoreError(f"this is Milvus {version}, and what is here was made for {TESTED}")
        super()._bind(schema, index)

    def drop(self) -> None:
        """Release the collection, then drop it. A server that is stopped while it releases a
        dropped collection keeps asking itself for that collection until it is killed."""
        if self._client.has_collection(self._name):
            self._client.release_collection(self._name)
        self._client.drop_collection(self._name)

    def flush(self) -> None:
        self._client.flush(self._name)
        self._flushed = True

    def build(self) -> None:
        """Index every segment, have small segments merged if there are several, and load the
        collection."""
        self._make_indexes()
        self._progress().wait_merged()
        self._index_and_load()

    def _make_indexes(self) -> None:
        if self._client.list_indexes(self._name):
            return
        self._make_index(
            _VECTOR,
            index_type=KINDS[self._index.kind],
            metric_type=METRICS[self._schema.metric],
            params=build_params(self._index.params),
        )
        for field in filter(has_index, self._schema.fields):
            self._make_index(self._names[field.name], index_type=FIELD_INDEX[field.type])

    def _make_index(self, name: str, **index: Any) -> None:
        """Index one whole field. If several indexes are requested at once, the server forgets some
        until the next full minute."""
        indexes = self._client.prepare_index_params()
        indexes.add_index(name, index_name=name, **index)
        self._client.create_index(self._name, indexes, sync=False)
        self._progress().wait_indexed()

    def _index_and_load(self) -> None:
        """Index and load the collection, to make it readable. Calling it twice is harmless."""
        self._make_indexes()
        self._client.load_collection(self._name, replica_number=self._copies)
        self._serving = True

    def _loaded_client(self) -> Any:
        """The client for reads, with the collection loaded."""
        if not self._serving:
            self._index_and_load()
        return self._client

    def _progress(self) -> IndexProgress:
        structure = self._index.kind != "flat"
        row_bytes = 4 * self._schema.dim
        return IndexProgress(self._client, self._name, structure=structure, row_bytes=row_bytes)

    def wait_indexed(self) -> str:
        """Flush, check the state of every index, and compare the segments that the query nodes hold
        with the stored ones."""
        # Writes of the native lane are not known here.
        if self._natively_written or not self._flushed:
            self.flush()
        self._index_and_load()
        progress = self._progress()
        progress.wait_indexed()
        progress.wait_served()
        segments = self._client.list_loaded_segments(self._name)
        scanned = sum(one.num_rows for one in segments if one.num_rows < INDEXED_FROM)
        known = (
            "every index is Finished with no rows pending; each of the"
            f" {len(segments)} flushed segments is loaded"
            f"{' with its index' if progress.structure else ''}, and no other is"
        )
        if scanned and progress.structure:
            every = sum(one.num_rows for one in segments)
            most = "most rows: " if scanned > every / 2 else ""
            known += (
                f"; {most}{scanned} rows are in segments below {INDEXED_FROM:,} rows, which are"
                " searched approximately, whatever ef_search"
            )
        return known

    def unindexed_rows(self) -> int:
        """Rows that a strong count finds, minus those in segments served with an index. The others
        are scanned, in growing or sealed segments."""
        return max(0, self.count() - self._progress().indexed_rows())

    def insert(self, batch: pa.RecordBatch) -> None:
        self._write(self._client.insert, batch)

    def upsert(self, batch: pa.RecordBatch) -> None:
        self._write(self._client.upsert, batch)

    def _write(self, write: Any, batch: pa.RecordBatch) -> None:
        vt.check(batch, self._schema)
        for name, column in self._schema.columns.items():
            if batch.column(column).null_count:
                raise vt.StoreError(f"column '{name}' has missing values, which Milvus cannot keep")
        self._flushed = False
        rows = max(1, min(_ROWS, _BYTES // (4 * self._schema.dim)))
        for part in vt.slices(batch, rows):
            write(self._name, entities(part, self._schema))

    def import_files(self, batch: pa.RecordBatch) -> Mapping[str, bytes]:
        """A NumPy file for each column, named after the column."""
        vt.check(batch, self._schema)
        if self._schema.fields:
            raise vt.Unsupported("columns of metadata are not imported: metadata = false")
        vectors = vt.vectors_of(batch)
        return {f"{_ID}.npy": _npy_bytes(vt.ids_of(batch)), f"{_VECTOR}.npy": _npy_bytes(vectors)}

    def bulk_import(self, folders: Sequence[str]) -> Iterator[tuple[int, str]]:
        import pymilvus

        self._flushed = False
        client = self._client._get_connection()  # the ORM's calls, which this client lacks
        asked = {}
        for number, folder in enumerate(folders):
            files = [f"{folder}/{name}.npy" for name in (_ID, _VECTOR)]
            asked[client.do_bulk_insert(self._name, "", files)] = number
        failed = (
            pymilvus.BulkInsertState.ImportFailed,
            pymilvus.BulkInsertState.ImportFailedAndCleaned,
        )
        while asked:
            for task, number in list(asked.items()):
                state = client.get_bulk_insert_state(task)
                if state.state in failed:
                    del asked[task]
                    yield number, str(state.failed_reason)
                elif state.state == pymilvus.BulkInsertState.ImportCompleted:
                    del asked[task]
                    yield number, ""
            time.sleep(_ASK_S)

    def delete(self, ids: NDArray[np.int64]) -> None:
        self._flushed = False
        for page in vt.id_pages(ids, _ROWS):
            self._client.delete(self._name, ids=page)

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        return vt.get_pages(self._schema, ids, _ROWS, self._read)

    def _read(self, ids: list[int]) -> pa.RecordBatch:
        found = self._loaded_client().query(
            self._name,
            filter=self._combine_condition(
                f"{self._id_name} in {json.dumps(self._keys.keys(ids))}"
            ),
            output_fields=self._fields(),
            consistency_level=self._own_writes_level(),
        )
        return self._rows(found)

    def _rows(self, found: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
        ids = self._keys.ids([row[self._id_name] for row in found])
        vectors = [row[self._vector_name] for row in found]
        return vt.batch_of_rows(self._schema, ids, vectors, found, self._names)

    def count(self) -> int:
        return strong_count(self._loaded_client(), self._name, self._own)

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        self.count()  # strong: the pages see at least as much
        pages = self._client.query_iterator(
            self._name,
            filter=self._own,
            batch_size=min(batch_size, _WINDOW),
            output_fields=self._fields(),
        )
        try:
            while page := pages.next():
                yield self._rows(page)
        finally:
            pages.close()

    def _own_writes_level(self) -> str:
        """The consistency level at which this store sees its own writes: a session's writes are
        those sent through its client."""
        return "Strong" if self._natively_written else "Session"

    def _fields(self) -> list[str]:
        return [self._id_name, self._vector_name, *self._names.values()]

    def _searcher(self, request: vt.SearchRequest) -> vt.Searcher:
        search, name = self._loaded_client().search, self._name
        params, where = request.params, request.where
        assert isinstance(params, MilvusReads)
        arguments = {
            "filter": self._own if where is None else self._translate(where),
            "limit": request.k,
            "output_fields": self._returned_fields(request.returning),
            "search_params": {
                "metric_type": METRICS[self._schema.metric],
                "params": self._search_params(params, request.k),
            },
            "anns_field": self._vector_name,
            "retry_times": 0,
        }
        if level := self._param(params, "consistency"):
            arguments["consistency_level"] = level.capitalize()
        ids_of = self._keys.ids

        def run(vector: NDArray[np.float32], /) -> vt.Hits:
            (found,) = search(name, [vector], **arguments)
            ids = ids_of([hit["id"] for hit in found])  # whatever the primary key is called
            return ids, np.array([hit["distance"] for hit in found], dtype=np.float32)

        return run

    def _search_params(self, params: MilvusReads, k: int) -> dict[str, int]:
        """Search parameters as a request names them. For a collection that somebody else made, only
        those that are given; the server knows the others."""
        if self._attached and params.model_fields_set <= {"consistency"}:
            return {}
        require_candidates(params, k)
        return search_params(params)

    def _returned_fields(self, returning: vt.Returning) -> list[str]:
        match returning:
            case vt.Returning.IDS:
                return []
            case vt.Returning.METADATA:
                return list(self._names.values())
            case vt.Returning.VECTORS:
                return [self._vector_name]

    def _native_search(self, request: vt.SearchRequest) -> vt.NativeSearch:
        self._loaded_client()
        params, where = request.params, request.where
        assert isinstance(params, MilvusReads)
        options = {
            **self._native_options(),
            "metric": METRICS[self._schema.metric],
            "params": json.dumps(self._search_params(params, request.k)),
        }
        if level := self._param(params, "consistency"):
            options["consistency"] = level.value
        if fields := self._returned_fields(request.returning):
            options["output_fields"] = ",".join(fields)
        condition = self._own if where is None else self._translate(where)
        return vt.NativeSearch(
            self._native_target(), options, condition.encode() if condition else None
        )

    def native_rows(self) -> vt.NativeRows:
        """Native row operations. Reads are bounded: a get may miss a row written a moment ago.
        There are none before `build`: a bulk load is indexed and served once it is complete."""
        self._natively_written = True
        options = {
            **self._native_options(),
            "consistency": MilvusConsistency.BOUNDED.value,
            "output_fields": ",".join(self._fields()),
        }
        return vt.NativeRows(self._native_target(), options, self._names)

    def _native_options(self) -> dict[str, str]:
        return {"collection": self._name, "id": self._id_name, "vector": self._vector_name}

    def _native_target(self) -> vt.LoadTarget:
        header = credentials(self._address)
        return self._target(headers=[("authorization", header)] if header else ())

    def find(self, where: vt.Filter, limit: int) -> NDArray[np.int64]:
        within = {"limit": limit} if limit <= _WINDOW else {}
        found = self._loaded_client().query(
            self._name,
            filter=self._translate(where),
            output_fields=[self._id_name],
            consistency_level=self._own_writes_level(),
            **within,
        )
        return self._keys.ids([row[self._id_name] for row in found][:limit])

    def _translate(self, where: vt.Filter) -> str:
        return self._combine_condition(
            expression(vt.coerce_values(where, self._schema), self._names)
        )

    def _combine_condition(self, condition: str) -> str:
        """A condition combined with the application's own condition, if there is one."""
        return f"{self._own} and {condition}" if self._own else condition


def credentials(address: vt.Address) -> str:
    """The `authorization` header from an address's secrets: a token, or a user and password; empty
    without secrets."""
    secrets = address.secrets
    text = secrets.get("token") or ""
    if not text and "user" in secrets:
        text = f"{secrets['user']}:{secrets.get('password', '')}"
    return base64.b64encode(text.encode()).decode()


def _npy_bytes(values: NDArray[Any]) -> bytes:
    """An array as the bytes of a NumPy file."""
    sink = io.BytesIO()
    np.save(sink, values, allow_pickle=False)
    return sink.getvalue()
