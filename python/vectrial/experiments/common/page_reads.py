"""Whole reads of a store by one client, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time_ns

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial._engine import Recorder
from vectrial.model.context import Context
from vectrial.model.phase import Phase
from vectrial.model.store import Store
from vectrial.workload.python.timed import call_timed, record_operation
from vectrial.workload.record import PhaseStart, phase_of


def export(context: Context, page_rows: int, min_s: float) -> Iterator[Phase]:
    """The phase "export": full reads of the collection with every page timed. The first read comes
    before the clock.

    page_rows: rows per page, if the store lets the client choose. min_s: seconds during which
        further reads begin.
    """
    recorder, passes = Recorder(), list[list[NDArray[np.int64]]]()
    for _ in context.store.scan(page_rows):
        context.progress(0, 1, "export: a first pass")
    requests, rows, moved = 0, 0, 0
    start = PhaseStart.now()
    recorder.start(start.started_ns)
    done = start.started_ns
    failed = False
    while not failed and (not passes or done - start.started_ns < min_s * 1e9):
        ids: list[NDArray[np.int64]] = []
        passes.append(ids)
        scan = _scan(context.store, page_rows)
        while True:
            sample = call_timed(_next_page, scan)
            done = sample.done_ns  # a request that brings no page is part of the pass
            failed, page = sample.failure is not None, sample.result
            if page is None and not failed:
                break
            record_operation(recorder, sample)
            requests += 1
            if page is None:
                break
            rows, moved = rows + page.num_rows, moved + page.nbytes
            # A copy: an array that shares memory with the page keeps its vectors.
            ids.append(page.column("id").to_numpy().copy())
            whole = context.dataset.rows
            context.progress(rows % max(1, whole), whole, "export")
        if not rows:
            break  # a scan of nothing would go on for ever
    phase = phase_of(
        "export",
        recorder,
        start,
        ended_ns=done,
        cpu_ns=process_time_ns(),
        issued=requests,
        clients=1,
        params={"page_rows": page_rows, "loop": "closed", "clients": 1},
        no_recall="a page has no answer to judge",
    )
    seconds = (done - start.started_ns) / 1e9
    phase.metrics |= {
        "passes": float(len(passes)),
        "export_s": seconds / len(passes),
        "export_rows_per_s": rows / seconds,
        "export_mb_per_s": moved / 1e6 / seconds,
    }
    yield phase
    expected = np.sort(context.dataset.ids)
    found = (np.sort(np.concatenate(ids)) if ids else expected[:0] for ids in passes)
    check_reads(phase, len(passes), sum(not np.array_equal(one, expected) for one in found))


def check_reads(phase: Phase, reads: float, wrong: int) -> None:
    """Record how many reads did not return every row once; any such read makes the phase
    invalid."""
    phase.metrics |= {"verified": reads, "ineffective": float(wrong)}
    if wrong:
        phase.invalidate(f"{wrong} reads did not bring every row exactly once")


def _scan(store: Store, page_rows: int) -> Iterator[pa.RecordBatch]:
    """All pages. No request is sent before the first page is requested."""
    yield from store.scan(page_rows)


def _next_page(scan: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    """The next page; None after the last one."""
    return next(scan, None)
