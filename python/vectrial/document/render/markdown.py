"""The report as Markdown."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence

from vectrial.document.blocks import (
    HEAD,
    Block,
    Figure,
    Report,
    Row,
    Table,
    footnotes,
    numbers_of,
    titles_of,
)

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&])")


def escape(text: str) -> str:
    """Text escaped so that it stays text in Markdown, also inside a table."""
    return _SPECIAL.sub(r"\\\1", text).replace("\n", " ")


def render(report: Report, figures: str = "figures", level: int = 1) -> str:
    """The whole report.

    Args:
        figures: the folder of the drawings, relative to the file.
        level: level of the title's heading.
    """
    return "\n".join(_lines(report, figures, level)).rstrip() + "\n"


def _lines(report: Report, figures: str, level: int) -> Iterator[str]:
    marks = "#" * level
    yield f"{marks} {escape(report.title)}\n"
    if report.about:
        yield f"{escape(report.about)}\n"
    for paragraph in report.note.split("\n\n") if report.note else ():
        yield f"> {escape(paragraph)}\n"
    if report.meta:
        yield " · ".join(f"{label}: {escape(value)}" for label, value in report.meta) + "\n"
    for warning in report.warnings:
        yield f"> **Note.** {escape(warning)}\n"
    for sheet, answers in report.answers:
        yield f"**{escape(sheet)}**\n"
        for answer in answers:
            yield (
                f"- {escape(answer.question)}: **{escape(answer.answer)}**, "
                f"{escape(answer.figure)}. {escape(answer.bound)}"
            )
        yield ""
    for section in report.sections:
        if section.title:
            yield f"{marks}# {section.title}\n"
        if section.lead:
            yield f"{escape(section.lead)}\n"
        for block in section.blocks:
            yield from lines_of(block, figures, level)


def lines_of(block: Block, figures: str, level: int = 1) -> Iterator[str]:
    """The lines of one block; for `figures` and `level` see `render`."""
    folded = not isinstance(block, Figure) and block.folded
    if folded:
        yield f"<details><summary>{html.escape(block.title)}</summary>\n"
    elif block.title:
        yield f"{'#' * level}## {escape(block.title)}\n"
    yield from _block(block, figures)
    if folded:
        yield "</details>\n"


def _block(block: Block, figures: str) -> Iterator[str]:
    """The lines of a block below its title."""
    if isinstance(block, Table):
        yield from _table(block)
    elif isinstance(block, Figure):
        yield f"![{escape(block.alt)}]({figures}/{block.name}.svg)\n"
        yield f"{escape(block.caption)}\n"
        if block.notes:
            yield "\n".join(f"- {escape(note)}" for note in block.notes) + "\n"
    else:
        for paragraph in block.paragraphs:
            if block.code:
                fence = _fence(paragraph)
                yield f"{fence}\n{paragraph}\n{fence}\n"
            else:
                yield f"- {escape(paragraph)}" if block.bullets else f"{escape(paragraph)}\n"
        yield ""


def _fence(code: str) -> str:
    """The fence around code: longer than any fence inside."""
    return "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))


def _table(table: Table) -> Iterator[str]:
    table = table.without_minor_columns()
    marks, notes = footnotes(table)
    titles = [
        escape(title) + numbers_of(marks.get((HEAD, j), ()))
        for j, title in enumerate(titles_of(table.columns))
    ]
    yield "| " + " | ".join(titles) + " |"
    yield "|" + "|".join("---:" if column.numeric else "---" for column in table.columns) + "|"
    for i, row in enumerate(table.rows):
        yield "| " + " | ".join(_cells(i, row, marks)) + " |"
    yield ""
    for number, note in enumerate(notes, 1):
        yield f"{number}. {escape(note)}"
    if notes:
        yield ""
    for note in table.notes:
        yield f"{escape(note)}\n"


def _cells(i: int, row: Row, marks: Mapping[tuple[int, int], Sequence[int]]) -> Iterator[str]:
    for j, cell in enumerate(row.cells):
        shown = escape(cell.text)
        if row.tone in ("wrong", "invalid") and j > 0 and cell.value is not None and shown:
            shown = f"~~{shown}~~"
        if cell.detail:
            shown += f" ({escape(cell.detail)})"
        yield shown + numbers_of(marks.get((i, j), ()))
