"""Sections about the load: open loop, both lanes side by side, the client."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from vectrial.analysis.analysis import (
    LOAD,
    VERDICT,
    Facet,
    by_facet,
    facet_of,
    operating_point,
    sorted_facets,
)
from vectrial.analysis.run_data import Point, RunData
from vectrial.analysis.trial import Trial, stable_text
from vectrial.document.blocks import (
    Block,
    Cell,
    Column,
    Figure,
    Row,
    Section,
    Table,
    Tone,
    absent_cell,
    columns,
    count_cell,
    plain_cell,
    ratio_cell,
    spread_cell,
    value_cell,
)
from vectrial.document.charts import search
from vectrial.document.charts.theme import Looks
from vectrial.model.phase import Role
from vectrial.report.sections.search import search_cells, sorted_searches
from vectrial.stats.intervals import spread_of
from vectrial.util import formatting

_OPEN = (
    Column("store", "Store", numeric=False),
    Column("offered", "Offered QPS", "1/s"),
    Column("achieved", "Achieved QPS", "1/s", spread=True),
    Column.for_metric("latency_p50", group="Latency from the intended start"),
    Column.for_metric("latency_p99", group="Latency from the intended start"),
    Column.for_metric("latency_p99_9", group="Latency from the intended start"),
    Column.for_metric("service_p99", "p99", "Service time"),
    Column("lag_p99", "p99", "us", "Schedule lag", spread=True),
    Column("recall", "Recall", "1", spread=True),
    Column.for_metric("errors", spread=False),
    Column("in_flight", "Peak in flight", "1"),
    Column.for_metric("backlog", spread=False),
    Column("waited", "Delayed by the in-flight limit", "1"),
    *columns("arrivals", at="Setting"),
)


def open_loop(run: RunData, looks: Looks) -> Section | None:
    """Latency at each offered load."""
    blocks: list[Block] = []
    for facet, members in by_facet(run.points_in_role(Role.SEARCH), with_k=True):
        points = [p for p in members if search.rate_of(p) is not None]
        if any(p.spread("latency_p99") for p in points):
            blocks.append(
                Figure(
                    f"open-loop-p99-{facet.slug}",
                    f"p99 latency at a fixed arrival rate: {facet.title}",
                    "Open loop: the schedule does not wait for answers, and latency counts from "
                    "when a request was due. Hollow markers are invalid or failed the gate.",
                    f"p99 latency against the offered rate on {facet.title}.",
                    search.chart_by_rate(points, "latency_p99", looks),
                    run.ordered(points),
                )
            )
        rows = [_open_row(run, p) for p in sorted_searches(run, points)]
        if rows:
            title = f"Fixed arrival rate: {facet.title}"
            blocks.append(Table(f"open-loop-{facet.slug}", title, _OPEN, tuple(rows)))
    if not blocks:
        return None
    lead = (
        "Latency when requests arrive on a schedule, as from independent users. Latency counts "
        "from the scheduled time; service time counts from sending. The difference is time spent "
        "in a queue. If a store cannot keep up, the queue grows for the whole phase: such rows are "
        "marked overloaded, and their latencies depend on the length of the phase."
    )
    return Section("open-loop", "Fixed arrival rate (open loop)", lead, tuple(blocks))


def _open_row(run: RunData, point: Point) -> Row:
    offered = plain_cell(point.params["rate"], formatting.number(float(point.params["rate"])))
    if point.state != "ok":
        offered = Cell(offered.text, offered.value, note=point.reason or point.state)
    qps, recall, p50, p99, _, errors, at = search_cells(point)
    cells = (
        plain_cell(run.labels[point.series]),
        offered,
        qps,
        p50,
        p99,
        spread_cell(point, "latency_p99_9", "us"),
        spread_cell(point, "service_p99", "us"),
        spread_cell(point, "schedule_lag_p99", "us"),
        recall,
        errors,
        spread_cell(point, "in_flight_peak", "1"),
        spread_cell(point, "backlog", "1"),
        count_cell(point, "in_flight_limit_hits"),
        plain_cell(point.params.get("arrivals", formatting.NOTHING)),
        at,
    )
    return Row(cells, point.state, point.series)


_TAX = (
    *columns("store", "experiment", clients=("Clients", "")),
    Column("native_qps", "native", "1/s", "QPS", spread=True),
    Column("sdk_qps", "sdk", "1/s", "QPS", spread=True),
    Column("qps_ratio", "sdk of native", "1", "QPS"),
    Column("native_p50", "native", "us", "p50", spread=True),
    Column("sdk_p50", "sdk", "us", "p50", spread=True),
    Column("native_p99", "native", "us", "p99", spread=True),
    Column("sdk_p99", "sdk", "us", "p99", spread=True),
    Column("native_cpu", "native", "us", "Client CPU time per request", spread=True),
    Column("sdk_cpu", "sdk", "us", "Client CPU time per request", spread=True),
    Column("cpu_ratio", "sdk to native", "1", "Client CPU time per request"),
    Column("native_recall", "native", "1", "Recall", spread=True),
    Column("sdk_recall", "sdk", "1", "Recall", spread=True),
    Column("at", "Setting", numeric=False),
)


def client_tax(run: RunData) -> Section | None:
    """The cost of the Python client: both lanes at the same operating points."""
    tables = []
    for facet, members in by_facet(run.points, with_k=True):
        rows = [_tax_row(native, sdk) for native, sdk in _pairs(members)]
        if rows:
            title = f"Both lanes: {facet.title}"
            tables.append(Table(f"client-tax-{facet.slug}", title, _TAX, tuple(rows)))
    if not tables:
        return None
    lead = (
        "The same searches of the same loaded index, sent by Vectrial's engine (native) and by the "
        "store's official Python client (sdk). The difference is the cost of the Python client. "
        "Where the sdk lane is slower, its figures describe the client more than the store."
    )
    return Section("client-tax", "Cost of the Python client", lead, tuple(tables))


def _pairs(points: list[Point]) -> list[tuple[Point, Point]]:
    """Points of one store that were measured through both lanes, native first."""
    found: dict[tuple[Any, ...], dict[str, Point]] = defaultdict(dict)
    for p in points:
        key = (p.series.store, p.series.index_kind, p.experiment, p.phase, p.rows)
        said = repr(sorted(p.index_params.items())), repr(sorted(p.params.items()))
        found[*key, *said][p.series.lane] = p
    return [
        (lanes["native"], lanes["sdk"])
        for lanes in found.values()
        if {"native", "sdk"} <= lanes.keys()
    ]


def _tax_row(native: Point, sdk: Point) -> Row:
    sides = (native, sdk)
    state: Tone = next((p.state for p in sides if p.state != "ok"), "ok")
    why = "; ".join(f"{p.series.lane}: {p.reason or p.state}" for p in sides if p.state != "ok")
    clients = search.clients_of(native)

    def lane_cells(metric: str, unit: str) -> tuple[Cell, Cell]:
        show = formatting.recall if metric == "recall_mean" else None
        return (
            spread_cell(native, metric, unit, show=show),
            spread_cell(sdk, metric, unit, show=show),
        )

    cells = (
        Cell(native.series.store, native.series.store, note=why),
        plain_cell(native.experiment),
        absent_cell() if clients is None else plain_cell(clients),
        *lane_cells("qps", "1"),
        ratio_cell(sdk, native, "qps"),
        *lane_cells("latency_p50", "us"),
        *lane_cells("latency_p99", "us"),
        *lane_cells("cpu_us_per_op", "us"),
        ratio_cell(sdk, native, "cpu_us_per_op"),
        *lane_cells("recall_mean", "1"),
        plain_cell(operating_point(native)),
    )
    return Row(cells, state, native.series)


_CERTIFICATE = (
    *columns("store", "experiment", "load"),
    Column.for_metric("qps"),
    Column("cpu_us", "Client CPU time per request", "us", spread=True),
    Column("cpu_share", "Of its CPUs", "1", spread=True),
    Column("ceiling", "Ceiling", "1/s", spread=True),
    Column("share", "Of the ceiling", "1", spread=True),
    Column("lag_p99", "p99 of schedule lag", "us", spread=True),
    *columns("verdict", at="Setting"),
)


def certificate(run: RunData) -> Section | None:
    """The client's distance from its limits, trial by trial."""
    points = [p for p in run.points if p.series.lane == "native"]
    points = [p for p in points if any("client_cpu_share" in one.metrics for one in p.phases)]
    if not points:
        return None
    rows = [_certificate_row(run, p) for p in sorted_searches(run, points)]
    lead = (
        "The ceiling is the QPS of the client against a null server that answers at once, with "
        "requests of the same size and as many in flight. It is measured before the run. A row "
        "near the ceiling, with busy client CPUs or a late schedule, measures the client and not "
        "the store: it is marked client-bound and does not count."
    )
    table = Table("client", "The client during every native measurement", _CERTIFICATE, tuple(rows))
    return Section("client", "Was the client the bottleneck?", lead, (table,))


