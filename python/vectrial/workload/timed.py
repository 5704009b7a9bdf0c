"""What is kept of a phase's answers beside their record, for whoever looks at them afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Recorder
from vectrial.model.phase import Phase

#: Answers of a phase that are kept at least, where there are as many: of a fault in one answer of a
#: hundred at least one is among them with a probability of 0.993.
KEPT = 500


@dataclass
class Kept:
    """Timed answers as they came: which query of the dataset (its number), the vector that was
    asked, ids best first, scores."""

    queries: list[int] = field(default_factory=list)
    vectors: list[NDArray[np.float32]] = field(default_factory=list)
    ids: list[NDArray[np.int64]] = field(default_factory=list)
    scores: list[NDArray[np.float32]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.queries)

    def keep(
        self,
        query: int,
        vector: NDArray[np.float32],
        ids: NDArray[np.int64],
        scores: NDArray[np.float32],
    ) -> None:
        """Keep an answer, whatever becomes of the arrays that it came in."""
        self.queries.append(query)
        self.vectors.append(vector)
        self.ids.append(np.array(ids))
        self.scores.append(np.array(scores))

    def add(self, other: Kept) -> None:
        """Take in those of another."""
        self.queries += other.queries
        self.vectors += other.vectors
        self.ids += other.ids
        self.scores += other.scores


@dataclass
class Timed:
    """What is known of the answers of a phase.

    warmup: recorder of the answers before the clock started.
    first: recorder of the first answers to each query in the phase; later: of those to queries that
        came again, moved a little or not. kept: some of the timed answers.
    whole: of all timed answers, where the others are of answers that were asked for right after
        the phase.
    """

    warmup: Recorder
    first: Recorder
    later: Recorder
    kept: Kept
    whole: Recorder | None = None

    @property
    def under_clock(self) -> tuple[Recorder, ...]:
        """Recorders of all timed answers."""
        return (self.first, self.later) if self.whole is None else (self.whole,)

    def pack(self) -> PackedTimed:
        """For another process."""
        return PackedTimed(self.warmup.pack(), self.first.pack(), self.later.pack(), self.kept)


@dataclass(frozen=True)
class PackedTimed:
    """`Timed`, its recorders packed."""

    warmup: bytes
    first: bytes
    later: bytes
    kept: Kept


#: Told of a phase, and of its answers, when the phase has ended.
Look = Callable[[Phase, Timed], None]
