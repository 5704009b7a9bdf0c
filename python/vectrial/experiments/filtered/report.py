"""Figures of searches under filters: one of recall and one of speed for each predicate."""

from __future__ import annotations

from collections.abc import Sequence

from vectrial.analysis.analysis import Facet, operating_point
from vectrial.analysis.run_data import Point, RunData
from vectrial.document.blocks import Figure
from vectrial.document.charts.theme import Looks
from vectrial.experiments.filtered import charts

#: Predicate → what rows it keeps, in words.
_KEEPS = {
    "column": "rows by a condition on the dataset's own columns",
    "independent": "rows independent of the query",
    "aligned": "rows near the query",
    "opposed": "rows far from the query",
}
_METRICS = {"recall_mean": "Recall", "qps": "QPS"}


def figures(run: RunData, facet: Facet, points: Sequence[Point], looks: Looks) -> list[Figure]:
    """Figures for the fewest clients, if more than one share was measured."""
    clients = min(int(p.params.get("clients", 1)) for p in points)
    alone = [p for p in points if int(p.params.get("clients", 1)) == clients]
    found = []
    for predicate, keeps in _KEEPS.items():
        members = [p for p in alone if p.params.get("predicate") == predicate]
        if len({p.value("selectivity") for p in members} - {None}) < 2:
            continue
        drawn = [*members, *_without_filter(members, alone, run)]
        found += [
            Figure(
                f"filtered-{predicate}-{metric.replace('_', '-')}-{facet.slug}",
                f"{what} under filters that keep {keeps}: {facet.title}",
                "At 100 % there is no filter. Solid marks: filters read columns with indexes, or "
                "as the store itself decides; hollow ones on a line: without indexes. Hollow "
                "marks off a line are invalid or failed the gate.",
                f"{what} against the share of the rows that a filter keeps ({predicate}) on "
                f"{facet.title}.",
                charts.against_share(drawn, metric, looks),
                run.ordered(drawn),
            )
            for metric, what in _METRICS.items()
            if any(p.value(metric) is not None and p.value("selectivity") for p in drawn)
        ]
    return found


def _without_filter(members: Sequence[Point], every: Sequence[Point], run: RunData) -> list[Point]:
    """The unfiltered search that belongs to each line, with the same series, index, setting and
    arm: the one on the same load, or else the one measured first."""
    trials = {phase.phase_id: trial.trial_id for trial in run.trials for phase in trial.phases}

    def loads(points: Sequence[Point]) -> set[int]:
        return {trials[phase.phase_id] for point in points for phase in point.phases}

    def line(point: Point) -> tuple[object, ...]:
        setting = operating_point(point, without=charts.SHOWN)
        return point.series, setting, point.params.get("payload_index")

    unfiltered = [point for point in every if point.params.get("predicate") == "none"]
    filtered = loads(members)
    unfiltered.sort(key=lambda point: not loads([point]) & filtered)
    wanted = {line(point) for point in members}
    found: dict[tuple[object, ...], Point] = {}
    for point in unfiltered:
        if line(point) in wanted:
            found.setdefault(line(point), point)
    return list(found.values())
