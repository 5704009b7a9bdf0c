"""The native engine's closed loop against null servers, which are real processes."""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import half_right
from load_outcomes import only

from vectrial.engine.client import Requests, closed, drive, target
from vectrial.engine.null_server import null_server

K, QUERIES, DIM = 10, 50, 20
VECTORS = np.arange(QUERIES * DIM, dtype=np.float32).reshape(QUERIES, DIM)


@pytest.mark.parametrize(("protocol", "family"), [("null-grpc", "grpc"), ("elasticsearch", "http")])
def test_a_closed_loop_judges_every_answer(protocol: str, family: str) -> None:
    search = Requests(
        "search", vectors=VECTORS, k=K, judge=half_right(QUERIES, K), options={"collection": "any"}
    )
    with null_server(family, k=K) as server:
        outcome = drive(
            target(protocol, server.host, server.port),
            [search],
            [closed(4, count=QUERIES * 10)],
            threads=2,
            warmup_count=20,
        )
    record = only(outcome)
    seen = record["recorder"].summary()
    assert (seen["count"], seen["errors"], record["in_flight"]) == (QUERIES * 10, 0, 0)
    assert record["warmup"].summary()["count"] == 20
    assert seen["recall_mean"] == pytest.approx(0.75)
    _, answers = record["recorder"].query_recall()
    assert set(answers) == {10}, "every query weighs the same"
    assert outcome["cpu_ns"] > 0
    assert outcome["peak_in_flight"] <= 4
    assert outcome["reconnects"] == 0


@pytest.mark.parametrize("once", [True, False])
def test_threads_without_a_client_leave_no_request_out(once: bool) -> None:
    search = Requests("search", vectors=VECTORS, k=K, judge=half_right(QUERIES, K), once=once)
    with null_server(k=K) as server:
        outcome = drive(
            target("null-grpc", server.host, server.port),
            [search],
            [closed(2, count=None if once else 2 * QUERIES)],
            threads=3,
        )
    _, answers = only(outcome)["recorder"].query_recall()
    assert set(answers) == ({1} if once else {2})


def test_answers_are_kept_where_they_are_wanted() -> None:
    search = Requests("search", vectors=VECTORS, k=K + 2, keep=True)
    with null_server(k=K) as server:
        outcome = drive(
            target("null-grpc", server.host, server.port),
            [search],
            [closed(4, count=QUERIES * 2)],
            threads=2,
            warmup_count=20,
        )
    assert outcome["classes"][0]["answers"] is not None
    queries, ids, scores = outcome["classes"][0]["answers"]
    assert sorted(queries) == sorted([*range(QUERIES), *range(QUERIES)])
    assert ids.shape == scores.shape == (QUERIES * 2, K + 2)
    assert (ids == [*range(K), -1, -1]).all()
    assert (np.isnan(scores) == (ids == -1)).all()
