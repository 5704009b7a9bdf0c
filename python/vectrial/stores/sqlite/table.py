"""The SQLite table behind the stores that are SQLite: rows, indexes, connections.

One connection per thread, all to one file in WAL mode with `synchronous = NORMAL`: a commit is
in the log, and durable once `checkpoint` has moved it into the file and synced that.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.model.errors import StoreError
from vectrial.model.filters import Filter, Value, renamed
from vectrial.model.store import FieldType, Index, Schema, Store
from vectrial.stores.common.arrow import batch_of, check, columns_of, get_pages, ids_of, vectors_of
from vectrial.stores.common.sql import SQL_TYPES, condition

#: Ids bound in one statement; SQLite's own limit is 32,766 variables.
_IDS_AT_ONCE = 500


class Table:
    """The table `rows(id, <fields>, vector)` of a collection in a file of its own.

    driver: a module like `sqlite3`. prepare: called with each new connection.
    beside: the table `beside(id, vector)` that has the vectors; None: they are in this table, as
        BLOBs of float32.
    """

    def __init__(
        self,
        driver: Any,
        path: Path,
        schema: Schema,
        *,
        beside: str | None = None,
        prepare: Callable[[Any], None] = lambda connection: None,
    ) -> None:
        self.schema = schema
        self._driver, self._path, self._prepare, self._beside = driver, path, prepare, beside
        self._local = threading.local()
        self._all: list[Any] = []
        self._columns = list(schema.columns.values())

    def connection(self) -> Any:
        """This thread's connection, made on its first call in the thread."""
        existing = getattr(self._local, "connection", None)
        if existing is not None:
            return existing
        made = self._driver.connect(str(self._path), check_same_thread=False)
        made.execute("PRAGMA journal_mode = WAL")
        made.execute("PRAGMA synchronous = NORMAL")
        self._prepare(made)
        self._local.connection = made
        self._all.append(made)
        return made

    def close(self) -> None:
        """Close the connections of all threads."""
        while self._all:
            self._all.pop().close()
        self._local = threading.local()

    def remove(self) -> None:
        """Close, and delete the file and its log."""
        self.close()
        for suffix in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)

    def checkpoint(self) -> None:
        """Move everything committed into the file and sync it.

        Raises:
            StoreError: a reader is in the way, so that not everything could be moved.
        """
        busy, *_ = self.connection().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise StoreError("SQLite could not checkpoint: another connection is reading")

    def create(self) -> None:
        """Make the table. Vectors come last: a condition then reads no page of theirs."""
        columns = ["id INTEGER PRIMARY KEY"]
        columns += [
            f"{self.schema.columns[f.name]} {SQL_TYPES[f.type]}" for f in self.schema.fields
        ]
        columns += [] if self._beside else ["vector BLOB NOT NULL"]
        with self.connection() as connection:
            connection.execute(f"CREATE TABLE rows ({', '.join(columns)})")

    def index(self) -> None:
        """Make the indexes on the fields that ask for one, and tell the planner about them."""
        with self.connection() as connection:
            for field in self.schema.fields:
                if field.indexed:
                    column = self.schema.columns[field.name]
                    connection.execute(
                        f"CREATE INDEX IF NOT EXISTS rows_{column} ON rows ({column})"
                    )
            connection.execute("ANALYZE")

    def insert(self, connection: Any, batch: pa.RecordBatch, *, replace: bool = False) -> None:
        """Add rows; with `replace`, in the place of those whose ids exist."""
        values: list[Sequence[Any]] = [
            ids_of(batch).tolist(),
            *columns_of(batch, self.schema).values(),
        ]
        names = ["id", *self._columns]
        if not self._beside:
            names.append("vector")
            values.append(blobs(vectors_of(batch)))
        verb = "INSERT OR REPLACE" if replace else "INSERT"
        marks = ", ".join("?" * len(names))
        statement = f"{verb} INTO rows ({', '.join(names)}) VALUES ({marks})"
        connection.executemany(statement, zip(*values, strict=True))

    def delete(self, connection: Any, ids: NDArray[np.int64]) -> None:
        """Remove rows; absent ids are ignored."""
        connection.executemany("DELETE FROM rows WHERE id = ?", [(i,) for i in ids.tolist()])

    def count(self) -> int:
        """Number of rows."""
        return int(self.connection().execute("SELECT count(*) FROM rows").fetchone()[0])

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        """The rows with these ids."""
        return get_pages(self.schema, ids, _IDS_AT_ONCE, self._read)

    def _read(self, ids: list[int]) -> pa.RecordBatch:
        where = f"WHERE rows.id IN ({', '.join('?' * len(ids))})"
        return self._batch(self.connection().execute(self._select(where), ids).fetchall())

    def scan(self, batch_size: int) -> Iterator[pa.RecordBatch]:
        """Every row."""
        cursor = self.connection().execute(self._select(""))
        while rows := cursor.fetchmany(batch_size):
            yield self._batch(rows)

    def condition(self, where: Filter) -> tuple[str, list[Value]]:
        """The filter as SQL on the columns of this table, and the values to bind."""
        return condition(renamed(where, self.schema.columns))

    def find(self, where: Filter, limit: int) -> NDArray[np.int64]:
        """Ids of at most `limit` rows that `where` keeps."""
        text, values = self.condition(where)
        statement = f"SELECT id FROM rows WHERE {text} LIMIT ?"
        rows = self.connection().execute(statement, [*values, limit]).fetchall()
        return np.array([row[0] for row in rows], dtype=np.int64)

    def _select(self, where: str) -> str:
        columns = "".join(f", rows.{name}" for name in self._columns)
        if not self._beside:
            return f"SELECT rows.id, vector{columns} FROM rows {where}"
        join = f"JOIN {self._beside} ON {self._beside}.id = rows.id"
        return f"SELECT rows.id, {self._beside}.vector{columns} FROM rows {join} {where}"

    def _batch(self, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        ids = np.array([row[0] for row in rows], dtype=np.int64)
        columns = {}
        for at, field in enumerate(self.schema.fields, start=2):
            values = [row[at] for row in rows]
            if field.type is FieldType.BOOL:  # SQLite keeps 0 and 1
                values = [None if value is None else bool(value) for value in values]
            columns[field.name] = values
        return batch_of(self.schema, ids, unpacked([row[1] for row in rows], self.schema), columns)


class SqliteFile(Store):
    """A store in one SQLite file. Where the vectors are in a table of their own, `_inserted` and
    `_deleted` keep it up to date, within the transaction of the write."""

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        self._file = location / "rows.sqlite"
        self._table: Table | None = None

    @abstractmethod
    def _new_table(self, schema: Schema) -> Table:
        """The table of rows, not created yet."""

    def _inserted(self, connection: Any, batch: pa.RecordBatch) -> None:
        """These rows were inserted."""

    def _deleted(self, connection: Any, ids: NDArray[np.int64]) -> None:
        """The rows with these ids were deleted, or are being replaced."""

    @property
    def _open(self) -> Table:
        assert self._table is not None, "create or open comes first"
        return self._table

    def create(self, schema: Schema, index: Index) -> None:
        self._table = self._new_table(schema)
        self._table.create()

    def open(self, schema: Schema, index: Index) -> None:
        if not self._file.exists():
            raise StoreError(f"nothing was created at {self.location}")
        self._table = self._new_table(schema)

    def close(self) -> None:
        if self._table is not None:
            self._table.close()

    def drop(self) -> None:
        self._open.remove()

    def flush(self) -> None:
        self._open.checkpoint()

    def build(self) -> None:
        self._open.index()
        self._open.checkpoint()

    def insert(self, batch: pa.RecordBatch) -> None:
        check(batch, self._open.schema)
        with self._open.connection() as connection:
            self._open.insert(connection, batch)
            self._inserted(connection, batch)

    def upsert(self, batch: pa.RecordBatch) -> None:
        check(batch, self._open.schema)
        with self._open.connection() as connection:
            self._open.insert(connection, batch, replace=True)
            self._deleted(connection, ids_of(batch))  # vec0 has no INSERT OR REPLACE
            self._inserted(connection, batch)

    def delete(self, ids: NDArray[np.int64]) -> None:
        with self._open.connection() as connection:
            self._open.delete(connection, ids)
            self._deleted(connection, ids)

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        return self._open.get(ids)

    def count(self) -> int:
        return self._open.count()

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        return self._open.scan(batch_size)

    def find(self, where: Filter, limit: int) -> NDArray[np.int64]:
        return self._open.find(where, limit)


def blobs(vectors: NDArray[np.float32]) -> list[memoryview]:
    """Each row of `vectors` (n, d) as its bytes, without copies of its own."""
    raw, size = memoryview(vectors.tobytes()), vectors.shape[1] * 4
    return [raw[start : start + size] for start in range(0, len(raw), size)]


def unpacked(packed: Sequence[bytes], schema: Schema) -> NDArray[np.float32]:
    """Vectors, (n, d), from their bytes."""
    return np.frombuffer(b"".join(packed), np.float32).reshape(-1, schema.dim)
