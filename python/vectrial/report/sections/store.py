"""Sections about what a store costs: single operations, loading, size."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from vectrial.analysis.analysis import Facet, by_facet, loaded_rows, remark
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
from vectrial.document.charts import store as charts_store
from vectrial.document.charts.theme import Looks
from vectrial.report.sections import file_kinds
from vectrial.util import formatting

#: Operations of the experiment crud, in the order shown; others follow.
OPERATIONS = ("create", "read", "update", "delete", "find_by_condition", "find_by_vector")


def names_of(run: RunData, points: Sequence[Point]) -> list[str]:
    """A name per point: its series, with the index parameters where a series comes twice."""
    count = Counter(p.series for p in points)
    return [
        run.labels[p.series]
        + (f" ({formatting.params(p.index_params)})" if count[p.series] > 1 else "")
        for p in points
    ]


def _row(run: RunData, point: Point, cells: Iterable[Cell]) -> Row:
    """First the store, last the index: what was measured is in between, and seen on a phone."""
    index = plain(formatting.params(point.index_params))
    return Row((plain(run.labels[point.series]), *cells, index), point.state, point.series)


_STORE = Column("store", "Store", numeric=False)
_INDEX = Column("index", "Index", numeric=False)

_COUNTED = (
    "count", "errors", "verified", "ineffective", "checked_by_search", "wrong_by_search"
)  # fmt: skip
_CRUD = (
    _STORE,
    Column("operation", "Operation", numeric=False),
    Column("latency_p50", "p50", "us", spread=True),
    Column("latency_p99", "p99", "us", spread=True),
    Column("latency_max", "max", "us", spread=True),
    Column("count", "Done", "1"),
    Column("errors", "Errors", "1"),
    Column("verified", "Verified", "1"),
    Column("ineffective", "Ineffective", "1"),
    Column("checked_by_search", "Searched for", "1"),
    Column("wrong_by_search", "Wrong for searches", "1"),
    _INDEX,
)


def crud(run: RunData, looks: Looks) -> Section | None:
    """Single operations: p50 and p99, and whether their effect was there afterwards."""
    blocks: list[Block] = []
    for facet, points in by_facet(run.select("crud")):
        order = [*OPERATIONS, *sorted({p.phase for p in points} - set(OPERATIONS))]
        points = sorted(points, key=lambda p: (order.index(p.phase), p.state == "wrong", _p50(p)))
        if any(p.value("latency_p50") is not None for p in points):
            blocks.append(
                Figure(
                    f"operations-{facet.slug}",
                    f"Single operations, p50 to p99: {facet.title}",
                    "The marker is the median; the line ends at the 99th percentile. One "
                    "client, one operation at a time. Hollow markers did not have the effect "
                    "they acknowledged, or the store failed the gate.",
                    f"Latency of single operations per store on {facet.title}.",
                    charts_store.operations(points, order, looks),
                    run.ordered(points),
                )
            )
        blocks.append(_crud_table(run, facet, points))
    if not blocks:
        return None
    return Section(
        "operations",
        "Single operations",
        "One client, one operation at a time. The effect of each is checked afterwards, outside "
        "the timed part.",
        tuple(blocks),
    )


def _p50(point: Point) -> float:
    value = point.value("latency_p50")
    return float("inf") if value is None else value


def _crud_table(run: RunData, facet: Facet, points: Sequence[Point]) -> Table:
    rows = []
    for p in points:
        cells = (
            plain(p.phase.replace("_", " "), note=p.reason or ""),
            *(spread_cell(p, f"latency_{name}", "us") for name in ("p50", "p99", "max")),
            *(count_cell(p, name) for name in _COUNTED),
        )
        rows.append(_row(run, p, cells))
    title = f"Single operations: {facet.title}"
    return Table(f"operations-{facet.slug}", title, _CRUD, tuple(rows), grouped_by=1)


_UNTIL = "Until every row is served by the final index"
_COLD = "First searches, cold"
_INGEST = (
    _STORE,
    Column("rows", "Rows"),
    Column("callers", "Clients"),
    Column("batch_rows", "Rows a batch"),
    Column("durability", "Writes are", numeric=False),
    Column("rows_per_s", "Rows/s", "1/s", "Loading", spread=True),
    Column("mb_per_s", "MB/s", "MB/s", "Loading", spread=True),
    Column("latency_p50", "p50 of a batch", "us", "Loading", spread=True),
    Column("latency_p99", "p99 of a batch", "us", "Loading", spread=True),
    Column("errors", "Failed batches", "1", "Loading"),
    Column("cpu_s", "Client CPU", "s", "Loading", spread=True),
    Column("load_s", "load", "s", _UNTIL, spread=True),
    Column("flush_s", "flush", "s", _UNTIL, spread=True),
    Column("build_s", "build", "s", _UNTIL, spread=True),
    Column("wait_s", "wait", "s", _UNTIL, spread=True),
    Column("first_search_s", "first search", "s", _UNTIL, spread=True),
    Column("ready_s", "together", "s", _UNTIL, spread=True),
    Column("probing_s", "Probed meanwhile, not counted", "s", spread=True),
    Column("ready_rows_per_s", "Rows/s until ready", "1/s", spread=True),
    Column("time_to_searchable", "Row searchable after", "us", spread=True),
    Column("cold_first", "first", "us", _COLD, spread=True),
    Column("cold_p50", "p50", "us", _COLD, spread=True),
    Column("cold_max", "max", "us", _COLD, spread=True),
    _INDEX,
)


def ingest(run: RunData, looks: Looks) -> Section | None:
    """Loading: rates over rows, the steps apart."""
    blocks: list[Block] = []
    for facet, members in by_facet(_with_dataset_rows(run)):
        totals = [p for p in members if p.phase == "ingest"]
        phases: dict[tuple[object, ...], dict[str, Point]] = defaultdict(dict)
        for p in members:
            phases[_same_load(p)][p.phase] = p
        if not totals:
            continue
        least = min(map(_callers, totals))
        few = [p for p in totals if _callers(p) == least]
        blocks += _ingest_figures(run, facet, few, looks)
        blocks.append(_ingest_table(run, facet, totals, phases))
    if not blocks:
        return None
    return Section(
        "loading",
        "Loading",
        "From an empty store until every row is served by the final index and a search has been "
        "answered. A store that indexes while inserting pays under load, one that indexes "
        "afterwards under build or wait, one that puts it off under first search; “together” is "
        "what compares them.",
        tuple(blocks),
    )


def _with_dataset_rows(run: RunData) -> list[Point]:
    """Ingest points; checkpoints of one dataset share a facet, whichever rows they loaded."""
    points = run.select("ingest")
    most: dict[str, int] = {}
    for p in points:
        most[p.dataset] = max(most.get(p.dataset, 0), p.rows)
    return [
        replace(p, rows=most[p.dataset], params={"rows": loaded_rows(p), **p.params}, spreads={})
        for p in points
    ]


def _same_load(point: Point) -> tuple[object, ...]:
    how = [point.params.get(name) for name in ("concurrency", "batch_rows", "durability")]
    return point.series, formatting.params(point.index_params), loaded_rows(point), *how


def _callers(point: Point) -> int:
    return int(point.params.get("concurrency", 1))


def largest(points: Sequence[Point]) -> list[Point]:
    """Of each series and index the point with the most rows."""
    best: dict[tuple[object, ...], Point] = {}
    for p in points:
        key = (p.series, formatting.params(p.index_params))
        if key not in best or loaded_rows(p) > loaded_rows(best[key]):
            best[key] = p
    return list(best.values())


def _ingest_figures(run: RunData, facet: Facet, totals: list[Point], looks: Looks) -> list[Figure]:
    whole = sorted(largest(totals), key=lambda p: p.value("ready_s") or 0)
    figures = [
        Figure(
            f"loading-steps-{facet.slug}",
            f"Until every row is served: {facet.title}",
            "Load, flush, build, wait and the first search of the largest checkpoint, one after "
            "the other; median of the repeats."
            + (" Stores that failed the gate are marked ✗." if _any_bad(whole) else ""),
            f"Seconds per step of loading on {facet.title}.",
            charts_store.ingest_steps(whole, _marked(run, whole)),
        )
    ]
    if len({loaded_rows(p) for p in totals}) > 1:
        figures.insert(
            0,
            Figure(
                f"loading-rate-{facet.slug}",
                f"Loading rate as the store grows: {facet.title}",
                "Each marker is a load from empty to that many rows, divided by the time until "
                "all were served by the final index.",
                f"Rows per second against rows loaded on {facet.dataset}.",
                charts_store.ingest_rate(totals, "ready_rows_per_s", looks),
                run.ordered(totals),
            ),
        )
    return figures


def _any_bad(points: Sequence[Point]) -> bool:
    return any(p.state != "ok" for p in points)


def _marked(run: RunData, points: Sequence[Point]) -> list[str]:
    names = names_of(run, points)
    return [n if p.state == "ok" else f"✗ {n}" for n, p in zip(names, points, strict=True)]


def _ingest_table(
    run: RunData,
    facet: Facet,
    totals: list[Point],
    phases: dict[tuple[object, ...], dict[str, Point]],
) -> Table:
    rows = []
    for p in sorted(
        totals, key=lambda p: (loaded_rows(p), p.state == "wrong", p.value("ready_s") or 0)
    ):
        own = phases[_same_load(p)]
        cells = (
            plain(loaded_rows(p), f"{loaded_rows(p):,}", remark(p)),
            plain(_callers(p)),
            plain(p.params.get("batch_rows", formatting.NOTHING)),
            plain(_durability(run, p)),
            _either(own, "rows_per_s", "1"),
            _either(own, "mb_per_s", "1"),
            *(spread_cell(own.get("load"), name, "us") for name in ("latency_p50", "latency_p99")),
            count_cell(own["load"], "errors") if "load" in own else Cell(formatting.NOTHING),
            spread_cell(own.get("load"), "cpu_s", "s"),
            *(_either(own, f"{step}_s", "s") for step in (*charts_store.STEPS, "ready")),
            _either(own, "probing_s", "s"),
            _either(own, "ready_rows_per_s", "1"),
            _either(own, "time_to_searchable", "us"),
            *(_either(own, f"cold_{name}", "us") for name in ("first", "p50", "max")),
        )
        rows.append(_row(run, p, cells))
    known = _known_by(run, facet)
    notes = (f"How it is known that every row is indexed: {known}.",) if known else ()
    if any("durability" in p.params for p in totals):
        notes = (*notes, _DURABILITY)
    title = f"Loading: {facet.title}"
    return Table(f"loading-{facet.slug}", title, _INGEST, tuple(rows), notes, grouped_by=1)


#: What the column of what writes are means.
_DURABILITY = (
    "What has become of a write when it is acknowledged is declared by the store's settings. It is "
    "tried where the experiment durability killed the process and found the rows again."
)


def _durability(run: RunData, load: Point) -> str:
    """What writes were asked to be, and whether anybody looked."""
    asked = load.params.get("durability")
    if asked is None:
        return formatting.NOTHING
    crashes = [
        p
        for p in run.select("durability", "crash")
        if (p.series.store, p.series.index_kind) == (load.series.store, load.series.index_kind)
        and p.params.get("durability") == asked
        and p.value("kept_rows") is not None
    ]
    if not crashes:
        return f"{asked} (declared, not tried)"
    held = all(p.state == "ok" and p.reason is None for p in crashes)
    return f"{asked} (tried)" if held else f"{asked} (declared; rows were lost in a crash)"


def _known_by(run: RunData, facet: Facet) -> str:
    """How each store's wait knew its end, stores that say the same together."""
    said: dict[str, dict[str, None]] = defaultdict(dict)
    for p in run.select("ingest", "wait"):
        if p.dataset == facet.dataset and "known_by" in p.params:
            said[str(p.params["known_by"])][run.labels[p.series]] = None
    return "; ".join(f"{how} ({formatting.joined(list(names))})" for how, names in said.items())


