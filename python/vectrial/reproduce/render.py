"""The reports' own tables with published, measured and ratio in each cell."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from vectrial.published import Figure
from vectrial.report import text
from vectrial.reproduce.collect import Cell
from vectrial.reproduce.model import Reproduction, Scalar

#: Keys of a cell as JSON, in order; more may follow.
KEYS = (
    "report", "experiment", "store", "params", "metric", "unit", "published", "measured", "ratio",
    "valid", "note",
)  # fmt: skip
#: Parameters that every row of a table shares are in its title.
_TITLED = ("dataset", "settings", "k")


@dataclass(frozen=True)
class Sheet:
    """One table: rows are stores and settings (published parameters), columns the published
    metrics.

    metrics: each with its unit, empty where rows have different ones and every cell says its own.
    """

    title: str
    metrics: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, Mapping[str, Scalar], Mapping[str, Cell]], ...]


def as_json(cell: Cell) -> dict[str, Any]:
    """One cell as an object with `KEYS`, then the rows loaded and the figure's source."""
    figure = cell.figure
    instead = f"{cell.stand_in} stands in for {figure.params['dataset']}" if cell.stand_in else ""
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
        "note": "; ".join(part for part in (cell.note, instead) if part),
        "rows": cell.rows,
        "source": figure.source,
    }


def jsonl(cells: Sequence[Cell]) -> Iterator[str]:
    """One line for each cell."""
    for cell in cells:
        yield json.dumps(as_json(cell), ensure_ascii=False)


def sheets(cells: Sequence[Cell]) -> list[Sheet]:
    """The cells as tables, in the report's order."""
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        titled = tuple(str(cell.figure.params.get(name, "")) for name in _TITLED)
        groups.setdefault((cell.figure.experiment, *titled), []).append(cell)
    return [_sheet(key, members) for key, members in groups.items()]


def _sheet(key: tuple[str, ...], cells: Sequence[Cell]) -> Sheet:
    experiment, dataset, settings, k = key
    title = [experiment.replace("_", " "), dataset, settings, f"k = {k}" if k else ""]
    units: dict[str, set[str]] = {}
    for cell in cells:
        units.setdefault(cell.figure.metric, set()).add(cell.figure.unit)
    metrics = {metric: own.pop() if len(own) == 1 else "" for metric, own in units.items()}
    rows: dict[tuple[str, tuple[tuple[str, Scalar], ...]], dict[str, Cell]] = {}
    shared = _shared([cell.figure for cell in cells])
    for cell in cells:
        row = rows.setdefault((cell.figure.store, _setting(cell.figure, shared)), {})
        row[cell.figure.metric] = cell
    made = tuple((store, dict(setting), held) for (store, setting), held in rows.items())
    return Sheet(" · ".join(part for part in title if part), tuple(metrics.items()), made)


def _shared(figures: Sequence[Figure]) -> frozenset[str]:
    """Parameters that say nothing about a row: in the title, or the same in every row."""
    first, *others = figures
    same = {n for n, v in first.params.items() if all(f.params.get(n) == v for f in others)}
    return frozenset({*_TITLED, *same})


def _setting(figure: Figure, shared: frozenset[str]) -> tuple[tuple[str, Scalar], ...]:
    return tuple((name, value) for name, value in figure.params.items() if name not in shared)


def _named(setting: Mapping[str, Scalar]) -> str:
    return text.params(setting) if setting else ""


def shown(cell: Cell, *, unit: bool = False) -> str:
    """'12.9 → 3.1 (×0.24)', or the published figure and a dash; with `unit` after the figures."""
    published, of = text.number(cell.figure.value), f" {cell.figure.unit}" if unit else ""
    if cell.measured is None:
        return f"{published} → {text.NOTHING}{of}"
    ratio = "" if cell.ratio is None else f" (×{text.number(cell.ratio, 2)})"
    wrong = "" if cell.valid else " ✗"
    return f"{published} → {text.number(cell.measured)}{of}{ratio}{wrong}"


@dataclass(frozen=True)
class Heading:
    """What stands above the tables: what ran, where, and on how much."""

    scale: float
    machine: str
    loaded: tuple[str, ...]
    faithful: bool = False


