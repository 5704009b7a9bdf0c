"""Survival of acknowledged rows after a crash."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from time import perf_counter_ns
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from vectrial.document.sheet import Sheet, metric
from vectrial.experiments.base import Experiment, Target
from vectrial.model.capabilities import Durability
from vectrial.model.context import Context
from vectrial.model.errors import Unsupported
from vectrial.model.phase import Phase, State
from vectrial.model.results_schema import MetricName
from vectrial.model.store import Store
from vectrial.stores.common.arrow import ids_of
from vectrial.workload import dispatch, ingest
from vectrial.workload.crash import CrashWriter
from vectrial.workload.python.timed import describe
from vectrial.workload.readback import read_back

#: Batches of each half of the rows: each is acknowledged on its own.
_BATCHES = 10
#: Seconds that a server which answers again may take to find what it has, and until then.
_FINDS_S, _ANSWERS_S, _POLL_S = 10.0, 60.0, 0.25


_METRICS = (
    MetricName(
        "promised_rows",
        "1",
        None,
        "of these, rows that had to outlive the process",
        "Promised rows",
    ),
    MetricName(
        "lost_rows", "1", "lower", "promised rows that were not there as written", "Lost rows"
    ),
    MetricName(
        "reopen_s", "s", "lower", "from the end of the crash until what is there was read", "Reopen"
    ),
)
_OWN = {one.name: one for one in _METRICS}


_SHEET = Sheet(
    "Rows after a crash",
    "Rows were written, then the process was ended by SIGKILL and started again. With synced "
    "writes the store promises every acknowledged row; with buffered writes, those whose flush "
    "was due; else those that were flushed. The page cache survives a killed process: this is "
    "not a power cut.",
    ("crash",),
    (("durability", "Writes are"), ("rows", "Rows")),
    (
        metric("acknowledged_rows", "acknowledged", "Rows"),
        metric(_OWN["promised_rows"], "promised", "Rows"),
        metric("kept_rows", "kept", "Rows"),
        metric(_OWN["lost_rows"], "promised and lost", "Rows"),
        metric(_OWN["reopen_s"], "Back after"),
    ),
)


class DurabilityExperiment(Experiment):
    """Write rows, end the process that holds them by SIGKILL, start it again, and read them back.

    Of a server that process is the server; of a library it is one that is started to write. What
    was promised of writes says which rows must be there, exactly as they were written:

    - `synced`: every acknowledged row;
    - `buffered`: every row that was acknowledged `buffer_s` before the end, the first half;
    - `memory`, or nothing: the first half, after which the store was flushed.

    What the system had not written to the disk outlives a process, so that this finds a store which
    keeps rows to itself, and not one whose writes a power cut would undo.

    rows: at most. buffer_s: seconds between the halves, where writes are buffered.
    """

    name: ClassVar[str] = "durability"
    title: ClassVar[str] = "Rows after a crash"
    place: ClassVar[int] = 70
    metrics: ClassVar[tuple[MetricName, ...]] = _METRICS
    terms: ClassVar[Mapping[str, str]] = {
        "buffer_s": "seconds for buffered writes",
    }
    sheet: ClassVar[Sheet | None] = _SHEET
    starts_from: ClassVar[State] = State.EMPTY
    mutates: ClassVar[bool] = True
    axes: ClassVar[frozenset[str]] = frozenset({"rows"})

    rows: int = Field(default=1000, ge=20)
    buffer_s: float = Field(default=10.0, ge=0)

    def points(self, target: Target) -> list[dict[str, Any]]:
        can = target.can
        if not (can.persistent or can.durability):
            raise Unsupported(f"{target.name} keeps nothing on disk")
        return [{"rows": min(self.rows, target.data.rows)}]

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        dataset, schema = context.dataset, context.schema
        size = max(1, -(-dataset.rows // (2 * _BATCHES)))
        batches = list(ingest.batches(dataset, schema, size))
        half = len(batches) // 2
        older = np.concatenate([ids_of(batch) for batch in batches[:half]])
        promise = context.store.durability
        phase = Phase("crash", perf_counter_ns(), 0, params={"batch_rows": size})
        phase.unsampled = "the process that is measured ends in it"
        with ExitStack() as stack:
            crash = _Server(context) if context.store.kind == "server" else _Library(context)
            stack.callback(crash.close)
            flushes = promise in (None, Durability.MEMORY)
            crash.write(batches[:half], flush=flushes)
            if promise is Durability.BUFFERED:
                context.progress(0, 1, "waiting until buffered writes are due")
                time.sleep(self.buffer_s)
                phase.params = {**phase.params, "buffer_s": self.buffer_s}
            crash.write(batches[half:], flush=False)
            promised = dataset.ids if promise is Durability.SYNCED else older
            phase.metrics |= {
                "acknowledged_rows": float(dataset.rows),
                "promised_rows": float(len(promised)),
            }
            context.progress(0, 1, "killed, and starting again")
            try:
                crash.kill()
            except Unsupported as error:
                phase.ended_ns = perf_counter_ns()
                phase.missing |= dict.fromkeys(("kept_rows", "lost_rows"), f"not tried: {error}")
                phase.remark(f"not tried: {error}")
                yield phase
                return
            began = perf_counter_ns()
            kept, why = _after(context, crash, promised)
            phase.ended_ns = perf_counter_ns()
            phase.metrics["reopen_s"] = (phase.ended_ns - began) / 1e9
            yield phase
            lost = len(promised) - int(np.isin(promised, kept).sum())
            phase.metrics |= {"kept_rows": float(len(kept)), "lost_rows": float(lost)}
            if lost:
                said = f"{lost} of {len(promised)} rows that were {_wording(promise)} are not there"
                phase.invalidate(f"{said} as written after the process was killed{why}")

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Two starts, and the time that buffered writes are given."""
        return 5.0 + self.buffer_s


