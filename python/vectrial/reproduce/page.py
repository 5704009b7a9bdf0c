"""A reproduction as a report: its tables in its order, its figures drawn again, its method."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median

from vectrial.report import document as doc
from vectrial.report import text
from vectrial.report.document import Block, Column, Report, Row, Section, Table
from vectrial.reproduce.charts import Palette, chart
from vectrial.reproduce.collect import Cell, Measured
from vectrial.reproduce.drawings import DRAWINGS
from vectrial.reproduce.drawn import Dot, Plot, plot
from vectrial.reproduce.model import Drawing, Reproduction, Scalar
from vectrial.reproduce.render import Heading, Sheet, sheets

#: Series of which a figure's text alternative has the values.
_SPOKEN = 8
#: Titles of parts of the reports whose names do not say enough.
_TITLES = {
    "crud": "Create, read, update, delete, find",
    "ef_sweep": "Sweep of ef",
    "result_files": "The report's result files",
}
#: Points of a series that are named where they are not drawn.
_NAMED = 6


def build(
    report: Reproduction,
    cells: Sequence[Cell],
    about: Heading,
    measured: Mapping[str, Measured],
) -> Report:
    """Everything that is shown of a reproduction, whatever it is written as."""
    plots = [plot(drawing, report, cells, measured) for drawing in DRAWINGS[report.name]]
    stores = list(dict.fromkeys(cell.figure.store for cell in cells))
    split = [system for one in plots for system in one.systems]
    palette = Palette(tuple(dict.fromkeys([*stores, *split])))
    return Report(
        title=report.title,
        about="A published report, measured again: what was published beside what was measured"
        " here. A ratio is measured over published.",
        meta=(
            ("Published in", report.document),
            ("Measured there on", report.machine),
            ("Measured here on", about.machine),
            ("Scale", f"{about.scale:g} of its rows"
             + (", by its own method" if about.faithful else "")),
        ),
        warnings=tuple(_warnings(cells, about)),
        answers=(),
        sections=(
            _glance(cells, palette),
            *_parts(cells, plots, palette, about),
            _method(report),
        ),
        labels=palette.labels,
        stores=palette.stores,
        like=palette.like,
    )  # fmt: skip


def _warnings(cells: Sequence[Cell], about: Heading) -> Iterator[str]:
    yield (
        "Another machine, other versions, another client: a ratio says how far two setups are"
        " apart, not that a store became faster or slower."
    )
    if about.scale < 1:
        yield (
            f"Measured at {about.scale:g} of the report's rows: searches of a small collection are"
            " faster and find more than those of a large one."
        )
    yield from about.loaded
    wrong = sum(cell.valid is False for cell in cells)
    if wrong:
        yield f"{text.plural(wrong, 'measured value')} may not be trusted, and say why (✗)."


# --- tables ---------------------------------------------------------------------------------


def _glance(cells: Sequence[Cell], palette: Palette) -> Section:
    """How much was compared, and how far apart it is."""
    groups: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        key = (cell.figure.store, cell.figure.experiment, cell.figure.metric)
        groups.setdefault(key, []).append(cell)
    rows, none = [], Counter[tuple[str, str]]()
    for (store, experiment, metric), members in groups.items():
        ratios = [c.ratio for c in members if c.valid and c.ratio is not None]
        for cell in members:
            if cell.measured is None:
                none[store, cell.why] += 1
        if ratios:
            rows.append(
                Row(
                    (
                        doc.plain(store), doc.plain(_words(experiment)), doc.plain(_words(metric)),
                        doc.plain(len(members)), doc.plain(len(ratios)),
                        *(doc.Cell(f"×{text.number(of, 2)}", of)
                          for of in (median(ratios), min(ratios), max(ratios))),
                    ),
                    series=palette.series(store, False),
                )
            )  # fmt: skip
    blocks: list[Block] = []
    if rows:
        columns = (
            Column("store", "Store", numeric=False),
            Column("experiment", "Part of the report", numeric=False),
            Column("metric", "Metric", numeric=False),
            Column("published", "Published"),
            Column("compared", "Compared"),
            Column("ratio", "Median", group="Measured over published"),
            Column("ratio_least", "Least", group="Measured over published"),
            Column("ratio_most", "Most", group="Measured over published"),
        )
        blocks.append(Table("glance", "How much was compared", columns, tuple(rows)))
    if none:
        said = tuple(
            f"{store}: {text.plural(count, 'published figure')}: {why}."
            for (store, why), count in none.items()
        )
        blocks.append(doc.Text(said, "Nothing beside these", bullets=True))
    compared = sum(bool(cell.valid) for cell in cells)
    return Section(
        "glance",
        "At a glance",
        f"{compared:,} of {text.plural(len(cells), 'published figure')} have a valid measurement"
        " beside them. For times less than 1 is better, for rates and recall more.",
        tuple(blocks),
    )


def _parts(
    cells: Sequence[Cell], plots: Sequence[Plot], palette: Palette, about: Heading
) -> Iterator[Section]:
    """A section for each part of the report: its tables, then its figures."""
    for experiment in dict.fromkeys(cell.figure.experiment for cell in cells):
        held = [cell for cell in cells if cell.figure.experiment == experiment]
        blocks: list[Block] = [_table(sheet, palette) for sheet in sheets(held)]
        for one in plots:
            if one.drawing.about == experiment:
                blocks += _figure(one, palette, about)
        yield Section(
            f"part-{experiment}".replace("_", "-"),
            _TITLES.get(experiment) or _words(experiment).capitalize(),
            "What was published, what was measured here, and the ratio of the two.",
            tuple(blocks),
        )


def _words(name: str) -> str:
    return name.replace("_", " ")


def _table(sheet: Sheet, palette: Palette) -> Table:
    """A table of the report; every parameter in which its rows differ has a column."""
    settings = list(dict.fromkeys(name for _, setting, _ in sheet.rows for name in setting))
    columns = [Column("store", "Store", numeric=False)]
    for name in settings:
        values = [setting.get(name) for _, setting, _ in sheet.rows]
        numbers = all(type(value) in (int, float, type(None)) for value in values)
        columns.append(Column(name, name, numeric=numbers))
    for metric, unit in sheet.metrics:
        group = _words(metric) + (f" [{unit}]" if unit not in ("", "1") else "")
        columns += [
            Column(f"{metric}_{kind}", kind, unit if kind != "ratio" else "1", group)
            for kind in ("published", "measured", "ratio")
        ]
    rows = []
    for store, setting, held in sheet.rows:
        cells = [doc.plain(store), *(_setting(setting.get(name)) for name in settings)]
        for metric, unit in sheet.metrics:
            cells += _three(held.get(metric), own_unit=not unit)
        rows.append(Row(tuple(cells), series=palette.series(store, False)))
    stores = [store for store, _, _ in sheet.rows]
    apart = sum(a != b for a, b in pairwise(stores)) == len(set(stores)) - 1
    return Table(
        _slug(sheet.title), sheet.title, tuple(columns), tuple(rows),
        grouped_by=0 if apart and len(stores) > len(set(stores)) else None,
    )  # fmt: skip


def _setting(value: Scalar | None) -> doc.Cell:
    if value is None:
        return doc.Cell("")
    shown = ("no", "yes")[value] if isinstance(value, bool) else str(value)
    return doc.Cell(f"{value:,}" if type(value) is int else shown, value)


def _three(cell: Cell | None, *, own_unit: bool) -> tuple[doc.Cell, doc.Cell, doc.Cell]:
    """Published, measured and ratio; `own_unit`: with the unit of this cell."""
    if cell is None:
        return doc.Cell(""), doc.Cell(""), doc.Cell("")
    unit = f" {cell.figure.unit}" if own_unit and cell.figure.unit != "1" else ""
    number = text.recall if cell.figure.metric == "recall" else text.number
    published = doc.Cell(f"{number(cell.figure.value)}{unit}", cell.figure.value)
    if cell.measured is None:
        return published, doc.Cell(text.NOTHING, note=cell.note, tone="absent"), doc.Cell("")
    wrong = "" if cell.valid else " ✗"
    measured = doc.Cell(
        f"{number(cell.measured)}{unit}{wrong}",
        cell.measured,
        note=cell.note,
        tone="ok" if cell.valid else "invalid",
    )
    if cell.ratio is None:
        return published, measured, doc.Cell("")
    return published, measured, doc.Cell(f"×{text.number(cell.ratio, 2)}", cell.ratio)


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _method(report: Reproduction) -> Section:
    columns = (
        Column("about", "About", numeric=False),
        Column("theirs", "What the report did", numeric=False),
        Column("ours", "What is done here", numeric=False),
        Column("faithful", "With --faithful", numeric=False),
    )
    rows = tuple(
        Row((
            doc.plain(note.about), doc.plain(note.theirs),
            doc.plain(note.ours or text.NOTHING), doc.plain(note.faithful or text.NOTHING),
        ))
        for note in report.notes
    )  # fmt: skip
    table = Table("method", "What the report did, and what is done here", columns, rows)
    return Section(
        "method", "Method notes", "Where the two are not the same thing under one name.", (table,)
    )


# --- figures --------------------------------------------------------------------------------


def _figure(one: Plot, palette: Palette, about: Heading) -> Iterator[Block]:
    """A figure with its data as a table, and what of it is not drawn."""
    drawing = one.drawing
    title = drawing.title
    if not one.dots:
        said = (drawing.note, *_left_out(one))
        yield doc.Text(tuple(filter(None, said)), f"{title} ({drawing.source})")
        return
    yield doc.Figure(
        drawing.name,
        title,
        " ".join(_caption(one, about)),
        _spoken(one),
        chart(one, palette),
        () if drawing.kind == "share" else palette.shown(one),
        _left_out(one),
    )
    yield _data(one, palette)


def _caption(one: Plot, about: Heading) -> Iterator[str]:
    drawing = one.drawing
    yield f"{drawing.source[0].upper()}{drawing.source[1:]}."
    if drawing.kind == "share":
        yield "Each bar says whether it was published or measured."
    else:
        marks = "lines and hollow marks" if drawing.kind == "line" else "hollow bars"
        yield f"Dashed {marks}: published. Filled: measured here."
    if not one.measured:
        yield "Nothing of it was measured here."
    elif about.scale < 1:
        yield f"Measured at {about.scale:g} of the report's rows."
    if drawing.derived:
        yield f"Derived, published and measured alike: {drawing.derived}."
    yield from filter(None, (drawing.note, *one.remarks))


def _left_out(one: Plot) -> tuple[str, ...]:
    """Which measured points are not drawn, and why; those of a store of which none is, as one."""
    some = {dot.system for dot in one.measured}
    reasons = Counter(missing.system for missing in one.missing)
    said = []
    for missing in one.missing:
        named = list(dict.fromkeys(missing.at))
        if missing.system not in some and reasons[missing.system] == 1:
            named = []
        where = f" at {', '.join(named[:_NAMED])}" if named else ""
        more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        what = missing.system or "anything measured"
        said.append(f"Not drawn: {what}{where}{more}: {missing.why}.")
    return tuple(said)


def _spoken(one: Plot) -> str:
    """The figure in words, for who cannot see it."""
    drawing = one.drawing
    lines: dict[tuple[str, bool, str], list[Dot]] = {}
    for dot in one.dots:
        lines.setdefault((dot.system, dot.published, dot.part), []).append(dot)
    said = [
        f"{system}{f', {part}' if part else ''}, {'published' if published else 'measured'}: "
        + ", ".join(f"{text.number(dot.value)} at {_at(drawing, dot)}" for dot in dots[:6])
        + (", …" if len(dots) > 6 else "")
        for (system, published, part), dots in list(lines.items())[:_SPOKEN]
    ]
    more = "" if len(lines) <= _SPOKEN else "; further series are in the table"
    axis = f" against {drawing.x_title}" if drawing.x_title else ""
    return f"{drawing.y_title}{axis}. {'; '.join(said)}{more}. All data is in the table below."


def _at(drawing: Drawing, dot: Dot) -> str:
    return dot.at if dot.x is None else text.number(dot.x)


def _data(one: Plot, palette: Palette) -> Table:
    """What a figure is drawn of, and below it what is not drawn."""
    drawing = one.drawing
    columns = (
        Column("series", "Series", numeric=False),
        Column("of", "Published or measured", numeric=False),
        *((Column("part", "Part", numeric=False),) if drawing.kind == "share" else ()),
        Column("x", drawing.x_title.removesuffix(" (log)") or "At", numeric=drawing.kind == "line"),
        Column("value", drawing.y_title.removesuffix(" (log)")),
        Column("rows", "Rows loaded"),
    )
    rows = []
    for dot in one.dots:
        x = doc.plain(dot.at) if dot.x is None else doc.Cell(text.number(dot.x), dot.x)
        part = (doc.plain(dot.part),) if drawing.kind == "share" else ()
        loaded = doc.Cell("" if dot.rows is None else f"{dot.rows:,}", dot.rows)
        rows.append(
            Row(
                (
                    doc.plain(dot.system),
                    doc.plain("published" if dot.published else "measured"),
                    *part, x, doc.Cell(text.number(dot.value), dot.value), loaded,
                ),
                series=palette.series(dot.system, dot.published),
            )
        )  # fmt: skip
    title = f"Data of this figure: {text.plural(len(rows), 'point')}"
    return Table(f"data-{drawing.name}", title, columns, tuple(rows), folded=True)
