"""Bytes that a store writes to disk over the bytes that it was given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import perf_counter_ns
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from vectrial.document.sheet import Sheet, metric
from vectrial.experiments.base import Experiment, Target
from vectrial.experiments.common.disk_usage import settled_phase, size_phase
from vectrial.experiments.common.row_parts import insert
from vectrial.model.context import Context
from vectrial.model.errors import Unsupported
from vectrial.model.inputs import Seconds
from vectrial.model.phase import Phase, State
from vectrial.model.results_schema import MetricName
from vectrial.workload import ingest

_METRICS = (
    MetricName(
        "written_bytes",
        "B",
        "lower",
        "bytes written to disk since the first row was sent",
        "Written",
    ),
    MetricName(
        "write_amplification",
        "1",
        "lower",
        "that, over the bytes of the vectors and the metadata that were inserted",
        "× ingested",
    ),
    MetricName("live_rows", "1", None, "rows that are in the store", "Rows"),
)
_OWN = {one.name: one for one in _METRICS}

_SHEET = Sheet(
    "Write amplification",
    "Bytes written since the first row, over the bytes of vectors and metadata that were "
    "inserted. loaded: the last row is acknowledged. compacted: flushed, indexed and at rest. "
    "deleted: a share of the rows is deleted. compacted_again: flushed, indexed and at rest once "
    "more. A page counts when it is made dirty in the page cache, and again when that happens "
    "after it was written out.",
    ("loaded", "compacted", "deleted", "compacted_again"),
    (("phase", "When"), ("deleted", "Deleted")),
    (
        metric(_OWN["live_rows"], "Rows"),
        metric(_OWN["written_bytes"], "Written"),
        metric(_OWN["write_amplification"], "× ingested"),
        metric("disk_bytes", "Disk"),
        metric("disk_ratio", "Disk × raw"),
    ),
    sparse=True,
)


class WriteAmplification(Experiment):
    """Load an empty store, let it flush, index and come to rest, delete a share of the rows, and
    let it come to rest again. Each step records the bytes that the store's process has written
    since the start, divided by the bytes that were inserted, and the bytes on disk.

    For a server, its processes and those that they started are counted; for a library, the process
    that calls it. Compaction is the work of the store during flush and build, and afterwards until
    its folders no longer change.

    deleted: the share of the rows; 0: none. settle_s: longest wait until nothing has changed for
        two seconds; 0: no wait.
    """

    name: ClassVar[str] = "write_amplification"
    title: ClassVar[str] = "Write amplification"
    place: ClassVar[int] = 36
    metrics: ClassVar[tuple[MetricName, ...]] = _METRICS
    terms: ClassVar[Mapping[str, str]] = {
        "deleted": "share of rows deleted",
    }
    sheet: ClassVar[Sheet | None] = _SHEET
    starts_from: ClassVar[State] = State.EMPTY
    mutates: ClassVar[bool] = True

    deleted: float = Field(default=0.2, ge=0, lt=1)
    settle_s: Seconds = 20.0

    def points(self, target: Target) -> list[dict[str, Any]]:
        if not target.capabilities.persistent:
            raise Unsupported(f"{target.name} keeps nothing on disk")
        return [{"deleted": self.deleted if target.capabilities.delete else 0.0}]

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        store, dataset = context.store, context.dataset
        count = round(float(point["deleted"]) * dataset.rows)
        store.create(context.schema, context.index)
        ledger = _WrittenBytes(context, point)
        started = perf_counter_ns()
        insert(store, context, dataset, context.progress)
        yield ledger.describe(
            size_phase(context, "loaded", perf_counter_ns()), started, dataset.rows
        )
        started = perf_counter_ns()
        ingest.finish(store, context.progress)
        yield ledger.describe(settled_phase(context, self.settle_s), started, dataset.rows)
        if not count:
            return
        rng, started = np.random.default_rng([context.seed, 11]), perf_counter_ns()
        store.delete(rng.choice(dataset.ids, count, replace=False))
        left = dataset.rows - count
        yield ledger.describe(size_phase(context, "deleted", perf_counter_ns()), started, left)
        started = perf_counter_ns()
        ingest.finish(store, context.progress)
        phase = settled_phase(context, self.settle_s)
        phase.name = "compacted_again"
        yield ledger.describe(phase, started, left)

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Time of two waits of some seconds, and of deletes."""
        return 8.0 + rows * 20e-6


class _WrittenBytes:
    """The bytes inserted, and those written since it was made."""

    def __init__(self, context: Context, point: Mapping[str, Any]) -> None:
        metadata = context.dataset.metadata
        self._ingested = context.dataset.raw_bytes + (0 if metadata is None else metadata.nbytes)
        self._written, self._point = context.written_bytes, point
        self._before = context.written_bytes()
        self._batch_rows = context.batch_rows

    def describe(self, phase: Phase, started_ns: int, rows: int) -> Phase:
        """Add the bytes written so far to a phase of sizes, and date its start back to the step
        that wrote them."""
        now = self._written()
        phase.name = "compacted" if phase.name == "settled" else phase.name
        phase.started_ns = started_ns
        phase.params = {**phase.params, **self._point, "batch_rows": self._batch_rows}
        phase.metrics["live_rows"] = float(rows)
        if now is None or self._before is None:
            names = ("written_bytes", "write_amplification")
            phase.missing |= dict.fromkeys(names, "the system does not tell of this process")
        else:
            written = now - self._before
            phase.metrics["written_bytes"] = float(written)
            phase.metrics["write_amplification"] = written / self._ingested
        return phase
