"""Weaviate, driven by its official client; its server is `vectrial.stores.weaviate.server`.

The facts below hold for server 1.35.2 and weaviate-client 4.23.1: they were read in the sources and
tested.

A row is identified by a uuid: its first half is fixed, its second half is the int64 id, big-endian.
`engine/src/protocols/weaviate/` makes and reads the same. Metadata columns are properties `f0`,
`f1`, … in the schema's order, since fewer names are allowed for properties than for columns. A
missing value is a missing property.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.stores import common as vt
from vectrial.stores.weaviate import existing as weaviate_existing
from vectrial.stores.weaviate import files as weaviate_files
from vectrial.stores.weaviate import graphql
from vectrial.stores.weaviate import text as weaviate_text
from vectrial.stores.weaviate.filters import translate
from vectrial.stores.weaviate.parameters import (
    Protocol,
    WeaviateConsistency,
    WeaviateHnswBuild,
    WeaviateHnswSearch,
    WeaviateReads,
    WeaviateSpreading,
    property_of,
    vector_index,
)

#: First half of every row's uuid: "vectri", and version 8 (a layout of one's own, RFC 9562).
_PREFIX = 0x7665_6374_7269_8000 << 64
_ID_BITS = (1 << 64) - 1
_VECTOR = "vector"
#: Rows of one request that writes, reads or deletes.
_ROWS = 1_000


_NOT_NATIVE = {"protocol": frozenset({Protocol.GRAPHQL})}


class Weaviate(vt.ServerStore):
    """One collection with one named vector per row."""

    name = "weaviate"
    title = "Weaviate"
    module = "weaviate"
    extra = "weaviate"
    server = "vectrial.stores.weaviate.server:WEAVIATE"
    tested = ("1.35.",)
    files = weaviate_files.FILES
    protocol = "weaviate"
    capabilities = vt.Capabilities(
        scores={
            vt.Metric.L2: vt.ScoreKind.L2_SQUARED,
            vt.Metric.COSINE: vt.ScoreKind.COSINE_DISTANCE,
            vt.Metric.IP: vt.ScoreKind.NEGATIVE_INNER_PRODUCT,
        },
        default_index="hnsw",
        indexes={
            "hnsw": vt.IndexKind(
                WeaviateHnswBuild,
                WeaviateHnswSearch,
                high_recall_params={"ef_search": 512},
                not_native=_NOT_NATIVE,
            ),
            "flat": vt.IndexKind(
                WeaviateSpreading, search=WeaviateReads, exact=True, not_native=_NOT_NATIVE
            ),
        },
        filters=vt.ALL_OPERATORS,
        find=vt.ALL_OPERATORS,
        field_types=frozenset(vt.FieldType),
        nulls=True,
        spaces_in_text=False,
        kept_int=2**53,  # its client sends them as float64
        payload_index=True,
        filters_need_index=True,
        persistent=True,
        concurrent_search=True,
        clusters=True,
        returns=frozenset(vt.Returning),
        durability={
            vt.Durability.BUFFERED: "a write is in the log, which the system writes to the disk"
            " when it likes: there is no setting for more"
        },
        hybrid=weaviate_text.HYBRID,
        existing=vt.Attaching(
            settings=frozenset({"ef_search"}), condition=weaviate_existing.CONDITION
        ),
        caveats=(
            "ef_search is a setting of the collection: of two searches, the one prepared last"
            " decides for both",
            "where a filter keeps fewer rows than flat_search_cutoff (40,000), these are scanned"
            " exactly whatever ef_search says",
            "only indexed properties can be filtered; a column that is indexed has an index of"
            " values and one of missing values, a number also one of ranges (indexRangeFilters, off"
            " by default), without which a range reads every value in it, one by one",
            "vectors are normalised when stored under cosine",
            "integers travel as float64, exact up to 2^53; white space around text is ignored in"
            " comparisons; minus zero, which is equal to zero, is below every other number (1.35.2)"
            " and written as zero",
            "full-text indexes are of the older kind (USE_INVERTED_SEARCHABLE=false, of our own"
            " server): the default kind of 1.35.2 was seen to lose rows that match",
            "there is no way to force the log to the disk: flush does nothing",
            "the official client asks again, with growing pauses, when the server cannot be"
            " reached: such a search is slow instead of failed; the native lane counts it",
        ),
    )

    def _connect(self, address: vt.Address) -> Any:
        import weaviate
        from weaviate.classes.init import AdditionalConfig, Auth, Timeout

        key = address.secrets.get("api_key")
        vt.trust(address.ca)
        client = weaviate.connect_to_custom(
            http_host=address.host_of("http"),
            http_port=address.ports["http"],
            http_secure=address.tls,
            grpc_host=address.host_of("grpc"),
            grpc_port=address.ports["grpc"],
            grpc_secure=address.tls,
            auth_credentials=Auth.api_key(key) if key else None,
            additional_config=AdditionalConfig(
                timeout=Timeout(init=10, query=60, insert=300),
                trust_env=address.ca is not None,  # it has no setting for certificates
            ),
            skip_init_checks=True,  # these look for newer versions of the client
        )
        self._collection: Any = client.collections.get(self._name)
        self._ef_search: int | None = None
        #: Name of the vector in searches of a collection that somebody else made, which may have
        #: several.
        self._target_vector: str | None = None
        return client

    def version(self) -> str:
        return str(self._client.get_meta()["version"])

    def _create(self) -> None:
        from weaviate.classes.config import Configure, Property, StopwordsPreset, VectorDistances

        schema = self._schema
        distance = {
            vt.Metric.L2: VectorDistances.L2_SQUARED,
            vt.Metric.COSINE: VectorDistances.COSINE,
            vt.Metric.IP: VectorDistances.DOT,
        }[schema.metric]
        self._collection = self._client.collections.create(
            self._name,
            properties=[
                Property(name=self._names[field.name], **property_of(field))
                for field in schema.fields
            ],
            vector_config=Configure.Vectors.self_provided(
                name=_VECTOR, vector_index_config=vector_index(self._index.params, distance)
            ),
            inverted_index_config=Configure.inverted_index(
                index_null_state=True, stopwords_preset=StopwordsPreset.NONE
            ),
            sharding_config=Configure.sharding(desired_count=self._shards),
            replication_config=Configure.replication(factor=self._copies),
        )

    def describe(self, existing: vt.Existing) -> vt.Description:
        return weaviate_existing.describe(self._client, existing)

    def _attach(self) -> None:
        self._collection = weaviate_existing.open_collection(
            self._client, self._name, self._own_condition
        )
        named = self._collection.config.get().vector_config
        self._target_vector = self._vector_name if named else None

    def _ids(self, rows: Sequence[Any]) -> NDArray[np.int64]:
        """Ids (n,) of rows of an answer."""
        if self._attached:
            return self._keys.ids([str(row.uuid) for row in rows])
        return np.array([row.uuid.int & _ID_BITS for row in rows], np.uint64).view(np.int64)

    def _exists(self) -> bool:
        return bool(self._client.collections.exists(self._name))

    def open(self, schema: vt.Schema, index: vt.Index) -> None:
        super().open(schema, index)
        if index.kind == "hnsw":
            config = self._collection.config.get().vector_config[_VECTOR]
            self._ef_search = config.vector_index_config.ef

    def drop(self) -> None:
        self._client.collections.delete(self._name)

    def wait_indexed(self) -> str:
        """Wait until every vector is indexed. With ASYNC_INDEXING off, as on our own server, a
        vector is indexed before its insert is acknowledged; with it on, the shard's queue tells."""

        def state() -> tuple[bool, str]:
            shards = self._shard_states()
            queued = sum(shard.vector_queue_length for shard in shards)
            states = {shard.vector_indexing_status for shard in shards}
            if shards and not queued and states <= {"READY"}:
                return (
                    True,
                    "the shard's status is READY and its queue of vectors to index is empty",
                )
            return False, f"{queued} vectors still queued, status {', '.join(states)}"

        return vt.wait_until(state)

    def unindexed_rows(self) -> int:
        return sum(shard.vector_queue_length for shard in self._shard_states())

    def _shard_states(self) -> list[Any]:
        """State of every shard on every node."""
        nodes = self._client.cluster.nodes(self._name, output="verbose")
        return [shard for node in nodes for shard in node.shards]

    def upsert(self, batch: pa.RecordBatch) -> None:
        from weaviate.classes.data import DataObject

        vt.check(batch, self._schema)
        for part in vt.slices(batch, _ROWS):
            ids, metadata = vt.ids_of(part).tolist(), vt.row_values(part, self._schema)
            rows = zip(ids, vt.vectors_of(part).tolist(), metadata, strict=True)
            objects = [
                DataObject(uuid=_uuid(id_), vector={_VECTOR: vector}, properties=properties)
                for id_, vector, properties in rows
            ]
            errors = self._writable_collection().data.insert_many(objects).errors
            if errors:
                reason = next(iter(errors.values())).message
                raise vt.PartialFailure(reason, [ids[at] for at in errors])

    def delete(self, ids: NDArray[np.int64]) -> None:
        from weaviate.classes.query import Filter as Where

        for page in vt.id_pages(ids, _ROWS):
            which = Where.by_id().contains_any([_uuid(id_) for id_ in page])
            deleted = self._writable_collection().data.delete_many(where=which, verbose=True)
            if deleted.failed:
                failed = [row for row in deleted.objects if not row.successful]
                raise vt.PartialFailure(str(failed[0].error), [_id(row.uuid) for row in failed])

    def _writable_collection(self) -> Any:
        """The collection, for writing."""
        params = self._index.params
        assert isinstance(params, WeaviateSpreading)
        return self._collection_at(params.write_consistency)

    def _collection_at(self, level: WeaviateConsistency | None) -> Any:
        """The collection, at a consistency level."""
        from weaviate.classes.config import ConsistencyLevel

        if level is None:
            return self._collection
        return self._collection.with_consistency_level(ConsistencyLevel[level.name])

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        return vt.get_pages(self._schema, ids, _ROWS, self._read)

    def _read(self, ids: list[int]) -> pa.RecordBatch:
        uuids = self._keys.keys(ids) if self._attached else [_uuid(id_) for id_ in ids]
        query = self._collection.query
        found = query.fetch_objects_by_ids(uuids, limit=len(ids), include_vector=True).objects
        return self._batch(list(filter(self._has_vector, found)))

    def count(self) -> int:
        if self._attached:  # objects without a vector are in no answer, and no filter knows them
            return sum(len(page) for page in self._pages(_ROWS, metadata=False))
        return int(self._collection.aggregate.over_all(total_count=True).total_count)

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        for page in self._pages(min(batch_size, _ROWS)):
            yield self._batch(page)

    def _pages(self, size: int, *, metadata: bool = True) -> Iterator[list[Any]]:
        """All rows, `size` at a time."""
        iterator = self._collection.iterator(
            include_vector=True, return_properties=None if metadata else False, cache_size=size
        )
        rows = filter(self._has_vector, iterator)
        while page := list(islice(rows, size)):
            yield page

    def _has_vector(self, row: Any) -> bool:
        return bool(row.vector.get(self._vector_name))

    def _batch(self, rows: list[Any]) -> pa.RecordBatch:
        vectors = [row.vector[self._vector_name] for row in rows]
        values = [row.properties for row in rows]
        return vt.batch_of_rows(self._schema, self._ids(rows), vectors, values, self._names)

    def _searcher(self, request: vt.SearchRequest) -> vt.Searcher:
        from weaviate.classes.query import MetadataQuery

        self._apply_search_params(request.params)
        level, protocol = _level(request.params), _protocol(request.params)
        if protocol is Protocol.GRAPHQL:
            if self._attached:
                raise vt.Unsupported("weaviate: such a collection is asked over gRPC alone")
            return graphql.searcher(self._client, self._name, _VECTOR, request, level)
        collection = self._collection_at(level)
        search, k, returning = collection.query.near_vector, request.k, request.returning
        native_filter = None if request.where is None else self._translate(request.where)
        distance = MetadataQuery(distance=True)
        properties = list(self._names.values()) if returning is vt.Returning.METADATA else False
        name, ids_of = self._vector_name, self._ids
        vector_too = returning is vt.Returning.VECTORS and weaviate_existing.include_vector(name)

        def run(vector: NDArray[np.float32], /) -> vt.Hits:
            found = search(
                vector.tolist(),
                limit=k,
                filters=native_filter,
                return_metadata=distance,
                return_properties=properties or False,
                include_vector=vector_too,
                target_vector=self._target_vector,
            ).objects
            scores = np.array([row.metadata.distance for row in found], dtype=np.float32)
            return ids_of(found), scores

        return run

    def hybrid_searcher(self, k: int, params: vt.Params, blend: vt.Blend) -> vt.HybridSearcher:
        if _protocol(params) is Protocol.GRAPHQL:
            raise vt.Unsupported("weaviate: hybrid searches are asked over gRPC alone")
        self._apply_search_params(params)
        column = self._names[blend.field]
        collection = self._collection_at(_level(params))
        search = weaviate_text.build_query(collection.query, column, k, blend)

        def run(vector: NDArray[np.float32], text: str, /) -> vt.Hits:
            found = search(vector, text)
            ids = np.array([row.uuid.int & _ID_BITS for row in found], dtype=np.uint64)
            scores = np.array([row.metadata.score for row in found], dtype=np.float32)
            return ids.view(np.int64), scores

        return run

    def _native_search(self, request: vt.SearchRequest) -> vt.NativeSearch:
        # The client's own conversion, so that both lanes ask the same.
        from weaviate.collections.filters import _FilterToGRPC

        if _protocol(request.params) is Protocol.GRAPHQL:
            raise vt.Unsupported("weaviate: the engine asks over gRPC alone")
        self._apply_search_params(request.params)
        native_filter = None
        if request.where is not None:
            condition = self._translate(request.where)
            native_filter = _FilterToGRPC.convert(condition).SerializeToString()
        options = self._native_options(_level(request.params))
        match request.returning:
            case vt.Returning.METADATA:
                options["properties"] = ",".join(self._names.values())
            case vt.Returning.VECTORS:
                options["with_vector"] = "true"
        return vt.NativeSearch(self._native_target(), options, native_filter)

    def native_rows(self) -> vt.NativeRows:
        # The result of `get`: every property, and the vector.
        whole = {"properties": ",".join(self._names.values()), "with_vector": "true"}
        params = self._index.params
        assert isinstance(params, WeaviateSpreading)
        options = self._native_options(params.write_consistency)
        return vt.NativeRows(self._native_target(), options | whole, self._names)

    def _native_target(self) -> vt.LoadTarget:
        key = self._address.secrets.get("api_key")
        return self._target(headers=[("authorization", f"Bearer {key}")] if key else ())

    def _native_options(self, level: WeaviateConsistency | None) -> dict[str, str]:
        consistency = {} if level is None else {"consistency": level.value}
        return {"collection": self._name, "vector": _VECTOR, **consistency}

    def _apply_search_params(self, params: vt.Params) -> None:
        """Apply the search parameters, which the server stores with the collection."""
        if not isinstance(params, WeaviateHnswSearch):
            return
        if self._attached:
            if params.ef_search is not None:
                raise vt.Unsupported("weaviate: ef_search is a setting of the collection")
            return
        from weaviate.classes.config import Reconfigure

        ef = -1 if params.ef_search is None else params.ef_search
        if ef != self._ef_search:
            changed = Reconfigure.VectorIndex.hnsw(ef=ef)
            self._collection.config.update(
                vector_config=Reconfigure.Vectors.update(name=_VECTOR, vector_index_config=changed)
            )
            self._ef_search = ef

    def find(self, where: vt.Filter, limit: int) -> NDArray[np.int64]:
        asked = limit
        while True:
            found = self._collection.query.fetch_objects(
                filters=self._translate(where), limit=asked, return_properties=False
            ).objects
            ids = self._ids(found)
            if not self._attached:
                return ids
            known = ids[ids >= 0][:limit]  # the others have no vector
            if len(known) == limit or len(found) < asked:
                return known
            asked *= 2

    def _translate(self, where: vt.Filter) -> Any:
        return translate(where, self._names, self._schema)


def _level(params: vt.Params) -> WeaviateConsistency | None:
    assert isinstance(params, WeaviateReads)
    return params.consistency


def _protocol(params: vt.Params) -> Protocol:
    assert isinstance(params, WeaviateReads)
    return params.protocol


def _uuid(id_: int) -> UUID:
    return UUID(int=_PREFIX | (id_ & _ID_BITS))


def _id(uuid: UUID) -> int:
    low = uuid.int & _ID_BITS
    return low - (1 << 64) if low >> 63 else low
