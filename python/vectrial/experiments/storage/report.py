"""Sections of bytes: on disk, by kind of file, in memory, beside the raw bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vectrial.analysis.analysis import Facet, by_facet, loaded_rows, remark
from vectrial.analysis.run_data import Point, RunData
from vectrial.document.blocks import Block, Column, Figure, Section, Table, plain_cell, spread_cell
from vectrial.document.charts import store as charts
from vectrial.document.charts.theme import (
    Looks,
    chart_of,
    description,
    finish_chart,
    ink,
    plot_width,
)
from vectrial.document.charts.vegalite import Settings, channel
from vectrial.document.sections import INDEX, STORE, names_of, store_row
from vectrial.model.phase import Role
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


def with_file_kinds(points: Sequence[Point]) -> list[Point]:
    """The points whose store reports disk usage by kind of file."""
    return [p for p in points if any(p.value(metric) is not None for metric in KINDS)]


def table(name: str, title: str, points: Sequence[Point], run: RunData) -> list[Table]:
    """A table with a row for each distinct point, and the kinds that any of them has; empty if
    there are no such points.

    run: the run of the points, which names their stores.
    """
    held = with_file_kinds(points)
    if not held:
        return []
    kinds = {m: how for m, how in KINDS.items() if any(p.value(m) is not None for p in held)}
    columns = (
        STORE,
        Column("rows", "Rows"),
        Column("phase", "When", numeric=False),
        Column.for_metric("disk_bytes"),
        Column.for_metric("disk_baseline_bytes"),
        Column.for_metric("disk_ratio"),
        *(
            Column(metric, how.capitalize(), "B", "Came, by kind of file", spread=True)
            for metric, how in kinds.items()
        ),
        INDEX,
    )
    rows = []
    for p in held:
        size, came = loaded_rows(p), (spread_cell(p, c.key, c.unit) for c in columns[3:-1])
        cells = (plain_cell(size, f"{size:,}"), plain_cell(p.phase, note=remark(p)), *came)
        rows.append(store_row(run, p, cells))
    return [Table(name, title, columns, tuple(rows), (_NOTE,), grouped_by=0)]


def figure(name: str, title: str, points: Sequence[Point], names: Sequence[str]) -> list[Figure]:
    """Stacked bars of the distinct points, which `names` names; empty if there are none."""
    held = [(how, p) for how, p in zip(names, points, strict=True) if with_file_kinds([p])]
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
            "description": description(
                ("", name), (KINDS[metric], formatting.size(point.value(metric) or 0)),
                ("index", formatting.params(point.index_params)),
            ),
        }
        for name, point in held
        for order, metric in enumerate(kinds)
        if (point.value(metric) or 0) > 0
    ]  # fmt: skip

    def spec(width: int, with_legend: bool) -> dict[str, Any]:
        # A kind has the same colour, whatever other kinds are shown.
        inks = [ink(f"step{list(KINDS).index(metric) + 1}") for metric in kinds]
        axis = Settings(grid=False, ticks=False, domain=False, labelColor=ink("ink"))
        chart = (
            chart_of(rows)
            .mark("bar", height={"band": 0.68})
            .encode(
                x=channel("mb:Q", title="MB on disk", stack="zero", axis=Settings(tickCount=6)),
                y=channel("name:N", title=None, sort=[name for name, _ in held], axis=axis),
                color=channel(
                    "kind:N",
                    scale=Settings(domain=[KINDS[m] for m in kinds], range=inks),
                    legend=Settings(
                        orient="top", title=None, columns=max(2, width // 130), symbolSize=80
                    ),
                ),
                order="order:Q",
                description="description:N",
            )
        )
        return finish_chart(chart, plot_width(width), max(60, 26 * len(held)))

    return spec


_FOOTPRINT = (
    STORE,
    Column.for_metric("disk_bytes", group="On disk after flush"),
    Column.for_metric("disk_baseline_bytes", group="On disk after flush"),
    Column.for_metric("disk_ratio", group="On disk after flush"),
    Column.for_metric("index_bytes", group="As the store tells"),
    Column.for_metric("log_bytes", group="As the store tells"),
    Column.for_metric("rss_growth_bytes", "Grown by", "Resident memory"),
    Column.for_metric("rss_ratio", group="Resident memory"),
    Column.for_metric("rss_bytes", "In all", "Resident memory"),
    INDEX,
)


def sections(run: RunData, points: Sequence[Point], looks: Looks | None) -> list[Section]:
    """Sections on the loaded store's bytes, on disk and in memory, next to the raw bytes."""
    blocks: list[Block] = []
    for facet, members in by_facet([p for p in points if p.role == Role.SIZE]):
        raw = next((v for p in members if (v := p.value("raw_bytes")) is not None), 0.0)
        extra = next((v for p in members if (v := p.value("metadata_bytes")) is not None), 0.0)
        for metric, what in (("disk_bytes", "On disk"), ("rss_growth_bytes", "In memory")):
            held = sorted(
                (p for p in members if p.value(metric) is not None),
                key=lambda p: p.value(metric) or 0,
            )
            if held and looks is not None:
                blocks.append(
                    Figure(
                        f"size-{metric.split('_')[0]}-{facet.slug}",
                        f"{what}: {facet.title}",
                        f"Beside the raw bytes: {formatting.size(raw)} of vectors"
                        + (f" and {formatting.size(extra)} of metadata." if extra else ".")
                        + (
                            " Dashed bars failed the gate or are invalid."
                            if any(p.state != "ok" for p in held)
                            else ""
                        ),
                        f"{what}, bytes per store on {facet.title}.",
                        charts.footprint(held, names_of(run, held), metric, raw + extra, looks),
                    )
                )
        blocks.append(_footprint_table(run, facet, members))
        blocks += table(
            f"size-kinds-{facet.slug}",
            f"On disk by kind of file: {facet.title}",
            members,
            run,
        )
    lead = (
        "Allocated blocks of the store's folder after flush, and how much resident memory grew "
        "while everything was loaded, beside the raw bytes of vectors and metadata."
    )
    return [Section("size", "Size on disk and in memory", lead, tuple(blocks))] if blocks else []


