"""The report's first table in a terminal."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text as RichText

from vectrial.document.blocks import Report, Table, footnoted

_WIDE = (
    "store", "qps", "recall", "search_p99", "read_p50", "create_p50", "update_p50", "delete_p50",
    "ready_rows_per_s", "ready_s", "disk_bytes", "rss_growth_bytes",
)  # fmt: skip
_NARROW = ("store", "qps", "recall", "search_p99", "read_p50", "ready_s", "disk_bytes")
_TITLES = {"ready_rows_per_s": "Load/s", "ready_s": "Loaded in"}
_STYLES = {"ok": "", "wrong": "red", "invalid": "yellow", "absent": "dim"}


def rendered(report: Report) -> RenderableType:
    """Warnings, short answers and the first table of a report, for `rich`."""
    parts: list[RenderableType] = []
    for warning in report.warnings:
        parts.append(RichText(f"! {warning}", style="yellow"))
    for sheet, answers in report.answers:
        parts.append(RichText(f"\n{sheet}", style="bold"))
        for answer in answers:
            line = RichText(f"  {answer.question}: ")
            line.append(answer.answer, style="bold green")
            line.append(f", {answer.figure}. ")
            line.append(answer.bound, style="dim")
            parts.append(line)
    glance = next((s for s in report.sections if s.name == "glance"), None)
    if glance is not None:
        parts += [Padding(_Glance(b), (1, 0, 0, 0)) for b in glance.blocks if isinstance(b, Table)]
    if not parts:
        parts.append(RichText("The run holds no measurements.", style="yellow"))
    return Group(*parts)


class _Glance:
    """A table that leaves out columns where the terminal is narrow."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _table(self.table, _WIDE if options.max_width >= 125 else _NARROW)


def _table(table: Table, keys: tuple[str, ...]) -> RenderableType:
    # The parameters, counts and spreads stand in the other forms of the report.
    kept = [j for j, column in enumerate(table.columns) if column.key in keys]
    grid = RichTable(title=escape(table.title), title_justify="left", box=None, padding=(0, 1))
    for j in kept:
        column = table.columns[j]
        grid.add_column(
            _TITLES.get(column.key, escape(column.title)),
            justify="right" if column.numeric else "left",
            overflow="ellipsis",
            no_wrap=True,
            max_width=None if column.numeric else 24,
        )
    marks, notes = footnoted(table)
    shown: list[int] = []
    for i, row in enumerate(table.rows):
        cells = []
        for j in kept:
            # What a store forces is said in full on the page.
            own = marks.get((i, j), ()) if j else ()
            shown += [mark for mark in own if mark not in shown]
            numbers = ", ".join(str(shown.index(mark) + 1) for mark in own)
            number = f" [{numbers}]" if own else ""
            cells.append(RichText(row.cells[j].text + number, style=_STYLES[row.cells[j].tone]))
        grid.add_row(*cells, style=_STYLES[row.tone])
    explained = [RichText(f"[{n}] {notes[m - 1]}", style="dim") for n, m in enumerate(shown, 1)]
    return Group(grid, *explained)
