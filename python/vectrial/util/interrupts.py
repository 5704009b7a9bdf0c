"""Ctrl-C, SIGTERM and SIGHUP end a command within seconds, at any moment.

The first one raises `KeyboardInterrupt` where the command is, so that it cleans up. A library can
lose the exception, or delay it while it computes. So it is also recorded: long loops call `check`,
and a thread ends the process if the clean-up takes too long or another signal comes. If Python
drops the exception, because it was raised in a callback of the garbage collector, it is raised
again. If a library turned it into another error, `unwrap_interruption` raises it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

#: The signals that end a command. Those that the caller ignores (`nohup`, a script's `&`) stay
#: ignored.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Seconds that a command may take to clean up.
PATIENCE_S = 4.0
#: A signal within this many seconds of the first one counts as the same: closing a terminal sends
#: several.
_SAME_WISH_S = 1.0
#: Added to a signal's number on the pipe: its interruption was dropped and is to be raised again.
_AGAIN = 128
#: Seconds until then, in which the callback that it was raised in returns.
_AGAIN_S = 0.01


class _SignalState:
    """State of the signals: the signal received (0: none), whether its interruption was raised, the
    message of a forced end, and the seconds until then."""

    number = 0
    raised = False
    hint: Callable[[], str] = str
    patience_s = PATIENCE_S


def exit_code() -> int:
    """The exit status of a command ended by a signal: 128 plus its number, 130 for Ctrl-C."""
    return 128 + (_SignalState.number or signal.SIGINT)


def has_arrived() -> bool:
    """True if a signal that ends the command has arrived."""
    return _SignalState.number != 0


def check() -> None:
    """Raise the interruption that has arrived, unless it was handled already.

    Raises:
        KeyboardInterrupt: an interruption has arrived.
    """
    if _SignalState.number:
        raise KeyboardInterrupt


def set_hint(text: str | Callable[[], str]) -> None:
    """Set the line that an interrupted command prints, such as how to resume; it is printed
    once. A function says it at that moment."""
    _SignalState.hint = text if callable(text) else lambda: text


def hint() -> str:
    """The hint, unless it was printed already."""
    return _SignalState.hint()


def allow_cleanup(seconds: float) -> None:
    """Allow more time for cleaning up, e.g. for a server that has data to write."""
    _SignalState.patience_s = max(_SignalState.patience_s, seconds)


@contextmanager
def handle_signals() -> Iterator[None]:
    """Let signals end the command that runs in the block, as this module describes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _SignalState.number, _SignalState.raised, _SignalState.hint, _SignalState.patience_s = (
        0,
        False,
        str,
        PATIENCE_S,
    )
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    threading.Thread(target=_watch, args=(reading,), daemon=True, name="interrupts").start()
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    before = {one: signal.getsignal(one) for one in _SIGNALS}
    unraisable = sys.unraisablehook

    def raise_again(what: sys.UnraisableHookArgs) -> None:
        if what.exc_type is KeyboardInterrupt and _SignalState.raised:
            os.write(writing, bytes([_SignalState.number + _AGAIN]))
        else:
            unraisable(what)

    try:
        sys.unraisablehook = raise_again
        for one in _SIGNALS:
            if before[one] is not signal.SIG_IGN:
                signal.signal(one, _raise_once)
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
        signal.set_wakeup_fd(wakeup)
        sys.unraisablehook = unraisable
        os.close(writing)  # which ends the thread


@contextmanager
def unwrap_interruption() -> Iterator[None]:
    """Raise an interruption as such if a library turned it into an error of its own, as DuckDB does
    in a query.

    Raises:
        KeyboardInterrupt: the error in the block came from an interruption.
    """
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, KeyboardInterrupt):
            cause = cause.__cause__ or cause.__context__
        if cause is not None and has_arrived():
            raise KeyboardInterrupt from error
        raise


@contextmanager
def end_at_once() -> Iterator[None]:
    """Let signals end the process at once and without a message, as by default, within the block:
    before a command has anything to clean up."""
    ours = [one for one in _SIGNALS if signal.getsignal(one) is _raise_once]
    try:
        for one in ours:
            signal.signal(one, signal.SIG_DFL)
        yield
    finally:
        for one in ours:
            signal.signal(one, _raise_once)


def _raise_once(number: int, frame: FrameType | None) -> None:
    if not _SignalState.raised:
        _SignalState.number, _SignalState.raised = _SignalState.number or number, True
        raise KeyboardInterrupt


def _watch(pipe: int) -> None:
    """End the process if it does not end by itself; `pipe` says which signals came. The pipe is
    read without this interpreter's lock, which the main thread may release only now and then."""
    first: float | None = None
    with os.fdopen(pipe, "rb", buffering=0) as source:
        while True:
            left = None if first is None else first + _SignalState.patience_s - time.monotonic()
            if left is not None and left <= 0:
                _end()
            if not select.select([source], [], [], left)[0]:
                continue
            received = source.read(64)
            if not received:
                return
            for number in (one - _AGAIN for one in received if one > _AGAIN):
                time.sleep(_AGAIN_S)
                _SignalState.raised = False
                os.kill(os.getpid(), number)
            ends = [number for number in received if number in _SIGNALS]
            now = time.monotonic()
            if ends and first is None:
                first = now
                _SignalState.number = _SignalState.number or ends[0]
            elif ends and first is not None and now - first > _SAME_WISH_S:
                _end()


def _end() -> None:
    """End the process and everything that it started at once."""
    with suppress(OSError):
        os.write(2, f"{_SignalState.hint() or 'interrupted'}\n".encode(errors="replace"))
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    os._exit(exit_code())
