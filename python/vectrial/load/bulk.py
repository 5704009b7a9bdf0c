"""Bulk loading: the same batches for every store, each step timed apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.datasets.model import Dataset
from vectrial.stores.arrow import batch_of
from vectrial.stores.base import Schema, Store

Progress = Callable[[float, float, str], None]


def batches(
    dataset: Dataset, schema: Schema, batch_rows: int, *, start: int = 0, stop: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows start … stop of a dataset in the layout of `Schema.arrow`, `batch_rows` at a time."""
    stop = dataset.rows if stop is None else stop
    for first in range(start, stop, batch_rows):
        yield batch(dataset, schema, np.arange(first, min(first + batch_rows, stop)))


def batch(dataset: Dataset, schema: Schema, rows: NDArray[np.int64]) -> pa.RecordBatch:
    """The given rows (positions) of a dataset in the layout of `Schema.arrow`."""
    metadata = None if dataset.metadata is None else dataset.metadata.take(rows)
    return make_batch(schema, dataset.ids[rows], dataset.vectors[rows], metadata)


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
        """How long it took."""
        return (self.ended_ns - self.started_ns) / 1e9


def load(
    store: Store,
    dataset: Dataset,
    schema: Schema,
    batch_rows: int,
    progress: Progress,
    *,
    stop: int | None = None,
) -> Step:
    """Insert rows 0 … stop. The clock runs while the store works and stands still while the
    next batch is cut from the dataset, so that reading our own data is not the store's time.

    The step's end is its start plus the time spent in inserts.
    """
    stop = dataset.rows if stop is None else stop
    started = perf_counter_ns()
    spent, done = 0, 0
    for rows in batches(dataset, schema, batch_rows, stop=stop):
        t0 = perf_counter_ns()
        store.insert(rows)
        spent += perf_counter_ns() - t0
        done += rows.num_rows
        progress(done, stop, "loading")
    return Step("load", started, started + spent)


def finish(store: Store, progress: Progress) -> list[Step]:
    """Flush, build and wait until everything is served by the final index."""
    steps = []
    for name, act in (("flush", store.flush), ("build", store.build), ("wait", store.wait_indexed)):
        progress(0, 1, name)
        t0 = perf_counter_ns()
        note = act()
        steps.append(Step(name, t0, perf_counter_ns(), note or ""))
    return steps
