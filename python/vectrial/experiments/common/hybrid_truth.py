"""Truth of hybrid searches: queries drawn from real rows, an exact fusion, relevance judgments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial._engine import spaced
from vectrial.datasets.exact import exact_topk
from vectrial.model.dataset import Dataset, Truth
from vectrial.model.errors import StoreError
from vectrial.model.fusion import Blend, Bm25, RankedRows, fuse, similarity, top_rows, words
from vectrial.workload.ndcg import RelevanceJudgments, ndcg

#: Words of a text in the mean, at least, for a column to be one of texts.
_WORDS = 3.0
#: Relative tolerance of a tie between two fused scores.
_TIE = 1e-6


@dataclass(frozen=True)
class HybridTruthTask:
    """Rows to search, and queries that were rows of the same dataset and no longer are.

    dataset: the rows that are left, with the text column alone; its queries are the vectors of the
        rows that were taken out. texts: texts of the queries. relevant: ids relevant to each query;
        None if not requested.
    """

    dataset: Dataset
    field: str
    texts: tuple[str, ...]
    relevant: tuple[frozenset[int], ...] | None


def make_task(
    dataset: Dataset, field: str | None, related: str | None, queries: int, seed: int
) -> HybridTruthTask:
    """Take rows out of a dataset as queries.

    Args:
        field: the text column; None: the column with the most different values among those with a
            mean of at least three words.
        related: rows are relevant to a query if they have its value in this column. Queries are
            then drawn among the values that several rows have, one of each, so that every relevant
            row stays. Without it, queries are drawn among all rows, and relevance is not known.

    Raises:
        StoreError: there is no such column, or nothing to draw from.
    """
    metadata = dataset.metadata
    if metadata is None:
        raise StoreError("the dataset has no metadata, and so no text")
    field = field or _text_column(metadata)
    texts = _strings(metadata, field)
    rng = np.random.default_rng([seed, 0x7E])
    order = [row for row in rng.permutation(dataset.rows).tolist() if words(texts[row] or "")]
    values = None if related is None else metadata.column(related).to_pylist()
    if related is not None and values is not None:
        order = _first_of_duplicates(order, values)
        if not order:
            raise StoreError(f"no two rows have the same value in column '{related}'")
    taken = np.array(sorted(order[: min(queries, dataset.rows // 2)]), np.int64)
    left = np.setdiff1d(np.arange(dataset.rows), taken)
    rest = replace(
        dataset,
        vectors=np.ascontiguousarray(dataset.vectors[left]),
        ids=dataset.ids[left],
        queries=np.ascontiguousarray(dataset.vectors[taken]),
        metadata=pa.table({field: pa.array([texts[row] for row in left], pa.string())}),
        filters=None,
        query_metadata=None,
        facts={},
    )
    relevant = None
    if values is not None:
        wanted: dict[object, set[int]] = {values[row]: set() for row in taken}
        for row, id_ in zip(left.tolist(), rest.ids.tolist(), strict=True):
            if values[row] in wanted:
                wanted[values[row]].add(id_)
        relevant = tuple(frozenset(wanted[values[row]]) for row in taken)
    return HybridTruthTask(rest, field, tuple(texts[row] or "" for row in taken), relevant)


def _text_column(metadata: pa.Table) -> str:
    """The text column whose values differ most from row to row; between equals, the one with the
    most words."""
    found: dict[str, tuple[int, float]] = {}
    for column in metadata.schema:
        if pa.types.is_string(column.type):
            texts = _strings(metadata, column.name)
            mean = sum(len(words(text or "")) for text in texts) / max(1, len(texts))
            if mean >= _WORDS:
                found[column.name] = len(set(texts)), mean
    if not found:
        raise StoreError("no column of the dataset holds texts: name one with `text`")
    return max(found, key=lambda name: found[name])


def _strings(metadata: pa.Table, field: str) -> list[str | None]:
    if field not in metadata.column_names:
        raise StoreError(f"the dataset has no column '{field}'")
    values: list[str | None] = metadata.column(field).to_pylist()
    # As every store is given them: what a word is does not depend on a store's segmenter.
    texts = spaced([value or "" for value in values])
    return [None if one is None else text for one, text in zip(values, texts, strict=True)]


def _first_of_duplicates(order: Sequence[int], values: Sequence[object]) -> list[int]:
    """The first row of each value that several rows have."""
    counts = Counter(value for value in values if value is not None)
    first: dict[object, int] = {}
    for row in order:
        if counts[values[row]] > 1:
            first.setdefault(values[row], row)
    return list(first.values())


@dataclass(frozen=True)
class ExactFusion:
    """Results of an exact fusion for every query: the k best with ties; and the relevant rows with
    their gains, where these were requested."""

    truth: Truth
    judgments: RelevanceJudgments | None


def exact_fusions(
    truth_task: HybridTruthTask, k: int, blends: Sequence[Blend], *, whole_text: bool
) -> list[ExactFusion]:
    """The exact fusions of true distances and of BM25 over the words of the column, for blends that
    differ only in α. Scores of all rows are held for one query at a time.

    whole_text: see `stores.base.Hybrid`.
    """
    dataset = truth_task.dataset
    assert dataset.metadata is not None
    (fusion,) = {blend.fusion for blend in blends}
    (candidates,) = {blend.candidates for blend in blends}
    near = exact_topk(
        dataset.vectors,
        np.arange(dataset.rows, dtype=np.int64),
        dataset.queries,
        dataset.metric,
        min(candidates, dataset.rows),
    )
    index = Bm25(dataset.metadata.column(truth_task.field).to_pylist())
    found: list[list[NDArray[np.int64]]] = [[] for _ in blends]
    accepted: list[list[NDArray[np.int64]]] = [[] for _ in blends]
    for rows, distances, words_of in zip(near.ids, near.distances, truth_task.texts, strict=True):
        dense = RankedRows(rows, similarity(distances, dataset.metric, fusion))
        text = top_rows(index.scores(words_of), dataset.rows if whole_text else candidates)
        for at, blend in enumerate(blends):
            ranking = fuse(dense, text, blend.alpha, fusion)
            found[at].append(dataset.ids[ranking.rows[:k]])
            accepted[at].append(np.sort(dataset.ids[ranking.rows[_ids_with_ties(ranking, k)]]))

    def judgments(ids: Sequence[NDArray[np.int64]]) -> RelevanceJudgments | None:
        if truth_task.relevant is None:
            return None
        worth = [ndcg(one, those, k) for one, those in zip(ids, truth_task.relevant, strict=True)]
        return RelevanceJudgments(k, truth_task.relevant, tuple(worth))

    return [
        ExactFusion(_truth(ids, tied, k), judgments(ids))
        for ids, tied in zip(found, accepted, strict=True)
    ]


def _ids_with_ties(ranking: RankedRows, k: int) -> NDArray[np.bool_]:
    if len(ranking.rows) <= k:
        return np.ones(len(ranking.rows), bool)
    last = ranking.scores[k - 1]
    return np.asarray(ranking.scores >= last - _TIE * abs(last))


def _truth(
    found: Sequence[NDArray[np.int64]], accepted: Sequence[NDArray[np.int64]], k: int
) -> Truth:
    ids = np.full((len(found), k), -1, np.int64)
    for row, one in zip(ids, found, strict=True):
        row[: len(one)] = one
    distances = np.where(ids < 0, np.inf, np.arange(k, dtype=np.float64))  # places, not distances
    return Truth(
        k,
        ids,
        distances,
        np.array([len(one) for one in found], np.int64),
        np.cumsum([0, *(len(one) for one in accepted)], dtype=np.int64),
        np.concatenate(accepted),
    )
