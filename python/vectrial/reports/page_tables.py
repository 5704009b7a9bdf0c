"""The tables of the page of a reproduction."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from statistics import median

from vectrial.analysis.run_data import RunData
from vectrial.document import blocks as doc
from vectrial.document.blocks import Block, Column, Row, Section, Table
from vectrial.report.sections import (
    anomaly,
    experiments,
    file_kinds,
)
from vectrial.report.sections import (
    time_to_searchable as searchable,
)
from vectrial.reports import wording
from vectrial.reports.collect import Cell, Measured
from vectrial.reports.figures_render import Palette
from vectrial.reports.heading import Heading
from vectrial.reports.model import Reproduction, Scalar
from vectrial.reports.tables import Sheet, system
from vectrial.util import (
    formatting,
)

#: By part of the report, the section of a run's report that its page has, too.
_SECTIONS: Mapping[str, Callable[[RunData], Section | None]] = {
    anomaly.EXPERIMENT: anomaly.section,
    "scalar_index_overhead": partial(
        experiments.without_figures, experiment="scalar_index_overhead"
    ),
}


def glance(cells: Sequence[Cell], palette: Palette) -> Section:
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
            digits = 4 if wording.is_recall(metric) else 2
            rows.append(
                Row(
                    (
                        doc.plain(palette.measured(store)), doc.plain(words(experiment)),
                        doc.plain(words(metric)), doc.plain(len(members)), doc.plain(len(ratios)),
                        *(doc.Cell(f"×{formatting.number(of, digits)}", of)
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
            f"{store}: {formatting.plural(count, 'published figure')}: {why}."
            for (store, why), count in none.items()
        )
        blocks.append(doc.Text(said, "Nothing beside these", bullets=True))
    compared = sum(bool(cell.valid) for cell in cells)
    return Section(
        "glance",
        "At a glance",
        f"{compared:,} of {formatting.plural(len(cells), 'published figure')} have a valid"
        f" measurement beside them. {wording.BETTER}",
        tuple(blocks),
    )


def ran(about: Heading) -> Iterator[Section]:
    """What was measured: each part's data, and each system's stand-in and version."""
    parts = Table(
        "loaded",
        "What each part was measured on",
        (
            Column("part", "Part of the report", numeric=False),
            Column("dataset", "Dataset here", numeric=False),
            Column("rows", "Rows"),
            Column("share", "Of the report's"),
            Column("queries", "Queries"),
        ),
        tuple(
            Row((
                doc.plain(part.title),
                doc.plain(part.dataset,
                          note=part.stands_for and f"stands in for {part.stands_for}"),
                doc.plain(part.rows, f"{part.rows:,}"),
                doc.Cell(part.share or "all", part.rows / part.of),
                doc.absent_cell() if part.queries is None
                else doc.plain(part.queries, f"{part.queries:,}"),
            ))
            for part in about.loaded
        ),
    )  # fmt: skip
    systems = _texts(
        "systems",
        "What was measured for each system",
        ("System", "Measured here", "Version", "What differs"),
        [
            (system(one.published, one.here), one.store, ", ".join(one.versions), one.differs)
            for one in about.systems
        ],
    )
    forced = _texts(
        "forced",
        "What the stores do otherwise than others, asked or not",
        ("Store", "What"),
        [(one.store, said) for one in about.systems for said in one.forces],
    )
    forced = replace(forced, folded=True, grouped_by=0)
    blocks = tuple(table for table in (parts, systems, forced) if table.rows)
    if blocks:
        lead = "On what, and what stands beside each system of the report."
        yield Section("ran", "What was measured", lead, blocks)


def _texts(name: str, title: str, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table of words."""
    columns = tuple(Column(one.lower().replace(" ", "_"), one, numeric=False) for one in titles)
    return Table(name, title, columns, tuple(Row(tuple(map(doc.plain, row))) for row in rows))


def further(measured: Mapping[str, Measured]) -> Mapping[str, Sequence[Block]]:
    """By part of the report, what its own figures do not ask but the runs have: how well anomalies
    were told, what every step of a load with indexes and without took, when loads were
    acknowledged, found and indexed, and what the files hold."""
    sections = {
        name: [block for one in measured.values() for block in _section(section_of(one.run))]
        for name, section_of in _SECTIONS.items()
    }
    return {
        **sections,
        "ingest": [t for name, one in measured.items() for t in _searchable(name, one)],
        "storage": [t for name, one in measured.items() for t in _kinds(name, one)],
    }


def _section(section: Section | None) -> list[Block]:
    """Its lead and its tables."""
    if section is None:
        return []
    tables = _plain([table for table in section.blocks if isinstance(table, Table)])
    return [doc.Text((section.lead,), section.title), *tables]