def _wording(promise: Durability | None) -> str:
    match promise:
        case Durability.SYNCED:
            return "acknowledged as synced"
        case Durability.BUFFERED:
            return "acknowledged as buffered, and were due"
        case _:
            return "flushed"


class _Crash(ABC):
    """The process that holds the rows, and its end."""

    @abstractmethod
    def write(self, batches: Sequence[pa.RecordBatch], *, flush: bool) -> None:
        """Return when all of them were acknowledged."""

    @abstractmethod
    def kill(self) -> None:
        """End it by SIGKILL; a server is started again.

        Raises:
            Unsupported: it is not ours.
        """

    @abstractmethod
    def reopened(self) -> Store:
        """The store after the crash, opened again."""

    @abstractmethod
    def close(self) -> None:
        """Leave nothing behind."""


class _Server(_Crash):
    """The store's server."""

    def __init__(self, context: Context) -> None:
        self._context, self._address = context, context.address
        self._made = False
        self._found: Store | None = None

    def write(self, batches: Sequence[pa.RecordBatch], *, flush: bool) -> None:
        store = self._context.store
        if not self._made:
            store.create(self._context.schema, self._context.index)
            self._made = True
        for batch in batches:
            store.insert(batch)
        if flush:
            store.flush()

    def kill(self) -> None:
        if self._context.crash is None:
            raise Unsupported("its server is not run here")
        self._address = self._context.crash()

    def reopened(self) -> Store:
        if self._found is not None:
            self._found.close()
        context = self._context
        self._found = type(context.store)(context.store.location, self._address)
        self._found.durability = context.store.durability
        self._found.open(context.schema, context.index)
        return self._found

    def close(self) -> None:
        if self._found is not None:
            self._found.close()


class _Library(_Crash):
    """A process that uses the library."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._writer = CrashWriter(dispatch.opening(context))

    def write(self, batches: Sequence[pa.RecordBatch], *, flush: bool) -> None:
        self._writer.write(batches, flush=flush)

    def kill(self) -> None:
        self._writer.crash()

    def reopened(self) -> Store:
        self._context.store.open(self._context.schema, self._context.index)
        return self._context.store

    def close(self) -> None:
        self._writer.crash()


def _after(
    context: Context, crash: _Crash, promised: NDArray[np.int64]
) -> tuple[NDArray[np.int64], str]:
    """The ids of the rows that are there as they were written, and why it may be none. A server is
    asked again until it answers, and for a while until it has found everything."""
    patient = context.store.kind == "server"
    began = time.monotonic()
    while True:
        try:
            kept, why = _surviving_rows(context, crash.reopened()), ""
        except Exception as error:  # noqa: BLE001 - whatever a store raises is its answer
            kept, why = np.empty(0, np.int64), f": {': '.join(describe(error))}"
        waited = time.monotonic() - began
        whole = bool(np.isin(promised, kept).all())
        if whole or not patient or waited > (_ANSWERS_S if why else _FINDS_S):
            return kept, why
        time.sleep(_POLL_S)


def _surviving_rows(context: Context, store: Store) -> NDArray[np.int64]:
    """The ids of the rows that are there: as they were written, where they can be read."""
    dataset, can = context.dataset, store.capabilities.under(context.index.kind)
    if not can.get:
        return dataset.ids[: store.count()]
    there = ids_of(store.get(dataset.ids))
    at = np.flatnonzero(np.isin(dataset.ids, there))
    if not len(at):
        return dataset.ids[:0]
    ids, vectors = dataset.ids[at], dataset.vectors[at]
    right = read_back(store, context.schema, context.index, ids, vectors)
    return ids if right == len(ids) else ids[_each_right(context, store, ids, vectors)]


def _each_right(
    context: Context, store: Store, ids: NDArray[np.int64], vectors: NDArray[np.float32]
) -> NDArray[np.bool_]:
    """Mask of the rows that are stored as they were written, one by one."""
    one = (slice(i, i + 1) for i in range(len(ids)))
    return np.array(
        [read_back(store, context.schema, context.index, ids[i], vectors[i]) == 1 for i in one]
    )
