"""The search for the least limits, against stores that are made up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectrial.analysis.fit import LimitsOutcome, LimitsPurpose
from vectrial.questions.bench import trials_in
from vectrial.questions.least_limits import MIB, LeastLimits, LimitsRequest, Reply, seek
from vectrial.results.writer import RunWriter

TOTAL = 64 * 2**30
#: More steps than any search takes.
MANY = 150

Store = Callable[[LimitsRequest], Reply]


def searched(
    store: Store, cpus: float = 8.0, **how: float
) -> tuple[LeastLimits, list[LimitsRequest]]:
    """What is found of a store, and what was tried."""
    search, tried = seek(TOTAL, cpus, **how), list[LimitsRequest]()  # type: ignore[arg-type]
    attempt = next(search)
    while True:
        tried.append(attempt)
        assert len(tried) < MANY
        try:
            attempt = search.send(store(attempt))
        except StopIteration as end:
            return end.value, tried


def needing(memory_bytes: int, cpus: float, peak_bytes: int) -> Store:
    """A store that holds from these limits on."""

    def reply(attempt: LimitsRequest) -> Reply:
        if attempt.memory_bytes < memory_bytes:
            return Reply(LimitsOutcome.KILLED, peak_bytes)
        return Reply(LimitsOutcome.SLOW if attempt.cpus < cpus else LimitsOutcome.HOLDS, peak_bytes)

    return reply


@given(
    memory=st.integers(1, 32 * 2**30),
    above=st.floats(1.0, 8.0),
    cpus=st.floats(0.01, 8.0),
    resolution=st.floats(0.02, 0.5),
)
def test_the_answer_brackets_the_truth(
    memory: int, above: float, cpus: float, resolution: float
) -> None:
    store = needing(memory, cpus, int(memory * above))
    found, tried = searched(store, resolution=resolution)
    assert found.memory_bytes is not None
    assert found.cpus is not None
    assert found.memory_bytes >= memory
    assert found.cpus >= cpus
    if found.low_memory_bytes is None:  # nothing lower was to be tried
        assert found.memory_bytes < 2 * 5 * MIB
    else:
        assert found.low_memory_bytes < memory
        high = max(found.low_memory_bytes * (1 + resolution), found.low_memory_bytes + MIB)
        assert found.memory_bytes <= high + MIB
        assert tried[-1] == LimitsRequest(LimitsPurpose.BELOW, found.low_memory_bytes, 8.0)
    if found.low_cpus is None:
        assert found.cpus <= 0.2
    else:
        assert found.low_cpus < cpus
        assert found.cpus == 2 * found.low_cpus
    confirming = [one for one in tried if one.purpose is LimitsPurpose.CONFIRM]
    assert confirming == [LimitsRequest(LimitsPurpose.CONFIRM, found.memory_bytes, found.cpus)] * 3


@given(memory=st.integers(64 * MIB, 2**33), short=st.floats(0.6, 0.99))
def test_an_answer_that_is_not_confirmed_is_raised(memory: int, short: float) -> None:
    """What the whole machine says that it used is less than it needs."""
    found, tried = searched(needing(memory, 1.0, int(memory * short)))
    assert found.memory_bytes is not None
    assert found.memory_bytes >= memory
    assert found.low_memory_bytes is not None
    assert found.low_memory_bytes < memory <= 1.11 * found.low_memory_bytes + 2 * MIB
    assert tried[-1].purpose is LimitsPurpose.BELOW


def test_nothing_is_found_of_a_store_that_never_holds() -> None:
    found, tried = searched(lambda attempt: Reply(LimitsOutcome.KILLED))
    assert found == LeastLimits(None, None)
    assert tried == [LimitsRequest(LimitsPurpose.WHOLE, TOTAL, 8.0)]


@given(st.lists(st.sampled_from(LimitsOutcome), min_size=MANY, max_size=MANY))
def test_any_replies_come_to_an_end(replies: list[LimitsOutcome]) -> None:
    """What is found was confirmed by the last replies, whatever came before."""
    left: Iterator[LimitsOutcome] = iter(replies)
    held: list[tuple[LimitsRequest, bool]] = []

    def reply(attempt: LimitsRequest) -> Reply:
        outcome = next(left)
        if outcome is not LimitsOutcome.UNKNOWN:
            held.append((attempt, outcome is LimitsOutcome.HOLDS))
        return Reply(outcome, 2**30)

    found, _ = searched(reply)
    if found.memory_bytes is None:
        assert not all(outcome is LimitsOutcome.HOLDS for outcome in replies)
        return
    answer = (found.memory_bytes, found.cpus)
    confirming = [
        (one, holds)
        for one, holds in held
        if one.purpose is LimitsPurpose.CONFIRM and (one.memory_bytes, one.cpus) == answer
    ]
    assert [holds for _, holds in confirming[-3:]] == [True] * 3


@pytest.mark.parametrize("outcome", [LimitsOutcome.SLOW, LimitsOutcome.UNKNOWN])
def test_a_step_that_a_pause_spoils_is_made_again(outcome: LimitsOutcome) -> None:
    """A pause of the machine at the first half of the memory."""
    store, paused = needing(200 * MIB, 1.0, 1000 * MIB), iter([True])

    def reply(attempt: LimitsRequest) -> Reply:
        if attempt.memory_bytes == 500 * MIB and next(paused, False):
            return Reply(outcome)
        return store(attempt)

    found, tried = searched(reply)
    assert found.memory_bytes is not None
    assert 200 * MIB <= found.memory_bytes <= 220 * MIB
    assert [one.memory_bytes for one in tried].count(500 * MIB) == 3


def test_figures_that_say_nothing_do_not_raise_an_answer() -> None:
    store = needing(200 * MIB, 1.0, 1000 * MIB)
    calm, _ = searched(store)
    paused = iter([True, True])

    def reply(attempt: LimitsRequest) -> Reply:
        if attempt.purpose is LimitsPurpose.CONFIRM and next(paused, False):
            return Reply(LimitsOutcome.UNKNOWN)
        return store(attempt)

    found, tried = searched(reply)
    assert found == calm
    assert [one.purpose for one in tried].count(LimitsPurpose.CONFIRM) == 5


def test_a_run_that_was_interrupted_at_its_start_has_no_trials(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run"):
        pass
    assert list(trials_in(tmp_path / "run")) == []
