"""The load that an experiment offers, the same for every lane."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Closed:
    """So many clients, each with one request in flight, who send the next when it is answered.

    All queries are asked in whole passes, so that each weighs the same, until `min_s` seconds
    have gone; no request is sent `max_s` seconds after the start or later. With both equal the
    phase ends by the clock alone.
    """

    clients: int = 1
    min_s: float = 1.0
    max_s: float = 20.0

    @property
    def by_clock(self) -> bool:
        """The phase ends by the clock alone."""
        return self.min_s >= self.max_s
