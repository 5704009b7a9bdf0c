"""The time limit of a trial: a signal of the parent ends the trial where it stands, which keeps the
phases that it has measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class TimeIsUp(KeyboardInterrupt):
    """The trial has reached its time limit. Like Ctrl-C this is nobody's error: no client retries,
    and no sample records it."""


class BlockTimer:
    """Lets a signal end a block of the main thread, once."""

    def __init__(self, is_sending: Callable[[], bool]) -> None:
        """is_sending: true while the block must not end; the parent repeats its signal."""
        self._is_sending = is_sending
        self._open = False

    @contextmanager
    def block(self) -> Iterator[None]:
        """A context that the signal ends with `TimeIsUp`."""
        self._open = True
        try:
            yield
        finally:
            self._open = False

    def handle_signal(self, *_: object) -> None:
        """Handle the signal."""
        if self._open and not self._is_sending():
            self._open = False
            raise TimeIsUp
