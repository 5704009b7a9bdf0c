"""Processes of this program, and other programs that it waits for."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

PR_SET_PDEATHSIG = 1
#: Seconds between two lines of progress.
_REPORT_S = 5.0


def die_with_parent(parent: int) -> None:
    """End this process when its parent ends, however it ends; on Linux only.

    parent: the parent's process id; the parent may have ended before this call.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def wait_for(
    process: subprocess.Popen[Any], report: Callable[[float], None], every_s: float = _REPORT_S
) -> int:
    """Wait for a process and return its exit status; end the process if interrupted.

    report: called every `every_s` seconds with the seconds that have passed.
    """
    started = time.monotonic()
    try:
        while True:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(every_s)
            report(time.monotonic() - started)
    finally:
        if process.poll() is None:  # Ctrl-C, or `report` raised
            process.terminate()
            process.wait()


def same_process(pid: int, began: float) -> psutil.Process | None:
    """The process with this id that began then; None if it has ended, even if another process has
    its id now. began: seconds since 1970, as psutil tells."""
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - began) < 0.01
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.Error:
        return None


def tail(log: Path, lines: int) -> str:
    """The last lines of a log."""
    return "\n".join(log.read_text(errors="replace").rstrip().splitlines()[-lines:])
