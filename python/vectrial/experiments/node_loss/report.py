"""Figures of the loss of a node: what happened second by second, for each kind of fault."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vectrial.analysis.analysis import Facet
from vectrial.analysis.run_data import Point, RunData
from vectrial.document.blocks import Figure
from vectrial.document.charts.theme import (
    Looks,
    chart_of,
    description,
    finish_chart,
    ink,
    legend,
    lines_of,
)
from vectrial.document.charts.vegalite import Settings, channel, constant, layer
from vectrial.util import formatting

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
                    _time_chart(own, value, title, back_s, looks),
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


def _failed_share(point: Point) -> float | None:
    errors, count = point.value("errors"), point.value("count")
    if errors is None or count is None or not errors + count:
        return None
    return 100.0 * errors / (errors + count)


def _recall(point: Point) -> float | None:
    return point.value("recall_mean")


_LINES: tuple[tuple[str, str, Callable[[Point], float | None]], ...] = (
    ("recall", "recall of the answers", _recall),
    ("failed", "% of requests that failed", _failed_share),
)


def _time_chart(
    points: Sequence[Point],
    value: Callable[[Point], float | None],
    title: str,
    back_s: float,
    looks: Looks,
) -> Callable[[int, bool], dict[str, Any]]:
    """Chart of a value for every second, with the loss and the return of the node marked.

    points: points of the phases `second`, of one fault.
    """
    rows = [row for point in points for row in _row(point, value, looks)]
    marks = [{"at": 0.0, "what": "lost"}, {"at": back_s, "what": "back"}]

    def spec(width: int, with_legend: bool) -> dict[str, Any]:
        x = channel(
            "since_s:Q", title="seconds since the node was lost", axis=Settings(tickCount=8)
        )
        y = channel("value:Q", title=title, scale=Settings(zero=True))
        series = list(dict.fromkeys(point.series for point in points))
        key = legend(with_legend, width, len(series))
        lines = lines_of(rows, x, y, looks.scales(series), key)
        base = chart_of(marks)
        rule = base.mark("rule", strokeDash=[4, 3], color=ink("muted")).encode(x="at:Q")
        name = base.mark(
            "text", align="left", baseline="top", dx=4, color=ink("muted"), aria=False
        ).encode(x="at:Q", y=constant(2), text="what:N")
        chart = layer(rule, name, lines).resolve_scale(stroke="independent")
        return finish_chart(chart, width, round(min(260, max(200, width * 0.32))))

    return spec


def _row(
    point: Point, value: Callable[[Point], float | None], looks: Looks
) -> list[dict[str, Any]]:
    at, found = point.value("since_fault_s"), value(point)
    if at is None or found is None:
        return []
    label = looks.labels[point.series]
    return [
        {
            "series": label,
            "since_s": at,
            "value": found,
            "low": found,
            "high": found,
            "ok": point.state == "ok",
            "line": f"{label} {formatting.params(point.index_params)}",
            "description": description(
                ("", label),
                ("second", formatting.number(at)),
                ("value", formatting.number(found)),
                ("index", formatting.params(point.index_params)),
            ),
        }
    ]
