"""Chroma: its local persistent client, SQLite beside an HNSW index, in this process.

The facts below hold for chromadb 1.5.9: they were read in its source and tested.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field as Bound

from vectrial.model.filters import OPPOSITES, And, Eq, Filter, In, IsNull, Not, Or, Range
from vectrial.stores import common as vt

_COLLECTION = "rows"
_SPACE = {vt.Metric.L2: "l2", vt.Metric.COSINE: "cosine", vt.Metric.IP: "ip"}
#: Stands for a missing value: Chroma has no way to store one or to filter for one.
_MISSING = "␀ no value"


class ChromaBuild(vt.Params):
    """m (`max_neighbors`), ef_construction: parameters of the graph."""

    m: int = Bound(default=16, ge=2, le=1024)
    ef_construction: int = Bound(default=100, ge=1, le=100_000)


class ChromaSearch(vt.Params):
    """ef_search: candidates held during the search."""

    ef_search: int = Bound(default=100, ge=1, le=1_000_000)


class Chroma(vt.Store):
    """One collection without documents. Ids are decimal text, as Chroma wants text.

    Every row has every metadata key, because upserting does not change keys that it does not
    name, and no operator asks whether a key exists. A special text stands for a missing value.
    """

    name: ClassVar[str] = "chroma"
    title: ClassVar[str] = "Chroma"
    module: ClassVar[str | None] = "chromadb"
    extra: ClassVar[str | None] = "chroma"
    capabilities: ClassVar[vt.Capabilities] = vt.Capabilities(
        scores={
            vt.Metric.L2: vt.ScoreKind.L2_SQUARED,
            vt.Metric.COSINE: vt.ScoreKind.COSINE_DISTANCE,
            vt.Metric.IP: vt.ScoreKind.ONE_MINUS_INNER_PRODUCT,
        },
        indexes={
            # Tried with rows replaced by far ones under inner product: filtered recall is between
            # 0.68 and 0.95 however large ef_search, and under the other metrics nearly 1.
            "hnsw": vt.IndexKind(
                ChromaBuild,
                ChromaSearch,
                recall_floors={vt.Metric.IP: 0.7},
                filtered_floors={vt.Metric.IP: 0.5},
                high_recall_params={"ef_search": 1000},
            )
        },
        filters=vt.ALL_OPERATORS,
        find=vt.ALL_OPERATORS,
        field_types=frozenset(vt.FieldType),
        nulls=True,
        persistent=True,
        concurrent_search=True,
        hybrid="finds texts by their parts, and ranks none",
        caveats=(
            "rows enter the graph as they are inserted; there is no build step and no exact search",
            "ef_search belongs to the collection: to change it is to close and open it again, which"
            " happens when the search is made, outside the clock",
            "a filter is first answered in full by SQLite, whose ids then restrict the graph's",
            "under inner product, filtered searches stay below 0.9 recall after rows were replaced"
            " by others far away, whatever ef_search",
            "a missing value is kept as a text of its own",
            "a filter takes some 16,000 numbers at most: SQLite has no room for more variables",
            "vectors are normalised when stored under cosine",
            "the graph's files lag behind by up to 1,000 rows, which are replayed when it opens",
        ),
    )

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        import chromadb

        self._chromadb = chromadb
        self._client: Any = None
        self._rows: Any = None
        self._ef = ChromaSearch().ef_search
        self._last: str | None = None

    def version(self) -> str:
        return str(self._chromadb.__version__)

    def create(self, schema: vt.Schema, index: vt.Index) -> None:
        self._schema = schema
        self._connect()
        build = index.params
        assert isinstance(build, ChromaBuild)
        self._rows = self._client.create_collection(
            _COLLECTION,
            embedding_function=None,
            configuration={
                "hnsw": {
                    "space": _SPACE[schema.metric],
                    "max_neighbors": build.m,
                    "ef_construction": build.ef_construction,
                    "ef_search": self._ef,
                }
            },
        )

    def open(self, schema: vt.Schema, index: vt.Index) -> None:
        self._schema = schema
        self._connect()
        self._rows = self._client.get_collection(_COLLECTION, embedding_function=None)
        self._ef = int(self._rows.configuration["hnsw"]["ef_search"])

    def _connect(self) -> None:
        from chromadb.config import Settings

        self._client = self._chromadb.PersistentClient(
            str(self.location), settings=Settings(anonymized_telemetry=False)
        )

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = self._rows = None

    def drop(self) -> None:
        self.close()
        vt.empty_folder(self.location)

    def wait_indexed(self) -> str:
        known = "a search reads the graph alone, and writes are applied to it in order as they come"
        if self._last is None:
            return known
        # Embeddings are read from the graph; an id that is not in it would be an error.
        found = self._rows.get(ids=[self._last], include=["embeddings"])
        if len(found["ids"]) != 1:
            raise vt.StoreError(f"the row written last, {self._last}, is not there")
        return f"{known}; the last row written was read back from it"

    def insert(self, batch: pa.RecordBatch) -> None:
        self._write(self._rows.add, batch)

    def upsert(self, batch: pa.RecordBatch) -> None:
        self._write(self._rows.upsert, batch)

    def _write(self, write: Any, batch: pa.RecordBatch) -> None:
        vt.check(batch, self._schema)
        for part in vt.slices(batch, self._client.get_max_batch_size()):
            ids = _text_ids(vt.ids_of(part).tolist())
            write(ids=ids, embeddings=vt.vectors_of(part), metadatas=_metadatas(part, self._schema))
            self._last = ids[-1]

    def delete(self, ids: NDArray[np.int64]) -> None:
        for page in vt.id_pages(np.unique(ids), self._client.get_max_batch_size()):
            # Deleting an id that is not there only logs; asking first keeps the log quiet.
            if there := self._rows.get(ids=_text_ids(page), include=[])["ids"]:
                self._rows.delete(ids=there)
        self._last = None

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        return vt.get_pages(self._schema, ids, self._client.get_max_batch_size(), self._read)

    def _read(self, ids: list[int]) -> pa.RecordBatch:
        return self._batch(self._rows.get(ids=_text_ids(ids), include=["embeddings", "metadatas"]))

    def count(self) -> int:
        return int(self._rows.count())

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        start = 0
        while True:
            include = ["embeddings", "metadatas"]
            found = self._rows.get(limit=batch_size, offset=start, include=include)
            if found["ids"]:
                yield self._batch(found)
            if len(found["ids"]) < batch_size:
                return
            start += batch_size

    def _batch(self, found: Any) -> pa.RecordBatch:
        rows = [  # a row without metadata has None
            {name: None if value == _MISSING else value for name, value in (row or {}).items()}
            for row in found["metadatas"]
        ]
        return vt.batch_of_rows(self._schema, _integer_ids(found["ids"]), found["embeddings"], rows)

    def searcher(self, k: int, params: vt.Params, where: Filter | None = None) -> vt.Searcher:
        assert isinstance(params, ChromaSearch)
        ef = params.ef_search
        self._set_ef_search(ef)
        condition = None if where is None else self._condition(where)
        include = ["distances"]

        def run(vector: NDArray[np.float32], /) -> vt.Hits:
            if self._ef != ef:
                self._set_ef_search(ef)
            found = self._rows.query(
                query_embeddings=[vector], n_results=k, where=condition, include=include
            )
            return _integer_ids(found["ids"][0]), np.array(found["distances"][0], dtype=np.float32)

        return run

    def _set_ef_search(self, ef: int) -> None:
        """Set the collection's ef_search, which takes effect when the graph is next opened."""
        if self._ef == ef:
            return
        self._rows.modify(configuration={"hnsw": {"ef_search": ef}})
        self.close()
        self._connect()
        self._rows = self._client.get_collection(_COLLECTION, embedding_function=None)
        self._ef = ef

    def find(self, where: Filter, limit: int) -> NDArray[np.int64]:
        return _integer_ids(
            self._rows.get(where=self._condition(where), limit=limit, include=[])["ids"]
        )

    def _condition(self, where: Filter) -> dict[str, Any]:
        return _translate(vt.on_columns(where, self._schema), holds=True)


