"""Charts of the loss of a node: a line per cluster against the time since the loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vectrial.analysis.run_data import Point
from vectrial.document.charts.theme import (
    Looks,
    chart_of,
    described,
    finished,
    ink,
    legend,
    lines_of,
)
from vectrial.document.charts.vegalite import Settings, channel, constant, layer
from vectrial.experiments.node_loss.metrics import OWN
from vectrial.util import formatting

_SINCE = OWN["since_fault_s"].name


def over_time(
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
        return finished(chart, width, round(min(260, max(200, width * 0.32))))

    return spec


def _row(
    point: Point, value: Callable[[Point], float | None], looks: Looks
) -> list[dict[str, Any]]:
    at, found = point.value(_SINCE), value(point)
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
            "description": described(
                ("", label),
                ("second", formatting.number(at)),
                ("value", formatting.number(found)),
                ("index", formatting.params(point.index_params)),
            ),
        }
    ]
