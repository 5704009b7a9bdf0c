"""Which versions a row may have after an outage, and what it is called where it has another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectrial.workload.ledger import (
    BROKEN,
    FOREIGN,
    TORN,
    BrokenRow,
    Change,
    ChangeKind,
    ChangeOutcome,
    Ledger,
    RowLoss,
)

INSERT, UPDATE, DELETE = (
    Change(kind, (1,), at)
    for at, kind in enumerate((ChangeKind.INSERT, ChangeKind.UPDATE, ChangeKind.DELETE), 1)
)


def judged(
    changes: list[Change], version: int, *, promised_ns: int | None, unknown: tuple[int, ...] = ()
) -> list[BrokenRow]:
    """What became of row 1; change i was acknowledged at i + 1 s, unless its outcome is unknown."""
    ledger = Ledger()
    outcomes = [
        ChangeOutcome(at, (at + 1) * 10**9, "lost the connection" if at in unknown else "")
        for at in range(len(changes))
    ]
    ledger.record(changes, outcomes)
    return ledger.judge({1: version} if version else {}, 10 * 10**9, promised_ns)


ALL = 10 * 10**9


@pytest.mark.parametrize(
    ("changes", "version", "promised_ns", "unknown", "loss"),
    [
        ([INSERT], 1, ALL, (), None),
        ([INSERT], 0, ALL, (), RowLoss.LOST),
        ([INSERT, UPDATE], 1, ALL, (), RowLoss.OLD),
        ([INSERT, UPDATE], 0, ALL, (), RowLoss.LOST),
        ([INSERT, DELETE], 1, ALL, (), RowLoss.RETURNED),
        ([INSERT, DELETE], 0, ALL, (), None),
        ([INSERT, UPDATE], TORN, ALL, (), RowLoss.TORN),
        ([INSERT, UPDATE], FOREIGN, None, (), RowLoss.FOREIGN),
        # Acknowledged after the last promise.
        ([INSERT, UPDATE], 1, 1.5e9, (), RowLoss.UNPROMISED),
        ([INSERT, UPDATE], 0, 1.5e9, (), RowLoss.LOST),
        ([INSERT, DELETE], 1, 1.5e9, (), RowLoss.UNPROMISED),
        ([INSERT], 0, None, (), RowLoss.UNPROMISED),
        # Never acknowledged.
        ([INSERT], 1, ALL, (0,), RowLoss.UNACKNOWLEDGED),
        ([INSERT], 0, ALL, (0,), None),
        ([INSERT, DELETE], 0, ALL, (1,), RowLoss.UNACKNOWLEDGED),
        ([INSERT, DELETE], 1, ALL, (1,), None),
    ],
)
def test_a_row_is_as_it_may_be_or_it_is_said_what_became_of_it(
    changes: list[Change],
    version: int,
    promised_ns: int | None,
    unknown: tuple[int, ...],
    loss: RowLoss | None,
) -> None:
    found = judged(changes, version, promised_ns=promised_ns, unknown=unknown)
    assert [one.loss for one in found] == ([] if loss is None else [loss])


def test_what_was_found_is_what_is_there_from_then_on() -> None:
    ledger = Ledger()
    ledger.record([INSERT, UPDATE], [ChangeOutcome(0, 1), ChangeOutcome(1, 2)])
    ledger.settle({1: 1})
    assert ledger.live() == {1: 1}
    assert ledger.judge({1: 1}, 9, 9) == []
    (lost,) = ledger.judge({}, 9, None)
    assert lost.loss is RowLoss.LOST, "it had outlived an outage"


def test_of_a_row_that_was_never_written_nothing_is_asked_again() -> None:
    ledger = Ledger()
    ledger.record([INSERT], [ChangeOutcome(0, 1)])
    ledger.settle({1: FOREIGN})
    ledger.record([UPDATE], [ChangeOutcome(0, 2)])
    assert ledger.ids == []


states = st.sampled_from([0, 1, 2, 3])


@given(
    states=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=8),
    promised=st.integers(0, 9),
    found=st.integers(0, 9),
)
def test_a_promise_is_broken_by_what_no_allowed_history_leaves(
    states: list[tuple[bool, bool]], promised: int, found: int
) -> None:
    """Against the definition: after the last promised change, any later one may be the last.

    states: of change i, whether it deletes, and whether it was acknowledged.
    """
    changes = [
        Change(ChangeKind.DELETE if deletes else ChangeKind.UPDATE, (1,), at + 1)
        for at, (deletes, _) in enumerate(states)
    ]
    unknown = tuple(at for at, (_, acknowledged) in enumerate(states) if not acknowledged)
    after = [0, *(change.state for change in changes)]
    must = max(
        (at + 1 for at, (_, ack) in enumerate(states) if ack and at + 1 <= promised), default=0
    )
    allowed = set(after[must:])
    found %= len(states) + 1
    verdict = judged(changes, found, promised_ns=promised * 10**9, unknown=unknown)
    broken = [one for one in verdict if one.loss in BROKEN]
    assert bool(broken) is (found not in allowed)
