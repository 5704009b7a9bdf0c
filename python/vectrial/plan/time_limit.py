"""Which jobs of a plan still fit a time, judged by how long those before them took."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

#: Stores that are begun in any case while there is time: of one alone nothing is compared.
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
            return self._begins(at_s)
        if self._again is None:
            self._again = self._completed(at_s, self._took_s)
        if repeat > self.repeats:
            if repeat not in self._further:
                all_s = sum(self._took_s[one] for one in self._again)
                self._further[repeat] = at_s + all_s <= self.limit_s
            return label in self._again and self._further[repeat]
        return label in self._again and self._ends(label, at_s)

    def spare(self, label: str, at_s: float) -> bool:
        """True if a job that did not fit is to be measured at `at_s`, when all others have been."""
        return label not in self._took_s and self._ends(label, at_s)

    def took(self, label: str, seconds: float) -> None:
        """Record that a job has ended after so many seconds."""
        self._took_s[label] = max(seconds, self._took_s.get(label, 0.0))

    def _ends(self, label: str, at_s: float) -> bool:
        expected_s = self._took_s.get(label, self._expected_s())
        return at_s + expected_s <= self.limit_s

    def _expected_s(self) -> float:
        """Expected seconds of a store that has not begun."""
        return statistics.median_low(self._took_s.values()) if self._took_s else 0.0

    def _begins(self, at_s: float) -> bool:
        if len(self._took_s) < _LEAST_STORES:
            return at_s < self.limit_s
        if self.each_once:
            return self._ends(_NEXT, at_s)
        next_s = self._expected_s()
        before = self._completed(at_s, self._took_s)
        after = self._completed(at_s + next_s, {**self._took_s, _NEXT: next_s})
        return _NEXT in after and before <= after

    def _completed(self, at_s: float, took_s: Mapping[str, float]) -> frozenset[str]:
        """Labels of the jobs whose remaining repeats fit, the quickest first."""
        labels, end_s = set(), at_s
        for label, seconds in sorted(took_s.items(), key=lambda item: item[1]):
            end_s += (self.repeats - 1) * seconds
            if end_s > self.limit_s:
                break
            labels.add(label)
        return frozenset(labels)
