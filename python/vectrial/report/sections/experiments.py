"""Sections of experiments whose figures stand in one table each: which columns, in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vectrial.analysis.analysis import Facet, by_facet, operating_point, remark
from vectrial.analysis.run_data import Point, RunData
from vectrial.document.blocks import (
    Block,
    Cell,
    Column,
    Figure,
    Row,
    Section,
    Table,
    count_cell,
    plain,
    spread_cell,
)
from vectrial.document.charts import (
    experiments as charts_experiments,
)
from vectrial.document.charts import (
    filtered as charts_filtered,
)
from vectrial.document.charts import moments
from vectrial.document.charts import (
    store as charts_store,
)
from vectrial.document.charts.theme import Looks
from vectrial.report.sections import (
    figures_filtered,
    file_kinds,
    sheets_traffic,
)
from vectrial.report.sections import (
    time_to_searchable as searchable,
)
from vectrial.report.sections.sheets import (
    COUNTS,
    LATENCY,
    SHARES,
    STEPS,
    VERIFIED,
    Sheet,
    metric,
)
from vectrial.report.sections.store import names_of
from vectrial.util import (
    formatting,
)

#: Stands for the search parameters among a row's keys.
_SETTING = "setting"


def _size_figure(run: RunData, facet: Facet, points: Sequence[Point], looks: Looks) -> list[Figure]:
    return [
        Figure(
            f"size-sweep-{facet.slug}",
            f"Latency as the collection grows: {facet.dataset}",
            "Median latency of a search by one client. Each marker is a separate collection, "
            "loaded and indexed alone. A line that rises with the rows is a full scan.",
            f"Latency of find by vector against rows on {facet.dataset}.",
            charts_experiments.against_size(points, "latency_p50", looks),
            run.ordered(points),
        )
    ]


def _found_figure(
    run: RunData, facet: Facet, points: Sequence[Point], looks: Looks
) -> list[Figure]:
    return [
        Figure(
            f"searchable-{facet.slug}",
            f"Found while loading: {facet.title}",
            "The share of sampled acknowledged rows that a search for their own vectors finds. A "
            "store that indexes during inserts stays near the top. A store that indexes later "
            "finds them late, or by a full scan. " + moments.CAPTION,
            f"Share of acknowledged rows found against time on {facet.title}.",
            charts_experiments.found_over_time(points, looks),
            run.ordered(points),
        )
    ]


def _whole_loads(run: RunData, facet: Facet, points: Sequence[Point]) -> list[Table]:
    return searchable.table(
        f"searchable-{facet.slug}",
        f"When a load is acknowledged, found and indexed: {facet.title}",
        points,
        run,
    )


def _storage_figure(
    run: RunData, facet: Facet, points: Sequence[Point], looks: Looks
) -> list[Figure]:
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
            charts_store.footprint(held, names_of(run, held), "disk_bytes", raw, looks),
        ),
        *file_kinds.figure(
            f"storage-kinds-{facet.slug}",
            f"On disk by kind of file: {facet.title}",
            held,
            names_of(run, held),
        ),
    ]


def _kinds(run: RunData, facet: Facet, points: Sequence[Point]) -> list[Table]:
    return file_kinds.table(
        f"storage-kinds-{facet.slug}",
        f"Bytes on disk by kind of file: {facet.dataset}",
        points,
        run,
    )


#: Part of the section on size, beside what `store.footprint` shows.
_STORAGE = Sheet(
    "storage",
    "Bytes on disk as it grows",
    "Allocated blocks when the last row was acknowledged, and when the store had flushed, "
    "indexed and come to rest; beside it what the store itself tells.",
    ("acknowledged", "settled"),
    (("rows", "Rows"), ("phase", "When")),
    (
        metric("disk_bytes", "Disk", "B"),
        metric("disk_ratio", "× raw", "1"),
        metric("disk_empty_bytes", "Empty", "B"),
        metric("stored_vector_bytes", "Vectors", "B", "As the store tells"),
        metric("index_bytes", "Index", "B", "As the store tells"),
        metric("log_bytes", "Log", "B", "As the store tells"),
    ),
    _storage_figure,
    _kinds,
    growing=True,
)

_SHEETS = (
    Sheet(
        "filtered",
        "Searching under filters",
        "The same queries without a filter, and under filters that keep shares of the rows: by a "
        "condition on the dataset's own columns; by its own filters, one for each query; and on "
        "made columns, of rows that are near the query (aligned), far from it (opposed), or "
        "neither (independent), also by several conditions at once. Correlation is 1 when all rows "
        "kept are nearer to the query than all others, and -1 when they are all farther. Recall is "
        "judged among the rows kept. Violations are answers, of those looked at, with a row that "
        "the filter does not keep.",
        ("search",),
        (
            ("predicate", "Predicate"),
            ("depth", "Conditions"),
            ("payload_index", "Indexed"),
            ("selectivity", "Share wanted"),
            ("clients", "Clients"),
            ("filter", "Filter"),
            (_SETTING, "Setting"),
        ),
        (
            metric("selectivity", "Keeps", "1"),
            metric("filter_correlation", "Correlation", "1"),
            metric("recall_mean", "Recall", "1"),
            metric("qps", "QPS", "1/s"),
            *LATENCY,
            metric("short_answers", "Too short", "1"),
            metric("violations", "Violations", "1"),
            metric("errors", "Errors", "1"),
        ),
        figures_filtered.figures,
    ),
    Sheet(
        "size_sweep",
        "Latency as the collection grows",
        "The same searches by one client. Each size is loaded into a separate store.",
        ("search",),
        (("rows", "Rows"),),
        (
            *LATENCY,
            metric("qps", "QPS", "1/s"),
            metric("recall_mean", "Recall", "1"),
            metric("errors", "Errors", "1"),
        ),
        _size_figure,
        growing=True,
    ),
    Sheet(
        "time_to_searchable",
        "Time until rows are searchable",
        "Some stores acknowledge rows long before a search finds them. A server is searched over "
        "a separate connection while it loads, a library between two batches. The row searchable "
        "covers the whole load: from its last row until the share found stops rising.",
        ("look", "searchable"),
        (
            ("phase", "What"),
            ("stage", "Stage"),
            ("loaded", "Loaded"),
            ("after_s", "Seconds after the last"),
        ),
        (
            metric("elapsed_s", "Since the start", "s"),
            metric("acknowledged_rows", "Acknowledged", "1"),
            metric("share_found", "Found", "1"),
            metric("errors", "Errors", "1"),
            metric("load_s", "Loaded", "s", "Of the whole load"),
            metric("ready_s", "Ready", "s", "Of the whole load"),
            metric("searchable_after_s", "All found after the last row", "s", "Of the whole load"),
        ),
        _found_figure,
        _whole_loads,
        sparse=True,
    ),
    Sheet(
        "condition",
        "Finding rows by a condition",
        "On metadata alone, by the store and with or without indexes on the columns; by reading "
        "everything and choosing in the client where it says so. Every answer was checked.",
        ("find", "client_scan"),
        (("condition", "Keeps"), ("payload_index", "Index"), ("by", "By")),
        (*LATENCY, *VERIFIED),
    ),
    Sheet(
        "export",
        "Reading everything out",
        "Every row with its vector and metadata, page after page; MB are of the Arrow batches.",
        ("export",),
        (("page_rows", "Rows a page"),),
        (
            metric("export_mb_per_s", "MB/s", "MB/s"),
            metric("export_rows_per_s", "Rows/s", "1/s"),
            metric("export_s", "Once", "s"),
            metric("latency_p99", "p99 of a page", "us"),
            metric("ineffective", "Incomplete passes", "1"),
        ),
    ),
    Sheet(
        "scalar_index_overhead",
        "What indexes on metadata cost when loading",
        "The same rows in the same batches: without columns (none), with columns and no index on "
        "them (off), with all of them indexed (on), or as the store alone decides (fixed).",
        ("arm",),
        (("payload_index", "Index"), ("fields", "Columns")),
        (
            *STEPS,
            metric("ready_s", "together", "s", "Seconds"),
            metric("rows_per_s", "Rows/s", "1/s"),
        ),
    ),
    *sheets_traffic.SHEETS,
)

#: The experiments that have a section here.
EXPERIMENTS = tuple(sheet.experiment for sheet in (*_SHEETS, _STORAGE))


def sections(run: RunData, looks: Looks) -> list[Section]:
    """The sections of those experiments that were measured."""
    made = [_section(run, sheet, looks) for sheet in _SHEETS]
    return [section for section in made if section is not None]


def storage(run: RunData, looks: Looks) -> Section | None:
    """Bytes on disk as the collection grows."""
    return _section(run, _STORAGE, looks)


def without_figures(run: RunData, experiment: str) -> Section | None:
    """The section of one of `EXPERIMENTS` without its figures, where it was measured."""
    sheet = next(sheet for sheet in _SHEETS if sheet.experiment == experiment)
    return _section(run, sheet, None)


def _section(run: RunData, sheet: Sheet, looks: Looks | None) -> Section | None:
    points = [p for p in run.select(sheet.experiment) if p.phase in sheet.phases]
    if not points:
        return None
    blocks: list[Block] = []
    for facet, members in _facets(points, sheet.growing):
        if sheet.figures is not None and looks is not None:
            blocks += sheet.figures(run, facet, members, looks)
        if sheet.summary is not None:
            blocks += sheet.summary(run, facet, members)
        blocks.append(_table(run, sheet, facet, members))
    return Section(sheet.experiment.replace("_", "-"), sheet.title, sheet.lead, tuple(blocks))


def _facets(points: Sequence[Point], growing: bool) -> list[tuple[Facet, list[Point]]]:
    """By dataset and rows; sizes of one dataset together where it grows."""
    if not growing:
        return by_facet(points)
    names = sorted({p.dataset for p in points})
    found = []
    for name in names:
        own = [p for p in points if p.dataset == name]
        found.append((Facet(name, max(p.rows for p in own)), own))
    return found


def _table(run: RunData, sheet: Sheet, facet: Facet, points: Sequence[Point]) -> Table:
    columns = (
        Column("store", "Store", numeric=False),
        *(Column(key, title, numeric=False) for key, title in sheet.keys),
        *sheet.columns,
        Column("index", "Index", numeric=False),
    )
    rows = [
        Row(
            (
                plain(run.labels[p.series]),
                *(_key_cell(p, key) for key, _ in sheet.keys),
                *(_value_cell(p, column, sparse=sheet.sparse) for column in sheet.columns),
                plain(formatting.params(p.index_params)),
            ),
            p.state,
            p.series,
        )
        for p in points
    ]
    notes = tuple(_overheads(run, facet)) if sheet.experiment == "scalar_index_overhead" else ()
    title = f"{sheet.title}: {facet.dataset if sheet.growing else facet.title}"
    slug = f"{sheet.experiment.replace('_', '-')}-{facet.slug}"
    return Table(slug, title, columns, tuple(rows), notes, grouped_by=0)


def _key_cell(point: Point, key: str) -> Cell:
    if key == _SETTING:
        return plain(
            operating_point(replace(point, index_params={}), without=charts_filtered.SHOWN)
        )
    value: Any = {"rows": point.rows, "phase": point.phase}.get(key, point.params.get(key))
    if value is None:
        return plain("", "")
    if key == "loaded":
        return plain(value, f"{value:.0%}")
    if isinstance(value, int) and not isinstance(value, bool):
        return plain(value, f"{value:,}", _remark(point, key))
    return plain(value, str(value), _remark(point, key))


def _remark(point: Point, key: str) -> str:
    """Why a row does not count, or what to know of it: once, beside what names it."""
    told_by = ("phase", "condition", "page_rows", "rows", "selectivity")
    return remark(point) if key in told_by else ""


def _value_cell(point: Point, column: Column, *, sparse: bool) -> Cell:
    if sparse and not any(column.key in phase.metrics for phase in point.phases):
        return plain("", "")
    if column.key in COUNTS:
        return count_cell(point, column.key)
    show = (lambda v: f"{v:.1%}") if column.key in SHARES else None
    cell = spread_cell(point, column.key, column.unit, show=show)
    return replace(cell, note=cell.note or "")


def _overheads(run: RunData, facet: Facet) -> list[str]:
    """What columns and indexes cost each store, in words."""
    said = []
    for point in run.select("scalar_index_overhead", "overhead"):
        if (point.dataset, point.rows) != (facet.dataset, facet.rows):
            continue
        load, ready = point.spread("load_overhead"), point.spread("ready_overhead")
        if load is not None and ready is not None:
            what = {"indexes": "indexes", "columns": "columns without indexes"}.get(
                str(point.params["of"]), "columns, as it indexes them"
            )
            said.append(
                f"{run.labels[point.series]}: {what} change the load by {load.median:+.1%}"
                f" and the time until ready by {ready.median:+.1%}."
            )
    return said
