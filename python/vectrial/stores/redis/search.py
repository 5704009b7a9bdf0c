"""Redis' query engine (`FT.CREATE`, `FT.SEARCH`), driven by its official client.

It runs as the module RediSearch 2.10.5 in Redis 8.2.3, since package registries have no closer
versions; in Redis' official image, as a part of the server; or on the user's own server.

A row is a hash under `KEY:ID`, with its vector in the field `vector` and metadata in `f0`, `f1`, …
in the order of the schema's fields; a missing value is a missing field. An index of the name `KEY`
follows the hashes.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field as Bound

from vectrial.model.file_categories import FileKind
from vectrial.stores import common as vt
from vectrial.stores.redis import existing as redis_existing
from vectrial.stores.redis import query
from vectrial.stores.redis.common import DURABILITY, FILES, ROWS, RedisStore
from vectrial.stores.redis.existing import as_text, index_info


class QueryEngineBuild(vt.Params):
    """m, ef_construction: parameters of the graph (the lowest layer has up to 2m links)."""

    m: int = Bound(default=16, ge=2, le=4096)
    ef_construction: int = Bound(default=200, ge=1, le=4096)


class QueryEngineSearch(vt.Params):
    """ef_search: candidates held during the search (EF_RUNTIME)."""

    ef_search: int = Bound(default=10, ge=1, le=4096)


class RedisSearch(RedisStore):
    """Hashes under one prefix, and one index over them."""

    name = "redis-search"
    title = "Redis query engine"
    server = "vectrial.stores.redis.server:REDIS_SEARCH"
    files = MappingProxyType({**FILES, "*.rdb": FileKind.ROWS})  # its index is built anew
    least = (8, 0)
    tried = "8.2.3 with RediSearch 2.10.5"
    dialect = MappingProxyType({"engine": "search"})
    capabilities = vt.Capabilities(
        scores={
            vt.Metric.L2: vt.ScoreKind.L2_SQUARED,
            vt.Metric.COSINE: vt.ScoreKind.COSINE_DISTANCE,
            vt.Metric.IP: vt.ScoreKind.ONE_MINUS_INNER_PRODUCT,
        },
        default_index="hnsw",
        indexes={
            "hnsw": vt.IndexKind(
                QueryEngineBuild,
                QueryEngineSearch,
                recall_floors={vt.Metric.IP: 0.7},
                high_recall_params={"ef_search": 1000},
            ),
            "flat": vt.IndexKind(exact=True),
        },
        filters=vt.ALL_OPERATORS,
        find=vt.ALL_OPERATORS,
        field_types=frozenset(vt.FieldType),
        nulls=True,
        most_int=2**53,  # they are float64 there
        text_bytes=4096,  # of a tag; longer ones are stored and not indexed, without a word
        persistent=True,
        concurrent_search=True,
        returns=frozenset({vt.Returning.IDS, vt.Returning.METADATA}),
        durability=DURABILITY,
        buffered_s=2.0,
        hybrid=(
            "is asked for no search by text: as a module it has no FT.HYBRID, so that the fusion"
            " would be the client's"
        ),
        existing=vt.Attaching(defaults=True, condition="@price:[0 100]"),
        caveats=(
            "only indexed fields can be filtered, so every column is indexed",
            "under a filter the engine chooses between the graph and a scan of what the filter"
            " keeps (its hybrid policy)",
            "filters compare numbers as float64: integers are exact up to 2^53",
            "percent signs, control characters and spaces at an end of a text are stored as %25,"
            " %0A, %20, …, since tags are trimmed and queries cannot say them",
            "durability is a setting of the server, not of a collection",
            "searches have no time limit (TIMEOUT 0); by default they would end after 500 ms with"
            " what they have",
            "as a module of Redis 7.4's time, it indexes and searches in the server's one thread",
        ),
    )

    def _connect(self, address: vt.Address) -> Any:
        self._prefix = f"{self._name}:"
        self._stored_vector = b"vector"  # the field of a hash
        self._documents = False
        return super()._connect(address)

    def _create(self) -> None:
        # The prefix is new, so there is nothing to scan for. A scan, which runs in the background,
        # would index rows that are inserted meanwhile a second time.
        about = ("ON", "HASH", "PREFIX", 1, self._prefix, "SKIPINITIALSCAN")
        self._client.execute_command(
            *("FT.CREATE", self._name, *about, "SCHEMA"),
            *query.vector_field(self._schema, self._index.kind, self._index.params),
            *query.fields(self._schema),
        )

    def describe(self, existing: vt.Existing) -> vt.Description:
        return redis_existing.describe(self._client, existing).description

    def _attach(self) -> None:
        found = redis_existing.describe(
            self._client,
            vt.Existing(self._name, vector=self._vector_name, where=self._own_condition),
        )
        self._prefix, self._stored_vector = found.prefix, found.stored_vector.encode()
        self._documents = found.documents

    def _exists(self) -> bool:
        return bool(index_info(self._client, self._name))  # raises when there is none

    def _bind(self, schema: vt.Schema, index: vt.Index) -> None:
        super()._bind(schema, index)
        remove_time_limit(self._client)

    def version(self) -> str:
        return version(self._client)

    def drop(self) -> None:
        drop_index(self._client, self._name)

    def wait_indexed(self) -> str:
        return wait_indexed(self._client, self._name)

    def insert(self, batch: pa.RecordBatch) -> None:
        self._write(batch, replace=False)

    def upsert(self, batch: pa.RecordBatch) -> None:
        self._write(batch, replace=True)

    def _write(self, batch: pa.RecordBatch, *, replace: bool) -> None:
        vt.check(batch, self._schema)
        for part in vt.slices(batch, ROWS):
            ids, metadata = vt.ids_of(part).tolist(), vt.row_values(part, self._schema)
            with self._client.pipeline(transaction=False) as pipe:
                for id_, vector, row in zip(ids, vt.vectors_of(part), metadata, strict=True):
                    fields = {name: query.to_hash_text(value) for name, value in row.items()}
                    if replace:  # or fields that the new row lacks would stay
                        pipe.delete(self._key(id_))
                    pipe.hset(self._key(id_), mapping={"vector": vector.tobytes(), **fields})
                self._execute(pipe, ids)

    def _key(self, id_: int | str) -> str:
        return f"{self._prefix}{id_}"

    def delete(self, ids: NDArray[np.int64]) -> None:
        for page in vt.id_pages(ids, ROWS):
            self._client.delete(*map(self._key, page))

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        return vt.get_pages(self._schema, ids, ROWS, self._read)

    def _read(self, ids: list[int]) -> pa.RecordBatch:
        return self._rows(self._keys.keys(ids))

    def _rows(self, keys: list[Any]) -> pa.RecordBatch:
        """Rows by their keys without the prefix; hashes without a vector are not rows."""
        if self._documents:
            return self._document_rows(keys)
        with self._client.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.hgetall(self._key(key))
            answers = pipe.execute()
        vector = self._stored_vector
        found = [(key, row) for key, row in zip(keys, answers, strict=True) if vector in row]
        return vt.batch_of_rows(
            self._schema,
            self._keys.ids([key for key, _ in found]),
            [np.frombuffer(row[vector], "<f4") for _, row in found],
            [self._values(row) for _, row in found],
            self._names,
        )

    def _document_rows(self, keys: list[Any]) -> pa.RecordBatch:
        """Rows of JSON documents, by their keys; see `_rows`."""
        vector, paths = self._stored_vector.decode(), [f"$.{name}" for name in self._names.values()]
        every = list(map(self._key, keys))
        answers = redis_existing.read_documents(self._client, every, [vector, *paths])
        found = [(k, row) for k, row in zip(keys, answers, strict=True) if row and vector in row]
        return vt.batch_of_rows(
            self._schema,
            self._keys.ids([key for key, _ in found]),
            [np.array(row[vector], np.float32) for _, row in found],
            [{name: row.get(f"$.{name}") for name in self._names.values()} for _, row in found],
            self._names,
        )

    def _values(self, row: dict[bytes, bytes]) -> dict[str, Any]:
        return {
            name: query.from_hash_text(
                row.get(name.encode()), self._schema.types[field], own=not self._attached
            )
            for field, name in self._names.items()
        }

    def count(self) -> int:
        if not self._attached:
            return self._matching_keys("*", 0)[0]
        text = self._condition(None)
        return redis_existing.count(self._client, self._name, text, self._vector_name)

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        page: list[str] = []
        for key in self._every_key():
            page.append(key[len(self._prefix) :])
            if len(page) == batch_size:
                yield self._rows(page)
                page = []
        if page:
            yield self._rows(page)

    def _every_key(self) -> Iterator[str]:
        """Every key once: `SCAN` may repeat keys, so those already seen are remembered."""
        if self._attached:
            for page in redis_existing.keys(self._client, self._name, self._condition(None)):
                yield from page
            return
        seen: set[str] = set()
        for name in self._client.scan_iter(match=f"{self._prefix}*", count=ROWS):
            if (key := name.decode()) not in seen:
                seen.add(key)
                yield key

    def _searcher(self, request: vt.SearchRequest) -> vt.Searcher:
        from redis.commands.search.query import Query

        search = self._client.ft(self._name).search
        k, params = request.k, request.params
        ef = "" if (given := self._ef_runtime(params)) is None else f" EF_RUNTIME {given}"
        near = f"KNN {k} @{self._vector_name} $vector{ef} AS score"
        text = f"({self._condition(request.where)})=>[{near}]"
        fields = self._names.values() if request.returning is vt.Returning.METADATA else ()
        prepared = Query(text).sort_by("score").return_fields("score", *fields)
        prepared = prepared.paging(0, k).dialect(2)
        start, ids_of = len(self._prefix), self._keys.ids

        def run(vector: NDArray[np.float32], /) -> vt.Hits:
            found = search(prepared, query_params={"vector": vector.tobytes()})["results"]
            ids = ids_of([row["id"][start:] for row in found])
            scores = (float(row["extra_attributes"]["score"]) for row in found)
            return ids, np.fromiter(scores, np.float32, len(found))

        return run

    def _ef_runtime(self, params: vt.Params) -> int | None:
        """The ef_runtime to send; None: there is none, or the index's own."""
        return self._param(params, "ef_search") if isinstance(params, QueryEngineSearch) else None

    def _condition(self, where: vt.Filter | None) -> str:
        further = ""
        if where is not None:
            further = query.condition(
                where, self._names, self._schema.types, own=not self._attached
            )
        if not self._own_condition:
            return further or "*"
        return redis_existing.combine_queries(self._own_condition, further)

    def _native_search(self, request: vt.SearchRequest) -> vt.NativeSearch:
        params, where = request.params, request.where
        options = {"collection": self._name, "vector": self._vector_name}
        if (given := self._ef_runtime(params)) is not None:
            options["ef"] = str(given)
        returned = {}
        if request.returning is vt.Returning.METADATA:
            returned["returning"] = ",".join(self._names.values())
        condition = None if (text := self._condition(where)) == "*" else text.encode()
        return vt.NativeSearch(self._target_with_prefix(returned), options, condition)

    def native_rows(self) -> vt.NativeRows:
        options = {"collection": self._name, "vector": "vector"}
        return vt.NativeRows(self._target_with_prefix({}), options, self._names)

    def _target_with_prefix(self, options: dict[str, str]) -> vt.LoadTarget:
        return self._target_with({"prefix": self._prefix, **options})

    def find(self, where: vt.Filter, limit: int) -> NDArray[np.int64]:
        text = self._condition(where)
        if not self._attached:
            return self._keys.ids(self._matching_keys(text, limit)[1])
        found = redis_existing.matching_keys(
            self._client, self._name, text, self._vector_name, limit
        )
        return self._keys.ids([key[len(self._prefix) :] for key in found])

    def _matching_keys(self, text: str, limit: int) -> tuple[int, list[str]]:
        """The number of matching rows, and at most `limit` of their keys, without prefix."""
        from redis.commands.search.query import Query

        answer = self._client.ft(self._name).search(
            Query(text).no_content().paging(0, limit).dialect(2)
        )
        start = len(self._prefix)
        return int(answer["total_results"]), [row["id"][start:] for row in answer["results"]]


