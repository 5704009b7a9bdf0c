"""Which operating points no other beats, and what they say about a given recall."""

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


def fastest_at(points: Sequence[tuple[float, float]], recall: float) -> int | None:
    """Index of the (recall, qps) point of greatest qps among those of at least this recall."""
    able = [i for i, point in enumerate(points) if point[0] >= recall]
    return max(able, key=lambda i: (points[i][1], points[i][0], -i)) if able else None


def qps_at(points: Sequence[tuple[float, float]], recall: float) -> float | None:
    """Qps at exactly this recall, between two measured (recall, qps) points.

    Linear in recall and in log qps between neighbours of the Pareto front; None when the recall
    is not between two measured points, since nothing is extrapolated.
    """
    front = [points[i] for i in pareto(points)]
    for (r0, q0), (r1, q1) in pairwise(front):
        if r0 <= recall <= r1 and q0 > 0 and q1 > 0:
            share = (recall - r0) / (r1 - r0)
            return math.exp(math.log(q0) * (1 - share) + math.log(q1) * share)
    return next((q for r, q in front if r == recall), None)
