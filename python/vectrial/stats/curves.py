"""Curves of operating points: which no other beats, and what lies between two measured ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise


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


def value_at(
    points: Sequence[tuple[float, float]], recall: float, *, higher_is_better: bool = True
) -> float | None:
    """The value at exactly this recall, between two measured (recall, value) points.

    Linear in recall and in the logarithm of the value between neighbours of the Pareto front;
    values of 0 and less lie on no curve. None when the recall is not between two measured
    points: nothing is extrapolated.
    """
    sign = 1.0 if higher_is_better else -1.0
    curve = [(r, v) for r, v in points if v > 0]
    front = [curve[i] for i in pareto([(r, sign * v) for r, v in curve])]
    for (r0, v0), (r1, v1) in pairwise(front):
        if r0 < recall < r1:
            share = (recall - r0) / (r1 - r0)
            return math.exp(math.log(v0) * (1 - share) + math.log(v1) * share)
    return next((v for r, v in front if r == recall), None)


def value_within(
    points: Sequence[tuple[float, float]], recall: float, *, higher_is_better: bool = True
) -> float | None:
    """As `value_at`; below the front, but not below every point, the value at the front's end.

    That end beats every point of less recall: whoever asks for less is served best by it.
    """
    found = value_at(points, recall, higher_is_better=higher_is_better)
    if found is not None:
        return found
    sign = 1.0 if higher_is_better else -1.0
    curve = [(r, v) for r, v in points if v > 0]
    if not curve or not min(curve)[0] <= recall <= max(curve)[0]:
        return None
    return curve[pareto([(r, sign * v) for r, v in curve])[0]][1]
