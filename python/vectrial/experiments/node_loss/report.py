"""Figures of the loss of a node: what happened second by second, for each kind of fault."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vectrial.analysis.analysis import Facet
from vectrial.analysis.run_data import Point, RunData
from vectrial.document.blocks import Figure
from vectrial.document.charts.theme import Looks
from vectrial.experiments.node_loss import charts

_FAULTS = {
    "kill": "A node is killed, and started again",
    "pause": "A node stands still, and goes on",
    "cut": "A node is cut off, and joined again",
}


def figures(run: RunData, facet: Facet, points: Sequence[Point], looks: Looks) -> list[Figure]:
    """Figures of recall, and of the share of failed requests, for each fault."""
    found = []
    seconds = [point for point in points if point.phase == "second"]
    for fault, what in _FAULTS.items():
        own = [point for point in seconds if point.params.get("fault") == fault]
        for name, title, value in _LINES if own else ():
            back_s = float(own[0].params.get("lost_s", 0.0))
            found.append(
                Figure(
                    f"node-loss-{fault}-{name}-{facet.slug}",
                    f"{what}: {title}, {facet.title}",
                    "Each mark is a second of a steady load, the median of the repeats. Upright "
                    "lines: the node was lost, and back.",
                    f"{title} against the time since a node was lost ({fault}) on {facet.title}.",
                    charts.over_time(own, value, title, back_s, looks),
                    run.ordered(own),
                )
            )
    return found


def notes(run: RunData, facet: Facet) -> list[str]:
    """Notes on missing and surplus rows of nodes in the end, and on short answers without an
    error."""
    found = []
    for point in run.select("node_loss", "loss"):
        if (point.dataset, point.rows) != (facet.dataset, facet.rows):
            continue
        name = f"{run.labels[point.series]}, {point.params.get('fault')}"
        short = sum(one.value("short_answers") or 0 for one in point.phases)
        if short:
            found.append(f"{name}: {short:,.0f} answers had fewer than k rows without an error.")
        said = dict.fromkeys(one.reason for one in point.phases if one.reason)
        found += [f"{name}: {reason}." for reason in said]
    return found


def _failed(point: Point) -> float | None:
    errors, count = point.value("errors"), point.value("count")
    if errors is None or count is None or not errors + count:
        return None
    return 100.0 * errors / (errors + count)


def _recall(point: Point) -> float | None:
    return point.value("recall_mean")


_LINES: tuple[tuple[str, str, Callable[[Point], float | None]], ...] = (
    ("recall", "recall of the answers", _recall),
    ("failed", "% of requests that failed", _failed),
)
