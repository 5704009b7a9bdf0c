"""Charts of searches under filters: recall and speed against the share of the rows kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vectrial.analysis.analysis import operating_point
from vectrial.analysis.run_data import Point
from vectrial.document.charts.theme import (
    NARROW,
    Looks,
    described,
    finished,
    legend,
    lines_of,
    log_ticks,
)
from vectrial.document.charts.vegalite import Settings, channel
from vectrial.util import formatting

#: Parameters that vary along a line, or that a chart is of.
SHOWN = (
    "k", "clients", "rows", "loop", "selectivity", "filter", "predicate", "depth", "payload_index",
    "pivots",
)  # fmt: skip
#: The arm whose marks are hollow.
OFF = "off"


def against_share(points: Sequence[Point], metric: str, looks: Looks) -> Any:
    """Chart of recall or QPS against the share of rows that a filter keeps, with a line for each
    series, setting and arm of payload indexes. Hollow marks have no payload index, or do not count.
    """
    rows = [row for point in points if (row := _row(point, metric, looks)) is not None]
    series = list(dict.fromkeys(point.series for point in points))
    log = metric == "qps"

    def spec(width: int, with_legend: bool) -> dict[str, Any]:
        x = channel(
            "share:Q",
            title="share of the rows that the filter keeps (log)",
            scale=Settings(type="log", padding=14, nice=False),
            axis=Settings(
                format="~%",
                values=_ticks([row["share"] for row in rows], dense=width >= NARROW),
            ),
        )
        y = channel(
            "value:Q",
            title="QPS (log)" if log else "recall among the rows kept",
            scale=Settings(type="log", padding=12, nice=False) if log else Settings(zero=False),
            axis=Settings(format="~s", values=log_ticks([row["value"] for row in rows]))
            if log
            else Settings(format=",.6~r", tickCount=6),
        )
        key = legend(with_legend, width, len(series))
        chart = lines_of(rows, x, y, looks.scales(series), key)
        return finished(chart, width, round(min(320, max(240, width * 0.45))))

    return spec


def _ticks(shares: Sequence[float], *, dense: bool) -> list[float]:
    """The measured shares, or decades if the shares do not fit."""
    measured = sorted(set(shares))
    if not measured:
        return []
    if dense and len(measured) <= 8:
        return measured
    return [tick for tick in (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0) if tick >= measured[0]]


def _row(point: Point, metric: str, looks: Looks) -> dict[str, Any] | None:
    spread, share = point.spread(metric), point.value("selectivity")
    if spread is None or not share:
        return None
    label, arm = looks.labels[point.series], str(point.params.get("payload_index"))
    near = point.value("filter_correlation")
    indexed = {"on": "indexed", OFF: "not indexed"}.get(arm, "as the store decides")
    return {
        "series": label,
        "share": share,
        "value": spread.median,
        "low": spread.low if metric != "qps" else max(spread.low, 1e-9),
        "high": spread.high,
        "ok": point.state == "ok",
        "hollow": arm == OFF,
        "line": f"{label} {arm} {operating_point(point, without=SHOWN)}",
        "description": described(
            ("", label),
            ("keeps", f"{share:.4%}"),
            ("columns", indexed),
            ("recall", formatting.recall(point.value("recall_mean") or 0.0)),
            ("qps", formatting.number(point.value("qps") or 0.0)),
            ("correlation", "" if near is None else f"{near:+.2f}"),
            ("at", operating_point(point, without=SHOWN)),
            ("not counted", (point.reason or point.state) if point.state != "ok" else ""),
        ),
    }
