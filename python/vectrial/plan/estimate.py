"""Rough estimates of the time that loads take, and of the remaining time of a run.

Loads dominate: a graph of a million rows takes minutes, a search setting some seconds. Nine of ten
loads of graphs in docs/results took between a third of their estimate and three times as long.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

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


def start_s(store: type[Store]) -> float:
    """Seconds of a job beside its loads, its trials and its warm-up searches."""
    return JOB_S + (0.0 if store.server is None else SERVER_S)


def warm_up_of(store: type[Store], requested_s: float | None) -> float:
    """Seconds for which a store is searched before anything counts; 0 for a library. requested_s:
    the suite's setting; None: what the store declares."""
    if store.server is None:
        return 0.0
    return store.capabilities.warm_up_s if requested_s is None else requested_s


def load_s(store: type[Store], index: Index, rows: int, dim: int) -> float:
    """Seconds until these rows, with this many components, are acknowledged and indexed."""
    served = store.server is not None
    row_s = _row_seconds(_REMOTE_S if served else _LIBRARY_S, dim)
    params = index.params.model_dump()
    if "ef_construction" in params:
        candidates = params["ef_construction"] or _CANDIDATES
        candidates *= max(1.0, (params.get("m") or _LINKS) / _LINKS)
        row_s += candidates * _row_seconds(_CANDIDATE_S, dim) * (_SERVER_FACTOR if served else 1.0)
    return rows * row_s


def _row_seconds(seconds: tuple[float, float], dim: int) -> float:
    """Seconds of a row. seconds: per row, and per component."""
    return seconds[0] + dim * seconds[1]


#: Seconds of estimates that a pace must have seen to count as much as what was expected of it: the
#: first job of a run is slower than the others, or faster.
_EXPECTED_S = 60.0


class Pace:
    """Remaining time of a run, from the times of its jobs relative to their estimates."""

    def __init__(self, total_s: float, expected: float = 1.0) -> None:
        """total_s: the estimate of all jobs. expected: how many times as long they may take."""
        self._total_s, self._done_s = total_s, 0.0
        self._expected = expected
        self._current_s = 0.0
        self._began: float | None = None

    def record_begin(self, estimate_s: float, at_s: float) -> float:
        """Record that a job begins and the one before it has ended; returns the seconds until the
        last one ends.

        at_s: now, on any clock. estimate_s: the job's estimate.
        """
        if self._began is None:
            self._began = at_s
        self._done_s += self._current_s
        self._current_s = estimate_s
        took_s = at_s - self._began + self._expected * _EXPECTED_S
        return took_s / (self._done_s + _EXPECTED_S) * max(0.0, self._total_s - self._done_s)


#: Stores that are begun in any case while there is time, since one store compares with nothing.
_LEAST_STORES = 2
#: The store that is next, about which nothing is known.
_NEXT = ""


@dataclass
class TimeLimit:
    """Decides which jobs of a plan, repeat by repeat, fit a time limit.

    A store begins only if all its repeats are expected to fit, beside those of earlier stores that
    fit. When the first repeat is over, the quickest stores are measured again, as many as can be
    completed. So a slow machine measures fewer stores, each as often as a verdict needs. Stores
    that have not begun then get the time that remains in the end, for one repeat.

    limit_s: seconds from the same start as the `at_s` of the methods.
    repeats: number that a verdict needs; further repeats are measured as long as all of those
        stores fit.
    each_once: a store begins if one repeat of it fits.
    """

    limit_s: float
    repeats: int
    each_once: bool = False
    _took_s: dict[str, float] = field(default_factory=dict)
    _again: frozenset[str] | None = None
    _further: dict[int, bool] = field(default_factory=dict)

    def fits(self, label: str, repeat: int, at_s: float) -> bool:
        """True if a job that would begin at `at_s` is to be measured. label: name that its repeats
        share."""
        if repeat == 1:
            return self._may_begin(at_s)
        if self._again is None:
            self._again = self._completed_labels(at_s, self._took_s)
        if repeat > self.repeats:
            if repeat not in self._further:
                all_s = sum(self._took_s[one] for one in self._again)
                self._further[repeat] = at_s + all_s <= self.limit_s
            return label in self._again and self._further[repeat]
        return label in self._again and self._ends_in_time(label, at_s)

    def fits_spare_time(self, label: str, at_s: float) -> bool:
        """True if a job that did not fit is to be measured at `at_s`, when all others have been."""
        return label not in self._took_s and self._ends_in_time(label, at_s)

    def record_duration(self, label: str, seconds: float) -> None:
        """Record that a job has ended after this many seconds."""
        self._took_s[label] = max(seconds, self._took_s.get(label, 0.0))

    def _ends_in_time(self, label: str, at_s: float) -> bool:
        expected_s = self._took_s.get(label, self._expected_s())
        return at_s + expected_s <= self.limit_s

    def _expected_s(self) -> float:
        """Expected seconds of a store that has not begun."""
        return statistics.median_low(self._took_s.values()) if self._took_s else 0.0

    def _may_begin(self, at_s: float) -> bool:
        if len(self._took_s) < _LEAST_STORES:
            return at_s < self.limit_s
        if self.each_once:
            return self._ends_in_time(_NEXT, at_s)
        next_s = self._expected_s()
        before = self._completed_labels(at_s, self._took_s)
        after = self._completed_labels(at_s + next_s, {**self._took_s, _NEXT: next_s})
        return _NEXT in after and before <= after

    def _completed_labels(self, at_s: float, took_s: Mapping[str, float]) -> frozenset[str]:
        """Labels of the jobs whose remaining repeats fit, the quickest first."""
        labels, end_s = set(), at_s
        for label, seconds in sorted(took_s.items(), key=lambda item: item[1]):
            end_s += (self.repeats - 1) * seconds
            if end_s > self.limit_s:
                break
            labels.add(label)
        return frozenset(labels)
