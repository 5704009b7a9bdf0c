"""Answers of a phase that are logged beside their record, to be checked when it has ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Recorder
from vectrial.model.phase import Phase

#: Answers of a phase that are logged at least, where there are as many: of a fault in one answer of
#: a hundred at least one is among them with a probability of 0.993.
MIN_LOGGED = 500


@dataclass
class AnswerLog:
    """Timed answers in the order received: the number of the dataset's query, the vector that was
    sent, ids best first, scores."""

    queries: list[int] = field(default_factory=list)
    vectors: list[NDArray[np.float32]] = field(default_factory=list)
    ids: list[NDArray[np.int64]] = field(default_factory=list)
    scores: list[NDArray[np.float32]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.queries)

    def append(
        self,
        query: int,
        vector: NDArray[np.float32],
        ids: NDArray[np.int64],
        scores: NDArray[np.float32],
    ) -> None:
        """Log an answer; its arrays may be reused afterwards."""
        self.queries.append(query)
        self.vectors.append(vector)
        self.ids.append(np.array(ids))
        self.scores.append(np.array(scores))

    def extend(self, other: AnswerLog) -> None:
        """Add the answers of another log."""
        self.queries += other.queries
        self.vectors += other.vectors
        self.ids += other.ids
        self.scores += other.scores


@dataclass
class PhaseAnswers:
    """Data on the answers of a phase.

    warmup: recorder of the answers before the clock started.
    first: recorder of the first answers to each query in the phase. later: recorder of the answers
        to repeated queries, perturbed or not. log: some of the timed answers.
    whole: recorder of all timed answers, if the other recorders hold answers to requests sent right
        after the phase.
    """

    warmup: Recorder
    first: Recorder
    later: Recorder
    log: AnswerLog
    whole: Recorder | None = None

    @property
    def timed_recorders(self) -> tuple[Recorder, ...]:
        """Recorders of all timed answers."""
        return (self.first, self.later) if self.whole is None else (self.whole,)

    def pack(self) -> PackedPhaseAnswers:
        """The data in a form for another process."""
        return PackedPhaseAnswers(
            self.warmup.pack(), self.first.pack(), self.later.pack(), self.log
        )


@dataclass(frozen=True)
class PackedPhaseAnswers:
    """`PhaseAnswers` with packed recorders."""

    warmup: bytes
    first: bytes
    later: bytes
    log: AnswerLog


#: Called with a phase and its answers when the phase has ended.
AnswerCheck = Callable[[Phase, PhaseAnswers], None]
