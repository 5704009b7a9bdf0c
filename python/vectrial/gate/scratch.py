"""Checks on a small store of the same kind, loaded with rows made to distinguish faults."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from vectrial._engine import Judge
from vectrial.datasets.exact import exact_topk
from vectrial.gate.model import ExpectedRows, GateResults, Ids, Subject, Vectors, first_difference
from vectrial.gate.reading import true_share
from vectrial.model import filters
from vectrial.model.filters import Filter
from vectrial.model.metric import Metric, distances
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.model.store import Store
from vectrial.stores.common.arrow import batch_of
from vectrial.stores.common.temporary import temporary_store

#: Rows of the small store, number of queries, neighbours per query.
ROWS, QUERIES, K = 2000, 50, 10
#: Rows that are updated, and deleted.
CHANGED = 20


@contextmanager
def small_store(subject: Subject, folder: Path) -> Iterator[Subject]:
    """A store of the same kind and index, loaded with rows made to distinguish faults."""
    with temporary_store(subject.make, folder) as store:
        yield _load_small(subject, store)


def _load_small(subject: Subject, store: Store) -> Subject:
    rng = np.random.default_rng(subject.seed + 1)
    kinds = {
        "bucket": FieldType.INT,
        "price": FieldType.FLOAT,
        "label": FieldType.STRING,
        "flag": FieldType.BOOL,
    }
    fields = tuple(Field(n, t) for n, t in kinds.items() if t in subject.capabilities.field_types)
    schema = Schema(subject.schema.dim, subject.schema.metric, fields)
    vectors = _distinctive_vectors(ROWS + QUERIES, schema.dim, rng)
    ids = 7 + 3 * rng.permutation(ROWS).astype(np.int64)
    rows = ExpectedRows(
        ids, vectors[:ROWS], _metadata(fields, ROWS, subject.capabilities.nulls, rng)
    )
    store.create(schema, subject.index)
    for start in range(0, ROWS, 500):
        store.insert(_batch(schema, rows, np.arange(start, start + 500)))
    store.flush()
    store.build()
    store.wait_indexed()
    queries = vectors[ROWS:]
    judge = _judge(rows, queries, schema.metric)
    return Subject(store, subject.make, schema, subject.index, rows, queries, judge, K)


def _judge(rows: ExpectedRows, queries: Vectors, metric: Metric) -> Judge:
    truth = exact_topk(rows.vectors, rows.ids, queries, metric, K)
    return Judge(K, truth.accept_offsets, truth.accept_ids, truth.available)


def _distinctive_vectors(count: int, dim: int, rng: np.random.Generator) -> Vectors:
    """Clusters of directions with varied lengths inside each cluster, so that metrics differ in
    their neighbours."""
    centres = rng.standard_normal((40, dim))
    directions = centres[rng.integers(0, 40, count)] + 0.35 * rng.standard_normal((count, dim))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    lengths = np.exp(rng.uniform(-0.5, 0.5, (count, 1)))
    return np.ascontiguousarray(directions * lengths, dtype=np.float32)


def _metadata(
    fields: tuple[Field, ...], count: int, nulls: bool, rng: np.random.Generator
) -> pa.Table | None:
    if not fields:
        return None
    labels = [f"label {i % 7}" for i in rng.integers(0, 70, count)]
    missing = nulls & (rng.random(count) < 0.1)
    values = {
        "bucket": pa.array(rng.integers(0, 20, count), pa.int64()),
        "price": pa.array(rng.standard_normal(count).round(3), pa.float64()),
        "label": pa.array(labels, pa.string(), mask=missing),
        "flag": pa.array(rng.random(count) < 0.3, pa.bool_()),
    }
    return pa.table({f.name: values[f.name] for f in fields})


def _batch(schema: Schema, rows: ExpectedRows, positions: Ids) -> pa.RecordBatch:
    columns = {
        f.name: pa.concat_arrays(rows.metadata.column(f.name).take(positions).chunks)
        for f in schema.fields
        if rows.metadata is not None
    }
    return batch_of(schema, rows.ids[positions], rows.vectors[positions], columns)


def check_metric_and_floor(small: Subject, report: GateResults) -> None:
    answers = small.answer(small.queries)
    recalls = {m: true_share(small, _judge(small.rows, small.queries, m), answers) for m in Metric}
    declared = small.schema.metric
    best = max(recalls, key=lambda metric: recalls[metric])
    shown = ", ".join(f"{metric} {value:.3f}" for metric, value in recalls.items())
    report(
        "metric_is_asked", best is declared, f"agreement of the answers with each metric: {shown}"
    )
    floor = small.floor
    report(
        "recall_floor",
        recalls[declared] >= floor,
        f"{recalls[declared]:.4f} on clustered data at the generous setting, at least {floor:g}",
    )


def probe_filters(small: Subject) -> list[Filter]:
    """Filters on the existing columns, from common to rare."""
    candidates: list[Filter] = [
        filters.Eq("flag", True),
        filters.Eq("bucket", 3),
        filters.Eq("label", "label 2"),
        filters.In("bucket", (1, 2, 3)),
        filters.Range("bucket", lt=10),
        filters.Range("bucket", gte=4, lte=4),
        filters.Range("price", gt=2.2),
        filters.And((filters.Range("bucket", gte=5), filters.Eq("label", "label 1"))),
        filters.Or((filters.Eq("bucket", 0), filters.Eq("bucket", 19))),
        filters.Not(filters.Range("bucket", lt=15)),
        filters.Not(filters.Eq("label", "label 2")),
        filters.IsNull("label"),
    ]
    columns = {column.name for column in small.schema.fields}
    return [where for where in candidates if filters.fields(where) <= columns]


def check_updates(small: Subject, report: GateResults, rng: np.random.Generator) -> None:
    """Move rows to empty places, with other metadata. They must be found there as written, and no
    longer at their old places. `small.rows` changes along with the store."""
    if not small.capabilities.upsert:
        report("updated_rows_found", None, "the store has no upsert")
        return
    rows = small.rows
    at = np.sort(rng.permutation(ROWS)[:CHANGED])
    old = rows.vectors[at].copy()
    rows.vectors[at] = -_distinctive_vectors(len(at), small.schema.dim, rng)
    metadata = rows.metadata
    if metadata is not None:
        source = np.arange(ROWS)
        source[at] = np.roll(at, 1)
        metadata = metadata.take(source)
    now = replace(small, rows=replace(rows, metadata=metadata))
    small.answer(old, fresh=True)  # a store that caches answers would return these again
    small.store.upsert(_batch(small.schema, now.rows, at))
    due, lost = _count_due_and_lost(now, at)
    fault = _stale_row_fault(now, at, old)
    # A graph may lose a row, updated or not, but no more rows than its floor allows.
    allowed = int((1 - small.floor) * due + 1e-9)
    if fault is None and len(lost) > allowed:
        fault = (
            f"{len(lost)} of {due} ids are not found at their new place, where {allowed} may be"
            f" missed: {lost[:5]}"
        )
    if fault is None and small.store.count() != ROWS:
        fault = f"count is {small.store.count()} after updating rows of {ROWS}"
    if fault is None and small.capabilities.get:
        fault = first_difference(now, at, small.store.get(rows.ids[at]))
    found = f"{due - len(lost)} of {due} found where they moved, at least {due - allowed}"
    report("updated_rows_found", fault is None, fault or found)


def _count_due_and_lost(subject: Subject, positions: Ids) -> tuple[int, list[int]]:
    """For the rows at `positions`: the number that are nearest to their own vectors
    (under inner product not all are), and the ids of those among them that a search misses."""
    due, lost = 0, list[int]()
    vectors = subject.rows.vectors[positions]
    for own, vector, (ids, _) in zip(
        positions, vectors, subject.answer(vectors, fresh=True), strict=True
    ):
        if _rank(subject, own, vector) == 0:
            due += 1
            if (id_ := int(subject.rows.ids[own])) not in ids:
                lost.append(id_)
    return due, lost


def _stale_row_fault(subject: Subject, positions: Ids, old: Vectors) -> str | None:
    """Message about the first row at `positions` still found at its old place, or
    None."""
    for own, vector, (ids, _) in zip(positions, old, subject.answer(old, fresh=True), strict=True):
        id_ = int(subject.rows.ids[own])
        if id_ in ids and _rank(subject, own, vector) > 4 * subject.k:
            return f"id {id_} is still found at its old place"
    return None


def _rank(subject: Subject, own: np.int64, vector: Vectors) -> int:
    """Number of rows nearer to `vector` than the row at position `own`."""
    near = distances(vector, subject.rows.vectors, subject.schema.metric)
    return int((near < near[own]).sum())


def check_deletes(small: Subject, report: GateResults) -> None:
    """Delete the longest rows: even under inner product each is found by its own vector."""
    if not small.capabilities.delete:
        report("deleted_rows_gone", None, "the store has no delete")
        return
    at = np.argsort(-np.linalg.norm(small.rows.vectors, axis=1))[:CHANGED]
    gone = small.rows.ids[at]
    left = small.store.count() - len(at)
    small.answer(small.rows.vectors[at], fresh=True)  # as before updates
    small.store.delete(gone)
    fault = _undeleted_fault(small, at, left)
    if fault is None:
        # A row that a flush or a background task brings back was never deleted.
        small.store.flush()
        small.store.wait_indexed()
        if (fault := _undeleted_fault(small, at, left)) is not None:
            fault = f"after a flush, {fault}"
    report("deleted_rows_gone", fault is None, fault or f"{len(at)} rows gone")


def _undeleted_fault(small: Subject, positions: Ids, expected_count: int) -> str | None:
    """Message if the deleted rows at `positions` still appear, or the row count is not
    `expected_count`; None if all is well."""
    gone = small.rows.ids[positions]
    answers = small.answer(small.rows.vectors[positions], fresh=True)
    for id_, (ids, _) in zip(gone.tolist(), answers, strict=True):
        if set(ids.tolist()) & set(gone.tolist()):
            return f"a search near id {id_} still returns deleted rows"
    if small.capabilities.get and small.store.get(gone).num_rows:
        return "get still returns deleted rows"
    if (count := small.store.count()) != expected_count:
        return f"count is {count} after deleting, expected {expected_count}"
    return None
