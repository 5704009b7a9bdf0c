"""Slices: the parts of a phase that takes turns with those of other stores."""

from __future__ import annotations

from dataclasses import dataclass

#: What counts of a slice, unless it has to be longer.
SLICE_S = 0.05
#: A slice by which lengths are found is sent in so many parts.
PARTS = 10
#: What counts of a slice is slower than at its end by at most this share.
COLDER = 0.01
#: Threads that run for longer than this share of the time ran side by side.
_SERIAL = 1.05


def serial(seconds: float, ran_s: float, waited_s: float) -> bool:
    """True if client and store never had work for more than one thread, as with one client of a
    store without parallel work: time spent waiting for a processor was then lost to others."""
    own_s = seconds - waited_s
    return waited_s >= 0 and own_s > 0 and 0 <= ran_s <= _SERIAL * own_s


@dataclass(frozen=True)
class TurnTime:
    """How long a load takes turns: `seconds` of all its slices together, and the least time of each
    slice that counts."""

    seconds: float
    slice_s: float = SLICE_S


@dataclass(frozen=True)
class Turn:
    """Permission to send for a while.

    session: session of the loads that take turns together. round: from 0; each load has one turn in
        each round of the session. Earlier rounds are below 0, and do not count.
    place: position in its round, from 0.
    length_ns: length of the whole slice. head_ns: length of its start, which is left out of its
        figures because caches, clocks and connections are colder then.
    """

    round: int
    place: int
    length_ns: int
    session: int = 0
    head_ns: int = 0


@dataclass(frozen=True)
class Slice:
    """Measurements of one turn.

    began_ns: `time.perf_counter_ns` when its figures began. seconds: time until the last answer of
        each client, mean over the clients: count / seconds is its rate.
    count, errors: operations that succeeded and that failed.
    latency: HDR histogram in the V2 encoding, nanoseconds; empty without an answer.
    recall: mean recall of its answers; None if it is not judged.
    head_s, head_count: time and answers of its head, which is left out.
    idle_s: seconds since the last turn of any arm of the same store; 0 before the first.
        idle_cpu_s: processor time that the store's processes used meanwhile; None if unknown.
    ran_s, waited_s: seconds in which threads of the client and of the store had a processor, and in
        which they were ready while others had it; None if unknown.
    parts: answers per second of each of its `PARTS` parts, before the first round; else empty.
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
    ran_s: float | None = None
    waited_s: float | None = None
    parts: tuple[float, ...] = ()

    @property
    def rate(self) -> float | None:
        """Answers per second, or None if no time passed."""
        return self.count / self.seconds if self.seconds > 0 else None
