"""Curves of operating points: which no other beats, and what lies between two measured ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

#: A recall of 1 has no odds: a miss among this many answers is not seen.
_ANSWERS = 10_000


@dataclass(frozen=True)
class CurveReading:
    """A value read off a curve.

    points: indices of the points that it was read from: two if it lies between them, one if it is
        that point's value.
    """

    value: float
    points: tuple[int, ...]


def pareto(points: Sequence[tuple[float, float]]) -> list[int]:
    """Indices of the points that no other point beats, by ascending x.

    A point is beaten by one that is at least as great in both coordinates and greater in one.
    Of equal points the first is kept.
    """
    front: list[int] = []
    best = -math.inf
    order = sorted(range(len(points)), key=lambda i: (-points[i][0], -points[i][1], i))
    for index in order:
        if points[index][1] > best:
            best = points[index][1]
            front.append(index)
    return front[::-1]


def read_at(
    points: Sequence[tuple[float, float]], recall: float, *, higher_is_better: bool = True
) -> CurveReading | None:
    """The value at exactly this recall, between two measured (recall, value) points.

    Linear in the logarithms of the value and of the odds of a hit between neighbours of the Pareto
    front: for graphs, both are about linear in the logarithm of `ef_search`. Values of 0 and less
    lie on no curve. None if the recall is not between two measured points: nothing is extrapolated.
    """
    front = _front(points, higher_is_better)
    for low, high in pairwise(front):
        (r0, v0), (r1, v1) = points[low], points[high]
        if r0 < recall < r1:
            share = _share(r0, recall, r1)
            value = math.exp(math.log(v0) * (1 - share) + math.log(v1) * share)
            return CurveReading(value, (low, high))
    exact = (i for i in front if points[i][0] == recall)
    return next((CurveReading(points[i][1], (i,)) for i in exact), None)


def read_within(
    points: Sequence[tuple[float, float]], recall: float, *, higher_is_better: bool = True
) -> CurveReading | None:
    """The value as in `read_at`, or at the front's end if below the front but not every point.

    That end beats every point of less recall: it is the best choice for any lower recall.
    """
    found = read_at(points, recall, higher_is_better=higher_is_better)
    if found is not None:
        return found
    recalls = [r for r, v in points if v > 0]
    if not recalls or not min(recalls) <= recall <= max(recalls):
        return None
    end = _front(points, higher_is_better)[0]
    return CurveReading(points[end][1], (end,))


def log_odds(recall: float) -> float:
    """Logarithm of the odds of a hit, recall / (1 - recall); finite for 0 and 1, too."""
    inside = min(max(recall, 1 / _ANSWERS), 1 - 1 / _ANSWERS)
    return math.log(inside / (1 - inside))


def _share(low: float, recall: float, high: float) -> float:
    """Share of the way from one recall to another, by the logarithms of their odds."""
    begin, at, end = (log_odds(one) for one in (low, recall, high))
    return (at - begin) / (end - begin) if begin < end else (recall - low) / (high - low)


def _front(points: Sequence[tuple[float, float]], higher_is_better: bool) -> list[int]:
    """Indices of the Pareto front among the points that lie on a curve."""
    sign = 1.0 if higher_is_better else -1.0
    drawn = [i for i, (_, value) in enumerate(points) if value > 0]
    front = pareto([(points[i][0], sign * points[i][1]) for i in drawn])
    return [drawn[i] for i in front]
