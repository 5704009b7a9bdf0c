"""Charts of experiments that follow a collection as it grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import altair as alt

from vectrial.report import text
from vectrial.report.data import Point
from vectrial.report.theme import Looks, described, finished, legend, lines_of, log_ticks

_Spec = Callable[[int, bool], dict[str, Any]]


def against_size(points: Sequence[Point], metric: str, looks: Looks) -> _Spec:
    """Latency against the rows that the collection holds."""
    rows = _rows(points, "rows", lambda p: float(p.rows), metric, 1e-3, looks)

    def spec(width: int, with_legend: bool) -> dict[str, Any]:
        x = alt.X(
            "rows:Q",
            title="rows in the collection (log)",
            scale=alt.Scale(type="log", padding=14, nice=False),
            axis=alt.Axis(values=sorted({r["rows"] for r in rows}), format="~s", labelOverlap=True),
        )
        y = alt.Y(
            "value:Q",
            title="latency in ms, p50 (log)",
            scale=alt.Scale(type="log", padding=12, nice=False),
            axis=alt.Axis(format=",.6~r", values=log_ticks([r["value"] for r in rows])),
        )
        return _lines(rows, points, x, y, looks, width, with_legend)

    return spec


def found_over_time(points: Sequence[Point], looks: Looks) -> _Spec:
    """Share of acknowledged rows that a search finds, against the time since the load began."""
    held = sorted(points, key=lambda p: p.value("elapsed_s") or 0.0)
    rows = _rows(held, "rows", lambda p: p.value("elapsed_s") or 0.0, "share_found", 100.0, looks)

    def spec(width: int, with_legend: bool) -> dict[str, Any]:
        x = alt.X("rows:Q", title="seconds since the load began", axis=alt.Axis(tickCount=6))
        y = alt.Y(
            "value:Q",
            title="% of acknowledged rows found",
            scale=alt.Scale(domain=[0, 100]),
        )
        return _lines(rows, held, x, y, looks, width, with_legend)

    return spec


def _rows(
    points: Sequence[Point],
    name: str,
    at: Callable[[Point], float],
    metric: str,
    factor: float,
    looks: Looks,
) -> list[dict[str, Any]]:
    found = []
    for point in points:
        spread = point.spread(metric)
        if spread is None:
            continue
        label = looks.labels[point.series]
        found.append(
            {
                "series": label,
                name: at(point),
                "value": spread.median * factor,
                "low": spread.low * factor,
                "high": spread.high * factor,
                "ok": point.state == "ok",
                "line": f"{label} {text.params(point.index_params)}",
                "description": described(
                    ("", label),
                    ("at", text.number(at(point))),
                    (metric.replace("_", " "), text.number(spread.median * factor)),
                    ("index", text.params(point.index_params)),
                    ("not counted", (point.reason or point.state) if point.state != "ok" else ""),
                ),
            }
        )
    return found


def _lines(
    rows: list[dict[str, Any]],
    points: Sequence[Point],
    x: alt.X,
    y: alt.Y,
    looks: Looks,
    width: int,
    with_legend: bool,
) -> dict[str, Any]:
    series = list(dict.fromkeys(p.series for p in points))
    key = legend(with_legend, width, len(series))
    chart = lines_of(rows, x, y, looks.scales(series), key)
    return finished(chart, width, round(min(320, max(240, width * 0.45))))
