"""Progress of long work, as functions that the starter of the work passes down."""

from __future__ import annotations

from collections.abc import Callable

#: Called with (done, of, what); `of` is 0 when the end is not known. Never within a timed sample.
Progress = Callable[[float, float, str], None]
#: Called with one line of text, seconds apart. Never within a timed sample.
LineProgress = Callable[[str], None]


def silent(done: float, of: float, what: str) -> None:
    """Report nothing."""
