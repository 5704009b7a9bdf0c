"""What answers are worth to who asked: nDCG against a judgement of which rows are relevant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Judgement:
    """The ids that are relevant to each query, at least one; equally so."""

    k: int
    relevant: Sequence[frozenset[int]]

    def ndcg(self, query: int, ids: NDArray[np.int64]) -> float:
        """Of one answer, best first, with a gain of 1 for each relevant row among its first k:

            Σ 1 / log2(1 + place) over the places of relevant rows, by the most that it could be

        Järvelin and Kekäläinen, TOIS 2002. A row that is named twice gains once."""
        relevant = self.relevant[query]
        seen: set[int] = set()
        gain = 0.0
        for place, id_ in enumerate(ids[: self.k].tolist()):
            if id_ in relevant and id_ not in seen:
                seen.add(id_)
                gain += 1.0 / np.log2(place + 2)
        most = float((1.0 / np.log2(np.arange(min(self.k, len(relevant))) + 2)).sum())
        return gain / most


@dataclass
class Gains:
    """What the answers of one client, or of several, were worth: the sum, and how many."""

    total: float = 0.0
    answers: int = 0

    def add(self, other: Gains) -> None:
        """Take in those of another."""
        self.total += other.total
        self.answers += other.answers

    def mean(self) -> float | None:
        """Mean nDCG; None without answers."""
        return self.total / self.answers if self.answers else None


@dataclass
class Grader:
    """Grades the answers of clients, each for itself, between its samples."""

    judgement: Judgement
    gains: list[Gains] = field(default_factory=list)

    @staticmethod
    def of(judgement: Judgement, clients: int) -> Grader:
        """A grader for so many clients."""
        return Grader(judgement, [Gains() for _ in range(clients)])

    def grade(self, client: int, query: int, ids: NDArray[np.int64]) -> None:
        """Take in an answer of a client's."""
        gains = self.gains[client]
        gains.total += self.judgement.ndcg(query, ids)
        gains.answers += 1

    def all(self) -> Gains:
        """Of all clients."""
        whole = Gains()
        for one in self.gains:
            whole.add(one)
        return whole
