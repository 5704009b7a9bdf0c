"""Availability of stores on this machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Availability:
    """Availability of a store on this machine.

    works: True; False when it cannot; None when what it needs is made on first use.
    reason: why not, or what happens on first use, with the command; empty when it works.
    """

    works: bool | None
    reason: str = ""
