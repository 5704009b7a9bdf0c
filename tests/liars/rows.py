"""Stores that lie about the rows that they keep, change and serve, and one that does not.

A lie that only the loaded store tells, and not the gate's small one beside it, is told from
`MAIN` rows on.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.model.capabilities import Capabilities, Durability, Index, IndexKind, Params
from vectrial.model.filters import Filter
from vectrial.model.schema import Schema
from vectrial.model.store import Searcher
from vectrial.stores.common.arrow import ids_of
from vectrial.stores.memory import MemoryStore
from vectrial.stores.sqlite.store import SqliteStore

Ids = NDArray[np.int64]
Scores = NDArray[np.float32]
#: More rows than the gate's own small store has.
MAIN = 2_001


class Honest(MemoryStore):
    """As it is."""

    name: ClassVar[str] = "honest"


# -- what is kept ----------------------------------------------------------------------------


class Drops(MemoryStore):
    """Drops one of a thousand rows."""

    name: ClassVar[str] = "drops"

    def insert(self, batch: pa.RecordBatch) -> None:
        super().insert(batch.filter(pa.array(ids_of(batch) % 1000 != 7)))


class DropsAndCounts(Drops):
    """Drops one of a thousand rows, and counts it."""

    name: ClassVar[str] = "drops-and-counts"
    dropped = 0

    def insert(self, batch: pa.RecordBatch) -> None:
        before = super().count()
        super().insert(batch)
        self.dropped += before + batch.num_rows - super().count()

    def count(self) -> int:
        return super().count() + self.dropped


class Beside(MemoryStore):
    """Base of stores whose rows are right, while the index that searches see is another."""

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        self.index = MemoryStore(location)

    def create(self, schema: Schema, index: Index) -> None:
        super().create(schema, index)
        self.index.create(schema, index)

    def insert(self, batch: pa.RecordBatch) -> None:
        super().insert(batch)
        self.index.insert(batch)

    def upsert(self, batch: pa.RecordBatch) -> None:
        super().upsert(batch)
        self.index.upsert(batch)

    def delete(self, ids: Ids) -> None:
        super().delete(ids)
        self.index.delete(ids)

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        return self.index.searcher(k, params, where)

    @property
    def main(self) -> bool:
        """It is not the gate's small store."""
        return self.count() >= MAIN


class NotIndexed(Beside):
    """One of a thousand rows is in no index."""

    name: ClassVar[str] = "not-indexed"

    def insert(self, batch: pa.RecordBatch) -> None:
        MemoryStore.insert(self, batch)
        self.index.insert(batch.filter(pa.array(ids_of(batch) % 1000 != 7)))


# -- what changes ----------------------------------------------------------------------------


class DropsChanges(MemoryStore):
    """Drops one of a hundred updates and deletes."""

    name: ClassVar[str] = "drops-changes"
    asked = 0

    def dropped(self) -> bool:
        self.asked += 1
        return self.asked % 100 == 50

    def upsert(self, batch: pa.RecordBatch) -> None:
        if not self.dropped():
            super().upsert(batch)

    def delete(self, ids: Ids) -> None:
        if not self.dropped():
            super().delete(ids)


class ShowsDeleted(Beside):
    """Names a row that was deleted in one of a hundred answers."""

    name: ClassVar[str] = "shows-deleted"
    everywhere: ClassVar[bool] = True

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        self.gone: list[int] = []
        self.answered = 0

    def delete(self, ids: Ids) -> None:
        super().delete(ids)
        if self.everywhere or self.main:
            self.gone += ids.tolist()

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        plain = super().searcher(k, params, where)

        def search(vector: NDArray[np.float32], /) -> tuple[Ids, Scores]:
            ids, scores = plain(vector)
            self.answered += 1
            if self.gone and self.answered % self.every == 0:
                ids = ids.copy()
                ids[-1] = self.gone[self.answered % len(self.gone)]
            return ids, scores

        return search

    #: In one of so many answers: the gate's small store is asked 20 times.
    every: ClassVar[int] = 10


class ShowsDeletedInMain(ShowsDeleted):
    """The same in the loaded store alone, in one of a hundred answers."""

    name: ClassVar[str] = "shows-deleted-in-main"
    everywhere: ClassVar[bool] = False
    every: ClassVar[int] = 100


class UpdatesNotIndexed(Beside):
    """No update reaches the index of the loaded store."""

    name: ClassVar[str] = "updates-not-indexed"
    share: ClassVar[float] = 1.0

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        self.rng = np.random.default_rng(1)

    def upsert(self, batch: pa.RecordBatch) -> None:
        MemoryStore.upsert(self, batch)
        if not self.main or self.rng.random() >= self.share:
            self.index.upsert(batch)


class FewUpdatesNotIndexed(UpdatesNotIndexed):
    """Of one in twenty updates nothing reaches it."""

    name: ClassVar[str] = "few-updates-not-indexed"
    share: ClassVar[float] = 0.05


# -- what outlives a crash -------------------------------------------------------------------


class KeepsNothing(MemoryStore):
    """Says that a write is on the disk when it is acknowledged, and has no disk."""

    name: ClassVar[str] = "keeps-nothing"
    capabilities: ClassVar[Capabilities] = replace(
        MemoryStore.capabilities,
        persistent=True,
        durability={Durability.SYNCED: "every write is forced to the disk"},
    )

    def open(self, schema: Schema, index: Index) -> None:
        self.create(schema, index)


class KeepsEverything(SqliteStore):
    """Every insert is a transaction, and what is flushed stays: as it says."""

    name: ClassVar[str] = "keeps-everything"
    capabilities: ClassVar[Capabilities] = replace(
        SqliteStore.capabilities, durability={Durability.SYNCED: "a transaction for each batch"}
    )


class WritesElsewhere(MemoryStore):
    """Persists, it says, and has next to nothing in its folder."""

    name: ClassVar[str] = "writes-elsewhere"
    capabilities: ClassVar[Capabilities] = replace(MemoryStore.capabilities, persistent=True)

    def flush(self) -> None:
        (self.location / "rows").write_bytes(b"4096")


# -- what is approximate ---------------------------------------------------------------------


class LosesSome(Beside):
    """An index that may be wrong, says so, and knows nothing of one row in twelve."""

    name: ClassVar[str] = "loses-some"
    capabilities: ClassVar[Capabilities] = replace(
        MemoryStore.capabilities, indexes={"flat": IndexKind(recall_floor=0.9)}
    )

    def insert(self, batch: pa.RecordBatch) -> None:
        MemoryStore.insert(self, batch)
        self.index.insert(batch.filter(pa.array(ids_of(batch) % 12 != 7)))


# -- when it is ready ------------------------------------------------------------------------


class BuildsAtFirstSearch(MemoryStore):
    """Says that it is ready, and builds its index when it is first searched."""

    name: ClassVar[str] = "builds-at-first-search"
    build_s: ClassVar[float] = 0.3
    built = False

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        plain = super().searcher(k, params, where)

        def search(vector: NDArray[np.float32], /) -> tuple[Ids, Scores]:
            if not self.built:
                time.sleep(self.build_s)
                self.built = True
            return plain(vector)

        return search


class SlowWhenCold(MemoryStore):
    """Its first 120 searches are slow."""

    name: ClassVar[str] = "slow-when-cold"
    pause_s: ClassVar[float] = 0.01

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        self.searched = 0

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        plain = super().searcher(k, params, where)

        def search(vector: NDArray[np.float32], /) -> tuple[Ids, Scores]:
            self.searched += 1
            if self.searched <= 120:
                time.sleep(self.pause_s)
            return plain(vector)

        return search
