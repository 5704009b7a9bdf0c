"""The clocks of machines against this one's."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

#: Round trips of a comparison; the shortest counts.
_ASKED = 20
_ANSWER_S = 60.0


@dataclass(frozen=True)
class Offset:
    """Offset of a machine's clock: what to add to its times to get ours, and the greatest error of
    that, in ns."""

    ns: int
    error_ns: int


def offset_of(actor: Any) -> Offset:
    """The offset of a machine's clock, from the shortest of several round trips: it answered
    between the start and the end of the trip (Cristian's method)."""
    import ray

    trips = []
    for _ in range(_ASKED):
        sent = time.perf_counter_ns()
        theirs = ray.get(actor.clock_ns.remote(), timeout=_ANSWER_S)
        back = time.perf_counter_ns()
        trips.append((back - sent, (sent + back) // 2 - theirs))
    took, offset = min(trips)
    return Offset(offset, took // 2)
