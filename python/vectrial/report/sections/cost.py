"""The cost of each store at the measured load, where the suite has prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vectrial.analysis import resources
from vectrial.analysis.analysis import TARGETS, operating_point, points_of_series
from vectrial.analysis.cost_basis import (
    HOURS_A_MONTH,
    Basis,
    Bill,
    ResourceUse,
    bases,
    bill,
    suite_of,
)
from vectrial.analysis.run_data import Point, RunData
from vectrial.document.blocks import (
    Cell,
    Column,
    Row,
    Section,
    Table,
    absent_cell,
    columns,
    plain_cell,
    source_of,
    spread_cell,
)
from vectrial.document.charts import search
from vectrial.model.errors import UserError
from vectrial.model.phase import Role
from vectrial.model.trial import Series
from vectrial.suite.model import Prices, Suite
from vectrial.util import formatting

_FLOOR = "The lowest recall that counts: the recall limit of `capacity`, where it was measured."


def money(run: RunData) -> Section | None:
    """Cost per month and per million queries of every store at its highest measured load;
    None without prices. A store without such a load has a row that says why."""
    suite = suite_of(run)
    if suite is None or suite.prices is None:
        return None
    found = bases(run, suite)
    if not found:
        return None  # nothing at all was measured
    prices = suite.prices
    rows = tuple(_row(run, _price_store(run, basis, prices)) for basis in found)
    notes = (*_assumptions(prices), *_client_note(run, suite, found))
    table = Table("cost", "Cost", _columns(prices), rows, notes)
    floors = [f"{floor:g}" for floor in sorted({basis.floor for basis in found})]
    lead = (
        f"The CPUs that each store may use, its peak memory and its disk, at the prices of"
        f" {prices.dated} ({prices.source}) and at the highest QPS that was measured with a recall"
        f" of at least {formatting.list_in_words(floors)}: the recall limit of `capacity`, else"
        f" {TARGETS[0]:g}."
    )
    return Section("cost", "Cost", lead, (table,))


@dataclass(frozen=True)
class PricedStore:
    """A store's price at its load. point: point for which it is priced; None if `basis` gives a
    reason why there is none. due: None if its resources are not known."""

    basis: Basis
    point: Point | None
    prices: Prices
    processors: Cell
    memory: Cell
    disk: Cell
    due: Bill | None

    def price_of_million(self, qps: float) -> float | None:
        """The price of a million queries at this QPS; None if unknown."""
        if self.due is None:
            return None
        use = ResourceUse(self.processors.value, self.memory.value, self.disk.value, qps)
        return bill(use, self.prices).per_million


def priced_stores(run: RunData) -> list[PricedStore]:
    """Every store of the run with its price; empty without prices or without loads."""
    suite = suite_of(run)
    if suite is None or suite.prices is None:
        return []
    return [_price_store(run, basis, suite.prices) for basis in bases(run, suite)]


def _price_store(run: RunData, basis: Basis, prices: Prices) -> PricedStore:
    point = basis.point
    if point is None:
        none = absent_cell(basis.reason)
        return PricedStore(basis, None, prices, none, none, none, None)
    processors = resources.processors(run, point.series)
    memory, disk = memory_of(run, point), disk_of(run, point)
    due: Bill | None = None
    if processors is not None and memory.value is not None:
        qps = point.value(basis.metric)
        assert qps is not None
        due = bill(ResourceUse(processors, memory.value, disk.value, qps), prices)
    known = _value_or_reason(processors, "unknown: the server runs elsewhere")
    return PricedStore(basis, point, prices, known, memory, disk, due)


def _columns(prices: Prices) -> tuple[Column, ...]:
    money = prices.currency
    return (
        *columns("store", "data", "load"),
        Column.for_metric("qps", group="At this load"),
        Column("recall", "Recall", "1", "At this load", spread=True),
        Column("floor", "Floor", "1", "At this load", notes=(_FLOOR,)),
        Column("p99", "p99", "us", "At this load", spread=True),
        Column("processors", "CPUs", "1", "Resources"),
        Column("memory", "Memory", "B", "Resources"),
        Column("disk", "Disk", "B", "Resources"),
        Column("month", "Per month", money, money),
        Column("million", "Per million queries", money, money),
        Column("at", "Setting", numeric=False),
    )


def _row(run: RunData, priced: PricedStore) -> Row:
    basis, point, due = priced.basis, priced.point, priced.due
    store, data, recall_floor = (
        plain_cell(basis.store),
        plain_cell(basis.facet.title),
        plain_cell(basis.floor),
    )
    if point is None:
        none = absent_cell(basis.reason)
        cells = (store, data, none, none, none, recall_floor, *(none,) * 7)
        return Row(cells, "absent", basis.series)
    qps_cell = spread_cell(point, basis.metric, "1/s")
    million = amount(None if due is None else due.per_million)
    if basis.at_least:
        qps_cell = replace(qps_cell, text=f"at least {qps_cell.text}")
        if due is not None:
            million = replace(million, text=f"at most {million.text}", note=point.reason or "")
    cells = (
        store,
        data,
        plain_cell(_load(basis, point)),
        qps_cell,
        spread_cell(point, "recall_mean", "1", show=formatting.recall),
        recall_floor,
        spread_cell(point, "latency_p99", "us"),
        priced.processors,
        priced.memory,
        priced.disk,
        amount(None if due is None else due.month),
        million,
        plain_cell(operating_point(point)),
    )
    return Row(cells, series=basis.series)


def _load(basis: Basis, point: Point) -> str:
    if basis.at_least:
        return "a sustained rate; the highest is not known"
    if point.role == Role.CAPACITY:
        return "the highest sustained rate"
    if "rate" in point.params:
        return f"{point.params['rate']:g} arrivals/s"
    clients = search.clients_of(point)
    return (
        "closed loop" if clients is None else f"{formatting.plural(clients, 'client')}, closed loop"
    )


def _shares_processors(run: RunData, suite: Suite, series: Series) -> bool:
    """True if the client ran on processors that the store is billed for."""
    server, cores = resources.server(run, series), resources.cores(run)
    if server.get("provider") == "external":
        return False
    if not server:  # a library is in the client's process
        return True
    billed = server.get("cores") or cores
    if server.get("cpus") and server["cpus"] < len(billed):
        return False  # billed is time of the server's own
    try:
        client = suite.placement.resolved(frozenset(cores)).pins or cores
    except UserError:  # the suite was changed since, or the machine is not known
        return False
    return not set(client).isdisjoint(billed)


def _client_note(run: RunData, suite: Suite, found: Sequence[Basis]) -> tuple[str, ...]:
    """A note on stores that shared their billed CPUs with the client."""
    priced = dict.fromkeys(b.series for b in found if b.series is not None and b.point is not None)
    shared = [run.labels[series] for series in priced if _shares_processors(run, suite, series)]
    if not shared:
        return ()
    return (
        f"The client shared the billed CPUs of {formatting.list_in_words(shared)}: its"
        " work is part of their price. A store with these CPUs to itself would reach a higher QPS"
        " at the same price. Otherwise the client has separate CPUs, which are not billed.",
    )


def memory_of(run: RunData, point: Point) -> Cell:
    """A server's peak memory in any phase; for a library, its process's memory when loaded."""
    absent = "not measured with these parameters: add the storage experiment"
    peak = _largest_value_cell(run, point, ("server_peak_rss_bytes",), absent)
    return (
        peak if peak.value is not None else _largest_value_cell(run, point, ("rss_bytes",), absent)
    )


def disk_of(run: RunData, point: Point) -> Cell:
    """The greatest disk usage of the store with the same build."""
    absent = "no files on disk, or not measured"
    return _largest_value_cell(run, point, ("disk_bytes", "server_disk_bytes"), absent)


def _largest_value_cell(run: RunData, point: Point, metrics: tuple[str, ...], absent: str) -> Cell:
    """The greatest value of these metrics with the same build, linked to where it was measured;
    `absent` is the reason if there is none."""
    same = [p for p in run.points if (p.dataset, p.rows) == (point.dataset, point.rows)]
    found = [
        (value, p, metric)
        for p in points_of_series(same, point.series, point.index_params)
        for metric in metrics
        if (value := p.value(metric)) is not None
    ]
    if not found:
        return absent_cell(absent)
    value, where, metric = max(found, key=lambda one: one[0])
    source = source_of(where, metric=metric)
    return Cell(formatting.measure(value, "B"), value, source=source)


def _value_or_reason(value: float | None, absent: str) -> Cell:
    return absent_cell(absent) if value is None else Cell(f"{value:g}", value)


def amount(value: float | None) -> Cell:
    """An amount of money."""
    if value is None:
        return absent_cell("its resources are not known")
    return Cell(f"{value:,.2f}" if value >= 1 else formatting.number(value), value)


def _assumptions(prices: Prices) -> tuple[str, ...]:
    return (
        f"Prices in {prices.currency}: {prices.vcpu_hour:g} per CPU and hour,"
        f" {prices.gib_hour:g} per GiB of memory and hour, {prices.gib_month:g} per GiB of disk and"
        f" month. A month has {HOURS_A_MONTH:g} hours.",
        "One copy of the data on one machine, rented for the whole month, with exactly the CPUs"
        " that the store may use and the memory and disk that it used. Nothing is rounded up to an"
        " instance size, and no headroom is added.",
        "Cost per million queries assumes this QPS all month. Traffic, backups and staff are not"
        " included.",
        "A library's memory is that of the whole process, including the client.",
    )
