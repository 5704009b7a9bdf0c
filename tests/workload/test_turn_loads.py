"""Loads that take turns: each lane goes on where its last turn ended, and sends nothing between."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from known_answers import SCORES, K, known_answers
from numpy.typing import NDArray

from vectrial._engine import Recorder
from vectrial.engine.client import Requests, Session, closed, target
from vectrial.engine.null_server import null_server
from vectrial.engine.recorders import judge_of
from vectrial.model.errors import StoreError, UserError
from vectrial.model.phase import PARTS, Slice, Turn
from vectrial.model.store import Hits
from vectrial.telemetry.scheduling import scheduling_time
from vectrial.workload.python.client_pool import ClientPool
from vectrial.workload.python.pool_turns import PoolTurns
from vectrial.workload.python.threads import ThreadTeam
from vectrial.workload.turn_load import Turns

QUERIES = 40
VECTORS, EXACT, TRUTH = known_answers(QUERIES)
MS = 1_000_000


def nobody_tells() -> None:
    """What client and store had of the processors."""


CLOSED = {"loop": "closed"}


class Log:
    """A search of some microseconds that keeps who asked what, and when."""

    def __init__(self, takes_s: float = 0.0005) -> None:
        self.takes_s = takes_s
        self.asked: dict[str, list[int]] = {}
        self.at_ns: list[int] = []

    def __call__(self, vector: NDArray[np.float32]) -> Hits:
        self.at_ns.append(time.perf_counter_ns())
        self.asked.setdefault(threading.current_thread().name, []).append(int(vector[0]))
        time.sleep(self.takes_s)
        return EXACT[int(vector[0])], SCORES


@contextmanager
def taking(search: Log, clients: int = 1, warmup: int = 0) -> Iterator[PoolTurns]:
    pool = ClientPool(search, VECTORS, judge_of(TRUTH), clients, 1, 0.0, None, None)
    pool.warmup, pool.logs_answers = (warmup, 5.0), True
    turns = PoolTurns(pool)
    try:
        yield turns
    finally:
        turns.end()


@pytest.mark.parametrize("clients", [1, 3])
def test_clients_go_on_where_their_last_turn_ended(clients: int) -> None:
    log = Log()
    with taking(log, clients) as turns:
        pieces = [turns.send(20 * MS) for _ in range(12)]
    assert sum(piece.issued for piece in pieces) == sum(map(len, log.asked.values()))
    for asked in log.asked.values():
        counts = Counter(asked)
        assert max(counts.values()) - min(counts[q] for q in range(QUERIES)) <= 1
    assert len(log.asked) == clients


def test_nothing_is_sent_between_turns() -> None:
    log = Log()
    with taking(log) as turns:
        first = turns.send(10 * MS)
        time.sleep(0.05)
        second = turns.send(10 * MS)
    between = [at for at in log.at_ns if first.ended_ns < at < second.began_ns]
    assert not between
    assert second.began_ns - first.ended_ns >= 50 * MS


def test_a_turn_lasts_until_its_last_answer() -> None:
    with taking(Log(0.03)) as turns:
        piece = turns.send(10 * MS)
    assert piece.issued == 1
    assert piece.seconds >= 0.03
    assert (piece.ended_ns - piece.began_ns) / 1e9 == pytest.approx(piece.seconds, abs=0.005)


def test_warm_ups_are_apart() -> None:
    log = Log()
    with taking(log, 2, warmup=7) as turns:
        turns.send(10 * MS)
        rest = turns.end()
    assert rest.warmup.samples() == 14
    assert rest.warmup_errors == 0
    assert len(rest.log) > 0


def test_slices_make_a_phase_as_if_they_had_followed_one_another() -> None:
    log = Log()
    pool = ClientPool(log, VECTORS, judge_of(TRUTH), 2, 1, 0.0, None, None)
    pool.warmup, pool.logs_answers = (5, 5.0), True
    turns = Turns(PoolTurns(pool), pool.judge, CLOSED)  # type: ignore[arg-type]  # it was given one
    slices = []
    for round_ in range(10):
        slices.append(turns.take(Turn(round_, 0, 20 * MS), nobody_tells))
        time.sleep(0.01)
    phase, answers = turns.phase("search")
    assert (phase.valid, phase.reason) == (True, None)
    assert phase.metrics["count"] == sum(one.count for one in slices)
    seconds = sum(one.seconds for one in slices)
    assert (phase.ended_ns - phase.started_ns) / 1e9 == pytest.approx(seconds)
    assert phase.metrics["qps"] == pytest.approx(phase.metrics["count"] / seconds)
    assert phase.metrics["recall_mean"] == 1.0
    assert 0.9 < (phase.metrics["littles_law"] or 0) <= 1
    assert phase.metrics["warmup_count"] == 10
    assert phase.windows == {}
    both = answers.first.samples() + answers.later.samples()
    assert both == phase.metrics["count"]


def test_who_is_slow_only_once_shows_it_although_that_was_before_anything_counts() -> None:
    """First answers of heads, and of turns that find lengths, are kept for this alone."""
    pool = ClientPool(Log(0.002), VECTORS, judge_of(TRUTH), 1, 1, 0.0, None, None)
    turns = Turns(PoolTurns(pool), pool.judge, CLOSED)  # type: ignore[arg-type]  # it was given one
    turns.take(Turn(-1, 0, 60 * MS), nobody_tells)
    slices = [turns.take(Turn(at, 0, 50 * MS, head_ns=25 * MS), nobody_tells) for at in range(4)]
    phase, answers = turns.phase("search")
    assert answers.first.samples() == QUERIES
    assert answers.timed_recorders[0].samples() == sum(one.count for one in slices)
    assert phase.metrics["count"] == sum(one.count for one in slices)


def test_a_slice_that_stood_still_is_told() -> None:
    log = Log()
    pool = ClientPool(log, VECTORS, judge_of(TRUTH), 1, 1, 0.0, None, None)
    turns = Turns(PoolTurns(pool), pool.judge, CLOSED)  # type: ignore[arg-type]  # it was given one
    for at in range(10):
        log.takes_s = 0.2 if at == 7 else 0.0005
        turns.take(Turn(at, 0, 60 * MS), nobody_tells)
    phase, _ = turns.phase("search")
    assert phase.metrics["stalls"] == 1
    assert "stalled once, for up to 0.2 s" in (phase.reason or "")


def test_the_head_of_a_slice_is_left_out() -> None:
    pool = ClientPool(Log(), VECTORS, judge_of(TRUTH), 1, 1, 0.0, None, None)
    turns = Turns(PoolTurns(pool), pool.judge, CLOSED)  # type: ignore[arg-type]  # it was given one
    one = turns.take(Turn(0, 0, 50 * MS, head_ns=10 * MS), nobody_tells)
    turns.close()
    assert one.head_s == pytest.approx(0.01, abs=0.01)
    assert one.head_count >= 1
    assert one.rate == pytest.approx(one.count / one.seconds)


def test_what_a_client_had_of_the_processors_is_counted_without_the_head() -> None:
    def taking(turn: Turn) -> Slice:
        pool = ClientPool(busy, VECTORS, judge_of(TRUTH), 1, 1, 0.0, None, None)
        turns = Turns(PoolTurns(pool), pool.judge, CLOSED)  # type: ignore[arg-type]  # it was given one
        found = turns.take(turn, lambda: scheduling_time([os.getpid()]))
        turns.close()
        return found

    def busy(vector: NDArray[np.float32]) -> Hits:
        end = time.perf_counter_ns() + MS
        while time.perf_counter_ns() < end:
            pass
        return EXACT[int(vector[0])], SCORES

    one = taking(Turn(0, 0, 200 * MS, head_ns=50 * MS))
    assert one.ran_s is not None
    assert one.waited_s is not None
    # Other tests may have the processor; its own threads had it or waited for the rest.
    assert one.ran_s + one.waited_s == pytest.approx(one.seconds, rel=0.2)
    tried = taking(Turn(-1, 0, 200 * MS))
    assert len(tried.parts) == PARTS
    assert min(tried.parts) > 0


def test_a_turn_by_which_lengths_are_found_is_in_parts_and_in_no_phase() -> None:
    pool = ClientPool(Log(), VECTORS, judge_of(TRUTH), 1, 1, 0.0, None, None)
    turns = Turns(PoolTurns(pool), pool.judge, CLOSED)  # type: ignore[arg-type]  # it was given one
    one = turns.take(Turn(-1, 0, 50 * MS), nobody_tells)
    assert len(one.parts) == PARTS
    assert one.rate == pytest.approx(one.count / one.seconds)
    assert min(one.parts) <= (one.rate or 0) <= max(one.parts)
    phase, _ = turns.phase("search")
    assert not phase.valid


def test_a_load_without_a_turn_is_no_phase_to_trust() -> None:
    pool = ClientPool(Log(), VECTORS, judge_of(TRUTH), 1, 1, 0.0, None, None)
    phase, _ = Turns(PoolTurns(pool), pool.judge, CLOSED).phase("search")  # type: ignore[arg-type]
    assert not phase.valid


def test_errors_are_counted_in_their_slice() -> None:
    def failing(vector: NDArray[np.float32]) -> Hits:
        time.sleep(0.001)
        if int(vector[0]) % 2:
            raise RuntimeError("no")
        return EXACT[int(vector[0])], SCORES

    pool = ClientPool(failing, VECTORS, judge_of(TRUTH), 1, 1, 0.0, None, None)
    turns = Turns(PoolTurns(pool), pool.judge, CLOSED)  # type: ignore[arg-type]  # it was given one
    one = turns.take(Turn(0, 0, 100 * MS), nobody_tells)
    turns.close()
    assert one.errors > 0
    assert one.count > 0


def test_an_answer_that_cannot_be_judged_ends_the_load() -> None:
    def wrong(_: NDArray[np.float32]) -> Hits:
        return np.array([0.5, 1.5, 2.5]), SCORES  # type: ignore[return-value]  # a faulty store

    pool = ClientPool(wrong, VECTORS, judge_of(TRUTH), 1, 1, 0.0, None, None)
    turns = PoolTurns(pool)
    with pytest.raises(StoreError, match="cannot be judged"):
        turns.send(10 * MS)
    turns.end()


def test_a_crew_raises_what_a_member_raised_and_goes_on() -> None:
    crew = ThreadTeam(3)

    def work(at: int) -> int:
        if at == 1:
            raise StoreError("not this one")
        return at

    with pytest.raises(StoreError, match="not this one"):
        crew.do(work)
    assert crew.do(lambda at: at * at) == [0, 1, 4]
    crew.close()
    crew.close()


# -- the engine ------------------------------------------------------------------------------------


@contextmanager
def session(clients: int, *, threads: int = 1, warmup: int | None = None) -> Iterator[Session]:
    with null_server("grpc", k=K) as server:
        requests = Requests("search", vectors=VECTORS, k=K, judge=judge_of(TRUTH))
        to = target("null-grpc", server.host, server.port)
        with Session(to, requests, closed(clients), threads=threads, warmup_count=warmup) as opened:
            yield opened


@pytest.mark.parametrize(("clients", "threads"), [(1, 1), (4, 2)])
def test_the_engine_goes_on_where_its_last_turn_ended(clients: int, threads: int) -> None:
    with session(clients, threads=threads) as opened:
        outcomes = [opened.take(5 * MS) for _ in range(8)]
    counts = np.zeros(QUERIES, np.int64)
    for outcome in outcomes:
        (record,) = outcome["classes"]
        counts += record["recorder"].query_recall()[1]
        assert record["in_flight"] == 0
        assert record["issued"] == record["recorder"].samples() > 0
        assert 0.005 * 0.5 < outcome["busy_s"] / clients < 0.1
        assert outcome["reconnects"] == 0
    if threads == 1:  # of several each has its part of the queries, and a pace of its own
        assert counts.max() - counts.min() <= 1


def test_the_first_turn_of_the_engine_has_its_warm_up() -> None:
    with session(2, warmup=10) as opened:
        first, second = (opened.take(5 * MS)["classes"][0]["warmup"] for _ in range(2))
    assert first.samples() == 10
    assert second.samples() == 0


def test_a_turn_of_the_engine_begins_when_it_is_told_to() -> None:
    with session(1) as opened:
        at_ns = time.perf_counter_ns() + 30 * MS
        outcome = opened.take(5 * MS, at_ns)
    assert outcome["started_ns"] == at_ns
    assert outcome["ended_ns"] >= at_ns


def test_turns_of_the_engine_are_merged_to_one_record() -> None:
    judge = judge_of(TRUTH)
    with null_server("grpc", k=K) as server:
        requests = Requests("search", vectors=VECTORS, k=K, judge=judge)
        to = target("null-grpc", server.host, server.port)
        with Session(to, requests, closed(1)) as opened:
            parts = [opened.take(5 * MS)["classes"][0]["recorder"] for _ in range(3)]
    whole = Recorder(judge)
    for part in parts:
        part.shift(-(part.started_ns() or 0))
        whole.merge(part)
    assert whole.samples() == sum(part.samples() for part in parts)


def test_a_session_that_does_not_fit_together_is_refused() -> None:
    requests = Requests("search", vectors=VECTORS, k=K)
    to = target("null-grpc", "127.0.0.1", 1)
    with (
        pytest.raises(UserError, match="cores"),
        Session(to, requests, closed(1), threads=2, cores=[0]),
    ):
        pytest.fail("it began")


def test_a_server_that_is_not_there_fails_the_requests_of_a_turn() -> None:
    requests = Requests("search", vectors=VECTORS, k=K)
    with Session(target("null-grpc", "127.0.0.1", 1), requests, closed(1)) as opened:
        (record,) = opened.take(20 * MS)["classes"]
    assert record["recorder"].errors()
