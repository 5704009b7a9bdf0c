"""Bytes on disk by what the files hold, and beside the raw bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import altair as alt

from vectrial.analysis.analysis import loaded_rows, remark
from vectrial.analysis.run_data import Point, RunData
from vectrial.document.blocks import Column, Figure, Row, Table, plain, spread_cell
from vectrial.document.charts.theme import beside_names, chart_of, described, finished, ink
from vectrial.util import formatting

#: Metrics of what came with a load, by kind of file, and how the kinds are called.
KINDS: Mapping[str, str] = {
    "disk_rows_bytes": "rows",
    "disk_vectors_bytes": "vectors apart",
    "disk_index_bytes": "vector index",
    "disk_metadata_index_bytes": "metadata index",
    "disk_log_bytes": "log",
    "disk_catalog_bytes": "catalogue",
    "disk_mixed_bytes": "several in one",
    "disk_other_bytes": "other",
}
_NOTE = (
    "By kind is what came with the load, told by the names of files; the kinds add up to what is on"
    " disk less what was before. A negative one went: a log that was cut off. What a log holds of"
    " rows and indexes is not written out yet, or kept twice."
)


def told_apart(points: Sequence[Point]) -> list[Point]:
    """Those whose store says what its files hold."""
    return [p for p in points if any(p.value(metric) is not None for metric in KINDS)]


def table(name: str, title: str, points: Sequence[Point], run: RunData) -> list[Table]:
    """A row for each of the points that are told apart, with the kinds that any of them has; no
    table where there is none.

    run: that of the points, which names their stores.
    """
    held = told_apart(points)
    if not held:
        return []
    kinds = {m: how for m, how in KINDS.items() if any(p.value(m) is not None for p in held)}
    columns = (
        Column("store", "Store", numeric=False),
        Column("rows", "Rows"),
        Column("phase", "When", numeric=False),
        Column("disk_bytes", "Disk", "B", spread=True),
        Column("disk_empty_bytes", "Before the load", "B", spread=True),
        Column("disk_ratio", "× raw", "1", spread=True),
        *(
            Column(metric, how.capitalize(), "B", "Came, by kind of file", spread=True)
            for metric, how in kinds.items()
        ),
        Column("index", "Index", numeric=False),
    )
    rows = []
    for p in held:
        size = loaded_rows(p)
        rows.append(
            Row(
                (
                    plain(run.labels[p.series]),
                    plain(size, f"{size:,}"),
                    plain(p.phase, note=remark(p)),
                    *(spread_cell(p, c.key, c.unit) for c in columns[3:-1]),
                    plain(formatting.params(p.index_params)),
                ),
                p.state,
                p.series,
            )
        )  # fmt: skip
    return [Table(name, title, columns, tuple(rows), (_NOTE,), grouped_by=0)]


def figure(name: str, title: str, points: Sequence[Point], names: Sequence[str]) -> list[Figure]:
    """Stacked bars of the points that are told apart, of which `names` are the names; no figure
    where there is none."""
    held = [(how, p) for how, p in zip(names, points, strict=True) if told_apart([p])]
    if not held:
        return []
    return [
        Figure(
            name,
            title,
            "What came with the load, by what the files hold. A log keeps what may lie elsewhere,"
            " too, or not yet; what went is not drawn.",
            f"{title}: bytes on disk by kind of file.",
            _bars(held),
        )
    ]


def _bars(held: Sequence[tuple[str, Point]]) -> Callable[[int, bool], dict[str, Any]]:
    kinds = [m for m in KINDS if any((p.value(m) or 0) > 0 for _, p in held)]
    rows = [
        {
            "name": name,
            "kind": KINDS[metric],
            "order": order,
            "mb": (point.value(metric) or 0) / 1e6,
            "description": described(
                ("", name), (KINDS[metric], formatting.size(point.value(metric) or 0)),
                ("index", formatting.params(point.index_params)),
            ),
        }
        for name, point in held
        for order, metric in enumerate(kinds)
        if (point.value(metric) or 0) > 0
    ]  # fmt: skip

    def spec(width: int, with_legend: bool) -> dict[str, Any]:
        # A kind has the same colour whichever others are there.
        inks = [ink(f"step{list(KINDS).index(metric) + 1}") for metric in kinds]
        axis = alt.Axis(grid=False, ticks=False, domain=False, labelColor=ink("ink"))
        chart = (
            chart_of(rows)
            .mark_bar(height={"band": 0.68})
            .encode(
                x=alt.X("mb:Q", title="MB on disk", stack="zero", axis=alt.Axis(tickCount=6)),
                y=alt.Y("name:N", title=None, sort=[name for name, _ in held], axis=axis),
                color=alt.Color(
                    "kind:N",
                    scale=alt.Scale(domain=[KINDS[m] for m in kinds], range=inks),
                    legend=alt.Legend(
                        orient="top", title=None, columns=max(2, width // 130), symbolSize=80
                    ),
                ),
                order="order:Q",
                description="description:N",
            )
        )
        return finished(chart, beside_names(width), max(60, 26 * len(held)))

    return spec
