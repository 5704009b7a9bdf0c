"""Several classes of requests at once: what comes before the clock, and what a store hears of."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from time import perf_counter_ns
from typing import Any, ClassVar

import numpy as np
import pytest

from vectrial.engine.client import target
from vectrial.engine.null_server import null_server
from vectrial.model.capabilities import Index, NoParams, Params
from vectrial.model.errors import StoreError
from vectrial.model.filters import Filter
from vectrial.model.metric import Metric
from vectrial.model.placement import Certificate, ClientLimits, Placement
from vectrial.model.schema import Schema
from vectrial.model.store import LoadTarget, NativeRows, NativeSearch, Searcher, Store
from vectrial.stores.memory import MemoryStore
from vectrial.workload.ingest import make_batch
from vectrial.workload.streams import Stream, StreamsOutcome, send_by_clients, send_by_engine

QUERIES, SCHEMA = np.eye(4, dtype=np.float32), Schema(4, Metric.L2)


def by_a_client(to: LoadTarget, due: list[int], **named: Any) -> StreamsOutcome:
    """Searches at these times of 0.5 s."""
    at = np.array(due, np.int64)
    return send_by_engine(
        NativeSearch(to),
        NativeRows(to, {}, {}),
        [Stream("search", "search", at, QUERIES[: len(at)])],
        SCHEMA,
        1,
        0.5,
        Certificate(ClientLimits(), Placement(), {}),
        connections=1,
        warmup=QUERIES,
        seed=0,
        progress=lambda *_: None,
        **named,
    )


def test_a_warm_up_that_fails_is_no_warm_up() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # and nobody listens
        to = target("null-grpc", "127.0.0.1", held.getsockname()[1])
        with pytest.raises(StoreError, match="4 searches before the clock failed"):
            by_a_client(to, [0])


def test_it_is_told_when_the_clock_started() -> None:
    told: list[int] = []
    with null_server("grpc", k=1) as server:
        to = target("null-grpc", server.host, server.port)
        outcome = by_a_client(to, [0, 400_000_000], started=told.append).outcome
    assert set(told) == {outcome["started_ns"]}


class Counted(MemoryStore):
    """Notes when the searchers of it were made, and in which thread."""

    made: ClassVar[list[tuple[int, int]]] = []

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        Counted.made.append((perf_counter_ns(), threading.get_ident()))
        return super().searcher(k, params, where)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    Counted.made.clear()
    store = Counted(tmp_path)
    store.create(SCHEMA, Index("flat", NoParams()))
    store.insert(make_batch(SCHEMA, np.arange(4), QUERIES, None))
    return store


def test_searchers_are_made_before_the_clock_starts(store: Store) -> None:
    """As many as there are clients, and none later: what making one takes is no latency."""
    due = np.arange(8, dtype=np.int64) * 1_000_000
    searches = Stream("search", "search", due, QUERIES[due // 1_000_000 % 4])
    outcome = send_by_clients(
        [store, store], [searches], SCHEMA, 1, NoParams(), 0.05,
        warmup=QUERIES, progress=lambda *_: None,
    ).outcome  # fmt: skip
    assert len(Counted.made) == 2
    assert max(at for at, _ in Counted.made) < outcome["started_ns"]
    assert outcome["classes"][0]["issued"] + outcome["unsent"] == 8


def test_one_client_is_the_calling_thread_and_sleeps_until_a_request_is_due(store: Store) -> None:
    """There are libraries that are good for one thread alone, and what waits is no work of the
    client's."""
    write = Stream("insert", "insert", np.array([0]), QUERIES[:1], np.array([9]))
    search = Stream("search", "search", np.array([400_000_000]), QUERIES[:1])
    outcome = send_by_clients(
        [store], [write, search], SCHEMA, 1, NoParams(), 60.0,
        warmup=QUERIES, progress=lambda *_: None,
    ).outcome  # fmt: skip
    assert outcome["cpu_ns"] < 200_000_000
    assert len(Counted.made) == 2, "one anew after the write"
    assert {thread for _, thread in Counted.made} == {threading.get_ident()}


def test_of_what_was_not_sent_nothing_is_known(store: Store) -> None:
    """There is no time for the search: when it was done is later than anything that happened."""
    search = Stream("search", "search", np.array([0]), QUERIES[:1])
    streamed = send_by_clients(
        [store], [search], SCHEMA, 1, NoParams(), 0.0,
        warmup=QUERIES, progress=lambda *_: None,
    )  # fmt: skip
    assert streamed.outcome["unsent"] == 1
    (seen,) = streamed.seen
    assert not seen.succeeded.any()
    assert seen.spans[0, 1] > perf_counter_ns()
