"""The open loop of libraries: the same rules as the other lanes', in one process."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from numpy.typing import NDArray

from vectrial.model.dataset import Truth
from vectrial.model.phase import Phase
from vectrial.model.store import Hits
from vectrial.model.workload import OpenLoop
from vectrial.workload.python.open_loop import open_loop as search

QUERIES = np.eye(4, dtype=np.float32)
#: Row i is the only right answer of query i.
TRUTH = Truth(
    k=1,
    ids=np.arange(4, dtype=np.int64)[:, None],
    distances=np.zeros((4, 1)),
    accept_offsets=np.arange(5, dtype=np.int64),
    accept_ids=np.arange(4, dtype=np.int64),
    available=np.ones(4, dtype=np.int64),
)


class Library:
    """Finds the row of a query in so long, and remembers who called it."""

    def __init__(self, takes_s: float, right: bool = True) -> None:
        self.takes_s, self.right = takes_s, right
        self.threads: set[str] = set()

    def __call__(self, vector: NDArray[np.float32]) -> Hits:
        self.threads.add(threading.current_thread().name)
        time.sleep(self.takes_s)
        row = int(np.argmax(vector)) if self.right else 99
        return np.array([row], dtype=np.int64), np.zeros(1, np.float32)


def served(
    library: Library,
    rate: float,
    *,
    single_thread: bool = False,
    in_flight: int = 64,
    duration_s: float = 0.5,
) -> Phase:
    load = OpenLoop(rate, duration_s, "constant", in_flight=in_flight)
    return search(library, QUERIES, TRUTH, load, single_thread=single_thread, warmup_queries=4)


@pytest.mark.slow
def test_every_figure_is_of_the_same_requests() -> None:
    library = Library(0.002)
    # So few that a quarter of them are no overload even where none of them is answered in time.
    phase = served(library, 15, duration_s=2.0)
    found = phase.metrics
    assert phase.valid, phase.reason
    assert (found["count"], found["errors"], found["unsent"]) == (30, 0, 0)
    assert found["recall_mean"] == 1
    assert found["offered_rate"] == pytest.approx(15)
    assert found["concurrency"] == 64
    assert found["warmup_count"] == 64, "each client has at least one"
    assert len(library.threads) > 1
    assert found["service_p50"] is not None
    assert found["service_p50"] >= 2000
    assert found["littles_law"] == pytest.approx(1, abs=1e-3)
    assert {"latency", "lag", "service"} <= set(phase.histograms)
    assert phase.params == {"loop": "open", "arrivals": "constant", "rate": 15}
    assert set(phase.missing) == {name for name, value in found.items() if value is None}


def test_one_caller_is_the_calling_thread_and_waits_for_itself() -> None:
    """20 ms a search, asked every 2.5 ms: what is due waits, longer and longer."""
    library = Library(0.02)
    phase = served(library, 400, single_thread=True)
    assert library.threads == {threading.main_thread().name}
    assert phase.metrics["concurrency"] == 1
    assert not phase.valid
    assert "overloaded" in (phase.reason or "")
    assert (phase.metrics["latency_max"] or 0) > 150_000
    assert (phase.metrics["unsent"] or 0) > 0


def test_requests_in_flight_are_bounded() -> None:
    library = Library(0.001)
    assert served(library, 50, in_flight=2).metrics["concurrency"] == 2
    assert len(library.threads) <= 2


@pytest.mark.slow
def test_wrong_answers_are_judged_and_failures_counted() -> None:
    assert served(Library(0.0, right=False), 100).metrics["recall_mean"] == 0

    def fails(vector: NDArray[np.float32]) -> Hits:
        if vector[0]:
            raise RuntimeError("query 0 is refused")
        return np.array([int(np.argmax(vector))], dtype=np.int64), np.zeros(1, np.float32)

    # There is time for all of them, however late a busy machine sends them.
    load = OpenLoop(200, 60.0, "trace", np.arange(100) * 5_000_000)
    phase = search(fails, QUERIES, TRUTH, load, single_thread=False)
    assert phase.metrics["errors"] == 25
    assert phase.errors[0][0] == "RuntimeError"
    assert not phase.valid
    assert "of 100 operations failed" in (phase.reason or "")


def test_progress_is_told_while_one_caller_waits() -> None:
    told: list[tuple[float, float, str]] = []
    search(
        Library(0.0), QUERIES, TRUTH, OpenLoop(50, 0.6, "constant"), single_thread=True,
        progress=lambda *said: told.append(said),
    )  # fmt: skip
    assert told
    assert told[-1][1:] == (0.6, "search")
