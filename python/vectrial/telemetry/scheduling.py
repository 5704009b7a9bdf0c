"""Scheduling of processes: the time that their threads ran, and the time that they waited to
run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

_PROC = Path("/proc")


@dataclass(frozen=True)
class SchedulingTime:
    """Seconds of all threads together. ran_s: on a processor. waited_s: ready to run, while other
    threads had it."""

    ran_s: float
    waited_s: float

    def __sub__(self, before: SchedulingTime) -> SchedulingTime:
        return SchedulingTime(self.ran_s - before.ran_s, self.waited_s - before.waited_s)


def scheduling_time(pids: Iterable[int]) -> SchedulingTime | None:
    """Seconds of the threads that these processes have now, since each began; None if the kernel
    does not report them (Linux does, in `schedstat`)."""
    ran_ns = waited_ns = 0
    known = False
    for pid in pids:
        try:
            threads = list((_PROC / str(pid) / "task").iterdir())
        except OSError:
            continue  # it has ended
        for thread in threads:
            try:
                text = (thread / "schedstat").read_text()
            except OSError:
                continue
            ran, waited, _ = text.split()
            ran_ns, waited_ns, known = ran_ns + int(ran), waited_ns + int(waited), True
    return SchedulingTime(ran_ns / 1e9, waited_ns / 1e9) if known else None


def descendants(pids: Iterable[int]) -> list[int]:
    """These processes and the processes that they started, as of now."""
    found: dict[int, None] = {}
    for pid in pids:
        try:
            children = psutil.Process(pid).children(recursive=True)
        except psutil.Error:
            continue
        found |= dict.fromkeys([pid, *(child.pid for child in children)])
    return list(found)
