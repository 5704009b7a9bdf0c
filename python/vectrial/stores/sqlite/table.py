"""The base of stores in SQLite files: rows, indexes, connections.

One connection per thread, all to one file in WAL mode. With `synchronous = NORMAL` a commit is in
the log, and durable once a checkpoint has moved it into the file and synced that; with `FULL` the
log is synced at every commit.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.stores import common as vt

#: Ids bound in one statement; SQLite's own limit is 32,766 variables.
_IDS_AT_ONCE = 500
#: Durability of acknowledged writes, each with its setting.
DURABILITY = {
    vt.Durability.BUFFERED: "WAL, synchronous=NORMAL: a commit is in the log, which is synced at"
    " checkpoints, as flush makes one",
    vt.Durability.SYNCED: "WAL, synchronous=FULL: the log is synced at every commit",
}
_SYNCHRONOUS = {
    None: "NORMAL", vt.Durability.BUFFERED: "NORMAL", vt.Durability.SYNCED: "FULL"
}  # fmt: skip


class SqliteFile(vt.Store):
    """The table `rows(id, <columns>, vector)` in a file of its own.

    vectors_in: the table `(id, vector)` that has the vectors instead; None: they are in `rows`, as
        BLOBs of float32. `_after_insert` and `_after_delete` keep that table up to date.
    """

    vectors_in: ClassVar[str | None] = None

    def __init__(self, location: Path, driver: Any) -> None:
        """driver: a module like `sqlite3`."""
        super().__init__(location)
        self._driver = driver
        self._file = location / "rows.sqlite"
        self._local = threading.local()
        self._all: list[Any] = []

    def _prepare(self, connection: Any) -> None:
        """Prepare a new connection; called for each."""

    def _after_insert(self, connection: Any, batch: pa.RecordBatch) -> None:
        """Called after rows are inserted, while the transaction is open."""

    def _after_delete(self, connection: Any, ids: NDArray[np.int64]) -> None:
        """Called when rows with these ids are deleted or replaced."""

    def _connection(self) -> Any:
        """This thread's connection, made on the thread's first call."""
        existing = getattr(self._local, "connection", None)
        if existing is not None:
            return existing
        made = self._driver.connect(str(self._file), check_same_thread=False)
        made.execute("PRAGMA journal_mode = WAL")
        made.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[self.durability]}")
        self._prepare(made)
        self._local.connection = made
        self._all.append(made)
        return made

    def create(self, schema: vt.Schema, index: vt.Index) -> None:
        self._schema = schema
        columns = ["id INTEGER PRIMARY KEY"]
        columns += [f"{schema.columns[f.name]} {vt.SQL_TYPES[f.type]}" for f in schema.fields]
        # Vectors come last: a condition then reads no page of theirs.
        columns += [] if self.vectors_in else ["vector BLOB NOT NULL"]
        with self._connection() as connection:
            connection.execute(f"CREATE TABLE rows ({', '.join(columns)})")

    def open(self, schema: vt.Schema, index: vt.Index) -> None:
        if not self._file.exists():
            raise vt.StoreError(f"nothing was created at {self.location}")
        self._schema = schema

    def close(self) -> None:
        while self._all:
            self._all.pop().close()
        self._local = threading.local()

    def drop(self) -> None:
        self.close()
        for suffix in ("", "-wal", "-shm"):
            self._file.with_name(self._file.name + suffix).unlink(missing_ok=True)

    def flush(self) -> None:
        """Move everything committed into the file and sync it.

        Raises:
            StoreError: a reader is in the way, so that not everything could be moved.
        """
        busy, *_ = self._connection().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise vt.StoreError("SQLite could not checkpoint: another connection is reading")

    def build(self) -> None:
        """Index the columns that ask for it, and update the planner's statistics."""
        with self._connection() as connection:
            for field in self._schema.fields:
                if field.indexed:
                    column = self._schema.columns[field.name]
                    connection.execute(
                        f"CREATE INDEX IF NOT EXISTS rows_{column} ON rows ({column})"
                    )
            connection.execute("ANALYZE")
        self.flush()

    def insert(self, batch: pa.RecordBatch) -> None:
        self._write(batch, replace=False)

    def upsert(self, batch: pa.RecordBatch) -> None:
        self._write(batch, replace=True)

    def _write(self, batch: pa.RecordBatch, *, replace: bool) -> None:
        vt.check(batch, self._schema)
        ids = vt.ids_of(batch)
        names = ["id", *self._schema.columns.values()]
        values: list[Sequence[Any]] = [ids.tolist(), *vt.columns_of(batch, self._schema).values()]
        if not self.vectors_in:
            names.append("vector")
            values.append(blobs(vt.vectors_of(batch)))
        verb = "INSERT OR REPLACE" if replace else "INSERT"
        marks = ", ".join("?" * len(names))
        statement = f"{verb} INTO rows ({', '.join(names)}) VALUES ({marks})"
        with self._connection() as connection:
            connection.executemany(statement, zip(*values, strict=True))
            if replace:
                self._after_delete(connection, ids)
            self._after_insert(connection, batch)

    def delete(self, ids: NDArray[np.int64]) -> None:
        with self._connection() as connection:
            connection.executemany("DELETE FROM rows WHERE id = ?", [(i,) for i in ids.tolist()])
            self._after_delete(connection, ids)

    def count(self) -> int:
        return int(self._connection().execute("SELECT count(*) FROM rows").fetchone()[0])

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        return vt.get_pages(self._schema, ids, _IDS_AT_ONCE, self._read)

    def _read(self, ids: list[int]) -> pa.RecordBatch:
        where = f"WHERE rows.id IN ({', '.join('?' * len(ids))})"
        return self._batch(self._connection().execute(self._select(where), ids).fetchall())

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        cursor = self._connection().execute(self._select(""))
        while rows := cursor.fetchmany(batch_size):
            yield self._batch(rows)

    def find(self, where: vt.Filter, limit: int) -> NDArray[np.int64]:
        text, values = self._condition(where)
        statement = f"SELECT id FROM rows WHERE {text} LIMIT ?"
        rows = self._connection().execute(statement, [*values, limit]).fetchall()
        return np.array([row[0] for row in rows], dtype=np.int64)

    def _condition(self, where: vt.Filter) -> tuple[str, list[vt.Value]]:
        """The filter as SQL on `rows`, and the values to bind."""
        return vt.condition(vt.renamed(where, self._schema.columns))

    def _select(self, where: str) -> str:
        columns = "".join(f", rows.{name}" for name in self._schema.columns.values())
        table = self.vectors_in
        if table is None:
            return f"SELECT rows.id, vector{columns} FROM rows {where}"
        join = f"JOIN {table} ON {table}.id = rows.id"
        return f"SELECT rows.id, {table}.vector{columns} FROM rows {join} {where}"

    def _batch(self, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        ids = np.array([row[0] for row in rows], dtype=np.int64)
        columns = {}
        for at, field in enumerate(self._schema.fields, start=2):
            values = [row[at] for row in rows]
            if field.type is vt.FieldType.BOOL:  # SQLite keeps 0 and 1
                values = [None if value is None else bool(value) for value in values]
            columns[field.name] = values
        vectors = vectors_of_blobs([row[1] for row in rows], self._schema)
        return vt.batch_of(self._schema, ids, vectors, columns)


def blobs(vectors: NDArray[np.float32]) -> list[memoryview]:
    """The bytes of each row of `vectors` (n, d), without copying."""
    raw, size = memoryview(vectors.tobytes()), vectors.shape[1] * 4
    return [raw[start : start + size] for start in range(0, len(raw), size)]


def vectors_of_blobs(packed: Sequence[bytes], schema: vt.Schema) -> NDArray[np.float32]:
    """Vectors, (n, d), from their bytes."""
    return np.frombuffer(b"".join(packed), np.float32).reshape(-1, schema.dim)
