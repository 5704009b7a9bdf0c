"""Single operations, one at a time, each effect verified outside the clock: by reading the rows
back, and by searching for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from vectrial._engine import Judge
from vectrial.experiments.base import Experiment, Target, search_points
from vectrial.experiments.common.generated_columns import count_right_answers
from vectrial.experiments.common.visibility import Changes
from vectrial.gate.model import is_same_vector
from vectrial.model import filters
from vectrial.model.context import Context, search_params
from vectrial.model.dataset import Dataset
from vectrial.model.inputs import Count, PositiveSeconds, Samples
from vectrial.model.lane import Lane
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.phase import Phase, Role
from vectrial.model.refusals import indistinct_values
from vectrial.model.schema import FieldType
from vectrial.model.store import Hits
from vectrial.model.workload import ClosedLoop
from vectrial.stores.common.arrow import ids_of, vectors_of
from vectrial.workload import dispatch
from vectrial.workload.ingest import make_batch
from vectrial.workload.native import rows as native_rows
from vectrial.workload.python.operations import timed_operations
from vectrial.workload.readback import read_back

T = TypeVar("T")


@dataclass(frozen=True)
class TargetRows:
    """Rows that the operations write or name: ids, and where they are written vectors (n, d) and
    metadata of n rows."""

    ids: NDArray[np.int64]
    vectors: NDArray[np.float32] | None
    metadata: pa.Table | None

    def batch(self, context: Context, i: int) -> pa.RecordBatch:
        """A batch with row i alone."""
        assert self.vectors is not None, "only rows with vectors are written"
        metadata = None if self.metadata is None else self.metadata.slice(i, 1)
        return make_batch(context.schema, self.ids[i : i + 1], self.vectors[i : i + 1], metadata)


class Crud(Experiment):
    """Create, read, update, delete, find by condition and find by vector.

    samples: samples of each operation. max_s: an operation stops after this time, with a note.
    search: search parameters of find by vector (no lists).
    limit: most rows that find by condition asks for.

    Through the native lane the engine sends the operations. It asks for nothing without a vector,
    so that find by condition goes through the store's own client there too, and says so; find by
    vector asks every query once, and of a read it is known that the row came, not what is in it.
    """

    name: ClassVar[str] = "crud"
    title: ClassVar[str] = "Single operations"
    place: ClassVar[int] = 10
    report: ClassVar[str] = f"{__package__}.report"
    mutates: ClassVar[bool] = True
    uses_find: ClassVar[bool] = True
    axes: ClassVar[frozenset[str]] = frozenset({"search"})
    lanes: ClassVar[frozenset[Lane] | None] = frozenset(Lane)

    samples: Samples = 1000
    max_s: PositiveSeconds = 20.0
    limit: Count = 10
    search: dict[str, int | float | str | bool] = Field(default_factory=dict)

    def points(self, target: Target) -> list[OperatingPoint]:
        return search_points(target, self.search)

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        for phase in self._operations(context, point):
            phase.role = Role.OPERATION
            yield phase

    def _operations(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        can = context.store.capabilities.for_index(context.index.kind)
        rng = np.random.default_rng(context.seed)
        yield from self._find_by_vector(context, point)
        if can.get:
            yield from self._read(context, rng)
        else:
            yield _unsupported_phase("read", "get by id")
        yield from self._find_by_condition(context, rng)
        created = _new_rows(context.dataset, self.samples, rng)
        if not can.get:
            for name in ("create", "update", "delete"):
                yield _unsupported_phase(name, "get by id to verify with")
            return
        changes = Changes(context)
        if can.inserts_after_build:
            yield from self._create(context, created, changes)
        else:
            yield _unsupported_phase("create", "insert after the index is built")
            created = TargetRows(created.ids[:0], None, None)
        if can.upsert:
            yield from self._update(context, rng, changes)
        else:
            yield _unsupported_phase("update", "upsert")
        if can.delete:
            yield from self._delete(context, created, rng, changes)
        else:
            yield _unsupported_phase("delete", "delete")

    # Each step is reported when it ends; the time of reading back does not count.

    def _read(self, context: Context, rng: np.random.Generator) -> Iterator[Phase]:
        rows = rng.integers(0, context.dataset.rows, self.samples)
        wanted = context.dataset.ids[rows]
        if context.lane is Lane.NATIVE:
            phase, _ = self._send_operation(context, "read", "get", TargetRows(wanted, None, None))
            for name in ("verified", "ineffective"):
                phase.missing[name] = "a row that did not come is an error; its vector is not read"
            yield phase
            return
        phase, tables = self._time_operation(
            context, "read", lambda i: context.store.get(wanted[i : i + 1])
        )
        yield phase
        kind = context.store.capabilities.indexes[context.index.kind]
        right = sum(
            table is not None
            and ids_of(table).tolist() == [wanted[i]]
            and is_same_vector(
                vectors_of(table)[0], context.dataset.vectors[rows[i]], context.schema, kind
            )
            for i, table in enumerate(tables)
        )
        _record_verified(phase, right)

    def _create(self, context: Context, new: TargetRows, changes: Changes) -> Iterator[Phase]:
        before = context.store.count()
        phase, done = self._write(context, "create", new, "insert")
        yield phase
        _record_verified(phase, _count_present(context, new, done))
        _check_count(phase, context, before + done)
        assert new.vectors is not None
        changes.check_created(phase, new.ids[:done], new.vectors[:done])

    def _update(
        self, context: Context, rng: np.random.Generator, changes: Changes
    ) -> Iterator[Phase]:
        dataset = context.dataset
        rows = rng.permutation(dataset.rows)[: self.samples]
        moved = _new_rows(dataset, len(rows), rng)
        new = TargetRows(dataset.ids[rows], moved.vectors, moved.metadata)
        phase, done = self._write(context, "update", new, "upsert")
        yield phase
        _record_verified(phase, _count_present(context, new, done))
        assert new.vectors is not None
        changes.check_updated(phase, new.ids[:done], new.vectors[:done])

    def _write(
        self, context: Context, name: str, rows: TargetRows, operation: Literal["insert", "upsert"]
    ) -> tuple[Phase, int]:
        """Write rows one by one, in requests or batches that are made before the clock starts; also
        returns how many were sent."""
        if context.lane is Lane.NATIVE:
            return self._send_operation(context, name, operation, rows)
        write = context.store.insert if operation == "insert" else context.store.upsert
        batches = [rows.batch(context, i) for i in range(len(rows.ids))]
        phase, results = self._time_operation(
            context, name, lambda i: write(batches[i]), len(batches)
        )
        return phase, len(results)

    def _delete(
        self, context: Context, created: TargetRows, rng: np.random.Generator, changes: Changes
    ) -> Iterator[Phase]:
        ids = created.ids
        if len(ids) == 0:
            rows = rng.permutation(context.dataset.rows)[: self.samples]
            ids = context.dataset.ids[rows]
        # Creating may have ended early, and what is not there costs nothing to delete.
        ids = ids[np.isin(ids, context.store.get(ids).column("id").to_numpy())]
        before = context.store.count()
        if context.lane is Lane.NATIVE:
            phase, done = self._send_operation(
                context, "delete", "delete", TargetRows(ids, None, None)
            )
        else:
            phase, results = self._time_operation(
                context, "delete", lambda i: context.store.delete(ids[i : i + 1]), len(ids)
            )
            done = len(results)
        yield phase
        left = context.store.get(ids[:done]).num_rows
        _record_verified(phase, done - left)
        _check_count(phase, context, before - done)
        changes.check_deleted(phase, ids[:done])

    def _find_by_condition(self, context: Context, rng: np.random.Generator) -> Iterator[Phase]:
        chosen = _conditions(context, self.samples, rng)
        if isinstance(chosen, str):
            yield _unsupported_phase("find_by_condition", chosen)
            return
        phase, answers = self._time_operation(
            context, "find_by_condition", lambda i: context.store.find(chosen[i], self.limit)
        )
        phase.params = {**phase.params, "limit": self.limit, "column": chosen[0].field}
        if context.lane is Lane.NATIVE:
            said = "by the store's own client: the engine asks for nothing without a vector"
            phase.reason = "; ".join(filter(None, (said, phase.reason)))
        yield phase
        held = context.dataset
        assert held.metadata is not None
        _record_verified(
            phase, count_right_answers(held.ids, held.metadata, chosen, answers, self.limit)
        )

    def _find_by_vector(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        if context.lane is Lane.NATIVE:
            load = ClosedLoop(1, min_s=0.0, max_s=self.max_s)
            phase = dispatch.search(context, point, load, warmup_queries=0, name="find_by_vector")
            yield _judge(phase)
            return
        queries = context.dataset.queries
        truth = context.truth(context.k, None)
        judge = Judge(truth.k, truth.accept_offsets, truth.accept_ids, truth.available)
        search = context.store.searcher(context.k, search_params(context, point))

        def hits(i: int) -> Hits:
            ids, scores = search(queries[i % len(queries)])
            return ids, scores

        phase, answers = self._time_operation(context, "find_by_vector", hits)
        phase.params = {**phase.params, "k": context.k, **point}
        yield _judge(phase)
        given = [(i % len(queries), found[0]) for i, found in enumerate(answers) if found]
        if given:
            recalls = [judge.recall(query, ids) for query, ids in given]
            phase.metrics |= {"recall_mean": float(np.mean(recalls)), "recall_min": min(recalls)}
            phase.metrics["recall_p05"] = float(np.quantile(recalls, 0.05))
            for name in ("recall_mean", "recall_min", "recall_p05"):
                phase.missing.pop(name, None)

    def _send_operation(
        self, context: Context, name: str, operation: str, rows: TargetRows
    ) -> tuple[Phase, int]:
        """Send an operation for each row through the engine; also returns how many were sent."""
        native = context.store.native_rows()
        fields = [field.name for field in context.schema.fields]
        phase, done = native_rows.one_by_one(
            native,
            operation,
            rows.ids,
            rows.vectors,
            native_rows.columns_of(rows.metadata, native.columns, fields),
            name=name,
            certificate=context.certificate,
            max_s=self.max_s,
            progress=context.progress,
        )
        return self._with_few_samples(phase, done, len(rows.ids)), done

    def _with_few_samples(self, phase: Phase, done: int, samples: int) -> Phase:
        if phase.valid and done < samples:
            phase.reason = f"stopped after {self.max_s:g} s with {done} of {samples} samples"
        return phase

    def _time_operation(
        self, context: Context, name: str, act: Callable[[int], T], samples: int | None = None
    ) -> tuple[Phase, list[T | None]]:
        samples = self.samples if samples is None else samples
        phase, results = timed_operations(
            name, act, samples, max_s=self.max_s, progress=context.progress
        )
        return self._with_few_samples(phase, len(results), samples), results

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Time of six operations, at about a millisecond each."""
        return 0.5 + 6 * min(self.max_s, self.samples * 1e-3)


