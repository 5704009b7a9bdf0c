"""A load that two machines send together, here two engines in one process: split without gaps or
doubles, begun at one instant, merged without loss."""

from __future__ import annotations

import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from engine_runs import half_right
from hypothesis import given
from hypothesis import strategies as some

from vectrial._engine import Judge, Recorder
from vectrial.engine.client import MachineShare, Requests, arrivals, closed, drive, target
from vectrial.engine.null_server import NullServer, null_server
from vectrial.engine.parts import LoadPart, merge_parts, pack_part
from vectrial.engine.types import LoadOutcome, LoadSource
from vectrial.model.errors import UserError

K, QUERIES, DIM, MACHINES = 10, 50, 20, 2
VECTORS = np.arange(QUERIES * DIM, dtype=np.float32).reshape(QUERIES, DIM)
#: The clock of the second machine is so much ahead.
AHEAD_NS = 3_600 * 10**9
LEAD_NS = 20_000_000


def driven(
    server: NullServer, source: LoadSource, judge: Judge, *, once: bool = False, threads: int = 1
) -> tuple[LoadOutcome, list[LoadPart], list[int]]:
    """What two machines saw, merged; the part of each; and how late each began, in ns."""
    meeting = threading.Barrier(MACHINES)
    named: list[int] = []
    late_ns: list[int] = []
    search = Requests(
        "search", vectors=VECTORS, k=K, judge=judge, options={"collection": "any"}, once=once,
        keep=True,
    )  # fmt: skip

    def start() -> int:
        if meeting.wait() == 0:
            named.append(time.perf_counter_ns() + LEAD_NS)
        meeting.wait()
        return named[0]

    def one(machine: int) -> LoadPart:
        outcome = drive(
            target("null-grpc", server.host, server.port),
            [search],
            [source],
            duration_s=None if source["count"] or once else 0.5,
            threads=threads,
            warmup_count=None if once else 20,
            share=MachineShare(machine, MACHINES, start, lambda at: late_ns.append(at - named[0])),
            seed=3,
        )
        return pack_part(outcome)

    with ThreadPoolExecutor(MACHINES) as pool:
        parts = list(pool.map(one, range(MACHINES)))
    parts = pickle.loads(pickle.dumps(parts))
    return merge_parts(parts, [judge], named[0]), parts, late_ns


@pytest.mark.parametrize("threads", [1, 2])
def test_every_request_is_sent_by_one_machine(threads: int) -> None:
    judge = half_right(QUERIES, K)
    with null_server(k=K) as server:
        outcome, parts, _ = driven(server, closed(3), judge, once=True, threads=threads)
    requests = outcome["classes"][0]["requests"]
    assert requests is not None
    assert sorted(requests[0]) == list(range(QUERIES))
    assert all(part.classes[0]["issued"] for part in parts)
    assert outcome["classes"][0]["recorder"].summary()["recall_mean"] == pytest.approx(0.75)


def test_one_schedule_is_kept_by_both() -> None:
    """Each arrival of a trace is sent once, when it is due, and the seconds of both are one row."""
    rng = np.random.default_rng(0)
    offsets = np.sort(rng.integers(0, 400_000_000, 200))
    with null_server(k=K) as server:
        outcome, parts, late_ns = driven(
            server, arrivals(kind="trace", offsets=offsets), half_right(QUERIES, K)
        )
    (record,) = outcome["classes"]
    assert record["issued"] == len(offsets)
    assert outcome["unsent"] == 0
    assert record["requests"] is not None
    sent = np.sort(record["requests"][1]) - outcome["started_ns"]
    assert (sent >= offsets - 1).all()
    assert len({part.fields["started_ns"] for part in parts}) == 1
    second = (record["requests"][2] - outcome["started_ns"]) // 10**9
    assert record["recorder"].windows()["count"] == np.bincount(second).tolist()
    assert outcome["backlog"] is not None
    assert len(outcome["backlog"]) == 4
    assert outcome["backlog"] == [
        sum(quarter) for quarter in zip(*(part.fields["backlog"] for part in parts), strict=True)
    ]
    assert len(late_ns) == MACHINES
    assert all(late >= 0 for late in late_ns)


def test_clients_and_counts_are_those_of_both() -> None:
    with null_server(k=K) as server:
        outcome, parts, _ = driven(server, closed(5, count=1001), half_right(QUERIES, K))
    assert outcome["classes"][0]["issued"] == 1001
    assert sorted(part.classes[0]["issued"] for part in parts) == [500, 501]
    assert outcome["peak_in_flight"] <= 5
    _, answers = outcome["classes"][0]["recorder"].query_recall()
    assert answers.sum() == 1001
    assert outcome["cpu_ns"] == sum(part.fields["cpu_ns"] for part in parts)


def test_a_machine_waits_no_longer_than_its_caller() -> None:
    """What `start` raises ends the run."""

    def nobody() -> int:
        raise UserError("the other machine is lost")

    with null_server(k=K) as server, pytest.raises(UserError, match="is lost"):
        drive(
            target("null-grpc", server.host, server.port),
            [Requests("search", vectors=VECTORS, k=K)],
            [closed(1)],
            duration_s=60,
            share=MachineShare(0, 2, nobody),
        )


def test_a_machine_without_a_number() -> None:
    with null_server(k=K) as server, pytest.raises(UserError, match="below that of the machines"):
        drive(
            target("null-grpc", server.host, server.port),
            [Requests("search", vectors=VECTORS, k=K)],
            [closed(1, count=1)],
            share=MachineShare(2, 2),
        )


@given(
    samples=some.lists(
        some.tuples(some.integers(0, 10**10), some.integers(0, 10**8), some.booleans()),
        min_size=1, max_size=60,
    ),
    cut=some.integers(0, 60),
)  # fmt: skip
def test_records_of_two_clocks_are_as_those_of_one(
    samples: list[tuple[int, int, bool]], cut: int
) -> None:
    def recorded(some_samples: list[tuple[int, int, bool]], ahead_ns: int = 0) -> Recorder:
        recorder = Recorder()
        recorder.start(ahead_ns)
        for at, took, failed in some_samples:
            sent, done = ahead_ns + at, ahead_ns + at + took
            if failed:
                recorder.error(sent, sent, done, "refused", f"at {at}")
            else:
                recorder.operation(sent, sent, done)
        recorder.finish(ahead_ns + max(at + took for at, took, _ in samples) + 1)
        return recorder

    whole = recorded(samples)
    ours, theirs = recorded(samples[:cut]), recorded(samples[cut:], AHEAD_NS)
    theirs.shift(-AHEAD_NS)
    ours.merge(theirs)
    assert ours.summary() == whole.summary()
    assert ours.windows() == whole.windows()
    assert ours.errors() == whole.errors()
    assert ours.histogram("latency") == whole.histogram("latency")
