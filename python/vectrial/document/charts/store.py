"""Charts of what a store costs: loading, single operations, size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vectrial.analysis.analysis import loaded_rows
from vectrial.analysis.run_data import Point
from vectrial.document.charts.theme import (
    NARROW,
    Looks,
    chart_of,
    description,
    finish_chart,
    ink,
    legend,
    lines_of,
    log_ticks,
    plot_width,
)
from vectrial.document.charts.vegalite import Settings, channel, constant, layer
from vectrial.model.trial import Series
from vectrial.util import formatting

#: The steps until every row is served by the final index, in their order.
STEPS = ("load", "flush", "build", "wait", "first_search")


def _bars_height(count: int, each: int = 26) -> int:
    return max(60, count * each)


def ingest_rate(points: Sequence[Point], metric: str, looks: Looks) -> Any:
    """Rows per second against rows loaded."""
    rows: list[dict[str, Any]] = []
    for point in points:
        spread = point.spread(metric)
        if spread is None:
            continue
        label = looks.labels[point.series]
        rows.append(
            {
                "series": label,
                "rows": loaded_rows(point),
                "rate": spread.median,
                "low": max(spread.low, 1e-9),
                "high": spread.high,
                "ok": point.state == "ok",
                "line": f"{label} {formatting.params(point.index_params)}",
                "description": description(
                    ("", label),
                    ("rows", f"{loaded_rows(point):,}"),
                    ("rows per second", formatting.number(spread.median)),
                    ("index", formatting.params(point.index_params)),
                    ("not counted", (point.reason or point.state) if point.state != "ok" else ""),
                ),
            }
        )
    series = list(dict.fromkeys(p.series for p in points))
    sizes = sorted({r["rows"] for r in rows})

    def spec(width: int, with_legend: bool) -> dict[str, Any]:
        key = legend(with_legend, width, len(series))
        x = channel(
            "rows:Q",
            title="rows loaded",
            scale=Settings(type="log", padding=14, nice=False),
            axis=Settings(values=sizes, format="~s", labelOverlap=True),
        )
        y = channel(
            "rate:Q",
            title="rows per second, until all are served (log)"
            if metric == "ready_rows_per_s"
            else "rows per second (log)",
            scale=Settings(type="log", padding=12, nice=False),
            axis=Settings(format="~s", values=log_ticks([r["rate"] for r in rows])),
        )
        chart = lines_of(rows, x, y, looks.scales(series), key)
        return finish_chart(chart, width, round(min(320, max(240, width * 0.45))))

    return spec


def ingest_steps(points: Sequence[Point], names: Sequence[str]) -> Any:
    """Stacked bars: duration of each of `STEPS`. `names` are the bars' names."""
    rows: list[dict[str, Any]] = []
    for name, point in zip(names, points, strict=True):
        for order, step in enumerate(STEPS):
            seconds = point.value(f"{step}_s")
            if seconds is not None:
                rows.append(
                    {
                        "name": name,
                        "step": step.replace("_", " "),
                        "order": order,
                        "seconds": seconds,
                        "description": description(
                            ("", name), (step.replace("_", " "), formatting.seconds(seconds)),
                            ("index", formatting.params(point.index_params)),
                        ),
                    }
                )  # fmt: skip

    def spec(width: int, with_legend: bool) -> dict[str, Any]:
        inks = [ink(f"step{i + 1}") for i in range(len(STEPS))]
        steps = Settings(domain=[step.replace("_", " ") for step in STEPS], range=inks)
        chart = (
            chart_of(rows)
            .mark("bar", height={"band": 0.68})
            .encode(
                x=channel("seconds:Q", title="seconds", stack="zero", axis=Settings(tickCount=6)),
                y=channel("name:N", title=None, sort=list(names), axis=_names()),
                color=channel(
                    "step:N",
                    scale=steps,
                    legend=Settings(orient="top", title=None, direction="horizontal"),
                ),
                order="order:Q",
                description="description:N",
            )
        )
        return finish_chart(chart, plot_width(width), _bars_height(len(names)))

    return spec


def _names() -> Settings:
    return Settings(grid=False, ticks=False, domain=False, labelColor=ink("ink"), labelPadding=6)


