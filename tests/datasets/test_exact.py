"""The engine's exact top-k against brute force in float64."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from vectrial.datasets import exact as module
from vectrial.datasets.exact import (
    ExactSearch,
    Hits,
    RowBlock,
    Scanner,
    SearchedRows,
    exact_topk,
    exact_topk_filtered,
    merged,
    scan_here,
)
from vectrial.model.dataset import Truth
from vectrial.model.errors import DataError, UserError
from vectrial.model.metric import Metric, distances, ties

METRICS = list(Metric)


def brute_force(
    vectors: NDArray[np.float32],
    ids: NDArray[np.int64],
    queries: NDArray[np.float32],
    metric: Metric,
    k: int,
    masks: list[NDArray[np.bool_] | None],
) -> Truth:
    """The definition, one query at a time."""
    out = Truth(
        k,
        np.full((len(queries), k), -1, np.int64),
        np.full((len(queries), k), np.inf),
        np.zeros(len(queries), np.int64),
        np.zeros(len(queries) + 1, np.int64),
        np.empty(0, np.int64),
    )
    accepted = []
    for i, (query, mask) in enumerate(zip(queries, masks, strict=True)):
        keep = slice(None) if mask is None else mask
        far, names = distances(query, vectors[keep], metric), ids[keep]
        order = np.lexsort((names, far))[:k]
        found = len(order)
        out.ids[i, :found], out.distances[i, :found] = names[order], far[order]
        out.available[i] = found
        right = np.ones(len(far), bool)
        if found == k:
            norms = np.linalg.norm(vectors[keep].astype("f8"), axis=1)
            scale = norms * np.linalg.norm(query.astype("f8"))
            right = ties(far, out.distances[i, k - 1], metric, scale, vectors.shape[1])
        accepted.append(np.sort(names[right]))
        out.accept_offsets[i + 1] = out.accept_offsets[i] + len(accepted[-1])
    return Truth(
        k, out.ids, out.distances, out.available, out.accept_offsets, np.concatenate(accepted)
    )


def assert_same(found: Truth, expected: Truth) -> None:
    """Everything equal, to the last bit."""
    np.testing.assert_array_equal(found.distances, expected.distances)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.available, expected.available)
    np.testing.assert_array_equal(found.accept_offsets, expected.accept_offsets)
    np.testing.assert_array_equal(found.accept_ids, expected.accept_ids)


def random(rng: np.random.Generator, n: int, d: int) -> NDArray[np.float32]:
    rows = rng.standard_normal((n, d), dtype=np.float32)
    rows[rows == 0] = 1  # a row of one component has a direction
    return rows


def duplicates(rng: np.random.Generator, n: int, d: int) -> NDArray[np.float32]:
    """A few distinct rows, each many times."""
    return random(rng, 7, d)[rng.integers(0, 7, n)]


def lattice(rng: np.random.Generator, n: int, d: int) -> NDArray[np.float32]:
    """Small integers: distances take few values, so that nearly every k-th is tied."""
    rows = rng.integers(-2, 3, (n, d)).astype(np.float32)
    rows[:, 0] += 5
    return rows


def permuted(rng: np.random.Generator, n: int, d: int) -> NDArray[np.float32]:
    """Rows equal up to the order of their components: tied but for rounding."""
    row = random(rng, 1, d)[0]
    return np.stack([rng.permutation(row) for _ in range(n)])


def offset(rng: np.random.Generator, n: int, d: int) -> NDArray[np.float32]:
    """Far from the origin and close together: |q|² - 2qx + |x|² would cancel."""
    return random(rng, n, d) + np.float32(10_000)


def two_far_clusters(rng: np.random.Generator, n: int, d: int) -> NDArray[np.float32]:
    """No one centre helps here."""
    rows = random(rng, n, d)
    rows[: n // 2] += np.float32(1e5)
    return rows


def nearly_parallel(rng: np.random.Generator, n: int, d: int) -> NDArray[np.float32]:
    """Cosine distances of about 1e-12."""
    return random(rng, 1, d) + np.float32(1e-6) * random(rng, n, d)


def tiny(rng: np.random.Generator, n: int, d: int) -> NDArray[np.float32]:
    return random(rng, n, d) * np.float32(1e-36)


def huge(rng: np.random.Generator, n: int, d: int) -> NDArray[np.float32]:
    return random(rng, n, d) * np.float32(1e37)


def all_sizes(rng: np.random.Generator, n: int, d: int) -> NDArray[np.float32]:
    """Norms from 1e-30 to 1e30 in one set."""
    return (random(rng, n, d) * 10.0 ** rng.uniform(-30, 30, (n, 1))).astype(np.float32)


def last_bit(rng: np.random.Generator, n: int, d: int) -> NDArray[np.float32]:
    """Rows that differ in the last bit of one component: float32 products cannot tell them."""
    rows = np.repeat(random(rng, 1, d), n, axis=0)
    column = rng.integers(0, d, n)
    rows[np.arange(n), column] = np.nextafter(
        rows[np.arange(n), column], np.float32(rng.choice([-9, 9]))
    )
    return rows


KINDS = [
    random, duplicates, lattice, permuted, offset, two_far_clusters, nearly_parallel, tiny, huge,
    all_sizes, last_bit,
]  # fmt: skip


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8)
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 3000),
    d=st.sampled_from([1, 3, 8, 17, 128, 200, 384]),
    k=st.integers(1, 120),
)
def test_equals_brute_force(kind, metric: Metric, seed: int, n: int, d: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    rows = kind(rng, n + 5, d)
    vectors, queries = rows[:n], rows[n:]
    queries[0] = vectors[n // 2]  # a query that is in the data
    ids = rng.permutation(10 * n)[:n].astype(np.int64)
    found = exact_topk(vectors, ids, queries, metric, k)
    assert_same(found, brute_force(vectors, ids, queries, metric, k, [None] * 5))


@pytest.mark.parametrize("metric", METRICS)
def test_many_blocks_and_chunks_give_what_one_gives(
    metric: Metric, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    vectors, queries = offset(rng, 5000, 24), offset(rng, 300, 24)
    ids = rng.permutation(5000).astype(np.int64)
    whole = exact_topk(vectors, ids, queries, metric, 10)
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(module, "_blocks", lambda n, _: [(i, i + 100) for i in range(0, n, 100)])
    blocked = exact_topk(
        vectors, ids, queries, metric, 10, progress=lambda done, of, _: seen.append((done, of))
    )
    assert_same(blocked, whole)
    assert seen == [(done, 5000) for done in range(100, 5001, 100)]
    # k spread over the whole of the data, so that every block changes the answer.
    order = np.argsort(rng.standard_normal(5000))
    assert_same(exact_topk(vectors[order], ids[order], queries, metric, 10), whole)


def scanned_in_parts(parts: int, seed: int) -> Scanner:
    """A scanner that deals blocks to so many others, and merges what they send."""

    def scanner(
        question: ExactSearch,
        rows: SearchedRows,
        blocks: Iterator[RowBlock],
        scanned: Callable[[int], None],
    ) -> Hits:
        rng = np.random.default_rng(seed)
        dealt: list[list[RowBlock]] = [[] for _ in range(parts)]
        for block in blocks:
            dealt[rng.integers(parts)].append(block)
        sent = pickle.dumps([scan_here(question, rows, iter(hand), scanned) for hand in dealt])
        return merged(question, pickle.loads(sent))

    return scanner


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8)
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 2000),
    k=st.integers(1, 120),
    parts=st.integers(1, 4),
    metric=st.sampled_from(METRICS),
)
def test_parts_give_what_one_gives(
    kind, seed: int, n: int, k: int, parts: int, metric: Metric
) -> None:
    """To the last bit, ties and filters included, however the rows are dealt."""
    rng = np.random.default_rng(seed)
    rows = kind(rng, n + 6, 8)
    vectors, queries, ids = rows[:n], rows[n:], rng.permutation(n).astype(np.int64)
    scanner = scanned_in_parts(parts, seed)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            module, "_blocks", lambda n, _: [(i, min(i + 97, n)) for i in range(0, n, 97)]
        )
        whole = exact_topk(vectors, ids, queries, metric, k)
        assert_same(exact_topk(vectors, ids, queries, metric, k, scanner=scanner), whole)
        masks = [rng.random(n) < share for share in (0.0, 0.05, 0.6)]
        ask = (vectors, ids, queries, metric, k, [lambda m=m: m for m in masks])
        mask_of = np.array([0, 1, 2, 2, -1, 1])
        expected = exact_topk_filtered(*ask, mask_of)
        assert_same(exact_topk_filtered(*ask, mask_of, scanner=scanner), expected)


def test_more_ties_in_all_parts_than_memory_should_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.ones((900, 4), np.float32)
    monkeypatch.setattr(module, "_blocks", lambda n, _: [(i, i + 100) for i in range(0, n, 100)])
    monkeypatch.setattr(module, "_MOST_HELD", 800)
    with pytest.raises(DataError, match="more than 800 rows tie"):
        exact_topk(
            vectors, np.arange(900), vectors[:1], Metric.L2, 3, scanner=scanned_in_parts(3, 0)
        )


@pytest.mark.parametrize("metric", METRICS)
def test_all_rows_equal(metric: Metric) -> None:
    vectors = np.full((20_000, 16), 0.3, np.float32)
    found = exact_topk(vectors, np.arange(20_000), vectors[:3], metric, 10)
    np.testing.assert_array_equal(found.ids, np.tile(np.arange(10), (3, 1)))
    np.testing.assert_array_equal(np.diff(found.accept_offsets), [20_000] * 3)


def test_more_ties_than_memory_should_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_HELD", 1000)
    vectors = np.ones((600, 4), np.float32)
    with pytest.raises(DataError, match=r"1,000 rows tie.*remove duplicate vectors"):
        exact_topk(vectors, np.arange(600), vectors[:2], Metric.L2, 3)


@pytest.mark.parametrize("metric", METRICS)
def test_filters_of_every_breadth(metric: Metric) -> None:
    rng = np.random.default_rng(5)
    vectors, queries = random(rng, 3000, 12), random(rng, 60, 12)
    ids = np.arange(3000) * 3
    shares = [0.0, 0.001, 0.01, 0.1, 0.3, 0.7, 1.0]
    masks = [rng.random(3000) < share for share in shares]
    mask_of = rng.integers(-1, len(masks), 60)
    calls: list[int] = []

    def make(which: int) -> NDArray[np.bool_]:
        calls.append(which)
        return masks[which]

    found = exact_topk_filtered(
        vectors, ids, queries, metric, 20, [lambda w=w: make(w) for w in range(7)], mask_of
    )
    each = [None if which < 0 else masks[which] for which in mask_of]
    assert_same(found, brute_force(vectors, ids, queries, metric, 20, each))
    assert calls == sorted(set(mask_of[mask_of >= 0]))
    one = exact_topk(vectors, ids, queries, metric, 20, mask=masks[3])
    assert_same(one, brute_force(vectors, ids, queries, metric, 20, [masks[3]] * 60))


def test_broad_filters_in_several_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MASK_BYTES", 2 * 500)  # two masks at a time
    rng = np.random.default_rng(6)
    vectors, queries = random(rng, 500, 5), random(rng, 9, 5)
    masks = [rng.random(500) < 0.5 for _ in range(5)]
    mask_of = rng.permutation(9) % 5
    found = exact_topk_filtered(
        vectors, np.arange(500), queries, Metric.L2, 7, [lambda m=m: m for m in masks], mask_of
    )
    each = [masks[which] for which in mask_of]
    assert_same(found, brute_force(vectors, np.arange(500), queries, Metric.L2, 7, each))


def test_reads_a_memory_map_of_bytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    rows = rng.integers(0, 256, (900, 20)).astype(np.uint8)
    rows.tofile(tmp_path / "rows")
    mapped = np.memmap(tmp_path / "rows", np.uint8, "r", shape=(900, 20))
    vectors = rows.astype(np.float32)
    found = exact_topk(mapped, np.arange(900), vectors[:4], Metric.L2, 5)
    expected = brute_force(vectors, np.arange(900), vectors[:4], Metric.L2, 5, [None] * 4)
    assert_same(found, expected)


def test_what_cannot_be_answered_is_refused() -> None:
    ones, ids = np.ones((5, 3), np.float32), np.arange(5) + 40
    zero, broken = ones.copy(), ones.copy()
    zero[2], broken[3, 1] = 0, np.nan
    with pytest.raises(DataError, match="id 42: a zero vector"):
        exact_topk(zero, ids, ones, Metric.COSINE, 1)
    assert exact_topk(zero, ids, ones, Metric.IP, 5).available.tolist() == [5] * 5
    with pytest.raises(DataError, match="query 2: a zero vector"):
        exact_topk(ones, ids, zero, Metric.COSINE, 1)
    with pytest.raises(DataError, match="id 43: a component is not finite"):
        exact_topk(broken, ids, ones, Metric.L2, 1)
    with pytest.raises(DataError, match="query 3: a component is not finite"):
        exact_topk(ones, ids, broken, Metric.L2, 1)
    with pytest.raises(DataError, match=r"float64.*convert"):
        exact_topk(ones.astype(float), ids, ones, Metric.L2, 1)
    with pytest.raises(DataError, match="do not fit"):
        exact_topk(ones[:, :2], ids, ones, Metric.L2, 1)
    with pytest.raises(DataError, match="ids of shape"):
        exact_topk(ones, ids[:4], ones, Metric.L2, 1)
    with pytest.raises(UserError, match="k is 0"):
        exact_topk(ones, ids, ones, Metric.L2, 0)


def test_nothing_to_search() -> None:
    none = np.empty((0, 3), np.float32)
    found = exact_topk(none, np.empty(0, np.int64), np.ones((2, 3), np.float32), Metric.L2, 2)
    assert found.ids.tolist() == [[-1, -1]] * 2
    assert found.available.tolist() == [0, 0]
    no_queries = exact_topk(np.ones((2, 3), np.float32), np.arange(2), none, Metric.COSINE, 2)
    assert no_queries.ids.shape == (0, 2)
