"""What a client can do without a store, for every protocol that a null server stands for."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vectrial.engine.client import Requests, closed, drive, target
from vectrial.engine.null_server import null_server
from vectrial.engine.parts import LoadPart, Sent
from vectrial.engine.types import LoadOutcome
from vectrial.model.phase import Phase
from vectrial.model.placement import Ceiling, Certificate, ClientLimits, Placement
from vectrial.run import client_ceilings
from vectrial.stores import registry
from vectrial.workload import ceiling as ceiling_module
from vectrial.workload.ceiling import (
    FAMILIES,
    MOST_IN_FLIGHT,
    Searches,
    certify,
    certify_machines,
    faults_without_client,
    in_flight_for,
    is_client_bound,
    measure,
)

SECOND = 1_000_000_000
SHARED = Placement(client_cores=(), server_cores=())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "dialect"),
    [
        *((protocol, {}) for protocol in FAMILIES),
        ("flight", {"search": "action"}),
        ("redis", {"engine": "search"}),
        ("redis-pipelined", {"engine": "search"}),
    ],
)
def test_every_protocol_has_a_ceiling(
    protocol: str, dialect: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = []

    def kept(*given: Any, **named: Any) -> LoadOutcome:
        outcomes.append(drive(*given, **named))
        return outcomes[-1]

    monkeypatch.setattr(ceiling_module, "drive", kept)
    ceiling = measure(Searches(protocol, 16, 5, 4, dialect), SHARED)
    assert ceiling.in_flight == 4
    assert ceiling.qps > 0
    assert 0 < ceiling.cpu_us < 1e6 / ceiling.qps * 1.05 + 1
    count = outcomes[0]["classes"][0]["recorder"].summary()["count"]
    assert ceiling.cpu_us == pytest.approx(outcomes[0]["cpu_ns"] / 1000 / count)


@pytest.mark.parametrize("protocol", sorted(FAMILIES))
@pytest.mark.parametrize("k", [1, 30])
def test_a_null_server_answers_with_the_rows_that_are_asked_for(protocol: str, k: int) -> None:
    with null_server(FAMILIES[protocol], k=k) as server:
        search = Requests(
            "search",
            vectors=np.ones((2, 4), np.float32),
            k=k,
            options={"collection": "null", "dataset": "null", "table": "null"},
            keep=True,
        )
        outcome = drive(target(protocol, server.host, server.port), [search], [closed(2, count=4)])
    (record,) = outcome["classes"]
    assert record["recorder"].errors() == []
    assert record["answers"] is not None
    _, ids, scores = record["answers"]
    assert ids.tolist() == [list(range(k))] * 4
    assert np.isfinite(scores).all()
    assert len(np.unique(scores[0])) == k


def test_more_clients_than_help_have_the_ceiling_of_an_open_loop() -> None:
    assert [in_flight_for(n) for n in (1, 8, 5000, None)] == [1, 8, MOST_IN_FLIGHT, MOST_IN_FLIGHT]
    # Of several machines each has a part of the clients, some one more than others.
    assert [in_flight_for(n, 3) for n in (1, 8, 9, 5000, None)] == [1, 3, 3, 32, 32]


def phase(**metrics: float | None) -> Phase:
    """A second with 1,000 requests that cost the client 10 ms and the store a millisecond each."""
    usual: dict[str, float | None] = {
        "cpu_s": 0.01, "qps": 1000.0, "sent_rate": 1000.0, "latency_p99": 1000.0,
        "schedule_lag_p99": 90.0, "in_flight_limit_hits": 0,
    }  # fmt: skip
    return Phase("search", 0, SECOND, metrics=usual | metrics)


def certificate(placement: Placement = SHARED, ceiling: float = 10_000) -> Certificate:
    ceilings = {n: Ceiling(n, ceiling, 10.0) for n in (8, MOST_IN_FLIGHT)}
    return Certificate(ClientLimits(), placement, ceilings)


def test_an_easy_client_is_no_remark() -> None:
    for clients in (8, None):
        seen = phase()
        certify(seen, clients, certificate())
        assert (seen.valid, seen.reason) == (True, None)
        assert seen.metrics["ceiling_share"] == pytest.approx(0.1)
        assert seen.metrics["client_cpu_share"] == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("metrics", "clients", "why"),
    [
        ({"cpu_s": 0.85}, 8, "85% of its processor time"),
        ({"qps": 9000.0}, 8, "90% of the 10,000 requests/s"),
        ({"sent_rate": 9000.0}, None, "90% of the 10,000 requests/s"),
        ({"schedule_lag_p99": 300.0}, None, "schedule lag is 300 µs"),
    ],
)
def test_beyond_a_limit_the_row_is_the_clients(
    metrics: dict[str, float], clients: int | None, why: str
) -> None:
    seen = phase(**metrics)
    certify(seen, clients, certificate())
    assert not seen.valid
    assert seen.reason is not None
    assert seen.reason.startswith("client-bound: ")
    assert why in seen.reason


@pytest.mark.parametrize(
    "metrics",
    [
        {"schedule_lag_p99": 300.0, "latency_p99": 4000.0},  # not a tenth of what is looked at
        {"schedule_lag_p99": 150.0, "latency_p99": 200.0},  # as well as a timer can
        {"schedule_lag_p99": 9000.0, "in_flight_limit_hits": 5},  # the store let them wait
    ],
)
def test_lag_that_says_nothing_of_the_client_is_let_pass(metrics: dict[str, float]) -> None:
    seen = phase(**metrics)
    certify(seen, None, certificate())
    assert seen.valid


def test_a_core_given_away_is_not_a_busy_client() -> None:
    dedicated = SHARED.model_copy(update={"dedicated": True})
    opened, closed = phase(cpu_s=1.0), phase(cpu_s=1.0)
    certify(opened, None, certificate(dedicated))
    certify(closed, 8, certificate(dedicated))
    assert (opened.valid, closed.valid) == (True, False)


def test_a_fault_of_the_phase_is_not_forgotten() -> None:
    seen = phase(cpu_s=0.9)
    seen.valid, seen.reason = False, "3 operations failed"
    certify(seen, 8, certificate())
    assert seen.reason is not None
    assert seen.reason.startswith("3 operations failed; client-bound: ")


def test_without_a_ceiling_the_row_says_why() -> None:
    seen = phase()
    certify(seen, 8, Certificate(ClientLimits(), SHARED, {}, "no null server stands for x"))
    assert seen.valid
    assert seen.metrics["ceiling_share"] is None
    assert seen.missing["ceiling_share"] == "no null server stands for x"
    assert not math.isnan(seen.metrics["client_cpu_share"] or 0)


def part(issued: int = 500, cpu_s: float = 0.005) -> LoadPart:
    """A machine's part of a second."""
    fields = {"started_ns": 0, "ended_ns": SECOND, "cpu_ns": int(cpu_s * SECOND)}
    return LoadPart([{"issued": issued}], fields)


