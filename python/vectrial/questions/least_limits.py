"""The search for the least memory and processor time with which a store meets its requirements.

The memory is halved until a limit does not hold, then the greatest that does not and the least that
does are brought together. The processors are halved at the memory found. Then new steps have to
confirm the answer, and one more looks just below it. While searching, a step that is slow or
inconclusive is repeated until two agree. The search is a generator: it yields the limits to try and
is sent the outcome.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass

from vectrial.analysis.fit import LimitsOutcome, LimitsPurpose

MIB = 2**20
#: The least limits that are tried.
_LEAST_BYTES, _LEAST_CPUS = 4 * MIB, 0.1
#: Times that an answer which was not confirmed is raised.
_MOST_RAISES = 6
#: Times that a step which is to confirm is made, where its figures say nothing.
_MOST_LOOKS = 3


@dataclass(frozen=True)
class LimitsRequest:
    """Limits to try."""

    purpose: LimitsPurpose
    memory_bytes: int
    cpus: float


@dataclass(frozen=True)
class Reply:
    """Result of a try. peak_bytes: peak memory used; None if unknown."""

    outcome: LimitsOutcome
    peak_bytes: int | None = None

    @property
    def holds(self) -> bool:
        """True if the store held under the limits."""
        return self.outcome is LimitsOutcome.HOLDS


@dataclass(frozen=True)
class LeastLimits:
    """The least limits that were confirmed, or None; and the greatest lower limits that did not
    hold, or None if nothing so low was tried."""

    memory_bytes: int | None
    cpus: float | None
    low_memory_bytes: int | None = None
    low_cpus: float | None = None


Search = Generator[LimitsRequest, Reply, LeastLimits]


def seek(
    total_bytes: int, most_cpus: float, *, resolution: float = 0.1, confirmations: int = 3
) -> Search:
    """Search for the least limits.

    Args:
        total_bytes, most_cpus: memory and processors of the whole machine, where the search begins.
        resolution: least memory that holds over greatest that does not, less 1.
        confirmations: steps at the answer, all of which must hold.
    """
    whole = yield from _confirmed_reply(LimitsRequest(LimitsPurpose.WHOLE, total_bytes, most_cpus))
    if not whole.holds:
        return LeastLimits(None, None)
    peak = total_bytes if whole.peak_bytes is None else whole.peak_bytes
    high = min(total_bytes, max(_LEAST_BYTES, _mib(peak, up=True)))
    low, high = yield from _least_memory(high, most_cpus, resolution)
    low_cpus, cpus = yield from _least_processors(high, most_cpus)
    for _ in range(_MOST_RAISES + 1):
        reply = yield from _confirm(LimitsRequest(LimitsPurpose.CONFIRM, high, cpus), confirmations)
        if reply.holds:
            if low is not None:
                yield LimitsRequest(LimitsPurpose.BELOW, low, most_cpus)
            return LeastLimits(high, cpus, low, low_cpus)
        if reply.outcome is LimitsOutcome.SLOW and cpus < most_cpus:
            low_cpus, cpus = cpus, min(most_cpus, 2 * cpus)
        else:
            low, high = high, max(high + MIB, _mib(high * (1 + resolution)))
        if high > total_bytes:
            break
    return LeastLimits(None, None, low, low_cpus)


def _least_memory(
    high: int, cpus: float, resolution: float
) -> Generator[LimitsRequest, Reply, tuple[int | None, int]]:
    """The greatest limit that does not hold and the least that does. high: a limit that holds."""
    low: int | None = None
    while True:
        if low is None:
            probe = _mib(high / 2)
            if probe < _LEAST_BYTES:
                return None, high
        elif high <= max(low * (1 + resolution), low + MIB):
            return low, high
        else:
            probe = min(max(_mib(math.sqrt(low * high)), low + MIB), high - MIB)
        reply = yield from _confirmed_reply(LimitsRequest(LimitsPurpose.MEMORY, probe, cpus))
        if reply.holds:
            high = probe
        else:
            low = probe


def _least_processors(
    memory_bytes: int, most: float
) -> Generator[LimitsRequest, Reply, tuple[float | None, float]]:
    """The greatest share that does not hold and the least that does, by bisection."""
    cpus = most
    while cpus / 2 >= _LEAST_CPUS:
        reply = yield from _confirmed_reply(
            LimitsRequest(LimitsPurpose.PROCESSORS, memory_bytes, cpus / 2)
        )
        if not reply.holds:
            return cpus / 2, cpus
        cpus /= 2
    return None, cpus


def _confirmed_reply(attempt: LimitsRequest) -> Generator[LimitsRequest, Reply, Reply]:
    """The reply of two steps that agree: a pause can make one slow, or its figures void."""
    reply = yield attempt
    if reply.outcome not in (LimitsOutcome.SLOW, LimitsOutcome.UNKNOWN):
        return reply
    again = yield attempt
    return (yield attempt) if again.holds else again


def _confirm(attempt: LimitsRequest, count: int) -> Generator[LimitsRequest, Reply, Reply]:
    """The first reply that does not hold, or the last."""
    reply = Reply(LimitsOutcome.UNKNOWN)
    for _ in range(count):
        for _ in range(_MOST_LOOKS):
            reply = yield attempt
            if reply.outcome is not LimitsOutcome.UNKNOWN:
                break
        if not reply.holds:
            break
    return reply


def _mib(size_bytes: float, *, up: bool = False) -> int:
    """A size in whole MiB."""
    return (math.ceil if up else round)(size_bytes / MIB) * MIB
