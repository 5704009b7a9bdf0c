"""The section of loading: rates over rows, and the steps apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from vectrial.analysis.analysis import Facet, by_facet, loaded_rows, remark
from vectrial.analysis.run_data import Point, RunData
from vectrial.document.blocks import (
    Block,
    Cell,
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
from vectrial.document.sections import INDEX, STORE, names_of, store_row
from vectrial.model.phase import Role
from vectrial.util import formatting

_UNTIL = "Until every row is served by the final index"
_COLD = "First searches, cold"
_INGEST = (
    STORE,
    Column("rows", "Rows"),
    Column("clients", "Clients"),
    Column("batch_rows", "Rows a batch"),
    Column("durability", "Writes are", numeric=False),
    Column.for_metric("rows_per_s", group="Loading"),
    Column.for_metric("mb_per_s", group="Loading"),
    Column.for_metric("latency_p50", "p50 of a batch", "Loading"),
    Column.for_metric("latency_p99", "p99 of a batch", "Loading"),
    Column.for_metric("errors", "Failed batches", "Loading", spread=False),
    Column.for_metric("cpu_s", group="Loading"),
    Column.for_metric("load_s", "load", _UNTIL),
    Column.for_metric("flush_s", "flush", _UNTIL),
    Column.for_metric("build_s", "build", _UNTIL),
    Column.for_metric("wait_s", "wait", _UNTIL),
    Column.for_metric("first_search_s", "first search", _UNTIL),
    Column.for_metric("ready_s", "together", _UNTIL),
    Column.for_metric("probing_s", "Probed meanwhile, not counted"),
    Column.for_metric("ready_rows_per_s"),
    Column.for_metric("time_to_searchable"),
    Column.for_metric("cold_first", group=_COLD),
    Column.for_metric("cold_p50", group=_COLD),
    Column.for_metric("cold_max", group=_COLD),
    INDEX,
)


def sections(run: RunData, points: Sequence[Point], looks: Looks | None) -> list[Section]:
    """Sections on loading: rates over rows, and each step separately."""
    blocks: list[Block] = []
    for facet, members in by_facet(_with_dataset_rows(points)):
        totals = [p for p in members if p.role == Role.LOAD]
        phases: dict[tuple[object, ...], dict[str, Point]] = defaultdict(dict)
        for p in members:
            phases[_load_key(p)][p.phase] = p
        if not totals:
            continue
        least = min(map(_clients, totals))
        few = [p for p in totals if _clients(p) == least]
        if looks is not None:
            blocks += _ingest_figures(run, facet, few, looks)
        blocks.append(_ingest_table(run, facet, totals, phases))
    lead = (
        "From an empty store until every row is served by the final index and a search has been "
        "answered. A store that indexes while inserting pays under load, one that indexes "
        "afterwards under build or wait, one that puts it off under first search; “together” is "
        "what compares them."
    )
    return [Section("loading", "Loading", lead, tuple(blocks))] if blocks else []


def _with_dataset_rows(points: Sequence[Point]) -> list[Point]:
    """Ingest points; checkpoints of one dataset share a facet, however many rows they loaded."""
    most: dict[str, int] = {}
    for p in points:
        most[p.dataset] = max(most.get(p.dataset, 0), p.rows)
    return [
        replace(p, rows=most[p.dataset], params={"rows": loaded_rows(p), **p.params}, spreads={})
        for p in points
    ]


def _load_key(point: Point) -> tuple[object, ...]:
    how = [point.params.get(name) for name in ("concurrency", "batch_rows", "durability")]
    return point.series, formatting.params(point.index_params), loaded_rows(point), *how


def _clients(point: Point) -> int:
    return int(point.params.get("concurrency", 1))


def largest_loads(points: Sequence[Point]) -> list[Point]:
    """The point with the most rows of each series and index."""
    best: dict[tuple[object, ...], Point] = {}
    for p in points:
        key = (p.series, formatting.params(p.index_params))
        if key not in best or loaded_rows(p) > loaded_rows(best[key]):
            best[key] = p
    return list(best.values())


def _ingest_figures(run: RunData, facet: Facet, totals: list[Point], looks: Looks) -> list[Figure]:
    whole = sorted(largest_loads(totals), key=lambda p: p.value("ready_s") or 0)
    figures = [
        Figure(
            f"loading-steps-{facet.slug}",
            f"Until every row is served: {facet.title}",
            "Load, flush, build, wait and the first search of the largest checkpoint, one after "
            "the other; median of the repeats."
            + (" Stores that failed the gate are marked ✗." if _has_failures(whole) else ""),
            f"Seconds per step of loading on {facet.title}.",
            charts.ingest_steps(whole, _failure_marks(run, whole)),
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
                charts.ingest_rate(totals, "ready_rows_per_s", looks),
                run.ordered(totals),
            ),
        )
    return figures


def _has_failures(points: Sequence[Point]) -> bool:
    return any(p.state != "ok" for p in points)


def _failure_marks(run: RunData, points: Sequence[Point]) -> list[str]:
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
        own = phases[_load_key(p)]
        cells = (
            plain_cell(loaded_rows(p), f"{loaded_rows(p):,}", remark(p)),
            plain_cell(_clients(p)),
            plain_cell(p.params.get("batch_rows", formatting.NOTHING)),
            plain_cell(_durability(run, p)),
            _cell_of_either(own, "rows_per_s", "1"),
            _cell_of_either(own, "mb_per_s", "1"),
            *(spread_cell(own.get("load"), name, "us") for name in ("latency_p50", "latency_p99")),
            count_cell(own["load"], "errors") if "load" in own else Cell(formatting.NOTHING),
            spread_cell(own.get("load"), "cpu_s", "s"),
            *(_cell_of_either(own, f"{step}_s", "s") for step in (*charts.STEPS, "ready")),
            _cell_of_either(own, "probing_s", "s"),
            _cell_of_either(own, "ready_rows_per_s", "1"),
            _cell_of_either(own, "time_to_searchable", "us"),
            *(_cell_of_either(own, f"cold_{name}", "us") for name in ("first", "p50", "max")),
        )
        rows.append(store_row(run, p, cells))
    known = _readiness_checks(run, facet)
    notes = (f"How it is known that every row is indexed: {known}.",) if known else ()
    if any("durability" in p.params for p in totals):
        notes = (*notes, _DURABILITY)
    title = f"Loading: {facet.title}"
    return Table(f"loading-{facet.slug}", title, _INGEST, tuple(rows), notes, grouped_by=1)


#: Footnote on the column with the durability of writes.
_DURABILITY = (
    "What has become of a write when it is acknowledged is declared by the store's settings. It is "
    "tried where the experiment durability had outages, and read every row afterwards."
)


def _durability(run: RunData, load: Point) -> str:
    """Durability requested for writes, and the result of its check, if there is one."""
    asked = load.params.get("durability")
    if asked is None:
        return formatting.NOTHING
    tried = [
        p
        for p in run.points_named("outages")
        if (p.series.store, p.series.index_kind) == (load.series.store, load.series.index_kind)
        and p.params.get("durability") == asked
    ]
    if not tried:
        return f"{asked} (declared, not tried)"
    broken = [p for p in tried if p.params.get("verdict") == "broken"]
    each = ", ".join(
        f"{p.value('outages') or 0:,.0f} × {str(p.params['outage']).replace('_', ' ')}"
        for p in broken or tried
    )
    return f"{asked} (broken in {each})" if broken else f"{asked} (kept through {each})"


def _readiness_checks(run: RunData, facet: Facet) -> str:
    """Signal by which each store's wait ended; stores with the same signal are listed together."""
    said: dict[str, dict[str, None]] = defaultdict(dict)
    for p in run.points_named("wait"):
        if p.dataset == facet.dataset and "known_by" in p.params:
            said[str(p.params["known_by"])][run.labels[p.series]] = None
    return "; ".join(
        f"{how} ({formatting.list_in_words(list(names))})" for how, names in said.items()
    )


def _cell_of_either(own: dict[str, Point], metric: str, unit: str) -> Cell:
    """A metric from the totals, or from the phase that measured it."""
    holders = [p for p in own.values() if any(metric in phase.metrics for phase in p.phases)]
    holders.sort(key=lambda p: (p.spread(metric) is None, p.role != Role.LOAD))
    return spread_cell(holders[0] if holders else None, metric, unit)


def overheads(run: RunData, facet: Facet) -> list[str]:
    """The cost of columns and of indexes for each store, in words."""
    lines = []
    for point in run.select("ingest", "overhead"):
        if (point.dataset, point.rows) != (facet.dataset, facet.rows):
            continue
        load, ready = point.spread("load_overhead"), point.spread("ready_overhead")
        if load is not None and ready is not None:
            subject = {"indexes": "indexes", "columns": "columns without indexes"}.get(
                str(point.params["of"]), "columns, as it indexes them"
            )
            lines.append(
                f"{run.labels[point.series]}: {subject} change the load by {load.median:+.1%}"
                f" and the time until ready by {ready.median:+.1%}."
            )
    return lines
