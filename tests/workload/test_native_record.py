"""What phases say of runs whose truth is known: stalls, mixtures, Little's law, merged threads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from vectrial._engine import LoadControl, histogram_buckets, histogram_merge
from vectrial.engine.client import Requests, arrivals, closed, drive, target
from vectrial.engine.null_server import NullServer, null_server
from vectrial.engine.types import LoadOutcome, LoadSource, LoadWindow
from vectrial.model.phase import Phase
from vectrial.model.results_schema import METRICS
from vectrial.model.store import LoadTarget
from vectrial.model.workload import ClosedLoop
from vectrial.workload.live import progress_callback
from vectrial.workload.record import _fault, phase_of_outcome

K, DIM = 10, 16
VECTORS = np.ones((100, DIM), dtype=np.float32)
SEARCH = Requests("search", vectors=VECTORS, k=K)


@pytest.fixture(scope="module")
def server() -> Iterator[NullServer]:
    with null_server(k=K) as running:
        yield running


def run(
    server: NullServer,
    sources: list[LoadSource],
    requests: Requests | list[Requests] = SEARCH,
    threads: int = 1,
    **settings: Any,
) -> list[Phase]:
    to = target("null-grpc", server.host, server.port)
    asked = [requests] if isinstance(requests, Requests) else requests
    return phases(to, asked, sources, threads=threads, **settings)


def phases(
    to: LoadTarget, requests: list[Requests], sources: list[LoadSource], **settings: Any
) -> list[Phase]:
    outcome = drive(to, requests, sources, **settings)
    by_answers = all(source["arrival"] == "closed" for source in sources)
    return phases_of(outcome, by_answers, sum(source["clients"] for source in sources))


def phases_of(outcome: LoadOutcome, by_answers: bool, clients: int = 0) -> list[Phase]:
    return [
        phase_of_outcome(
            record["name"],
            outcome,
            record,
            clients=clients if by_answers else None,
            load_1m=os.getloadavg()[0],
            params={"loop": "test"},
            no_recall="no ground truth was given",
        )
        for record in outcome["classes"]
    ]


@pytest.mark.parametrize("source", [closed(4, count=500), arrivals(2000, count=500)])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_phase_accounts_for_everything(
    server: NullServer, source: LoadSource, threads: int
) -> None:
    (phase,) = run(server, [source], threads=threads, warmup_count=50)
    assert phase.valid, phase.reason
    assert phase.errors == []
    # A pause of the machine's is told of a closed loop, and is no fault.
    assert (phase.reason or "stalled ").startswith("stalled ")
    metrics = phase.metrics
    assert set(metrics) <= set(METRICS)
    assert {name for name, value in metrics.items() if value is None} == set(phase.missing)
    assert (metrics["count"], metrics["warmup_count"], metrics["unanswered"]) == (500, 50, 0)
    little = metrics["littles_law"] or 0
    if source["arrival"] == "closed":
        seconds = (phase.ended_ns - phase.started_ns) / 1e9
        mean_s = (metrics["latency_mean"] or 0) / 1e6
        assert little == pytest.approx(500 * mean_s / seconds / 4)
        assert 0 < little <= 1
        assert (metrics["in_flight_peak"] or 0) <= 4
    else:
        # A connection that opens on a busy machine takes a little of the time in flight.
        assert little == pytest.approx(1, abs=0.01)
        _, counts = histogram_buckets(phase.histograms["lag"])
        assert counts.sum() == 500
    assert (metrics["cpu_us_per_op"] or 0) > 0
    windows = phase.windows["search"]
    assert sum(int(count or 0) for count in windows["count"]) == 500


@pytest.mark.parametrize(("law", "faulty"), [(0.98, True), (0.995, False), (1.01, True)])
def test_in_an_open_loop_service_times_are_the_time_in_flight(law: float, faulty: bool) -> None:
    """Less a little for connections that had to be opened."""
    figures = {"littles_law": law}
    fault = _fault(10, 0, 10, clients=None, metrics=figures, expect_errors=False)
    assert (fault is not None) == faulty
    assert _fault(10, 0, 10, clients=1, metrics={"littles_law": 0.5}, expect_errors=False) is None


@pytest.mark.slow
def test_a_run_ends_when_its_follower_is_told(server: NullServer) -> None:
    """After the clock has started, and with what was recorded until then."""
    asked: list[bool] = []

    def until() -> bool:
        asked.append(len(asked) == 2)
        return asked[-1]

    follow = progress_callback(
        ClosedLoop(2, 600, 600), 1, "search", lambda *_: None, lambda _: None, until=until
    )
    to = target("null-grpc", server.host, server.port)

    def once_answered(control: LoadControl) -> None:
        if control.progress()[2]:
            follow(control)

    outcome = drive(to, [SEARCH], [closed(2)], duration_s=600, progress=once_answered)
    assert asked[:3] == [False, False, True]
    (record,) = outcome["classes"]
    assert record["recorder"].samples() > 0


def test_an_open_loop_sees_the_stall_that_a_closed_loop_hides() -> None:
    """The server stands still for 0.4 s in every 2 s: a fifth of all arrivals find it so, and
    wait up to 0.4 s; of a closed loop's requests only those few that were under way do. What a busy
    machine adds, both see in the same way."""
    with null_server(k=K, stall_s=(2.0, 0.4)) as server:
        outcome = drive(
            target("null-grpc", server.host, server.port),
            [replace(SEARCH, keep=True)],
            [arrivals(1000, kind="constant")],
            duration_s=4,
        )
        (by_answers,) = run(server, [closed(8)], duration_s=4)
    (by_schedule,) = phases_of(outcome, by_answers=False)
    seen, hidden = by_schedule.metrics, by_answers.metrics
    assert seen["sent_rate"] == pytest.approx(1000, rel=0.02)
    requests = outcome["classes"][0]["requests"]
    assert requests is not None
    done_ns, due_ns = requests[2] - outcome["started_ns"], np.arange(4000) * 1_000_000
    assert seen["count"] == len(done_ns) == len(due_ns)
    assert seen["latency_mean"] == pytest.approx((done_ns.mean() - due_ns.mean()) / 1e3)
    assert (seen["latency_max"] or 0) > 390_000
    assert (seen["latency_p90"] or 0) > 100_000, "half of those that find it so wait half as long"
    assert (seen["in_flight_peak"] or 0) > 100, "sent when due, so they wait there"
    assert slow(by_schedule) > 5 * slow(by_answers)
    assert (hidden["latency_max"] or 0) > 300_000


def slow(phase: Phase) -> int:
    """How many answers took longer than 0.1 s."""
    bounds_us, counts = histogram_buckets(phase.histograms["latency"])
    return int(counts[bounds_us > 100_000].sum())


def test_a_bound_that_is_met_is_told(server: NullServer) -> None:
    with null_server("silent") as silent:
        (phase,) = run(silent, [arrivals(250, in_flight=20)], duration_s=1, timeout_s=9, drain_s=0)
    assert not phase.valid
    assert "no room for" in (phase.reason or "")
    assert (phase.metrics["unanswered"], phase.metrics["count"]) == (20, 0)
    assert 150 < (phase.metrics["unsent"] or 0) < 350
    assert phase.metrics["in_flight_peak"] == 20


@pytest.mark.slow
@pytest.mark.parametrize("source", [closed(8, count=200), arrivals(1000, count=200)])
def test_what_a_server_lets_be_in_flight_on_a_connection_is_told(source: LoadSource) -> None:
    with null_server(k=K, room=5, faults=[("late", 2)], late_s=0.02) as narrow:
        (phase,) = run(narrow, [source], warmup_count=10)
        (wide,) = run(narrow, [source], warmup_count=10, connections=100)
    assert not phase.valid
    assert "no room for" in (phase.reason or "")
    assert phase.metrics["count"] == 200, "but all of them in the end"
    assert wide.valid, wide.reason


@pytest.mark.slow
def test_a_rate_that_is_not_sustained_is_told() -> None:
    """Replies come one after the other, each 4 ms late: some 200 a second, and no more."""
    with null_server("resp", k=K, faults=[("late", 1)], late_s=0.004) as slow:
        to = target("redis-pipelined", slow.host, slow.port)
        search = replace(SEARCH, options={"collection": "things"})
        (over,) = phases(to, [search], [arrivals(1000)], duration_s=1.0, timeout_s=300)
        (under,) = phases(to, [search], [arrivals(60)], duration_s=1.0)
    assert not over.valid
    assert (over.reason or "").startswith("overloaded: ")
    assert "/s are not sustained" in (over.reason or "")
    assert over.metrics["offered_rate"] == pytest.approx(1000, rel=0.15), "of the time offered"
    assert (over.metrics["backlog"] or 0) > 500
    assert over.metrics["unanswered"] == 0, "in the end"
    # What keeps up looks overloaded where the machine stands still for the second half of it.
    stood_still = (under.metrics["latency_max"] or 0) > 250_000
    assert under.valid or stood_still, under.reason
    assert (under.metrics["backlog"] or 0) < 60 or stood_still


@pytest.mark.parametrize(
    ("backlog", "overloaded"),
    [
        ([50, 100, 150, 200], True),  # n = 250, of which a fifth is left over in each quarter
        ([90, 180, 190, 200], False),  # a queue that fills up, and stays
        ([0, 0, 0, 200], False),  # a pause at the end
        ([0, 0, 200, 200], False),  # a pause that was not made up for
        ([0, 47, 94, 141], False),  # 47 = 3 √250, as chance alone may have it
        ([0, 48, 96, 144], True),
    ],
)
def test_a_backlog_that_grows_to_the_end_is_an_overload(
    server: NullServer, backlog: list[int], overloaded: bool
) -> None:
    to = target("null-grpc", server.host, server.port)
    outcome = drive(to, [SEARCH], [arrivals(2000, kind="constant")], duration_s=0.5)
    assert outcome["backlog"] is not None
    outcome["backlog"] = backlog
    (phase,) = phases_of(outcome, by_answers=False)
    assert phase.valid != overloaded
    assert ("overloaded" in (phase.reason or "")) == overloaded


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ["poisson", "constant"])
def test_every_arrival_is_accounted_for_where_many_are_never_sent(kind: str, threads: int) -> None:
    with null_server("silent") as silent:
        to = target("null-grpc", silent.host, silent.port)
        source = arrivals(600, kind=kind, in_flight=7)
        outcome = drive(
            to, [SEARCH], [source], duration_s=1, threads=threads, drain_s=0, timeout_s=9
        )
    (record,) = outcome["classes"]
    arrived = record["issued"] + outcome["unsent"]
    assert record["issued"] == record["in_flight"] == 7
    if kind == "constant":
        assert arrived == 600
    assert outcome["backlog"] is not None
    assert outcome["backlog"][-1] == arrived, "all that was due is left over, sent or not"
    (phase,) = phases_of(outcome, by_answers=False)
    assert phase.metrics["offered_rate"] == pytest.approx(arrived)
    assert "overloaded" in (phase.reason or "")
    assert f"{outcome['unsent']} were not sent" in (phase.reason or "")


def test_classes_of_a_mixture_are_recorded_apart(server: NullServer) -> None:
    ids = np.arange(1000, dtype=np.int64)
    insert = Requests(
        "insert", "insert", ids=ids, vectors=np.ones((1000, DIM), np.float32), batch=10, once=True
    )
    delete = Requests("delete", "delete", ids=ids, batch=5)
    sources = [
        arrivals(400, mix=[(0, 3.0), (2, 1.0)], background=True),
        closed(2, mix=[(1, 1.0)], count=1000),
    ]
    search, inserted, deleted = run(server, sources, [SEARCH, insert, delete], duration_s=20)
    assert inserted.metrics["count"] == 100, "each batch once, however many were allowed"
    assert search.metrics["count"] or deleted.metrics["count"], "and the background meanwhile"
    ended = {phase.ended_ns for phase in (search, inserted, deleted)}
    assert len(ended) == 1, "one run: the background ended with the inserts"


def test_shares_and_rates_are_kept(server: NullServer) -> None:
    get = Requests("get", "get", ids=np.arange(50, dtype=np.int64), batch=1)
    shared = arrivals(4000, mix=[(0, 3.0), (1, 1.0)], count=2000)
    search, got = run(server, [shared], [SEARCH, get], threads=2)
    assert search.metrics["count"] == pytest.approx(1500, abs=120)
    assert (search.metrics["count"] or 0) + (got.metrics["count"] or 0) == 2000
    own = [arrivals(1000, kind="constant"), arrivals(200, kind="constant", mix=[(1, 1.0)])]
    search, got = run(server, own, [SEARCH, get], duration_s=0.5)
    assert (search.metrics["count"], got.metrics["count"]) == (500, 100)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_trace_is_followed(server: NullServer, threads: int) -> None:
    offsets = np.array([0, 0, 0, 10, 10, 200, 300], dtype=np.int64) * 1_000_000
    (phase,) = run(server, [arrivals(kind="trace", offsets=offsets)], threads=threads)
    assert phase.metrics["count"] == 7
    assert phase.ended_ns - phase.started_ns > 300_000_000


def test_threads_merge_into_one_histogram(server: NullServer) -> None:
    (phase,) = run(server, [closed(8, count=2000)], threads=2)
    hdr = phase.histograms["latency"]
    _, counts = histogram_buckets(hdr)
    assert counts.sum() == 2000
    assert histogram_merge([hdr]) == hdr


def test_the_last_second_is_seen_while_the_run_goes_on(server: NullServer) -> None:
    seen: list[LoadWindow] = []

    def look(control: LoadControl) -> None:
        for last in control.last_second(1):
            if last is not None and (not seen or seen[-1]["second"] != last["second"]):
                seen.append(last)
        if len(seen) >= 3:
            control.cancel()

    (phase,) = run(
        server,
        [arrivals(500, kind="constant")],
        threads=2,
        duration_s=60,
        window_ns=200_000_000,
        progress=look,
    )
    assert len(seen) >= 3, "windows of 0.2 s, asked for every 0.2 s"
    rows = phase.windows["search"]
    for last in seen:
        assert last["count"] == rows["count"][last["second"]], "both threads together"
        assert last["p99_us"] == rows["p99_us"][last["second"]]


@pytest.mark.slow
def test_a_dedicated_core_keeps_the_schedule_too(server: NullServer) -> None:
    (phase,) = run(server, [arrivals(500, kind="constant", count=1000)], dedicated=True)
    assert phase.valid, phase.reason
    assert phase.metrics["count"] == 1000
