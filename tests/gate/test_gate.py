"""Break a store on purpose, one fault at a time: the gate must catch it and name it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import broken_stores as broken
import numpy as np
import pyarrow as pa
import pytest
from broken_stores import FIRST_ID
from numpy.typing import NDArray

from vectrial._engine import Judge
from vectrial.datasets.exact import exact_topk
from vectrial.gate import ExpectedRows, GateResult, Subject, check_loaded_rows, reading, run_gate
from vectrial.gate.checks import CHECKS
from vectrial.model.capabilities import Capabilities, Index, IndexKind, NoParams, Params
from vectrial.model.errors import UserError
from vectrial.model.existing import Attaching, Description
from vectrial.model.filters import Filter
from vectrial.model.metric import Metric
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.model.store import Hits, Searcher
from vectrial.stores.common.arrow import batch_of
from vectrial.stores.memory import MemoryStore

N, DIM, K = 600, 12, 10
INDEX = Index(next(iter(MemoryStore.capabilities.indexes)), NoParams())
FIELDS = (
    Field("size", FieldType.INT),
    Field("serial", FieldType.INT),
    Field("weight", FieldType.FLOAT),
    Field("colour", FieldType.STRING),
    Field("flag", FieldType.BOOL),
)


class Links(Params):
    """m: links of a node."""

    m: int = 8


def rows_of_a_user() -> ExpectedRows:
    """Vectors of all lengths; values as users have them: missing, quoted, larger than 32 bits."""
    rng = np.random.default_rng(5)
    vectors = rng.normal(size=(N, DIM)) * np.exp(rng.normal(size=(N, 1)) / 2)
    colours = [None if i % 7 == 0 else f"it's “{i % 40}” %_\\" for i in range(N)]
    metadata = pa.table(
        {
            "size": rng.integers(0, 9, N),
            "serial": 2**40 + rng.integers(0, 9, N),
            "weight": rng.normal(size=N),
            "colour": pa.array(colours, pa.string()),
            "flag": rng.random(N) < 0.5,
        }
    )
    ids = FIRST_ID + 3 * rng.permutation(N).astype(np.int64)
    return ExpectedRows(ids, vectors.astype(np.float32), metadata)


def judge_store(
    kind: type[MemoryStore],
    folder: Path,
    metric: Metric = Metric.L2,
    fields: tuple[Field, ...] = FIELDS,
    truth_among: NDArray[np.bool_] | None = None,
    nodes: tuple[int, ...] = (),
) -> dict[str, GateResult]:
    """The gate's results by check, for a store that was given `rows_of_a_user`. truth_among: the
    rows that the truth it is held to knows of; all, unless given. nodes: of a cluster, the rows
    that each has."""
    rows = rows_of_a_user()
    assert rows.metadata is not None
    queries = np.random.default_rng(6).normal(size=(20, DIM)).astype(np.float32)
    schema = Schema(DIM, metric, fields)
    rows = replace(rows, metadata=rows.metadata if fields else None)
    columns = {f.name: rows.metadata[f.name].combine_chunks() for f in fields if rows.metadata}
    (folder / "big").mkdir(parents=True)
    store = kind(folder / "big")
    store.create(schema, INDEX)
    store.insert(batch_of(schema, rows.ids, rows.vectors, columns))
    store.flush()
    store.build()
    truth = exact_topk(rows.vectors, rows.ids, queries, metric, K, mask=truth_among)
    judge = Judge(K, truth.accept_offsets, truth.accept_ids, truth.available)

    def node(count: int) -> MemoryStore:
        (folder / "node").mkdir(exist_ok=True)
        one = kind(folder / "node")
        one.create(schema, INDEX)
        some = {name: values[:count] for name, values in columns.items()}
        one.insert(batch_of(schema, rows.ids[:count], rows.vectors[:count], some))
        return one

    at_node = tuple(partial(node, count) for count in nodes)
    subject = Subject(store, kind, schema, INDEX, rows, queries, judge, K, at_node=at_node)
    results = run_gate(subject, folder / "scratch")
    assert not (folder / "scratch").exists()
    expected = sorted(CHECKS.keys() - {"index_is_asked"} - (set() if nodes else {"nodes_agree"}))
    assert sorted(result.name for result in results) == expected, "each once"
    store.close()
    return {result.name: result for result in results}


def failed(results: dict[str, GateResult]) -> dict[str, str]:
    return {name: result.detail for name, result in results.items() if result.passed is False}


@pytest.mark.parametrize("metric", list(Metric))
def test_a_correct_store_passes_every_check(metric: Metric, tmp_path: Path) -> None:
    results = judge_store(MemoryStore, tmp_path, metric)
    assert not failed(results)
    assert all(result.passed for result in results.values())


READ = {"updated_rows_found"}  # updated rows are read back too
#: Fault, the check that names it, what it says, and which checks cannot but fail as well.
ONE: list[tuple[type[MemoryStore], str, str, set[str]]] = [
    (broken.FloatsRounded, "ids_round_trip", "column 'weight'", set()),
    (broken.TextCut, "ids_round_trip", "column 'colour'", READ),
    (broken.VectorsInHalf, "ids_round_trip", "came back changed", READ),
    (broken.CompressedTooLong, "ids_round_trip", "came back changed", READ),
    (broken.FewerThanExist, "answer_length", "do not have 10 rows", set()),
    (broken.MoreThanAsked, "answer_length", "do not have 10 rows", set()),
    (broken.DuplicateIds, "no_duplicate_ids", "name a row twice", {"filters_complete"}),
    (broken.InventedIds, "known_ids", "987654321", {"scores_agree"}),
    (broken.WorstFirst, "best_first", "not best first", set()),
    (broken.ScoresOff, "scores_agree", "differ from the l2", set()),
    (broken.ScoresOfAnotherKind, "scores_agree", "differ from the l2", set()),
    (broken.ScoresNotNumbers, "scores_agree", "the worst is nan", set()),
    (broken.NeighboursMissed, "recall_floor", "0.5", {"recall"}),
    (broken.FilterIgnored, "filters_hold", "rows outside it; id", set()),
    (broken.IntegersOf32Bits, "filters_complete", '"serial"', set()),
    (broken.NullsMatchNot, "filters_hold", '"not"', set()),
    (broken.FilteredAfterwards, "filters_complete", "of 10 rows", set()),
    (broken.MoreThanAskedUnderFilters, "filters_complete", "12.0 of 10 rows", set()),
    (broken.NeighboursMissedUnderFilters, "filtered_recall", "0.5", set()),
    (broken.FindIgnoresCondition, "finds_hold", "rows outside it", set()),
    (broken.FindStopsEarly, "finds_hold", "found 100 of", set()),
    (broken.FindRepeats, "finds_hold", "found a row twice", set()),
    (broken.UpdateIgnored, "updated_rows_found", "still found at its old place", set()),
    (broken.UpdateNotIndexed, "updated_rows_found", "still found at its old place", set()),
    (broken.UpdateAppends, "updated_rows_found", "still found at its old place", set()),
    (broken.UpdateKeepsMetadata, "updated_rows_found", "column '", set()),
    (broken.UpdateLeavesOldRow, "updated_rows_found", "count is 2020 after updating", set()),
    (broken.DeleteIgnored, "deleted_rows_gone", "still returns deleted rows", set()),
    (broken.DeleteNotIndexed, "deleted_rows_gone", "still returns deleted rows", set()),
    (broken.DeleteUndone, "deleted_rows_gone", "after a flush", set()),
]
#: Faults that cannot but show in several places, the one that says what is wrong among them.
SEVERAL = [
    (broken.WrongMetric, Metric.COSINE, "metric_is_asked", "l2 1.000"),
    (broken.WrongMetric, Metric.IP, "metric_is_asked", "l2 1.000"),
    (broken.AlwaysCosine, Metric.L2, "metric_is_asked", "cosine 1.000"),
    (broken.MetadataOfNeighbours, Metric.L2, "ids_round_trip", "column '"),
    (broken.LostRows, Metric.L2, "row_count", "of 600 rows"),
    (broken.LostRowsCounted, Metric.L2, "ids_round_trip", "missing"),
    (broken.FewRowsLostCounted, Metric.L2, "all_rows_kept", "6 are missing"),
    (broken.FewRowsNotIndexed, Metric.L2, "rows_found_by_search", "of 600 rows drawn"),
    (broken.FewRowsNotIndexed, Metric.COSINE, "rows_found_by_search", "of 600 rows drawn"),
    (broken.IdsCutShort, Metric.L2, "known_ids", "a row never written"),
    (
        broken.AnswersRemembered,
        Metric.L2,
        "updated_rows_found",
        "still found at its old place",
    ),
    (broken.AnswersRemembered, Metric.L2, "deleted_rows_gone", "still returns deleted rows"),
    (broken.IdsOfNeighbours, Metric.L2, "scores_agree", "differ from the l2"),
    (broken.IdsOfNeighbours, Metric.COSINE, "scores_agree", "differ from the cosine"),
    (broken.ScoresOff, Metric.IP, "scores_agree", "differ from the inner_product"),
    (broken.ScoresOff, Metric.COSINE, "scores_agree", "differ from the cosine"),
    (broken.WorstFirst, Metric.IP, "best_first", "not best first"),
    (broken.UpdateNotIndexed, Metric.IP, "updated_rows_found", ""),
    (broken.DeleteNotIndexed, Metric.IP, "deleted_rows_gone", "still returns deleted rows"),
]


@pytest.mark.parametrize(("kind", "caught", "says", "also"), ONE)
def test_a_fault_is_caught_and_named_and_nothing_else_blamed(
    kind: type[MemoryStore], caught: str, says: str, also: set[str], tmp_path: Path
) -> None:
    found = failed(judge_store(kind, tmp_path))
    assert set(found) == {caught} | also, found
    assert says in found[caught]


@pytest.mark.parametrize(("kind", "metric", "caught", "says"), SEVERAL)
def test_a_fault_that_shows_in_several_places_is_named_too(
    kind: type[MemoryStore], metric: Metric, caught: str, says: str, tmp_path: Path
) -> None:
    found = failed(judge_store(kind, tmp_path, metric))
    assert says in found[caught]


def test_a_check_that_raises_is_no_wrong_answer(tmp_path: Path) -> None:
    """A full disk, or a client without room for another file, once made right stores wrong."""
    results = judge_store(broken.CountRaises, tmp_path)
    assert not failed(results)
    raised = {name: one.detail for name, one in results.items() if one.raised}
    assert raised.keys() == {"row_count", "updated_rows_found", "deleted_rows_gone"}
    assert "on fire" in raised["row_count"]
    assert all(results[name].passed is None for name in raised)


def test_the_last_bits_of_a_float_may_go(tmp_path: Path) -> None:
    assert not failed(judge_store(broken.LastBitOfFloats, tmp_path))


class OfProducts(MemoryStore):
    """Of rows that products of float32 do not tell apart it returns the farthest."""

    name = "of-products"
    capabilities = replace(MemoryStore.capabilities, l2_of_products=True)

    def searcher(self, k: int, params: Any, where: Filter | None = None) -> Searcher:
        found = super().searcher(3 * k, params, where)

        def search(vector: Any, /) -> Hits:
            ids, scores = found(vector)
            alike = int((scores <= scores[k - 1] + ALIKE).sum())
            return ids[max(0, alike - k) : alike][:k], scores[max(0, alike - k) : alike][:k]

        return search


class OfDifferences(OfProducts):
    """As the other one, which it does not declare."""

    capabilities = MemoryStore.capabilities


#: A distance between two copies of the same document.
ALIKE = 3e-4


@pytest.mark.parametrize(("kind", "passes"), [(OfProducts, True), (OfDifferences, False)])
def test_rows_that_products_do_not_tell_apart_count_as_one(
    kind: type[MemoryStore], passes: bool, tmp_path: Path
) -> None:
    rng = np.random.default_rng(2)
    base = np.repeat(rng.normal(size=(8, DIM)), 30, axis=0)
    rows = ExpectedRows(
        np.arange(240), (base + 1e-4 * rng.normal(size=base.shape)).astype(np.float32)
    )
    queries = rows.vectors[::20]
    schema = Schema(DIM, Metric.L2)
    store = kind(tmp_path)
    store.create(schema, INDEX)
    store.insert(batch_of(schema, rows.ids, rows.vectors, {}))
    truth = exact_topk(rows.vectors, rows.ids, queries, Metric.L2, K)
    judge = Judge(K, truth.accept_offsets, truth.accept_ids, truth.available)
    found = check_loaded_rows(Subject(store, kind, schema, INDEX, rows, queries, judge, K))
    recall = next(result for result in found if result.name == "recall")
    assert recall.passed is passes, recall.detail
    assert float(recall.detail.split()[0]) < 0.9


class LosesSight(MemoryStore):
    """As a graph that no way leads to row 17 of, which it keeps."""

    name = "loses-sight"
    capabilities = replace(
        MemoryStore.capabilities,
        indexes={INDEX.kind: IndexKind(recall_floor=0.9)},
    )

    def searcher(self, k: int, params: Any, where: Filter | None = None) -> Searcher:
        found = super().searcher(k + 1, params, where)

        def search(vector: Any, /) -> Hits:
            ids, scores = found(vector)
            seen = ids != 17
            return ids[seen][:k], scores[seen][:k]

        return search


class ExactAndBlind(LosesSight):
    """As the other one, which says that it reads every row."""

    capabilities = MemoryStore.capabilities


@pytest.mark.parametrize(("kind", "passes"), [(LosesSight, True), (ExactAndBlind, False)])
def test_a_graph_that_lost_a_row_cannot_answer_with_all(
    kind: type[MemoryStore], passes: bool, tmp_path: Path
) -> None:
    vectors = np.random.default_rng(3).normal(size=(60, DIM)).astype(np.float32)
    rows, schema = ExpectedRows(np.arange(60), vectors), Schema(DIM, Metric.L2)
    store = kind(tmp_path)
    store.create(schema, INDEX)
    store.insert(batch_of(schema, rows.ids, vectors, {}))
    truth = exact_topk(vectors, rows.ids, vectors[:9], Metric.L2, 60)
    judge = Judge(60, truth.accept_offsets, truth.accept_ids, truth.available)
    found = check_loaded_rows(Subject(store, kind, schema, INDEX, rows, vectors[:9], judge, 60))
    length = next(result for result in found if result.name == "answer_length")
    assert length.passed is passes, length.detail


def test_truth_of_another_question_is_found(tmp_path: Path) -> None:
    """Searches of all rows, held to the neighbours under a filter: a recall of 0.055 was published
    so."""
    among = np.arange(N) % 20 == 0
    assert failed(judge_store(MemoryStore, tmp_path, truth_among=among)).keys() == {"recall"}


def test_every_check_catches_something() -> None:
    caught = {fault[1] for fault in ONE} | {fault[2] for fault in SEVERAL}
    apart = {"recall", "nodes_agree", "index_is_asked"}  # see above and below
    assert caught | apart == set(CHECKS)


class Describing(MemoryStore):
    """Says what it has built."""

    name = "describing"
    capabilities = replace(
        MemoryStore.capabilities,
        indexes={"hnsw": IndexKind(Links)},
        default_index="hnsw",
        existing=Attaching(),
    )
    built: ClassVar[Mapping[str, Any]] = {}

    def describe_open(self) -> Description:
        if not self.built:
            raise UserError("of a kind that is not read")
        return Description("id", "v", 60, DIM, None, "hnsw", self.built, False)


@pytest.mark.parametrize(
    ("built", "passes", "says"),
    [
        ({"m": 8, "other": 1}, True, "the server says index hnsw, m 8"),
        ({"m": 16}, False, "the server says m 16, not 8"),
        ({}, None, "not read: of a kind"),
    ],
)
def test_the_index_that_was_built_is_the_one_that_was_asked_for(
    built: Mapping[str, int],
    passes: bool | None,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Describing, "built", built)
    vectors = np.random.default_rng(3).normal(size=(60, DIM)).astype(np.float32)
    rows, schema, index = (
        ExpectedRows(np.arange(60), vectors),
        Schema(DIM, Metric.L2),
        Index("hnsw", Links()),
    )
    store = Describing(tmp_path)
    store.create(schema, index)
    store.insert(batch_of(schema, rows.ids, vectors, {}))
    truth = exact_topk(vectors, rows.ids, vectors[:9], Metric.L2, K)
    judge = Judge(K, truth.accept_offsets, truth.accept_ids, truth.available)
    subject = Subject(store, Describing, schema, index, rows, vectors[:9], judge, K)
    found = {one.name: one for one in check_loaded_rows(subject)}["index_is_asked"]
    assert found.passed is passes
    assert says in found.detail
    own = check_loaded_rows(replace(subject, read_only=True))
    assert "index_is_asked" not in {one.name for one in own}, "nothing was asked for"


def test_what_a_store_does_not_declare_is_not_held_against_it(tmp_path: Path) -> None:
    class Modest(MemoryStore):
        capabilities: ClassVar[Capabilities] = replace(
            MemoryStore.capabilities,
            filters=frozenset(),
            find=frozenset(),
            get=False,
            upsert=False,
            delete=False,
        )

    results = judge_store(Modest, tmp_path)
    silent = {name: result.detail for name, result in results.items() if result.passed is None}
    assert silent == {
        "ids_round_trip": "the store has no get by id",
        "filters_hold": "the store declares no filtered search",
        "filters_complete": "the store declares no filtered search",
        "filtered_recall": "the store declares no filtered search",
        "finds_hold": "the store declares no find by condition",
        "updated_rows_found": "the store has no upsert",
        "deleted_rows_gone": "the store has no delete",
    }
    assert not failed(results)


def test_a_dataset_without_metadata_leaves_the_gates_own(tmp_path: Path) -> None:
    results = judge_store(MemoryStore, tmp_path, fields=())
    assert {name: r.detail for name, r in results.items() if not r.passed} == {}
    assert "on the loaded rows" not in results["filters_hold"].detail
    assert failed(judge_store(broken.FilterIgnored, tmp_path / "again", fields=())).keys() == {
        "filters_hold"
    }


def test_nodes_that_differ_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "AGREE_S", 0.0)
    agree = judge_store(MemoryStore, tmp_path / "one", nodes=(N, N))
    assert agree["nodes_agree"].detail == "2 nodes agree"
    differ = judge_store(MemoryStore, tmp_path / "two", nodes=(N, N // 2))
    assert set(failed(differ)) == {"nodes_agree"}
    assert f"node 2 counts {N // 2} of {N} rows" in differ["nodes_agree"].detail
    assert "of 50 rows read by id" in differ["nodes_agree"].detail


def test_a_node_may_have_the_last_rows_a_moment_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_AGAIN_S", 0.0)
    looks = list[int]()

    class Late(MemoryStore):
        """As a node that a quorum went without."""

        def refresh(self) -> None:
            looks.append(1)

        def count(self) -> int:
            return super().count() - (len(looks) == 1)

    assert not failed(judge_store(Late, tmp_path, nodes=(N,)))
    assert len(looks) > 1
