"""Reading everything out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import process_time_ns
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from vectrial._engine import Recorder
from vectrial.document.sheet import Sheet, metric
from vectrial.experiments.base import Experiment, Target
from vectrial.model.context import Context
from vectrial.model.errors import Unsupported
from vectrial.model.inputs import Count, Seconds
from vectrial.model.phase import Phase
from vectrial.model.store import Store
from vectrial.workload.python.timed import record_operation, timed
from vectrial.workload.record import PhaseStart, phase_of

_SHEET = Sheet(
    "Reading everything out",
    "Every row with its vector and metadata, page after page; MB are of the Arrow batches.",
    ("export",),
    (("page_rows", "Rows a page"),),
    (
        metric("export_mb_per_s", "MB/s", "MB/s"),
        metric("export_rows_per_s", "Rows/s", "1/s"),
        metric("export_s", "Once", "s"),
        metric("latency_p99", "p99 of a page", "us"),
        metric("ineffective", "Incomplete passes", "1"),
    ),
)


class Export(Experiment):
    """Read every row with its vector and metadata, page after page, to the end. A first pass comes
    before the clock.

    page_rows: rows asked for at a time, where the store lets one choose.
    min_s: whole passes are made until so much time has gone.
    """

    name: ClassVar[str] = "export"
    title: ClassVar[str] = "Reading everything out"
    place: ClassVar[int] = 60
    terms: ClassVar[Mapping[str, str]] = {
        "page_rows": "rows per page",
    }
    sheet: ClassVar[Sheet | None] = _SHEET

    page_rows: Count = 10_000
    min_s: Seconds = 1.0

    def points(self, target: Target) -> list[dict[str, Any]]:
        if not target.can.scan:
            raise Unsupported(f"{target.name} does not read out its rows")
        return [{}]

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        recorder = Recorder()
        for _ in context.store.scan(self.page_rows):
            context.progress(0, 1, "export: a first pass")
        seen: list[list[np.ndarray[Any, Any]]] = []
        requests, rows, moved = 0, 0, 0
        phase_start = PhaseStart.now()
        recorder.start(phase_start.started_ns)
        done = phase_start.started_ns
        while not seen or done - phase_start.started_ns < self.min_s * 1e9:
            ids: list[np.ndarray[Any, Any]] = []
            seen.append(ids)
            scan = _scan(context.store, self.page_rows)
            while True:
                sample = timed(_next_page, scan)
                done = sample.done_ns  # a request that brings no page is part of the pass
                batch = sample.result
                if batch is None:
                    break
                record_operation(recorder, sample)
                requests, rows, moved = (
                    requests + 1,
                    rows + batch.num_rows,
                    moved + batch.nbytes,
                )
                # A copy: what shares memory with the page keeps its vectors.
                ids.append(batch.column("id").to_numpy().copy())
                context.progress(
                    rows % max(1, context.dataset.rows), context.dataset.rows, "export"
                )
            if sample.failure is not None:
                record_operation(recorder, sample)
                requests += 1
                break
            if not rows:
                break  # a scan of nothing would go on for ever
        phase = phase_of(
            "export",
            recorder,
            phase_start,
            ended_ns=done,
            cpu_ns=process_time_ns(),
            issued=requests,
            clients=1,
            params={"page_rows": self.page_rows, "loop": "closed", "clients": 1},
            no_recall="a page has no answer to judge",
        )
        seconds = (done - phase_start.started_ns) / 1e9
        phase.metrics |= {
            "passes": float(len(seen)),
            "export_s": seconds / len(seen),
            "export_rows_per_s": rows / seconds,
            "export_mb_per_s": moved / 1e6 / seconds,
        }
        yield phase
        _check(phase, seen, context.dataset.ids)

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """At 100 MB/s, and once more."""
        once = rows * dim * 4 / 1e8
        return once + max(self.min_s, once)


def _scan(store: Store, page_rows: int) -> Iterator[pa.RecordBatch]:
    """All pages. Nothing is asked of the store before the first of them is."""
    yield from store.scan(page_rows)


def _next_page(scan: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    """The next page; None after the last one."""
    return next(scan, None)


def _check(phase: Phase, seen: list[list[np.ndarray[Any, Any]]], ids: np.ndarray[Any, Any]) -> None:
    """Every pass must have read every row once."""
    expected = np.sort(ids)
    wrong = sum(
        not np.array_equal(np.sort(np.concatenate(own)) if own else expected[:0], expected)
        for own in seen
    )
    phase.metrics |= {"verified": float(len(seen)), "ineffective": float(wrong)}
    if wrong:
        phase.invalidate(f"{wrong} of {len(seen)} passes did not read every row exactly once")
