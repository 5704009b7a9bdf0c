"""The embedded lane against searches whose answers, times and faults are known."""

from __future__ import annotations

import gc
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from known_answers import SCORES, known_answers
from numpy.typing import NDArray

from vectrial._engine import histogram_buckets
from vectrial.model.errors import StoreError, UserError
from vectrial.model.results_schema import METRICS
from vectrial.model.store import Hits
from vectrial.workload.python import client_pool
from vectrial.workload.python.client_pool import ClientPool
from vectrial.workload.python.closed_loop import closed_loop
from vectrial.workload.python.operations import timed_operations
from vectrial.workload.record import PhaseStart

Search = Callable[[NDArray[np.float32]], Hits]

QUERIES = 20
VECTORS, EXACT, TRUTH = known_answers(QUERIES)


def exact(vector: NDArray[np.float32]) -> Hits:
    return EXACT[int(vector[0])], SCORES


class Log:
    """A search that keeps who asked what, in order."""

    def __init__(self, search: Search = exact) -> None:
        self.search = search
        self.asked: dict[str, list[int]] = {}

    def __call__(self, vector: NDArray[np.float32]) -> Hits:
        self.asked.setdefault(threading.current_thread().name, []).append(int(vector[0]))
        return self.search(vector)


@pytest.mark.parametrize(
    ("clients", "too_few"), [(1, ["90", "95", "99", "99_9"]), (3, ["99", "99_9"])]
)
def test_a_phase_has_every_figure_of_the_same_requests(clients: int, too_few: list[str]) -> None:
    phase = closed_loop(exact, VECTORS, TRUTH, clients=clients, warmup_count=5, warmup_max_s=60)
    assert (phase.valid, phase.reason, phase.errors) == (True, None, [])
    assert phase.missing.keys() == {f"latency_p{name}" for name in too_few}
    assert phase.metrics["count"] == QUERIES * clients
    assert phase.metrics["concurrency"] == clients
    assert phase.metrics["recall_mean"] == phase.metrics["recall_min"] == 1.0
    assert phase.metrics.keys() <= METRICS.keys()
    assert {name for name, value in phase.metrics.items() if value is None} == phase.missing.keys()
    assert 0 < (phase.metrics["littles_law"] or 0) <= 1
    _, counts = histogram_buckets(phase.histograms["latency"])
    assert counts.sum() == sum(phase.windows["search"]["count"]) == QUERIES * clients
    assert phase.metrics["warmup_count"] == 5 * clients
    seconds = (phase.ended_ns - phase.started_ns) / 1e9
    assert phase.metrics["qps"] == pytest.approx(QUERIES * clients / seconds)


def test_recall_short_and_duplicate_answers_are_seen() -> None:
    def poor(vector: NDArray[np.float32]) -> Hits:
        query = int(vector[0])
        ids = EXACT[query].copy()
        if query == 0:
            return ids[:1], SCORES[:1]
        if query == 1:
            ids[1] = ids[0]
        return ids, SCORES

    metrics = closed_loop(poor, VECTORS, TRUTH).metrics
    assert (metrics["incomplete_results"], metrics["duplicate_answers"]) == (1, 1)
    assert metrics["recall_mean"] == pytest.approx((18 + 1 / 3 + 2 / 3) / 20)
    assert metrics["recall_min"] == pytest.approx(1 / 3)


@pytest.mark.slow
def test_each_client_walks_whole_passes_in_an_order_of_its_own() -> None:
    def asked(seed: int) -> dict[str, list[int]]:
        log = Log()
        closed_loop(log, VECTORS, TRUTH, clients=2, warmup_count=0, seed=seed)
        return log.asked

    first, again, other = asked(1), asked(1), asked(2)
    assert first == again != other
    assert first["client-0"] != first["client-1"] != sorted(first["client-1"])
    for order in first.values():
        assert sorted(order) == list(range(QUERIES))


def test_min_s_ends_with_a_whole_pass() -> None:
    log = Log(lambda vector: (time.sleep(0.001), exact(vector))[1])
    phase = closed_loop(log, VECTORS, TRUTH, warmup_count=0, min_s=0.1)
    asked = Counter(log.asked["MainThread"])
    assert len(set(asked.values())) == 1
    assert phase.ended_ns - phase.started_ns >= 0.1e9
    assert phase.metrics["count"] == asked.total()


