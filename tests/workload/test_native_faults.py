"""What goes wrong is counted in its class: no panic, no hang, no sample that nobody measured."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from load_outcomes import errors, only

from vectrial._engine import LoadControl
from vectrial.engine.client import Requests, arrivals, closed, drive, target, tls
from vectrial.engine.null_server import NullServer, null_server
from vectrial.engine.types import LoadOutcome, LoadSource
from vectrial.model.errors import UserError

K, DIM, COUNT = 4, 8, 300
SEARCH = Requests("search", vectors=np.ones((20, DIM), dtype=np.float32), k=K)


def ask(
    server: NullServer | tuple[str, int], source: LoadSource, timeout_s: float = 30.0
) -> tuple[dict[str, int], LoadOutcome]:
    """How many failed, by class; everything sent is accounted for."""
    host, port = server if isinstance(server, tuple) else (server.host, server.port)
    outcome = drive(
        target("null-grpc", host, port), [SEARCH], [source], timeout_s=timeout_s, duration_s=20
    )
    record = only(outcome)
    assert record["in_flight"] == 0
    assert sum(errors(record).values()) == record["recorder"].summary()["errors"]
    assert all(messages and all(messages) for _, _, messages in record["recorder"].errors())
    return errors(record), outcome


BOTH = [closed(8, count=COUNT), arrivals(1500, count=COUNT)]
NAMED = {"collection": "any", "dataset": "any", "table": "any"}
#: Faults of a null server by protocol: its family, whose clients ask, and the class of each error.
#: Connections are replaced after those that are marked. Requests of the Flight client share a
#: connection, so that only one client's are counted exactly.
FAULTS: dict[str, tuple[str, list[LoadSource], dict[str, str]]] = {
    "null-grpc": (
        "grpc",
        BOTH,
        {
            "status": "status:resource_exhausted", "reset": "reset", "truncate": "truncated",
            "garbage": "garbage", "never": "timeout",
        },
    ),
    "flight": (
        "flight",
        [closed(1, count=COUNT)],
        {
            "status": "status:resource_exhausted", "reset": "reset", "break": "reset replaced",
            "truncate": "truncated", "garbage": "garbage",
        },
    ),
    "elasticsearch": (
        "http",
        BOTH,
        {
            "status": "http:429", "garbage": "garbage", "break": "reset replaced",
            "truncate": "truncated replaced", "never": "timeout replaced",
        },
    ),
    "postgres": (
        "postgres",
        BOTH,
        {
            "status": "status:out_of_memory", "garbage": "garbage",
            "break": "reset replaced", "truncate": "reset replaced", "never": "timeout replaced",
        },
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "family", "source", "fault", "told"),
    [
        (protocol, family, source, fault, told)
        for protocol, (family, sources, faults) in FAULTS.items()
        for source in sources
        for fault, told in faults.items()
    ],
)
def test_a_request_that_goes_wrong_is_counted_in_its_class(
    protocol: str, family: str, source: LoadSource, fault: str, told: str
) -> None:
    kind, _, replaced = told.partition(" ")
    # A busy machine answers late; only where no answer comes is the time short.
    timeout_s = 3.0 if fault == "never" else 30.0
    with null_server(family, k=K, faults=[(fault, 30)]) as server:
        outcome = drive(
            target(protocol, server.host, server.port), [replace(SEARCH, options=NAMED)], [source],
            timeout_s=timeout_s, duration_s=60, drain_s=60, connections=8,
        )  # fmt: skip
    record = only(outcome)
    failed = errors(record)
    assert failed.keys() == {kind}
    # A machine that stands still may cost more requests their time.
    assert failed[kind] == COUNT // 30 or (fault == "never" and failed[kind] > COUNT // 30)
    assert all(messages for _, _, messages in record["recorder"].errors())
    assert record["recorder"].summary()["count"] == COUNT - failed[kind]
    assert (outcome["reconnects"] > 0) == bool(replaced)


@pytest.mark.slow
def test_a_timeout_is_timed() -> None:
    with null_server(k=K, faults=[("never", 5)]) as server:
        _, outcome = ask(server, closed(2, count=10), timeout_s=3.0)
    recorder = outcome["classes"][0]["recorder"]
    assert outcome["ended_ns"] - outcome["started_ns"] >= 3e9
    ((kind, count, _),) = recorder.errors()
    assert kind == "timeout"
    assert count >= 2, "and more where the machine stood still"


def test_late_answers_and_repeated_rows_are_answers() -> None:
    with null_server(k=K, faults=[("late", 5), ("twice", 3)], late_s=0.05) as server:
        seen, outcome = ask(server, closed(4, count=30))
    summary = outcome["classes"][0]["recorder"].summary()
    assert seen == {}
    assert summary["count"] == 30
    assert summary["duplicate_answers"] == 8, "every third, but those that are late"
    assert (summary["latency_max"] or 0) >= 50_000


@pytest.mark.parametrize(
    "source", [closed(8, count=COUNT), arrivals(1500, count=COUNT, in_flight=8)]
)
def test_a_connection_that_breaks_is_replaced_between_samples(source: LoadSource) -> None:
    with null_server(k=K, faults=[("break", 50)]) as server:
        seen, outcome = ask(server, source)
    assert set(seen) <= {"reset", "truncated"}
    assert COUNT // 50 <= sum(seen.values()) <= 8 * COUNT // 50, "those in flight, no others"
    assert 1 <= outcome["reconnects"] <= COUNT // 50, "two that break as one are replaced as one"


@pytest.mark.parametrize("source", [closed(2, count=20), arrivals(200, count=20)])
def test_a_server_that_is_not_there_refuses(source: LoadSource) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening
        seen, _ = ask(taken.getsockname(), source)
    assert seen == {"refused": 20}


@pytest.mark.parametrize(
    ("family", "kinds"),
    [
        ("close", {"reset", "truncated"}),
        ("noise", {"garbage", "reset", "truncated"}),
        ("silent", {"timeout"}),
    ],
)
def test_a_server_that_speaks_something_else(family: str, kinds: set[str]) -> None:
    with null_server(family) as server:
        seen, _ = ask(server, closed(2, count=8), 0.2 if family == "silent" else 30.0)
    assert sum(seen.values()) == 8
    assert set(seen) <= kinds


def test_a_server_that_dies_and_comes_back() -> None:
    answered_before: list[int] = []
    with ExitStack() as servers:
        first = servers.enter_context(null_server(k=K))

        def kill_then_restart(control: LoadControl) -> None:
            _, _, answered, failed = control.progress()
            if failed > 20 and not answered_before:
                answered_before.append(answered)
                servers.enter_context(null_server(k=K, port=first.port))
            elif answered > 50 and not failed:
                os.kill(first.pid, signal.SIGKILL)
            elif answered_before and answered > answered_before[0] + 50:
                control.cancel()

        outcome = drive(
            target("null-grpc", first.host, first.port),
            [SEARCH],
            [arrivals(300)],
            duration_s=60,
            progress=kill_then_restart,
        )
    (record,) = outcome["classes"]
    kinds = errors(record).keys()
    assert "refused" in kinds
    assert kinds <= {"refused", "reset", "truncated"}
    assert (record["recorder"].summary()["count"] or 0) > answered_before[0] + 50
    assert 1 <= outcome["reconnects"] <= 2, "a dying server may still accept"


@pytest.mark.parametrize("source", [closed(2), arrivals(100)])
def test_a_run_is_cancelled_at_once(source: LoadSource) -> None:
    """Also while every request waits for a server that does not answer."""
    with null_server("silent") as server:
        asked = 0.0

        def stop(control: LoadControl) -> None:
            nonlocal asked
            if control.progress()[0] and not asked:
                asked = time.monotonic()
                control.cancel()

        to = target("null-grpc", server.host, server.port)
        outcome = drive(
            to, [SEARCH], [source], timeout_s=60, duration_s=60, connections=1, progress=stop
        )
        took = time.monotonic() - asked
    assert took < 20, "well under 0.1 s where nothing else runs; else the 60 s of a request"
    assert outcome["cancelled"]
    record = outcome["classes"][0]
    assert record["issued"] == record["in_flight"]


def test_a_run_that_cannot_connect_is_cancelled_too(identity: tuple[Path, Path]) -> None:
    """The peer accepts and says nothing, so that shaking hands under TLS takes for ever."""
    with null_server("silent") as server:
        asked = 0.0

        def stop(control: LoadControl) -> None:
            nonlocal asked
            asked = asked or time.monotonic()
            control.cancel()

        trust = tls("127.0.0.1", identity[0])
        to = target("null-grpc", server.host, server.port, tls=trust)
        outcome = drive(to, [SEARCH], [closed(1)], timeout_s=60, duration_s=60, progress=stop)
        took = time.monotonic() - asked
    assert took < 20
    assert outcome["cancelled"]
    assert outcome["classes"][0]["recorder"].samples() == 0


def test_a_progress_that_raises_stops_the_run() -> None:
    def stop(control: LoadControl) -> None:
        raise KeyboardInterrupt

    with null_server(k=K) as server, pytest.raises(KeyboardInterrupt):
        drive(
            target("null-grpc", server.host, server.port),
            [SEARCH],
            [closed(1)],
            duration_s=60,
            progress=stop,
        )


@pytest.mark.parametrize(
    ("family", "protocol"),
    [
        ("grpc", "null-grpc"),
        ("http", "elasticsearch"),
        ("resp", "redis"),
        ("resp", "redis-pipelined"),
    ],
)
def test_tls_is_spoken_to_who_is_trusted(
    identity: tuple[Path, Path], family: str, protocol: str
) -> None:
    search = replace(SEARCH, options={"collection": "things"})
    with null_server(family, k=K, identity=identity) as server:
        for trust, kind in [
            (tls("127.0.0.1", identity[0]), None),
            (tls("127.0.0.2", identity[0]), "tls"),
        ]:
            to = target(protocol, server.host, server.port, tls=trust)
            outcome = drive(to, [search], [closed(2, count=20)])
            recorder = outcome["classes"][0]["recorder"]
            assert {name for name, _, _ in recorder.errors()} == ({kind} if kind else set())
            assert recorder.summary()["count"] == (0 if kind else 20)


def test_a_plan_that_makes_no_sense_is_refused() -> None:
    to = target("null-grpc", "127.0.0.1", 1)
    with pytest.raises(UserError, match="never end"):
        drive(to, [SEARCH], [closed(1)])
    with pytest.raises(UserError, match="no protocol"):
        drive(target("smoke", "127.0.0.1", 1), [SEARCH], [closed(1, count=1)])
    with pytest.raises(UserError, match="nothing to send"):
        drive(to, [Requests("search")], [closed(1, count=1)])
