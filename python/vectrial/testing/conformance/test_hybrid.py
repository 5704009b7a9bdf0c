"""Searches by vector and text: the text index has every row, and α weighs the two rankings.

The texts are of made-up words, so that the words of a text are the same to every store.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from vectrial.model.capabilities import Hybrid
from vectrial.model.errors import Unsupported
from vectrial.model.fusion import Blend, Bm25, Fusion, RankedRows, fuse, similarity, top_rows
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.model.store import Store
from vectrial.testing.conformance.cases import needs
from vectrial.testing.conformance.world import (
    BATCH,
    DIM,
    Case,
    K,
    World,
    folder,
    load,
    make_world,
    queries,
)

ROWS, CANDIDATES = 2 * BATCH, 100
ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)
#: Values of α at which both rankings count.
INNER_ALPHAS = (0.3, 0.6)
#: Agreement with an exact fusion of the same rankings, of who ranks text by BM25. Less than all:
#: some servers' own text searches skip rows, and rows whose scores tie have any rank.
AGREEMENT = {
    Fusion.RELATIVE_SCORE: 0.85,
    Fusion.WEIGHTED_SUM: 0.85,
    Fusion.RECIPROCAL_RANK: 0.8,
}
#: Agreement with a fusion of the store's own two rankings.
FUSES = 0.9


def hybrid_search(case: Case) -> str | None:
    can = case.capabilities.hybrid
    return f"{case.store.name} {can}" if isinstance(can, str) else None


def no_hybrid_search(case: Case) -> str | None:
    return None if hybrid_search(case) else f"{case.store.name} has it"


def weights(case: Case) -> str | None:
    can = case.capabilities.hybrid
    alike = isinstance(can, Hybrid) and not any(map(can.weighs, INNER_ALPHAS))
    return f"{case.store.name} weighs both rankings alike" if alike else None


@pytest.fixture(scope="session")
def hybrid(case: Case) -> Hybrid:
    assert isinstance(case.capabilities.hybrid, Hybrid)
    return case.capabilities.hybrid


@pytest.fixture(scope="session")
def texts(case: Case) -> list[str]:
    """Text of each row: seven words of 200, the first ones often, and a word of its own."""
    rng = np.random.default_rng(4)
    share = 1 / np.arange(3, 203)
    drawn = rng.choice(200, size=(ROWS, 7), p=share / share.sum())
    return [
        " ".join([*(f"w{n}" for n in row), f"only{at}"]) for at, row in enumerate(drawn.tolist())
    ]


@pytest.fixture(scope="session")
def texts_world(case: Case, texts: list[str]) -> World:
    """The world's vectors and ids, with these texts."""
    schema = Schema(DIM, case.metric, (Field("text", FieldType.STRING, False, True),))
    rows = make_world(Schema(DIM, case.metric), False, rows=ROWS, first_id=500, seed=0)
    return World(schema, rows.ids, rows.vectors, pa.table({"text": pa.array(texts)}))


