"""Redis' query engine (`FT.CREATE`, `FT.SEARCH`), driven by its official client.

Facts below are from the documentation of Redis 8.2 and redis-py 8.1.0 and were not tried where
this was written: no registry of packages brings the query engine. It runs on a server of the
user's own, or on Redis' official image, and its conformance is to be tested there.

A row is a hash under `KEY:ID`, with its vector in the field `vector` and metadata in `f0`, `f1`, …
in the order of the schema's fields; a missing value is a missing field. An index of the name `KEY`
follows the hashes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field as Bound

from vectrial.model.errors import PartialFailure, StoreError, Unsupported
from vectrial.model.file_categories import FileKind
from vectrial.model.filters import Filter
from vectrial.model.metric import Metric, ScoreKind
from vectrial.model.store import (
    ALL_OPERATORS,
    Address,
    Capabilities,
    Durability,
    FieldType,
    Hits,
    Index,
    IndexKind,
    NativeRows,
    NativeSearch,
    Params,
    Returning,
    Schema,
    Searcher,
    Store,
)
from vectrial.stores.common.arrow import batch_of, check, columns_of, ids_of, table_of, vectors_of
from vectrial.stores.redis import query
from vectrial.stores.redis.settings import (
    DURABILITY,
    FILES,
    flush,
    needs_version,
    set_durability,
    wire_target,
)
from vectrial.stores.redis.store import key_name

_ROWS = 1_000
_ASK_S = 300.0
_POLL_S = 0.05
#: How long the server may take to index what it holds.
_INDEXING_S = 3600.0


class HnswBuild(Params):
    """m, ef_construction: of the graph (the lowest layer has up to 2m links)."""

    m: int = Bound(default=16, ge=2, le=4096)
    ef_construction: int = Bound(default=200, ge=1, le=4096)


class HnswSearch(Params):
    """ef_search: candidates held during the search (EF_RUNTIME)."""

    ef_search: int = Bound(default=10, ge=1, le=4096)


class RedisSearch(Store):
    """Hashes under one prefix, and one index over them."""

    name = "redis-search"
    title = "Redis query engine"
    kind = "server"
    module = "redis"
    extra = "redis"
    server = "vectrial.stores.redis.server:REDIS_SEARCH"
    files = MappingProxyType({**FILES, "*.rdb": FileKind.ROWS})  # its index is built anew
    protocol = "redis"
    dialect = MappingProxyType({"engine": "search"})
    capabilities = Capabilities(
        scores={
            Metric.L2: ScoreKind.L2_SQUARED,
            Metric.COSINE: ScoreKind.COSINE_DISTANCE,
            Metric.IP: ScoreKind.ONE_MINUS_INNER_PRODUCT,
        },
        default_index="hnsw",
        indexes={
            "hnsw": IndexKind(HnswBuild, HnswSearch, high_recall_params={"ef_search": 1000}),
            "flat": IndexKind(exact=True),
        },
        filters=ALL_OPERATORS,
        find=ALL_OPERATORS,
        field_types=frozenset(FieldType),
        nulls=True,
        persistent=True,
        concurrent_search=True,
        returns=frozenset({Returning.IDS, Returning.METADATA}),
        durability=DURABILITY,
        hybrid=(
            "is asked for no search by text: no server with its query engine could be had to try"
            " it on"
        ),
        caveats=(
            "only indexed fields can be filtered, so every column is indexed",
            "under a filter the engine chooses between the graph and a scan of what the filter"
            " keeps (its hybrid policy)",
            "filters compare numbers as float64: integers are exact up to 2^53",
            "durability is a setting of the server, not of a collection",
            "searches have no time limit (search-timeout 0); by default they would end after 500 ms"
            " with what they have",
        ),
    )

    def __init__(self, location: Path, address: Address | None = None) -> None:
        super().__init__(location, address)
        if address is None:
            raise StoreError("redis-search needs the address of a server")
        from vectrial.stores.redis.server import connect

        self._address = address
        self._key = key_name(location)
        self._prefix = f"{self._key}:"
        self._client = connect(address, _ASK_S)

    # -- life ------------------------------------------------------------------------------

    def version(self) -> str:
        return str(self._client.info("server")["redis_version"])

    def create(self, schema: Schema, index: Index) -> None:
        self._bind(schema, index)
        self.drop()  # what a killed run left behind
        self._client.execute_command(
            *("FT.CREATE", self._key, "ON", "HASH", "PREFIX", 1, self._prefix, "SCHEMA"),
            *query.vector_field(schema, index.kind, index.params),
            *query.fields(schema),
        )

    def open(self, schema: Schema, index: Index) -> None:
        self._bind(schema, index)
        self._told()  # raises when there is none

    def _bind(self, schema: Schema, index: Index) -> None:
        needs_version(self.name, self.version(), least=(8, 0), tried="none of them")
        set_durability(self._client, self.durability or Durability.BUFFERED)
        # Else a slow search is cut short without a word.
        self._client.config_set("search-timeout", 0, "search-on-timeout", "fail")
        self._schema, self._index = schema, index
        self._names = schema.columns
        self._types = {field.name: field.type for field in schema.fields}

    def close(self) -> None:
        self._client.close()

    def drop(self) -> None:
        import redis

        try:
            self._client.execute_command("FT.DROPINDEX", self._key, "DD")
        except redis.ResponseError as error:
            if not any(word in str(error).lower() for word in ("no such index", "unknown index")):
                raise

    def flush(self) -> None:
        if self.durability is not Durability.MEMORY:
            flush(self._client)

    def wait_indexed(self) -> str:
        """Hashes are indexed as they are written; after a restart or in the background, the
        index says how far it has come."""
        ends = time.monotonic() + _INDEXING_S
        while True:
            told = self._told()
            if float(told["percent_indexed"]) >= 1.0 and not int(told["indexing"]):
                return "FT.INFO says that all is indexed, and that nothing is being indexed"
            if time.monotonic() > ends:
                raise StoreError(f"only {told['percent_indexed']} of the rows are indexed")
            time.sleep(_POLL_S)

    def _told(self) -> dict[str, Any]:
        told = self._client.execute_command("FT.INFO", self._key)
        pairs = told.items() if isinstance(told, dict) else zip(told[::2], told[1::2], strict=True)
        return {name.decode() if isinstance(name, bytes) else name: value for name, value in pairs}

    # -- data ------------------------------------------------------------------------------

    def insert(self, batch: pa.RecordBatch) -> None:
        self._write(batch, replace=False)

    def upsert(self, batch: pa.RecordBatch) -> None:
        self._write(batch, replace=True)

    def _write(self, batch: pa.RecordBatch, *, replace: bool) -> None:
        check(batch, self._schema)
        for start in range(0, batch.num_rows, _ROWS):
            part = batch.slice(start, _ROWS)
            ids = ids_of(part).tolist()
            columns = columns_of(part, self._schema)
            names = [self._names[column] for column in columns]
            with self._client.pipeline(transaction=False) as pipe:
                for at, (id_, vector) in enumerate(zip(ids, vectors_of(part), strict=True)):
                    row = [column[at] for column in columns.values()]
                    there = {n: v for n, v in zip(names, row, strict=True) if v is not None}
                    fields = {name: query.stored(value) for name, value in there.items()}
                    if replace:  # or fields that the new row lacks would stay
                        pipe.delete(self._name(id_))
                    pipe.hset(self._name(id_), mapping={"vector": vector.tobytes(), **fields})
                told = pipe.execute(raise_on_error=False)
            each = len(told) // max(len(ids), 1)
            failed = {
                ids[at // each]: str(one)
                for at, one in enumerate(told)
                if isinstance(one, Exception)
            }
            if failed:
                raise PartialFailure(next(iter(failed.values())), list(failed))

    def _name(self, id_: int) -> str:
        return f"{self._prefix}{id_}"

    def delete(self, ids: NDArray[np.int64]) -> None:
        for start in range(0, len(ids), _ROWS):
            names = [self._name(id_) for id_ in ids[start : start + _ROWS].tolist()]
            self._client.delete(*names)

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        wanted = np.unique(ids)
        parts = (wanted[at : at + _ROWS] for at in range(0, len(wanted), _ROWS))
        return table_of(self._schema, map(self._rows, parts))

    def _rows(self, ids: NDArray[np.int64]) -> pa.RecordBatch:
        with self._client.pipeline(transaction=False) as pipe:
            for id_ in ids.tolist():
                pipe.hgetall(self._name(id_))
            told = pipe.execute()
        there = [at for at, row in enumerate(told) if row]
        vectors = [np.frombuffer(told[at][b"vector"], "<f4") for at in there]
        arrow = self._schema.arrow()
        return batch_of(
            self._schema,
            ids[there],
            np.array(vectors, np.float32).reshape(-1, self._schema.dim),
            {
                column: pa.array(
                    [query.read(told[at].get(name.encode()), self._types[column]) for at in there],
                    arrow.field(name).type,
                )
                for column, name in self._names.items()
            },
        )

    def count(self) -> int:
        return self._found("*", 0)[0]

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        """`SCAN` may give a key twice: those that were given are remembered."""
        seen: set[int] = set()
        page: list[int] = []
        for name in self._client.scan_iter(match=f"{self._prefix}*", count=_ROWS):
            id_ = int(name[len(self._prefix) :])
            if id_ in seen:
                continue
            seen.add(id_)
            page.append(id_)
            if len(page) == batch_size:
                yield self._rows(np.array(page, np.int64))
                page = []
        if page:
            yield self._rows(np.array(page, np.int64))

    # -- questions -------------------------------------------------------------------------

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        return self.searcher_returning(Returning.IDS, k, params, where)

    def searcher_returning(
        self, returning: Returning, k: int, params: Params, where: Filter | None = None
    ) -> Searcher:
        if returning not in self.capabilities.returns:
            return super().searcher_returning(returning, k, params, where)
        from redis.commands.search.query import Query

        search = self._client.ft(self._key).search
        ef = f" EF_RUNTIME {params.ef_search}" if isinstance(params, HnswSearch) else ""
        text = f"({self._condition(where)})=>[KNN {k} @vector $vector{ef} AS score]"
        fields = self._names.values() if returning is Returning.METADATA else ()
        asked = Query(text).sort_by("score").return_fields("score", *fields)
        asked = asked.paging(0, k).dialect(2)
        start = len(self._prefix)

        def run(vector: NDArray[np.float32], /) -> Hits:
            found = search(asked, query_params={"vector": vector.tobytes()}).docs
            ids = np.fromiter((int(row.id[start:]) for row in found), np.int64, len(found))
            return ids, np.fromiter((float(row.score) for row in found), np.float32, len(found))

        return run

    def _condition(self, where: Filter | None) -> str:
        return "*" if where is None else query.condition(where, self._names, self._types)

    def native_search(
        self,
        k: int,
        params: Params,
        where: Filter | None = None,
        returning: Returning = Returning.IDS,
    ) -> NativeSearch:
        if returning not in self.capabilities.returns:
            raise Unsupported(f"{self.name}: a search over the wire returns no {returning}")
        options = {"collection": self._key, "vector": "vector"}
        if isinstance(params, HnswSearch):
            options["ef"] = str(params.ef_search)
        told = {}
        if returning is Returning.METADATA:
            told["returning"] = ",".join(self._names.values())
        condition = None if where is None else self._condition(where).encode()
        return NativeSearch(self._target(told), options, condition)

    def native_rows(self) -> NativeRows:
        options = {"collection": self._key, "vector": "vector"}
        return NativeRows(self._target({}), options, self._names)

    def _target(self, options: dict[str, str]) -> Any:
        return wire_target(self._address, {**self.dialect, "prefix": self._prefix, **options})

    def find(self, where: Filter, limit: int) -> NDArray[np.int64]:
        return np.array(self._found(self._condition(where), limit)[1], np.int64)

    def _found(self, text: str, limit: int) -> tuple[int, list[int]]:
        """How many rows there are, and the ids of at most `limit`."""
        from redis.commands.search.query import Query

        told = self._client.ft(self._key).search(
            Query(text).no_content().paging(0, limit).dialect(2)
        )
        return int(told.total), [int(row.id[len(self._prefix) :]) for row in told.docs]
