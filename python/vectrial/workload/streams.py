"""Several classes of requests at once, each on its own schedule: searches and writes of rows.

Each class has its own record, with the times at which its requests were in flight, so that answers
can be judged afterwards by the rows that were then alive.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial._engine import LoadControl, Recorder
from vectrial.engine.client import Requests, arrivals, closed, drive, record_or_raise
from vectrial.engine.recorders import merge
from vectrial.engine.types import LoadOutcome, LoadRecord
from vectrial.model.capabilities import Params
from vectrial.model.errors import StoreError
from vectrial.model.placement import Certificate
from vectrial.model.progress import Progress
from vectrial.model.schema import Schema
from vectrial.model.store import Hits, LoadTarget, NativeRows, NativeSearch, Searcher, Store
from vectrial.model.workload import IN_FLIGHT
from vectrial.workload.ingest import make_batch
from vectrial.workload.native.rows import columns_of
from vectrial.workload.python.threads import run_threads
from vectrial.workload.python.timed import Sample, call_timed, record_operation, timed_search
from vectrial.workload.record import outcome_of_clients

#: Seconds until a request of the native lane has failed, and how long the others wait for clients.
TIMEOUT_S = 30.0
#: Later than anything that happens.
NEVER_NS = 1 << 62
_QUARTERS = 4


@dataclass(frozen=True)
class Stream:
    """Requests of one class, in the order in which they are due.

    operation: search, insert, upsert or delete.
    due: int64 (n,), ns from the start, ascending.
    vectors: float32 (n, d), the queries or the rows to write; ids: int64 (n,), ids of rows written
        or deleted; metadata: metadata of n rows written.
    """

    name: str
    operation: str
    due: NDArray[np.int64]
    vectors: NDArray[np.float32] | None = None
    ids: NDArray[np.int64] | None = None
    metadata: pa.Table | None = None


@dataclass
class StreamOutcome:
    """Outcome of a stream. spans: int64 (n, 2), ns from the start: when a request was sent and when
    it was done, `NEVER_NS` if unknown. succeeded: bool (n,). answers: by number of the search, ids
    best first."""

    spans: NDArray[np.int64]
    succeeded: NDArray[np.bool_]
    answers: dict[int, NDArray[np.int64]] = field(default_factory=dict)


@dataclass(frozen=True)
class StreamsOutcome:
    """A run of streams: its outcome like the engine's, and the outcome of each stream, in order."""

    outcome: LoadOutcome
    seen: Sequence[StreamOutcome]


# -- native ----------------------------------------------------------------------------------------


def send_by_engine(
    native: NativeSearch,
    rows: NativeRows,
    streams: Sequence[Stream],
    schema: Schema,
    k: int,
    duration_s: float,
    certificate: Certificate,
    *,
    connections: int,
    warmup: NDArray[np.float32],
    seed: int,
    progress: Progress,
    timeout_s: float = TIMEOUT_S,
    started: Callable[[int], None] = lambda _: None,
) -> StreamsOutcome:
    """Send every stream's requests when they are due.

    Args:
        timeout_s: time after which a request has failed. started: called a few times a second with
            the instant at which the clock started (`time.perf_counter_ns`), once that is known.
        connections: for each class, if a connection carries one request at a time; in all, if
            requests share them.
        warmup: queries (q, d), sent once by one client before the clock starts.

    Raises:
        UserError: the rows are not what the protocol takes.
        StoreError: a query failed before the clock started.
    """
    to: LoadTarget = {
        **native.target,
        "options": {**rows.target["options"], **native.target["options"]},
    }
    filters = [] if native.filter is None else [native.filter]
    names = [one.name for one in schema.fields]

    def requests(stream: Stream) -> Requests:
        search = stream.operation == "search"
        return Requests(
            stream.name,
            stream.operation,
            vectors=stream.vectors,
            ids=stream.ids,
            columns=columns_of(stream.metadata, rows.columns, names),
            k=k,
            filters=filters if search else (),
            options=native.options if search else rows.options,
            once=True,
            keep=True,
        )

    def report(control: LoadControl) -> None:
        started_ns, _, answered, _ = control.progress()
        progress(answered, _total(streams), "mixed")
        if started_ns:
            started(started_ns)

    placement = certificate.placement
    if len(warmup):
        asked = Requests("warm-up", vectors=warmup, k=k, filters=filters, options=native.options)
        warm = drive(to, [asked], [closed(1, count=len(warmup))], timeout_s=TIMEOUT_S)
        record_or_raise(warm, "searches before the clock")
    outcome = drive(
        to,
        [requests(one) for one in streams],
        [
            arrivals(kind="trace", offsets=one.due, mix=[(at, 1.0)], in_flight=IN_FLIGHT)
            for at, one in enumerate(streams)
        ],
        duration_s=duration_s,
        threads=placement.threads,
        cores=placement.pins,
        dedicated=placement.dedicated,
        connections=connections,
        timeout_s=timeout_s,
        seed=seed,
        progress=report,
    )
    pairs = zip(streams, outcome["classes"], strict=True)
    seen = [_stream_outcome(stream, record, outcome["started_ns"]) for stream, record in pairs]
    return StreamsOutcome(outcome, seen)