def _either(own: dict[str, Point], metric: str, unit: str) -> Cell:
    """A metric from the totals, or from the phase that measured it."""
    holders = [p for p in own.values() if any(metric in phase.metrics for phase in p.phases)]
    holders.sort(key=lambda p: (p.spread(metric) is None, p.phase != "ingest"))
    return spread_cell(holders[0] if holders else None, metric, unit)


_FOOTPRINT = (
    _STORE,
    Column("disk_bytes", "Disk", "B", "On disk after flush", spread=True),
    Column("disk_empty_bytes", "Before the load", "B", "On disk after flush", spread=True),
    Column("disk_ratio", "× raw", "1", "On disk after flush", spread=True),
    Column("index_bytes", "Index", "B", "As the store tells", spread=True),
    Column("log_bytes", "Log", "B", "As the store tells", spread=True),
    Column("rss_growth_bytes", "Grown by", "B", "Resident memory", spread=True),
    Column("rss_ratio", "× raw", "1", "Resident memory", spread=True),
    Column("rss_bytes", "In all", "B", "Resident memory", spread=True),
    _INDEX,
)


def footprint(run: RunData, looks: Looks) -> Section | None:
    """Bytes on disk and in memory beside the raw bytes."""
    blocks: list[Block] = []
    for facet, points in by_facet(run.select("storage", "footprint")):
        raw = next((v for p in points if (v := p.value("raw_bytes")) is not None), 0.0)
        extra = next((v for p in points if (v := p.value("metadata_bytes")) is not None), 0.0)
        for metric, what in (("disk_bytes", "On disk"), ("rss_growth_bytes", "In memory")):
            held = sorted(
                (p for p in points if p.value(metric) is not None),
                key=lambda p: p.value(metric) or 0,
            )
            if held:
                blocks.append(
                    Figure(
                        f"size-{metric.split('_')[0]}-{facet.slug}",
                        f"{what}: {facet.title}",
                        f"Beside the raw bytes: {formatting.size(raw)} of vectors"
                        + (f" and {formatting.size(extra)} of metadata." if extra else ".")
                        + (
                            " Dashed bars failed the gate or are invalid." if _any_bad(held) else ""
                        ),
                        f"{what}, bytes per store on {facet.title}.",
                        charts_store.footprint(
                            held, names_of(run, held), metric, raw + extra, looks
                        ),
                    )
                )
        blocks.append(_footprint_table(run, facet, points))
        blocks += file_kinds.table(
            f"size-kinds-{facet.slug}",
            f"On disk by kind of file: {facet.title}",
            points,
            run,
        )
    if not blocks:
        return None
    return Section(
        "size",
        "Size on disk and in memory",
        "Allocated blocks of the store's folder after flush, and how much resident memory grew "
        "while everything was loaded, beside the raw bytes of vectors and metadata.",
        tuple(blocks),
    )


def _footprint_table(run: RunData, facet: Facet, points: Sequence[Point]) -> Table:
    rows = []
    for p in sorted(
        points, key=lambda p: (p.state == "wrong", p.value("disk_bytes") or float("inf"))
    ):
        rows.append(_row(run, p, [spread_cell(p, c.key, c.unit) for c in _FOOTPRINT[1:-1]]))
    return Table(f"size-{facet.slug}", f"Size: {facet.title}", _FOOTPRINT, tuple(rows))
