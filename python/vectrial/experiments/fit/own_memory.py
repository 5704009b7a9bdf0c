"""Memory of a measuring process that is not the library's: its modules, the queries with their
neighbours, and the client that sends the load.

The client is rehearsed before there are rows: it sends the load to a searcher that does nothing.
As many bytes as it takes at its peak are allocated as ballast until the client needs them, so that
they count whether the load or the searches take most.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vectrial.model.context import Context
from vectrial.model.phase import Phase
from vectrial.model.store import Hits
from vectrial.model.workload import ClosedLoop, Load, OpenLoop
from vectrial.workload.answer_log import PhaseAnswers
from vectrial.workload.python.closed_loop import closed_loop
from vectrial.workload.python.open_loop import open_loop
from vectrial.workload.queries import arrivals_of, draw_queries

_PROC = Path("/proc/self")
#: Seconds of the rehearsal: every client has sent something by then.
_REHEARSAL_S = 1.0
#: Anonymous memory of a process that has done nothing but import modules.
_BARE = """
import sys, numpy
for name in sys.argv[1:]:
    __import__(name)
status = open("/proc/self/status").read().split()
print(int(status[status.index("RssAnon:") + 1]) * 1024)
"""


class ClientMemory:
    """Memory of the measuring process and its client before rows are there.

    peak_bytes: the greatest anonymous memory while the client was rehearsed; None if the platform
        does not report it.
    """

    def __init__(self, context: Context, load: Load, *, one_thread: bool) -> None:
        self.peak_bytes: int | None = None
        self._ballast: NDArray[np.uint8] | None = None
        if _anonymous_bytes() is None:
            return
        can_reset = _reset_peak()
        _rehearse(context, load, one_thread)
        peak = _peak_bytes() if can_reset else _anonymous_bytes()
        gc.collect()
        now = _anonymous_bytes()
        if peak is None or now is None:
            return
        self.peak_bytes = max(peak, now)
        # Ones: pages of zeros would not be there until somebody writes to them.
        self._ballast = np.ones(self.peak_bytes - now, np.uint8)

    def release(self) -> None:
        """Give back the ballast, for the client to use."""
        self._ballast = None


def bare_bytes(module: str | None) -> int | None:
    """Anonymous memory in bytes of a process that has imported a library, with numpy, and done
    nothing; None if unknown."""
    modules = [module] if module else []
    try:
        done = subprocess.run(
            [sys.executable, "-c", _BARE, *modules],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return int(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _rehearse(context: Context, load: Load, one_thread: bool) -> None:
    """Send the load for a second to a searcher that does nothing."""
    truth = context.truth(context.k, None)
    seed = (context.seed, 0)
    queries = draw_queries(context.dataset, truth, seed, repeat=False, most=arrivals_of(load))
    ids = np.zeros(context.k, np.int64)
    scores = np.zeros(context.k, np.float32)

    def nothing(vector: NDArray[np.float32], /) -> Hits:
        return ids, scores

    if isinstance(load, OpenLoop):
        short = replace(load, duration_s=min(load.duration_s, _REHEARSAL_S))
        open_loop(nothing, queries, truth, short, single_thread=one_thread, check=_unchecked)
        return
    assert isinstance(load, ClosedLoop)
    closed_loop(
        nothing,
        queries,
        truth,
        clients=load.clients,
        min_s=_REHEARSAL_S,
        max_s=_REHEARSAL_S,
        check=_unchecked,
    )


def _unchecked(phase: Phase, answers: PhaseAnswers) -> None:
    """Leave the answers as they are: they are logged, which takes memory."""


def _status() -> dict[str, int]:
    """Memory of this process in bytes by the names of the kernel; empty on other platforms."""
    try:
        lines = (_PROC / "status").read_text().splitlines()
    except OSError:
        return {}
    fields = (line.split() for line in lines if line.endswith(" kB"))
    return {name.rstrip(":"): int(value) << 10 for name, value, _ in fields}


def _anonymous_bytes() -> int | None:
    return _status().get("RssAnon")


def _reset_peak() -> bool:
    """Let the kernel measure the peak of resident memory from now on; False if it does not."""
    try:
        (_PROC / "clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _peak_bytes() -> int | None:
    """The peak of anonymous memory since it was reset: files stay mapped."""
    status = _status()
    if not {"VmHWM", "RssFile", "RssShmem"} <= status.keys():
        return None
    return status["VmHWM"] - status["RssFile"] - status["RssShmem"]
