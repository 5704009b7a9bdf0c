"""What a test accepts of a machine that stands still for seconds, and how it waits for one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: What the reasons of a load begin with whose requests came too late.
_TOO_LATE = ("overloaded: ", "no room for ")
#: The same where not one could be sent in its time.
_NONE_SENT = "nothing was measured"
#: The end of the reason where the sampler heard of a phase too late.
_NOT_SAMPLED = "after its end: what the server did in it is not known"


def only_late(reason: str | None) -> bool:
    """True if a load is invalid for nothing but requests that came too late."""
    faults = (reason or "").split("; ")
    return all(fault.startswith(_TOO_LATE) or fault == _NONE_SENT for fault in faults)


def missed_by_sampler(reason: str | None) -> bool:
    """True if a server's use is unknown because the sampler heard of the phase too late."""
    return (reason or "").endswith(_NOT_SAMPLED)


def until(look: Callable[[], T], timeout_s: float = 120) -> T:
    """What `look` finds, once it finds something."""
    deadline = time.monotonic() + timeout_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"nothing was found in {timeout_s} s"
        time.sleep(0.1)
    return found
