"""nDCG of answers, against judgments of which rows are relevant to each query."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class RelevanceJudgments:
    """The relevance of rows to queries. relevant: ids relevant to each query, at least one, all
    equally. exact: nDCG@k of the exact answer to each query, for comparison."""

    k: int
    relevant: Sequence[frozenset[int]]
    exact: Sequence[float]


def ndcg(ids: NDArray[np.int64], relevant: frozenset[int], k: int) -> float:
    """nDCG of one answer, best first, with a gain of 1 for each relevant row among its first k:

        Σ 1 / log2(1 + place) over the places of relevant rows, by the most that it could be

    Järvelin and Kekäläinen, TOIS 2002. A row that is named twice gains once.
    """
    seen: set[int] = set()
    gain = 0.0
    for place, id_ in enumerate(ids[:k].tolist()):
        if id_ in relevant and id_ not in seen:
            seen.add(id_)
            gain += 1.0 / math.log2(place + 2)
    return gain / _ideal_gain(min(k, len(relevant)))


@cache
def _ideal_gain(relevant: int) -> float:
    """The gain of this many relevant rows in the first places."""
    return sum(1.0 / math.log2(place + 2) for place in range(relevant))


@dataclass
class Gains:
    """Gains of the answers of one or several clients: their sum and number, and the sum of the
    gains of the exact answers to the same requests."""

    total: float = 0.0
    exact: float = 0.0
    answers: int = 0

    def add(self, other: Gains) -> None:
        """Add the gains of another."""
        self.total += other.total
        self.exact += other.exact
        self.answers += other.answers

    def metrics(self) -> dict[str, float | None]:
        """Mean nDCG of the answers, and of the exact answers to the same requests; None without
        answers. Requests that failed, or were not sent for lack of time, are in neither."""
        if not self.answers:
            return {"ndcg": None, "ndcg_exact": None}
        return {"ndcg": self.total / self.answers, "ndcg_exact": self.exact / self.answers}


@dataclass
class NdcgScorer:
    """Scores the answers of clients, separately for each client, between its samples."""

    judgments: RelevanceJudgments
    gains: list[Gains] = field(default_factory=list)

    @staticmethod
    def for_clients(judgments: RelevanceJudgments, clients: int) -> NdcgScorer:
        """A scorer for this many clients."""
        return NdcgScorer(judgments, [Gains() for _ in range(clients)])

    def add_answer(self, client: int, query: int, ids: NDArray[np.int64]) -> None:
        """Score an answer of a client."""
        gains, by = self.gains[client], self.judgments
        gains.total += ndcg(ids, by.relevant[query], by.k)
        gains.exact += by.exact[query]
        gains.answers += 1

    def total(self) -> Gains:
        """Gains of all clients."""
        whole = Gains()
        for one in self.gains:
            whole.add(one)
        return whole
