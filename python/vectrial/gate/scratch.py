"""Checks on a small store of the same kind, loaded with rows made to tell faults apart."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial import filters
from vectrial._engine import Judge
from vectrial.datasets.truth import exact_topk
from vectrial.distance import Metric, distances
from vectrial.filters import Filter
from vectrial.gate.model import Answer, Ids, Report, Rows, Subject, Vectors, difference
from vectrial.stores.arrow import batch_of
from vectrial.stores.base import Field, FieldType, Schema, Store

#: Rows of the small store, queries put to it, neighbours asked for.
ROWS, QUERIES, K = 2000, 50, 10

SCRATCH_CHECKS = (
    "metric_is_asked",
    "recall_floor",
    "filters_hold",
    "filters_complete",
    "filtered_recall",
    "updated_rows_found",
    "deleted_rows_gone",
)


def changing(subject: Subject, folder: Path, report: Report, rng: np.random.Generator) -> None:
    """All of `SCRATCH_CHECKS`, on a small store in `folder`, which is removed afterwards."""
    with report.check(*SCRATCH_CHECKS), _small(subject, folder) as small:
        _metric_and_floor(small, report)
        with report.check("filters_hold", "filters_complete", "filtered_recall"):
            _filters(small, report)
        with report.check("updated_rows_found"):
            _updates(small, report, rng)
        with report.check("deleted_rows_gone"):
            _deletes(small, report, rng)


@contextmanager
def _small(subject: Subject, folder: Path) -> Iterator[Subject]:
    """A store of the same kind and index, loaded with rows made to tell faults apart."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        store = subject.make(folder)
        try:
            yield _load_small(subject, store)
        finally:
            store.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _load_small(subject: Subject, store: Store) -> Subject:
    rng = np.random.default_rng(subject.seed + 1)
    kinds = {
        "bucket": FieldType.INT,
        "price": FieldType.FLOAT,
        "label": FieldType.STRING,
        "flag": FieldType.BOOL,
    }
    fields = tuple(Field(n, t) for n, t in kinds.items() if t in subject.can.field_types)
    schema = Schema(subject.schema.dim, subject.schema.metric, fields)
    vectors = _telling_vectors(ROWS + QUERIES, schema.dim, rng)
    ids = 7 + 3 * rng.permutation(ROWS).astype(np.int64)
    rows = Rows(ids, vectors[:ROWS], _metadata(fields, ROWS, rng))
    store.create(schema, subject.index)
    for start in range(0, ROWS, 500):
        store.insert(_batch(schema, rows, np.arange(start, start + 500)))
    store.flush()
    store.build()
    store.wait_indexed()
    queries = vectors[ROWS:]
    judge = _judge(rows, queries, schema.metric)
    return Subject(store, subject.make, schema, subject.index, rows, queries, judge, K)


def _judge(rows: Rows, queries: Vectors, metric: Metric) -> Judge:
    truth = exact_topk(rows.vectors, rows.ids, queries, metric, K)
    return Judge(K, truth.accept_offsets, truth.accept_ids, truth.available)


def _telling_vectors(count: int, dim: int, rng: np.random.Generator) -> Vectors:
    """Clusters of directions, with lengths that vary within a cluster, so that the neighbours
    under one metric are not those under another."""
    centres = rng.standard_normal((40, dim))
    directions = centres[rng.integers(0, 40, count)] + 0.35 * rng.standard_normal((count, dim))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    lengths = np.exp(rng.uniform(-0.5, 0.5, (count, 1)))
    return np.ascontiguousarray(directions * lengths, dtype=np.float32)


def _metadata(fields: tuple[Field, ...], count: int, rng: np.random.Generator) -> pa.Table | None:
    if not fields:
        return None
    values = {
        "bucket": pa.array(rng.integers(0, 20, count), pa.int64()),
        "price": pa.array(rng.standard_normal(count).round(3), pa.float64()),
        "label": pa.array([f"label {i % 7}" for i in rng.integers(0, 70, count)], pa.string()),
        "flag": pa.array(rng.random(count) < 0.3, pa.bool_()),
    }
    return pa.table({f.name: values[f.name] for f in fields})


