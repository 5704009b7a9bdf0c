"""DocArray 0.21's own stores: a `DocumentArray` in memory, and one on SQLite.

Both search exactly, by computing every distance in numpy; SQLite only stores the Documents, each
pickled into one row.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.stores import common as vt
from vectrial_reproduce.stores.docarray.documents import (
    ENVIRONMENT,
    ids_of,
    to_batch,
    to_documents,
    to_query,
)

# By these names DocArray offers them. Its "euclidean" is the root of a difference that rounding
# can push below zero, where the nearest row then vanishes as not-a-number; the square is safe.
_METRICS = {vt.Metric.L2: "sqeuclidean", vt.Metric.COSINE: "cosine"}

_COMMON: dict[str, Any] = {
    "scores": {
        vt.Metric.L2: vt.ScoreKind.L2_SQUARED,
        vt.Metric.COSINE: vt.ScoreKind.COSINE_DISTANCE,
    },
    "indexes": {"flat": vt.IndexKind(exact=True, recall_floor=0.999)},
    "find": vt.ALL_OPERATORS,
    "field_types": frozenset(vt.FieldType),
    "nulls": True,
    # 1e-7 is added to both sides of a fraction whose lower side is |q||x|: of two vectors of this
    # length that changes a cosine by 1e-5.
    "norms": (0.1, math.inf),
    "l2_of_products": True,
}


class DocumentArrayStore(vt.Store):
    """The base of all stores of DocArray's, which call the public interface of a DocumentArray:
    `extend`, `da[id]`, `da[id] = document`, `del da[id]` and `find`."""

    module = "docarray"
    environment = ENVIRONMENT

    def __init__(self, location: Path, address: vt.Address | None = None) -> None:
        super().__init__(location, address)
        import docarray
        from threadpoolctl import threadpool_limits

        self._module = docarray
        self._threads = threadpool_limits(limits=1, user_api="blas")
        self._rows: Any = None

    def version(self) -> str:
        return str(self._module.__version__)

    def create(self, schema: vt.Schema, index: vt.Index) -> None:
        self._schema, self._index = schema, index
        self._rows = self._new()

    @abstractmethod
    def _new(self) -> Any:
        """The DocumentArray, with whatever was stored at this location before."""

    def close(self) -> None:
        self._threads.restore_original_limits()
        self._rows = None

    def drop(self) -> None:
        self.close()

    def insert(self, batch: pa.RecordBatch) -> None:
        self._rows.extend(to_documents(batch, self._schema))

    def upsert(self, batch: pa.RecordBatch) -> None:
        new = []
        for document in to_documents(batch, self._schema):
            if document.id in self._rows:
                self._rows[document.id] = document
            else:
                new.append(document)
        self._rows.extend(new)

    def delete(self, ids: NDArray[np.int64]) -> None:
        for id_ in map(str, ids.tolist()):
            if id_ in self._rows:
                del self._rows[id_]

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        found = []
        for id_ in map(str, ids.tolist()):
            # Absent ids raise, which spares the present ones a statement each on SQLite.
            with suppress(KeyError):
                found.append(self._rows[id_])
        return vt.table_of(self._schema, [to_batch(found, self._schema)])

    def count(self) -> int:
        return len(self._rows)

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        for documents in self._rows.batch(batch_size):
            yield to_batch(documents, self._schema)

    def searcher(self, k: int, params: vt.Params, where: vt.Filter | None = None) -> vt.Searcher:
        if where is not None:
            raise vt.Unsupported(f"{self.name} does not search under a filter")
        metric = _METRICS[self._schema.metric]
        find = self._rows.find
        nothing = np.zeros(0, np.int64), np.zeros(0, np.float32)
        if not len(self._rows):  # where DocArray would raise
            return lambda vector: nothing

        def search_one(
            vector: NDArray[np.float32],
        ) -> vt.Hits:
            found = find(vector, metric=metric, limit=k, only_id=True)
            scores = (document.scores[metric].value for document in found)
            return ids_of(found), np.fromiter(scores, dtype=np.float32, count=len(found))

        return search_one

    def find(self, where: vt.Filter, limit: int) -> NDArray[np.int64]:
        # DocArray ignores `limit` here and returns every Document that matches.
        query = to_query(where, self._schema, prefix="tags__", sql_nulls=False)
        return ids_of(self._rows.find(query)[:limit])


class DocArrayMemory(DocumentArrayStore):
    """A DocumentArray in memory."""

    name = "docarray-memory"
    title = "DocArray in memory"
    capabilities = vt.Capabilities(
        **_COMMON,
        concurrent_search=True,
        caveats=(
            "every search gathers all embeddings into one matrix and computes every distance, "
            "with one thread",
            "squared distances are differences of float32 products: rows closer to each other "
            "than that rounding may come back in either order",
            "results are asked for with only_id, so no Document is copied into the answer",
            "no search under a filter: DocArray has none in memory",
            "find by condition evaluates a Python expression on every Document",
            "the first read by id after a delete numbers all Documents anew",
        ),
    )

    def _new(self) -> Any:
        return self._module.DocumentArray()


class DocArraySqlite(DocumentArrayStore):
    """A DocumentArray on SQLite, with DocArray's own settings for the file."""

    name = "docarray-sqlite"
    title = "DocArray on SQLite"
    capabilities = vt.Capabilities(
        **_COMMON,
        persistent=True,
        caveats=(
            "every search reads and unpickles all Documents, then computes every distance, "
            "with one thread",
            "squared distances are differences of float32 products: rows closer to each other "
            "than that rounding may come back in either order",
            "results are asked for with only_id, so no Document is copied into the answer",
            "no search under a filter: DocArray has none on SQLite",
            "find by condition unpickles every Document and evaluates a Python expression on it",
            "a delete writes the position of every remaining row, one statement each",
            "writes are committed but not synced to disk (synchronous=OFF, DocArray's default)",
        ),
    )

    @property
    def _file(self) -> Path:
        return self.location / "documents.sqlite"

    def _new(self) -> Any:
        config = {"connection": str(self._file), "table_name": "documents"}
        return self._module.DocumentArray(storage="sqlite", config=config)

    def open(self, schema: vt.Schema, index: vt.Index) -> None:
        self.create(schema, index)

    def close(self) -> None:
        if self._rows is not None:
            self._rows._connection.close()  # a DocumentArray has no public way to close it
        super().close()

    def drop(self) -> None:
        super().drop()
        for suffix in ("", "-wal", "-shm"):
            self._file.with_name(self._file.name + suffix).unlink(missing_ok=True)
