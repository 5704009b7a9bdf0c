"""Bulk loading by several clients of the store's official Python client, each in a process of its
own, connected before the clock starts."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np

from vectrial._engine import Recorder
from vectrial.datasets import library
from vectrial.engine.recorders import merge
from vectrial.model.phase import Phase
from vectrial.model.progress import Progress
from vectrial.workload.ingest import add_batches, batch, load_phase
from vectrial.workload.python.sdk_process import Done, Opening, run_together, wait_for_start
from vectrial.workload.python.timed import call_timed, record_operation


@dataclass(frozen=True)
class Portion:
    """Share of one process in an ingest: every `processes`-th batch of the first `stop` rows of a
    dataset in the library, starting with the `first`-th."""

    opening: Opening
    dataset: str
    stop: int
    batch_rows: int
    first: int
    processes: int
    cores: Sequence[int]


def load(
    opening: Opening,
    dataset: str,
    batch_rows: int,
    clients: int,
    progress: Progress,
    *,
    stop: int,
    cores: Sequence[int] = (),
) -> Phase:
    """Insert rows 0 … stop in batches, which the clients take in turn. Each client cuts its batches
    from the dataset as it goes, within the clock, concurrently with the others.

    Raises:
        StoreError: a process could not connect, or ended before its time.
    """
    portions = [
        Portion(opening, dataset, stop, batch_rows, first, clients, cores)
        for first in range(clients)
    ]
    load_1m = os.getloadavg()[0]
    started_ns, results = run_together(
        portions, Done, progress, "connecting", lambda _: progress(0, 1, "loading")
    )
    whole = merge(Recorder.unpack(one.record) for one in results)
    ended_ns = max(one.ended_ns for one in results)
    whole.finish(ended_ns)
    seconds = (ended_ns - started_ns) / 1e9
    taken = sum(one.rows for one in results)
    phase = load_phase(
        started_ns,
        seconds,
        taken=taken,
        dim=opening.schema.dim,
        batch_rows=batch_rows,
        clients=clients,
    )
    add_batches(phase, whole)
    cpu_s = sum(one.cpu_ns for one in results) / 1e9
    width = min(clients, len(cores) or len(os.sched_getaffinity(0)))
    phase.metrics |= {
        "cpu_s": cpu_s,
        "client_cpu_share": cpu_s / seconds / width,
        "client_processes": clients,
        "load_1m": load_1m,
    }
    if taken != stop:
        said = "; ".join(f"{kind}: {messages[0]}" for kind, _, messages in phase.errors if messages)
        phase.valid, phase.reason = False, f"{taken:,} of {stop:,} rows were taken: {said}"
    return phase


def insert(portion: Portion, pipe: Connection) -> Done:
    """Insert the portion of this process."""
    if portion.cores:
        os.sched_setaffinity(0, portion.cores)
    store, dataset = portion.opening.open(portion.first), library.load(portion.dataset)
    recorder, taken = Recorder(), 0
    # What Arrow sets up for the first batch is not the store's time.
    batch(dataset, portion.opening.schema, np.arange(1))
    try:
        done = wait_for_start(pipe)
        recorder.start(done)
        cpu_ns = time.process_time_ns()
        step = portion.batch_rows * portion.processes
        for first in range(portion.first * portion.batch_rows, portion.stop, step):
            last = min(first + portion.batch_rows, portion.stop)
            rows = batch(dataset, portion.opening.schema, np.arange(first, last))
            sample = call_timed(store.insert, rows)
            record_operation(recorder, sample)
            done = sample.done_ns
            if sample.failure is not None:
                break  # the load is not whole
            taken += rows.num_rows
        cpu_ns = time.process_time_ns() - cpu_ns
    finally:
        store.close()
    return Done(
        record=recorder.pack(),
        issued=recorder.samples(),
        ended_ns=done,
        cpu_ns=cpu_ns,
        rows=taken,
    )