@pytest.mark.slow
@pytest.mark.parametrize("clients", [1, 4])
def test_no_request_is_sent_after_max_s(clients: int) -> None:
    def slow(vector: NDArray[np.float32]) -> Hits:
        time.sleep(0.2)
        return exact(vector)

    begun = time.perf_counter()
    phase = closed_loop(slow, VECTORS, TRUTH, clients=clients, warmup_count=1, min_s=60, max_s=1.0)
    assert time.perf_counter() - begun < 60, "min_s does not count"
    assert phase.valid
    assert phase.ended_ns - phase.started_ns >= 1e9
    assert (phase.metrics["count"] or 0) <= clients * 5
    if clients == 1:
        # Who sleeps leaves no time to the harness: the client was busy all the time. One of
        # several may have to wait for another whose last answer a busy machine holds up.
        assert (phase.metrics["littles_law"] or 0) > 0.5


@pytest.mark.parametrize("clients", [1, 3])
def test_who_begins_when_the_time_is_over_sends_nothing(clients: int) -> None:
    """As a client whose thread the machine lets wait for longer than the phase lasts."""
    log = Log()
    pool = ClientPool(log, VECTORS, None, clients, 0, 0.0, 1.0, None)
    pool.begin = lambda: replace(PhaseStart.now(), started_ns=time.perf_counter_ns() - 10**9)
    pool.run(lambda: None, in_threads=clients > 1)
    assert pool.issued == [0] * clients
    assert log.asked == {}


def test_the_time_may_be_over_after_a_report() -> None:
    def slow(done: float, of: float, what: str) -> None:
        time.sleep(0.4)

    phase = closed_loop(exact, VECTORS, TRUTH, min_s=9, max_s=0.3, progress=slow)
    assert (phase.metrics["count"] or 0) <= 1, "the first report comes after the first request"


@pytest.mark.parametrize("clients", [1, 3])
def test_count_is_kept_exactly(clients: int) -> None:
    phase = closed_loop(exact, VECTORS, TRUTH, clients=clients, count=50)
    assert phase.metrics["count"] == 50


@pytest.mark.slow
@pytest.mark.parametrize("clients", [1, 3])
def test_warm_up_is_not_in_the_phase(clients: int) -> None:
    calls, warm_ns = iter(range(10**6)), list[int]()

    def cold(vector: NDArray[np.float32]) -> Hits:
        if next(calls) < clients:
            time.sleep(0.3)
            warm_ns.append(time.perf_counter_ns())
        return exact(vector)

    phase = closed_loop(cold, VECTORS, TRUTH, clients=clients, warmup_count=100)
    assert phase.metrics["count"] == QUERIES * clients
    assert len(warm_ns) == clients
    assert max(warm_ns) <= phase.started_ns, "none is timed before every client has warmed up"
    late = closed_loop(exact, VECTORS, None, warmup_count=10**9, warmup_max_s=0.05)
    assert (late.metrics["warmup_count"] or 0) < 10**9


class RustPanic(BaseException):
    """As PyO3 raises it: not an Exception."""


@pytest.mark.parametrize("clients", [1, 2])
@pytest.mark.parametrize("kind", [KeyError, RustPanic])
def test_what_a_store_raises_is_counted_and_timed(clients: int, kind: type[BaseException]) -> None:
    def flaky(vector: NDArray[np.float32]) -> Hits:
        if vector[0] < 2:
            raise kind(f"query {vector[0]:.0f}")
        return exact(vector)

    phase = closed_loop(flaky, VECTORS, TRUTH, clients=clients)
    errors = 2 * clients
    assert (phase.metrics["count"], phase.metrics["errors"]) == (18 * clients, errors)
    ((name, count, messages),) = phase.errors
    assert name.endswith(kind.__name__)
    assert count == errors
    assert len(messages) == 2
    assert histogram_buckets(phase.histograms["error"])[1].sum() == errors
    assert not phase.valid
    assert "10.00%" in (phase.reason or "")
    assert phase.metrics["recall_mean"] == 1.0


def test_a_store_that_always_fails_says_so_and_has_no_figures() -> None:
    def broken(vector: NDArray[np.float32]) -> Hits:
        raise OSError

    phase = closed_loop(broken, VECTORS, TRUTH, clients=2, warmup_count=3, warmup_max_s=60)
    assert (phase.valid, phase.reason) == (False, "all 40 operations failed")
    assert phase.errors == [("OSError", 40, ["OSError()"])]
    assert phase.metrics["latency_p50"] is None
    assert phase.missing["latency_p50"] == "no operation succeeded"
    assert phase.metrics["warmup_errors"] == 6


def test_few_errors_leave_a_phase_valid() -> None:
    calls = iter(range(10**6))

    def flaky(vector: NDArray[np.float32]) -> Hits:
        if next(calls) == 100:
            raise TimeoutError("once")
        return exact(vector)

    phase = closed_loop(flaky, VECTORS, TRUTH, warmup_count=0, count=2000)
    assert (phase.valid, phase.metrics["errors"]) == (True, 1)


