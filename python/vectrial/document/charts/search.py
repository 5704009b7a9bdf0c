"""Charts of searches: recall against speed, latency distributions, concurrency."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vectrial._engine import histogram_merge, histogram_quantiles
from vectrial.analysis.analysis import Sweep, operating_point
from vectrial.analysis.run_data import Point, RunData
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
)
from vectrial.document.charts.vegalite import Settings, channel, constant, layer
from vectrial.model.trial import Series
from vectrial.stats.quantiles import LATENCY, QUANTILES, samples_needed
from vectrial.util import formatting

#: Percentiles at which a distribution is drawn, evenly spaced on the axis −log10(1 − q).
_NINES = tuple(i / 20 for i in range(0, 61))


def recall_qps(sweep: Sweep, looks: Looks, target: float) -> Any:
    """Recall against qps: all points, the front of each series, and the overall front."""
    own_front = {id(p) for s in sweep.series for p in sweep.front(s)}
    best = sweep.front()
    on_best = {id(p) for p in best}
    good = [p for p in sweep.points if p.ranked]
    low = recall_floor(sweep)
    rows = [_search_row(p, looks, front=id(p) in own_front, best=id(p) in on_best) for p in good]
    bad = [_search_row(p, looks) for p in sweep.points if not p.ranked and _recall(p) >= low]
    return lambda width, with_legend: finish_chart(
        _recall_qps(rows, bad, sweep.series, looks, low, target, width, with_legend),
        width,
        round(min(420, max(300, width * 0.52))),
    )


def recall_floor(sweep: Sweep) -> float:
    """Start of the recall axis: just below the least recall of any point that counts."""
    recalls = [_recall(p) for p in sweep.points if p.ranked]
    recalls = recalls or [_recall(p) for p in sweep.points] or [0.0]
    floor = min(recalls)
    return max(0.0, floor - max(0.02 * (1 - floor), 0.002))


def _recall(point: Point) -> float:
    return point.value("recall_mean") or 0.0


def _search_row(
    point: Point, looks: Looks, front: bool = False, best: bool = False
) -> dict[str, Any]:
    qps, p99 = point.spread("qps"), point.spread("latency_p99")
    assert qps is not None
    label = looks.labels[point.series]
    spread = formatting.spread(qps, "1/s")
    return {
        "series": label,
        "recall": _recall(point),
        "qps": qps.median,
        "low": max(qps.low, 1e-9),
        "high": qps.high,
        "front": front,
        "best": best,
        "description": description(
            ("", label),
            ("recall", formatting.recall(_recall(point))),
            ("qps", formatting.number(qps.median) + (f" ({spread})" if spread else "")),
            ("p99", formatting.duration(p99.median) if p99 else ""),
            ("at", operating_point(point)),
            ("repeats", str(qps.n)),
            ("", "on the front of all stores" if best else ""),
            ("not counted", point.why_unranked),
        ),
    }


def _recall_qps(
    rows: list[dict[str, Any]],
    bad: list[dict[str, Any]],
    series: Sequence[Series],
    looks: Looks,
    low: float,
    target: float,
    width: int,
    with_legend: bool,
) -> Any:
    colours, shapes, dashes = looks.scales(series)
    key = legend(with_legend, width, len(series))
    x = channel(
        "recall:Q",
        title="recall (mean of the timed answers)",
        scale=Settings(domain=[low, 1.0 + (1 - low) * 0.012], nice=False, zero=False),
        axis=Settings(format=",.6~r", tickCount=8 if width >= NARROW else 5, grid=True),
    )
    y = channel(
        "qps:Q",
        title="QPS (log)",
        scale=Settings(type="log", nice=False, padding=14),
        axis=Settings(format="~s", values=log_ticks([r["qps"] for r in rows + bad])),
    )
    colour = channel("series:N", scale=colours, legend=key)
    shape = channel("series:N", scale=shapes, legend=key)
    base = chart_of(rows).encode(x=x, y=y)
    fronts = base.filter("datum.front")
    layers: list[Any] = []
    if low < target < 1:
        rule = chart_of([{"recall": target}])
        layers.append(
            rule.mark("rule", color=ink("axis"), strokeDash=[3, 3], aria=False).encode(x=x)
        )
    layers += [
        base.filter("datum.best").mark(
            "line",
            color=ink("halo"),
            strokeWidth=11,
            strokeCap="round",
            strokeJoin="round",
            aria=False,
        ),
        fronts.mark("line", strokeWidth=1.8, aria=False).encode(
            color=colour, strokeDash=channel("series:N", scale=dashes, legend=key)
        ),
        fronts.mark("rule", strokeWidth=1.4, aria=False).encode(
            y=channel("low:Q"), y2="high:Q", color=colour
        ),
        base.filter("!datum.front")
        .mark("point", size=38, filled=True, opacity=0.45)
        .encode(color=colour, shape=shape, description="description:N"),
        fronts.mark(
            "point", size=95, filled=True, opacity=1, stroke=ink("paper"), strokeWidth=1
        ).encode(color=colour, shape=shape, description="description:N"),
    ]
    if bad:
        wrong = chart_of(bad).encode(x=x, y=y, color=colour)
        layers += [
            wrong.mark("point", size=95, filled=False, strokeWidth=1.4, opacity=0.9).encode(
                shape=shape, description="description:N"
            ),
            wrong.mark(
                "point",
                size=190,
                shape="M-1,-1L1,1M-1,1L1,-1",
                filled=False,
                strokeWidth=1.4,
                aria=False,
            ).encode(color=constant(ink("wrong"))),
        ]
    return layer(*layers)


def percentiles(run: RunData, points: Sequence[Point]) -> dict[int, list[tuple[float, float]]]:
    """Latency of each point (by index) in µs at quantiles, as (−log10(1 − q), µs).

    From the merged histograms of its repeats, or, if none were kept, from the percentiles in the
    results. A quantile with too few samples is left out.
    """
    out = {}
    for i, point in enumerate(points):
        parts = [run.histograms[p.phase_id] for p in point.phases if p.phase_id in run.histograms]
        count = sum(p.value("count") or 0 for p in point.phases)
        if parts:
            nines = [n for n in _NINES if not n or count >= samples_needed(1 - 10**-n)]
            merged = histogram_merge(parts)
            values = histogram_quantiles(merged, [1 - 10**-n for n in nines])
            out[i] = list(zip(nines, values, strict=True))
        else:
            known = [(q, point.value(name)) for name, q in LATENCY.items()]
            out[i] = [(-math.log10(1 - q), us) for q, us in known if us is not None]
    return {i: line for i, line in out.items() if line}


def latency_distribution(
    lines: Mapping[int, list[tuple[float, float]]], points: Sequence[Point], looks: Looks
) -> Any:
    """Latency by percentile, one line per point, with the tail stretched as in HDR plots."""
    rows: list[dict[str, Any]] = [
        {"series": looks.labels[points[i].series], "nines": n, "ms": us / 1000, "order": j}
        for i, line in lines.items()
        for j, (n, us) in enumerate(line)
    ]
    marks = []
    for i, line in lines.items():
        label = looks.labels[points[i].series]
        for name, quantile in LATENCY.items():
            nines = -math.log10(1 - quantile)
            near = min(line, key=lambda pair: abs(pair[0] - nines))
            if abs(near[0] - nines) < 0.03:
                shown = description(
                    ("", label),
                    (QUANTILES[name].label, formatting.duration(near[1])),
                    ("recall", formatting.recall(_recall(points[i]))),
                    ("at", operating_point(points[i])),
                )
                marks.append(
                    {"series": label, "nines": near[0], "ms": near[1] / 1000, "description": shown}
                )
    series = list(dict.fromkeys(points[i].series for i in lines))

    def spec(width: int, with_legend: bool) -> dict[str, Any]:
        colours, shapes, dashes = looks.scales(series)
        key = legend(with_legend, width, len(series))
        ticks = [-math.log10(1 - q) for q in (0.01, 0.5, 0.9, 0.99, 0.999)]
        x = channel(
            "nines:Q",
            title="percentile of requests",
            scale=Settings(domain=[0, max(r["nines"] for r in rows) + 0.08], nice=False),
            axis=Settings(
                values=ticks,
                labelExpr="datum.value < 0.1 ? 'fastest' : datum.value < 0.5 ? '50 %' :"
                " datum.value < 1.5 ? '90 %' : datum.value < 2.5 ? '99 %' : '99.9 %'",
                grid=True,
            ),
        )
        y = channel(
            "ms:Q",
            title="latency in ms (log)",
            scale=Settings(type="log", nice=False, padding=12),
            axis=Settings(format=",.6~r", values=log_ticks([r["ms"] for r in rows])),
        )
        colour = channel("series:N", scale=colours, legend=key)
        chart = layer(
            chart_of(rows)
            .mark("line", strokeWidth=1.8, interpolate="monotone", aria=False)
            .encode(
                x=x, y=y, color=colour, order="order:Q",
                strokeDash=channel("series:N", scale=dashes, legend=key),
            ),
            chart_of(marks)
            .mark("point", size=70, filled=True, opacity=1, stroke=ink("paper"), strokeWidth=1)
            .encode(
                x=x, y=y, color=colour, description="description:N",
                shape=channel("series:N", scale=shapes, legend=key),
            ),
        )  # fmt: skip
        return finish_chart(chart, width, round(min(360, max(280, width * 0.45))))

    return spec


#: Parameters that vary along a line.
_NOT_A_LINE = (
    "k", "clients", "rows", "loop", "rate", "arrivals", "selectivity", "filter", "alpha",
)  # fmt: skip


def chart_by_clients(points: Sequence[Point], metric: str, looks: Looks) -> Any:
    """Qps or p99 against closed-loop clients; points that do not count are hollow."""
    title = "clients, each with one request in flight"
    return _chart_by_load(points, metric, looks, clients_of, "clients", title)


def chart_by_rate(points: Sequence[Point], metric: str, looks: Looks) -> Any:
    """Qps or p99 against the rate of an open loop; points that do not count are hollow."""
    return _chart_by_load(
        points, metric, looks, rate_of, "offered/s", "arrivals offered per second"
    )


def chart_by_alpha(points: Sequence[Point], metric: str, looks: Looks) -> Any:
    """Qps or latency against the weight of the vector in searches by vector and text."""
    return _chart_by_load(
        points, metric, looks, _alpha, "α", "α, the weight of the vector", linear=True
    )


def chart_by_replaced(points: Sequence[Point], metric: str, looks: Looks) -> Any:
    """Recall or latency against the rows that were replaced or deleted before the search."""
    title = "rows replaced or deleted before"
    return _chart_by_load(points, metric, looks, _replaced_rows, "rows", title, linear=True)


def _replaced_rows(point: Point) -> float | None:
    return point.value("replaced_rows")


def _alpha(point: Point) -> float | None:
    value = point.params.get("alpha")
    return None if value is None else float(value)


def _chart_by_load(
    points: Sequence[Point],
    metric: str,
    looks: Looks,
    load_of: Callable[[Point], float | None],
    load_name: str,
    load_title: str,
    linear: bool = False,
) -> Any:
    rows: list[dict[str, Any]] = []
    for point in points:
        spread = point.spread(metric)
        load = load_of(point)
        if spread is None or load is None:
            continue
        label = looks.labels[point.series]
        scale = 1000 if metric.startswith("latency") else 1
        shown = formatting.measure(spread.median, "us" if scale == 1000 else "1")
        rows.append(
            {
                "series": label,
                "load": load,
                "value": spread.median / scale,
                "low": max(spread.low / scale, 1e-9),
                "high": spread.high / scale,
                "ok": point.ranked,
                "line": f"{label} {operating_point(point, without=_NOT_A_LINE)}",
                "description": description(
                    ("", label),
                    (load_name, formatting.number(load) if load != int(load) else f"{load:,.0f}"),
                    ("p99" if scale == 1000 else "qps", shown),
                    ("recall", formatting.recall(_recall(point))),
                    ("at", operating_point(point)),
                    ("not counted", point.why_unranked),
                ),
            }
        )
    series = list(dict.fromkeys(p.series for p in points))
    title = "p99 latency in ms (log)" if metric.startswith("latency") else "QPS"
    log = metric.startswith("latency")

    def spec(width: int, with_legend: bool) -> dict[str, Any]:
        key = legend(with_legend, width, len(series))
        x = channel(
            "load:Q",
            title=load_title,
            scale=Settings(padding=14, nice=False)
            if linear
            else Settings(type="log", base=2, padding=14, nice=False),
            axis=Settings(values=sorted({r["load"] for r in rows}), format=",.6~r"),
        )
        y = channel(
            "value:Q",
            title=title,
            scale=Settings(type="log", padding=12, nice=False) if log else Settings(zero=True),
            axis=Settings(format=",.6~r", values=log_ticks([r["value"] for r in rows]))
            if log
            else Settings(
                labelExpr="datum.value == 0 ? '0' : format(datum.value, '~s')", tickCount=6
            ),
        )
        chart = lines_of(rows, x, y, looks.scales(series), key)
        return finish_chart(chart, width, round(min(320, max(240, width * 0.45))))

    return spec


def rate_of(point: Point) -> float | None:
    """The arrivals per second of an open loop's schedule."""
    rate = point.params.get("rate")
    return float(rate) if isinstance(rate, int | float) else None


def clients_of(point: Point) -> int | None:
    """Number of closed-loop clients, if known."""
    clients = point.params.get("clients", point.value("concurrency"))
    return int(clients) if isinstance(clients, int | float) and clients > 0 else None
