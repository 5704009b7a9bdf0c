"""Load of the machine before anything is measured: the factor by which work takes longer."""

from __future__ import annotations

import hashlib
import math
import os
import threading
import time

#: Greatest slowdown that is reported: a few tenths of a second cannot tell more.
_MOST = 20.0
#: Bytes hashed in one step: while it hashes so many, Python releases its lock.
_STEP_BYTES = 1 << 20


def slowdown(seconds: float = 0.2) -> float:
    """The factor by which work on every processor takes longer than on an idle machine; at least 1.

    One thread for each processor computes for this time. The part of it in which a thread did not
    run went to other processes.
    """
    shares: list[tuple[float, float]] = []
    threads = [
        threading.Thread(target=lambda: shares.append(_computed(seconds)), daemon=True)
        for _ in range(_processors())
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lasted_s, computed_s = (math.fsum(column) for column in zip(*shares, strict=True))
    return min(max(lasted_s / max(computed_s, 1e-3), 1.0), _MOST)


def _processors() -> int:
    """Number of processors that this process may use."""
    # Python 3.11 has it on Linux alone.
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _computed(seconds: float) -> tuple[float, float]:
    """Compute for a time: seconds that passed, and processor seconds of the thread."""
    step = bytes(_STEP_BYTES)
    began, cpu_began = time.perf_counter(), time.thread_time()
    while (passed_s := time.perf_counter() - began) < seconds:
        hashlib.blake2b(step).digest()
    return passed_s, time.thread_time() - cpu_began
