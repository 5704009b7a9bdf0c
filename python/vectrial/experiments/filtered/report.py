"""Figures of searches under filters: one of recall and one of speed for each predicate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vectrial.analysis.analysis import Facet, operating_point
from vectrial.analysis.run_data import Point, RunData
from vectrial.document.blocks import Figure
from vectrial.document.charts.theme import (
    NARROW,
    Looks,
    description,
    finish_chart,
    legend,
    lines_of,
    log_ticks,
)
from vectrial.document.charts.vegalite import Settings, channel
from vectrial.util import formatting

#: Predicate → what rows it keeps, in words.
_KEEPS = {
    "column": "rows by a condition on the dataset's own columns",
    "independent": "rows independent of the query",
    "aligned": "rows near the query",
    "opposed": "rows far from the query",
}
_METRICS = {"recall_mean": "Recall", "qps": "QPS"}
#: Parameters that vary along a line, or that a chart is of.
_SHOWN = (
    "k", "clients", "rows", "loop", "selectivity", "filter", "predicate", "depth", "payload_index",
    "pivots",
)  # fmt: skip
#: The arm whose marks are hollow.
_OFF = "off"


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
                _share_chart(drawn, metric, looks),
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
        setting = operating_point(point, without=_SHOWN)
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


def _share_chart(points: Sequence[Point], metric: str, looks: Looks) -> Any:
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
        return finish_chart(chart, width, round(min(320, max(240, width * 0.45))))

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
    indexed = {"on": "indexed", _OFF: "not indexed"}.get(arm, "as the store decides")
    return {
        "series": label,
        "share": share,
        "value": spread.median,
        "low": spread.low if metric != "qps" else max(spread.low, 1e-9),
        "high": spread.high,
        "ok": point.state == "ok",
        "hollow": arm == _OFF,
        "line": f"{label} {arm} {operating_point(point, without=_SHOWN)}",
        "description": description(
            ("", label),
            ("keeps", f"{share:.4%}"),
            ("columns", indexed),
            ("recall", formatting.recall(point.value("recall_mean") or 0.0)),
            ("qps", formatting.number(point.value("qps") or 0.0)),
            ("correlation", "" if near is None else f"{near:+.2f}"),
            ("at", operating_point(point, without=_SHOWN)),
            ("not counted", (point.reason or point.state) if point.state != "ok" else ""),
        ),
    }