def heading(report: Reproduction, about: Heading) -> list[str]:
    """The lines above the tables."""
    lines = [
        f"Published: {report.document}. Measured on: {report.machine}.",
        f"Here: {about.machine}.",
        f"At {about.scale:g} of its size"
        + (", by its own method where that differs from ours." if about.faithful else "."),
    ]
    return [*lines, *about.loaded]


def markdown(report: Reproduction, cells: Sequence[Cell], about: Heading) -> str:
    """Everything as Markdown: each cell is published → measured (ratio)."""
    out = [f"# {report.title}", "", *(f"{line}\n" for line in heading(report, about))]
    out += ["Each cell: published → measured (×ratio); ✗ is invalid.", ""]
    for sheet in sheets(cells):
        out += [f"## {sheet.title}", ""]
        notes: list[str] = []
        titles = [f"{metric.replace('_', ' ')}{_unit(unit)}" for metric, unit in sheet.metrics]
        out.append("| " + " | ".join(["store", "setting", *titles]) + " |")
        out.append("| --- | --- |" + " ---: |" * len(titles))
        for store, setting, held in sheet.rows:
            values = [_marked(held.get(metric), notes, not of) for metric, of in sheet.metrics]
            out.append("| " + " | ".join([store, _named(setting), *values]) + " |")
        out += ["", *(f"{i}. {note}" for i, note in enumerate(notes, 1)), ""]
    return "\n".join([*out, *_method(report)]) + "\n"


def _marked(cell: Cell | None, notes: list[str], unit: bool) -> str:
    """The cell with the number of its note, which is added where it is new."""
    if cell is None:
        return ""
    if not cell.note:
        return shown(cell, unit=unit)
    if cell.note not in notes:
        notes.append(cell.note)
    return f"{shown(cell, unit=unit)} <sup>{notes.index(cell.note) + 1}</sup>"


def _unit(unit: str) -> str:
    return "" if unit in ("", "1") else f" [{unit}]"


def _method(report: Reproduction) -> Iterator[str]:
    yield "## Method notes"
    yield ""
    yield "| about | what the report did | what is done here | with --faithful |"
    yield "| --- | --- | --- | --- |"
    for note in report.notes:
        faithful = note.faithful or text.NOTHING
        yield f"| {note.about} | {note.theirs} | {note.ours or text.NOTHING} | {faithful} |"


def terminal(report: Reproduction, cells: Sequence[Cell], about: Heading, console: Console) -> None:
    """The same on a terminal, a line for each figure; what has nothing beside it is counted."""
    console.print(f"[bold]{escape(report.title)}[/bold]", highlight=False)
    for line in heading(report, about):
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
    for column in ("published", "measured", "ratio", "note"):
        table.add_column(column, justify="right", no_wrap=True)
    notes: list[str] = []
    empty: Counter[tuple[str, str]] = Counter()
    for store, setting, held in sheet.rows:
        head = (store, _named(setting))
        for cell in held.values():
            if cell.measured is None:
                empty[store, cell.note.split("; ")[0]] += 1
                continue
            table.add_row(*head, *_line(cell, notes))
            head = ("", "")
    if table.row_count:
        console.print(table)
    else:
        console.print(f"\n{sheet.title}", highlight=False)
    for number, note in enumerate(notes, 1):
        console.print(f"  {number}) {note}", highlight=False, markup=False)
    for (store, why), count in empty.items():
        shown = text.plural(count, "figure")
        console.print(f"  {store}: {shown}: {why}", highlight=False, markup=False)


def _line(cell: Cell, notes: list[str]) -> tuple[str, ...]:
    """Metric, published, measured, ratio and the number of the note."""
    unit = "" if cell.figure.unit == "1" else f" {cell.figure.unit}"
    if cell.note and cell.note not in notes:
        notes.append(cell.note)
    return (
        cell.figure.metric.replace("_", " "),
        f"{text.number(cell.figure.value)}{unit}",
        f"{text.number(cell.measured or 0.0)}{unit}{'' if cell.valid else ' ✗'}",
        "" if cell.ratio is None else f"×{text.number(cell.ratio, 2)}",
        str(notes.index(cell.note) + 1) if cell.note else "",
    )
