"""The reports' own tables with published, measured and ratio in each cell."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape as plainly
from rich.table import Table

from vectrial.document.blocks import Block
from vectrial.document.render.markdown import escape, lines_of
from vectrial.reports import heading, wording
from vectrial.reports.collect import Cell
from vectrial.reports.heading import Heading
from vectrial.reports.model import Reproduction
from vectrial.reports.tables import Sheet, parted, sheets, system
from vectrial.util import formatting

#: Keys of a cell as JSON, in order; more may follow.
KEYS = (
    "report", "experiment", "store", "params", "metric", "unit", "published", "measured", "ratio",
    "valid", "note",
)  # fmt: skip


def as_json(cell: Cell) -> dict[str, Any]:
    """One cell as an object with `KEYS`, then the rows loaded, the figure's source, the store that
    was measured, and how many repeats lie between what."""
    figure = cell.figure
    instead = f"{cell.stand_in} stands in for {figure.params['dataset']}" if cell.stand_in else ""
    spread = cell.spread
    return {
        "report": figure.report,
        "experiment": figure.experiment,
        "store": figure.store,
        "params": dict(figure.params),
        "metric": figure.metric,
        "unit": figure.unit,
        "published": figure.value,
        "measured": cell.measured,
        "ratio": cell.ratio,
        "valid": cell.valid,
        "note": "; ".join(part for part in (cell.note, cell.differs, instead) if part),
        "rows": cell.rows,
        "source": figure.source,
        "measured_store": cell.store or None,
        "repeats": None if spread is None else spread.n,
        "low": None if spread is None else spread.low,
        "high": None if spread is None else spread.high,
    }


def jsonl(cells: Sequence[Cell]) -> Iterator[str]:
    """One line for each cell."""
    for cell in cells:
        yield json.dumps(as_json(cell), ensure_ascii=False)


def shown(cell: Cell, *, unit: bool = False) -> str:
    """'12.9 → 3.1 (×0.24; 2.9–3.3)': published, measured, what the two are to each other and what
    the repeats lie between; or the published figure and a dash. With `unit` after the figures."""
    figure, of = cell.figure, wording.unit(cell.figure) if unit else ""
    published = wording.printed(figure.value)
    if cell.measured is None:
        return f"{published} → {formatting.NOTHING}{of}"
    beside = "; ".join(filter(None, (wording.compared(cell), wording.around(cell))))
    more = (f" ({beside})" if beside else "") + ("" if cell.valid else " ✗")
    return f"{published} → {wording.value(figure.metric, cell.measured)}{of}{more}"


def markdown(
    report: Reproduction,
    cells: Sequence[Cell],
    about: Heading,
    after: Mapping[str, Sequence[Block]] = MappingProxyType({}),
    figures: str = "",
) -> str:
    """Everything as Markdown: each cell is published → measured (ratio).

    after: by the name of a part's section, what follows its tables. figures: the folder of its
        drawings, relative to the file.
    """
    out = [f"# {report.title}", ""]
    for line in (*heading.lines(report, about), *heading.doubted(cells)):
        out += [escape(line), ""]
    out += [*_loaded(about), *_systems(about)]
    around = "" if about.repeats == 1 else "; what the repeats lie between"
    out += [
        f"Each cell: published → measured (×ratio{around}); of recalls the difference instead of"
        f" the ratio. {wording.BETTER} ✗ is invalid, — was not measured; the notes under"
        " each table say why.",
        "",
    ]
    left = dict(after)
    every = sheets(cells)
    for sheet, following in zip(every, [*every[1:], None], strict=True):
        out += [f"## {sheet.title}", ""]
        parts = parted(sheet)
        for part in parts:
            out += [f"### {part.title}", ""] if len(parts) > 1 else []
            out += _table(part)
        if following is None or following.section != sheet.section:
            for block in left.pop(sheet.section, ()):
                out += lines_of(block, figures)
    return "\n".join([*out, *_method(report)]) + "\n"


def _loaded(about: Heading) -> Iterator[str]:
    if not about.loaded:
        return
    yield "| part | dataset here | rows | of the report's | queries |"
    yield "| --- | --- | ---: | ---: | ---: |"
    for part in about.loaded:
        instead = f" (stands in for {part.stands_for})" if part.stands_for else ""
        queries = formatting.NOTHING if part.queries is None else f"{part.queries:,}"
        yield (
            f"| {part.title} | {part.dataset}{instead} | {part.rows:,} | {part.share or 'all'}"
            f" | {queries} |"
        )
    yield ""


def _systems(about: Heading) -> Iterator[str]:
    if not about.systems:
        return
    yield "| system | measured here | version | what differs |"
    yield "| --- | --- | --- | --- |"
    for one in about.systems:
        name = system(one.published, one.here)
        told_of = (", ".join(one.versions), one.differs)
        yield f"| {name} | {one.store} | {' | '.join(map(escape, told_of))} |"
    yield ""


def _table(sheet: Sheet) -> Iterator[str]:
    """A table with its notes, each once."""
    notes: dict[str, int] = {}

    def marked(shown: str, of: Sequence[str]) -> str:
        numbers = [str(notes.setdefault(note, len(notes) + 1)) for note in of]
        return f"{shown} <sup>{', '.join(numbers)}</sup>" if numbers else shown

    titles = [
        marked(f"{metric.replace('_', ' ')}{_unit(unit)}", sheet.of_metrics[metric])
        for metric, unit in sheet.metrics
    ]
    names = [name.replace("_", " ") for name in sheet.settings]
    yield "| " + " | ".join(["store", *names, *titles]) + " |"
    yield "| --- |" + " ---: |" * (len(names) + len(titles))
    for line in sheet.lines:
        row = [marked(line.system, sheet.of_line(line))]
        row += [wording.setting(line.setting.get(name)) for name in sheet.settings]
        for metric, unit in sheet.metrics:
            cell = line.cells.get(metric)
            known = () if cell is None else sheet.of_cell(line, metric)
            row.append("" if cell is None else marked(shown(cell, unit=not unit), known))
        yield "| " + " | ".join(row) + " |"
    yield ""
    yield from (f"{number}. {escape(note)}" for note, number in notes.items())
    yield ""


def _unit(unit: str) -> str:
    return "" if unit in ("", "1") else f" [{unit}]"


def _method(report: Reproduction) -> Iterator[str]:
    yield "## Method notes"
    yield ""
    yield "| about | what the report did | what is done here | with --faithful |"
    yield "| --- | --- | --- | --- |"
    for note in report.notes:
        faithful = note.faithful or formatting.NOTHING
        yield f"| {note.about} | {note.theirs} | {note.ours or formatting.NOTHING} | {faithful} |"


def terminal(report: Reproduction, cells: Sequence[Cell], about: Heading, console: Console) -> None:
    """The same on a terminal, a line for each figure; what has nothing beside it is counted."""
    console.print(f"[bold]{plainly(report.title)}[/bold]", highlight=False)
    for line in (
        *heading.lines(report, about), *heading.loaded_lines(about), *heading.system_lines(about),
        *heading.doubted(cells), wording.BETTER,
    ):  # fmt: skip
        console.print(line, highlight=False, markup=False)
    for sheet in sheets(cells):
        _lines(sheet, console)
    console.print("\nMethod: what the report did, and what is done here")
    for difference in report.notes:
        console.print(f"- {difference.about}: {difference.theirs}.", highlight=False, markup=False)
        if difference.ours:
            console.print(f"  Here: {difference.ours}.", highlight=False, markup=False)


def _lines(sheet: Sheet, console: Console) -> None:
    table = Table(box=SIMPLE_HEAD, title=sheet.title, title_justify="left")
    for column in ("store", "setting", "metric"):
        table.add_column(column, overflow="fold")
    for column in ("published", "measured", "ratio", "repeats", "notes"):
        table.add_column(column, justify="right", no_wrap=True)
    notes: dict[str, int] = {}
    empty: Counter[tuple[str, str]] = Counter()
    for line in sheet.lines:
        setting = " ".join(f"{n}={wording.setting(value)}" for n, value in line.setting.items())
        head = (line.system, setting)
        for cell in line.cells.values():
            if cell.measured is None:
                empty[line.store, cell.why] += 1
                continue
            table.add_row(*head, *_line(cell, notes))
            head = ("", "")
    if table.row_count:
        console.print(table)
    else:
        console.print(f"\n{sheet.title}", highlight=False)
    for note, number in notes.items():
        console.print(f"  {number}) {note}", highlight=False, markup=False)
    for (store, why), count in empty.items():
        shown = formatting.plural(count, "figure")
        console.print(f"  {store}: {shown}: {why}", highlight=False, markup=False)


def _line(cell: Cell, notes: dict[str, int]) -> tuple[str, ...]:
    """Metric, published, measured, how they compare, the repeats and the numbers of the notes."""
    metric, unit = cell.figure.metric, wording.unit(cell.figure)
    numbers = [str(notes.setdefault(note, len(notes) + 1)) for note in cell.notes]
    return (
        metric.replace("_", " "),
        f"{wording.printed(cell.figure.value)}{unit}",
        f"{wording.value(metric, cell.measured or 0.0)}{unit}{'' if cell.valid else ' ✗'}",
        wording.compared(cell),
        wording.around(cell),
        ",".join(numbers),
    )
