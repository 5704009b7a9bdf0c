"""Rows at a glance and fronts of one run, for the pages of stores and datasets."""

from __future__ import annotations

from dataclasses import dataclass

from vectrial.analysis.analysis import LOAD, clients_of, closed_loops, operating_point, sweeps
from vectrial.analysis.run_data import RunData
from vectrial.document.blocks import Cell, Column, Report, Table, Tone, plain_cell, spread_cell
from vectrial_web.site.entries import Address, RunFacts, label_of, link_cell

#: The section of a report that holds these rows.
GLANCE = "glance"
#: Points of one run in the tables of its datasets.
_MOST = 120


@dataclass(frozen=True)
class Glance:
    """A store's row in a report's table that shows everything at a glance. sheet: title of its
    table; cells: cells after the store's name."""

    run: RunFacts
    store: str
    label: str
    dataset: str
    sheet: str
    head: Cell
    cells: tuple[Cell, ...]
    tone: Tone


@dataclass(frozen=True)
class FrontPoint:
    """A measured point on its store's front of recall and QPS."""

    run: RunFacts
    store: str
    label: str
    dataset: str
    rows: int
    cells: tuple[Cell, ...]
    version: str


def glances_of(run: RunData, report: Report, facts: RunFacts, address: Address) -> list[Glance]:
    """The rows at a glance of a run, from its report."""
    section = next((one for one in report.sections if one.name == GLANCE), None)
    if section is None:
        return []
    found = []
    for sweep, table in zip(sweeps(run), section.blocks, strict=True):
        assert isinstance(table, Table)
        for row in table.rows:
            assert row.series is not None
            if not any(isinstance(cell.value, int | float) for cell in row.cells[1:]):
                continue  # nothing was measured here
            cells = tuple(link_cell(cell, address) for cell in row.cells)
            found.append(
                Glance(
                    facts, row.series.store, label_of(run, row.series), sweep.facet.dataset,
                    table.title, cells[0], cells[1:], row.tone,
                )
            )  # fmt: skip
    return found


POINTS = (
    Column.for_metric("recall_mean", "Recall"),
    Column.for_metric("qps", "QPS"),
    Column.for_metric("latency_p50", "p50"),
    Column.for_metric("latency_p99", "p99"),
    Column("clients", "Clients"),
    Column("rows", "Rows"),
    Column("k", "k"),
    Column("lane", "Lane", numeric=False),
    Column("nodes", "Nodes"),
    Column("repeats", "Repeats"),
    Column("setting", "Setting", numeric=False),
)


def fronts_of(run: RunData, facts: RunFacts, address: Address) -> list[FrontPoint]:
    """The points on the fronts of a run, for each number of clients."""
    versions = {t.series: t.store_version or "" for t in run.trials if t.store_version}
    found: list[FrontPoint] = []
    for clients in clients_of(closed_loops(run)):
        for sweep in sweeps(run, clients):
            for series in sweep.series:
                for point in sweep.front(series):
                    cells = (
                        *(
                            link_cell(spread_cell(point, name, unit), address)
                            for name, unit in _SHOWN
                        ),
                        plain_cell(clients),
                        plain_cell(point.rows, f"{point.rows:,}"),
                        plain_cell(sweep.facet.k),
                        plain_cell(series.lane),
                        plain_cell(series.nodes),
                        plain_cell(point.repeats),
                        plain_cell(operating_point(point, without=(*LOAD, "nodes"))),
                    )
                    found.append(
                        FrontPoint(
                            facts, series.store, label_of(run, series), point.dataset, point.rows,
                            cells, versions.get(series, ""),
                        )
                    )  # fmt: skip
    return found[:_MOST]


_SHOWN = (("recall_mean", "1"), ("qps", "1"), ("latency_p50", "us"), ("latency_p99", "us"))