def _translate(where: Filter, *, holds: bool) -> dict[str, Any]:
    """The condition under which `where` is true (`holds`), or false and not unknown. `$ne` and
    `$nin` also keep rows with a missing value, because the placeholder text for it differs."""
    match where:
        case Not(part):
            return _translate(part, holds=not holds)
        case And(parts) | Or(parts):
            conditions = [_translate(part, holds=holds) for part in parts]
            return _join("$and" if isinstance(where, And) is holds else "$or", conditions)
        case IsNull(name):
            return {name: {"$eq" if holds else "$ne": _MISSING}}
        case Eq(name, value):
            return {name: {"$eq": value}} if holds else _none_of(name, [value])
        case In(name, values):
            return {name: {"$in": list(values)}} if holds else _none_of(name, list(values))
        case Range():
            # Only numbers compare, so that the text of a missing value satisfies neither side.
            bounds = [
                {where.field: {f"${key if holds else OPPOSITES[key]}": bound}}
                for key, bound in where.bounds.items()
            ]
            return _join("$and" if holds else "$or", bounds)


def _none_of(name: str, values: list[Any]) -> dict[str, Any]:
    # One condition for each value would be too deep for SQLite from a thousand on.
    return {"$and": [{name: {"$nin": values}}, {name: {"$ne": _MISSING}}]}


def _join(word: str, conditions: list[dict[str, Any]]) -> dict[str, Any]:
    return conditions[0] if len(conditions) == 1 else {word: conditions}


def _text_ids(ids: list[int]) -> list[str]:
    return list(map(str, ids))


def _integer_ids(ids: list[str]) -> NDArray[np.int64]:
    return np.array(list(map(int, ids)), dtype=np.int64)


def _metadatas(batch: pa.RecordBatch, schema: vt.Schema) -> list[dict[str, Any]] | None:
    if not schema.fields:
        return None
    rows = vt.row_values(batch, schema, missing=True)
    return [
        {name: _MISSING if value is None else value for name, value in row.items()} for row in rows
    ]
