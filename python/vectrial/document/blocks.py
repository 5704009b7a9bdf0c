"""The document model: sections of tables, figures and text, for all renderers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from vectrial.model.results_schema import METRICS, MetricName
from vectrial.model.trial import Series
from vectrial.stats.intervals import Spread
from vectrial.util import formatting
from vectrial.util.file_names import file_name

if TYPE_CHECKING:
    from vectrial.analysis.run_data import Point

#: good: better than before; wrong: worse, or failed the gate; invalid: not to be trusted; absent:
#: there is nothing to show.
Tone = Literal["ok", "good", "wrong", "invalid", "absent"]


@dataclass(frozen=True)
class Source:
    """The origin of a value: a metric of some phases (by id), or a trial.

    recall: where the value was interpolated between these phases; None if it is their own.
    side: of two runs, the first (0) or the second.
    """

    phases: tuple[int, ...] = ()
    metric: str = ""
    recall: float | None = None
    trial: int | None = None
    side: int = 0


@dataclass(frozen=True)
class Cell:
    """One value of a table.

    text: as shown. detail: smaller text beneath (the spread). value, low, high: for CSV.
    note: why there is no value, or what to know about it; shown as a footnote. notes: further
        footnotes, which cells share.
    source: origin of the value; a page that is served links there.
    href: on a page of a site, the address below its root that the value links to.
    """

    text: str
    value: Any = None
    detail: str = ""
    note: str = ""
    low: float | None = None
    high: float | None = None
    tone: Tone = "ok"
    source: Source | None = None
    notes: tuple[str, ...] = ()
    href: str = ""


@dataclass(frozen=True)
class Column:
    """A column. key: the CSV column, with its unit in `unit`. group: heading over several.

    spread: the CSV has `<key>_low` and `<key>_high` beside it. notes: footnotes of all its cells.
    minor: left out in terminals and in Markdown, which have less room.
    """

    key: str
    title: str
    unit: str = ""
    group: str = ""
    numeric: bool = True
    spread: bool = False
    notes: tuple[str, ...] = ()
    minor: bool = False

    @classmethod
    def for_metric(
        cls,
        metric: str | MetricName,
        title: str = "",
        group: str = "",
        *,
        key: str = "",
        spread: bool = True,
    ) -> Column:
        """The column of a metric, given itself or by its name in `METRICS`, with its unit.

        title, key: the metric's by default. spread: False for counts and single values.
        """
        known = METRICS[metric] if isinstance(metric, str) else metric
        return cls(key or known.name, title or known.title, known.unit, group, spread=spread)


@dataclass(frozen=True)
class Row:
    """One row; `series` determines its colour and marker, the same as in the charts."""

    cells: tuple[Cell, ...]
    tone: Tone = "ok"
    series: Series | None = None

    @classmethod
    def from_values(cls, *values: Any, tone: Tone = "ok", series: Series | None = None) -> Row:
        """A row of cells, or of values: integers with thousands separated, None as '—'."""
        return cls(tuple(map(_cell, values)), tone, series)


@dataclass(frozen=True)
class Table:
    """A table. name: name of its files (`file_name` makes one of any text). notes: under it.

    grouped_by: index of the column whose value divides the rows into groups, separated by a line.
    folded: on a page and in Markdown it is opened by a click.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    grouped_by: int | None = None
    folded: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", file_name(self.name))

    def without_minor_columns(self) -> Table:
        """The table without its minor columns."""
        shown = [j for j, column in enumerate(self.columns) if not column.minor]
        if len(shown) == len(self.columns):
            return self
        rows = tuple(replace(row, cells=tuple(row.cells[j] for j in shown)) for row in self.rows)
        return replace(self, columns=tuple(self.columns[j] for j in shown), rows=rows)

    def begins_group(self, row: int) -> bool:
        """True if this row's group differs from that of the row before."""
        if self.grouped_by is None or row == 0:
            return False
        own, before = (self.rows[i].cells[self.grouped_by].value for i in (row, row - 1))
        return bool(own != before)