def _batch(schema: Schema, rows: Rows, at: Ids) -> pa.RecordBatch:
    columns = {
        f.name: pa.concat_arrays(rows.metadata.column(f.name).take(at).chunks)
        for f in schema.fields
        if rows.metadata is not None
    }
    return batch_of(schema, rows.ids[at], rows.vectors[at], columns)


def _metric_and_floor(small: Subject, report: Report) -> None:
    answers = small.answer(small.queries)
    recalls = {metric: _mean_recall(small, answers, metric) for metric in Metric}
    asked = small.schema.metric
    best = max(recalls, key=lambda metric: recalls[metric])
    shown = ", ".join(f"{metric} {value:.3f}" for metric, value in recalls.items())
    report("metric_is_asked", best is asked, f"agreement of the answers with each metric: {shown}")
    floor = small.kind.recall_floor
    report(
        "recall_floor",
        recalls[asked] >= floor,
        f"{recalls[asked]:.4f} on clustered data at the generous setting, at least {floor:g}",
    )


def _mean_recall(small: Subject, answers: list[Answer], metric: Metric) -> float:
    judge = _judge(small.rows, small.queries, metric)
    return float(np.mean([judge.recall(i, ids) for i, (ids, _) in enumerate(answers)]))


def _filters(small: Subject, report: Report) -> None:
    """Each declared operator: every row returned holds it, and as many rows as there are."""
    probes = _probe_filters(small)
    if not probes:
        for name in ("filters_hold", "filters_complete", "filtered_recall"):
            report(name, None, "the store declares no filtered search")
        return
    assert small.rows.metadata is not None
    position = {int(id_): i for i, id_ in enumerate(small.rows.ids)}
    queries = small.queries[:10]
    broken: list[str] = []
    incomplete: list[str] = []
    right = inside = 0
    for where in probes:
        mask = filters.evaluate(where, small.rows.metadata)
        answers = small.answer(queries, where)
        outside = [
            id_ for ids, _ in answers for id_ in ids.tolist()
            if id_ not in position or not mask[position[id_]]
        ]  # fmt: skip
        if outside:
            broken.append(f"{filters.to_json(where)} returned {len(outside)} rows outside it")
        wanted = min(small.k, int(mask.sum()))
        got = float(np.mean([len(set(ids.tolist())) for ids, _ in answers]))
        if got < wanted:
            incomplete.append(f"{filters.to_json(where)} returned {got:.1f} of {wanted} rows")
        hits, held = _neighbours(small, mask, queries, answers)
        right, inside = right + hits, inside + held
    count = f"{len(probes)} filters"
    report("filters_hold", not broken, "; ".join(broken) or f"{count} hold on every row returned")
    report(
        "filters_complete", not incomplete, "; ".join(incomplete) or f"{count} return what exists"
    )
    share, floor = right / inside if inside else 1.0, small.kind.recall_floor
    report(
        "filtered_recall",
        share >= floor,
        f"{share:.4f} of {inside} rows that hold their filter are true neighbours under it, at"
        f" least {floor:g}",
    )


def _neighbours(
    small: Subject, mask: NDArray[np.bool_], queries: Vectors, answers: list[Answer]
) -> tuple[int, int]:
    """How many distinct rows of the answers are true neighbours among the rows of `mask`, and
    how many are in `mask` at all. Rows outside it and rows left out are for other checks."""
    rows = small.rows
    truth = exact_topk(rows.vectors, rows.ids, queries, small.schema.metric, small.k, mask=mask)
    right = inside = 0
    for i, (ids, _) in enumerate(answers):
        held = np.intersect1d(ids, rows.ids[mask])
        start, stop = truth.accept_offsets[i : i + 2]
        right += int(np.isin(held, truth.accept_ids[start:stop]).sum())
        inside += len(held)
    return right, inside


