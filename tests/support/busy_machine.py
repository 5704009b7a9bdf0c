"""What a test accepts of a machine that stands still for seconds, and only that."""

from __future__ import annotations

#: What the reasons of a load begin with whose requests came too late.
_TOO_LATE = ("overloaded: ", "no room for ")
#: The same where not one could be sent in its time.
_NONE_SENT = "nothing was measured"
#: The end of the reason where a phase was told too late.
_NOT_SAMPLED = "after its end: what the server did in it is not known"


def only_late(reason: str | None) -> bool:
    """True if a load is invalid for nothing but requests that came too late."""
    faults = (reason or "").split("; ")
    return all(fault.startswith(_TOO_LATE) or fault == _NONE_SENT for fault in faults)


def told_late(reason: str | None) -> bool:
    """True if a server's use is unknown since the phase was told too late."""
    return (reason or "").endswith(_NOT_SAMPLED)
