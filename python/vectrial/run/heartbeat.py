"""Liveness of a server while it is measured."""

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

#: Seconds between two checks.
EVERY_S = 10.0
#: A server without a sign of life for this many seconds counts as not answering.
SILENCE_S = 45.0
#: CPU time, as a share of one core, and disk bytes per second above which a server counts as busy.
#: A busy server may be too slow to answer.
_WORKS_CORES, _WORKS_BYTES = 0.2, 1_000_000
#: Maximum seconds that one check adds to a silence: the machine may have slept.
_STEP_S = 15.0


@dataclass(frozen=True)
class _ServerWork:
    """CPU time and disk bytes of a server's processes until `at` (`time.monotonic`)."""

    at: float
    cpu_s: float
    disk_bytes: int


class Heartbeat:
    """Checks a server every `EVERY_S` from a thread. A busy server counts as alive; an idle one is
    queried through its API."""

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
        self._ended.set()  # not joined: it may wait for an answer

    def silence_s(self) -> float:
        """Seconds without a sign of life; must be called often."""
        now, beats = time.monotonic(), self._beats
        passed = min(now - self._looked, _STEP_S)
        self._silence_s = 0.0 if beats != self._heard else self._silence_s + passed
        self._heard, self._looked = beats, now
        return self._silence_s

    def _watch(self) -> None:
        before = self._work()
        while not self._ended.wait(EVERY_S):
            now = self._work()
            if _has_worked(before, now) or self._server.is_answering():
                self._beats += 1
            before = now

    def _work(self) -> _ServerWork | None:
        used = [usage for tree in self._trees if (usage := tree.usage()) is not None]
        if not used:
            return None
        disk = sum((one.read_bytes or 0) + (one.write_bytes or 0) for one in used)
        return _ServerWork(time.monotonic(), sum(one.cpu_s for one in used), disk)


def _has_worked(before: _ServerWork | None, now: _ServerWork | None) -> bool:
    """True if between two checks a server used more than an idle one would."""
    if before is None or now is None:
        return False
    passed_s = now.at - before.at
    cpu_s, disk = now.cpu_s - before.cpu_s, now.disk_bytes - before.disk_bytes
    return cpu_s >= _WORKS_CORES * passed_s or disk >= _WORKS_BYTES * passed_s


def _alive(pids: Iterable[int]) -> list[int]:
    return [pid for pid in pids if psutil.pid_exists(pid)]
