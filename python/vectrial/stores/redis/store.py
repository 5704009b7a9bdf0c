"""Redis' vector sets, driven by its official client; the server is `vectrial.stores.redis.server`.

The facts below hold for Redis 8.2.3 and redis-py 8.1.0: they were read in the sources and tested.

A collection is one vector set; its elements are named by the rows' ids in decimal. Metadata are the
element's attributes, a JSON object with the columns as `f0`, `f1`, … in the order of the schema's
fields, null if a value is missing. Characters that a filter cannot express are replaced (see
`vectrial.stores.redis.expressions`). `engine/src/protocols/redis` writes the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field as Bound

from vectrial.stores import common as vt
from vectrial.stores.redis import expressions
from vectrial.stores.redis.common import DURABILITY, ROWS, RedisStore

#: Candidates that a filter may look at: as many as there are, so that answers are full.
_ALL_CANDIDATES = 1 << 62
#: Formats of stored vectors by kind of index, as the protocol and the client call them.
_QUANTIZATION = {"hnsw": "noquant", "int8_hnsw": "q8", "binary_hnsw": "bin", "flat": "noquant"}


class VectorSetBuild(vt.Params):
    """m, ef_construction: parameters of the graph (the lowest layer has up to 2m links)."""

    m: int = Bound(default=16, ge=4, le=4096)
    ef_construction: int = Bound(default=200, ge=1, le=1_000_000)


class VectorSetSearch(vt.Params):
    """ef_search: candidates held during the search, at least k; None: 100, or k if that is more.
    filter_ef: candidates that a filter may look at; None: all there are (Redis' own default is
    100 k, after which a selective filter's answer is short)."""

    ef_search: int | None = Bound(default=None, ge=1, le=1_000_000)
    filter_ef: int | None = Bound(default=None, ge=1, le=_ALL_CANDIDATES)


def _hnsw(**options: Any) -> vt.IndexKind:
    return vt.IndexKind(
        VectorSetBuild, VectorSetSearch, high_recall_params={"ef_search": 1000}, **options
    )


class Redis(RedisStore):
    """One vector set."""

    name = "redis"
    title = "Redis vector sets"
    server = "vectrial.stores.redis.server:REDIS"
    tested = ("8.2.",)
    least = (8, 2)
    tried = "8.2.3"
    capabilities = vt.Capabilities(
        scores={vt.Metric.COSINE: vt.ScoreKind.COSINE_SIMILARITY},
        default_index="hnsw",
        indexes={
            "hnsw": _hnsw(),
            "int8_hnsw": _hnsw(exact_scores=False),
            # Signs alone say little where there are few dimensions.
            "binary_hnsw": _hnsw(
                exact_scores=False, recall_floor=0.05, unsupported=frozenset({"get", "scan"})
            ),
            "flat": vt.IndexKind(exact=True),
        },
        filters=vt.ALL_OPERATORS,
        field_types=frozenset(vt.FieldType),
        nulls=True,
        most_int=2**53,  # they are float64 there
        persistent=True,
        concurrent_search=True,
        clusters=True,
        primary=True,
        returns=frozenset({vt.Returning.IDS, vt.Returning.METADATA}),
        durability=DURABILITY,
        buffered_s=2.0,
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
            "a cluster is one node that takes writes, and replicas, each with all rows: searches of"
            " the native lane go to all of them, and may miss the last writes",
        ),
    )

    def _create(self) -> None:
        """Do nothing: the first `VADD` creates the set."""

    def _exists(self) -> bool:
        return True  # an empty set has no key

    def drop(self) -> None:
        self._client.delete(self._name)

    def wait_indexed(self) -> str:
        from vectrial.stores.redis.server import is_caught_up

        offset = int(self._client.info("replication")["master_repl_offset"])
        shown = self._wait_followers(lambda node: is_caught_up(node, offset))
        return f"VADD answers when the vector is in the graph{shown}"

    def upsert(self, batch: pa.RecordBatch) -> None:
        from redis.commands.vectorset.commands import QuantizationOptions

        vt.check(batch, self._schema)
        settings: dict[str, Any] = {
            "quantization": QuantizationOptions(_QUANTIZATION[self._index.kind].upper())
        }
        if isinstance(self._index.params, VectorSetBuild):
            params = self._index.params
            settings |= {"ef": params.ef_construction, "numlinks": params.m}
        for part in vt.slices(batch, ROWS):
            ids = vt.ids_of(part).tolist()
            metadata = vt.row_values(part, self._schema, missing=True)
            with self._client.pipeline(transaction=False) as pipe:
                vectors = pipe.vset()
                for id_, vector, row in zip(ids, vt.vectors_of(part), metadata, strict=True):
                    attributes = expressions.attributes(row) if row else ""
                    blob, name = vector.tobytes(), str(id_)
                    vectors.vadd(self._name, blob, name, attributes=attributes, **settings)
                self._execute(pipe, ids)

    def delete(self, ids: NDArray[np.int64]) -> None:
        for page in vt.id_pages(ids, ROWS):
            with self._client.pipeline(transaction=False) as pipe:
                vectors = pipe.vset()
                for id_ in page:
                    vectors.vrem(self._name, str(id_))
                self._execute(pipe, page)

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        vt.refuse_operation(self, self._index, "get")
        return vt.get_pages(self._schema, ids, ROWS, self._read)

    def count(self) -> int:
        return int(self._client.vset().vcard(self._name))

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        """Read all rows. `VRANDMEMBER` returns distinct elements, so asking for as many as exist
        returns all of them, in one answer. (There is no cursor before Redis 8.4.)"""
        vt.refuse_operation(self, self._index, "scan")
        names = self._client.vset().vrandmember(self._name, max(self.count(), 1))
        ids = np.array([int(name) for name in names or ()], dtype=np.int64)
        for start in range(0, len(ids), batch_size):
            yield self._read(ids[start : start + batch_size].tolist())

    def _read(self, ids: list[int]) -> pa.RecordBatch:
        with self._client.pipeline(transaction=False) as pipe:
            vectors = pipe.vset()
            for id_ in ids:
                vectors.vemb(self._name, str(id_))
                vectors.vgetattr(self._name, str(id_))
            answers = pipe.execute()
        rows = zip(ids, answers[::2], answers[1::2], strict=True)
        found = [row for row in rows if row[1] is not None]
        return vt.batch_of_rows(
            self._schema,
            [id_ for id_, _, _ in found],
            [vector for _, vector, _ in found],
            [expressions.values(attributes) for _, _, attributes in found],
        )

    def _searcher(self, request: vt.SearchRequest) -> vt.Searcher:
        search, key = self._client.vset().vsim, self._name
        query = self._build_query(request) | {"count": request.k, "with_scores": True}
        metadata = request.returning is vt.Returning.METADATA
        if metadata:
            query["with_attribs"] = True

        def run(vector: NDArray[np.float32], /) -> vt.Hits:
            found = search(key, vector.tobytes(), **query)
            ids = np.fromiter(map(int, found), np.int64, len(found))
            scores = found.values()
            if metadata:
                scores = [row["score"] for row in scores]
            # Redis' own is (1 + cosine) / 2.
            return ids, (2.0 * np.fromiter(scores, np.float64, len(found)) - 1.0).astype(np.float32)

        return run

    def _build_query(self, request: vt.SearchRequest) -> dict[str, Any]:
        """The search as arguments of the client's `vsim`."""
        params, query = request.params, dict[str, Any]()
        if isinstance(params, VectorSetSearch):
            query["ef"] = params.ef_search
        else:
            assert isinstance(params, vt.NoParams)
            query["truth"] = True
        if request.where is not None:
            types = self._schema.types
            query["filter"] = expressions.expression(request.where, self._names, types)
            if isinstance(params, VectorSetSearch):
                query["filter_ef"] = str(params.filter_ef or _ALL_CANDIDATES)
        return {name: value for name, value in query.items() if value is not None}

    def _native_search(self, request: vt.SearchRequest) -> vt.NativeSearch:
        query = self._build_query(request)
        condition = query.pop("filter", None)
        words = {"ef": "ef", "filter_ef": "filter_ef", "truth": "exact"}
        options = {word: str(query[name]).lower() for name, word in words.items() if name in query}
        returned = {"attributes": "true"} if request.returning is vt.Returning.METADATA else {}
        return vt.NativeSearch(
            self._target_with(returned),
            {"collection": self._name, **options},
            None if condition is None else condition.encode(),
        )

    def native_rows(self) -> vt.NativeRows:
        options = {"collection": self._name, "quantization": _QUANTIZATION[self._index.kind]}
        if isinstance(self._index.params, VectorSetBuild):
            params = self._index.params
            options |= {"ef_construction": str(params.ef_construction), "m": str(params.m)}
        return vt.NativeRows(self._target_with({}), options, self._names)