def footprint(
    points: Sequence[Point], names: Sequence[str], metric: str, raw: float, looks: Looks
) -> Any:
    """Bars of bytes beside a rule at the raw bytes."""
    rows: list[dict[str, Any]] = []
    for name, point in zip(names, points, strict=True):
        spread = point.spread(metric)
        if spread is None:
            continue
        rows.append(
            {
                "name": name,
                "series": looks.labels[point.series],
                "mb": spread.median / 1e6,
                "low": spread.low / 1e6,
                "high": spread.high / 1e6,
                "shown": formatting.size(spread.median),
                "ok": point.state == "ok",
                "description": description(
                    ("", name),
                    ("size", formatting.size(spread.median)),
                    ("times the raw bytes", formatting.number(spread.median / raw) if raw else ""),
                    ("index", formatting.params(point.index_params)),
                    ("not counted", (point.reason or point.state) if point.state != "ok" else ""),
                ),
            }
        )
    series = list(dict.fromkeys(p.series for p in points))
    title = "MB on disk after flush" if metric == "disk_bytes" else "MB resident, grown by loading"

    def spec(width: int, with_legend: bool) -> dict[str, Any]:
        colours, _, _ = looks.scales(series)
        most = max([r["high"] for r in rows] + [raw / 1e6])
        base = chart_of(rows).encode(
            x=channel(
                "mb:Q",
                title=title,
                scale=Settings(domain=[0, most * (1.12 if width >= NARROW else 1.25)]),
                axis=Settings(tickCount=6 if width >= NARROW else 4, format=",.6~r"),
            ),
            y=channel("name:N", title=None, sort=list(names), axis=_names()),
        )
        hue = channel("series:N", scale=colours, legend=None)
        layers: list[Any] = [
            base.filter("datum.ok")
            .mark("bar", height={"band": 0.62}, cornerRadiusEnd=2)
            .encode(color=hue, description="description:N"),
            base.filter("!datum.ok")
            .mark("bar", height={"band": 0.62}, filled=False, strokeDash=[4, 3])
            .encode(stroke=hue, description="description:N"),
            base.mark("text", align="left", dx=5, aria=False).encode(text="shown:N"),
        ]
        if raw:
            rule = chart_of([{"raw": raw / 1e6, "label": "raw bytes"}])
            layers += [
                rule.mark("rule", color=ink("ink"), strokeDash=[4, 3], aria=False).encode(
                    x="raw:Q"
                ),
                rule.mark(
                    "text",
                    align="left",
                    dx=4,
                    dy=-6,
                    baseline="bottom",
                    color=ink("ink"),
                    aria=False,
                ).encode(x="raw:Q", y=constant(0), text="label:N"),
            ]
        return finish_chart(layer(*layers), plot_width(width), _bars_height(len(names)))

    return spec


def operations(points: Sequence[Point], order: Sequence[str], looks: Looks) -> Any:
    """Median to 99th percentile of every single operation, a lane per operation and store."""
    rows: list[dict[str, Any]] = []
    for point in points:
        p50, p99 = point.value("latency_p50"), point.value("latency_p99")
        if p50 is None:
            continue
        label = looks.labels[point.series]
        rows.append(
            {
                "operation": point.phase.replace("_", " "),
                "series": label,
                "p50": p50 / 1000,
                "p99": (p50 if p99 is None else p99) / 1000,  # a line of no length
                "ok": point.state == "ok",
                "description": description(
                    ("", f"{label}, {point.phase.replace('_', ' ')}"),
                    ("p50", formatting.duration(p50)),
                    ("p99", "" if p99 is None else formatting.duration(p99)),
                    ("index", formatting.params(point.index_params)),
                    ("not counted", (point.reason or point.state) if point.state != "ok" else ""),
                ),
            }
        )
    series = list(dict.fromkeys(p.series for p in points))
    lanes = [o.replace("_", " ") for o in order if any(p.phase == o for p in points)]

    def spec(width: int, with_legend: bool) -> dict[str, Any]:
        return _operations(rows, lanes, series, looks, width, with_legend)

    return spec


def _operations(
    rows: list[dict[str, Any]],
    lanes: list[str],
    series: list[Series],
    looks: Looks,
    width: int,
    with_legend: bool,
) -> dict[str, Any]:
    colours, shapes, _ = looks.scales(series)
    key = legend(with_legend, width, len(series))
    each = 11
    y = channel("operation:N", title=None, sort=lanes, axis=_names(), scale=Settings(padding=0.1))
    offset = channel("series:N", sort=[looks.labels[s] for s in series])
    scale = Settings(type="log", padding=12, nice=False)
    colour = channel("series:N", scale=colours, legend=key)
    shape = channel("series:N", scale=shapes, legend=key)
    ticks = log_ticks([r[name] for r in rows for name in ("p50", "p99")])
    axis = Settings(format=",.6~r", values=ticks, labelOverlap=True)
    x = channel("p50:Q", title="latency in ms, p50 to p99 (log)", scale=scale, axis=axis)
    base = chart_of(rows).encode(y=y, yOffset=offset, color=colour)
    chart = layer(
        base.mark("rule", strokeWidth=2, opacity=0.55, aria=False).encode(x=x, x2="p99:Q"),
        base.filter("datum.ok")
        .mark("point", size=60, filled=True, opacity=1, stroke=ink("paper"), strokeWidth=0.8)
        .encode(x=x, shape=shape, description="description:N"),
        base.filter("!datum.ok")
        .mark("point", size=60, filled=False, strokeWidth=1.4)
        .encode(x=x, shape=shape, description="description:N"),
    )
    return finish_chart(chart, plot_width(width), len(lanes) * max(30, each * len(series) + 8))
