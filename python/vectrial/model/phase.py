"""Timed parts of a trial: what they start from, the slices of those that take turns with parts of
other trials, and their current state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

#: Length of the part of a slice that counts, unless it has to be longer.
SLICE_S = 0.05
#: Number of parts in which a slice is sent while lengths are being found.
PARTS = 10
#: The part of a slice that counts is slower than its end by at most this share.
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
    """Time for which a load takes turns: `seconds` of all its slices together, and the least time
    of each slice that counts."""

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


class Role(StrEnum):
    """Meaning of a phase's figures, whatever experiment measured them. Reports, prices and
    comparisons across experiments rely on it."""

    #: The dataset's queries, each answered by its nearest rows, and nothing else going on: recall
    #: and QPS stand beside those of any other such phase.
    SEARCH = "search"
    #: One kind of single operation by one client; the phase is named after it.
    OPERATION = "operation"
    #: A whole load, from an empty store until every row is served by the final index.
    LOAD = "load"
    #: Disk and memory of the store with every row loaded.
    SIZE = "size"
    #: The highest rate that was sustained within limits.
    CAPACITY = "capacity"
    #: A step towards a phase such as a capacity; its measurements are not results.
    STEP = "step"


@dataclass
class Phase:
    """A timed part of a trial, as measured.

    role: meaning of its figures beyond the experiment; None if only the experiment knows.

    metrics: name → value, or None with a reason in `missing`. Names are those of
        `vectrial.model.results_schema.METRICS`.
    histograms: name → HDR histogram in the V2 encoding, nanoseconds.
    windows: operation → columns second, count, errors, p50_us, p99_us, max_us, recall.
    errors: (kind, count, first messages).
    started_ns, ended_ns: `time.perf_counter_ns`. paused_ns: time for which its clock stood still in
        between; it really ended that much later.
    unsampled: reason why the server's resource use is unknown; None if everything sampled between
        its start and its yield is its own.
    slices: its slices if it took turns with phases of other stores; its clock stood still between
        them.
    pending: judgements to make once it has been sampled: see `judge_pending`.

    A phase is yielded when it has ended, before anything else is done; whatever is judged or read
    back afterwards is written into it then.
    """

    name: str
    started_ns: int
    ended_ns: int
    params: Mapping[str, Any] = field(default_factory=dict)
    metrics: dict[str, float | None] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    histograms: dict[str, bytes] = field(default_factory=dict)
    windows: dict[str, Mapping[str, Sequence[float | int | None]]] = field(default_factory=dict)
    errors: list[tuple[str, int, list[str]]] = field(default_factory=list)
    valid: bool = True
    reason: str | None = None
    paused_ns: int = 0
    unsampled: str | None = None
    pending: Callable[[], None] | None = None
    role: Role | None = None
    slices: Sequence[Slice] = ()

    def judge_pending(self) -> None:
        """Make the pending judgements of the phase, if any; each is made once."""
        pending, self.pending = self.pending, None
        if pending is not None:
            pending()

    def invalidate(self, why: str) -> None:
        """Mark the phase as not to be trusted, adding this reason to any others."""
        self.valid = False
        self.remark(why)

    def remark(self, what: str) -> None:
        """Add a note on the phase, valid or not, to its notes."""
        self.reason = "; ".join(filter(None, (self.reason, what)))


class State(StrEnum):
    """State of the store that an experiment starts from."""

    EMPTY = "empty"  # no collection yet: the experiment creates and loads it
    LOADED = "loaded"  # every row of the dataset, in the final index


@dataclass(frozen=True)
class Live:
    """The last second of a phase, and how much of the phase is left.

    offered: arrivals a second that the schedule asks for; None in a closed loop.
    achieved: answers a second. p50_us, p99_us, recall: figures of these answers; None if there were
        none, or too few for a percentile.
    errors: number since the start of the phase.
    client_share: processor time of the measuring process over that of the client's threads.
    server_cores: processors that the server keeps busy; None if it is not on this machine.
    remaining_s: seconds to the end; None once it is past its least duration.
    """

    name: str
    offered: float | None
    achieved: float
    p50_us: float | None
    p99_us: float | None
    recall: float | None
    errors: int
    client_share: float
    remaining_s: float | None
    server_cores: float | None = None
