"""Stores with one fault each, as real ones have them. `MemoryStore` is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.model.capabilities import Index, Params
from vectrial.model.filters import And, Eq, Filter, In, IsNull, Not, Or
from vectrial.model.metric import Metric
from vectrial.model.schema import Schema
from vectrial.model.store import Searcher
from vectrial.stores.common.arrow import ids_of
from vectrial.stores.memory import MemoryStore

Ids = NDArray[np.int64]
Scores = NDArray[np.float32]
#: Ids of the loaded rows are from here on; those of the gate's own small store lie below.
FIRST_ID = 1_000_000


# -- what is kept ----------------------------------------------------------------------------


class LostRows(MemoryStore):
    """Every tenth of the loaded rows never arrives."""

    def insert(self, batch: pa.RecordBatch) -> None:
        ids = ids_of(batch)
        super().insert(batch.filter(pa.array((ids < FIRST_ID) | (ids % 10 != 0))))


class LostRowsCounted(LostRows):
    """Every tenth of the loaded rows never arrives, and is counted."""

    missing = 0

    def insert(self, batch: pa.RecordBatch) -> None:
        before = super().count()
        super().insert(batch)
        self.missing += before + batch.num_rows - super().count()

    def count(self) -> int:
        return super().count() + self.missing


class FewRowsLostCounted(LostRowsCounted):
    """One of a hundred loaded rows never arrives, and is counted."""

    def insert(self, batch: pa.RecordBatch) -> None:
        ids = ids_of(batch)
        kept = batch.filter(pa.array((ids < FIRST_ID) | (ids % 100 != 0)))
        self.missing += batch.num_rows - kept.num_rows
        MemoryStore.insert(self, kept)


class FewRowsNotIndexed(MemoryStore):
    """One of a hundred loaded rows is there, and no search finds it."""

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        plain = super().searcher(k + 5, params, where)

        def blind(vector: NDArray[np.float32], /) -> tuple[Ids, Scores]:
            ids, scores = plain(vector)
            seen = (ids < FIRST_ID) | (ids % 100 != 0)
            return ids[seen][:k], scores[seen][:k]

        return blind


class MetadataOfNeighbours(MemoryStore):
    """Gives a row's metadata to the next one."""

    def insert(self, batch: pa.RecordBatch) -> None:
        turned = np.roll(np.arange(batch.num_rows), 1)
        for i, name in enumerate(batch.schema.names):
            if name not in ("id", "vector"):
                batch = batch.set_column(i, batch.schema.field(i), batch.column(i).take(turned))
        super().insert(batch)


class TextCut(MemoryStore):
    """Text comes back cut after three characters."""

    def get(self, ids: Ids) -> pa.Table:
        table = super().get(ids)
        for i, field in enumerate(table.schema):
            if field.type == pa.string():
                cut = [v and v[:3] for v in table.column(i).to_pylist()]
                table = table.set_column(i, field, pa.array(cut, pa.string()))
        return table


class FloatsRounded(MemoryStore):
    """Floats went through text of too few digits."""

    digits: ClassVar[int] = 12

    def get(self, ids: Ids) -> pa.Table:
        table = super().get(ids)
        for i, field in enumerate(table.schema):
            if field.type == pa.float64():
                values = [float(f"{v:.{self.digits}g}") for v in table.column(i).to_pylist()]
                table = table.set_column(i, field, pa.array(values, pa.float64()))
        return table


class LastBitOfFloats(FloatsRounded):
    """No fault: the last bits may go."""

    digits: ClassVar[int] = 16


