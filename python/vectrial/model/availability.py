"""Availability of stores on this machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Availability:
    """Availability of a store on this machine.

    works: True; False if it cannot work; None if what it needs is made on first use.
    reason: why it does not work, or what happens on first use; empty if it works.
    remedy: how to make it work, or how to do beforehand what happens on first use; may be empty if
        the reason says it.
    """

    works: bool | None
    reason: str = ""
    remedy: str = ""

    @property
    def text(self) -> str:
        """The reason with its remedy."""
        return ": ".join(filter(None, (self.reason, self.remedy)))
