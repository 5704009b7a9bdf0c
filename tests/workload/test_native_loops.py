"""The native engine against the null server, a real process."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from engine_runs import half_right

from vectrial.engine.client import Requests, arrivals, closed, drive, target
from vectrial.engine.null_server import NullServer, null_server
from vectrial.engine.types import LoadOutcome

K, QUERIES, DIM = 10, 50, 20
VECTORS = np.arange(QUERIES * DIM, dtype=np.float32).reshape(QUERIES, DIM)


@pytest.fixture(scope="module")
def server() -> Iterator[NullServer]:
    with null_server("grpc", k=K) as running:
        yield running


def consistent(outcome: LoadOutcome) -> None:
    for record in outcome["classes"]:
        seen = record["recorder"].summary()
        recorded = (seen["count"] or 0) + (seen["errors"] or 0)
        assert record["issued"] == recorded + record["in_flight"]


def test_a_closed_loop_judges_every_answer(server: NullServer) -> None:
    search = Requests("search", vectors=VECTORS, k=K, judge=half_right(QUERIES, K))
    outcome = drive(
        target("null-grpc", server.host, server.port),
        [search],
        [closed(4, count=QUERIES * 10)],
        threads=2,
        warmup_count=20,
    )
    consistent(outcome)
    (record,) = outcome["classes"]
    seen = record["recorder"].summary()
    assert (seen["count"], seen["errors"], record["in_flight"]) == (QUERIES * 10, 0, 0)
    assert record["warmup"].summary()["count"] == 20
    assert seen["recall_mean"] == pytest.approx(0.75)
    _, answers = record["recorder"].query_recall()
    assert set(answers) == {10}, "every query weighs the same"
    assert outcome["cpu_ns"] > 0
    assert outcome["peak_in_flight"] <= 4


def test_answers_are_kept_where_they_are_wanted(server: NullServer) -> None:
    search = Requests("search", vectors=VECTORS, k=K + 2, keep=True)
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


def test_an_open_loop_keeps_its_rate(server: NullServer) -> None:
    outcome = drive(
        target("null-grpc", server.host, server.port),
        [Requests("search", vectors=VECTORS, k=K)],
        [arrivals(2000, kind="constant")],
        duration_s=0.5,
    )
    consistent(outcome)
    assert outcome["classes"][0]["issued"] == 1000
    assert (outcome["unsent"], outcome["classes"][0]["in_flight"]) == (0, 0)
