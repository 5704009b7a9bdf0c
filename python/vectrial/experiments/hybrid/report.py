"""Searching by vector and text: speed, agreement and quality at each weight of the vector."""

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
from vectrial.document.charts import search as charts_search
from vectrial.document.charts.theme import Looks
from vectrial.document.sections import INDEX, STORE, store_row

_COLUMNS = (
    Column.for_metric("latency_p50", group="Latency"),
    Column.for_metric("latency_p95", group="Latency"),
    Column.for_metric("latency_p99", group="Latency"),
    Column.for_metric("qps"),
    Column.for_metric("fusion_agreement"),
    Column.for_metric("ndcg"),
    Column.for_metric("ndcg_exact", "of the exact fusion"),
)


_LEAD = (
    "Rows that were taken out of the dataset are the queries, by vector and text. "
    "α is the weight of the vector: 1 is the vector alone, 0 the text alone. Agreement is the "
    "share of the k best of an exact fusion by the same formula (true distances, and BM25 over "
    "the words as they are) that the timed answers hold. nDCG is of the same answers: relevant "
    "is a row that has the query's value in the column that is named, which is not what people "
    "would say; beside it that of the exact fusion. Stores fuse in different ways, so that the "
    "same α need not mean the same: compare nDCG between them, and agreement of each alone."
)


def sections(run: RunData, points: Sequence[Point], looks: Looks | None) -> list[Section]:
    """Sections on speed, agreement and quality at each weight of the vector."""
    blocks: list[Block] = []
    for facet, members in by_facet([p for p in points if "alpha" in p.params]):
        ordered = sorted(members, key=lambda p: float(p.params["alpha"]))
        if looks is not None:
            blocks.append(_figure(run, facet, ordered, looks))
        blocks.append(_table(run, facet, ordered))
    return [Section("hybrid", "Searching by vector and text", _LEAD, tuple(blocks))]


def _figure(run: RunData, facet: Facet, points: Sequence[Point], looks: Looks) -> Figure:
    return Figure(
        f"hybrid-{facet.slug}",
        f"99th percentile against the weight of the vector: {facet.title}",
        "At α = 1 and 0 one side alone is asked.",
        f"99th percentile of latency against α on {facet.title}.",
        charts_search.chart_by_alpha(points, "latency_p99", looks),
        run.ordered(points),
    )


def _table(run: RunData, facet: Facet, points: Sequence[Point]) -> Table:
    columns = (
        STORE,
        Column("fusion", "Fusion", numeric=False),
        Column("alpha", "α"),
        *_COLUMNS,
        Column.for_metric("errors", spread=False),
        Column("related", "Relevant by", numeric=False),
        Column("text", "Text", numeric=False),
        INDEX,
    )
    rows = [
        store_row(
            run,
            p,
            (
                plain_cell(str(p.params.get("fusion", "")).replace("_", " ")),
                plain_cell(p.params["alpha"], f"{p.params['alpha']:g}", p.reason or ""),
                *(spread_cell(p, column.key, column.unit) for column in _COLUMNS),
                count_cell(p, "errors"),
                plain_cell(str(p.params.get("related", ""))),
                plain_cell(str(p.params.get("text", ""))),
            ),
        )
        for p in sorted(points, key=lambda p: run.labels[p.series])
    ]
    title = f"By vector and text: {facet.title}"
    return Table(f"hybrid-{facet.slug}", title, columns, tuple(rows), (), grouped_by=0)
