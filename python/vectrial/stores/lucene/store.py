"""The base of Elasticsearch and OpenSearch as stores: documents, conditions, segments.

A row is a document whose `_id` is its int64 id in decimal digits. The id is also the value of a
field `id`. Metadata columns are the fields `f0`, `f1`, … in the schema's order, since fewer names
are allowed for fields than for columns. A missing value is a missing field. Searches read their
results from columns (doc values) if possible, not from the document's source, which holds the
vector as text.

Searches see writes after a refresh. Writes do not request one; `flush`, `wait_indexed`, `refresh`,
`count` and `scan` do, and so does making a searcher, unless `auto_refresh` is off.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.stores import common as vt
from vectrial.stores.lucene import existing as lucene_existing
from vectrial.stores.lucene import files as lucene_files
from vectrial.stores.lucene import filters as lucene_filters
from vectrial.stores.lucene import text as lucene_text
from vectrial.stores.lucene.common import (
    CONDITION,
    DURABILITY,
    SCORE_ERROR,
    SCORES,
    SegmentParams,
    authorization,
    parse_condition,
    to_declared_scores,
)

VECTOR, ID = "vector", "id"
#: Seconds that one request may take, and the merge to the final segments.
REQUEST_S, MERGE_S = 60.0, 3600.0
#: Connections that the client keeps: as many as there may be threads.
CONNECTIONS = 64
#: Rows that one answer may hold; more than the servers' own 10,000 are read page by page.
_PAGE = 10_000
#: The status of an answer to a role that may not ask.
_FORBIDDEN = 403
#: Bytes of a request that writes, by estimate; servers take 100 MB.
_REQUEST_BYTES = 20_000_000
_BYTES_PER_NUMBER = 12
#: Time for which a server keeps a point in time between two pages.
KEEP = "5m"
_TYPES: Mapping[vt.FieldType, str] = {
    vt.FieldType.INT: "long",
    vt.FieldType.FLOAT: "double",
    vt.FieldType.STRING: "keyword",
    vt.FieldType.BOOL: "boolean",
}

#: Capabilities of both servers; the indexes differ.
COMMON = vt.Capabilities(
    scores=SCORES,
    score_error=SCORE_ERROR,
    indexes={},
    default_index="hnsw",
    filters=vt.ALL_OPERATORS,
    find=vt.ALL_OPERATORS,
    field_types=frozenset(vt.FieldType),
    nulls=True,
    text_bytes=32_766,  # of a term
    payload_index=True,
    persistent=True,
    concurrent_search=True,
    clusters=True,
    returns=frozenset(vt.Returning),
    durability=DURABILITY,
    buffered_s=10.0,  # twice sync_interval, 5 s
    warm_up_s=20.0,  # a JVM
    existing=vt.Attaching(defaults=True, condition=CONDITION),
)
#: Caveats of both.
CAVEATS = (
    "each segment has a graph of its own; build merges them into one (segments = 1)",
    "nothing is searchable before a refresh: none while rows are loaded, then one a second",
    "vectors of length zero are refused under cosine",
    "numbers that are infinite or NaN are refused, and text beyond 32,766 bytes; minus zero, which"
    " is equal to zero, is below it and written as zero",
)


class LuceneStore(vt.ServerStore):
    """One index with a shard for each node and no replicas, refreshed every second once it has
    been loaded.

    vectors_in_columns: a search can return vectors from columns; else from documents.
    text_boost: factor that turns the server's text scores into BM25 scores.
    """

    collection_pattern = "vectrial_{}"  # lower case, as their names have to be
    native_port = "http"
    protocol = "elasticsearch"
    files = lucene_files.FILES
    vectors_in_columns: ClassVar[bool]
    text_boost: ClassVar[float] = 1.0

    def __init__(self, location: Path, address: vt.Address | None = None) -> None:
        super().__init__(location, address)
        #: True if this store wrote something that searches may not see yet.
        self._stale = True
        self._every_second = False
        #: The application's condition, of a collection that somebody else made.
        self._own_query: lucene_filters.Query | None = None

    @abstractmethod
    def _settings(self, index: vt.Index) -> Mapping[str, Any]:
        """Settings of the index beyond those that both servers share."""

    @abstractmethod
    def _vector_field(self, schema: vt.Schema, index: vt.Index) -> Mapping[str, Any]:
        """Mapping of the vectors' field."""

    @abstractmethod
    def _knn_body(
        self, k: int, params: vt.Params, condition: lucene_filters.Query | None
    ) -> Callable[[list[float]], dict[str, Any]]:
        """Members of a search body that find the neighbours of a vector."""

    @abstractmethod
    def _native_options(self, k: int, params: vt.Params) -> dict[str, str]:
        """The same search as options of the native protocol."""

    @abstractmethod
    def _read_vector_field(self, field: Mapping[str, Any]) -> lucene_existing.VectorField:
        """A vector field, from its mapping."""

    @abstractmethod
    def _merge(self, segments: int) -> None:
        """Merge to at most `segments` segments, which may take `MERGE_S`."""

    def version(self) -> str:
        try:
            node = next(iter(self._client.nodes.info()["nodes"].values()))
        except Exception as error:  # each client has errors of its own
            if not self._attached or lucene_existing.status_of(error) != _FORBIDDEN:
                raise
            return "not known: the role may not ask for nodes"
        return f"{node['version']} (Java {node['jvm']['version']})"

    def _create(self) -> None:
        schema, index = self._schema, self._index
        durability = "async" if self.durability is vt.Durability.BUFFERED else "request"
        settings = {
            "number_of_shards": self._shards,
            "number_of_replicas": self._copies - 1,
            # No refresh while rows are loaded; `wait_indexed` turns it on.
            "refresh_interval": "-1",
            "translog.durability": durability,
            **self._settings(index),
        }
        fields = {
            self._names[field.name]: lucene_text.text_field()
            if field.text
            else {"type": _TYPES[field.type], "index": field.indexed}
            for field in schema.fields
        }
        properties = {
            ID: {"type": "long", "index": False},
            VECTOR: self._vector_field(schema, index),
            **fields,
        }
        mappings = {"dynamic": "strict", "properties": properties}
        self._client.indices.create(
            index=self._name, body={"settings": {"index": settings}, "mappings": mappings}
        )

    def describe(self, existing: vt.Existing) -> vt.Description:
        return lucene_existing.describe(self._client, existing, self._read_vector_field)

    def _attach(self) -> None:
        self._stale = False
        self._own_query = parse_condition(self._own_condition)

    def _exists(self) -> bool:
        return bool(self._client.indices.exists(index=self._name))

    def _bind(self, schema: vt.Schema, index: vt.Index) -> None:
        super()._bind(schema, index)
        self._major = int(self.version().partition(".")[0])

    def drop(self) -> None:
        self._client.indices.delete(index=self._name, ignore_unavailable=True)

    def flush(self) -> None:
        self._client.indices.flush(index=self._name)
        self.refresh()

    def build(self) -> None:
        params = self._index.params
        assert isinstance(params, SegmentParams)
        if params.segments is not None:
            self.refresh()
            self._merge(params.segments)
            self.refresh()

    def wait_indexed(self) -> str:
        """Wait until every row is in a segment, and no running merge would replace the graphs. A
        segment has its graph before it can be searched."""
        self.refresh()
        vt.wait_until(self._merge_state, MERGE_S)
        self.refresh()
        if not self._every_second:
            settings = {"index": {"refresh_interval": "1s"}}
            self._client.indices.put_settings(index=self._name, body=settings)
            self._every_second = True
        segments = self._stats("segments")["segments"]["count"]
        return f"every row is in a segment with its index ({segments} segments), no merge runs"

    def _merge_state(self) -> tuple[bool, str]:
        merging = self._stats("merge")["merges"]["current"]
        return not merging, f"{merging} merges are still under way"

    def refresh(self) -> None:
        self._client.indices.refresh(index=self._name)
        self._stale = False

    def _stats(self, metric: str) -> Mapping[str, Any]:
        stats = self._client.indices.stats(index=self._name, metric=metric)
        found: Mapping[str, Any] = stats["_all"]["primaries"]
        return found

    def footprint(self) -> vt.Footprint:
        """The log's bytes; raw vectors and graph share files and cannot be told apart."""
        return vt.Footprint(log_bytes=int(self._stats("translog")["translog"]["size_in_bytes"]))

    def insert(self, batch: pa.RecordBatch) -> None:
        """Insert rows. An existing id is refused with a `PartialFailure`."""
        self._write("create", batch)

    def upsert(self, batch: pa.RecordBatch) -> None:
        self._write("index", batch)

    def _write(self, action: str, batch: pa.RecordBatch) -> None:
        vt.check(batch, self._schema)
        rows = max(1, _REQUEST_BYTES // (self._schema.dim * _BYTES_PER_NUMBER + 200))
        for part in vt.slices(batch, rows):
            ids, documents = vt.ids_of(part).tolist(), vt.row_values(part, self._schema)
            lines: list[Any] = []
            for id_, vector, metadata in zip(
                ids, vt.vectors_of(part).tolist(), documents, strict=True
            ):
                lines.append({action: {"_id": str(id_)}})
                lines.append({VECTOR: vector, ID: id_, **metadata})
            self._bulk(lines)

    def delete(self, ids: NDArray[np.int64]) -> None:
        for page in vt.id_pages(ids, _PAGE):
            self._bulk([{"delete": {"_id": str(id_)}} for id_ in page])

    def _bulk(self, lines: Sequence[Any]) -> None:
        self._stale = True
        answer = self._client.bulk(index=self._name, body=lines)
        if not answer["errors"]:
            return
        rows = [row for item in answer["items"] for row in item.values()]
        failed = [row for row in rows if "error" in row]
        if failed:
            error = failed[0]["error"]
            reason = f"{error['type']}: {error['reason']}"
            raise vt.PartialFailure(reason, [int(row["_id"]) for row in failed])

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        """Read rows from the documents themselves, so that rows just written are found too."""
        return vt.get_pages(self._schema, ids, _PAGE, self._read)

    def _read(self, ids: list[int]) -> pa.RecordBatch:
        if self._attached:  # documents need not hold their vectors
            keys = [str(key) for key in self._keys.keys(ids)]
            body = {
                "query": {"ids": {"values": keys}},
                "size": len(keys),
                **self._whole_row_members(),
            }
            return self._hits_batch(
                self._client.search(index=self._name, body=body)["hits"]["hits"]
            )
        body = {"ids": [str(id_) for id_ in ids]}
        answer = self._client.mget(index=self._name, body=body, **self._vector_arguments())
        return self._batch([row["_source"] for row in answer["docs"] if row["found"]])

    def _vector_arguments(self) -> dict[str, Any]:
        """Arguments of a read that returns vectors with documents."""
        return {}

    def count(self) -> int:
        self.refresh()
        body = {"query": self._all_rows_query()}
        return int(self._client.count(index=self._name, body=body)["count"])

    def _all_rows_query(self) -> lucene_filters.Query:
        """The query for every row; documents without a vector are not rows."""
        if not self._attached:
            return {"match_all": {}}
        return lucene_existing.vector_rows_query(self._vector_name, self._own_query)

    def _whole_row_members(self) -> dict[str, Any]:
        """Members of a search body that make it return whole rows."""
        own = () if self._attached else (ID,)
        return self._fields(*own, self._vector_name, *self._names.values())

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        self.refresh()
        body = {"sort": ["_doc"], "query": self._all_rows_query(), **self._whole_row_members()}
        for hits in self._pages(body, min(batch_size, _PAGE)):
            yield self._hits_batch(hits)

    def _hits_batch(self, hits: Sequence[Any]) -> pa.RecordBatch:
        """The rows in the hits of a search that returns whole rows."""
        rows = [
            {
                name: lucene_existing.single_or_list(values)
                for name, values in hit.get("fields", {}).items()
            }
            | dict(lucene_existing.paths(hit.get("_source", {})))
            | ({ID: hit["_id"]} if self._attached else {})
            for hit in hits
        ]
        return self._batch(rows)

    def _pages(self, body: dict[str, Any], size: int) -> Iterator[list[Any]]:
        """All hits of a search, `size` at a time."""
        search = self._client.search
        page = search(index=self._name, body={**body, "size": size}, scroll=KEEP)
        try:
            while hits := page["hits"]["hits"]:
                yield hits
                page = self._client.scroll(body={"scroll_id": page["_scroll_id"], "scroll": KEEP})
        finally:
            self._client.clear_scroll(body={"scroll_id": [page["_scroll_id"]]})

    def _batch(self, rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
        ids = self._keys.ids([row[ID] for row in rows])
        vectors = [row[self._vector_name] for row in rows]
        return vt.batch_of_rows(self._schema, ids, vectors, rows, self._names)

    def _searcher(self, request: vt.SearchRequest) -> vt.Searcher:
        if self.auto_refresh:
            self.refresh()
        search, collection = self._client.search, self._name
        neighbours = self._knn_body(request.k, request.params, self._condition(request.where))
        common = {"size": request.k, **self._fields(*self._returned_fields(request.returning))}
        metric, ids_of = self._schema.metric, self._ids_of()

        def run(vector: NDArray[np.float32], /) -> vt.Hits:
            answer = search(index=collection, body={**common, **neighbours(vector.tolist())})
            if answer["timed_out"] or answer["_shards"]["failed"]:
                raise vt.StoreError(f"the answer is not complete: {answer['_shards']}")
            hits = answer["hits"]["hits"]
            ids = ids_of(hits)
            scores = np.array([hit["_score"] for hit in hits], dtype=np.float64)
            return ids, to_declared_scores(scores, metric)

        return run

    def _ids_of(self) -> Callable[[list[Any]], NDArray[np.int64]]:
        """A function that reads the ids of hits."""
        if self._attached:
            known = self._keys.ids
            return lambda hits: known([hit["_id"] for hit in hits])
        return lambda hits: np.array([hit["fields"][ID][0] for hit in hits], dtype=np.int64)

    def hybrid_searcher(self, k: int, params: vt.Params, blend: vt.Blend) -> vt.HybridSearcher:
        if self.auto_refresh:
            self.refresh()
        search, collection = self._client.search, self._name
        near = self._knn_body(k if blend.alpha == 1.0 else max(k, blend.candidates), params, None)
        body = lucene_text.build_query(near, self._names[blend.field], blend, self.text_boost)
        common = {"size": k, **self._fields(ID)}

        def run(vector: NDArray[np.float32], text: str, /) -> vt.Hits:
            answer = search(index=collection, body={**common, **body(vector.tolist(), text)})
            if answer["timed_out"] or answer["_shards"]["failed"]:
                raise vt.StoreError(f"the answer is not complete: {answer['_shards']}")
            hits = answer["hits"]["hits"]
            ids = np.array([hit["fields"][ID][0] for hit in hits], dtype=np.int64)
            return ids, np.array([hit["_score"] for hit in hits], dtype=np.float32)

        return run

    def _native_search(self, request: vt.SearchRequest) -> vt.NativeSearch:
        self.refresh()
        from_source, from_columns = self._sources(self._returned_fields(request.returning))
        if self._attached and (from_source or from_columns):
            raise vt.Unsupported(f"{self.name}: over the wire rows known by _id come without more")
        options = {
            "collection": self._name,
            "vector": self._vector_name,
            **({"fields": ",".join(from_columns)} if from_columns else {}),
            **({"source": ",".join(from_source)} if from_source else {}),
            **self._native_options(request.k, request.params),
        }
        condition = self._condition(request.where)
        return vt.NativeSearch(
            self._native_target(),
            options,
            None if condition is None else json.dumps(condition).encode(),
            partial(to_declared_scores, metric=self._schema.metric),
        )

    def native_rows(self) -> vt.NativeRows:
        options = {"collection": self._name, "vector": VECTOR, "id_field": ID}
        return vt.NativeRows(self._native_target(), options, dict(self._names))

    def _native_target(self) -> vt.LoadTarget:
        allowed = authorization(self._address)
        return self._target(headers=[("authorization", allowed)] if allowed else ())

    def find(self, where: vt.Filter, limit: int) -> NDArray[np.int64]:
        if self._stale:  # at other times nothing but the question is asked, which may be timed
            self.refresh()
        returned = self._fields(*self._returned_fields(vt.Returning.IDS))
        asked = [self._condition(where), *([self._all_rows_query()] if self._attached else ())]
        body = {"query": {"bool": {"filter": asked}}, "sort": ["_doc"], **returned}
        found: list[int] = []
        ids_of = self._ids_of()
        for hits in self._hit_pages(body, limit):
            found += ids_of(hits).tolist()
            if len(found) >= limit:
                break
        return np.array(found[:limit], np.int64)

    def _hit_pages(self, body: dict[str, Any], limit: int) -> Iterable[list[Any]]:
        """The hits of a search, at least `limit` if there are that many. One request suffices if
        one answer may hold `limit` hits."""
        if limit > _PAGE:
            return self._pages(body, _PAGE)
        answer = self._client.search(index=self._name, body={**body, "size": limit})
        return [answer["hits"]["hits"]]

    def _condition(self, where: vt.Filter | None) -> lucene_filters.Query | None:
        own = self._own_query
        if where is None:
            return own
        asked = lucene_filters.query(vt.coerce_values(where, self._schema), self._names)
        return asked if own is None else {"bool": {"filter": [own, asked]}}

    def _returned_fields(self, returning: vt.Returning) -> tuple[str, ...]:
        own = () if self._attached else (ID,)
        match returning:
            case vt.Returning.IDS:
                return own
            case vt.Returning.METADATA:
                return (*own, *self._names.values())
            case vt.Returning.VECTORS:
                return (*own, self._vector_name)

    def _fields(self, *names: str) -> dict[str, Any]:
        """Members of a search body that make it return only the values of these fields."""
        from_source, from_columns = self._sources(names)
        if from_source:
            return {"_source": from_source, "docvalue_fields": from_columns}
        if self._attached:  # without stored fields there is no `_id`
            return {"_source": False, "docvalue_fields": from_columns}
        return {"_source": False, "stored_fields": "_none_", "docvalue_fields": from_columns}

    def _sources(self, names: Sequence[str]) -> tuple[list[str], list[str]]:
        """The fields read from documents, and the fields read from columns."""
        if self.vectors_in_columns:
            return [], list(names)
        vector = self._vector_name
        return [one for one in names if one == vector], [one for one in names if one != vector]
