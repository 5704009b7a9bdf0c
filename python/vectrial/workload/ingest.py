"""Bulk loading: the same batches for every store, each step timed apart."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter_ns, process_time_ns
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial._engine import Recorder
from vectrial.model.dataset import Dataset
from vectrial.model.phase import Phase
from vectrial.model.progress import Progress
from vectrial.model.schema import Schema
from vectrial.model.store import Store
from vectrial.stores.common.arrow import batch_of


def batches(
    dataset: Dataset, schema: Schema, batch_rows: int, *, start: int = 0, stop: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows start … stop of a dataset in the layout of `Schema.arrow`, `batch_rows` at a time."""
    stop = dataset.rows if stop is None else stop
    for first in range(start, stop, batch_rows):
        yield batch(dataset, schema, np.arange(first, min(first + batch_rows, stop)))


def batch(dataset: Dataset, schema: Schema, rows: NDArray[np.int64]) -> pa.RecordBatch:
    """The given rows (positions) of a dataset in the layout of `Schema.arrow`."""
    metadata = metadata_of(dataset, schema, rows)
    return make_batch(schema, dataset.ids[rows], dataset.vectors[rows], metadata)


def metadata_of(dataset: Dataset, schema: Schema, rows: NDArray[np.int64]) -> pa.Table | None:
    """The schema's columns of the given rows (positions); None if the schema has none. Other
    columns of the dataset are not loaded."""
    if dataset.metadata is None or not schema.fields:
        return None
    return dataset.metadata.select([field.name for field in schema.fields]).take(rows)


def make_batch(
    schema: Schema,
    ids: NDArray[np.int64],
    vectors: NDArray[np.float32],
    metadata: pa.Table | None,
) -> pa.RecordBatch:
    """A batch from ids int64 (n,), vectors float32 (n, d) and metadata of n rows."""
    columns: dict[str, pa.Array[Any]] = {}
    for field in schema.fields:
        assert metadata is not None, "a schema with fields goes with metadata"
        columns[field.name] = pa.concat_arrays(metadata.column(field.name).chunks)
    return batch_of(schema, ids, vectors, columns)


@dataclass(frozen=True)
class Step:
    """One timed step of a load, in `perf_counter_ns`."""

    name: str
    started_ns: int
    ended_ns: int
    note: str = ""

    @property
    def seconds(self) -> float:
        """Duration of the load in seconds."""
        return (self.ended_ns - self.started_ns) / 1e9


def load(
    store: Store,
    dataset: Dataset,
    schema: Schema,
    batch_rows: int,
    progress: Progress,
    *,
    stop: int | None = None,
) -> Phase:
    """Insert rows 0 … stop by the store's own method. The clock runs while the store works and
    stops while the next batch is cut from the dataset, so reading our own data does not count.

    The phase's end is its start plus the time spent in inserts. Exceptions of the store propagate.
    """
    stop = dataset.rows if stop is None else stop
    recorder, started = Recorder(), perf_counter_ns()
    recorder.start(started)
    ended = started
    spent, done, cpu_ns, load_1m = 0, 0, 0, os.getloadavg()[0]
    for rows in batches(dataset, schema, batch_rows, stop=stop):
        cpu, t0 = process_time_ns(), perf_counter_ns()
        store.insert(rows)
        t1 = ended = perf_counter_ns()
        cpu_ns += process_time_ns() - cpu
        recorder.operation(t0, t0, t1)
        spent += t1 - t0
        done += rows.num_rows
        progress(done, stop, "loading")
    recorder.finish(perf_counter_ns())
    phase = load_phase(
        started, spent / 1e9, taken=done, dim=schema.dim, batch_rows=batch_rows, clients=1
    )
    add_batches(phase, recorder)
    phase.paused_ns = ended - started - spent
    phase.metrics |= {"cpu_s": cpu_ns / 1e9, "load_1m": load_1m}
    return phase


def load_phase(
    started_ns: int, seconds: float, *, taken: int, dim: int, batch_rows: int, clients: int
) -> Phase:
    """The phase `load` of any lane: `taken` rows in this many seconds of the clock.

    Its latencies are those of batches; `count` is the number of rows.
    """
    phase = Phase("load", started_ns, started_ns + int(seconds * 1e9))
    phase.params = {"batch_rows": batch_rows}
    phase.metrics |= {
        "load_s": seconds,
        "count": float(taken),
        "rows_per_s": taken / seconds if seconds else None,
        "mb_per_s": taken * dim * 4 / 1e6 / seconds if seconds else None,
        "concurrency": float(clients),
    }
    if not seconds:
        phase.missing |= dict.fromkeys(("rows_per_s", "mb_per_s"), "nothing was loaded")
    return phase


def add_batches(phase: Phase, recorder: Recorder) -> None:
    """Write into a phase a finished recorder's metrics of its batches."""
    told = recorder.summary()
    phase.metrics |= {"batches": told["count"], "errors": told["errors"] or 0}
    phase.windows["load"] = recorder.windows()
    phase.errors += recorder.errors()
    if told["count"]:
        phase.histograms["latency"] = recorder.histogram("latency")
        phase.metrics |= {name: told[name] for name in told if name.startswith("latency_")}


#: Metrics of `load_times`, in order.
LOAD_TIMES = ("load_s", "flush_s", "build_s", "wait_s", "ready_s")


def finish_steps(store: Store, progress: Progress) -> Iterator[Step]:
    """Flush, build and wait until the final index serves everything. Each runs when the previous
    step was taken: it is reported when it ends, and samples until then belong to it."""
    for name, act in (("flush", store.flush), ("build", store.build), ("wait", store.wait_indexed)):
        progress(0, 1, name)
        t0 = perf_counter_ns()
        note = act()
        yield Step(name, t0, perf_counter_ns(), note or "")


def finish(store: Store, progress: Progress) -> list[Step]:
    """All steps of `finish_steps`, one after the other."""
    return list(finish_steps(store, progress))


def load_times(loaded: Phase, steps: Sequence[Step]) -> dict[str, float]:
    """Seconds of a load by metric name: of the phase `load`, of the steps after it, and `ready_s`,
    their sum."""
    times = {"load_s": loaded.metrics["load_s"] or 0.0}
    times |= {f"{step.name}_s": step.seconds for step in steps}
    return {**times, "ready_s": sum(times.values())}


def load_times_of(phases: Iterable[Phase]) -> dict[str, float] | None:
    """The `load_times` of an experiment that loaded and timed the load, from its phases; None if no
    phase says when the store was ready."""
    for phase in phases:
        if phase.valid and phase.metrics.get("ready_s") is not None:
            found = {name: phase.metrics.get(name) for name in LOAD_TIMES}
            return {name: value for name, value in found.items() if value is not None}
    return None
