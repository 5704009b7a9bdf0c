"""What a store costs at the load that was measured, where the suite has prices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vectrial.errors import UserError
from vectrial.report import capacities, charts_search, text
from vectrial.report.analysis import TARGETS, Facet, by_facet, matching, operating_point
from vectrial.report.costs import HOURS_A_MONTH, Bill, Use, bill
from vectrial.report.data import Point, RunData
from vectrial.report.document import Cell, Column, Row, Section, Table, plain, spread_cell
from vectrial.suite.model import Prices, parse_suite

#: Experiments whose searches say what a store answers, the most telling first.
_SAYING = (capacities.EXPERIMENT, "open_loop", "concurrency", "recall_sweep")


def money(run: RunData) -> Section | None:
    """A month, and a million answers, of every store at the greatest load it was measured under."""
    prices = _prices(run)
    if prices is None:
        return None
    rows = [
        _row(run, facet, point, prices)
        for facet, points in by_facet([p for p in run.points if _answers(p)], with_k=True)
        for series in run.ordered(points)
        if (point := _busiest([p for p in points if p.series == series])) is not None
    ]
    if not rows:
        return None
    table = Table("cost", "What it costs", _columns(prices), tuple(rows), _assumptions(run, prices))
    lead = (
        f"The processors that each store may use, the most memory it held and its disk, by the"
        f" prices of {prices.dated} ({prices.source}), at the most answers per second that were"
        f" measured at a recall of {TARGETS[0]} or more."
    )
    return Section("cost", "What it costs", lead, (table,))


def _prices(run: RunData) -> Prices | None:
    try:
        return parse_suite(run.suite, "suite").prices if run.suite else None
    except UserError:
        return None  # a suite of another version: its figures do not depend on it


def _answers(point: Point) -> float | None:
    """Answers per second of a search, where it has any that count."""
    recall = point.value("recall_mean")
    if point.experiment not in _SAYING or point.state != "ok":
        return None
    if recall is None or recall < TARGETS[0]:
        return None
    if point.experiment == capacities.EXPERIMENT:  # a look on the way to the answer is none
        return point.value("sustained_qps") if point.phase == capacities.EXPERIMENT else None
    return point.value("qps")


def _busiest(points: list[Point]) -> Point | None:
    """Of the most telling experiment, the point of the most answers per second."""
    for experiment in _SAYING:
        found = [point for point in points if point.experiment == experiment]
        if found:
            return max(found, key=lambda point: _answers(point) or 0.0)
    return None


def _columns(prices: Prices) -> tuple[Column, ...]:
    money = prices.currency
    return (
        Column("store", "Store", numeric=False),
        Column("data", "Data", numeric=False),
        Column("load", "Load", numeric=False),
        Column("qps", "Answers/s", "1/s", "At this load", spread=True),
        Column("recall", "Recall", "1", "At this load", spread=True),
        Column("p99", "p99", "us", "At this load", spread=True),
        Column("processors", "Processors", "1", "Occupied"),
        Column("memory", "Memory", "B", "Occupied"),
        Column("disk", "Disk", "B", "Occupied"),
        Column("month", "A month", money, money),
        Column("million", "A million answers", money, money),
        Column("at", "Setting", numeric=False),
    )


def _row(run: RunData, facet: Facet, point: Point, prices: Prices) -> Row:
    answers = "sustained_qps" if point.value("sustained_qps") is not None else "qps"
    processors = _processors(run, point)
    memory, disk = _memory(run, point), _largest(run, point, ("disk_bytes", "server_disk_bytes"))
    due: Bill | None = None
    if processors is not None and memory is not None:
        qps = point.value(answers)
        assert qps is not None
        due = bill(Use(processors, memory, disk, qps), prices)
    cells = (
        plain(run.labels[point.series]),
        plain(facet.title),
        plain(_load(point)),
        spread_cell(point, answers, "1/s"),
        spread_cell(point, "recall_mean", "1", show=text.recall),
        spread_cell(point, "latency_p99", "us"),
        _known(processors, "1", "not known of a server that runs elsewhere"),
        _known(memory, "B", "not measured with these parameters: ask for footprint"),
        _known(disk, "B", "keeps nothing on disk, or was not measured"),
        _amount(None if due is None else due.month),
        _amount(None if due is None else due.per_million),
        plain(operating_point(point)),
    )
    return Row(cells, point.state, point.series)


def _load(point: Point) -> str:
    if point.experiment == capacities.EXPERIMENT:
        return "the greatest rate that it sustained"
    if "rate" in point.params:
        return f"{point.params['rate']:g} arrivals/s"
    clients = charts_search.clients_of(point)
    return "closed loop" if clients is None else f"{clients} callers, closed loop"


def _processors(run: RunData, point: Point) -> float | None:
    """Those that the store's server was given, or its process had: all of the machine's, unless the
    suite says otherwise, and no more than its time was limited to; None where the server runs
    elsewhere."""
    environment = run.run["environment"]
    cpu = environment.get("cpu", {}) if isinstance(environment, dict) else {}
    there = len(cpu.get("affinity") or ()) or cpu.get("logical")
    own = (t.server for t in run.trials if t.series == point.series and t.status == "ok")
    server: Mapping[str, Any] = next((facts for facts in own if facts is not None), {})
    if server.get("provider") == "external":
        return None
    known = (len(server.get("cores") or ()) or there, server.get("cpus"))
    return min((float(count) for count in known if count), default=None)


def _memory(run: RunData, point: Point) -> float | None:
    """The most that a server held in any phase; what a library's process held when loaded."""
    peak = _largest(run, point, ("server_peak_rss_bytes",))
    return peak if peak is not None else _largest(run, point, ("rss_bytes",))


def _largest(run: RunData, point: Point, metrics: tuple[str, ...]) -> float | None:
    same = [p for p in run.points if (p.dataset, p.rows) == (point.dataset, point.rows)]
    of_store = matching(same, point.series, point.index_params)
    found = [p.value(metric) for p in of_store for metric in metrics]
    return max((value for value in found if value is not None), default=None)


def _known(value: float | None, unit: str, absent: str) -> Cell:
    if value is None:
        return Cell(text.NOTHING, note=absent, tone="absent")
    return Cell(text.measure(value, unit) if unit != "1" else f"{value:g}", value)


def _amount(value: float | None) -> Cell:
    if value is None:
        return Cell(text.NOTHING, note="what it occupies is not known", tone="absent")
    return Cell(f"{value:,.2f}" if value >= 1 else text.number(value), value)


def _assumptions(run: RunData, prices: Prices) -> tuple[str, ...]:
    return (
        f"Prices in {prices.currency}: {prices.vcpu_hour:g} for a processor an hour,"
        f" {prices.gib_hour:g} for 2³⁰ bytes of memory an hour, {prices.gib_month:g} for 2³⁰ bytes"
        f" of disk a month. A month has {HOURS_A_MONTH:g} hours.",
        "One copy of the data, on one machine, rented all month; exactly the processors that the"
        " store may use, and exactly the memory and disk that it was seen to take: nothing is"
        " rounded up to what is sold, and nothing is added to grow into.",
        "A million answers: the month's cost over as many answers as it would give if it were asked"
        " at this rate all the time. No traffic, backup or person is counted.",
        "A library's memory is that of the whole process, which also holds the client.",
    )
