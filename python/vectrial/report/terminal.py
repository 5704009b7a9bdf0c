"""The report's first table in a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text as RichText

from vectrial.report.build import build
from vectrial.report.data import RunData
from vectrial.report.document import Report, Table, footnoted

_STYLES = {"ok": "", "wrong": "red", "invalid": "yellow", "absent": "dim"}


def summary(run: RunData) -> RenderableType:
    """Warnings, short answers and the table at a glance, for `rich`."""
    return rendered(build(run))


def rendered(report: Report) -> RenderableType:
    """As `summary`, of a report that is already built."""
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
        parts += [Padding(_table(b), (1, 0, 0, 0)) for b in glance.blocks if isinstance(b, Table)]
    if not parts:
        parts.append(RichText("The run holds no measurements.", style="yellow"))
    return Group(*parts)


def _table(table: Table) -> RenderableType:
    # A terminal is narrow: the parameters and counts stand in the other forms of the report.
    kept = [j for j, c in enumerate(table.columns) if c.key not in ("clients", "errors")]
    grid = RichTable(title=escape(table.title), title_justify="left", box=None, padding=(0, 1))
    for j in kept:
        column = table.columns[j]
        grid.add_column(
            escape(column.title),
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
            mark = marks.get((i, j))
            if mark is not None and mark not in shown:
                shown.append(mark)
            text = row.cells[j].text + (f" [{mark}]" if mark is not None else "")
            cells.append(RichText(text, style=_STYLES[row.cells[j].tone]))
        grid.add_row(*cells, style=_STYLES[row.tone])
    explained = [RichText(f"[{m}] {notes[m - 1]}", style="dim") for m in sorted(shown)]
    return Group(grid, *explained)
