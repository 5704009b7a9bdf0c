"""BM25 over a column of texts: the exact ranking that stores' text searches are held to.

    score(d, q) = Σ idf(w) · tf (k1 + 1) / (tf + k1 (1 - b + b |d| / mean |d|))
    idf(w) = ln(1 + (n - n_w + 1/2) / (n_w + 1/2))

over the words w of q, one that comes twice counting twice: Robertson and Zaragoza, The
Probabilistic Relevance Framework (2009), with the idf that is never negative, as in Lucene.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

#: The constants that Weaviate, Lucene and LanceDB have, unless told otherwise.
K1, B = 1.2, 0.75
_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """Runs of letters and digits, in lower case: no stemming, no stop words."""
    return _WORD.findall(text.lower())


class Bm25:
    """An index of texts (n,); a missing text has no words."""

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
