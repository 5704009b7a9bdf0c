"""One table that answers the whole question: each store at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vectrial.analysis.analysis import TARGETS, Facet, Sweep, points_of_series
from vectrial.analysis.run_data import Point, RunData
from vectrial.document.blocks import (
    Cell,
    Column,
    Row,
    Section,
    Table,
    Tone,
    plain_cell,
    spread_cell,
    value_cell,
)
from vectrial.model.phase import Role
from vectrial.model.trial import Series
from vectrial.report.sections.search import equal_recall_row
from vectrial.stats.intervals import spread_of
from vectrial.util import formatting

_SEARCH = f"Search at recall ≥ {TARGETS[0]:.2f}"
#: The columns of a store at a glance.
GLANCE = (
    Column("store", "Store", numeric=False),
    Column.for_metric("qps", group=_SEARCH),
    Column("recall", "Recall", "1", _SEARCH, spread=True),
    Column("search_p99", "p99", "us", _SEARCH, spread=True),
    Column("clients", "Clients", "1", _SEARCH),
    Column.for_metric("errors", group=_SEARCH, spread=False),
    Column("read_p50", "Read", "us", "Single operation, p50", spread=True),
    Column("create_p50", "Create", "us", "Single operation, p50", spread=True),
    Column("update_p50", "Update", "us", "Single operation, p50", spread=True),
    Column("delete_p50", "Delete", "us", "Single operation, p50", spread=True),
    Column.for_metric("ready_rows_per_s", "Rows/s", "Loading until ready"),
    Column.for_metric("ready_s", "Time", "Loading until ready"),
    Column.for_metric("disk_bytes", group="Size"),
    Column.for_metric("rss_growth_bytes", group="Size"),
)
_OPERATIONS = ("read", "create", "update", "delete")


def glance_section(run: RunData, found: Sequence[Sweep]) -> Section | None:
    """One row per store: search at equal recall, single operations, loading, size."""
    tables = tuple(_glance(run, sweep) for sweep in found)
    if not tables:
        return None
    return Section(
        "glance",
        "At a glance",
        f"Search columns show the fastest measured point with recall ≥ {TARGETS[0]:.2f}; all its "
        "figures come from the same requests. The other columns belong to the same index unless a "
        "note names another. Small print under a figure is its spread over repeats.",
        tables,
    )


def _glance(run: RunData, sweep: Sweep) -> Table:
    rows = [_glance_row(run, sweep, series) for series in _all_series(run, sweep)]
    rows.sort(key=_rank)
    return Table(
        f"glance-{sweep.facet.slug}",
        sweep.facet.title,
        GLANCE,
        tuple(rows),
        (
            "All figures are of measured points; nothing is interpolated in this table. “Not "
            "reached” means that no measured setting had this recall; others might.",
        ),
    )


def _all_series(run: RunData, sweep: Sweep) -> list[Series]:
    """Series measured here, and those that failed or were skipped on this dataset."""
    others = [t.series for t in run.trials if t.dataset == sweep.facet.dataset]
    return list(dict.fromkeys([*sweep.series, *others]))


def _rank(row: Row) -> tuple[int, float]:
    qps = row.cells[1].value
    order = {"ok": 0, "absent": 1, "invalid": 2, "wrong": 3}[row.tone]
    return order, -(qps if isinstance(qps, int | float) else 0)


def _glance_row(run: RunData, sweep: Sweep, series: Series) -> Row:
    facet = sweep.facet
    if series not in sweep.series:
        search, tone, built = _why_not_swept(run, facet, series)
        front: tuple[Cell, ...] = (
            plain_cell(run.labels[series]),
            search,
            *(Cell("") for _ in range(4)),
        )
    else:
        row = equal_recall_row(run, sweep, series, TARGETS[0])
        tone, (store, _, qps, recall, _, p99, clients, errors, at, _) = row.tone, row.cells
        head = replace(store, detail=at.text)
        front = (head, qps, recall, p99, clients, errors)
        best = sweep.best(series, TARGETS[0])
        built = best or sweep.select(series, None)[0]
    forced = run.differences.get(series.store)
    if forced:
        front = (
            replace(front[0], note=f"Notes on {series.store}: {'; '.join(forced)}"),
            *front[1:],
        )
    return Row((*front, *_costs(run, facet, series, built)), tone, series)


def _why_not_swept(run: RunData, facet: Facet, series: Series) -> tuple[Cell, Tone, Point | None]:
    """Reason why a series has no search points, as given by its trials."""
    own = [t for t in run.trials if t.series == series and t.dataset == facet.dataset]
    searching = [t for t in own if any(p.role == Role.SEARCH for p in t.phases)] or own
    if wrong := next(filter(None, map(run.why_wrong, searching)), None):
        return Cell("wrong", note=f"failed the gate: {wrong}", tone="wrong"), "wrong", None
    status = next(
        (t.status for t in searching if t.status in ("failed", "skipped")), "not measured"
    )
    reason = "; ".join(dict.fromkeys(t.reason for t in searching if t.reason))
    return Cell(status, note=reason, tone="absent"), "absent", None


def _costs(run: RunData, facet: Facet, series: Series, built: Point | None) -> list[Cell]:
    def one(points: Sequence[Point], metric: str, unit: str) -> Cell:
        own = [p for p in facet.select(points) if p.series == series]
        if built is not None:
            own = points_of_series(own, series, built.index_params)
        point = next((p for p in own if p.spread(metric) is not None), own[0] if own else None)
        cell = spread_cell(point, metric, unit)
        if point is not None and point.state == "invalid" and cell.value is not None:
            return Cell(formatting.NOTHING, note=point.reason or "invalid", tone="invalid")
        if point is not None and point.doubt is not None and cell.value is not None:
            return replace(cell, note=f"not ranked: {point.doubt}", tone="invalid")
        other = point is not None and built is not None and point.index_params != built.index_params
        if point is not None and other and cell.value is not None:
            return replace(cell, note=f"of the index {formatting.params(point.index_params)}")
        return cell

    loads = run.points_in_role(Role.LOAD)
    sizes = run.points_in_role(Role.SIZE)
    until_ready = [one(loads, "ready_rows_per_s", "1"), one(loads, "ready_s", "s")]
    # Without an experiment that loads, the time of the load that the searches are of.
    if until_ready[1].value is None and built is not None and (times := run.ready_s(built)):
        rates = [facet.rows / seconds for seconds in times if seconds > 0]
        until_ready = [
            value_cell(spread_of(rates), "1") if rates else until_ready[0],
            value_cell(spread_of(times), "s"),
        ]
    return [
        *(
            one(run.points_in_role(Role.OPERATION, name), "latency_p50", "us")
            for name in _OPERATIONS
        ),
        *until_ready,
        one(sizes, "disk_bytes", "B"),
        one(sizes, "rss_growth_bytes", "B"),
    ]