@dataclass(frozen=True)
class Figure:
    """A chart, defined once.

    name: see `Table`. spec: plot width in pixels, whether a legend is drawn → a Vega-Lite
        specification. series: series that appear, for the legend. alt: description in words. notes:
        under the chart.
    """

    name: str
    title: str
    caption: str
    alt: str
    spec: Callable[[int, bool], Mapping[str, Any]]
    series: tuple[Series, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", file_name(self.name))


@dataclass(frozen=True)
class Text:
    """Paragraphs, or a list when `bullets`; `code` is shown as typed; `folded` as in `Table`."""

    paragraphs: tuple[str, ...]
    title: str = ""
    bullets: bool = False
    code: bool = False
    folded: bool = False


Block = Table | Figure | Text


@dataclass(frozen=True)
class Section:
    """A question and its answer. title: empty if the blocks need none."""

    name: str
    title: str
    lead: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Answer:
    """One card of the first screen: a question, its answer, and the limits of the claim.

    source, href: origin of `figure`; see `Cell`.
    """

    question: str
    answer: str
    figure: str
    bound: str
    series: Series | None = None
    source: Source | None = None
    href: str = ""


@dataclass(frozen=True)
class Report:
    """A report on a run.

    about: the suite's description of itself. meta: label → value under the title. warnings: what a
        reader must know first. like: series that are drawn like another series, but hollow: its
        counterpart. note: the owner's note on the run.
    """

    title: str
    about: str = ""
    meta: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    answers: tuple[tuple[str, tuple[Answer, ...]], ...] = ()
    sections: tuple[Section, ...] = ()
    labels: Mapping[Series, str] = field(default_factory=dict)
    stores: tuple[str, ...] = ()
    like: Mapping[Series, Series] = field(default_factory=dict)
    note: str = ""

    def tables(self) -> list[Table]:
        """All tables, in order."""
        return [b for s in self.sections for b in s.blocks if isinstance(b, Table)]

    def figures(self) -> list[Figure]:
        """All figures, in order."""
        return [b for s in self.sections for b in s.blocks if isinstance(b, Figure)]


def spread_cell(
    point: Point | None,
    metric: str,
    unit: str,
    *,
    absent: str = "not measured",
    show: Callable[[float], str] | None = None,
) -> Cell:
    """The median over the repeats with its spread; '—' with the reason if there is none."""
    if point is None:
        return absent_cell(absent)
    spread = point.spread(metric)
    if spread is None:
        return absent_cell(point.why_missing(metric))
    if show is None and formatting.is_recall(metric):
        show = formatting.recall
    cell = value_cell(spread, unit, show=show)
    if metric == "recall_mean":
        cell = replace(cell, text=cell.text + recall_error_of(point))
    return replace(cell, source=source_of(point, metric=metric))


def recall_error_of(point: Point) -> str:
    """'± 0.0031' after a space: how far a point's recall may differ from the recall of whole passes
    over the queries, at 95 %. Empty if it is that recall, to the digits shown, or if the error is
    unknown."""
    error = point.value("recall_error") or 0.0
    return f" ± {error:.4f}" if error >= _LEAST_RECALL_ERROR else ""


def source_of(*points: Point, metric: str, recall: float | None = None) -> Source:
    """The repeats behind a figure of one or more points. recall: see `Source`."""
    return Source(tuple(p.phase_id for point in points for p in point.phases), metric, recall)


def absent_cell(why: str = "") -> Cell:
    """A cell for a missing value; `why` is a footnote."""
    return Cell(formatting.NOTHING, note=why, tone="absent")


def value_cell(spread: Spread, unit: str, *, show: Callable[[float], str] | None = None) -> Cell:
    """A cell with a median and its spread."""
    if show is None:
        shown, detail = formatting.measure(spread.median, unit), formatting.spread(spread, unit)
    else:
        shown = show(spread.median)
        ends = (show(spread.low), show(spread.high))
        detail = "" if ends[0] == ends[1] else "–".join(ends)
    return Cell(shown, spread.median, detail, low=spread.low, high=spread.high)


def count_cell(point: Point, metric: str, note: str = "") -> Cell:
    """A cell with the sum of a count over the repeats that the point's figures come from."""
    known = [value for p in point.phases if (value := p.value(metric)) is not None]
    if not known:
        return absent_cell(point.why_missing(metric))
    total = int(sum(known))
    bad = metric in ("errors", "ineffective", "violations") and total > 0
    tone: Tone = "wrong" if bad else "ok"
    return Cell(f"{total:,}", total, note=note, tone=tone, source=source_of(point, metric=metric))


def ratio_cell(point: Point, base: Point, metric: str) -> Cell:
    """A cell with the ratio of a point's metric to that of `base`; '—' if either has none."""
    value, one = point.value(metric), base.value(metric)
    if value is None or not one:
        return absent_cell()
    return replace(times_cell(value / one), source=source_of(point, base, metric=metric))


def plain_cell(value: Any, shown: str | None = None, note: str = "") -> Cell:
    """A cell without a spread."""
    return Cell(str(value) if shown is None else shown, value, note=note)


def times_cell(value: float, digits: int = 3) -> Cell:
    """A ratio without a spread: ×0.24."""
    return plain_cell(value, formatting.ratio(value, digits))


def columns(*texts: str, **titles: str | tuple[str, str]) -> tuple[Column, ...]:
    """Columns by key: text columns by a title, number columns by a title and a unit.

    texts: keys that are their own titles.
    """
    named = {key: key.replace("_", " ").capitalize() for key in texts} | titles
    return tuple(
        Column(key, one, numeric=False) if isinstance(one, str) else Column(key, *one)
        for key, one in named.items()
    )


def table_of(
    name: str,
    title: str,
    heads: tuple[Column, ...],
    rows: Iterable[Iterable[Any]],
    **more: Any,
) -> Table:
    """A table whose rows are given as to `Row.of`. more: other fields of `Table`."""
    return Table(name, title, heads, tuple(Row.from_values(*row) for row in rows), **more)


def _cell(value: Any) -> Cell:
    if isinstance(value, Cell):
        return value
    if value is None:
        return absent_cell()
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return plain_cell(value, f"{value:,}" if is_count else None)


#: Row number of a column's own footnotes: above the first row.
HEAD = -1
#: Less is not seen in four decimals.
_LEAST_RECALL_ERROR = 0.00005


def footnotes(table: Table) -> tuple[dict[tuple[int, int], tuple[int, ...]], list[str]]:
    """Footnote numbers by (row, column), with `HEAD` for a column itself, and the notes in that
    order, each once."""
    places = {(HEAD, j): column.notes for j, column in enumerate(table.columns)}
    for i, row in enumerate(table.rows):
        for j, cell in enumerate(row.cells):
            places[i, j] = (cell.note, *cell.notes) if cell.note else cell.notes
    numbers: dict[str, int] = {}
    marks = {
        place: tuple(numbers.setdefault(note, len(numbers) + 1) for note in notes)
        for place, notes in places.items()
        if notes
    }
    return marks, list(numbers)


def numbers_of(marks: Sequence[int]) -> str:
    """Footnote numbers in brackets, as text shows them after a space; empty without any."""
    return f" [{', '.join(map(str, marks))}]" if marks else ""


def groups_of(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """Column groups, each with the number of columns that it spans."""
    spans: list[tuple[str, int]] = []
    for column in columns:
        if spans and spans[-1][0] == column.group:
            spans[-1] = (column.group, spans[-1][1] + 1)
        else:
            spans.append((column.group, 1))
    return spans


def titles_of(columns: Sequence[Column]) -> list[str]:
    """Each column's title, after its group's where that begins: for a single header row."""
    titles: list[str] = []
    for group, count in groups_of(columns):
        first, *others = (column.title for column in columns[len(titles) : len(titles) + count])
        titles += [f"{group}: {first}" if group else first, *others]
    return titles