def _total(streams: Sequence[Stream]) -> int:
    return sum(len(one.due) for one in streams)


def _unknown_outcome(stream: Stream) -> StreamOutcome:
    """Unknown outcome of a stream: requests may have been sent when they were due."""
    seen = StreamOutcome(np.full((len(stream.due), 2), NEVER_NS), np.zeros(len(stream.due), bool))
    seen.spans[:, 0] = stream.due
    return seen


def _stream_outcome(stream: Stream, record: LoadRecord, started_ns: int) -> StreamOutcome:
    """Outcome of a stream from the engine's record, which numbers requests in due order."""
    seen = _unknown_outcome(stream)
    assert record["requests"] is not None, "they were to be kept"
    number, sent, done, succeeded = record["requests"]
    seen.spans[number] = np.stack([sent, done], axis=1) - started_ns
    seen.succeeded[number] = succeeded
    if record["answers"] is not None:
        queries, ids, _ = record["answers"]
        for number, found in zip(queries.tolist(), ids, strict=True):
            seen.answers[number] = found[found >= 0]
    return seen


# -- the store's own methods -----------------------------------------------------------------------


@dataclass(frozen=True)
class _Request:
    """One request, ready to be sent. stream: number of its stream; number: its number in the
    stream; what: the query (d,), the batch of a write, or the ids of a delete."""

    due: int
    stream: int
    number: int
    operation: str
    what: Any


def send_by_clients(
    stores: Sequence[Store],
    streams: Sequence[Stream],
    schema: Schema,
    k: int,
    params: Params,
    duration_s: float,
    *,
    warmup: NDArray[np.float32],
    progress: Progress,
) -> StreamsOutcome:
    """Send every request when it is due, or as soon afterwards as a client is free: each client has
    a store of its own, and takes the next free request. Several clients are threads of this
    process. A single client is the calling thread, and has a new searcher made after each write:
    outside the clock of that search, but not of the requests due behind it.

    Args:
        warmup: queries (q, d), sent once by each client before the clock starts.
    """
    # Taking from an iterator over a list is one step, even with several threads.
    pool = _Clients(iter(_requests(streams, schema)), streams, (k, params), int(duration_s * 1e9))
    searches = [store.searcher(k, params) for store in stores]
    for search in searches:
        for query in warmup:
            search(query)
    load_ns = time.process_time_ns()
    if len(stores) == 1:
        pool.begin()
        one, of = searches[0], _total(streams)
        pool.work(0, stores[0], one, lambda done: progress(done, of, "mixed"))
    else:
        pool.in_threads(stores, searches, progress)
    return pool.outcome(time.process_time_ns() - load_ns, len(stores), duration_s)


def _requests(streams: Sequence[Stream], schema: Schema) -> list[_Request]:
    """Requests of all streams in the order in which they are due."""
    made = []
    for at, stream in enumerate(streams):
        for number, due in enumerate(stream.due.tolist()):
            what: Any
            if stream.operation == "search":
                assert stream.vectors is not None
                what = stream.vectors[number]
            else:
                assert stream.ids is not None
                what = stream.ids[number : number + 1]
                if stream.operation != "delete":
                    assert stream.vectors is not None
                    vectors = stream.vectors[number : number + 1]
                    table = stream.metadata
                    metadata = None if table is None else table.slice(number, 1)
                    what = make_batch(schema, what, vectors, metadata)
            made.append(_Request(due, at, number, stream.operation, what))
    return sorted(made, key=lambda one: one.due)


def _searcher(store: Store, k: int, params: Params) -> Searcher | None:
    """A searcher; None if it cannot be made: it is tried again where a failure is recorded."""
    return call_timed(lambda k: store.searcher(k, params), k).result