@pytest.fixture(scope="session")
def text_store(
    case: Case, hybrid: Hybrid, texts_world: World, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    store = case.make(tmp_path_factory.mktemp("hybrid"))
    load(store, case, texts_world)
    yield store
    store.close()


def blend(hybrid: Hybrid, alpha: float, fusion: Fusion | None = None) -> Blend:
    return Blend("text", alpha, fusion or next(iter(hybrid.fusions)), CANDIDATES)


@needs(hybrid_search)
def test_every_row_is_found_by_a_word_that_only_it_has(
    case: Case, hybrid: Hybrid, texts_world: World, text_store: Store
) -> None:
    search = text_store.hybrid_searcher(K, case.high_recall, blend(hybrid, 0.0))
    for at in range(0, ROWS, 97):
        ids, _ = search(texts_world.vectors[0], f"only{at}")
        assert ids.tolist() == [texts_world.ids[at]]
    ids, _ = search(texts_world.vectors[0], "nobodysaid")
    assert ids.tolist() == []


@needs(hybrid_search)
def test_at_one_it_is_the_search_by_vector(case: Case, hybrid: Hybrid, text_store: Store) -> None:
    plain = text_store.searcher(K, case.high_recall)
    for fusion in hybrid.fusions:
        both = text_store.hybrid_searcher(K, case.high_recall, blend(hybrid, 1.0, fusion))
        for query in queries(count=5):
            ids, scores = both(query, "w0 w1 w2")
            assert ids.tolist() == plain(query)[0].tolist()
            assert (np.diff(scores) <= 0).all()


@needs(hybrid_search)
def test_at_zero_the_vector_makes_no_difference_and_all_rows_have_a_word(
    case: Case, hybrid: Hybrid, texts_world: World, texts: list[str], text_store: Store
) -> None:
    for fusion in hybrid.fusions:
        search = text_store.hybrid_searcher(K, case.high_recall, blend(hybrid, 0.0, fusion))
        for at in (3, 77, 1200):
            first, scores = search(texts_world.vectors[0], texts[at])
            again, _ = search(texts_world.vectors[5], texts[at])
            assert first.tolist() == again.tolist()
            assert first[0] == texts_world.ids[at]
            assert (np.diff(scores) <= 0).all()
            rows = [texts_world.ids.tolist().index(id_) for id_ in first]
            assert all(set(texts[row].split()) & set(texts[at].split()) for row in rows)


@needs(hybrid_search)
def test_it_agrees_with_an_exact_fusion(
    case: Case,
    hybrid: Hybrid,
    texts_world: World,
    texts: list[str],
    text_store: Store,
) -> None:
    # The exact ranking of words is by BM25, as most stores do it.
    alphas = [alpha for alpha in ALPHAS if alpha == 1 or "BM25" in hybrid.text]
    most = hybrid.candidates(CANDIDATES, K)
    index = Bm25(texts)
    for fusion, alpha in product(hybrid.fusions, filter(hybrid.weighs, alphas)):
        search = text_store.hybrid_searcher(K, case.high_recall, blend(hybrid, alpha, fusion))
        right = 0
        for query, at in zip(queries(count=20), range(0, ROWS, 69), strict=False):
            text = " ".join(texts[at].split()[:5])
            closeness = similarity(texts_world.distances(query), case.metric, fusion)
            near = top_rows(closeness, most, -np.inf)
            words = top_rows(index.scores(text), ROWS if hybrid.whole_text else most)
            exact = fuse(near, words, alpha, fusion)
            right += accepted(texts_world, exact, search(query, text)[0])
        assert right / (20 * K) >= AGREEMENT[fusion], (fusion, alpha)


@needs(hybrid_search, weights)
def test_it_fuses_its_own_rankings_by_the_formula_it_declares(
    case: Case,
    hybrid: Hybrid,
    texts_world: World,
    texts: list[str],
    text_store: Store,
) -> None:
    at = {int(id_): row for row, id_ in enumerate(texts_world.ids)}

    def ranking(found: tuple[np.ndarray, np.ndarray]) -> RankedRows:
        return RankedRows(np.array([at[int(id_)] for id_ in found[0]]), found[1].astype(np.float64))

    for fusion, alpha in product(hybrid.fusions, filter(hybrid.weighs, INNER_ALPHAS)):
        both = blend(hybrid, alpha, fusion)
        dense = text_store.hybrid_searcher(CANDIDATES, case.high_recall, replace(both, alpha=1.0))
        most = ROWS if hybrid.whole_text else CANDIDATES
        words = text_store.hybrid_searcher(most, case.high_recall, replace(both, alpha=0.0))
        search = text_store.hybrid_searcher(K, case.high_recall, both)
        right = 0
        for query, row in zip(queries(count=10), range(0, ROWS, 139), strict=False):
            text = " ".join(texts[row].split()[:5])
            sides = ranking(dense(query, text)), ranking(words(query, text))
            right += accepted(texts_world, fuse(*sides, alpha, fusion), search(query, text)[0])
        assert right / (10 * K) >= FUSES, (fusion, alpha)


def accepted(texts_world: World, exact: RankedRows, ids: np.ndarray) -> int:
    """Number of ids in the answer that are among the k best, including ties with the last one."""
    least = exact.scores[min(K, len(exact.rows)) - 1]
    # Scores that are kept in fewer digits tie with more.
    within = exact.rows[exact.scores >= least - 1e-3 * abs(least)]
    return len(set(ids.tolist()) & set(texts_world.ids[within].tolist()))


@needs(hybrid_search, "inserts_after_build")
def test_rows_written_later_are_found_once_indexed(
    case: Case, hybrid: Hybrid, texts_world: World, tmp_path: Path
) -> None:
    store = case.make(folder(tmp_path, "store"))
    try:
        store.create(texts_world.schema, case.build)
        store.insert(texts_world.batch(slice(0, 600)))
        store.flush()
        store.build()
        store.wait_indexed()
        store.insert(texts_world.batch(slice(600, 700)))
        store.flush()
        store.wait_indexed()
        search = store.hybrid_searcher(K, case.high_recall, blend(hybrid, 0.0))
        assert search(texts_world.vectors[0], "only650")[0].tolist() == [texts_world.ids[650]]
        assert search(texts_world.vectors[0], "only5")[0].tolist() == [texts_world.ids[5]]
    finally:
        store.drop()
        store.close()


@needs(no_hybrid_search)
def test_a_store_without_it_says_why(case: Case, tmp_path: Path) -> None:
    store = case.make(folder(tmp_path, "store"))
    try:
        with pytest.raises(Unsupported, match=case.store.name):
            store.hybrid_searcher(
                K, case.high_recall, Blend("text", 0.5, Fusion.RELATIVE_SCORE, 100)
            )
    finally:
        store.close()