def _probe_filters(small: Subject) -> list[Filter]:
    """Filters of the operators and columns there are, from common to rare."""
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
    ]
    columns = {column.name for column in small.schema.fields}
    return [
        where
        for where in candidates
        if filters.operators(where) <= small.can.filters and filters.fields(where) <= columns
    ]


def _updates(small: Subject, report: Report, rng: np.random.Generator) -> None:
    """Move rows to where nothing was; they must be there and no longer where they were."""
    if not small.can.upsert:
        report("updated_rows_found", None, "the store has no upsert")
        return
    at = np.sort(rng.permutation(ROWS)[:20])
    places = _telling_vectors(len(at), small.schema.dim, rng)
    old = small.rows.vectors[at].copy()
    moved = Rows(small.rows.ids[at], -places, _taken(small.rows.metadata, at))
    small.store.upsert(_batch(small.schema, moved, np.arange(len(at))))
    lost, fault = _stale(small, at, moved, old)
    small.rows.vectors[at] = moved.vectors
    # A graph may lose sight of a row, updated or not: no more of them than its floor allows.
    if fault is None and len(lost) > (1 - small.kind.recall_floor) * len(at):
        fault = f"{len(lost)} of {len(at)} ids are not found at their new place: {lost[:5]}"
    if fault is None and small.store.count() != ROWS:
        fault = f"count is {small.store.count()} after updating rows of {ROWS}"
    if fault is None and small.can.get:
        fault = difference(small, at, small.store.get(small.rows.ids[at]))
    found = len(at) - len(lost)
    report("updated_rows_found", fault is None, fault or f"{found} of {len(at)} where they moved")


def _stale(small: Subject, at: Ids, moved: Rows, old: Vectors) -> tuple[list[int], str | None]:
    """Updated rows that a search misses at their new place; and one found at its old, if any."""
    after = small.rows.vectors.copy()
    after[at] = moved.vectors
    lost = []
    for place, here in ((moved.vectors, True), (old, False)):
        for id_, vector, (ids, _) in zip(
            moved.ids.tolist(), place, small.answer(place), strict=True
        ):
            near = distances(vector, after, small.schema.metric)
            own = near[np.flatnonzero(small.rows.ids == id_)[0]]
            rank = int((near < own).sum())
            if here and rank == 0 and id_ not in ids:
                lost.append(id_)
            if not here and rank > 4 * small.k and id_ in ids:
                return lost, f"id {id_} is still found at its old place"
    return lost, None


def _taken(metadata: pa.Table | None, at: Ids) -> pa.Table | None:
    return None if metadata is None else metadata.take(at)


def _deletes(small: Subject, report: Report, rng: np.random.Generator) -> None:
    if not small.can.delete:
        report("deleted_rows_gone", None, "the store has no delete")
        return
    at = np.sort(rng.permutation(ROWS)[:20])
    gone = small.rows.ids[at]
    small.store.delete(gone)
    fault = _undeleted(small, at)
    if fault is None:
        # What a flush or a background task brings back was never deleted.
        small.store.flush()
        small.store.wait_indexed()
        if (fault := _undeleted(small, at)) is not None:
            fault = f"after a flush, {fault}"
    report("deleted_rows_gone", fault is None, fault or f"{len(at)} rows gone")


def _undeleted(small: Subject, at: Ids) -> str | None:
    """Where the rows at positions `at`, which were deleted, still show; None if nowhere."""
    gone = small.rows.ids[at]
    for id_, (ids, _) in zip(gone.tolist(), small.answer(small.rows.vectors[at]), strict=True):
        if set(ids.tolist()) & set(gone.tolist()):
            return f"a search near id {id_} still returns deleted rows"
    if small.can.get and small.store.get(gone).num_rows:
        return "get still returns deleted rows"
    left = ROWS - len(at)
    if (count := small.store.count()) != left:
        return f"count is {count} after deleting, expected {left}"
    return None
