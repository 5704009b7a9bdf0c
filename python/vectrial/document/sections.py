"""The sections of one experiment in a report: from its sheet, or every value of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any, TypeVar

from vectrial.analysis.analysis import LOAD, Facet, by_facet, operating_point, remark
from vectrial.analysis.run_data import Point, RunData
from vectrial.document.blocks import (
    Block,
    Cell,
    Column,
    Row,
    Section,
    Table,
    columns,
    count_cell,
    plain_cell,
    spread_cell,
)
from vectrial.document.charts.theme import Looks
from vectrial.document.sheet import COUNTS, SETTING, SHARES, Sheet
from vectrial.util import formatting

T = TypeVar("T")

#: The first and the last column of `store_row`.
STORE = Column("store", "Store", numeric=False)
INDEX = Column("index", "Index", numeric=False)


def sheet_sections(name: str, sheet: Sheet, run: RunData, looks: Looks | None) -> list[Section]:
    """The section of the experiment of this name; empty if it was not measured.

    looks: looks of its figures; None: without figures.
    """
    points = [
        p
        for p in run.select(name)
        if p.phase in sheet.phases and (not sheet.only or sheet.only in p.params)
    ]
    if not points:
        return []
    blocks: list[Block] = []
    for facet, members in _facets(points, sheet.growing):
        if looks is not None:
            blocks += _call(sheet.figures, run, facet, members, looks)
        blocks += _call(sheet.summary, run, facet, members)
        blocks.append(_table(name, run, sheet, facet, members))
    return [Section(_slug(name, sheet), sheet.title, sheet.lead, tuple(blocks))]


def _call(function: Callable[..., Sequence[T]] | str, *arguments: Any) -> Sequence[T]:
    """The result of a sheet's function; empty if there is no function."""
    if not function:
        return []
    called = resolve_name(function) if isinstance(function, str) else function
    found: Sequence[T] = called(*arguments)
    return found


def _slug(name: str, sheet: Sheet) -> str:
    return sheet.slug or name.replace("_", "-")


def section_of_values(run: RunData, name: str, title: str) -> list[Section]:
    """The section of an experiment that declares no sheet: every value, in one table."""
    points = run.select(name)
    if not points:
        return []
    heads = (
        *columns("store", "dataset", "phase", at="Setting", metric="Metric"),
        Column("value", "Value", spread=True),
        Column("unit", "Unit", numeric=False),
    )
    rows = tuple(row for point in points for row in _metric_rows(run, point))
    slug = name.replace("_", "-")
    table = Table(slug, title, heads, rows)
    return [Section(slug, title, "Every value as measured.", (table,))]


def _metric_rows(run: RunData, point: Point) -> Iterator[Row]:
    names = dict.fromkeys(name for phase in point.phases for name in phase.metrics)
    for name in names:
        unit = next(p.metrics[name].unit for p in point.phases if name in p.metrics)
        shown = spread_cell(point, name, unit)
        if shown.value is not None:
            shown = replace(shown, note=point.reason or "")
        head = (run.labels[point.series], point.dataset, point.phase)
        cells = (
            *map(plain_cell, head),
            plain_cell(operating_point(point)),
            plain_cell(name),
            shown,
            plain_cell(unit),
        )
        yield Row(cells, point.state, point.series)


def _facets(points: Sequence[Point], growing: bool) -> list[tuple[Facet, list[Point]]]:
    """Points by dataset and rows; with `growing`, all sizes of one dataset together."""
    if not growing:
        return by_facet(points)
    names = sorted({p.dataset for p in points})
    found = []
    for name in names:
        own = [p for p in points if p.dataset == name]
        found.append((Facet(name, max(p.rows for p in own)), own))
    return found


def _table(name: str, run: RunData, sheet: Sheet, facet: Facet, points: Sequence[Point]) -> Table:
    heads = (
        STORE,
        *(Column(key, title, numeric=False) for key, title in sheet.keys),
        *sheet.columns,
        INDEX,
    )
    rows = [
        Row(
            (
                plain_cell(run.labels[p.series]),
                *(_key_cell(p, key, sheet) for key, _ in sheet.keys),
                *(_value_cell(p, column, sparse=sheet.sparse) for column in sheet.columns),
                plain_cell(formatting.params(p.index_params)),
            ),
            p.state,
            p.series,
        )
        for p in points
    ]
    notes = tuple(_call(sheet.notes, run, facet))
    title = f"{sheet.title}: {facet.dataset if sheet.growing else facet.title}"
    slug = f"{_slug(name, sheet)}-{facet.slug}"
    return Table(slug, title, heads, tuple(rows), notes, grouped_by=0)


def _key_cell(point: Point, key: str, sheet: Sheet) -> Cell:
    if key == SETTING:
        shown = (*LOAD, *sheet.hidden, *(name for name, _ in sheet.keys))
        return plain_cell(operating_point(replace(point, index_params={}), without=shown))
    value: Any = {"rows": point.rows, "phase": point.phase}.get(key, point.params.get(key))
    if value is None:
        return plain_cell("", "")
    if key == "loaded":
        return plain_cell(value, f"{value:.0%}")
    if isinstance(value, int) and not isinstance(value, bool):
        return plain_cell(value, f"{value:,}", _remark(point, key))
    return plain_cell(value, str(value), _remark(point, key))


def _remark(point: Point, key: str) -> str:
    """Reason why a row does not count, or a note on it: shown once, beside the row's name."""
    told_by = ("phase", "condition", "page_rows", "rows", "selectivity")
    return remark(point) if key in told_by else ""


def _value_cell(point: Point, column: Column, *, sparse: bool) -> Cell:
    if sparse and not any(column.key in phase.metrics for phase in point.phases):
        return plain_cell("", "")
    if column.key in COUNTS:
        return count_cell(point, column.key)
    show = (lambda v: f"{v:.1%}") if column.key in SHARES else None
    cell = spread_cell(point, column.key, column.unit, show=show)
    return replace(cell, note=cell.note or "")


def names_of(run: RunData, points: Sequence[Point]) -> list[str]:
    """A name per point: its series, with the index parameters if a series occurs twice."""
    count = Counter(p.series for p in points)
    return [
        run.labels[p.series]
        + (f" ({formatting.params(p.index_params)})" if count[p.series] > 1 else "")
        for p in points
    ]


def store_row(run: RunData, point: Point, cells: Iterable[Cell]) -> Row:
    """A row: the store first, the index last, so that a phone shows the figures in between."""
    index = plain_cell(formatting.params(point.index_params))
    return Row((plain_cell(run.labels[point.series]), *cells, index), point.state, point.series)
