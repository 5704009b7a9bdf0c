"""A reproduction as a report: its tables in its order, its figures drawn again, its method."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from vectrial.document import blocks as doc
from vectrial.document.blocks import Block, Column, Report, Row, Section, Table, columns
from vectrial.document.charts.moments import MOMENTS
from vectrial.util import formatting
from vectrial_reproduce.reports import claims, crossings, interface
from vectrial_reproduce.reports.collect import ComparedFigure
from vectrial_reproduce.reports.conditions import FEWER, ReportConditions, invalid_figures
from vectrial_reproduce.reports.figures_data import Dot, Plot, plot
from vectrial_reproduce.reports.figures_render import Palette, chart
from vectrial_reproduce.reports.figures_spec import DRAWINGS
from vectrial_reproduce.reports.matching import MeasuredPart
from vectrial_reproduce.reports.model import Reproduction
from vectrial_reproduce.reports.page_tables import (
    Layout,
    further_results,
    glance,
    measured_sections,
    method,
    readable_name,
    sheet_tables,
)
from vectrial_reproduce.reports.tables import section_of, sheets

#: Series of which a figure's text alternative has the values.
_SPOKEN = 8
#: Titles of parts of the reports whose names do not say enough.
_TITLES = {
    "crud": "Create, read, update, delete, find",
    "ef_sweep": "Sweep of ef",
    "result_files": "The report's result files",
}
#: Explanation of the tables of a part.
_LEADS = {
    Layout.COLUMNS: "The published value, the value measured here, and the ratio of the two.",
    Layout.CELLS: "Each cell: published → measured (× ratio, or for recalls the difference; range"
    " of the repeats). ✗ is invalid, — was not measured; the notes say why.",
    Layout.LIST: "A row for each figure that was measured. ✗ is invalid; the notes say why.",
}
#: Points of a series that are named where they are not drawn.
_NAMED = 6
#: Kinds of drawings whose x is a number.
_ALONG = ("line", "tradeoff")


def build(
    report: Reproduction,
    cells: Sequence[ComparedFigure],
    about: ReportConditions,
    measured: Mapping[str, MeasuredPart],
    layout: Layout = Layout.COLUMNS,
) -> Report:
    """The report page of a reproduction; with figures in all layouts except `LIST`."""
    drawings = () if layout is Layout.LIST else DRAWINGS.get(report.name, ())
    plots = [plot(drawing, report, cells, measured) for drawing in drawings]
    stores = list(dict.fromkeys(cell.figure.store for cell in cells))
    split = [name for one in plots for name in one.systems]
    each: dict[str, dict[str, None]] = {}
    for cell in cells:
        if cell.here:
            each.setdefault(cell.figure.store, {})[cell.here] = None
    here = {name: ", or ".join(several) for name, several in each.items()}
    here |= {dot.system: dot.here for one in plots for dot in one.measured if dot.here}
    palette = Palette(tuple(dict.fromkeys([*stores, *split])), here)
    return Report(
        title=report.title,
        about="A published report, measured again: what was published beside what was measured"
        " here. A ratio is measured over published.",
        meta=(
            ("Published in", report.document),
            ("Measured there on", report.machine),
            ("Measured here on", about.machine),
            *((("Memory of each server", about.memory),) if about.memory else ()),
            ("Repeats", str(about.repeats)),
            ("Options", about.options),
            *((("Run", about.made),) if about.made else ()),
        ),
        warnings=tuple(_warnings(cells, about)),
        sections=(
            *claims.section(report, cells, palette),
            glance(cells, palette),
            *interface.section(cells, palette),
            *measured_sections(about),
            *_parts(cells, plots, palette, measured, layout),
            method(report),
        ),
        labels=palette.labels,
        stores=palette.stores,
        like=palette.like,
    )  # fmt: skip


def _warnings(cells: Sequence[ComparedFigure], about: ReportConditions) -> Iterator[str]:
    yield (
        "Another machine, other versions, another client: a ratio says how far two setups are"
        " apart, not that a store became faster or slower."
    )
    yield about.repeated
    if not about.is_full_size:
        yield FEWER
    for one in about.systems:
        if one.here:
            what = one.differs or one.here
            yield f"Where it says {one.published}, this was measured: {what}."
    yield from invalid_figures(cells)


def _parts(
    cells: Sequence[ComparedFigure],
    plots: Sequence[Plot],
    palette: Palette,
    measured: Mapping[str, MeasuredPart],
    layout: Layout,
) -> Iterator[Section]:
    """A section for each part of the report: its tables, further results of the runs, then its
    figures."""
    more = further_results(measured)
    for experiment in dict.fromkeys(cell.figure.experiment for cell in cells):
        held = [cell for cell in cells if cell.figure.experiment == experiment]
        blocks: list[Block] = [
            table for sheet in sheets(held) for table in sheet_tables(sheet, palette, layout)
        ]
        blocks += more.get(experiment, ())
        for one in plots:
            if one.drawing.about == experiment:
                blocks += _figure(one, palette)
        title = _TITLES.get(experiment) or readable_name(experiment).capitalize()
        if blocks:
            yield Section(section_of(experiment), title, _LEADS[layout], tuple(blocks))


def with_drawn_figures(page: Report, folder: Path) -> Report:
    """The page with only those figures that are files in the folder."""

    def is_drawn(block: Block) -> bool:
        return not isinstance(block, doc.Figure) or (folder / f"{block.name}.svg").is_file()

    sections = (
        replace(section, blocks=tuple(filter(is_drawn, section.blocks)))
        for section in page.sections
    )
    return replace(page, sections=tuple(sections))


# --- figures --------------------------------------------------------------------------------


def _figure(plot: Plot, palette: Palette) -> Iterator[Block]:
    """A figure with its data as a table, and the points that are not drawn."""
    drawing = plot.drawing
    title = drawing.title
    if not plot.dots:
        said = (drawing.note, *_omission_notes(plot))
        yield doc.Text(tuple(filter(None, said)), f"{title} ({drawing.source})")
        return
    yield doc.Figure(
        drawing.name,
        title,
        " ".join(_caption(plot, palette)),
        _figure_in_words(plot, palette),
        chart(plot, palette),
        () if drawing.kind == "share" else palette.shown(plot),
        _omission_notes(plot),
    )
    yield _data(plot, palette)


def _caption(plot: Plot, palette: Palette) -> Iterator[str]:
    drawing = plot.drawing
    yield f"{drawing.source[0].upper()}{drawing.source[1:]}."
    if drawing.kind == "share":
        yield "Each bar says whether it was published or measured."
    else:
        marks = "hollow bars" if drawing.kind == "bar" else "lines and hollow marks"
        yield f"Dashed {marks}: published. Filled: measured here."
    if not plot.measured:
        yield "Nothing of it was measured here."
    elif fewer := _fewer_rows_note(plot):
        yield f"Measured on {fewer}."
    if drawing.limit is not None:
        yield f"Dotted: {formatting.number(drawing.limit)}, where the report draws a line."
        yield from crossings.sentences(plot, palette.measured)
    if drawing.derived:
        yield f"Derived, published and measured alike: {drawing.derived}."
    yield from filter(None, (drawing.note, *plot.remarks))


def _fewer_rows_note(plot: Plot) -> str:
    """'118,351 rows instead of 1,183,514', if all marks have the same rows and do not show them;
    empty if the numbers are equal."""
    theirs = {dot.rows for dot in plot.dots if dot.published and dot.rows}
    ours = {dot.rows for dot in plot.measured if dot.rows}
    if "rows" in plot.drawing.x or len(ours) != 1 or theirs == ours:
        return ""
    instead = f" instead of {theirs.pop():,}" if len(theirs) == 1 else ""
    return f"{formatting.rows(ours.pop())}{instead}"


def _omission_notes(plot: Plot) -> tuple[str, ...]:
    """The measured points that are not drawn, with reasons; one sentence for each store."""
    some = {dot.system for dot in plot.measured}
    reasons = Counter(missing.system for missing in plot.missing)
    said = []
    for missing in plot.missing:
        named = list(dict.fromkeys(missing.at))
        if missing.system not in some and reasons[missing.system] == 1:
            named = []
        where = f" at {', '.join(named[:_NAMED])}" if named else ""
        more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        what = missing.system or "anything measured"
        said.append(f"Not drawn: {what}{where}{more}: {missing.why}.")
    return tuple(said)


def _figure_in_words(plot: Plot, palette: Palette) -> str:
    """The figure in words, for readers who cannot see it."""
    drawing = plot.drawing
    lines: dict[tuple[str, bool, str], list[Dot]] = {}
    for dot in plot.dots:
        lines.setdefault((dot.system, dot.published, dot.part), []).append(dot)
    for line in lines.values():  # Bars have no x, and keep the report's own order.
        line.sort(key=lambda dot: dot.x or 0.0)
    said = [
        f"{palette.labels[palette.series(name, published)]}{f', {part}' if part else ''}: "
        + ", ".join(f"{plot.label(dot)} at {_dot_text(dot)}" for dot in dots[:6])
        + (", …" if len(dots) > 6 else "")
        for (name, published, part), dots in list(lines.items())[:_SPOKEN]
    ]
    said += [
        f"{palette.labels[palette.series(moment.system, False)]}:"
        f" {MOMENTS[moment.metric]} at {formatting.number(moment.x)}"
        for moment in plot.moments
    ]
    more = "" if len(lines) <= _SPOKEN else "; further series are in the table"
    axis = f" against {drawing.x_title}" if drawing.x_title else ""
    return f"{drawing.y_title}{axis}. {'; '.join(said)}{more}. All data is in the tables."


def _dot_text(dot: Dot) -> str:
    if dot.x is None:
        return dot.at
    return f"{dot.x:,.0f}" if dot.x.is_integer() else formatting.number(dot.x)


def _data(plot: Plot, palette: Palette) -> Table:
    """The data of a figure."""
    drawing = plot.drawing
    heads = (
        *columns(series="Series", of="Published or measured"),
        *(columns("part") if drawing.kind == "share" else ()),
        Column("x", drawing.x_title.removesuffix(" (log)") or "At", numeric=drawing.kind in _ALONG),
        Column("value", drawing.y_title.removesuffix(" (log)")),
        Column("rows", "Rows loaded"),
    )
    rows = [
        Row.from_values(
            dot.system if dot.published else palette.measured(dot.system),
            "published" if dot.published else "measured",
            *([dot.part] if drawing.kind == "share" else []),
            doc.Cell(_dot_text(dot), dot.at if dot.x is None else dot.x),
            doc.Cell(plot.label(dot), dot.value),
            "" if dot.rows is None else dot.rows,
            series=palette.series(dot.system, dot.published),
        )
        for dot in plot.dots
    ]
    title = f"Data of this figure: {formatting.plural(len(rows), 'point')}"
    return Table(f"data-{drawing.name}", title, heads, tuple(rows), folded=True)
