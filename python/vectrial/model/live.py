"""Current state of a long phase."""

from __future__ import annotations

from dataclasses import dataclass


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
