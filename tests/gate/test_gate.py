"""Break a store on purpose, one fault at a time: the gate must catch it and name it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from vectrial._engine import Judge
from vectrial.datasets.truth import exact_topk
from vectrial.distance import Metric
from vectrial.filters import Filter
from vectrial.gate import GateResult, Rows, Subject, run_gate
from vectrial.stores.arrow import batch_of
from vectrial.stores.base import (
    Capabilities,
    Field,
    FieldType,
    Index,
    NoParams,
    Params,
    Schema,
    Searcher,
)
from vectrial.stores.memory import MemoryStore

Ids = NDArray[np.int64]
N, DIM, K = 600, 12, 10
INDEX = Index(next(iter(MemoryStore.capabilities.indexes)), NoParams())


class WrongMetric(MemoryStore):
    """Answers by L2 whatever was asked for."""

    def create(self, schema: Schema, index: Index) -> None:
        super().create(replace(schema, metric=Metric.L2), index)


class IgnoredFilter(MemoryStore):
    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        return super().searcher(k, params, None)


class PostFilter(MemoryStore):
    """Filters the k nearest afterwards, as an index with a filter bolted on does."""

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        plain = super().searcher(k, params)
        kept = set(self.find(where, 10**9).tolist()) if where is not None else None

        def search(vector: NDArray[np.float32]) -> tuple[Ids, NDArray[np.float32]]:
            ids, scores = plain(vector)
            if kept is None:
                return ids, scores
            inside = np.array([int(i) in kept for i in ids], dtype=bool)
            return ids[inside], scores[inside]

        return search


class LostRows(MemoryStore):
    def insert(self, batch: pa.RecordBatch) -> None:
        super().insert(batch.slice(0, batch.num_rows - 1))


class StaleUpdate(MemoryStore):
    """Acknowledges an update and keeps the old vector for searches."""

    def upsert(self, batch: pa.RecordBatch) -> None:
        self.fresh = batch

    def get(self, ids: Ids) -> pa.Table:
        return super().get(ids)


class AppendingUpdate(MemoryStore):
    """Stores the new version beside the old one, under the old id."""

    doubles: ClassVar[int] = 10**9

    def upsert(self, batch: pa.RecordBatch) -> None:
        ids = batch.column("id").to_numpy() + self.doubles
        super().insert(batch.set_column(0, batch.schema.field("id"), pa.array(ids)))

    def count(self) -> int:
        return len(set((self._open.ids % self.doubles).tolist()))

    def get(self, ids: Ids) -> pa.Table:
        return super().get(ids)

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        plain = super().searcher(k, params, where)
        return lambda vector: ((found := plain(vector))[0] % self.doubles, found[1])


class ResurrectedDelete(MemoryStore):
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


class MissesUnderAFilter(MemoryStore):
    """Under a filter, full answers of which every other row is not among the nearest."""

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        if where is None:
            return super().searcher(k, params)
        plain = super().searcher(2 * k, params, where)

        def search(vector: NDArray[np.float32]) -> tuple[Ids, NDArray[np.float32]]:
            ids, scores = plain(vector)
            return (ids[::2], scores[::2]) if len(ids) == 2 * k else (ids[:k], scores[:k])

        return search


class RoundedMetadata(MemoryStore):
    """Floats that went through text of too few digits."""

    digits: ClassVar[int] = 12

    def get(self, ids: Ids) -> pa.Table:
        table = super().get(ids)
        for i, field in enumerate(table.schema):
            if field.type == pa.float64():
                values = [float(f"{v:.{self.digits}g}") for v in table.column(i).to_pylist()]
                table = table.set_column(i, field, pa.array(values, pa.float64()))
        return table


class LastBitOfMetadata(RoundedMetadata):
    digits: ClassVar[int] = 16


class _Answers(MemoryStore):
    """Base of faults in what a search returns."""

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        plain = super().searcher(k, params, where)
        return lambda vector: self.spoil(*plain(vector))

    def spoil(self, ids: Ids, scores: NDArray[np.float32]) -> tuple[Ids, NDArray[np.float32]]:
        raise NotImplementedError


class DuplicateIds(_Answers):
    def spoil(self, ids: Ids, scores: NDArray[np.float32]) -> tuple[Ids, NDArray[np.float32]]:
        return np.concatenate([ids[:1], ids[:-1]]), np.concatenate([scores[:1], scores[:-1]])


class WrongScores(_Answers):
    def spoil(self, ids: Ids, scores: NDArray[np.float32]) -> tuple[Ids, NDArray[np.float32]]:
        return ids, scores * np.float32(1.01)


class WorstFirst(_Answers):
    def spoil(self, ids: Ids, scores: NDArray[np.float32]) -> tuple[Ids, NDArray[np.float32]]:
        return ids[::-1].copy(), scores[::-1].copy()


class ShortAnswers(_Answers):
    def spoil(self, ids: Ids, scores: NDArray[np.float32]) -> tuple[Ids, NDArray[np.float32]]:
        return ids[:-2], scores[:-2]


class InventedIds(_Answers):
    def spoil(self, ids: Ids, scores: NDArray[np.float32]) -> tuple[Ids, NDArray[np.float32]]:
        return np.concatenate([ids[:-1], [987_654_321]]), scores


class WrongMetadata(MemoryStore):
    """Gives a row's metadata to its neighbour."""

    def insert(self, batch: pa.RecordBatch) -> None:
        turned = np.roll(np.arange(batch.num_rows), 1)
        for i, name in enumerate(batch.schema.names):
            if name not in ("id", "vector"):
                batch = batch.set_column(i, batch.schema.field(i), batch.column(i).take(turned))
        super().insert(batch)


