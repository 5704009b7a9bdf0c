"""A group's curve: which recalls it holds, and what its values are at one of them."""

from __future__ import annotations

import statistics

from vectrial.compare.groups import Group, RepeatedPhase
from vectrial.model.results_schema import MetricName
from vectrial.stats.curves import read_within

#: A value, and the ids of the phases that it was measured in or read off between; by repeat.
Values = dict[int, tuple[float, tuple[int, ...]]]


def values(point: RepeatedPhase, metric: MetricName, *, judged: bool) -> Values:
    """The metric by repeat. judged: only repeats whose recall is known."""
    found = point.values(metric.name)
    kept = {r: v for r, v in found.items() if r in point.recalls} if judged else found
    return {r: (value, (point.phases[r].phase_id,)) for r, value in kept.items()}


def curve(group: Group) -> list[RepeatedPhase]:
    """The points whose recall is known."""
    return [point for point in group.sound if point.recalls]


def middle(point: RepeatedPhase) -> float:
    """The median of a point's recalls."""
    return statistics.median(point.recalls.values())


def reach(group: Group) -> tuple[float, float]:
    """The range of recall that every repeat of the curve covers; for a single point, its median."""
    points = curve(group)
    if len(points) == 1:
        return middle(points[0]), middle(points[0])
    curves: dict[int, list[float]] = {}
    for point in points:
        for repeat, recall in point.recalls.items():
            curves.setdefault(repeat, []).append(recall)
    return max(min(c) for c in curves.values()), min(max(c) for c in curves.values())


def gap(a: Group, b: Group) -> float:
    """The smallest difference between median recalls of points of the two sides."""
    return min(abs(middle(p) - middle(q)) for p in curve(a) for q in curve(b))


def along(group: Group, metric: MetricName, recall: float) -> Values:
    """The metric at this recall on each repeat's own curve."""
    points = curve(group)
    if len(points) == 1:
        return values(points[0], metric, judged=True)
    curves: dict[int, list[tuple[float, float]]] = {}
    phases: dict[int, list[int]] = {}
    for point in points:
        known = point.values(metric.name)
        for repeat, found in point.recalls.items():
            if repeat in known:
                curves.setdefault(repeat, []).append((found, known[repeat]))
                phases.setdefault(repeat, []).append(point.phases[repeat].phase_id)
    better = metric.better == "higher"
    at = {r: read_within(own, recall, higher_is_better=better) for r, own in curves.items()}
    return {
        repeat: (read.value, tuple(phases[repeat][i] for i in read.points))
        for repeat, read in at.items()
        if read is not None
    }
