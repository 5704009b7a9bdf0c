"""The native engine against several nodes: connections take turns, and so does what replaces one
that broke."""

from __future__ import annotations

import os
import signal
from time import perf_counter_ns

import numpy as np
import pytest
from load_outcomes import only

from vectrial._engine import LoadControl
from vectrial.engine.client import Requests, arrivals, closed, drive, target
from vectrial.engine.null_server import null_server
from vectrial.model.errors import UserError

K, QUERIES, DIM = 10, 50, 20
VECTORS = np.arange(QUERIES * DIM, dtype=np.float32).reshape(QUERIES, DIM)
PROTOCOLS = pytest.mark.parametrize(
    ("protocol", "family"), [("null-grpc", "grpc"), ("elasticsearch", "http")]
)


def search(**more: bool) -> Requests:
    return Requests("search", vectors=VECTORS, k=K, options={"collection": "any"}, **more)


@PROTOCOLS
def test_connections_take_turns(protocol: str, family: str) -> None:
    """Of two nodes one does not come back from a search: those of its connections fail."""
    with null_server(family, k=K) as one, null_server(family, k=K, faults=[("status", 1)]) as two:
        outcome = drive(
            target(
                protocol, one.host, one.port, nodes=[(one.host, one.port), (two.host, two.port)]
            ),
            [search()],
            # One for each client, which all send before the first is answered: of more requests
            # the clients of the faster node would take those that are left.
            [closed(4, count=4)],
            connections=4,
        )
    seen = only(outcome)["recorder"].summary()
    assert (seen["count"], seen["errors"]) == (2, 2)


@PROTOCOLS
def test_every_node_is_asked_at_a_low_rate(protocol: str, family: str) -> None:
    """Though one connection would do: there is never more than one request in flight.

    Connections that did not take turns would ask one of the two a few times at most, however long
    it lasts.
    """

    def until_both_were(control: LoadControl) -> None:
        _, _, answered, failed = control.progress()
        if min(answered, failed) >= 20:
            control.cancel()

    with null_server(family, k=K) as one, null_server(family, k=K, faults=[("status", 1)]) as two:
        outcome = drive(
            target(
                protocol, one.host, one.port, nodes=[(one.host, one.port), (two.host, two.port)]
            ),
            [search()],
            [arrivals(rate=100.0, in_flight=64)],
            duration_s=60,
            connections=6,
            progress=until_both_were,
        )
    seen = only(outcome)["recorder"].summary()
    assert min(seen["count"] or 0, seen["errors"] or 0) >= 20


@PROTOCOLS
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_what_a_lost_node_leaves_goes_to_the_others(
    protocol: str, family: str, number: signal.Signals
) -> None:
    """A connection that is refused goes to the next node after that, so that a few fail; then none
    does."""
    with null_server(family, k=K) as one, null_server(family, k=K) as two:
        lost: list[tuple[int, int]] = []

        def lose(control: LoadControl) -> None:
            _, _, answered, failed = control.progress()
            if not lost:
                os.kill(two.pid, number)
            if not lost or lost[-1][0] != failed:
                lost.append((failed, answered))
            # Of a node that stands still nothing is known before the first timeout.
            elif answered > lost[-1][1] + 300 and (failed or number is signal.SIGKILL):
                control.cancel()

        outcome = drive(
            target(
                protocol, one.host, one.port, nodes=[(one.host, one.port), (two.host, two.port)]
            ),
            [search()],
            [arrivals(rate=200.0, in_flight=64)],
            duration_s=60,
            connections=4,
            timeout_s=0.3,
            progress=lose,
        )
        if number is signal.SIGSTOP:
            os.kill(two.pid, signal.SIGCONT)
    assert outcome["reconnects"] > 0
    assert outcome["cancelled"], "300 in a row were answered by the node that is left"


def test_writes_go_to_the_first_node_where_that_alone_takes_them() -> None:
    """The other one refuses whatever it is asked."""
    options = {"table": "any"}
    writes = Requests("delete", "delete", ids=np.arange(QUERIES), options=options, once=True)
    reads = Requests("search", vectors=VECTORS, k=K, options=options)
    with (
        null_server("postgres", k=K) as one,
        null_server("postgres", k=K, faults=[("status", 1)]) as two,
    ):
        outcome = drive(
            target(
                "postgres",
                one.host,
                one.port,
                nodes=[(one.host, one.port), (two.host, two.port)],
                primary=True,
            ),
            [writes, reads],
            [closed(4, count=QUERIES), closed(4, mix=[(1, 1.0)], count=200)],
        )
    written, read = (record["recorder"].summary() for record in outcome["classes"])
    assert (written["count"], written["errors"]) == (QUERIES, 0)
    assert read["count"] > 0
    assert read["errors"] > 0


def test_requests_that_share_connections_cannot_be_kept_to_a_node() -> None:
    writes = Requests("delete", "delete", ids=np.arange(3), options={"collection": "any"})
    with (
        null_server("grpc") as one,
        pytest.raises(UserError, match="cannot be kept to the first node"),
    ):
        drive(
            target("milvus", one.host, one.port, nodes=[(one.host, one.port)] * 2, primary=True),
            [writes],
            [closed(1, count=1)],
        )


def test_the_instants_of_every_request_are_kept_where_they_are_wanted() -> None:
    began = perf_counter_ns()
    with null_server(k=K, faults=[("status", 10)]) as server:
        outcome = drive(
            target("null-grpc", server.host, server.port),
            [search(keep=True, once=True)],
            [closed(4, count=QUERIES)],
        )
    requests = only(outcome)["requests"]
    assert requests is not None
    number, sent, done, succeeded = requests
    assert sorted(number) == list(range(QUERIES))
    assert (began < sent).all()
    assert (sent < done).all()
    assert (done < perf_counter_ns()).all()
    assert (~succeeded).sum() == only(outcome)["recorder"].summary()["errors"] == QUERIES // 10