class _Clients:
    """Running clients and their records; each client has its own recorders."""

    def __init__(
        self,
        requests: Any,
        streams: Sequence[Stream],
        search_arguments: tuple[int, Params],
        length_ns: int,
    ) -> None:
        self._next, self._streams, self._length_ns = requests, streams, length_ns
        self._asked = search_arguments  # k and the search parameters
        self.seen = [_unknown_outcome(one) for one in streams]
        self.records: list[list[tuple[Recorder, Recorder]]] = []
        self.done: list[tuple[int, int]] = []  # (sent, done), ns from the start
        self.late = self.unsent = 0
        self.ended_ns = self.started_ns = 0
        self.halt = False
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Start the clock."""
        self.started_ns = self.ended_ns = perf_counter_ns()

    def work(
        self, client: int, store: Store, search: Searcher | None, tell: Callable[[int], None]
    ) -> None:
        """Run one client until no work is left. search: made before the clock started."""
        clock, start = perf_counter_ns, self.started_ns
        alone = client == 0 and store.kind == "embedded"
        records = [(Recorder(), Recorder()) for _ in self._streams]
        for pair in records:
            for recorder in pair:
                recorder.start(start)
        done_here: list[tuple[int, int]] = []
        late = unsent = 0
        writes: dict[str, Callable[[Any], None]] = {
            "insert": store.insert,
            "upsert": store.upsert,
            "delete": store.delete,
        }

        def searched_late(query: NDArray[np.float32], /) -> Hits:
            return store.searcher(*self._asked)(query)  # its failure is this search's error

        for request in self._next:
            due = start + request.due
            if clock() >= start + self._length_ns or self.halt:
                unsent += 1
                continue
            if request.operation == "search" and search is None:
                search = _searcher(store, *self._asked)  # a searcher is good until the next write
            late += clock() > due
            while (left_ns := due - clock()) > 0:
                time.sleep(left_ns / 1e9)
            recorder, lag = records[request.stream]
            seen = self.seen[request.stream]
            sample: Sample[Any]
            if request.operation == "search":
                sample = timed_search(searched_late if search is None else search, request.what)
                if sample.result is not None:
                    seen.answers[request.number] = sample.result[0]
            else:
                sample = call_timed(writes[request.operation], request.what)
            record_operation(recorder, sample, due)
            sent, done = sample.sent_ns, sample.done_ns
            lag.operation(due, due, sent)
            seen.spans[request.number] = (sent - start, done - start)
            seen.succeeded[request.number] = sample.failure is None
            done_here.append((sent - start, done - start))
            if alone and request.operation != "search":
                search = None
            tell(len(done_here))
        with self._lock:
            self.records.append(records)
            self.done += done_here
            self.late += late
            self.unsent += unsent
            self.ended_ns = max([self.ended_ns, *(start + done for _, done in done_here[-1:])])

    def in_threads(
        self, stores: Sequence[Store], searches: Sequence[Searcher], progress: Progress
    ) -> None:
        """Run every client in a thread; the calling thread reports progress."""
        barrier = threading.Barrier(len(stores), action=self.begin)

        def work(client: int) -> None:
            barrier.wait()
            self.work(client, stores[client], searches[client], lambda _: None)

        def stop() -> None:
            self.halt = True
            barrier.abort()

        def report() -> None:
            elapsed = (perf_counter_ns() - self.started_ns) / self._length_ns
            progress(min(elapsed, 1.0), 1.0, "mixed")

        run_threads(len(stores), work, stop, report)

    def outcome(self, cpu_ns: int, clients: int, duration_s: float) -> StreamsOutcome:
        """The run in the form of an outcome of the engine."""
        ended_ns = max(self.started_ns + self._length_ns, self.ended_ns)
        if not self.records:
            raise StoreError("no client did anything")
        classes = []
        for at, stream in enumerate(self._streams):
            recorder, lag = (merge(own[at][which] for own in self.records) for which in (0, 1))
            recorder.finish(ended_ns)
            classes.append((stream.name, recorder, lag, recorder.samples()))
        outcome = outcome_of_clients(
            classes,
            self.started_ns,
            ended_ns,
            cpu_ns=cpu_ns,
            unsent=self.unsent,
            late=self.late,
            clients=clients,
            in_flight_ns=sum(done - sent for sent, done in self.done),
            duration_s=duration_s,
            backlog=self._backlog(),
        )
        return StreamsOutcome(outcome, self.seen)

    def _backlog(self) -> list[int]:
        """Number of requests that are due and not done at the end of each quarter of the time."""
        due = np.concatenate([one.due for one in self._streams])
        done = np.array([done for _, done in self.done], np.int64)
        ends = [self._length_ns * (quarter + 1) // _QUARTERS for quarter in range(_QUARTERS)]
        return [int((due < end).sum() - (done < end).sum()) for end in ends]