def _certificate_row(run: RunData, point: Point) -> Row:
    rate, clients = search.rate_of(point), search.clients_of(point)
    load = (
        formatting.plural(clients, "client")
        if clients
        else f"{formatting.number(rate or 0)} QPS offered"
    )
    bound = "client-bound" in (point.reason or "")
    verdict = plain_cell("the store" if point.state == "ok" else point.state)
    if bound:
        verdict = Cell("client-bound", "client-bound", note=point.reason or "", tone="invalid")

    def percent(share: float) -> str:
        return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1f} %"

    lag = absent_cell()
    if rate is not None:
        lag = spread_cell(point, "schedule_lag_p99", "us")
    cells = (
        plain_cell(run.labels[point.series]),
        plain_cell(point.experiment),
        plain_cell(load),
        spread_cell(point, "qps", "1"),
        spread_cell(point, "cpu_us_per_op", "us"),
        spread_cell(point, "client_cpu_share", "1", show=percent),
        spread_cell(point, "ceiling_qps", "1"),
        spread_cell(point, "ceiling_share", "1", show=percent),
        lag,
        verdict,
        plain_cell(operating_point(point, without=(*LOAD, *VERDICT))),
    )
    return Row(cells, "invalid" if bound else point.state, point.series)


_UNTIL = "Time of the load"
_TIMES = {
    "load_s": "acknowledged",
    "flush_s": "flush",
    "build_s": "build",
    "wait_s": "wait",
    "ready_s": "ready to search",
}
_LOADS = (
    Column("store", "Store", numeric=False),
    *(Column.for_metric(name, title, _UNTIL) for name, title in _TIMES.items()),
    *columns(loads=("Loads", ""), at="Index"),
)


