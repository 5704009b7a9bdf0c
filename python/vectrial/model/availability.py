"""Availability of stores on this machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Availability:
    """Availability of a store on this machine.

    works: True; False when it cannot; None when what it needs is made on first use.
    reason: why not, or what happens on first use; empty when it works.
    remedy: how to make it work, or how to do beforehand what happens on first use; may be empty
        where the reason says it.
    """

    works: bool | None
    reason: str = ""
    remedy: str = ""

    @property
    def text(self) -> str:
        """The reason with its remedy."""
        return ": ".join(filter(None, (self.reason, self.remedy)))
