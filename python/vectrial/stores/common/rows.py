"""Ids, metadata and optionally vectors of rows, in memory, for indexes that hold bare vectors.

FAISS, hnswlib and usearch keep vectors under integer keys and nothing else. `Rows` adds to such an
index everything except distances: which ids exist, their metadata, and the rows that a filter
keeps. It takes about 17 bytes per row, plus the metadata.

Rows live in *slots*, numbered in the order they were added. A removed row leaves its slot dead,
a replaced one moves to a new slot, and when dead slots exceed a quarter the rest moves together.
Metadata and the id lookup are kept as a logarithmic number of sorted runs, each at least twice as
long as the next (the "logarithmic method" of Bentley and Saxe, 1980). So adding rows is cheap, one
at a time or a million at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.model.errors import PartialFailure
from vectrial.model.filters import Filter, evaluate
from vectrial.model.schema import ARROW_TYPES, Schema
from vectrial.stores.common.arrow import check, ids_of, metadata_of, vectors_of
from vectrial.stores.common.files import atomic_replace

T = TypeVar("T", bound=np.generic)

#: Number of dead slots that are tolerated however few rows live.
_SPARE_SLOTS = 256

Run = tuple[NDArray[np.int64], NDArray[np.int64]]  # ids ascending, their slots


class Rows:
    """Rows of one collection.

    schema: schema of the collection. keep_vectors: `vectors` holds one row per slot, dead ones too.
    """

    def __init__(self, schema: Schema, *, keep_vectors: bool = False) -> None:
        self.schema = schema
        self._keep_vectors = keep_vectors
        self._clear()

    def _clear(self) -> None:
        self._used = 0
        self._count = 0
        self._ids = np.empty(0, np.int64)
        self._live = np.empty(0, bool)
        self._vectors = np.empty((0, self.schema.dim), np.float32)
        self._runs: list[Run] = []
        self._chunks: list[pa.RecordBatch] = []
        self._metadata: pa.Table | None = None

    def __len__(self) -> int:
        """Number of live rows."""
        return self._count

    @property
    def ids(self) -> NDArray[np.int64]:
        """The id in each slot, (slots,); a view, valid until the next write."""
        return self._ids[: self._used]

    @property
    def live(self) -> NDArray[np.bool_]:
        """True for each slot that holds a row, (slots,); a view."""
        return self._live[: self._used]

    @property
    def vectors(self) -> NDArray[np.float32]:
        """The vector in each slot, (slots, d), if vectors are kept; a view."""
        return self._vectors[: self._used]

    def slots(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The slot of each id, (n,); -1 for an absent id."""
        found = np.full(len(ids), -1, np.int64)
        for run_ids, run_slots in self._runs:  # newer runs override older ones
            place = np.searchsorted(run_ids, ids)
            place[place == len(run_ids)] = 0
            hit = run_ids[place] == ids
            found[hit] = run_slots[place[hit]]
        if self._used:
            found[(found >= 0) & ~self._live[found]] = -1
        return found

    def present(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The ids in `ids` that exist, without duplicates, ascending."""
        return np.unique(ids[self.slots(ids) >= 0])

    def metadata(self) -> pa.Table:
        """The metadata of every slot, dead ones too, as a table of few chunks."""
        if self._metadata is None:
            fields = [pa.field(f.name, ARROW_TYPES[f.type]) for f in self.schema.fields]
            self._metadata = pa.Table.from_batches(self._chunks, schema=pa.schema(fields))
        return self._metadata

    def matching(self, where: Filter | None) -> NDArray[np.bool_]:
        """True for each slot with a row that `where` keeps, (slots,)."""
        if where is None:
            return self.live.copy()
        return np.asarray(self.live & evaluate(where, self.metadata()))

    def find(self, where: Filter, limit: int) -> NDArray[np.int64]:
        """Ids of at most `limit` rows that `where` keeps."""
        return self.ids[np.flatnonzero(self.matching(where))[:limit]]

    def batch(self, slots: NDArray[np.int64], vectors: NDArray[np.float32]) -> pa.RecordBatch:
        """The rows in these slots, with these vectors, in the collection's layout."""
        arrow = self.schema.arrow()
        vector = pa.FixedSizeListArray.from_arrays(
            pa.array(np.ascontiguousarray(vectors, np.float32).reshape(-1)),
            type=arrow.field("vector").type,
        )
        columns = self._metadata_at(slots).columns
        metadata = [column.combine_chunks() for column in columns]
        ids = pa.array(self._ids[slots])
        return pa.RecordBatch.from_arrays([ids, vector, *metadata], schema=arrow)

    def live_slots(self, size: int) -> Iterator[NDArray[np.int64]]:
        """The slots of all rows, at most `size` at a time."""
        slots = np.flatnonzero(self.live)
        for start in range(0, len(slots), size):
            yield slots[start : start + size]

    def check_insert(self, batch: pa.RecordBatch) -> None:
        """Raise for a batch that `insert` would not take.

        Raises:
            StoreError: another layout. PartialFailure: ids that exist, or come twice.
        """
        check(batch, self.schema)
        ids = ids_of(batch)
        distinct, counts = np.unique(ids, return_counts=True)
        twice = distinct[counts > 1]
        known = self.present(ids)
        if len(twice) or len(known):
            failed = np.union1d(twice, known).tolist()
            raise PartialFailure("ids that are there already or come twice", failed)

    def insert(self, batch: pa.RecordBatch) -> None:
        """Add new rows.

        Raises:
            StoreError, PartialFailure: see `check_insert`; nothing was added.
        """
        self.check_insert(batch)
        self._append(batch)

    def upsert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Add rows, replacing rows whose ids exist. Returns the rows written: the batch with only
        the last row of each repeated id.

        Raises:
            StoreError: another layout.
        """
        check(batch, self.schema)
        ids = ids_of(batch)
        _, from_end = np.unique(ids[::-1], return_index=True)
        if len(from_end) < len(ids):
            last = np.sort(len(ids) - 1 - from_end)
            batch = batch.take(last)
            ids = ids[last]
        self.delete(ids)
        self._append(batch)
        return batch

    def delete(self, ids: NDArray[np.int64]) -> None:
        """Remove rows; absent ids are ignored."""
        slots = np.unique(self.slots(ids))
        slots = slots[slots >= 0]
        self._live[slots] = False
        self._count -= len(slots)
        if self._used - self._count > self._count // 4 + _SPARE_SLOTS:
            self._compact()

    def _append(self, batch: pa.RecordBatch) -> None:
        added, first = batch.num_rows, self._used
        if not added:
            return
        self._reserve(first + added)
        ids = ids_of(batch)
        self._ids[first : first + added] = ids
        self._live[first : first + added] = True
        if self._keep_vectors:
            self._vectors[first : first + added] = vectors_of(batch)
        self._used += added
        self._count += added
        order = np.argsort(ids, kind="stable")
        self._runs.append((ids[order], first + order))
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            self._runs[-2:] = [_merge_runs(*self._runs[-2:])]
        self._append_metadata(metadata_of(batch, self.schema))

    def _append_metadata(self, batch: pa.RecordBatch) -> None:
        self._metadata = None
        if not batch.num_columns:
            return
        self._chunks.append(batch)
        while len(self._chunks) > 1 and self._chunks[-2].num_rows < 2 * self._chunks[-1].num_rows:
            joined = pa.Table.from_batches(self._chunks[-2:]).combine_chunks()
            self._chunks[-2:] = joined.to_batches()

    def _reserve(self, slots: int) -> None:
        if slots <= len(self._ids):
            return
        room = max(slots, len(self._ids) * 3 // 2)
        self._ids = _grow(self._ids, room)
        self._live = _grow(self._live, room)
        if self._keep_vectors:
            self._vectors = _grow(self._vectors, room)

    def _compact(self) -> None:
        slots = np.flatnonzero(self.live)
        ids, vectors = self._ids[slots], self._vectors[slots] if self._keep_vectors else None
        self._restore(ids, vectors, self._metadata_at(slots))

    def _restore(
        self, ids: NDArray[np.int64], vectors: NDArray[np.float32] | None, metadata: pa.Table
    ) -> None:
        self._clear()
        self._used = self._count = len(ids)
        self._ids, self._live = ids, np.ones(len(ids), bool)
        if vectors is not None:
            self._vectors = vectors
        if len(ids):
            order = np.argsort(ids, kind="stable")
            self._runs = [(ids[order], order)]
        if metadata.num_columns and metadata.num_rows:
            self._chunks = metadata.combine_chunks().to_batches()

    def _metadata_at(self, slots: NDArray[np.int64]) -> pa.Table:
        """The metadata of these slots, in their order. Rows are taken chunk by chunk: taking a few
        from a table of several chunks would first copy the whole table."""
        table = self.metadata()
        if not table.num_columns or not len(slots):
            return table.slice(0, 0) if table.num_columns else table
        starts = np.cumsum([0, *(chunk.num_rows for chunk in self._chunks)])
        held_by = np.searchsorted(starts, slots, side="right") - 1
        order = np.argsort(held_by, kind="stable")
        slots, parts = slots[order], []
        for at in np.unique(held_by):
            own = slots[held_by[order] == at] - starts[at]
            parts.append(self._chunks[at].take(own))
        found = pa.Table.from_batches(parts, schema=table.schema)
        return found.take(np.argsort(order, kind="stable"))

    def save(self, path: Path) -> None:
        """Write ids and metadata of the live rows to a Parquet file, replaced as a whole."""
        import pyarrow.parquet as pq

        slots = np.flatnonzero(self.live)
        ids = pa.array(self._ids[slots])
        names = ["id", *self.schema.columns.values()]
        table = pa.table([ids, *self._metadata_at(slots).columns], names=names)
        aside = path.with_suffix(".new")
        pq.write_table(table, aside)
        atomic_replace(aside, path)

    def load(self, path: Path) -> None:
        """Replace all rows by those that `save` wrote."""
        import pyarrow.parquet as pq

        table = pq.read_table(path)
        ids = np.array(table.column("id").to_numpy(), dtype=np.int64)
        metadata = table.drop_columns(["id"]).rename_columns(list(self.schema.columns))
        metadata = metadata.cast(self.metadata().schema)
        self._restore(ids, None, metadata)


def _merge_runs(older: Run, newer: Run) -> Run:
    ids = np.concatenate([older[0], newer[0]])
    slots = np.concatenate([older[1], newer[1]])
    order = np.argsort(ids, kind="stable")  # of equal ids the newer comes last
    ids, slots = ids[order], slots[order]
    last = np.append(ids[1:] != ids[:-1], True)
    return ids[last], slots[last]


def _grow(array: NDArray[T], room: int) -> NDArray[T]:
    bigger = np.zeros((room, *array.shape[1:]), array.dtype)
    bigger[: len(array)] = array
    return bigger
