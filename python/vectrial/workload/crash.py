"""Rows written by a process of its own, whose acknowledgements are noted here; see `crash_writer`.

The process can be stopped, frozen and killed at any moment; the changes that it was sent are known.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Pipe
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.model.errors import StoreError
from vectrial.util.children import program
from vectrial.workload.ledger import Change, ChangeOutcome
from vectrial.workload.python.sdk_process import Opening

Ids = NDArray[np.int64]
Vectors = NDArray[np.float32]
#: Seconds that the process has for its last request when it is asked to stop.
_STOP_S = 60.0


@dataclass(frozen=True)
class NewRows:
    """Rows to be written: ids (n,), vectors (n, d), and columns of metadata by name."""

    ids: Ids
    vectors: Vectors
    columns: Mapping[str, pa.Array[Any]]


@dataclass(frozen=True)
class ChangeScript:
    """Changes to be made in order, one every `interval_s` seconds or as soon as the previous one is
    done; with `flush`, a flush follows unless the script is stopped before.

    rows: the rows written by each change; None for deletes.
    """

    changes: tuple[Change, ...]
    rows: tuple[NewRows | None, ...]
    interval_s: float = 0.0
    flush: bool = False


@dataclass(frozen=True)
class WriterEnd:
    """The message that the writer is done or was stopped. error: error of the flush, or of opening
    the store; empty if there was none."""

    error: str = ""


class CrashWriter:
    """A separate process that creates or opens a store and writes to it.

    Used as a context manager, it leaves no process behind.

    Args:
        opening: the store. create: it does not exist yet.
    """

    def __init__(self, opening: Opening, *, create: bool) -> None:
        self._pipe, theirs = Pipe()
        with theirs:
            command = program(
                "vectrial.workload.crash_writer", str(theirs.fileno()), str(os.getpid())
            )
            self._process = subprocess.Popen(
                command,
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # it is killed with all that it starts
            )
        self._pipe.send((opening, create))
        self._script: ChangeScript | None = None
        self._outcomes: list[ChangeOutcome] = []
        self._ended: WriterEnd | None = None
        self._first, self._done = threading.Event(), threading.Event()
        self._reader: threading.Thread | None = None

    def __enter__(self) -> CrashWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    def begin(self, script: ChangeScript) -> None:
        """Start to make the changes; returns at once."""
        self._script, self._outcomes, self._ended = script, [], None
        self._first.clear()
        self._done.clear()
        self._pipe.send(script)
        self._reader = threading.Thread(target=self._read, daemon=True, name="acknowledgements")
        self._reader.start()

    def wait_first(self, timeout_s: float) -> None:
        """Wait for the answer to the first change, for at most `timeout_s`."""
        self._first.wait(timeout_s)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until all changes were made, or the process has ended; False on timeout.

        Raises:
            StoreError: the store could not be opened, or flushed.
        """
        done = self._done.wait(timeout_s)
        if self._ended is not None and self._ended.error:
            raise StoreError(self._ended.error)
        return done

    def stop(self) -> Sequence[ChangeOutcome]:
        """Stop the writer after its current change; returns the outcomes of all changes that it
        made. A writer that does not end in time is killed."""
        with suppress(BrokenPipeError, OSError):
            self._pipe.send(None)
        if not self._done.wait(_STOP_S):
            self.kill()
        return self.outcomes()

    def freeze(self) -> None:
        """Freeze the writer and all processes that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGSTOP)

    def kill(self) -> None:
        """End the writer by SIGKILL. What it acknowledged before is known. May be called twice."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if self._reader is not None:
            self._reader.join()
        self._pipe.close()

    def outcomes(self) -> Sequence[ChangeOutcome]:
        """Outcomes of the changes so far. The outcome of the change in progress when the process
        ended is not known."""
        known = tuple(self._outcomes)
        if self._script is None or self._ended is not None:
            return known
        failed = (self._script.changes[one.change] for one in known if one.error)
        unknown = {id_ for change in failed for id_ in change.ids}
        begun = known[-1].change + 1 if known else 0
        for number, change in enumerate(self._script.changes[begun:], begun):
            if unknown.isdisjoint(change.ids):
                return (*known, ChangeOutcome(number, time.monotonic_ns(), "no answer"))
        return known

    def _read(self) -> None:
        try:
            while True:
                message = self._pipe.recv()
                if isinstance(message, WriterEnd):
                    self._ended = message
                    return
                self._outcomes.append(message)
                self._first.set()
        except (EOFError, OSError):
            return
        finally:
            self._first.set()
            self._done.set()
