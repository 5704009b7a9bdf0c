"""Stores made of a library's index and of `Rows`, which hold what the index does not."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.model.capabilities import Index
from vectrial.model.errors import StoreError
from vectrial.model.filters import Filter
from vectrial.model.schema import Schema
from vectrial.model.store import Store
from vectrial.stores.common.arrow import ids_of, table_of, vectors_of
from vectrial.stores.common.files import atomic_replace
from vectrial.stores.common.rows import Rows


class RowsStore(Store):
    """A store whose ids and metadata are in `Rows`, in this process."""

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        self._rows: Rows | None = None

    @property
    def _open(self) -> Rows:
        assert self._rows is not None, "create or open comes first"
        return self._rows

    @abstractmethod
    def _vectors(self, slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """The vectors (n, d) of the rows in these slots (n,)."""

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        rows = self._open
        slots = rows.slots(rows.present(ids))
        return table_of(rows.schema, [rows.batch(slots, self._vectors(slots))])

    def count(self) -> int:
        return len(self._open)

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        rows = self._open
        for slots in rows.live_slots(batch_size):
            yield rows.batch(slots, self._vectors(slots))

    def find(self, where: Filter, limit: int) -> NDArray[np.int64]:
        return self._open.find(where, limit)


class LibraryIndex(RowsStore):
    """An index of a library, its rows, and a file for each, written by `flush`.

    suffix: suffix of the index's file.
    """

    suffix: ClassVar[str]

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        self._index: Any = None
        self._saved = True
        self._index_file = location / f"index.{self.suffix}"
        self._rows_file = location / "rows.parquet"

    @abstractmethod
    def _make(self, schema: Schema, index: Index) -> Any:
        """An empty index."""

    @abstractmethod
    def _load(self, schema: Schema, index: Index) -> Any:
        """The index in `_index_file`."""

    @abstractmethod
    def _save(self, path: Path) -> None:
        """Write the index to this file."""

    @abstractmethod
    def _add(self, ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """Add vectors (n, d) under new ids (n,)."""

    @abstractmethod
    def _remove(self, ids: NDArray[np.int64]) -> None:
        """Remove the vectors with these ids, which exist."""

    @abstractmethod
    def _read(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """The vectors (n, d) with these ids (n,), which exist; n > 0."""

    def create(self, schema: Schema, index: Index) -> None:
        self._rows = Rows(schema)
        self._index = self._make(schema, index)
        self._saved = False

    def open(self, schema: Schema, index: Index) -> None:
        if not self._index_file.exists():
            raise StoreError(f"nothing was flushed at {self.location}")
        self._rows = Rows(schema)
        self._rows.load(self._rows_file)
        self._index = self._load(schema, index)

    def close(self) -> None:
        self._index = self._rows = None

    def drop(self) -> None:
        self.close()
        self._index_file.unlink(missing_ok=True)
        self._rows_file.unlink(missing_ok=True)

    def flush(self) -> None:
        if self._saved or self._index is None:
            return
        aside = self._index_file.with_suffix(".new")
        self._save(aside)
        atomic_replace(aside, self._index_file)
        self._open.save(self._rows_file)
        self._saved = True

    def insert(self, batch: pa.RecordBatch) -> None:
        self._open.insert(batch)
        self._write(batch)

    def upsert(self, batch: pa.RecordBatch) -> None:
        known = self._open.present(ids_of(batch))
        written = self._open.upsert(batch)
        self._drop_vectors(known)
        self._write(written)

    def delete(self, ids: NDArray[np.int64]) -> None:
        known = self._open.present(ids)
        self._open.delete(known)
        self._drop_vectors(known)

    def _write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._saved = False
            self._add(ids_of(batch), vectors_of(batch))

    def _drop_vectors(self, ids: NDArray[np.int64]) -> None:
        if len(ids):
            self._saved = False
            self._remove(ids)

    def _vectors(self, slots: NDArray[np.int64]) -> NDArray[np.float32]:
        rows = self._open
        if not len(slots):
            return np.empty((0, rows.schema.dim), np.float32)
        return np.asarray(self._read(rows.ids[slots]), dtype=np.float32)