def loads(run: RunData) -> Section | None:
    """Every load that was searched, by store and index."""
    searched = [trial for trial in run.trials if _searches(trial)]
    if not any(trial.load for trial in searched):
        return None  # of an earlier version, which recorded none
    grouped: dict[Facet, list[Trial]] = defaultdict(list)
    for trial in searched:
        grouped[facet_of(trial)].append(trial)
    tables = [_loads_table(run, facet, trials) for facet, trials in sorted_facets(grouped)]
    return Section(
        "loads",
        "Loads behind the searches",
        "How long it took until these very rows could be searched: until the last row was "
        "acknowledged, flushed, until the index was built where that is a step, and until the "
        "final index served every row; together, ready to search.",
        tuple(tables),
    )


def _searches(trial: Trial) -> bool:
    return any(phase.value("recall_mean") is not None for phase in trial.phases)


def _loads_table(run: RunData, facet: Facet, trials: Sequence[Trial]) -> Table:
    builds: dict[tuple[object, str], list[Trial]] = defaultdict(list)
    for trial in trials:
        builds[trial.series, stable_text(trial.index_params)].append(trial)
    rows = [_loads_row(run, members) for members in builds.values()]
    rows.sort(key=lambda row: row.cells[-3].value or 0.0)
    title = f"Loads behind the searches: {facet.title}"
    return Table(f"loads-{facet.slug}", title, _LOADS, tuple(rows))


def _loads_row(run: RunData, trials: Sequence[Trial]) -> Row:
    first = trials[0]
    every = list({stable_text(trial.load): trial.load for trial in trials if trial.load}.values())
    why = "" if every else "not recorded: an experiment loaded the rows without timing it"
    return Row(
        (
            plain_cell(run.labels[first.series]),
            *(_time(every, name, why) for name in _TIMES),
            plain_cell(len(every)),
            plain_cell(formatting.params(first.index_params)),
        ),
        series=first.series,
    )


def _time(every: Sequence[Mapping[str, float]], name: str, why: str) -> Cell:
    found = [load[name] for load in every if name in load]
    return value_cell(spread_of(found), "s") if found else absent_cell(why)
