"""The open loop of the Python client: schedules, who takes which arrival, and what is lost."""

from __future__ import annotations

import time

import numpy as np
import pytest
from numpy.typing import NDArray

from vectrial._engine import Recorder
from vectrial.model.store import Hits
from vectrial.model.workload import OpenLoop
from vectrial.workload.python.client_pool import ClientPool
from vectrial.workload.python.open_loop import ArrivalQueue, Schedule, due_times
from vectrial.workload.python.sdk_process import done_message

QUERIES = np.eye(4, dtype=np.float32)
MS = 1_000_000


def test_schedules_are_of_their_rate_and_their_seed() -> None:
    poisson = due_times(OpenLoop(1000, 20), seed=3)
    assert len(poisson) == pytest.approx(20_000, abs=600)
    gaps = np.diff(poisson)
    assert gaps.min() >= 0
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.05), "as of an exponential distribution"
    assert np.array_equal(poisson, due_times(OpenLoop(1000, 20), seed=3))
    assert not np.array_equal(poisson[:100], due_times(OpenLoop(1000, 20), seed=4)[:100])
    constant = due_times(OpenLoop(1000, 0.5, "constant"), seed=0)
    assert np.array_equal(constant, np.arange(500) * MS)
    trace = np.array([0, 5, 700], dtype=np.int64) * MS
    assert due_times(OpenLoop(1, 0.5, "trace", trace), seed=0).tolist() == [0, 5 * MS]


def serve(
    clients: int, due: list[int], length_ns: int, takes_s: float
) -> tuple[ArrivalQueue, Recorder]:
    """Searches that take so long, under a schedule; and what was recorded."""

    def searcher(vector: NDArray[np.float32]) -> Hits:
        time.sleep(takes_s)
        if vector[0]:
            raise RuntimeError("query 0 is refused")
        return np.array([1], dtype=np.int64), np.array([0.5], dtype=np.float32)

    pool = ClientPool(searcher, QUERIES, None, clients, 0, 0.0, None, None)
    offsets = np.array(due, dtype=np.int64)
    queue = ArrivalQueue(
        pool, Schedule(offsets, np.arange(len(due), dtype=np.int64) % 4, length_ns)
    )
    pool.loop = queue.work
    pool.run(lambda: None, in_threads=True)
    result = queue.result(done_message(pool, 0))
    assert result.done.issued + result.unsent == len(due), "every arrival is accounted for"
    return queue, Recorder.unpack(result.done.record)


def test_a_slow_answer_holds_up_nobody_while_a_client_is_free() -> None:
    queue, record = serve(8, [0, 2 * MS, 4 * MS, 6 * MS, 300 * MS], 60_000 * MS, 0.05)
    seen = record.summary()
    assert (seen["count"], seen["errors"]) == (3, 2), "failures are recorded in their own class"
    assert sum(queue.unsent) == 0
    assert sum(queue.in_flight_ns) >= 5 * 50 * MS
    assert seen["latency_p50"] is not None
    assert seen["latency_p50"] >= 50_000


@pytest.mark.slow
def test_who_is_late_is_late_from_when_it_was_due() -> None:
    """One client at 300 ms a search, asked every 75 ms: some 225 ms later with each, of which the
    first is refused. On a busy machine all of it takes longer."""
    due = [75 * MS * n + 15 * MS for n in range(4)]
    queue, record = serve(1, due, 60_000 * MS, 0.3)
    assert sum(queue.unsent) == 0
    assert sum(queue.late) >= 3
    latest, lag = record.summary()["latency_max"], queue.lags[0].summary()["latency_max"]
    assert latest is not None
    assert lag is not None
    assert lag >= 3 * 225_000
    assert latest >= lag + 300_000


def test_who_would_be_sent_after_the_end_is_not_sent() -> None:
    queue, _ = serve(1, [15 * MS + n for n in range(20)], MS, 0.05)
    assert sum(queue.unsent) >= 19, "all but the first, which was taken before it was due"
