"""Bulk reads of all rows, and alternating bulk writes and reads, by several concurrent clients.

A client uses the store's SDK. A single client runs in this process, several run in a process each,
connected before the clock starts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from time import perf_counter_ns
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Recorder
from vectrial.datasets import library
from vectrial.model.dataset import Dataset
from vectrial.model.progress import Progress
from vectrial.model.schema import Schema
from vectrial.model.store import Store
from vectrial.workload.ingest import make_batch, metadata_of
from vectrial.workload.python.sdk_process import Opening, run_together, wait_for_start
from vectrial.workload.python.timed import Sample, call_timed, record_operation

T = TypeVar("T")

#: Bytes of ids that a client holds until it has ended, when they are checked: that is no part of a
#: transfer. With more it checks between two passes.
_CHECKED_AT = 64 << 20


@dataclass(frozen=True)
class FullScan:
    """Read every row out, pass after pass, until `min_s` seconds have passed; every pass is
    completed, and the first comes before the clock.

    ids: ids of all rows, ascending, which each pass must return once.
    page_rows: rows per page, if the store lets the client choose.
    """

    ids: NDArray[np.int64]
    page_rows: int
    min_s: float


@dataclass(frozen=True)
class PutScanLoop:
    """Put this many rows into a separate collection, then read all of it, in alternation for
    `length_s` seconds. The collection grows with every turn; the first turn comes before the
    clock."""

    dataset: str
    rows: int
    batch_rows: int
    page_rows: int
    length_s: float


@dataclass(frozen=True)
class BulkClient:
    """Work of one process. opening: opening of the collection that it writes and reads."""

    opening: Opening
    work: FullScan | PutScanLoop
    cores: Sequence[int]


@dataclass(frozen=True)
class TransferResult:
    """Result of a client within the clock.

    puts, gets: packed records; a get is a whole pass. put_bytes, got_bytes: bytes of the Arrow
        batches, with ids, vectors and metadata. wrong: passes that did not return every row once.
    """

    puts: bytes
    gets: bytes
    ended_ns: int
    cpu_ns: int
    put_rows: int = 0
    put_bytes: int = 0
    got_rows: int = 0
    got_bytes: int = 0
    wrong: int = 0


def run_clients(
    clients: Sequence[BulkClient], progress: Progress, name: str
) -> tuple[int, list[TransferResult]]:
    """Run each client in a process, from a common start; returns the start and the results.

    Raises:
        StoreError: a process could not connect, or ended before its time.
    """
    return run_together(
        clients, TransferResult, progress, "connecting", lambda _: progress(0, 1, name)
    )


def run_client(client: BulkClient, pipe: Connection) -> TransferResult:
    """Do the work of one client, in its process."""
    if client.cores:
        os.sched_setaffinity(0, client.cores)

    def begin() -> int:
        return wait_for_start(pipe)

    store, work = client.opening.open(), client.work
    try:
        if isinstance(work, FullScan):
            return scan_repeatedly(store, work, begin)
        rows = library.load(work.dataset)
        return alternate_puts_and_gets(store, work, rows, client.opening.schema, begin)
    finally:
        store.close()


def scan_repeatedly(store: Store, work: FullScan, begin: Callable[[], int]) -> TransferResult:
    """Read all rows repeatedly. A pass that raises is an error, and the last.

    begin: waits for the start and returns its instant.
    """
    _TransferLog(perf_counter_ns()).get(store, work.page_rows, work.ids)
    log = _TransferLog(begin())
    while log.ended_ns - log.started_ns < work.min_s * 1e9 or not log.gets.samples():
        if not log.get(store, work.page_rows, work.ids):
            break
    return log.result()


def alternate_puts_and_gets(
    store: Store, work: PutScanLoop, dataset: Dataset, schema: Schema, begin: Callable[[], int]
) -> TransferResult:
    """Alternate puts and gets on an empty collection. An exception is an error, and ends the work.

    Rows are the first `work.rows` of the dataset, repeated, under ids from 0 up.
    begin: see `scan_repeatedly`.
    """
    size, upto = work.batch_rows, 0

    def turn(log: _TransferLog) -> bool:
        nonlocal upto
        ids = np.arange(upto, upto + size, dtype=np.int64)
        at = ids % work.rows
        batch = make_batch(schema, ids, dataset.vectors[at], metadata_of(dataset, schema, at))
        if not log.record(log.puts, call_timed(store.insert, batch)):
            return False
        log.put_rows += size
        log.put_bytes += batch.nbytes
        upto += size
        return log.get(store, work.page_rows, np.arange(upto, dtype=np.int64))

    turn(_TransferLog(perf_counter_ns()))
    log = _TransferLog(begin())
    while log.ended_ns - log.started_ns < work.length_s * 1e9 and turn(log):
        pass
    return log.result()


class _TransferLog:
    """Work of a client since the start."""

    def __init__(self, started_ns: int) -> None:
        self.puts, self.gets = Recorder(), Recorder()
        self.puts.start(started_ns)
        self.gets.start(started_ns)
        self.started_ns = self.ended_ns = started_ns
        self.cpu_ns = time.process_time_ns()
        self.put_rows = self.put_bytes = self.got_rows = self.got_bytes = self.wrong = 0
        self._unchecked: list[tuple[list[NDArray[np.int64]], NDArray[np.int64]]] = []
        self._unchecked_bytes = 0

    def get(self, store: Store, page_rows: int, expected: NDArray[np.int64]) -> bool:
        """Read everything once; True if nothing was raised. expected: ids, ascending."""
        seen: list[NDArray[np.int64]] = []

        def scan(page_rows: int) -> int:
            nbytes = 0
            for batch in store.scan(page_rows):
                nbytes += batch.nbytes
                # A copy: what shares memory with the page keeps its vectors.
                seen.append(batch.column("id").to_numpy().copy())
            return nbytes

        sample = call_timed(scan, page_rows)
        if not self.record(self.gets, sample):
            return False
        self.got_rows += sum(map(len, seen))
        self.got_bytes += sample.result or 0
        self._unchecked.append((seen, expected))
        self._unchecked_bytes += sum(ids.nbytes for ids in seen)
        if self._unchecked_bytes > _CHECKED_AT:
            self._check()
        return True

    def _check(self) -> None:
        """Count the passes that did not return every row once."""
        for seen, expected in self._unchecked:
            found = np.sort(np.concatenate(seen)) if seen else expected[:0]
            self.wrong += not np.array_equal(found, expected)
        self._unchecked, self._unchecked_bytes = [], 0

    def record(self, recorder: Recorder, sample: Sample[T]) -> bool:
        """Record a put or a get; True if nothing was raised."""
        self.ended_ns = sample.done_ns
        record_operation(recorder, sample)
        return sample.failure is None

    def result(self) -> TransferResult:
        cpu_ns = time.process_time_ns() - self.cpu_ns
        self._check()
        return TransferResult(
            puts=self.puts.pack(),
            gets=self.gets.pack(),
            ended_ns=self.ended_ns,
            cpu_ns=cpu_ns,
            put_rows=self.put_rows,
            put_bytes=self.put_bytes,
            got_rows=self.got_rows,
            got_bytes=self.got_bytes,
            wrong=self.wrong,
        )
