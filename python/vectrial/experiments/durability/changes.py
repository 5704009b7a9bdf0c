"""Changes to be made before a fault, and the rows that they write.

The vector of a row follows from its id and its version. So a row that is found shows its version,
and a vector with the columns of another version is recognised.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.gate.model import is_same_vector
from vectrial.model.capabilities import Capabilities, IndexKind
from vectrial.model.dataset import Dataset
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.stores.common.arrow import columns_of, ids_of, vectors_of
from vectrial.workload.crash import ChangeScript, NewRows
from vectrial.workload.ledger import FOREIGN, TORN, Change, ChangeKind

#: The column that holds a row's version, where a store has columns of integers.
VERSION = "version"
#: Rows are taken from the dataset in steps of this prime: neighbours in time are none in space.
_STEP = 7919


@dataclass
class RowMaker:
    """Makes rows out of a dataset's vectors, and recognises them.

    history: for each row, every version that was ever requested.
    """

    dataset: Dataset
    schema: Schema
    kind: IndexKind
    history: dict[int, list[int]] = field(default_factory=dict)

    def vector(self, id_: int, version: int) -> NDArray[np.float32]:
        """The vector of a version of a row."""
        vector: NDArray[np.float32] = self.dataset.vectors[self.position(id_, version)]
        return vector

    def position(self, id_: int, version: int) -> int:
        """Position of that vector in the dataset. Rows share vectors if there are more rows than
        vectors."""
        rows = self.dataset.rows
        step = _STEP if math.gcd(_STEP, rows) == 1 else 1
        return (id_ + version * step) % rows

    def rows(self, change: Change) -> NewRows | None:
        """The rows that a change writes; None for a delete."""
        if change.kind is ChangeKind.DELETE:
            return None
        for id_ in change.ids:
            self.history.setdefault(id_, []).append(change.version)
        vectors = np.array([self.vector(id_, change.version) for id_ in change.ids], np.float32)
        columns = {
            one.name: pa.array([change.version] * len(change.ids), pa.int64())
            for one in self.schema.fields
        }
        return NewRows(np.array(change.ids, np.int64), vectors, columns)

    def versions(self, table: pa.Table) -> dict[int, int]:
        """The version of each row in a table read from a store, or `TORN`, `FOREIGN`."""
        columns = columns_of(table, self.schema)
        told: Sequence[object] = columns.get(VERSION, [None] * table.num_rows)
        vectors = vectors_of(table)
        return {
            id_: self._version(id_, vectors[at], told[at])
            for at, id_ in enumerate(ids_of(table).tolist())
        }

    def _version(self, id_: int, vector: NDArray[np.float32], reported: object) -> int:
        written = self.history.get(id_, [])
        likely = [v for v in written if v == reported] or reversed(written)
        others = (v for v in reversed(written) if v != reported)
        for version in (*likely, *others):
            if is_same_vector(vector, self.vector(id_, version), self.schema, self.kind):
                return version if reported in (None, version) else TORN
        return FOREIGN


def schema_of(dataset: Dataset, can: Capabilities, schema: Schema) -> Schema:
    """Schema of the vectors, and of a version column if the store supports such columns."""
    columns = (Field(VERSION, FieldType.INT, indexed=False),)
    return Schema(dataset.dim, schema.metric, columns if FieldType.INT in can.field_types else ())


@dataclass
class Planner:
    """Chooses the changes of each round: `shares` of inserts, updates and deletes.

    version: version of the last change. next_id: id of the next new row.
    """

    rng: np.random.Generator
    batch_rows: int
    shares: Mapping[ChangeKind, float]
    version: int = 0
    next_id: int = 0

    def first_script(self, rows: int, maker: RowMaker) -> ChangeScript:
        """Script that writes the rows that are present before the first fault."""
        batch = max(self.batch_rows, min(rows, 100))
        changes = [self._insert(min(batch, rows - at)) for at in range(0, rows, batch)]
        return _script(changes, maker, 0.0)

    def next_script(
        self, live: Sequence[int], count: int, interval_s: float, maker: RowMaker
    ) -> ChangeScript:
        """Script of `count` changes; rows deleted by an earlier change are not touched again.

        live: ids of the rows that are present.
        """
        there = list(live)
        changes = []
        kinds = self.rng.choice(list(self.shares), count, p=list(self.shares.values()))
        for kind in map(ChangeKind, kinds):
            if kind is ChangeKind.INSERT or len(there) < 2 * self.batch_rows:
                change = self._insert(self.batch_rows)
                there += change.ids
            else:
                at = self.rng.choice(len(there), self.batch_rows, replace=False)
                ids = tuple(int(there[one]) for one in at)
                self.version += 1
                change = Change(kind, ids, self.version)
                if kind is ChangeKind.DELETE:
                    gone = set(ids)
                    there = [one for one in there if one not in gone]
            changes.append(change)
        return _script(changes, maker, interval_s)

    def _insert(self, rows: int) -> Change:
        self.version += 1
        ids = tuple(range(self.next_id, self.next_id + rows))
        self.next_id += rows
        return Change(ChangeKind.INSERT, ids, self.version)


def _script(changes: Sequence[Change], maker: RowMaker, interval_s: float) -> ChangeScript:
    return ChangeScript(tuple(changes), tuple(map(maker.rows, changes)), interval_s)