def _judge(phase: Phase) -> Phase:
    for name in ("verified", "ineffective"):
        phase.missing[name] = "changes nothing: its answers are judged by their recall"
    return phase


def _record_verified(phase: Phase, right: int) -> None:
    """Record how many of the acknowledged operations had their effect."""
    done = int(phase.metrics["count"] or 0)
    lost = max(0, done - right)
    phase.metrics |= {"verified": float(done), "ineffective": float(lost)}
    if lost and phase.valid:
        phase.valid = False
        phase.reason = f"{lost} of {done} were acknowledged without their effect"


def _check_count(phase: Phase, context: Context, expected: int) -> None:
    """Mark the phase invalid if the store's own count differs from the acknowledged rows."""
    count = context.store.count()
    if count != expected and phase.valid:
        phase.valid = False
        phase.reason = f"the store counts {count} rows afterwards, expected {expected}"


def _unsupported_phase(name: str, what: str) -> Phase:
    now = perf_counter_ns()
    phase = Phase(name, now, now)
    phase.missing["latency_p50"] = f"unsupported: {what}"
    return phase


def _new_rows(dataset: Dataset, count: int, rng: np.random.Generator) -> TargetRows:
    """Rows like the dataset's: its vectors with 5 % of their own spread as noise, ids above all
    others, metadata of the original rows."""
    rows = rng.integers(0, dataset.rows, count)
    base = np.asarray(dataset.vectors[rows], dtype=np.float32)
    noise = rng.standard_normal(base.shape, dtype=np.float32) * (0.05 * base.std())
    ids = np.arange(count, dtype=np.int64) + int(dataset.ids.max()) + 1
    metadata = None if dataset.metadata is None else dataset.metadata.take(rows)
    return TargetRows(ids, base + noise, metadata)


def _count_present(context: Context, rows: TargetRows, done: int) -> int:
    """Number of rows among the first `done` that read back as they were written."""
    assert rows.vectors is not None
    what = rows.ids[:done], rows.vectors[:done]
    return read_back(context.store, context.schema, context.index, *what)


def _conditions(context: Context, samples: int, rng: np.random.Generator) -> list[filters.Eq] | str:
    """Equality conditions on the most selective column, or the reason why there are none."""
    metadata = context.dataset.metadata
    can = context.store.capabilities.for_index(context.index.kind)
    if "eq" not in can.find:
        return "find by condition"
    if metadata is None or metadata.num_columns == 0:
        return "the dataset has no metadata"
    distinct = {
        field.name: len(metadata.column(field.name).unique())
        for field in context.schema.fields
        if field.type is not FieldType.FLOAT and not indistinct_values(can, field)
    }
    if not distinct:
        return "the dataset has no column to compare for equality"
    column = max(distinct, key=lambda name: distinct[name])
    values = metadata.column(column).drop_null().to_pylist()
    return [filters.Eq(column, values[i]) for i in rng.integers(0, len(values), samples)]
