"""The timed sample, and that everything that takes one treats answers and errors alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import Pipe
from pathlib import Path
from time import perf_counter_ns
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from experiment_worlds import DIM, ROWS, K, dataset, target, world
from numpy.typing import NDArray

from vectrial._engine import Judge, Recorder
from vectrial.datasets import library
from vectrial.datasets.truth import truth_of
from vectrial.experiments.common import readiness
from vectrial.experiments.common.page_reads import export
from vectrial.experiments.common.readiness import cold_searches
from vectrial.experiments.mixed import Mixed
from vectrial.experiments.time_to_searchable.experiment import _LoadWatch
from vectrial.model.capabilities import Index, NoParams, Params
from vectrial.model.filters import Filter
from vectrial.model.metric import Metric
from vectrial.model.phase import State
from vectrial.model.schema import Schema
from vectrial.model.store import Hits, Searcher
from vectrial.model.workload import OpenLoop
from vectrial.stores.memory import MemoryStore
from vectrial.workload import ingest
from vectrial.workload.python import bulk_io, sdk_ingest
from vectrial.workload.python.closed_loop import closed_loop
from vectrial.workload.python.open_loop import open_loop
from vectrial.workload.python.operations import timed_operations
from vectrial.workload.python.sdk_ingest import Portion
from vectrial.workload.python.sdk_process import Opening
from vectrial.workload.python.timed import call_timed, record_answer, record_operation, timed_search
from vectrial.workload.streams import Stream, send_by_clients

SCHEMA, FLAT = Schema(DIM, Metric.L2), Index("flat", NoParams())
Errors = list[tuple[str, int, list[str]]]


class Panic(BaseException):
    """As a library in Rust raises one."""


class Scripted(MemoryStore):
    """The nth call of an operation fails.

    Class variables, because experiments and processes make stores of their own.
    """

    operation: ClassVar[str] = ""
    nth: ClassVar[int] = 0
    failure: ClassVar[BaseException | None] = None
    malformed: ClassVar[bool] = False

    @classmethod
    def act(cls, operation: str) -> bool:
        """Raise when it is the turn to; whether the answer is to be malformed instead."""
        if operation != Scripted.operation:
            return False
        Scripted.nth -= 1
        if Scripted.nth != 0:
            return False
        if Scripted.failure is not None:
            raise Scripted.failure
        return Scripted.malformed

    def open(self, schema: Schema, index: Index) -> None:
        self.create(schema, index)

    def insert(self, batch: pa.RecordBatch) -> None:
        self.act("insert")
        super().insert(batch)

    def delete(self, ids: NDArray[np.int64]) -> None:
        self.act("delete")
        super().delete(ids)

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        for page in super().scan(batch_size):
            self.act("scan")
            yield page

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        search = super().searcher(k, params, where)

        def scripted(vector: NDArray[np.float32], /) -> Hits:
            if self.act("search"):
                return None  # type: ignore[return-value]
            return search(vector)

        return scripted


class Script:
    """What the store is to do, set when everything before the clock is done."""

    def __init__(self, failure: BaseException | None, malformed: bool = False) -> None:
        self.failure, self.malformed = failure, malformed

    def begin(self, operation: str, nth: int = 3) -> None:
        Scripted.operation, Scripted.nth = operation, nth
        Scripted.failure, Scripted.malformed = self.failure, self.malformed


@pytest.fixture(autouse=True)
def unscripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(readiness, "COLD_S", 600.0)  # for the third search on a busy machine
    yield
    Scripted.operation, Scripted.failure, Scripted.malformed = "", None, False


def loaded(folder: Path) -> Scripted:
    """Every row of `dataset()`."""
    store = Scripted(folder)
    store.create(SCHEMA, FLAT)
    ingest.load(store, dataset(), SCHEMA, 100, lambda *_: None)
    return store


def by_closed_loop(script: Script, folder: Path) -> Errors:
    search, rows = loaded(folder).searcher(K, NoParams()), dataset()
    script.begin("search")
    phase = closed_loop(search, rows.queries, truth_of(rows, K, None), warmup_count=0)
    assert phase.metrics["count"] == len(rows.queries) - len(phase.errors)
    return phase.errors


def by_open_loop(script: Script, folder: Path) -> Errors:
    search, rows = loaded(folder).searcher(K, NoParams()), dataset()
    script.begin("search")  # the first request is the warm-up
    # There is time for all of them, however late a busy machine sends them.
    load = OpenLoop(1000, 60.0, "trace", np.arange(20) * 1_000_000)
    truth = truth_of(rows, K, None)
    phase = open_loop(search, rows.queries, truth, load, single_thread=True, warmup_queries=1)
    return phase.errors


def by_stream(script: Script, folder: Path, operation: str) -> Errors:
    rows, due = dataset(), np.arange(6, dtype=np.int64) * 1000
    store = loaded(folder)
    match operation:
        case "search":
            stream = Stream("search", "search", due, rows.queries[:6])
        case "insert":
            ids = 10_000 + np.arange(6, dtype=np.int64)
            stream = Stream("insert", "insert", due, rows.vectors[:6], ids)
        case _:
            stream = Stream("delete", "delete", due, None, rows.ids[:6])
    script.begin(operation)
    outcome = send_by_clients(
        [store], [stream], SCHEMA, K, NoParams(), 60.0,
        warmup=rows.queries[:0], progress=lambda *_: None,
    ).outcome  # fmt: skip
    assert outcome["classes"][0]["issued"] == 6
    return outcome["classes"][0]["recorder"].errors()


def by_operations(script: Script, folder: Path) -> Errors:
    store = loaded(folder)
    script.begin("delete")
    ids = dataset().ids
    phase, _ = timed_operations("delete", lambda i: store.delete(ids[i : i + 1]), 6)
    return phase.errors


def by_sdk_ingest(script: Script, folder: Path) -> Errors:
    rows = dataset()
    given = {"metric": rows.metric, "queries": rows.queries, "provenance": rows.provenance}
    library.save("made", vectors=rows.vectors, **given)
    opening = Opening(f"{__name__}:Scripted", folder, None, SCHEMA, FLAT, None)
    ours, theirs = Pipe()
    ours.send(perf_counter_ns())
    script.begin("insert")
    done = sdk_ingest.insert(Portion(opening, "made", ROWS, 100, 0, 1, ()), theirs)
    return Recorder.unpack(done.record).errors()


def by_scans(script: Script, folder: Path) -> Errors:
    store = loaded(folder)

    def begin() -> int:
        script.begin("scan")
        return perf_counter_ns()

    work = bulk_io.FullScan(np.sort(dataset().ids), 100, 0.0)
    return Recorder.unpack(bulk_io.scan_repeatedly(store, work, begin).gets).errors()


def by_puts(script: Script, folder: Path) -> Errors:
    store = Scripted(folder)
    store.create(SCHEMA, FLAT)

    def begin() -> int:
        script.begin("insert", 1)
        return perf_counter_ns()

    work = bulk_io.PutScanLoop("made", ROWS, 10, 100, 0.01)
    return Recorder.unpack(
        bulk_io.alternate_puts_and_gets(store, work, dataset(), SCHEMA, begin).puts
    ).errors()


def by_mixed(script: Script, folder: Path, operation: str) -> Errors:
    asked = Mixed(operations=60, inserts=1, searches=1, updates=0, deletes=1)
    with world(Scripted, "flat", folder, State.LOADED) as context:
        # Before the clock there are as many searches as there are queries.
        warm = len(context.dataset.queries) if operation == "search" else 0
        script.begin(operation, warm + 3)
        phases = list(asked.run(context, asked.points(target(Scripted, FLAT, ROWS))[-1]))
    assert sum(phase.metrics["count"] or 0 for phase in phases) in (59, 60)
    return [error for phase in phases for error in phase.errors]


def by_export(script: Script, folder: Path) -> Errors:
    with world(Scripted, "flat", folder, State.LOADED) as context:
        script.begin("scan", ROWS // 100 + 3)  # a whole pass comes before the clock
        (phase,) = export(context, page_rows=100, min_s=0.0)
    if phase.errors:
        assert not phase.valid
        assert "did not bring every row exactly once" in (phase.reason or "")
    return phase.errors


def by_cold_searches(script: Script, folder: Path) -> Errors:
    with world(Scripted, "flat", folder, State.LOADED) as context:
        script.begin("search")
        phase = cold_searches(context, ingest.Step("first_search", 0, 1))
    assert phase.metrics["errors"] == len(phase.errors)
    return phase.errors


def by_looks(script: Script, folder: Path) -> Errors:
    with world(Scripted, "flat", folder, State.LOADED) as context:
        watch = _LoadWatch(context, {}, looks=1, probes=10, acknowledged=ROWS)
        script.begin("search")
        watch.look(context.store, {"stage": "ready"})
    return watch.phases[0].errors


#: Everything that takes timed samples.
USERS: dict[str, Callable[[Script, Path], Errors]] = {
    "closed loop": by_closed_loop,
    "open loop": by_open_loop,
    "stream of searches": partial(by_stream, operation="search"),
    "stream of inserts": partial(by_stream, operation="insert"),
    "stream of deletes": partial(by_stream, operation="delete"),
    "operations": by_operations,
    "ingest by SDK processes": by_sdk_ingest,
    "full scans": by_scans,
    "puts": by_puts,
    "mixed searches": partial(by_mixed, operation="search"),
    "mixed inserts": partial(by_mixed, operation="insert"),
    "mixed deletes": partial(by_mixed, operation="delete"),
    "export": by_export,
    "cold searches": by_cold_searches,
    "looks": by_looks,
}
SEARCHERS = [
    "closed loop", "open loop", "stream of searches", "mixed searches", "cold searches", "looks",
]  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("user", USERS)
def test_success_has_no_error(user: str, tmp_path: Path) -> None:
    assert USERS[user](Script(None), tmp_path / "store") == []


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize(
    ("failure", "recorded"),
    [
        (ValueError("refused"), ("ValueError", 1, ["refused"])),
        (Panic("index out of bounds"), (f"{__name__}.Panic", 1, ["index out of bounds"])),
        (TimeoutError(), ("TimeoutError", 1, ["TimeoutError()"])),
    ],
    ids=["error", "panic", "no message"],
)
def test_an_error_is_recorded_with_its_class_and_message(
    user: str, failure: BaseException, recorded: tuple[str, int, list[str]], tmp_path: Path
) -> None:
    assert USERS[user](Script(failure), tmp_path / "store") == [recorded]


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("fatal", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_is_raised(
    user: str, fatal: type[BaseException], tmp_path: Path
) -> None:
    with pytest.raises(fatal):
        USERS[user](Script(fatal()), tmp_path / "store")


@pytest.mark.parametrize("user", SEARCHERS)
def test_an_answer_that_is_no_pair_is_an_error(user: str, tmp_path: Path) -> None:
    ((kind, count, (message,)),) = USERS[user](Script(None, malformed=True), tmp_path / "store")
    assert (kind, count) == ("TypeError", 1)
    assert message == "cannot unpack non-iterable NoneType object"


def test_the_readings_of_the_clock_enclose_the_call() -> None:
    within = list[int]()

    def call(argument: str) -> str:
        within.append(perf_counter_ns())
        return argument.upper()

    sample = call_timed(call, "a")
    assert (sample.result, sample.failure) == ("A", None)
    assert sample.sent_ns <= within[0] <= sample.done_ns

    def fails(argument: str) -> str:
        within.append(perf_counter_ns())
        raise ValueError(argument)

    failed = call_timed(fails, "refused")
    assert failed.result is None
    assert str(failed.failure) == "refused"
    assert failed.sent_ns <= within[1] <= failed.done_ns


@pytest.mark.parametrize("due_ns", [None, 1000])
def test_latency_counts_from_when_a_call_was_due(due_ns: int | None) -> None:
    sample = call_timed(str, 1)
    recorder = Recorder()
    recorder.start(0)
    record_operation(recorder, sample, due_ns)
    due = sample.sent_ns if due_ns is None else due_ns
    expected_us = (sample.done_ns - due) / 1e3
    assert recorder.summary()["latency_max"] == pytest.approx(expected_us)


def test_an_answer_is_judged() -> None:
    rows = dataset()
    truth = truth_of(rows, K, None)
    judge = Judge(truth.k, truth.accept_offsets, truth.accept_ids, truth.available)
    recorder = Recorder(judge)
    recorder.start(0)
    record_answer(recorder, 0, timed_search(lambda _: (truth.ids[0], np.zeros(K)), rows.queries[0]))
    record_answer(recorder, 1, timed_search(lambda _: (truth.ids[0], np.zeros(K)), rows.queries[1]))
    found = recorder.summary()
    assert found["count"] == 2
    assert 0.5 <= (found["recall_mean"] or 0) < 1


def test_an_answer_that_is_made_when_it_is_taken_apart_is_made_under_the_clock() -> None:
    class Lazy:
        def __iter__(self) -> Any:
            time.sleep(0.01)
            return iter((np.zeros(K, np.int64), np.zeros(K, np.float32)))

    sample = timed_search(lambda _: Lazy(), np.zeros(DIM, np.float32))  # type: ignore[arg-type, return-value]
    assert sample.done_ns - sample.sent_ns >= 10_000_000
    assert isinstance(sample.result, tuple)
