"""The section of single operations: p50 and p99, and whether their effect was there."""

from __future__ import annotations

from collections.abc import Sequence

from vectrial.analysis.analysis import Facet, by_facet
from vectrial.analysis.run_data import Point, RunData
from vectrial.document.blocks import (
    Block,
    Column,
    Figure,
    Section,
    Table,
    count_cell,
    plain_cell,
    spread_cell,
)
from vectrial.document.charts import store as charts
from vectrial.document.charts.theme import Looks
from vectrial.document.sections import INDEX, STORE, store_row

#: Operations of the experiment crud, in the order shown; others follow.
OPERATIONS = ("create", "read", "update", "delete", "find_by_condition", "find_by_vector")


_COUNTED = (
    "count", "errors", "verified", "ineffective", "checked_by_search", "wrong_by_search"
)  # fmt: skip
_CRUD = (
    STORE,
    Column("operation", "Operation", numeric=False),
    Column.for_metric("latency_p50"),
    Column.for_metric("latency_p99"),
    Column.for_metric("latency_max"),
    Column.for_metric("count", "Done", spread=False),
    Column.for_metric("errors", spread=False),
    Column.for_metric("verified", spread=False),
    Column.for_metric("ineffective", spread=False),
    Column.for_metric("checked_by_search", spread=False),
    Column.for_metric("wrong_by_search", spread=False),
    INDEX,
)


def sections(run: RunData, points: Sequence[Point], looks: Looks | None) -> list[Section]:
    """Sections on single operations: p50 and p99, and whether they had their effect afterwards."""
    blocks: list[Block] = []
    for facet, members in by_facet(points):
        order = [*OPERATIONS, *sorted({p.phase for p in members} - set(OPERATIONS))]
        own = sorted(members, key=lambda p: (order.index(p.phase), p.state == "wrong", _p50(p)))
        if looks is not None and any(p.value("latency_p50") is not None for p in own):
            blocks.append(
                Figure(
                    f"operations-{facet.slug}",
                    f"Single operations, p50 to p99: {facet.title}",
                    "The marker is the median; the line ends at the 99th percentile. One "
                    "client, one operation at a time. Hollow markers did not have the effect "
                    "they acknowledged, or the store failed the gate.",
                    f"Latency of single operations per store on {facet.title}.",
                    charts.operations(own, order, looks),
                    run.ordered(own),
                )
            )
        blocks.append(_crud_table(run, facet, own))
    lead = (
        "One client, one operation at a time. The effect of each is checked afterwards, outside "
        "the timed part."
    )
    return [Section("operations", "Single operations", lead, tuple(blocks))] if blocks else []


def _p50(point: Point) -> float:
    value = point.value("latency_p50")
    return float("inf") if value is None else value


def _crud_table(run: RunData, facet: Facet, points: Sequence[Point]) -> Table:
    rows = []
    for p in points:
        cells = (
            plain_cell(p.phase.replace("_", " "), note=p.reason or ""),
            *(spread_cell(p, f"latency_{name}", "us") for name in ("p50", "p99", "max")),
            *(count_cell(p, name) for name in _COUNTED),
        )
        rows.append(store_row(run, p, cells))
    title = f"Single operations: {facet.title}"
    return Table(f"operations-{facet.slug}", title, _CRUD, tuple(rows), grouped_by=1)
