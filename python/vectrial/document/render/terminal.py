"""A report in a terminal: all of it without its figures, or its first table."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text as RichText

from vectrial.document.blocks import (
    HEAD,
    Cell,
    Report,
    Table,
    Text,
    footnotes,
    numbers_of,
    titles_of,
)

_WIDE = (
    "store", "qps", "recall", "search_p99", "read_p50", "create_p50", "update_p50", "delete_p50",
    "ready_rows_per_s", "ready_s", "disk_bytes", "rss_growth_bytes",
)  # fmt: skip
_NARROW = ("store", "qps", "recall", "search_p99", "read_p50", "ready_s", "disk_bytes")
_TITLES = {"ready_rows_per_s": "Load/s", "ready_s": "Loaded in"}
_STYLES = {"ok": "", "good": "green", "wrong": "red", "invalid": "yellow", "absent": "dim"}


def render(report: Report) -> RenderableType:
    """The report without figures, for `rich`."""
    parts: list[RenderableType] = [RichText(report.title, style="bold")]
    if report.about:
        parts.append(RichText(report.about))
    parts += [RichText(f"{label}: {value}") for label, value in report.meta]
    parts += _summary(report)
    for section in report.sections:
        if section.title:
            parts.append(RichText(f"\n{section.title}", style="bold"))
        if section.lead:
            parts.append(RichText(section.lead, style="dim"))
        for block in section.blocks:
            if isinstance(block, Table):
                parts += [RichText(), _table(block.without_minor_columns())]
            elif isinstance(block, Text):
                parts += [RichText(f"\n{block.title}", style="bold")] if block.title else []
                mark = "- " if block.bullets else ""
                parts += [RichText(f"{mark}{paragraph}") for paragraph in block.paragraphs]
    return Group(*parts)


def summary(report: Report) -> RenderableType:
    """Warnings, short answers and the first table of a report, for `rich`."""
    parts = _summary(report)
    glance = next((s for s in report.sections if s.name == "glance"), None)
    if glance is not None:
        parts += [Padding(_Glance(b), (1, 0, 0, 0)) for b in glance.blocks if isinstance(b, Table)]
    if not parts:
        parts.append(RichText("The run holds no measurements.", style="yellow"))
    return Group(*parts)


def _summary(report: Report) -> list[RenderableType]:
    parts: list[RenderableType] = [
        *([RichText(report.note, style="italic")] if report.note else []),
        *(RichText(f"! {warning}", style="yellow") for warning in report.warnings),
    ]
    for sheet, answers in report.answers:
        parts.append(RichText(f"\n{sheet}", style="bold"))
        for answer in answers:
            line = RichText(f"  {answer.question}: ")
            line.append(answer.answer, style="bold green")
            line.append(f", {answer.figure}. ")
            line.append(answer.bound, style="dim")
            parts.append(line)
    return parts


class _Glance:
    """A table that leaves out columns in a narrow terminal: parameters, counts and spreads are in
    the other forms of the report."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        keys = _WIDE if options.max_width >= 125 else _NARROW
        columns = self.table.columns
        shown = [j for j, column in enumerate(columns) if column.key in keys]
        rows = tuple(
            replace(row, cells=tuple(_brief_cell(row.cells[j], named=j == 0) for j in shown))
            for row in self.table.rows
        )
        picked = tuple(
            replace(columns[j], title=_TITLES.get(columns[j].key, columns[j].title), group="")
            for j in shown
        )
        yield _table(replace(self.table, columns=picked, rows=rows), short=True)


def _brief_cell(cell: Cell, *, named: bool) -> Cell:
    """A cell without its spread; the cell with the store's name also without notes, which the page
    has in full."""
    return replace(cell, detail="", note="", notes=()) if named else replace(cell, detail="")


def _table(table: Table, *, short: bool = False) -> RenderableType:
    """A table for `rich`. short: cut texts in a narrow terminal instead of wrapping them."""
    grid = RichTable(
        title=RichText(table.title),
        title_style="bold",
        title_justify="left",
        box=None,
        padding=(0, 1),
    )
    marks, notes = footnotes(table)
    titles = titles_of(table.columns)
    for j, (column, title) in enumerate(zip(table.columns, titles, strict=True)):
        grid.add_column(
            RichText(title + numbers_of(marks.get((HEAD, j), ()))),
            justify="right" if column.numeric else "left",
            overflow="ellipsis" if short else "fold",
            no_wrap=short,
            max_width=24 if short and not column.numeric else None,
        )
    for i, row in enumerate(table.rows):
        cells = [
            RichText(
                cell.text
                + (f" ({cell.detail})" if cell.detail else "")
                + numbers_of(marks.get((i, j), ())),
                style=_STYLES[cell.tone],
            )
            for j, cell in enumerate(row.cells)
        ]
        grid.add_row(*cells, style=_STYLES[row.tone])
    said = [RichText(f"[{n}] {note}", style="dim") for n, note in enumerate(notes, 1)]
    return Group(grid, *said, *(RichText(note, style="dim") for note in table.notes))