class VectorsInHalf(MemoryStore):
    """Vectors come back as float16 kept them."""

    def get(self, ids: Ids) -> pa.Table:
        table = super().get(ids)
        flat = table.column("vector").combine_chunks().flatten().to_numpy()
        field = table.schema.field("vector")
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(self.read(flat)), type=field.type)
        return table.set_column(1, field, vectors)

    def read(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        return vectors.astype(np.float16).astype(np.float32)


class CompressedTooLong(VectorsInHalf):
    """Vectors come back longer than what compression may cost of their length when written."""

    capabilities = replace(
        MemoryStore.capabilities,
        indexes={
            name: replace(kind, exact_scores=False)
            for name, kind in MemoryStore.capabilities.indexes.items()
        },
    )

    def read(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        return vectors * np.float32(1.6)


# -- what a search returns -------------------------------------------------------------------


class WrongMetric(MemoryStore):
    """Answers by L2 whatever was asked for."""

    metric: ClassVar[Metric] = Metric.L2

    def create(self, schema: Schema, index: Index) -> None:
        super().create(replace(schema, metric=self.metric), index)


class AlwaysCosine(WrongMetric):
    """Answers by cosine whatever was asked for."""

    metric: ClassVar[Metric] = Metric.COSINE


class Answering(MemoryStore):
    """Base of faults in what a search returns; `where` is its filter."""

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        search = super().searcher(k, params, where)

        def spoilt(vector: NDArray[np.float32], /) -> tuple[Ids, Scores]:
            ids, scores = search(vector)
            return self.spoil(ids.copy(), scores.copy(), where)

        return spoilt

    def spoil(self, ids: Ids, scores: Scores, where: Filter | None) -> tuple[Ids, Scores]:
        raise NotImplementedError


class DuplicateIds(Answering):
    def spoil(self, ids: Ids, scores: Scores, where: Filter | None) -> tuple[Ids, Scores]:
        ids[1:2], scores[1:2] = ids[:1], scores[:1]
        return ids, scores


class InventedIds(Answering):
    def spoil(self, ids: Ids, scores: Scores, where: Filter | None) -> tuple[Ids, Scores]:
        if where is None:
            ids[-1:] = 987_654_321
        return ids, scores


class FewerThanExist(Answering):
    def spoil(self, ids: Ids, scores: Scores, where: Filter | None) -> tuple[Ids, Scores]:
        return (ids, scores) if where else (ids[:-1], scores[:-1])


class WorstFirst(Answering):
    def spoil(self, ids: Ids, scores: Scores, where: Filter | None) -> tuple[Ids, Scores]:
        return ids[::-1].copy(), scores[::-1].copy()


class ScoresOff(Answering):
    """Scores are off by a thousandth."""

    def spoil(self, ids: Ids, scores: Scores, where: Filter | None) -> tuple[Ids, Scores]:
        return ids, scores * np.float32(1.001)


class ScoresOfAnotherKind(Answering):
    """Squared distances where distances are declared."""

    def spoil(self, ids: Ids, scores: Scores, where: Filter | None) -> tuple[Ids, Scores]:
        return ids, np.square(scores)


class ScoresNotNumbers(Answering):
    def spoil(self, ids: Ids, scores: Scores, where: Filter | None) -> tuple[Ids, Scores]:
        scores[-1:] = np.nan
        return ids, scores


class MoreThanAsked(MemoryStore):
    """Two rows more than k."""

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        return super().searcher(k + (2 if where is None else 0), params, where)


class IdsOfNeighbours(MemoryStore):
    """Off by one: the ids of the rows that stand next to the right ones."""

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        search = super().searcher(k, params, where)
        every = np.sort(self._open.ids)

        def shifted(vector: NDArray[np.float32], /) -> tuple[Ids, Scores]:
            ids, scores = search(vector)
            return every[(np.searchsorted(every, ids) + 1) % len(every)], scores

        return shifted


def every_other(search: Searcher, k: int) -> Searcher:
    """Of the 2k nearest every other one, where there are so many."""

    def half(vector: NDArray[np.float32], /) -> tuple[Ids, Scores]:
        ids, scores = search(vector)
        return (ids[::2], scores[::2]) if len(ids) == 2 * k else (ids[:k], scores[:k])

    return half


class NeighboursMissed(MemoryStore):
    """Every other neighbour is missed, though not under a filter."""

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        if where is not None:
            return super().searcher(k, params, where)
        return every_other(super().searcher(2 * k, params), k)


class IdsCutShort(Answering):
    """Ids lose their upper bits."""

    def spoil(self, ids: Ids, scores: Scores, where: Filter | None) -> tuple[Ids, Scores]:
        return ids % 2**16, scores


class AnswersRemembered(MemoryStore):
    """Whoever asks again is told what was true the first time."""

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        self.told: dict[tuple[object, ...], tuple[Ids, Scores]] = {}

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        search = super().searcher(k, params, where)

        def remembered(vector: NDArray[np.float32], /) -> tuple[Ids, Scores]:
            asked = (vector.tobytes(), k, repr(where))
            if asked not in self.told:
                self.told[asked] = search(vector)
            return self.told[asked]

        return remembered


# -- filters and conditions ------------------------------------------------------------------


class FilterIgnored(MemoryStore):
    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        return super().searcher(k, params)


class FilteredAfterwards(MemoryStore):
    """Only those of the k nearest that hold the filter."""

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        plain = super().searcher(k, params)
        kept = None if where is None else MemoryStore.find(self, where, 10**9)

        def after(vector: NDArray[np.float32], /) -> tuple[Ids, Scores]:
            ids, scores = plain(vector)
            inside = np.isin(ids, kept) if kept is not None else np.ones(len(ids), bool)
            return ids[inside], scores[inside]

        return after


class NeighboursMissedUnderFilters(MemoryStore):
    """Under a filter every other neighbour is missed, and a farther one given instead."""

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        if where is None:
            return super().searcher(k, params)
        return every_other(super().searcher(2 * k, params, where), k)


class MoreThanAskedUnderFilters(MemoryStore):
    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        return super().searcher(k + (2 if where is not None else 0), params, where)


def rewritten(where: Filter, change: Callable[[Eq | In], Filter]) -> Filter:
    """`where` with every Eq and In replaced."""
    match where:
        case And(parts) | Or(parts):
            return type(where)(tuple(rewritten(part, change) for part in parts))
        case Not(part):
            return Not(rewritten(part, change))
        case Eq() | In():
            return change(where)
        case _:
            return where


def in_32_bits(where: Eq | In) -> Filter:
    """The condition with integers cut to their lower 32 bits."""
    values = where.values if isinstance(where, In) else (where.value,)
    cut = tuple(v % 2**32 if type(v) is int else v for v in values)
    return In(where.field, cut) if isinstance(where, In) else Eq(where.field, cut[0])


class IntegersOf32Bits(MemoryStore):
    """Filters lose the upper half of integers: only large values of the user's own tell."""

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        return super().searcher(k, params, where and rewritten(where, in_32_bits))


class NullsMatchNot(MemoryStore):
    """`not (x = 1)` keeps rows that have no x, as where a missing value counts as false."""

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        if isinstance(where, Not) and isinstance(where.part, Eq):
            where = Or((where, IsNull(where.part.field)))
        return super().searcher(k, params, where)


class FindIgnoresCondition(MemoryStore):
    def find(self, where: Filter, limit: int) -> Ids:
        return self._open.ids[:limit]


class FindStopsEarly(MemoryStore):
    """Gives a page of a hundred and keeps the rest to itself."""

    def find(self, where: Filter, limit: int) -> Ids:
        return super().find(where, min(limit, 100))


class FindRepeats(MemoryStore):
    def find(self, where: Filter, limit: int) -> Ids:
        found = super().find(where, limit)
        found[1:2] = found[:1]
        return found


# -- updates and deletes ---------------------------------------------------------------------


class UpdateIgnored(MemoryStore):
    """Acknowledges an update and does nothing."""

    def upsert(self, batch: pa.RecordBatch) -> None:
        pass


class Behind(MemoryStore):
    """Base of stores whose rows are right, while the index that searches see lags."""

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        self.index = MemoryStore(location)

    def create(self, schema: Schema, index: Index) -> None:
        super().create(schema, index)
        self.index.create(schema, index)

    def insert(self, batch: pa.RecordBatch) -> None:
        super().insert(batch)
        self.index.insert(batch)

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        return self.index.searcher(k, params, where)


class UpdateNotIndexed(Behind):
    def delete(self, ids: Ids) -> None:
        super().delete(ids)
        self.index.delete(ids)


class DeleteNotIndexed(Behind):
    def upsert(self, batch: pa.RecordBatch) -> None:
        super().upsert(batch)
        self.index.upsert(batch)


class UpdateKeepsMetadata(MemoryStore):
    """The vector is new, the metadata old."""

    def upsert(self, batch: pa.RecordBatch) -> None:
        old = self.get(ids_of(batch)).sort_by("id").combine_chunks().to_batches()[0]
        new = batch.take(pa.array(np.argsort(ids_of(batch))))
        at = old.schema.get_field_index("vector")
        super().upsert(old.set_column(at, old.schema.field(at), new.column(at)))


class UpdateLeavesOldRow(MemoryStore):
    """The old row stays, under another id."""

    def upsert(self, batch: pa.RecordBatch) -> None:
        old = self.get(ids_of(batch)).combine_chunks().to_batches()[0]
        renamed = pa.array(ids_of(old) + 50_000_000)
        super().upsert(batch)
        super().insert(old.set_column(0, old.schema.field("id"), renamed))


class UpdateAppends(MemoryStore):
    """The new version stands beside the old one, both under the old id."""

    doubles: ClassVar[int] = 10**9
    appended = 0

    def upsert(self, batch: pa.RecordBatch) -> None:
        self.appended += batch.num_rows
        ids = batch.column("id").to_numpy() + self.doubles
        super().insert(batch.set_column(0, batch.schema.field("id"), pa.array(ids)))

    def count(self) -> int:
        return super().count() - self.appended

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        plain = super().searcher(k, params, where)
        return lambda vector: ((found := plain(vector))[0] % self.doubles, found[1])


class DeleteIgnored(MemoryStore):
    def delete(self, ids: Ids) -> None:
        pass


class DeleteUndone(MemoryStore):
    """Deleted rows come back with the next flush."""

    gone: pa.Table | None = None

    def delete(self, ids: Ids) -> None:
        self.gone = self.get(ids)
        super().delete(ids)

    def flush(self) -> None:
        if self.gone is not None:
            super().insert(self.gone.combine_chunks().to_batches()[0])
            self.gone = None


# -- and one that breaks ---------------------------------------------------------------------


class CountRaises(MemoryStore):
    def count(self) -> int:
        raise RuntimeError("the disk is on fire")