@pytest.mark.slow
@pytest.mark.parametrize("clients", [1, 3])
@pytest.mark.parametrize("answer", [[1, 2, 3], np.array([1, 2], np.uint64), np.zeros((1, 3), int)])
def test_ids_of_another_kind_are_a_fault_of_the_adapter(clients: int, answer: object) -> None:
    with pytest.raises(StoreError, match="one-dimensional array of int64"):
        closed_loop(lambda _: (answer, SCORES), VECTORS, TRUTH, clients=clients)  # type: ignore[arg-type,return-value]
    assert not [one for one in threading.enumerate() if one.name.startswith("client-")]


def test_without_truth_recall_is_missing_and_says_why() -> None:
    phase = closed_loop(exact, VECTORS, None)
    assert phase.valid
    assert phase.metrics["recall_mean"] is None
    assert phase.missing["recall_mean"] == "no ground truth was given"


@pytest.mark.parametrize("clients", [1, 2])
def test_an_interrupt_ends_it_at_once(clients: int) -> None:
    def interrupted(vector: NDArray[np.float32]) -> Hits:
        raise KeyboardInterrupt

    gc.unfreeze()  # what collecting the tests set aside
    try:
        with pytest.raises(KeyboardInterrupt):
            closed_loop(interrupted, VECTORS, TRUTH, clients=clients, warmup_count=0, min_s=60)
        assert gc.get_freeze_count() == 0
    finally:
        gc.freeze()


def test_what_exists_is_set_aside_beside_what_was_before() -> None:
    gc.freeze()
    before = gc.get_freeze_count()
    rows = [[row] for row in range(10_000)]
    counts = []

    def count_frozen(vector: NDArray[np.float32]) -> Hits:
        counts.append(gc.get_freeze_count())
        return exact(vector)

    closed_loop(count_frozen, VECTORS, TRUTH)
    assert counts[0] >= before + len(rows)
    assert gc.get_freeze_count() >= before, "it stays so"


@pytest.mark.slow
@pytest.mark.parametrize("clients", [1, 2])
def test_progress_is_reported_between_samples(
    clients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One client reports on its own behalf; of several the calling thread does, while they wait."""
    monkeypatch.setattr(client_pool, "PROGRESS_S", 0.0)
    inside, twice, seen, overlaps = threading.Event(), threading.Event(), [], []

    def slow(vector: NDArray[np.float32]) -> Hits:
        inside.set()
        if clients > 1:
            twice.wait(30)
        time.sleep(0.01)
        inside.clear()
        return exact(vector)

    def progress(done: float, of: float, what: str) -> None:
        seen.append((done, of, what))
        overlaps.append(inside.is_set())
        if sum(what == "search" for _, _, what in seen) == 2:
            twice.set()

    closed_loop(slow, VECTORS, TRUTH, clients=clients, warmup_count=0, min_s=0.1, progress=progress)
    assert twice.is_set()
    assert all(0 <= done <= of and what.startswith("search") for done, of, what in seen)
    if clients == 1:
        assert not any(overlaps)


def test_several_clients_say_that_they_warm_up() -> None:
    said, heard = [], threading.Event()

    def patient(vector: NDArray[np.float32]) -> Hits:
        heard.wait(30)
        return exact(vector)

    def progress(done: float, of: float, what: str) -> None:
        said.append((done, of, what))
        heard.set()

    closed_loop(patient, VECTORS, TRUTH, clients=2, count=2, warmup_count=1, progress=progress)
    assert said[0] == (0, 1, "search: warming up")


def test_arguments_that_do_not_fit_are_told() -> None:
    with pytest.raises(UserError, match="truth is of 20 queries, but there are 5"):
        closed_loop(exact, VECTORS[:5], TRUTH)
    with pytest.raises(UserError, match="0 clients"):
        closed_loop(exact, VECTORS, TRUTH, clients=0)
    with pytest.raises(UserError, match="too few"):
        closed_loop(exact, VECTORS, TRUTH, clients=3, count=2)
    with pytest.raises(UserError, match="shape"):
        closed_loop(exact, VECTORS[:0], None)


def test_operations_are_timed_one_by_one_and_keep_what_they_return() -> None:
    def operation(i: int) -> int:
        if i == 3:
            raise ValueError("not this one")
        return i * i

    phase, results = timed_operations("create", operation, 1000)
    assert results[:5] == [0, 1, 4, None, 16]
    assert len(results) == 1000
    assert (phase.name, phase.metrics["count"], phase.metrics["errors"]) == ("create", 999, 1)
    assert phase.errors == [("ValueError", 1, ["not this one"])]
    assert phase.valid
    assert list(phase.windows) == ["create"]
    assert phase.missing["recall_mean"] == "an operation has no answer to judge"


def test_operations_end_after_max_s() -> None:
    phase, results = timed_operations("read", lambda i: time.sleep(0.01), 1000, max_s=0.05)
    assert len(results) == phase.metrics["count"] < 10