def from_machines(sent: Sent, **metrics: float | None) -> Phase:
    """A phase that two machines sent."""
    two = certificate(SHARED.model_copy(update={"client_machines": 2}))
    seen = phase(**metrics)
    certify(seen, None, two)
    certify_machines(seen, sent, two)
    return seen


def test_machines_that_send_together_are_named_and_held_to_the_limits_of_all() -> None:
    seen = from_machines(Sent({"a": part(), "b": part()}, 0, 412.3), cpu_s=0.01)
    assert seen.valid
    assert seen.reason == "sent by a and b; they began within 412 µs"
    assert seen.params["client_machines"] == 2
    assert seen.metrics["client_cpu_share"] == pytest.approx(0.005)


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (Sent({"a": part(), "b": part(cpu_s=0.9)}, 0, 1.0), "b used 90% of its processor time"),
        (
            Sent({"a": part(4500), "b": part()}, 0, 1.0),
            "90% of the 5,000 requests/s that a can send",
        ),
    ],
)
def test_one_machine_beyond_its_limits_is_enough(sent: Sent, why: str) -> None:
    seen = from_machines(sent)
    assert not seen.valid
    assert why in (seen.reason or "")
    assert is_client_bound(seen, ClientLimits())


def test_a_lost_machine_invalidates_what_the_others_sent() -> None:
    seen = from_machines(Sent({"a": part()}, 0, 1.0, ("b was lost",)))
    assert not seen.valid
    assert (seen.reason or "").endswith("; b was lost")
    assert not is_client_bound(seen, ClientLimits())


@pytest.mark.parametrize("clients", [8, None])
def test_a_ceiling_that_was_exceeded_is_none_from_then_on(clients: int | None) -> None:
    held, beyond, later = certificate(), phase(qps=36_600.0, sent_rate=36_600.0), phase(qps=9000.0)
    certify(beyond, clients, held)
    assert beyond.valid
    assert beyond.reason is not None
    assert beyond.reason.startswith("366% of the 10,000 requests/s that the client reached")
    assert not is_client_bound(beyond, held.limits)
    assert faults_without_client(beyond) == [], "a rate at which this is said held"
    certify(later, clients, held)
    assert later.valid
    busy = phase(qps=36_600.0, sent_rate=36_600.0, cpu_s=0.9)
    certify(busy, clients, held)
    assert busy.reason is not None
    assert "client-bound: the client used 90%" in busy.reason, "the other limits still hold"


def test_a_ceiling_that_was_exceeded_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    reached = iter((10_000.0, 40_000.0))
    monkeypatch.setattr(
        client_ceilings,
        "measure",
        lambda searches, _: Ceiling(searches.in_flight, next(reached), 1.0),
    )
    notes: list[str] = []
    rules: Any = SimpleNamespace(placement=SHARED, k=10)
    ceilings = client_ceilings.ClientCeilings(rules, notes.append)
    weaviate = registry.load("weaviate")
    for share, expected in ((0.9, 10_000.0), (3.66, 10_000.0), (0.9, 40_000.0)):
        found = ceilings._ceiling(weaviate, 16, 8)
        assert isinstance(found, Ceiling)
        assert found.qps == expected
        ceilings.forget_exceeded([phase(ceiling_share=share)])
