"""Which jobs of a plan still fit a time, judged by how long those before them took."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Stores that are begun in any case while there is time: of one alone nothing is compared.
_LEAST_STORES = 2


@dataclass
class TimeLimit:
    """Jobs in the order of a plan, repeat by repeat.

    A store begins only if time remains for all its repeats and for those of the stores before it;
    when the first repeat is over, the quickest stores are measured again, as many as can be
    completed. So a slow machine measures fewer stores, and those as often as a verdict needs.

    limit_s: seconds from the same start as the `at_s` of the methods.
    each_once: a store begins while there is time for one repeat of it.
    """

    limit_s: float
    repeats: int
    each_once: bool = False
    _took_s: dict[str, float] = field(default_factory=dict)
    _again: frozenset[str] | None = None

    def fits(self, label: str, repeat: int, at_s: float) -> bool:
        """True if a job that would begin at `at_s` is to be measured. label: what its repeats have
        in common."""
        if repeat == 1:
            return self._begins(at_s)
        if self._again is None:
            self._again = self._completed(at_s)
        return label in self._again and at_s + self._took_s[label] <= self.limit_s

    def took(self, label: str, seconds: float) -> None:
        """A job has ended after so many seconds."""
        self._took_s[label] = max(seconds, self._took_s.get(label, 0.0))

    def left_s(self, at_s: float) -> float:
        """Seconds of the time that are left."""
        return max(0.0, self.limit_s - at_s)

    def _begins(self, at_s: float) -> bool:
        if len(self._took_s) < _LEAST_STORES:
            return at_s < self.limit_s
        sum_s = sum(self._took_s.values())
        next_s = sum_s / len(self._took_s)
        later_s = 0.0 if self.each_once else (self.repeats - 1) * (sum_s + next_s)
        return at_s + next_s + later_s <= self.limit_s

    def _completed(self, at_s: float) -> frozenset[str]:
        """Labels of the jobs whose remaining repeats fit, the quickest first."""
        kept, end_s = set(), at_s
        for label, seconds in sorted(self._took_s.items(), key=lambda item: item[1]):
            end_s += (self.repeats - 1) * seconds
            if end_s > self.limit_s:
                break
            kept.add(label)
        return frozenset(kept)
