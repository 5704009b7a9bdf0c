"""Rough estimates of how long loads take, and how long a run still takes.

Loads decide: a graph of a million rows takes minutes, a search setting some seconds. Nine of ten
loads of graphs in docs/results took between a third of their estimate and three times as long.
"""

from __future__ import annotations

from vectrial.model.capabilities import Index
from vectrial.model.store import Store

#: Seconds that the measuring process and the gate take, and the start of a server.
JOB_S, SERVER_S = 3.0, 12.0
#: Seconds of a row, and of each of its components: in a library, and in a server.
_LIBRARY_S, _REMOTE_S = (20e-6, 0.1e-6), (250e-6, 0.3e-6)
#: Seconds of a row in a graph, and of each of its components, per candidate of its construction:
#: of a library with at most `_LINKS` links per row. A server takes `_SERVER_FACTOR` times as long.
_CANDIDATE_S = (0.7e-6, 1e-9)
_LINKS, _SERVER_FACTOR = 16, 2.0
#: Candidates of a construction that are left to the store.
_CANDIDATES = 128


def begin_s(store: type[Store]) -> float:
    """Seconds of a job beside its loads, its trials and its warm-up searches."""
    return JOB_S + (0.0 if store.server is None else SERVER_S)


def warm_up_of(store: type[Store], wanted: float | None) -> float:
    """Seconds for which a store is searched before anything counts; 0 for a library. wanted: the
    suite's setting; None: what the store declares."""
    if store.server is None:
        return 0.0
    return store.capabilities.warm_up_s if wanted is None else wanted


def load_s(store: type[Store], index: Index, rows: int, dim: int) -> float:
    """Seconds until so many rows of so many components are acknowledged and indexed."""
    served = store.server is not None
    row_s = _of_row(_REMOTE_S if served else _LIBRARY_S, dim)
    params = index.params.model_dump()
    if "ef_construction" in params:
        candidates = params["ef_construction"] or _CANDIDATES
        candidates *= max(1.0, (params.get("m") or _LINKS) / _LINKS)
        row_s += candidates * _of_row(_CANDIDATE_S, dim) * (_SERVER_FACTOR if served else 1.0)
    return rows * row_s


def _of_row(seconds: tuple[float, float], dim: int) -> float:
    """Seconds of a row. seconds: per row, and per component."""
    return seconds[0] + dim * seconds[1]


class Pace:
    """Remaining time of a run, from the times of its jobs relative to their estimates."""

    def __init__(self, total_s: float) -> None:
        """total_s: the estimate of all jobs."""
        self._total_s, self._done_s = total_s, 0.0
        self._current_s = 0.0
        self._began: float | None = None

    def begins(self, estimate_s: float, at_s: float) -> float | None:
        """Record that a job begins and the one before it has ended; returns the seconds until the
        last one ends, None for the first job.

        at_s: now, on any clock. estimate_s: the job's estimate.
        """
        if self._began is None:
            self._began = at_s
        self._done_s += self._current_s
        self._current_s = estimate_s
        if not self._done_s:
            return None
        return (at_s - self._began) / self._done_s * max(0.0, self._total_s - self._done_s)
