"""The rows that a store must have after a fault, from every change that was sent and its
acknowledgement.

A row has a version, which grows with each change; 0: it is not there. One writer makes the changes
one after the other, and does not change a row again while the outcome of its last change is
unknown. So the acknowledgements alone determine the possible versions of a row after a fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

#: Found versions that are none: a vector of one version beside columns of another, and a vector
#: that was never written.
TORN, FOREIGN = -1, -2


class ChangeKind(StrEnum):
    """Kind of a change."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True)
class Change:
    """One request: rows inserted, written again, or deleted. version: their version afterwards."""

    kind: ChangeKind
    ids: tuple[int, ...]
    version: int

    @property
    def state(self) -> int:
        """The version of the change's rows afterwards; 0 if they are gone."""
        return 0 if self.kind is ChangeKind.DELETE else self.version


@dataclass(frozen=True)
class ChangeOutcome:
    """The writer's knowledge of a change that it sent. at_ns: time of the acknowledgement
    (`time.monotonic_ns`), or of the error. error: empty if it was acknowledged."""

    change: int
    at_ns: int
    error: str = ""


class RowLoss(StrEnum):
    """Kinds of deviations of a row from the last acknowledged change; some are allowed."""

    LOST = "lost"  # acknowledged, promised, and not there
    OLD = "old"  # there as it was before a promised update
    RETURNED = "returned"  # deleted, and there again
    TORN = "torn"  # the vector of one version with the columns of another
    FOREIGN = "foreign"  # a vector that was never written for this row
    UNPROMISED = "unpromised"  # acknowledged, not promised, and undone: allowed
    UNACKNOWLEDGED = "unacknowledged"  # never acknowledged, yet there: allowed


#: Deviations that break a promise.
BROKEN = frozenset({RowLoss.LOST, RowLoss.OLD, RowLoss.RETURNED, RowLoss.TORN, RowLoss.FOREIGN})


@dataclass(frozen=True)
class BrokenRow:
    """A row that deviates from the last acknowledged change, or may do so. age_s: age of the broken
    promise at the fault; None if none is broken."""

    id: int
    loss: RowLoss
    expected: int
    version: int
    age_s: float | None = None

    def __str__(self) -> str:
        state = {0: "absent", TORN: "torn", FOREIGN: "foreign"}
        there = state.get(self.version, f"version {self.version}")
        wanted = state.get(self.expected, f"version {self.expected}")
        age = "" if self.age_s is None else f", acknowledged {self.age_s:.3g} s before"
        return f"row {self.id}: {self.loss}: {there} instead of {wanted}{age}"


@dataclass
class _Row:
    """The known history of a row. base: the version that was found last. changes: later changes,
    each with its version and the time of its acknowledgement; None: its outcome is unknown."""

    base: int = 0
    changes: list[tuple[int, int | None]] = field(default_factory=list)


class Ledger:
    """The expected rows."""

    def __init__(self) -> None:
        self._rows: dict[int, _Row] = {}
        self._spoilt: set[int] = set()

    @property
    def ids(self) -> list[int]:
        """Ids of every row that was ever written, except those in whose place foreign content was
        found."""
        return sorted(self._rows)

    def live(self) -> dict[int, int]:
        """The rows that are present, with their versions, as long as no outcome is unknown."""
        return {id_: row.base for id_, row in self._rows.items() if row.base}

    def record(self, changes: Sequence[Change], outcomes: Collection[ChangeOutcome]) -> None:
        """Record the outcomes of the changes of a script that were sent."""
        for outcome in sorted(outcomes, key=lambda one: one.change):
            change = changes[outcome.change]
            at_ns = None if outcome.error else outcome.at_ns
            for id_ in change.ids:
                if id_ not in self._spoilt:
                    row = self._rows.setdefault(id_, _Row())
                    row.changes.append((change.state, at_ns))

    def judge(
        self, found: Mapping[int, int], fault_ns: int, promised_ns: int | None
    ) -> list[BrokenRow]:
        """Judge every row; returns the rows that deviate.

        Args:
            found: version of each row that is present, or `TORN`, `FOREIGN`.
            fault_ns: when the fault came. promised_ns: writes acknowledged by then had to survive
                it; None: none had to, beyond what was found after the previous fault.
        """
        return [
            one
            for id_ in self.ids
            if (one := self._judge_row(id_, found.get(id_, 0), fault_ns, promised_ns)) is not None
        ]

    def _judge_row(
        self, id_: int, version: int, fault_ns: int, promised_ns: int | None
    ) -> BrokenRow | None:
        row = self._rows[id_]
        states = [(row.base, 0 if promised_ns is None else promised_ns), *row.changes]
        acknowledged = [at for at, (_, ns) in enumerate(states) if ns is not None]
        kept = [0]
        if promised_ns is not None:
            kept = [at for at in acknowledged if at == 0 or (states[at][1] or 0) <= promised_ns]
        last, must = acknowledged[-1], kept[-1]
        expected, since_ns = states[must]
        if version in (TORN, FOREIGN):
            loss = RowLoss.TORN if version == TORN else RowLoss.FOREIGN
            return BrokenRow(id_, loss, states[last][0], version)
        if version == states[last][0]:
            return None
        if version in (state for state, _ in states[last + 1 :]):
            return BrokenRow(id_, RowLoss.UNACKNOWLEDGED, states[last][0], version)
        if version in (state for state, _ in states[must:]):
            return BrokenRow(id_, RowLoss.UNPROMISED, states[last][0], version)
        if not version:
            loss = RowLoss.LOST
        elif not expected:
            loss = RowLoss.RETURNED
        else:
            loss = RowLoss.OLD
        age_s = None if must == 0 or since_ns is None else (fault_ns - since_ns) / 1e9
        return BrokenRow(id_, loss, expected, version, age_s)

    def settle(self, found: Mapping[int, int]) -> None:
        """Take the rows found as the new expected state; rows with foreign content in their place
        are no longer checked."""
        for id_ in self.ids:
            version = found.get(id_, 0)
            if version in (TORN, FOREIGN):
                self._spoilt.add(id_)
                del self._rows[id_]
            else:
                self._rows[id_] = _Row(version)


def count_losses(found: Collection[BrokenRow]) -> dict[RowLoss, int]:
    """Number of rows of each kind, all kinds included."""
    counts = Counter(one.loss for one in found)
    return {loss: counts[loss] for loss in RowLoss}
