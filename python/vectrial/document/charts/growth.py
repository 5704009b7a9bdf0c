"""Charts of experiments that follow a collection as it grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from vectrial.analysis.run_data import Point
from vectrial.document.charts import moments as moment_lines
from vectrial.document.charts.theme import (
    Looks,
    chart_of,
    description,
    finish_chart,
    legend,
    lines_of,
    log_ticks,
)
from vectrial.document.charts.vegalite import Chart, Settings, channel, layer
from vectrial.model.trial import Series
from vectrial.util import formatting

_Spec = Callable[[int, bool], dict[str, Any]]


def chart_by_size(points: Sequence[Point], metric: str, looks: Looks) -> _Spec:
    """Latency against the number of rows in the collection."""
    rows = _rows(points, "rows", lambda p: float(p.rows), metric, 1e-3, looks)

    def spec(width: int, with_legend: bool) -> dict[str, Any]:
        x = channel(
            "rows:Q",
            title="rows in the collection (log)",
            scale=Settings(type="log", padding=14, nice=False),
            axis=Settings(values=sorted({r["rows"] for r in rows}), format="~s", labelOverlap=True),
        )
        y = channel(
            "value:Q",
            title="latency in ms, p50 (log)",
            scale=Settings(type="log", padding=12, nice=False),
            axis=Settings(format=",.6~r", values=log_ticks([r["value"] for r in rows])),
        )
        return _lines(rows, points, x, y, looks, width, with_legend)

    return spec


def found_over_time(points: Sequence[Point], looks: Looks) -> _Spec:
    """Share of acknowledged rows that a search finds, against the time since the load began, with
    lines where a store had acknowledged its last row and where it was ready.

    points: points of the phases `look` and `searchable`.
    """
    looked = [p for p in points if p.phase == "look"]
    looks_in_time = sorted(looked, key=lambda p: p.value("elapsed_s") or 0.0)
    moments = _moments([p for p in points if p.phase == "searchable"], looks)
    rows = _rows(
        looks_in_time, "rows", lambda p: p.value("elapsed_s") or 0.0, "share_found", 100.0, looks
    )

    def spec(width: int, with_legend: bool) -> dict[str, Any]:
        x = channel("rows:Q", title="seconds since the load began", axis=Settings(tickCount=6))
        y = channel(
            "value:Q",
            title="% of acknowledged rows found",
            scale=Settings(domain=[0, 100]),
        )
        colours, _, _ = looks.scales(list(dict.fromkeys(p.series for p in looks_in_time)))
        stroke = channel("series:N", scale=colours, legend=None)
        below = moment_lines.rules(moments, x, stroke) if moments else []
        return _lines(rows, looks_in_time, x, y, looks, width, with_legend, below)

    return spec


def _moments(points: Sequence[Point], looks: Looks) -> list[dict[str, Any]]:
    """Chart rows for the moments of whole loads; points that do not count are left out."""
    return [
        {
            "series": looks.labels[point.series],
            "metric": metric,
            "rows": seconds,
            "description": description(
                ("", looks.labels[point.series]),
                (what, f"{formatting.number(seconds)} s"),
                ("index", formatting.params(point.index_params)),
            ),
        }
        for point in points
        for metric, what in moment_lines.MOMENTS.items()
        if point.state == "ok" and (seconds := point.value(metric)) is not None
    ]


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
                "line": f"{label} {formatting.params(point.index_params)}",
                "description": description(
                    ("", label),
                    ("at", formatting.number(at(point))),
                    (metric.replace("_", " "), formatting.number(spread.median * factor)),
                    ("index", formatting.params(point.index_params)),
                    ("not counted", (point.reason or point.state) if point.state != "ok" else ""),
                ),
            }
        )
    return found


def _lines(
    rows: list[dict[str, Any]],
    points: Sequence[Point],
    x: Settings,
    y: Settings,
    looks: Looks,
    width: int,
    with_legend: bool,
    background: Sequence[Chart] = (),
) -> dict[str, Any]:
    """A chart of lines. background: marks drawn below the lines."""
    series = list(dict.fromkeys(p.series for p in points))
    key = legend(with_legend, width, len(series))
    chart: Any = lines_of(rows, x, y, looks.scales(series), key)
    if background:
        chart = layer(*background, chart).resolve_scale(stroke="independent")
    return finish_chart(chart, width, round(min(320, max(240, width * 0.45))))


@dataclass(frozen=True)
class Forecasts:
    """Chart data of one quantity of one series: measured sizes (rows, value), and forecasts (rows,
    value, low, high), the first of which are at measured sizes."""

    series: Series
    index: str
    measured: Sequence[tuple[float, float]]
    ahead: Sequence[tuple[float, float, float, float]]


def forecasts(
    series_forecasts: Sequence[Forecasts], title: str, scale: float, looks: Looks
) -> _Spec:
    """Measured values over the rows, and forecasts with their intervals beyond them.

    title: title of the values, which are multiplied by `scale`.
    """
    points, bands = [], []
    for one in series_forecasts:
        name = {"series": looks.labels[one.series], "line": f"{one.series} {one.index}"}
        for rows, value in one.measured:
            said = description(
                ("", name["series"]), ("rows", f"{rows:,.0f}"), ("index", one.index),
                (title, formatting.number(value * scale)),
            )  # fmt: skip
            points.append({**name, "rows": rows, "value": value * scale, "description": said})
        for rows, value, low, high in one.ahead:
            bands.append(
                {**name, "rows": rows, "value": value * scale, "low": low * scale,
                 "high": high * scale}
            )  # fmt: skip

    def spec(width: int, with_legend: bool) -> dict[str, Any]:
        every = [value * scale for one in series_forecasts for _, value in one.measured]
        every += [
            end * scale
            for one in series_forecasts
            for _, _, low, high in one.ahead
            for end in (low, high)
        ]
        log = Settings(type="log", padding=12, nice=False)
        x = channel(
            "rows:Q", title="rows (log)", scale=log, axis=Settings(format="~s", tickCount=6)
        )
        axis = Settings(format=",.6~r", values=log_ticks(every))
        y = channel("value:Q", title=f"{title} (log)", scale=log, axis=axis)
        series = [one.series for one in series_forecasts]
        colours, shapes, _ = looks.scales(series)
        key = legend(with_legend, width, len(series))
        colour = channel("series:N", scale=colours, legend=key)
        band = chart_of(bands).encode(x=x, color=colour, detail="line:N")
        marks = chart_of(points).encode(x=x, y=y, color=colour)
        chart = layer(
            band.mark("area", opacity=0.12, aria=False).encode(
                y=channel("low:Q", scale=log), y2="high:Q"
            ),
            band.mark("line", strokeWidth=1.4, strokeDash=[5, 4], aria=False).encode(y=y),
            marks.mark("point", size=70, filled=True, opacity=1).encode(
                shape=channel("series:N", scale=shapes, legend=key), description="description:N"
            ),
        )
        return finish_chart(chart, width, 300)

    return spec
