"""hnswlib: the HNSW reference implementation, with metadata kept beside it.

A filter becomes a Python function that hnswlib calls for every candidate: its own interface for
that, and slow, since each call takes the interpreter's lock. The set of ids that the function
looks into is made with the searcher, outside the clock.

Threads: writes use all cores that this process may run on; a search uses one. `ef` belongs to the
index, not to a query, so a searcher sets it with every call (about 0.1 us).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field as Bound

from vectrial.model.errors import StoreError
from vectrial.model.filters import Filter
from vectrial.model.metric import Metric, ScoreKind
from vectrial.model.store import (
    ALL_OPERATORS,
    Capabilities,
    FieldType,
    Footprint,
    Hits,
    Index,
    IndexKind,
    Params,
    Schema,
    Searcher,
    Store,
)
from vectrial.stores.common.arrow import ids_of, table_of, vectors_of
from vectrial.stores.common.files import atomic_replace
from vectrial.stores.common.rows import Rows

_SPACES = {Metric.L2: "l2", Metric.COSINE: "cosine", Metric.IP: "ip"}
_FIRST_CAPACITY = 1024


class HnswBuild(Params):
    """m: links per node and level; ef_construction: candidates while building."""

    m: int = Bound(default=16, ge=2, le=512)
    ef_construction: int = Bound(default=200, ge=1, le=100_000)


class HnswSearch(Params):
    """ef_search: candidates while searching; hnswlib's own default is 10."""

    ef_search: int = Bound(default=10, ge=1, le=1_000_000)


class HnswlibStore(Store):
    """One hnswlib index, its rows, and two files."""

    name: ClassVar[str] = "hnswlib"
    title: ClassVar[str] = "hnswlib"
    module: ClassVar[str | None] = "hnswlib"
    extra: ClassVar[str | None] = "hnswlib"
    capabilities: ClassVar[Capabilities] = Capabilities(
        scores={
            Metric.L2: ScoreKind.L2_SQUARED,
            Metric.COSINE: ScoreKind.COSINE_DISTANCE,
            Metric.IP: ScoreKind.ONE_MINUS_INNER_PRODUCT,
        },
        indexes={
            "hnsw": IndexKind(
                build=HnswBuild, search=HnswSearch, high_recall_params={"ef_search": 512}
            )
        },
        filters=ALL_OPERATORS,
        find=ALL_OPERATORS,
        field_types=frozenset(FieldType),
        nulls=True,
        persistent=True,
        concurrent_search=True,
        refuses_duplicates=True,
        caveats=(
            "metadata lies beside the index, in this process; a filter is evaluated there before"
            " the clock starts, and a Python function checks every candidate",
            "writes use all cores, a search uses one",
            "deleted rows are only marked and keep their memory",
            "a search that reaches fewer rows than it was asked for raises instead of answering",
            "flush writes the whole index to one file and syncs it",
        ),
    )

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        import hnswlib

        self._hnswlib = hnswlib
        self._rows: Rows | None = None
        self._index: Any = None
        self._saved = True

    def version(self) -> str:
        return version("hnswlib")

    # -- life ------------------------------------------------------------------------------

    def create(self, schema: Schema, index: Index) -> None:
        params = HnswBuild.model_validate(index.params.model_dump())
        self._rows = Rows(schema)
        self._index = self._hnswlib.Index(_SPACES[schema.metric], schema.dim)
        self._index.init_index(_FIRST_CAPACITY, params.m, params.ef_construction)
        self._saved = False

    def open(self, schema: Schema, index: Index) -> None:
        if not self._index_file.exists():
            raise StoreError(f"nothing was flushed at {self.location}")
        self._rows = Rows(schema)
        self._rows.load(self._rows_file)
        self._index = self._hnswlib.Index(_SPACES[schema.metric], schema.dim)
        self._index.load_index(str(self._index_file))

    def close(self) -> None:
        self._index = self._rows = None

    def drop(self) -> None:
        self.close()
        self._index_file.unlink(missing_ok=True)
        self._rows_file.unlink(missing_ok=True)

    def flush(self) -> None:
        if self._saved:
            return
        aside = self._index_file.with_suffix(".new")
        self._index.save_index(str(aside))
        atomic_replace(aside, self._index_file)
        self._open.save(self._rows_file)
        self._saved = True

    def build(self) -> None:
        # Gives back the room that growing left over.
        self._index.resize_index(max(1, self._index.get_current_count()))

    # -- data ------------------------------------------------------------------------------

    def insert(self, batch: pa.RecordBatch) -> None:
        self._open.insert(batch)
        self._add(batch)

    def upsert(self, batch: pa.RecordBatch) -> None:
        self._add(self._open.upsert(batch))

    def delete(self, ids: NDArray[np.int64]) -> None:
        known = self._open.present(ids)
        self._open.delete(known)
        for label in known.view(np.uint64).tolist():  # negative ids are unsigned labels there
            self._index.mark_deleted(label)
            self._saved = False

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        rows = self._open
        known = rows.present(ids)
        return table_of(rows.schema, [rows.batch(rows.slots(known), self._vectors(known))])

    def count(self) -> int:
        return len(self._open)  # the index counts deleted rows too

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        rows = self._open
        for slots in rows.live_slots(batch_size):
            yield rows.batch(slots, self._vectors(rows.ids[slots]))

    def _add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        needed = self._index.get_current_count() + batch.num_rows
        if needed > self._index.get_max_elements():
            self._index.resize_index(max(needed, self._index.get_max_elements() * 3 // 2))
        threads = len(os.sched_getaffinity(0))
        # An id that was marked deleted comes back to life here, at its new place.
        self._index.add_items(vectors_of(batch), ids_of(batch), num_threads=threads)
        self._saved = False

    def _vectors(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        if not len(ids):
            return np.empty((0, self._open.schema.dim), np.float32)
        return np.asarray(self._index.get_items(ids, return_type="numpy"), dtype=np.float32)

    # -- questions -------------------------------------------------------------------------

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        assert isinstance(params, HnswSearch)
        rows = self._open
        ef, query, index = params.ef_search, self._index.knn_query, self._index
        kept = None if where is None else frozenset(rows.ids[rows.kept(where)].tolist())
        # hnswlib raises rather than answer with fewer than it was asked for.
        most = min(k, len(rows) if kept is None else len(kept))
        if not most:
            return lambda vector: (np.empty(0, np.int64), np.empty(0, np.float32))

        def plain(vector: NDArray[np.float32], /) -> Hits:
            index.ef = ef
            ids, scores = query(vector, most, 1)
            return ids[0].view(np.int64), scores[0]

        if kept is None:
            return plain
        keep = kept.__contains__

        def filtered(vector: NDArray[np.float32], /) -> Hits:
            index.ef = ef
            ids, scores = query(vector, most, 1, keep)
            return ids[0].view(np.int64), scores[0]

        return filtered

    def find(self, where: Filter, limit: int) -> NDArray[np.int64]:
        return self._open.find(where, limit)

    def footprint(self) -> Footprint:
        return Footprint(index_bytes=int(self._index.index_file_size()))

    # -- small things ----------------------------------------------------------------------

    @property
    def _open(self) -> Rows:
        assert self._rows is not None, "create or open comes first"
        return self._rows

    @property
    def _index_file(self) -> Path:
        return self.location / "index.hnsw"

    @property
    def _rows_file(self) -> Path:
        return self.location / "rows.parquet"