def _searchable(name: str, one: Measured) -> list[Table]:
    run = one.run
    return _plain(
        searchable.table(
            f"searchable-{name}",
            f"When a load is acknowledged, found and indexed: {one.dataset}",
            run.select("time_to_searchable", "searchable"),
            run,
        )
    )


def _kinds(name: str, one: Measured) -> list[Table]:
    run = one.run
    return _plain(
        file_kinds.table(
            f"storage-kinds-{name}",
            f"Bytes on disk by kind of file, and beside the raw bytes: {one.dataset}",
            run.select("ingest", "settled"),
            run,
        )
    )


def _plain(tables: Sequence[Table]) -> list[Table]:
    """Tables of a run, without its series, which this page has no looks of."""
    return [replace(t, rows=tuple(replace(row, series=None) for row in t.rows)) for t in tables]


def words(name: str) -> str:
    """A name of a published metric or part, for people."""
    return name.replace("_", " ")


def sheet_table(sheet: Sheet, palette: Palette) -> Table:
    """A table of the report; every parameter in which its rows differ has a column."""
    columns = [Column("store", "Store", numeric=False)]
    for name in sheet.settings:
        values = [line.setting.get(name) for line in sheet.lines]
        numbers = all(type(value) in (int, float, type(None)) for value in values)
        columns.append(Column(name, name, numeric=numbers))
    for metric, unit in sheet.metrics:
        group = words(metric) + (f" [{unit}]" if unit not in ("", "1") else "")
        beside = "difference" if wording.is_recall(metric) else "ratio"
        columns += [
            Column(f"{metric}_published", "published", unit, group),
            Column(f"{metric}_measured", "measured", unit, group, notes=sheet.of_metrics[metric]),
            Column(f"{metric}_{beside}", beside, "1", group),
        ]
    rows = []
    for line in sheet.lines:
        cells = [doc.plain(line.system)]
        cells[0] = replace(cells[0], notes=sheet.of_line(line))
        cells += (_setting(line.setting.get(name)) for name in sheet.settings)
        for metric, unit in sheet.metrics:
            cell = line.cells.get(metric)
            known = () if cell is None else sheet.of_cell(line, metric)
            cells += _three(cell, known, own_unit=not unit)
        rows.append(Row(tuple(cells), series=palette.series(line.store, False)))
    stores = [line.store for line in sheet.lines]
    apart = sum(a != b for a, b in pairwise(stores)) == len(set(stores)) - 1
    return Table(
        _slug(sheet.title), sheet.title, tuple(columns), tuple(rows),
        grouped_by=0 if apart and len(stores) > len(set(stores)) else None,
    )  # fmt: skip


def _setting(value: Scalar | None) -> doc.Cell:
    return doc.Cell(wording.setting(value), value)


def _three(
    cell: Cell | None, notes: tuple[str, ...], *, own_unit: bool
) -> tuple[doc.Cell, doc.Cell, doc.Cell]:
    """Published, measured and how they compare; `own_unit`: with the unit of this cell."""
    if cell is None:
        return doc.Cell(""), doc.Cell(""), doc.Cell("")
    metric, unit = cell.figure.metric, wording.unit(cell.figure) if own_unit else ""
    published = doc.Cell(f"{wording.printed(cell.figure.value)}{unit}", cell.figure.value)
    if cell.measured is None:
        return published, doc.Cell(formatting.NOTHING, notes=notes, tone="absent"), doc.Cell("")
    measured = doc.Cell(
        f"{wording.value(metric, cell.measured)}{unit}{'' if cell.valid else ' ✗'}",
        cell.measured,
        wording.around(cell),
        notes=notes,
        tone="ok" if cell.valid else "invalid",
    )
    if cell.ratio is None:
        return published, measured, doc.Cell("")
    beside = cell.measured - cell.figure.value if wording.is_recall(metric) else cell.ratio
    return published, measured, doc.Cell(wording.compared(cell), beside)


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def method(report: Reproduction) -> Section:
    """What the report did, and what is done here."""
    columns = (
        Column("about", "About", numeric=False),
        Column("theirs", "What the report did", numeric=False),
        Column("ours", "What is done here", numeric=False),
        Column("faithful", "With --faithful", numeric=False),
    )
    rows = tuple(
        Row((
            doc.plain(note.about), doc.plain(note.theirs),
            doc.plain(note.ours or formatting.NOTHING),
            doc.plain(note.faithful or formatting.NOTHING),
        ))
        for note in report.notes
    )  # fmt: skip
    table = Table("method", "What the report did, and what is done here", columns, rows)
    return Section(
        "method", "Method notes", "Where the two are not the same thing under one name.", (table,)
    )
