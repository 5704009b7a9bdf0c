"""Faults of servers and their nodes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """Kinds of faults of a node, each with its way back."""

    KILL = "kill"  # its processes end at once; it is started again on the same data
    PAUSE = "pause"  # its processes stand still; they go on
    CUT = "cut"  # its link is down; it is up again


class Crash(StrEnum):
    """Ways in which the process that holds a store's rows ends."""

    KILL = "kill"  # its processes end at once; what they gave to the system is kept
    POWER_CUT = "power_cut"  # so does the machine: only what was on the disk is kept
    RESTART = "restart"  # it ends as it is asked to, and is started again
    COLD = "cold"  # likewise, and its files are in no cache of the system's


@dataclass(frozen=True)
class FaultEvent:
    """A fault that began or ended. node: the node's name. at_ns: `time.perf_counter_ns` before the
    action; took_s: duration of the action."""

    node: str
    fault: Fault
    at_ns: int
    took_s: float
