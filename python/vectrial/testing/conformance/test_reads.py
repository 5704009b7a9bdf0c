"""Questions to a loaded store, against brute force and the filter algebra's own meaning."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from vectrial.gate.row_search import allowed_misses
from vectrial.model.filters import Filter, operators
from vectrial.model.metric import LARGER_IS_CLOSER, Metric, distances, score_from_distance
from vectrial.model.store import Hits, Searcher, Store
from vectrial.testing.conformance.cases import (
    bare_too,
    conditions,
    each_index,
    each_metric,
    filtered_search,
    needs,
)
from vectrial.testing.conformance.world import (
    DIM,
    FILTERS,
    ROWS,
    Case,
    K,
    World,
    as_rows,
    queries,
)


def check_answer(case: Case, world: World, query: NDArray[np.float32], answer: Hits) -> None:
    """Check types, order, no duplicates, only existing rows, and scores against distances."""
    ids, scores = answer
    assert ids.dtype == np.int64
    assert scores.dtype == np.float32
    assert ids.shape == scores.shape
    assert ids.ndim == 1
    assert len(set(ids.tolist())) == len(ids)
    kind = case.capabilities.scores[case.metric]
    slack = 1e-4 * np.abs(scores).max(initial=1.0)
    steps = np.diff(-scores if kind in LARGER_IS_CLOSER else scores)
    assert (steps >= -slack).all(), f"not sorted: {scores}"
    place = {row: at for at, row in enumerate(world.ids.tolist())}
    assert set(ids.tolist()) <= set(place), "ids that are not there"
    if case.kind.exact_scores and len(ids):
        true = distances(query, world.vectors[[place[i] for i in ids.tolist()]], case.metric)
        expected = score_from_distance(kind, true)
        np.testing.assert_allclose(scores, expected, rtol=2e-4, atol=2e-4 * np.abs(expected).max())


def recall(
    case: Case, world: World, search: Searcher, k: int, where: Filter | None = None
) -> float:
    """Mean tie-aware recall over 20 queries or more, 6 under a filter; every answer is checked.

    An index that estimates scores cannot tell the nearest row from the next. Its floor is one of
    recall@K: if fewer rows than K match, it need only find some of the K nearest.
    """
    recalls = []
    kept = set(world.ids[world.matching(where)].tolist())
    judged_k = k if case.kind.exact_scores else max(k, K)
    for query in queries(count=max(20, 200 // k) if where is None else 6):
        answer = search(query)
        check_answer(case, world, query, answer)
        found = set(answer[0].tolist())
        assert found <= kept, "rows that the filter leaves out"
        assert len(found) <= k
        accepted = world.accepted(query, judged_k, where)
        available = min(k, len(kept))
        recalls.append(len(found & accepted) / available if available else 1.0)
    return round(float(np.mean(recalls)), 9)  # 42 of 60 are 0.7


def floor(case: Case, where: Filter | None = None) -> float:
    kind = case.kind
    return 1.0 if kind.exact else kind.floor(case.metric, filtered=where is not None)


@each_index
def test_version_and_footprint(loaded: Store) -> None:
    assert loaded.version().strip()
    footprint = loaded.footprint()
    for size in (footprint.raw_bytes, footprint.index_bytes, footprint.log_bytes):
        assert size is None or size >= 0


def test_count(loaded: Store) -> None:
    assert loaded.count() == ROWS


@pytest.mark.parametrize("k", [1, K, 100])
@each_metric
@bare_too
def test_search_is_right(case: Case, loaded: Store, world: World, k: int) -> None:
    search = loaded.searcher(k, case.high_recall)
    assert recall(case, world, search, k) >= floor(case)
    assert len(search(queries()[0])[0]) == k


@each_metric
def test_a_row_finds_itself(case: Case, loaded: Store, world: World) -> None:
    search = loaded.searcher(1 if case.kind.exact_scores else K, case.high_recall)
    hits = 0
    for at in range(0, ROWS, 100):
        nearest = set(search(world.vectors[at])[0].tolist())
        hits += bool(nearest & world.accepted(world.vectors[at], 1, None))
    assert 20 - hits <= allowed_misses(20, floor(case)), "a graph loses a few by chance"


@each_index
def test_default_parameters_search(case: Case, loaded: Store, world: World) -> None:
    answer = loaded.searcher(K, case.kind.search())(queries()[0])
    check_answer(case, world, queries()[0], answer)
    assert 0 < len(answer[0]) <= K


@each_index
def test_an_answer_is_not_overwritten_by_the_next(case: Case, loaded: Store) -> None:
    search = loaded.searcher(K, case.high_recall)
    first = search(queries()[0])
    kept = first[0].copy(), first[1].copy()
    search(queries()[1])
    np.testing.assert_array_equal(first[0], kept[0])
    np.testing.assert_array_equal(first[1], kept[1])


@each_index
def test_searchers_do_not_disturb_each_other(case: Case, loaded: Store) -> None:
    one, ten = loaded.searcher(1, case.kind.search()), loaded.searcher(K, case.high_recall)
    expected = ten(queries()[0])[0]
    one(queries()[0])
    np.testing.assert_array_equal(ten(queries()[0])[0], expected)


@each_metric
@needs(filtered_search)
def test_filtered_search(case: Case, loaded: Store, world: World) -> None:
    for label, where in case.filters(case.capabilities.filters).items():
        search = loaded.searcher(K, case.high_recall, where)
        got = recall(case, world, search, K, where)
        assert got >= floor(case, where), f"{label}: recall {got}"


@needs("find")
def test_find(case: Case, loaded: Store, world: World) -> None:
    for number, (label, where) in enumerate(case.filters(case.capabilities.find).items()):
        expected = set(world.ids[world.matching(where)].tolist())
        found = loaded.find(where, ROWS)
        assert found.dtype == np.int64
        assert len(found) == len(expected), label
        assert set(found.tolist()) == expected, label
        if number % 4:
            continue
        some = loaded.find(where, 3)
        assert len(some) == min(3, len(expected)), label
        assert set(some.tolist()) <= expected, label


@each_index
@needs(conditions)
def test_every_declared_operator_was_tried(case: Case) -> None:
    can = case.capabilities
    for declared in (can.filters, can.find):
        used = frozenset().union(*map(operators, case.filters(declared).values()), frozenset())
        assert used == declared
    assert len(FILTERS) > 30


def same_vectors(case: Case, stored: NDArray[np.float32], written: NDArray[np.float32]) -> bool:
    if case.metric is Metric.COSINE:  # may be kept normalised
        stored = stored / np.linalg.norm(stored, axis=1, keepdims=True)
        written = written / np.linalg.norm(written, axis=1, keepdims=True)
    return np.allclose(stored, written, rtol=1e-5, atol=1e-5)


def check_rows(case: Case, table: pa.Table, world: World, ids: NDArray[np.int64]) -> None:
    """Check that `table` holds exactly the rows of these ids, each once, as they are in `world`."""
    assert table.schema.equals(case.schema.arrow())
    got = table.column("id").to_numpy()
    assert sorted(got.tolist()) == sorted(ids.tolist())
    place = {row: at for at, row in enumerate(world.ids.tolist())}
    at = np.array([place[i] for i in got.tolist()], dtype=np.int64)
    vectors = np.array(table.column("vector").to_pylist(), np.float32).reshape(-1, DIM)
    if case.kind.exact_scores:
        assert same_vectors(case, vectors, world.vectors[at])
    expected = (
        {
            int(world.ids[i]): row
            for i, row in zip(at, world.metadata.take(at).to_pylist(), strict=True)
        }
        if case.schema.fields
        else {int(i): {} for i in got}
    )
    assert as_rows(table, case.schema) == expected


@each_index
@needs("get")
@bare_too
def test_get(case: Case, loaded: Store, world: World) -> None:
    wanted = world.ids[[5, 0, 1_999]]
    check_rows(case, loaded.get(np.append(wanted, 7)), world, wanted)
    check_rows(case, loaded.get(wanted[:1]), world, wanted[:1])
    assert loaded.get(np.array([7], np.int64)).num_rows == 0
    assert loaded.get(np.array([], np.int64)).num_rows == 0


@each_index
@needs("scan")
@bare_too
def test_scan(case: Case, loaded: Store, world: World) -> None:
    batches = list(loaded.scan(batch_size=300))
    assert max(batch.num_rows for batch in batches) <= 300
    check_rows(case, pa.Table.from_batches(batches), world, world.ids)


@each_index
@needs("concurrent_search")
def test_concurrent_searches(case: Case, loaded: Store) -> None:
    usable = list(case.filters(case.capabilities.filters).values())
    vectors = queries()
    for where in (None, *usable[:1]):
        search = loaded.searcher(K, case.high_recall, where)
        alone = [search(query)[0].tolist() for query in vectors]

        def all_of_them(_: int, search: Searcher = search) -> list[list[int]]:
            return [search(query)[0].tolist() for query in vectors]

        with ThreadPoolExecutor(4) as threads:
            together = list(threads.map(all_of_them, range(4)))
        assert together == [alone] * 4
