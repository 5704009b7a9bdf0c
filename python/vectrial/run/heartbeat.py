"""Whether the server of a measurement is still there, watched from beside it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import psutil

from vectrial.servers.base import Server
from vectrial.telemetry.process import ProcessTree

#: Seconds between two looks at a server.
EVERY_S = 10.0
#: A server that gives no sign of life for so many seconds does not answer any more.
SILENCE_S = 45.0
#: Processor time, as a share of one core, and bytes to or from disk a second, that no idle server
#: uses: one that uses more is at work, and may be too busy to answer.
_WORKS_CORES, _WORKS_BYTES = 0.2, 1_000_000
#: The most seconds that one look at the clock adds to a silence, in which a question may have been
#: waited for: the machine may have slept, and whoever watches may have been stopped.
_STEP_S = 15.0


@dataclass(frozen=True)
class _Work:
    """What a server's processes have used until `at` (`time.monotonic`)."""

    at: float
    cpu_s: float
    disk_bytes: int


class Heartbeat:
    """Watches a server from a thread of its own while the block lasts.

    One that is at work is believed to be well, and is not disturbed. One that is not is asked
    whether it answers: once in `EVERY_S`, through its own API.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._trees = [ProcessTree(pid) for pid in _alive(server.processes().values())]
        self._ended = threading.Event()
        self._beats = 0
        self._heard, self._silence_s, self._looked = 0, 0.0, time.monotonic()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="heartbeat")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()  # it may be waiting for an answer that never comes

    def silence_s(self) -> float:
        """For how long there was no sign of life, as far as it was watched; asked often."""
        now, beats = time.monotonic(), self._beats
        passed = min(now - self._looked, _STEP_S)
        self._silence_s = 0.0 if beats != self._heard else self._silence_s + passed
        self._heard, self._looked = beats, now
        return self._silence_s

    def _watch(self) -> None:
        before = self._work()
        while not self._ended.wait(EVERY_S):
            now = self._work()
            if _worked(before, now) or self._server.answers():
                self._beats += 1
            before = now

    def _work(self) -> _Work | None:
        used = [usage for tree in self._trees if (usage := tree.usage()) is not None]
        if not used:
            return None
        disk = sum((one.read_bytes or 0) + (one.write_bytes or 0) for one in used)
        return _Work(time.monotonic(), sum(one.cpu_s for one in used), disk)


def _worked(before: _Work | None, now: _Work | None) -> bool:
    """Whether a server did between two looks what an idle one does not."""
    if before is None or now is None:
        return False
    passed_s = now.at - before.at
    cpu_s, disk = now.cpu_s - before.cpu_s, now.disk_bytes - before.disk_bytes
    return cpu_s >= _WORKS_CORES * passed_s or disk >= _WORKS_BYTES * passed_s


def _alive(pids: Iterable[int]) -> list[int]:
    return [pid for pid in pids if psutil.pid_exists(pid)]
