"""Nodes, memory and monthly cost that forecasts lead to."""

from __future__ import annotations

from collections.abc import Sequence

from vectrial.analysis.deployment import Demand, Deployment, Sizing
from vectrial.analysis.run_data import RunData
from vectrial.document.blocks import Cell, Column, Row, Section, Table, absent_cell, plain
from vectrial.stats.growth import COVERAGE
from vectrial.suite.model import Prices
from vectrial.util import formatting

_NOTES = (
    "Nodes have the processors that were measured. Each holds one shard in memory and answers one "
    "part of every query.",
    "Fan-out is not forecast: with several shards a query waits for the slowest of them, and its "
    "answers have to be merged. A measured cluster tells what that takes (docs/servers.md).",
)


def sizing(run: RunData, made: Sequence[Sizing], demand: Demand, prices: Prices | None) -> Section:
    """A table of the resources that each store would need."""
    currency = "" if prices is None else prices.currency
    columns = (
        Column("store", "Store", numeric=False),
        Column("by", "By", numeric=False),
        Column("nodes", "Nodes"),
        Column("shards", "Shards"),
        Column("replicas", "Replicas"),
        Column("rows", "Rows", "rows", "Each node"),
        Column("memory", "Memory", "B", "Each node"),
        Column("disk", "Disk", "B", "Each node"),
        Column("qps", "QPS", "1/s", "Each node"),
        Column("p99", "p99", "us", "Each node"),
        Column("ready", "Ready", "s", "Each node"),
        *([] if prices is None else [Column("month", f"Per month, {currency}", currency)]),
    )
    rows = [
        Row(
            (
                plain(run.labels[one.build.series]),
                plain(by),
                *_cells(deployment, one.reason, prices is not None),
            ),
            "ok" if deployment is not None else "absent",
            one.build.series,
        )
        for one in made
        for by, deployment in (("median", one.expected), ("worse end", one.cautious))
    ]
    clients = sorted({one.clients for one in made if one.clients})
    loads = formatting.joined([formatting.plural(count, "client") for count in clients])
    notes = list(_NOTES)
    notes += [f"QPS and p99 are those of {loads} for each node."] if loads else []
    notes += [f"Prices of {prices.dated} ({prices.source})."] if prices is not None else []
    lead = (
        f"The fewest nodes for {formatting.rows(int(demand.rows))}, {demand.qps:,.0f} QPS and a p99"
        f" of at most {formatting.duration(demand.p99_us)}: by the medians of the forecasts, and by"
        f" the worse end of each {COVERAGE:.0%} interval."
    )
    table = Table("sizing", "Nodes, forecast", columns, tuple(rows), tuple(notes), grouped_by=0)
    return Section("sizing", "What it would take", lead, (table,))


def _cells(deployment: Deployment | None, reason: str, priced: bool) -> tuple[Cell, ...]:
    if deployment is None:
        return (absent_cell(reason),) * (10 if priced else 9)
    one = deployment
    cells = (
        plain(one.nodes, f"{one.nodes:,}"),
        plain(one.shards, f"{one.shards:,}"),
        plain(one.replicas, f"{one.replicas:,}"),
        plain(one.rows, f"{one.rows:,.0f}"),
        _measure(one.memory_bytes, "B"),
        _measure(one.disk_bytes, "B"),
        _measure(one.qps, "1/s"),
        _measure(one.p99_us, "us"),
        _measure(one.ready_s, "s"),
    )
    return (*cells, plain(one.per_month, f"{one.per_month:,.0f}")) if priced else cells


def _measure(value: float | None, unit: str) -> Cell:
    return (
        absent_cell("no forecast")
        if value is None
        else plain(value, formatting.measure(value, unit))
    )
