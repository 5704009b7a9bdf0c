"""The cells as the reports' own tables, each sentence that is to be known of them in one place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from vectrial_reproduce.reports.collect import ComparedFigure
from vectrial_reproduce.reports.model import Scalar
from vectrial_reproduce.reports.published import PublishedFigure

#: Parameters that every row of a table shares are in its title.
_TITLED = ("dataset", "settings", "k")
#: The client of a system that was not called through the report's.
_OWN = "own"
#: Rows of a table that one still reads as one.
_LONG = 40


@dataclass(frozen=True)
class TableLine:
    """One row of a table: a system at a setting (published parameters), with its cells by
    metric."""

    store: str
    setting: Mapping[str, Scalar]
    cells: Mapping[str, ComparedFigure]

    @property
    def system(self) -> str:
        """The system, and its stand-in here if there is one."""
        return system(self.store, next((c.here for c in self.cells.values() if c.here), ""))


@dataclass(frozen=True)
class ReportTable:
    """One table of a part of the report: a column for each published metric.

    metrics: each with its unit, which is empty if rows differ and every cell states its own.
    """

    experiment: str
    title: str
    metrics: tuple[tuple[str, str], ...]
    lines: tuple[TableLine, ...]

    @property
    def section(self) -> str:
        """The name of the part of the report on a page."""
        return section_of(self.experiment)

    @property
    def settings(self) -> tuple[str, ...]:
        """The parameters in which the table's rows differ."""
        return tuple(dict.fromkeys(name for line in self.lines for name in line.setting))

    @cached_property
    def metric_notes(self) -> Mapping[str, tuple[str, ...]]:
        """Notes on a whole column: shared by all its measured cells, or by all cells if nothing was
        measured."""
        found = {}
        for metric, _ in self.metrics:
            held = [line.cells[metric] for line in self.lines if metric in line.cells]
            measured = [cell for cell in held if cell.measured is not None]
            found[metric] = _common_notes(cell.notes for cell in measured or held)
        return found

    def line_notes(self, line: TableLine) -> tuple[str, ...]:
        """Notes on every cell of a row, except notes on its columns."""
        return _common_notes(self._beyond_column(line, metric) for metric in line.cells)

    def cell_notes(self, line: TableLine, metric: str) -> tuple[str, ...]:
        """Notes on one cell alone."""
        row = self.line_notes(line)
        return tuple(note for note in self._beyond_column(line, metric) if note not in row)

    def _beyond_column(self, line: TableLine, metric: str) -> tuple[str, ...]:
        column = self.metric_notes[metric]
        return tuple(note for note in line.cells[metric].notes if note not in column)


def system(store: str, measured_store: str) -> str:
    """'Longbow → reference server': a system, and what was measured in its place."""
    return f"{store} → {measured_store}" if measured_store else store


def section_of(experiment: str) -> str:
    """The name of a part of the report (`published.PublishedFigure.experiment`) on a page."""
    return f"part-{experiment}".replace("_", "-")


def sheets(cells: Sequence[ComparedFigure]) -> list[ReportTable]:
    """The cells as tables, in the report's order."""
    groups: dict[tuple[str, ...], list[ComparedFigure]] = {}
    for cell in cells:
        titled = tuple(str(cell.figure.params.get(name, "")) for name in _TITLED)
        groups.setdefault((cell.figure.experiment, *titled), []).append(cell)
    return [_sheet(key, members) for key, members in groups.items()]


def _sheet(key: tuple[str, ...], cells: Sequence[ComparedFigure]) -> ReportTable:
    experiment, dataset, settings, k = key
    title = [experiment.replace("_", " "), dataset, settings, f"k = {k}" if k else ""]
    rows: dict[tuple[str, tuple[tuple[str, Scalar], ...]], dict[str, ComparedFigure]] = {}
    shared = _common_parameters([cell.figure for cell in cells])
    for cell, client in _with_client_settings(cells):
        setting = (*_setting(cell.figure, shared), *client)
        row = rows.setdefault((cell.figure.store, setting), {})
        row[cell.figure.metric] = cell
    lines = [TableLine(store, dict(setting), held) for (store, setting), held in rows.items()]
    joined = " · ".join(part for part in title if part)
    return ReportTable(experiment, joined, _metrics(cells), tuple(_sort_lines(lines)))


def _with_client_settings(
    cells: Sequence[ComparedFigure],
) -> Iterator[tuple[ComparedFigure, tuple[tuple[str, Scalar], ...]]]:
    """Every cell, with the client as a setting if the system was called through two clients."""
    for cell in cells:
        if cell.through is None:
            yield cell, ()
            continue
        yield cell, (("client", _OWN),)
        yield cell.through, (("client", cell.through.client),)


def split_by_system(sheet: ReportTable) -> list[ReportTable]:
    """A table for each system, named after it, if a long table lists them one after the other;
    otherwise the table itself."""
    stores = list(dict.fromkeys(line.store for line in sheet.lines))
    own = {store: tuple(line for line in sheet.lines if line.store == store) for store in stores}
    whole = [line for lines in own.values() for line in lines]
    if len(sheet.lines) <= _LONG or whole != list(sheet.lines):
        return [sheet]
    return [
        ReportTable(
            sheet.experiment,
            lines[0].system,
            _metrics([cell for line in lines for cell in line.cells.values()]),
            lines,
        )
        for lines in own.values()
    ]


def _metrics(cells: Sequence[ComparedFigure]) -> tuple[tuple[str, str], ...]:
    """The metrics of a table, each with the unit that all its figures share, or none."""
    units: dict[str, set[str]] = {}
    for cell in cells:
        units.setdefault(cell.figure.metric, set()).add(cell.figure.unit)
    return tuple((metric, own.pop() if len(own) == 1 else "") for metric, own in units.items())


def _common_parameters(figures: Sequence[PublishedFigure]) -> frozenset[str]:
    """Parameters that do not distinguish rows: in the title, or the same in every row."""
    first, *others = figures
    same = {n for n, v in first.params.items() if all(f.params.get(n) == v for f in others)}
    return frozenset({*_TITLED, *same})


def _setting(figure: PublishedFigure, shared: frozenset[str]) -> tuple[tuple[str, Scalar], ...]:
    return tuple((name, value) for name, value in figure.params.items() if name not in shared)


def _sort_lines(lines: Sequence[TableLine]) -> list[TableLine]:
    """Rows of each system sorted by the numbers in their settings, which files sort only by name;
    the systems keep the report's order."""
    ranks: dict[str, dict[Scalar | None, float]] = {}
    for name in dict.fromkeys(name for line in lines for name in line.setting):
        values = dict.fromkeys(line.setting.get(name) for line in lines)
        if all(value is None or type(value) in (int, float) for value in values):
            ranks[name] = {value: -1.0 if value is None else float(value) for value in values}
        else:
            ranks[name] = {value: float(at) for at, value in enumerate(values)}

    def place(line: TableLine) -> list[float]:
        return [known[line.setting.get(name)] for name, known in ranks.items()]

    turns = {
        store: iter(sorted((line for line in lines if line.store == store), key=place))
        for store in dict.fromkeys(line.store for line in lines)
    }
    return [next(turns[line.store]) for line in lines]


def _common_notes(notes: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """The notes that all cells have, if there are several cells."""
    held = list(notes)
    if len(held) < 2:
        return ()
    return tuple(note for note in held[0] if all(note in other for other in held[1:]))
