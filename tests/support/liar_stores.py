"""Stores in SQLite files that declare synced writes, and do not keep what they acknowledge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.model.capabilities import Durability
from vectrial.stores.sqlite.store import SqliteStore


class Unsynced(SqliteStore):
    """Syncs nothing: what it acknowledged is in the page cache."""

    name = "unsynced"

    def _connection(self) -> Any:
        made = super()._connection()
        made.execute("PRAGMA synchronous = OFF")
        made.execute("PRAGMA wal_autocheckpoint = 0")
        return made

    def flush(self) -> None:
        pass


class SyncedLate(Unsynced):
    """Syncs after its fortieth write, and never again."""

    name = "synced-late"
    _writes = 0

    def insert(self, batch: pa.RecordBatch) -> None:
        super().insert(batch)
        self._wrote()

    def upsert(self, batch: pa.RecordBatch) -> None:
        super().upsert(batch)
        self._wrote()

    def delete(self, ids: NDArray[np.int64]) -> None:
        super().delete(ids)
        self._wrote()

    def _wrote(self) -> None:
        self._writes += 1
        if self._writes == 40:
            connection = self._connection()
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("PRAGMA synchronous = OFF")


class OutOfTheFolder(SqliteStore):
    """Keeps its file in shared memory, and not in its folder."""

    name = "out-of-the-folder"

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        self._file = Path("/dev/shm") / f"{str(location).replace('/', '-')}.sqlite"


class Forgetful(SqliteStore):
    """Drops one insert in ten, and acknowledges it."""

    name = "forgetful"
    _writes = 0

    def insert(self, batch: pa.RecordBatch) -> None:
        self._writes += 1
        if self._writes % 10:
            super().insert(batch)


class Undeleting(SqliteStore):
    """Has its deletes in memory alone: the rows are back when it is opened again."""

    name = "undeleting"

    def delete(self, ids: NDArray[np.int64]) -> None:
        pass


class Stale(SqliteStore):
    """Acknowledges updates and keeps the rows as they were."""

    name = "stale"

    def upsert(self, batch: pa.RecordBatch) -> None:
        there = set(self.get(batch.column("id").to_numpy()).column("id").to_pylist())
        new = pa.array([id_ not in there for id_ in batch.column("id").to_pylist()])
        super().upsert(batch.filter(new))


class Torn(SqliteStore):
    """Writes the columns of an update, and leaves the vector."""

    name = "torn"

    def upsert(self, batch: pa.RecordBatch) -> None:
        for id_, version in zip(
            batch.column("id").to_pylist(), batch.column(2).to_pylist(), strict=True
        ):
            with self._connection() as connection:
                column = batch.schema.names[2]
                connection.execute(f"UPDATE rows SET {column} = ? WHERE id = ?", [version, id_])


class Honest(SqliteStore):
    """Syncs every commit."""

    name = "honest"


LIARS = (Unsynced, SyncedLate, OutOfTheFolder, Forgetful, Undeleting, Stale, Torn)
for _kind in (*LIARS, Honest):
    _kind.durability = Durability.SYNCED
    _kind.capabilities = replace(
        SqliteStore.capabilities, durability={Durability.SYNCED: "so it says"}
    )