def version(client: Any) -> str:
    """Version of the server, and of the query engine if it differs and the user may see it."""
    from redis.exceptions import NoPermissionError

    server = str(client.info("server")["redis_version"])
    try:
        modules = client.module_list()
    except NoPermissionError:
        return server
    for listed in modules:
        module = {as_text(name): value for name, value in listed.items()}
        if as_text(module["name"]) == "search":
            major, rest = divmod(int(module["ver"]), 10_000)
            own = f"{major}.{rest // 100}.{rest % 100}"
            return server if own == server else f"{server} with RediSearch {own}"
    return server


def remove_time_limit(client: Any) -> None:
    """Remove the time limit on searches: a slow one would be cut short silently."""
    import redis

    try:
        client.config_set("search-timeout", 0, "search-on-timeout", "fail")
    except redis.ResponseError as error:
        if "unknown option" not in str(error).lower():
            raise
        # A module has settings of its own.
        for name, value in (("TIMEOUT", 0), ("ON_TIMEOUT", "FAIL")):
            client.execute_command("FT.CONFIG", "SET", name, value)


def drop_index(client: Any, name: str) -> None:
    """Remove an index with its rows, if there is one."""
    import redis

    try:
        client.execute_command("FT.DROPINDEX", name, "DD")
    except redis.ResponseError as error:
        if not any(word in str(error).lower() for word in ("no such index", "unknown index")):
            raise


def wait_indexed(client: Any, name: str) -> str:
    """Wait until an index has every row; returns how that is known. Hashes are indexed as they are
    written. After a restart, or in the background, the index reports its progress."""

    def state() -> tuple[bool, str]:
        info = index_info(client, name)
        if float(info["percent_indexed"]) >= 1.0 and not int(info["indexing"]):
            return True, "FT.INFO says that all is indexed, and that nothing is being indexed"
        return False, f"only {info['percent_indexed']} of the rows are indexed"

    return vt.wait_until(state)
