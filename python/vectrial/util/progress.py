"""How long work tells that it goes on."""

from __future__ import annotations

from collections.abc import Callable

#: Called with (done, of, what); `of` is 0 when the end is not known. Never inside a timed sample.
Progress = Callable[[float, float, str], None]


def silent(done: float, of: float, what: str) -> None:
    """Tells nobody."""
