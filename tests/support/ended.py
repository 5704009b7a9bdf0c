"""Whether processes have ended."""

from __future__ import annotations

import time

import psutil


def all_ended(processes: list[psutil.Process], within_s: float = 60.0) -> bool:
    """True once none of them runs; a zombie has ended."""

    def runs(process: psutil.Process) -> bool:
        try:
            return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:  # it has just ended
            return False

    ends = time.monotonic() + within_s
    while any(map(runs, processes)):
        if time.monotonic() > ends:
            return False
        time.sleep(0.05)
    return True
