"""The fusion of a ranking by vector and a ranking by text.

α weighs the two: 1 is the vector alone, 0 the text alone. A store declares its fusion in its
`Hybrid`. `fuse` computes the expected result, from the same formulas over exact scores; for texts
these are BM25 scores, by which stores' text searches are judged.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from vectrial.model.metric import Metric

#: Constant of reciprocal rank fusion: Cormack, Clarke and Büttcher, SIGIR 2009.
RANK_CONSTANT = 60
#: The constants that Weaviate, Lucene and LanceDB have, unless told otherwise.
K1, B = 1.2, 0.75
_WORD = re.compile(r"[^\W_]+")


class Fusion(StrEnum):
    """Method of fusing two rankings. v and t are a row's scores by vector and by text: larger is
    better, and 0 in a ranking that lacks the row.

    relative_score: α v' + (1 - α) t', with v' and t' scaled to [0, 1] within their own ranking: (s
        - min) / (max - min), or 1 if all are equal.
    reciprocal_rank: α / (60 + rank of v) + (1 - α) / (60 + rank of t), ranks from 1.
    weighted_sum: α v + (1 - α) t, unscaled: BM25 has no bound, and similarities lie in [0, 1].
    """

    RELATIVE_SCORE = "relative_score"
    RECIPROCAL_RANK = "reciprocal_rank"
    WEIGHTED_SUM = "weighted_sum"


@dataclass(frozen=True)
class Blend:
    """Parameters of a hybrid search.

    field: the schema's text column. alpha: weight of the vector, 0 … 1. candidates: rows that each
        side contributes to the fusion, at least k, if the store lets one choose.
    """

    field: str
    alpha: float
    fusion: Fusion
    candidates: int


@dataclass(frozen=True)
class RankedRows:
    """Rows (n,), best first, and their scores (n,), larger is better."""

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]


def top_rows(scores: NDArray[np.float64], most: int, bound: float = 0.0) -> RankedRows:
    """At most `most` rows whose scores (n,) are above a bound, ties by the smaller row."""
    rows = np.flatnonzero(scores > bound)
    if len(rows) > most:  # all that tie with the last stay, until they are in order
        least = np.partition(scores[rows], len(rows) - most)[len(rows) - most]
        rows = rows[scores[rows] >= least]
    order = np.lexsort((rows, -scores[rows]))[:most]
    rows = rows[order].astype(np.int64)
    return RankedRows(rows, scores[rows])


def fuse(dense: RankedRows, text: RankedRows, alpha: float, fusion: Fusion) -> RankedRows:
    """Both rankings fused, ties by the smaller row. A side without weight brings no rows."""
    sides = [(dense, alpha), (text, 1.0 - alpha)]
    used = [(side, weight) for side, weight in sides if weight > 0]
    rows = np.unique(np.concatenate([side.rows for side, _ in used]))
    scores = np.zeros(len(rows))
    for side, weight in used:
        scores[np.searchsorted(rows, side.rows)] += weight * _side_scores(side, fusion)
    order = np.lexsort((rows, -scores))
    return RankedRows(rows[order], scores[order])


def _side_scores(side: RankedRows, fusion: Fusion) -> NDArray[np.float64]:
    """Score that a side gives to each of its rows."""
    match fusion:
        case Fusion.WEIGHTED_SUM:
            return side.scores
        case Fusion.RECIPROCAL_RANK:
            return 1.0 / (RANK_CONSTANT + 1 + np.arange(len(side.rows)))
        case Fusion.RELATIVE_SCORE:
            if not len(side.scores) or side.scores.min() == side.scores.max():
                return np.ones(len(side.scores))
            spread = side.scores.max() - side.scores.min()
            return np.asarray((side.scores - side.scores.min()) / spread)


def similarity(
    distances: NDArray[np.float64], metric: Metric, fusion: Fusion
) -> NDArray[np.float64]:
    """Distances (as in `vectrial.model.metric`) converted to the vector scores that a fusion takes,
    larger is closer. For a weighted sum these are Lucene's scores, never negative: 1 / (1 + d²), (1
    + cos) / 2, and for a product p, 1 + p, or 1 / (1 - p) below zero. Otherwise -d² under L2, and
    the negative of the distance under other metrics."""
    if fusion is not Fusion.WEIGHTED_SUM:
        return -(distances**2) if metric is Metric.L2 else -distances
    match metric:
        case Metric.L2:
            return np.asarray(1.0 / (1.0 + distances**2))
        case Metric.COSINE:
            return np.asarray(1.0 - distances / 2.0)
        case Metric.IP:
            product = -distances
            negative = 1.0 / (1.0 + np.maximum(-product, 0.0))
            return np.asarray(np.where(product < 0, negative, 1.0 + product))


def words(text: str) -> list[str]:
    """Runs of letters and digits, in lower case: no stemming, no stop words."""
    return _WORD.findall(text.lower())


class Bm25:
    """An index of texts (n,) for their exact ranking; a missing text has no words.

        score(d, q) = Σ idf(w) · tf (k1 + 1) / (tf + k1 (1 - b + b |d| / mean |d|))
        idf(w) = ln(1 + (n - n_w + 1/2) / (n_w + 1/2))

    over the words w of q, one that comes twice counting twice: Robertson and Zaragoza, The
    Probabilistic Relevance Framework (2009), with the idf that is never negative, as in Lucene.
    """

    def __init__(self, texts: Sequence[str | None], k1: float = K1, b: float = B) -> None:
        counts = [Counter(words(text or "")) for text in texts]
        lengths = np.array([count.total() for count in counts], dtype=np.float64)
        mean = float(lengths.mean()) if lengths.any() else 1.0
        norms = k1 * (1 - b + b * lengths / mean)
        postings: dict[str, tuple[list[int], list[int]]] = {}
        for row, count in enumerate(counts):
            for word, times in count.items():
                rows, tfs = postings.setdefault(word, ([], []))
                rows.append(row)
                tfs.append(times)
        self.rows = len(counts)
        self._postings: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}
        for word, (rows, tfs) in postings.items():
            at, tf = np.array(rows, np.int64), np.array(tfs, np.float64)
            idf = math.log(1 + (self.rows - len(at) + 0.5) / (len(at) + 0.5))
            self._postings[word] = at, idf * tf * (k1 + 1) / (tf + norms[at])

    def scores(self, text: str) -> NDArray[np.float64]:
        """BM25 scores of every row, (n,); 0 for a row that shares no word with `text`."""
        found = np.zeros(self.rows)
        for word, times in Counter(words(text)).items():
            if word in self._postings:
                at, weights = self._postings[word]
                found[at] += times * weights
        return found
