"""Slices: the parts of a phase that takes turns with those of other stores."""

from __future__ import annotations

from dataclasses import dataclass

#: Share of a slice at its start that is left out of its figures: caches, clocks and connections are
#: colder then.
HEAD_SHARE = 0.1


#: Length of a slice, unless it has to be longer: turns of 50 ms cost 1 % by colder caches, of 10 ms
#: 15 %.
SLICE_S = 0.05


@dataclass(frozen=True)
class TurnTime:
    """How long a load takes turns: `seconds` of all its slices together, and of each slice at
    least."""

    seconds: float
    slice_s: float = SLICE_S


@dataclass(frozen=True)
class Turn:
    """Permission to send for a while.

    session: of the loads that take turns together. round: from 0; in each round of the session
        every load has one turn. Before the first, rounds are below 0, and do not count.
    place: from 0, the position in its round.
    length_ns: of the whole slice, its head included.
    """

    round: int
    place: int
    length_ns: int
    session: int = 0


@dataclass(frozen=True)
class Slice:
    """What was measured in one turn.

    began_ns: `time.perf_counter_ns` when its figures began. seconds: until the last answer of each
        client, mean over the clients: count / seconds is its rate.
    count, errors: operations that succeeded and that failed.
    latency: HDR histogram in the V2 encoding, nanoseconds; empty without an answer.
    recall: mean recall of its answers; None where it is not judged.
    head_s, head_count: the same time and answers of its head, which is left out.
    idle_s: since the last turn of any arm of the same store; 0 before the first. idle_cpu_s:
        processor time that the store's processes used in it; None where that is not known.
    """

    turn: Turn
    began_ns: int
    seconds: float
    count: int
    errors: int
    latency: bytes
    head_s: float
    head_count: int
    recall: float | None = None
    idle_s: float = 0.0
    idle_cpu_s: float | None = None

    @property
    def rate(self) -> float | None:
        """Answers per second; None where no time passed."""
        return self.count / self.seconds if self.seconds > 0 else None

    @property
    def warmth(self) -> float | None:
        """The rate of the head over that of the rest: 1 where handing over costs nothing."""
        if not (self.head_s > 0 and self.seconds > 0 and self.count):
            return None
        return (self.head_count / self.head_s) / (self.count / self.seconds)
