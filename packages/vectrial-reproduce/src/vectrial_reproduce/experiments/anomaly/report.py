"""The section of the anomaly experiment: how fast, and what was found, class by class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from vectrial.analysis.analysis import Facet, by_facet, operating_point
from vectrial.analysis.run_data import Point, RunData
from vectrial.document.blocks import (
    Cell,
    Column,
    Row,
    Section,
    Table,
    count_cell,
    plain_cell,
    spread_cell,
)
from vectrial.document.charts.theme import Looks
from vectrial.util import formatting
from vectrial_reproduce.experiments.anomaly.metrics import OWN

_LEAD = (
    "Normal rows are stored with their class; normal queries and anomalies are asked under a "
    "filter on it. The cosine to what is found is a query's likeness; an anomaly is announced "
    "where it is below a threshold. AUROC is the chance that an anomaly is less alike than a "
    "normal query, and needs no threshold. Beside each figure stands that of exact search: "
    "the difference is what the store's index loses. Figures of how well anomalies are told "
    "are of the network and the images as much: only this difference is of the store."
)
#: Phases that sum up all classes, as the experiment calls them, and for people.
_WHOLE = {"classes": "mean of classes", "together": "together, one threshold"}
_TOLD_APART = (
    "k", "clients", "rows", "loop", "of", "fixed", "false_alarms", "calibration", "score",
)  # fmt: skip
_COUNTS = ("errors", "duplicate_queries", "stored_queries")

_STORE = Column("store", "Store", numeric=False)
_SETTING = Column("setting", "Setting", numeric=False)


def _figure_columns(key: str, title: str, group: str) -> tuple[Column, Column]:
    """Columns of a figure: from the store's answers, and from exact search."""
    return (
        Column(key, title, "1", group, spread=True),
        Column(f"{key}_exact", "exact", "1", group, spread=True),
    )


_SEARCHED = (
    Column("clients", "Clients", "1"),
    Column.for_metric("qps"),
    Column.for_metric("latency_p50", group="Latency"),
    Column.for_metric("latency_p95", group="Latency"),
    Column.for_metric("latency_p99", group="Latency"),
    Column.for_metric("recall_mean"),
    Column.for_metric("errors", spread=False),
    Column.for_metric(OWN["duplicate_queries"], "of queries", "Copies left out", spread=False),
    Column.for_metric(OWN["stored_queries"], "of rows", "Copies left out", spread=False),
)
_JUDGED = (
    *_figure_columns("auroc", "found", "AUROC"),
    *_figure_columns("detection_rate", "found", "Anomalies announced"),
    *_figure_columns("false_alarm_rate", "found", "False alarms"),
    *_figure_columns("threshold", "found", "Threshold"),
    Column.for_metric(OWN["fixed_detection_rate"], "announced", "Fixed threshold"),
    Column.for_metric(OWN["fixed_false_alarm_rate"], "false alarms", "Fixed threshold"),
)


def sections(run: RunData, points: Sequence[Point], looks: Looks | None) -> list[Section]:
    """Sections on speed and on detection, class by class."""
    blocks: list[Table] = []
    for facet, members in by_facet(points):
        blocks.append(_searches(run, facet, [p for p in members if p.phase == "search"]))
        judged = [p for p in members if p.phase != "search"]
        if judged:
            blocks += [_whole_table(run, facet, judged), _class_table(run, facet, judged)]
    return [Section("anomaly", "Anomalies among the normal", _LEAD, tuple(blocks))]


def _searches(run: RunData, facet: Facet, points: Sequence[Point]) -> Table:
    rows = [
        Row(
            (*_series_cells(run, p), *(_cell(p, column) for column in _SEARCHED)), p.state, p.series
        )
        for p in points
    ]
    return Table(
        f"anomaly-{facet.slug}",
        f"Searching under the class: {facet.title}",
        (_STORE, _SETTING, *_SEARCHED),
        tuple(rows),
        _copy_notes(points),
        grouped_by=0,
    )


