"""Sections about searching: recall against speed, latency, concurrency."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from vectrial.analysis.analysis import TARGETS, Sweep, by_facet, closed_loops, operating_point
from vectrial.analysis.run_data import Point, RunData
from vectrial.document.blocks import (
    Block,
    Cell,
    Column,
    Figure,
    Row,
    Section,
    Table,
    absent_cell,
    columns,
    count_cell,
    plain_cell,
    ratio_cell,
    source_of,
    spread_cell,
    value_cell,
)
from vectrial.document.charts import search as charts_search
from vectrial.document.charts.theme import Looks
from vectrial.model.trial import Series
from vectrial.stats.intervals import LEAST_REPEATS, Spread, pooled_interval
from vectrial.stats.quantiles import QUANTILES
from vectrial.util import formatting


def speed(run: RunData, found: list[Sweep], looks: Looks) -> Section | None:
    """Recall against QPS, and QPS at equal recall."""
    if not found:
        return None
    blocks: list[Block] = []
    for sweep in found:
        blocks += [_recall_qps(sweep, looks), _equal_recall(run, sweep)]
    return Section(
        "speed",
        "Recall and QPS",
        "Each marker is one measured operating point: recall, QPS and latency come from the same "
        "requests. Up and to the right is better.",
        tuple(blocks),
    )


def _recall_qps(sweep: Sweep, looks: Looks) -> Figure:
    bad = [p for p in sweep.points if not p.ranked]
    hidden = sum((p.value("recall_mean") or 0) < charts_search.recall_floor(sweep) for p in bad)
    caption = (
        "Lines join each store's Pareto front; the broad band beneath is the front of all stores. "
        "Small, pale markers are points that another setting of the same store beats. "
        f"Vertical bars are the spread over repeats ({_repeats(sweep.points)})."
    )
    if bad:
        caption += (
            f" Hollow, crossed-out markers ({len(bad)}) failed the correctness gate, are invalid "
            "or contradict other values. They are on no front."
        )
    if hidden:
        caption += f" {hidden} of them are left of the axis."
    front = [looks.labels[p.series] for p in sweep.front()]
    return Figure(
        f"recall-qps-{sweep.facet.slug}",
        f"Recall and QPS: {sweep.facet.title}",
        caption,
        f"Recall against QPS on {sweep.facet.title}. On the front of all stores: "
        + (formatting.list_in_words(list(dict.fromkeys(front))) or "none")
        + ".",
        charts_search.recall_qps(sweep, looks, TARGETS[0]),
        sweep.series,
    )


def _repeats(points: tuple[Point, ...] | list[Point]) -> str:
    kinds = {s.meaning for p in points if (s := p.spread("qps")) is not None}
    return "; ".join(sorted(kinds)) or "none"


_EQUAL = (
    *columns("store", target=("Target recall", "")),
    Column.for_metric("qps", group="Fastest measured point at this recall"),
    Column("recall", "Recall", "1", "Fastest measured point at this recall", spread=True),
    Column.for_metric("latency_p50", group="Fastest measured point at this recall"),
    Column.for_metric("latency_p99", group="Fastest measured point at this recall"),
    Column("clients", "Clients", "1", "Fastest measured point at this recall"),
    Column.for_metric("errors", group="Fastest measured point at this recall", spread=False),
    Column("at", "Setting", "", "Fastest measured point at this recall", numeric=False),
    Column("qps_between", "QPS at exactly this recall", "1/s"),
)


def _equal_recall(run: RunData, sweep: Sweep) -> Table:
    rows: list[Row] = []
    for target in sorted(TARGETS):
        part = [equal_recall_row(run, sweep, series, target) for series in sweep.series]
        rows += sorted(part, key=_fastest_first)
    return Table(
        f"equal-recall-{sweep.facet.slug}",
        f"At equal recall: {sweep.facet.title}",
        _EQUAL,
        tuple(rows),
        (
            "“QPS at exactly this recall” is interpolated between two neighbouring measured points "
            "of the store's front (linear in recall and log QPS). It is empty without a measured "
            "point on each side: nothing is extrapolated.",
        ),
        grouped_by=1,
    )


def _fastest_first(row: Row) -> tuple[int, float]:
    value = row.cells[2].value
    return ({"ok": 0, "absent": 1}.get(row.tone, 2), -value if value is not None else 0.0)


def equal_recall_row(run: RunData, sweep: Sweep, series: Series, target: float) -> Row:
    """A series at a target recall: all figures of one row come from the same requests."""
    head = (plain_cell(run.labels[series]), plain_cell(target, f"≥ {target:.2f}"))
    wrong = sweep.select(series, "wrong")

    def row_without_value(nothing: Cell) -> Row:
        return Row((*head, nothing, *[Cell("")] * 7), nothing.tone, series)

    if wrong and not sweep.select(series):
        return row_without_value(
            Cell("wrong", note=f"failed the gate: {wrong[0].reason}", tone="wrong")
        )
    if not sweep.select(series):
        reason = "; ".join(dict.fromkeys(p.reason or p.state for p in sweep.select(series, None)))
        return row_without_value(Cell("invalid", note=reason, tone="invalid"))
    if not sweep.ranked(series):
        reason = "; ".join(dict.fromkeys(p.why_unranked for p in sweep.select(series)))
        return row_without_value(Cell("not ranked", note=reason, tone="invalid"))
    best = sweep.best(series, target)
    if best is None:
        most = max(sweep.ranked(series), key=lambda p: p.value("recall_mean") or 0)
        most_recall = f"most: {formatting.recall(most.value('recall_mean') or 0)}"
        source = source_of(most, metric="recall_mean")
        return row_without_value(
            Cell("not reached", tone="absent", detail=most_recall, source=source)
        )
    interpolated = sweep.qps_at_recall(series, target)
    cells = search_cells(best)
    exact = absent_cell()
    if interpolated is not None:
        qps, points = interpolated
        read = source_of(*points, metric="qps", recall=target)
        exact = replace(plain_cell(qps, formatting.number(qps)), source=read)
    return Row((*head, *cells, exact), "ok", series)


def search_cells(point: Point) -> tuple[Cell, ...]:
    """qps, recall, p50, p99, clients, errors, setting of one operating point."""
    clients = charts_search.clients_of(point)
    kinds: Counter[str] = Counter()
    for phase in point.phases:
        kinds.update({kind: count for kind, count, _ in phase.errors})
    errors = [f"{count:,} × {kind}" for kind, count in kinds.items()]
    said = [point.doubt, point.reason] if point.state == "ok" else []
    note = "; ".join(filter(None, [*said, *errors]))
    return (
        spread_cell(point, "qps", "1"),
        spread_cell(point, "recall_mean", "1", show=formatting.recall),
        spread_cell(point, "latency_p50", "us"),
        spread_cell(point, "latency_p99", "us"),
        absent_cell() if clients is None else plain_cell(clients),
        count_cell(point, "errors", note),
        plain_cell(operating_point(point)),
    )


_QUANTILES = ("p50", "p95", "p99")
_PERCENTILES = (
    Column("store", "Store", numeric=False),
    *(Column(name, name, "us", "Of all requests", spread=True) for name in _QUANTILES),
    *columns(requests=("Requests", ""), repeats=("Repeats", ""), at="Setting"),
)
_POOLED = (
    "These percentiles pool the requests of all repeats; elsewhere the report shows the median "
    "over repeats. With three repeats or more the small print is the bootstrap 95 % interval, "
    "resampled by repeat; with two it is the range.",
)


def _pooled_row(run: RunData, point: Point) -> Row:
    parts = [run.histograms[p.phase_id] for p in point.phases if p.phase_id in run.histograms]
    count = sum(p.value("count") or 0 for p in point.phases)
    cells = (
        plain_cell(run.labels[point.series]),
        *(_pooled_cell(point, parts, name, count) for name in _QUANTILES),
        replace(plain_cell(count, f"{count:,.0f}"), source=source_of(point, metric="count")),
        plain_cell(point.repeats),
        plain_cell(operating_point(point)),
    )
    return Row(cells, "ok", point.series)


def _pooled_cell(point: Point, parts: list[bytes], name: str, count: float) -> Cell:
    if len(parts) < point.repeats:
        return absent_cell("not every repeat kept its histogram")
    quantile = QUANTILES[f"latency_{name}"]
    if why := quantile.why_unsupported(count):
        return absent_cell(why)
    n = len(parts)
    around: Literal["interval", "range"] = "interval" if n >= LEAST_REPEATS else "range"
    spread = Spread(n, *pooled_interval(parts, quantile.at), "single" if n == 1 else around)
    return replace(value_cell(spread, "us"), source=source_of(point, metric=f"latency_{name}"))


def latency(run: RunData, found: list[Sweep], looks: Looks) -> Section | None:
    """Latency distributions at equal recall."""
    blocks: list[Block] = []
    for sweep in found:
        best = [p for s in sweep.series if (p := sweep.best(s, TARGETS[0])) is not None]
        lines = charts_search.percentiles(run, best)
        if not lines:
            continue
        drawn = [best[i] for i in lines]
        blocks.append(
            Figure(
                f"latency-{sweep.facet.slug}",
                f"Latency by percentile: {sweep.facet.title}",
                f"Each store at its fastest measured point with recall ≥ {TARGETS[0]:.2f}; stores "
                "that do not reach it, or are wrong, are absent. The axis stretches the tail: from "
                "99 to 99.9 % is as wide as from 90 to 99 %. All repeats together; closed loop.",
                "Latency percentiles per store on " + sweep.facet.title + ".",
                charts_search.latency_distribution(lines, best, looks),
                run.ordered(drawn),
            )
        )
        rows = tuple(_pooled_row(run, point) for point in drawn)
        title = f"Percentiles of all repeats together: {sweep.facet.title}"
        name = f"percentiles-{sweep.facet.slug}"
        blocks.append(Table(name, title, _PERCENTILES, rows, _POOLED))
    if not blocks:
        return None
    lead = "The latency of single searches, and of the slowest of them."
    return Section("latency", "Search latency", lead, tuple(blocks))


_CONCURRENCY = (
    *columns("store", clients=("Clients", "")),
    Column.for_metric("qps"),
    Column("speedup", "Relative to 1 client", "1"),
    Column.for_metric("latency_p50"),
    Column.for_metric("latency_p99"),
    Column("recall", "Recall", "1", spread=True),
    Column.for_metric("errors", spread=False),
    Column("at", "Setting", numeric=False),
)


def concurrency(run: RunData, looks: Looks) -> Section | None:
    """QPS and p99 against clients."""
    blocks: list[Block] = []
    for facet, members in by_facet(closed_loops(run), with_k=True):
        points = [p for p in members if charts_search.clients_of(p) is not None]
        if len({charts_search.clients_of(p) for p in points}) < 2:
            continue
        if not any(p.spread("qps") for p in points):
            continue
        series = run.ordered(points)
        for metric, what in (("qps", "QPS"), ("latency_p99", "p99 latency")):
            if any(p.spread(metric) for p in points):
                blocks.append(
                    Figure(
                        f"concurrency-{metric.replace('_', '-')}-{facet.slug}",
                        f"{what} by number of clients: {facet.title}",
                        "Closed loop: each client has one request in flight and sends the next "
                        "when it is answered. Hollow markers are invalid or failed the gate.",
                        f"{what} against the number of clients on {facet.title}.",
                        charts_search.chart_by_clients(points, metric, looks),
                        series,
                    )
                )
        blocks.append(_concurrency_table(run, facet.slug, facet.title, points))
    if not blocks:
        return None
    lead = (
        "QPS and latency with several concurrent clients. Clients of the embedded lane are threads "
        "of one Python process: with more clients than cores, or where QPS does not grow, a tail "
        "of milliseconds is time spent waiting for a core."
    )
    return Section("concurrency", "Concurrent clients", lead, tuple(blocks))


def _concurrency_table(run: RunData, slug: str, title: str, points: list[Point]) -> Table:
    alone = {
        (p.series, operating_point(p)): p
        for p in points
        if charts_search.clients_of(p) == 1 and p.state == "ok"
    }
    rows = []
    for point in sorted_searches(run, points):
        qps, recall_, p50, p99, clients, errors, at = search_cells(point)
        base = alone.get((point.series, operating_point(point)))
        ratio = absent_cell()
        if base is not None and point.state == "ok":
            ratio = ratio_cell(point, base, "qps")
        cells = (
            plain_cell(run.labels[point.series]),
            clients,
            qps,
            ratio,
            p50,
            p99,
            recall_,
            errors,
            at,
        )
        if point.state != "ok":
            marked = Cell(clients.text, clients.value, note=point.reason or point.state)
            cells = (cells[0], marked, *cells[2:])
        rows.append(Row(cells, point.state, point.series))
    return Table(f"concurrency-{slug}", f"More clients: {title}", _CONCURRENCY, tuple(rows))


def sorted_searches(run: RunData, points: Iterable[Point]) -> list[Point]:
    """Searches by series, setting and load."""
    series = list(run.labels)

    def place(point: Point) -> tuple[int, str, float, int]:
        rate, clients = charts_search.rate_of(point), charts_search.clients_of(point)
        return series.index(point.series), operating_point(point), rate or 0.0, clients or 0

    return sorted(points, key=place)
