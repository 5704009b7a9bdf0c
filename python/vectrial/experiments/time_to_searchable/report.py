"""The moments at which a load was acknowledged, found and indexed. They distinguish online from
offline indexing."""

from __future__ import annotations

from collections.abc import Sequence

from vectrial.analysis.analysis import Facet, remark
from vectrial.analysis.run_data import Point, RunData
from vectrial.document.blocks import Column, Figure, Row, Table, plain_cell, spread_cell
from vectrial.document.charts import growth, moments
from vectrial.document.charts.theme import Looks
from vectrial.experiments.time_to_searchable.experiment import OWN
from vectrial.util import formatting


def figures(run: RunData, facet: Facet, points: Sequence[Point], looks: Looks) -> list[Figure]:
    """Figures of the rows found during the load."""
    return [
        Figure(
            f"searchable-{facet.slug}",
            f"Found while loading: {facet.title}",
            "The share of sampled acknowledged rows that a search for their own vectors finds. A "
            "store that indexes during inserts stays near the top. A store that indexes later "
            "finds them late, or by a full scan. " + moments.CAPTION,
            f"Share of acknowledged rows found against time on {facet.title}.",
            growth.found_over_time(points, looks),
            run.ordered(points),
        )
    ]


def tables(run: RunData, facet: Facet, points: Sequence[Point]) -> list[Table]:
    """The table of a dataset."""
    title = f"When a load is acknowledged, found and indexed: {facet.title}"
    return table(f"searchable-{facet.slug}", title, points, run)


def table(name: str, title: str, points: Sequence[Point], run: RunData) -> list[Table]:
    """A table with a row for each load whose moments are known; empty if there is none.

    run: the run of the points, which names their stores.
    """
    held = [p for p in points if p.phase == "searchable"]
    columns = (
        Column("store", "Store", numeric=False),
        Column.for_metric("load_s", "Last row acknowledged"),
        Column.for_metric("ready_s", "Served by the final index"),
        Column.for_metric(OWN["searchable_after_s"]),
        Column("index", "Index", numeric=False),
    )
    rows = tuple(
        Row(
            (
                plain_cell(run.labels[p.series], note=remark(p)),
                *(spread_cell(p, c.key, c.unit) for c in columns[1:-1]),
                plain_cell(formatting.params(p.index_params)),
            ),
            p.state,
            p.series,
        )
        for p in held
    )
    return [Table(name, title, columns, rows)] if rows else []