def _copy_notes(points: Sequence[Point]) -> tuple[str, ...]:
    left_out = [p for p in points if (p.value("duplicate_queries") or p.value("stored_queries"))]
    if not left_out:
        return ("Every query was asked about once: none is a copy of another, or of a stored row.",)
    return ("Exact copies of queries and of stored rows were left out before anything was timed.",)


def _whole_table(run: RunData, facet: Facet, points: Sequence[Point]) -> Table:
    columns = (_STORE, _SETTING, Column("over", "Over", numeric=False), *_JUDGED)
    rows = [
        Row(
            (
                *_series_cells(run, p),
                plain_cell(_WHOLE[p.phase]),
                *(_cell(p, column) for column in _JUDGED),
            ),
            p.state,
            p.series,
        )
        for p in points
        if p.phase in _WHOLE
    ]
    return Table(
        f"anomaly-found-{facet.slug}",
        f"What is told from the normal: {facet.title}",
        columns,
        tuple(rows),
        (_threshold_rule(points[0]),),
        grouped_by=0,
    )


def _class_table(run: RunData, facet: Facet, points: Sequence[Point]) -> Table:
    columns = (Column("class", "Class", numeric=False), _STORE, _SETTING, *_JUDGED)
    own = [p for p in points if p.phase == "class"]
    own.sort(key=lambda p: str(p.params["of"]))  # stable: stores stay in their order
    rows = [
        Row(
            (
                plain_cell(p.params["of"]),
                *_series_cells(run, p),
                *(_cell(p, column) for column in _JUDGED),
            ),
            p.state,
            p.series,
        )
        for p in own
    ]
    return Table(
        f"anomaly-classes-{facet.slug}",
        f"Class by class: {facet.title}",
        columns,
        tuple(rows),
        (_queries(own),) if own else (),
        grouped_by=0,
    )


def _threshold_rule(point: Point) -> str:
    """The rule for choosing thresholds, in words."""
    alarms, fixed = point.params["false_alarms"], point.params["fixed"]
    alike = "the mean cosine" if point.params["score"] == "mean" else "the nearest cosine"
    return (
        f"Likeness: {alike} of the rows found. Of n held-out normal queries of a class the "
        f"⌊{alarms:g} · (n + 1)⌋-th from below is its threshold, so that at most {alarms:.0%} of "
        "normal ones are expected below it; held-out queries are not judged by it. In the row "
        "“together” there is one threshold, from the held-out queries of all classes. The fixed "
        f"threshold is {fixed:g} for every class."
    )


def _queries(points: Sequence[Point]) -> str:
    """Number of queries behind the figures of a class."""
    parts = []
    for name, what in (
        ("anomalous_queries", "anomalies"),
        ("normal_queries", "normal queries for false alarms"),
        ("held_out_queries", "held-out ones for the threshold"),
    ):
        counts = sorted(p.value(name) or 0 for p in points)
        least, most = int(counts[0]), int(counts[-1])
        parts.append(f"{least} {what}" if least == most else f"{least} to {most} {what}")
    return f"Of each class: {formatting.list_in_words(parts)}; AUROC is of all of them."


def _series_cells(run: RunData, point: Point) -> tuple[Cell, Cell]:
    setting = operating_point(replace(point, index_params={}), without=_TOLD_APART)
    return plain_cell(run.labels[point.series]), plain_cell(setting, note=point.reason or "")


def _cell(point: Point, column: Column) -> Cell:
    if column.key == "clients":
        return plain_cell(point.params["clients"])
    if column.key in _COUNTS:
        return count_cell(point, column.key)
    return spread_cell(point, column.key, column.unit, show=_number_format(column.key))


def _number_format(key: str) -> Callable[[float], str] | None:
    if "_rate" in key:
        return lambda share: f"{share:.1%}"
    if key.startswith(("auroc", "threshold")):
        return lambda value: f"{value:.4f}"
    return None