class MissesTheNearest(MemoryStore):
    """An 'index' that looks at every other row only."""

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        plain = super().searcher(2 * k, params, where)
        return lambda vector: ((found := plain(vector))[0][::2], found[1][::2])


class Raises(MemoryStore):
    def count(self) -> int:
        raise RuntimeError("the disk is on fire")


def judge_store(kind: type[MemoryStore], metric: Metric, folder: Path) -> dict[str, GateResult]:
    rng = np.random.default_rng(5)
    vectors = (rng.normal(size=(N, DIM)) * np.exp(rng.normal(size=(N, 1)) / 2)).astype(np.float32)
    ids = 11 + 5 * rng.permutation(N).astype(np.int64)
    metadata = pa.table(
        {"size": pa.array(rng.integers(0, 9, N)), "weight": pa.array(rng.normal(size=N))}
    )
    queries = rng.normal(size=(20, DIM)).astype(np.float32)
    schema = Schema(DIM, metric, (Field("size", FieldType.INT), Field("weight", FieldType.FLOAT)))
    (folder / "big").mkdir()
    store = kind(folder / "big")
    store.create(schema, INDEX)
    columns = {name: metadata[name].combine_chunks() for name in metadata.column_names}
    store.insert(batch_of(schema, ids, vectors, columns))
    store.flush()
    store.build()
    truth = exact_topk(vectors, ids, queries, metric, K)
    subject = Subject(
        store, kind, schema, INDEX, Rows(ids, vectors, metadata), queries,
        Judge(K, truth.accept_offsets, truth.accept_ids, truth.available), K,
    )  # fmt: skip
    results = run_gate(subject, folder / "scratch")
    assert not (folder / "scratch").exists()
    store.close()
    return {result.check_name: result for result in results}


def failed(results: dict[str, GateResult]) -> set[str]:
    return {name for name, result in results.items() if result.passed is False}


@pytest.mark.parametrize("metric", list(Metric))
def test_a_correct_store_passes_every_check(metric: Metric, tmp_path: Path) -> None:
    results = judge_store(MemoryStore, metric, tmp_path)
    assert not failed(results), failed(results)
    assert len(results) == 15
    assert all(result.passed for result in results.values())


@pytest.mark.parametrize(
    ("kind", "metric", "caught"),
    [
        (WrongMetric, Metric.COSINE, "metric_is_asked"),
        (WrongMetric, Metric.IP, "metric_is_asked"),
        (IgnoredFilter, Metric.L2, "filters_hold"),
        (PostFilter, Metric.L2, "filters_complete"),
        (LostRows, Metric.L2, "row_count"),
        (StaleUpdate, Metric.L2, "updated_rows_found"),
        (AppendingUpdate, Metric.L2, "updated_rows_found"),
        (ResurrectedDelete, Metric.L2, "deleted_rows_gone"),
        (DuplicateIds, Metric.L2, "no_duplicate_ids"),
        (WrongScores, Metric.L2, "scores_agree"),
        (WrongScores, Metric.COSINE, "scores_agree"),
        (WrongScores, Metric.IP, "scores_agree"),
        (WorstFirst, Metric.IP, "best_first"),
        (ShortAnswers, Metric.L2, "answer_length"),
        (InventedIds, Metric.L2, "known_ids"),
        (WrongMetadata, Metric.L2, "ids_round_trip"),
        (MissesTheNearest, Metric.L2, "recall_floor"),
        (Raises, Metric.L2, "row_count"),
    ],
)
def test_each_fault_is_caught_and_named(
    kind: type[MemoryStore], metric: Metric, caught: str, tmp_path: Path
) -> None:
    results = judge_store(kind, metric, tmp_path)
    assert caught in failed(results)
    assert results[caught].detail


@pytest.mark.parametrize(
    ("kind", "only"),
    [
        (IgnoredFilter, {"filters_hold"}),
        (PostFilter, {"filters_complete"}),
        (StaleUpdate, {"updated_rows_found"}),
        (ResurrectedDelete, {"deleted_rows_gone"}),
        (DeleteUndone, {"deleted_rows_gone"}),
        (MissesUnderAFilter, {"filtered_recall"}),
        (RoundedMetadata, {"ids_round_trip"}),
        (LastBitOfMetadata, set()),
        (WrongScores, {"scores_agree"}),
        (WorstFirst, {"best_first"}),
    ],
)
def test_a_fault_is_not_blamed_on_what_is_right(
    kind: type[MemoryStore], only: set[str], tmp_path: Path
) -> None:
    assert failed(judge_store(kind, Metric.L2, tmp_path)) == only


def test_what_a_store_does_not_declare_is_not_held_against_it(tmp_path: Path) -> None:
    class Modest(MemoryStore):
        capabilities: ClassVar[Capabilities] = replace(
            MemoryStore.capabilities,
            filters=frozenset(),
            get=False,
            upsert=False,
            delete=False,
        )

    results = judge_store(Modest, Metric.L2, tmp_path)
    silent = {name for name, result in results.items() if result.passed is None}
    assert silent == {
        "ids_round_trip", "filters_hold", "filters_complete", "filtered_recall",
        "updated_rows_found", "deleted_rows_gone",
    }  # fmt: skip
    assert not failed(results)


def test_what_was_raised_is_in_the_detail(tmp_path: Path) -> None:
    results = judge_store(Raises, Metric.L2, tmp_path)
    assert "the disk is on fire" in results["row_count"].detail
