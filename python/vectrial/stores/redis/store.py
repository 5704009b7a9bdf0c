"""Redis' vector sets, driven by its official client; the server is `vectrial.stores.redis.server`.

Facts below are those of Redis 8.2.3 and redis-py 8.1.0, read from their sources and tried.

A collection is one vector set; its elements are named by the rows' ids in decimal. Metadata are
the element's attributes, a JSON object with the columns as `f0`, `f1`, … in the order of the
schema's fields, null where a value is missing, and text without what a filter cannot say (see
`vectrial.stores.redis.expressions`): the same as `engine/src/protocols/redis` writes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field as Bound

from vectrial.model.errors import PartialFailure, StoreError, Unsupported
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
    NoParams,
    Params,
    Returning,
    Schema,
    Searcher,
    Store,
)
from vectrial.stores.common.arrow import batch_of, check, columns_of, ids_of, table_of, vectors_of
from vectrial.stores.redis import expressions
from vectrial.stores.redis.settings import (
    DURABILITY,
    FILES,
    flush,
    needs_version,
    set_durability,
    wire_target,
)

#: Commands of one pipeline.
_ROWS = 1_000
#: Candidates that a filter may look at: as many as there are, so that answers are full.
_ALL_CANDIDATES = 1 << 62
#: How long an answer may take, in seconds: a linear scan of a large set takes its time.
_ASK_S = 300.0
#: How vectors are kept: by index, as the protocol and the client call it.
_QUANTIZATION = {"hnsw": "noquant", "int8_hnsw": "q8", "binary_hnsw": "bin", "flat": "noquant"}


class HnswBuild(Params):
    """m, ef_construction: of the graph (the lowest layer has up to 2m links)."""

    m: int = Bound(default=16, ge=4, le=4096)
    ef_construction: int = Bound(default=200, ge=1, le=1_000_000)


class HnswSearch(Params):
    """ef_search: candidates held during the search, at least k; None: 100, or k if that is more.
    filter_ef: candidates that a filter may look at; None: all there are (Redis' own default is
    100 k, after which a selective filter's answer is short)."""

    ef_search: int | None = Bound(default=None, ge=1, le=1_000_000)
    filter_ef: int | None = Bound(default=None, ge=1, le=_ALL_CANDIDATES)


def _hnsw(**told: Any) -> IndexKind:
    return IndexKind(HnswBuild, HnswSearch, high_recall_params={"ef_search": 1000}, **told)


class Redis(Store):
    """One vector set."""

    name = "redis"
    title = "Redis vector sets"
    kind = "server"
    module = "redis"
    extra = "redis"
    server = "vectrial.stores.redis.server:REDIS"
    tested = ("8.2.",)
    files = FILES
    protocol = "redis"
    capabilities = Capabilities(
        scores={Metric.COSINE: ScoreKind.COSINE_SIMILARITY},
        default_index="hnsw",
        indexes={
            "hnsw": _hnsw(),
            "int8_hnsw": _hnsw(exact_scores=False),
            # Signs alone say little where there are few dimensions.
            "binary_hnsw": _hnsw(
                exact_scores=False, recall_floor=0.05, unsupported=frozenset({"get", "scan"})
            ),
            "flat": IndexKind(exact=True),
        },
        filters=ALL_OPERATORS,
        field_types=frozenset(FieldType),
        nulls=True,
        persistent=True,
        concurrent_search=True,
        returns=frozenset({Returning.IDS, Returning.METADATA}),
        durability=DURABILITY,
        caveats=(
            "cosine only; vectors are normalised when stored",
            "Redis' own default is int8 (here int8_hnsw); hnsw keeps float32",
            "flat is a linear scan of the same set (TRUTH), whose graph is built all the same",
            "durability is a setting of the server, not of a collection: of two stores, the one"
            " created or opened last decides for both",
            "searches run in threads of their own, writes in the one main thread",
            "a filter is evaluated on the JSON of each candidate; there is no payload index, and"
            " looking on after k candidates is unlimited unless filter_ef says otherwise",
            "quotes, backslashes, control characters and percent signs in text are stored as %22,"
            " %5C, …, %25, since a filter's strings know no escapes",
            "filters compare numbers as float64: integers are exact up to 2^53",
            "a restart reads every VADD again from the append-only file: the graph is built anew",
        ),
    )

    def __init__(self, location: Path, address: Address | None = None) -> None:
        super().__init__(location, address)
        if address is None:
            raise StoreError("redis needs the address of a server")
        from vectrial.stores.redis.server import connect

        self._address = address
        self._key = key_name(location)
        self._client = connect(address, _ASK_S)

    # -- life ------------------------------------------------------------------------------

    def version(self) -> str:
        return str(self._client.info("server")["redis_version"])

    def create(self, schema: Schema, index: Index) -> None:
        self._bind(schema, index)
        self._client.delete(self._key)  # what a killed run left behind

    def open(self, schema: Schema, index: Index) -> None:
        self._bind(schema, index)

    def _bind(self, schema: Schema, index: Index) -> None:
        needs_version(self.name, self.version(), least=(8, 2), tried="8.2.3")
        set_durability(self._client, self.durability or Durability.BUFFERED)
        self._schema, self._index = schema, index
        self._names = schema.columns
        self._types = {field.name: field.type for field in schema.fields}

    def close(self) -> None:
        self._client.close()

    def drop(self) -> None:
        self._client.delete(self._key)

    def flush(self) -> None:
        if self.durability is not Durability.MEMORY:
            flush(self._client)

    def wait_indexed(self) -> str:
        """A vector is in the graph before `VADD` answers."""
        return "VADD answers when the vector is in the graph"

    # -- data ------------------------------------------------------------------------------

    def insert(self, batch: pa.RecordBatch) -> None:
        self.upsert(batch)

    def upsert(self, batch: pa.RecordBatch) -> None:
        from redis.commands.vectorset.commands import QuantizationOptions

        check(batch, self._schema)
        settings: dict[str, Any] = {
            "quantization": QuantizationOptions(_QUANTIZATION[self._index.kind].upper())
        }
        if isinstance(self._index.params, HnswBuild):
            params = self._index.params
            settings |= {"ef": params.ef_construction, "numlinks": params.m}
        for start in range(0, batch.num_rows, _ROWS):
            part = batch.slice(start, _ROWS)
            ids = ids_of(part).tolist()
            rows = zip(ids, vectors_of(part), self._attributes(part), strict=True)
            with self._client.pipeline(transaction=False) as pipe:
                vectors = pipe.vset()
                for id_, vector, attributes in rows:
                    name, blob = str(id_), vector.tobytes()
                    vectors.vadd(self._key, blob, name, attributes=attributes, **settings)
                self._done(ids, pipe.execute(raise_on_error=False))

    def _attributes(self, batch: pa.RecordBatch) -> list[str]:
        columns = columns_of(batch, self._schema)
        if not columns:
            return [""] * batch.num_rows
        names = [self._names[column] for column in columns]
        return [
            expressions.attributes(dict(zip(names, row, strict=True)))
            for row in zip(*columns.values(), strict=True)
        ]

    def delete(self, ids: NDArray[np.int64]) -> None:
        for start in range(0, len(ids), _ROWS):
            part = ids[start : start + _ROWS].tolist()
            with self._client.pipeline(transaction=False) as pipe:
                vectors = pipe.vset()
                for id_ in part:
                    vectors.vrem(self._key, str(id_))
                self._done(part, pipe.execute(raise_on_error=False))

    def _done(self, ids: list[int], told: list[Any]) -> None:
        """Raise for the rows whose commands failed."""
        failed = {id_: one for id_, one in zip(ids, told, strict=True) if _is_error(one)}
        if failed:
            raise PartialFailure(str(next(iter(failed.values()))), list(failed))

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        self._refuse("get")
        wanted = np.unique(ids)
        parts = (wanted[at : at + _ROWS] for at in range(0, len(wanted), _ROWS))
        return table_of(self._schema, map(self._rows, parts))

    def count(self) -> int:
        return int(self._client.vset().vcard(self._key))

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        """`VRANDMEMBER` gives distinct elements: asked for as many as there are, it gives all,
        in one answer. (There is no cursor before Redis 8.4.)"""
        self._refuse("scan")
        names = self._client.vset().vrandmember(self._key, max(self.count(), 1))
        ids = np.array([int(name) for name in names or ()], dtype=np.int64)
        for start in range(0, len(ids), batch_size):
            yield self._rows(ids[start : start + batch_size])

    def _refuse(self, operation: str) -> None:
        if not getattr(self.capabilities.under(self._index.kind), operation):
            raise Unsupported(f"{self.name}: index '{self._index.kind}' has no {operation}")

    def _rows(self, ids: NDArray[np.int64]) -> pa.RecordBatch:
        with self._client.pipeline(transaction=False) as pipe:
            vectors = pipe.vset()
            for id_ in ids.tolist():
                vectors.vemb(self._key, str(id_))
                vectors.vgetattr(self._key, str(id_))
            told = pipe.execute()
        there = [at for at in range(len(ids)) if told[2 * at] is not None]
        read = [expressions.values(told[2 * at + 1]) for at in there]
        arrow = self._schema.arrow()
        return batch_of(
            self._schema,
            ids[there],
            np.array([told[2 * at] for at in there], np.float32).reshape(-1, self._schema.dim),
            {
                column: pa.array([row[name] for row in read], arrow.field(name).type)
                for column, name in self._names.items()
            },
        )

    # -- questions -------------------------------------------------------------------------

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        return self.searcher_returning(Returning.IDS, k, params, where)

    def searcher_returning(
        self, returning: Returning, k: int, params: Params, where: Filter | None = None
    ) -> Searcher:
        if returning not in self.capabilities.returns:
            return super().searcher_returning(returning, k, params, where)
        search, key = self._client.vset().vsim, self._key
        asked = self._build_query(params, where)
        asked |= {"count": k, "with_scores": True}
        if returning is Returning.METADATA:
            asked["with_attribs"] = True

        def run(vector: NDArray[np.float32], /) -> Hits:
            found = search(key, vector.tobytes(), **asked)
            ids = np.fromiter(map(int, found), np.int64, len(found))
            scores = found.values()
            if returning is Returning.METADATA:
                scores = [row["score"] for row in scores]
            # Redis' own is (1 + cosine) / 2.
            return ids, (2.0 * np.fromiter(scores, np.float64, len(found)) - 1.0).astype(np.float32)

        return run

    def _build_query(self, params: Params, where: Filter | None) -> dict[str, Any]:
        """What a search says, in the client's words."""
        asked: dict[str, Any] = {}
        if isinstance(params, HnswSearch):
            asked["ef"] = params.ef_search
        else:
            assert isinstance(params, NoParams)
            asked["truth"] = True
        if where is not None:
            asked["filter"] = expressions.expression(where, self._names, self._types)
            if isinstance(params, HnswSearch):
                asked["filter_ef"] = str(params.filter_ef or _ALL_CANDIDATES)
        return {name: value for name, value in asked.items() if value is not None}

    def native_search(
        self,
        k: int,
        params: Params,
        where: Filter | None = None,
        returning: Returning = Returning.IDS,
    ) -> NativeSearch:
        if returning not in self.capabilities.returns:
            raise Unsupported(f"{self.name}: a search over the wire returns no {returning}")
        asked = self._build_query(params, where)
        kept = asked.pop("filter", None)
        words = {"ef": "ef", "filter_ef": "filter_ef", "truth": "exact"}
        options = {word: str(asked[name]).lower() for name, word in words.items() if name in asked}
        told = {"attributes": "true"} if returning is Returning.METADATA else {}
        return NativeSearch(
            wire_target(self._address, told),
            {"collection": self._key, **options},
            None if kept is None else kept.encode(),
        )

    def native_rows(self) -> NativeRows:
        options = {"collection": self._key, "quantization": _QUANTIZATION[self._index.kind]}
        if isinstance(self._index.params, HnswBuild):
            params = self._index.params
            options |= {"ef_construction": str(params.ef_construction), "m": str(params.m)}
        return NativeRows(wire_target(self._address, {}), options, self._names)


def key_name(location: Path) -> str:
    """The key of a store at `location`: the same for the same folder."""
    return f"vectrial:{hashlib.sha256(str(location.resolve()).encode()).hexdigest()[:20]}"


def _is_error(told: Any) -> bool:
    return isinstance(told, Exception)
