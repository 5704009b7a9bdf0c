"""The load that an experiment offers, the same for every lane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Most requests in flight in an open loop: large enough that reaching it is worth a remark.
IN_FLIGHT = 10_000


@dataclass(frozen=True)
class ClosedLoop:
    """A number of clients, each with one request in flight, who send the next when it is answered.

    All queries are sent in whole passes, so that each weighs the same, until `min_s` seconds have
    passed; no request is sent `max_s` seconds after the start or later. If both are equal, the
    phase ends by the clock alone.
    """

    clients: int = 1
    min_s: float = 1.0
    max_s: float = 20.0

    @property
    def by_clock(self) -> bool:
        """True if the phase ends by the clock alone."""
        return self.min_s >= self.max_s


@dataclass(frozen=True)
class OpenLoop:
    """Requests sent when a schedule says, whether earlier ones were answered or not.

    arrivals: "constant" or "poisson" with `rate` a second, or "trace" with `offsets`.
    offsets: int64, ns from the start, ascending. trace: a name that distinguishes them from others.
    in_flight: most requests at once; arrivals that find no room wait, and are counted.
    """

    rate: float
    duration_s: float
    arrivals: str = "poisson"
    offsets: NDArray[np.int64] | None = None
    in_flight: int = IN_FLIGHT
    trace: str = ""

    @property
    def pattern(self) -> str:
        """Arrival pattern of requests, as results report it."""
        return f"{self.arrivals} {self.trace}".rstrip()


Load = ClosedLoop | OpenLoop