def _footprint_table(run: RunData, facet: Facet, points: Sequence[Point]) -> Table:
    rows = []
    for p in sorted(
        points, key=lambda p: (p.state == "wrong", p.value("disk_bytes") or float("inf"))
    ):
        rows.append(store_row(run, p, [spread_cell(p, c.key, c.unit) for c in _FOOTPRINT[1:-1]]))
    return Table(f"size-{facet.slug}", f"Size: {facet.title}", _FOOTPRINT, tuple(rows))


def figures(run: RunData, facet: Facet, points: Sequence[Point], looks: Looks) -> list[Figure]:
    whole = [p for p in points if p.rows == facet.rows and p.phase == "settled"]
    held = sorted(
        (p for p in whole if p.value("disk_bytes") is not None),
        key=lambda p: p.value("disk_bytes") or 0,
    )
    if not held:
        return []
    raw = sum(held[0].value(name) or 0.0 for name in ("raw_bytes", "metadata_bytes"))
    return [
        Figure(
            f"storage-{facet.slug}",
            f"On disk, flushed, indexed and settled: {facet.title}",
            f"Beside the raw bytes: {formatting.size(raw)}.",
            f"Bytes on disk per store on {facet.title}.",
            charts.footprint(held, names_of(run, held), "disk_bytes", raw, looks),
        ),
        *figure(
            f"storage-kinds-{facet.slug}",
            f"On disk by kind of file: {facet.title}",
            held,
            names_of(run, held),
        ),
    ]


def kinds(run: RunData, facet: Facet, points: Sequence[Point]) -> list[Table]:
    return table(
        f"storage-kinds-{facet.slug}",
        f"Bytes on disk by kind of file: {facet.dataset}",
        points,
        run,
    )
