"""The tables of the page of a reproduction."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import pairwise
from statistics import median

from vectrial.analysis.run_data import RunData
from vectrial.document import blocks as doc
from vectrial.document.blocks import Block, Column, Row, Section, Table, columns, table_of
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.experiments.storage import report as storage
from vectrial.experiments.time_to_searchable import report as searchable
from vectrial.util import (
    formatting,
)
from vectrial_reproduce.reports import figure_text
from vectrial_reproduce.reports.collect import ComparedFigure
from vectrial_reproduce.reports.conditions import ReportConditions
from vectrial_reproduce.reports.figures_render import Palette
from vectrial_reproduce.reports.matching import MeasuredPart
from vectrial_reproduce.reports.model import Reproduction, Scalar
from vectrial_reproduce.reports.tables import ReportTable, split_by_system, system

#: Sections of a run's report that a page repeats, by part of the published report.
_SECTIONS = {"anomaly": "anomaly", "scalar_index_overhead": "metadata-indexes"}


def glance(cells: Sequence[ComparedFigure], palette: Palette) -> Section:
    """The number of compared figures, and their ratios."""
    groups: dict[tuple[str, str, str], list[ComparedFigure]] = {}
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
            digits = 4 if figure_text.is_recall(metric) else 2
            spans = (median(ratios), min(ratios), max(ratios))
            rows.append(
                Row.from_values(
                    palette.measured(store), readable_name(experiment), readable_name(metric),
                    len(members), len(ratios),
                    *(doc.times_cell(of, digits) for of in spans),
                    series=palette.series(store, False),
                )
            )  # fmt: skip
    blocks: list[Block] = []
    if rows:
        group = "Measured over published"
        heads = (
            *columns(
                store="Store",
                experiment="Part of the report",
                metric="Metric",
                published=("Published", ""),
                compared=("Compared", ""),
            ),
            Column("ratio", "Median", group=group),
            Column("ratio_least", "Least", group=group),
            Column("ratio_most", "Most", group=group),
        )
        blocks.append(Table("glance", "How much was compared", heads, tuple(rows)))
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
        f" measurement beside them. {figure_text.BETTER}",
        tuple(blocks),
    )


def measured_sections(about: ReportConditions) -> Iterator[Section]:
    """The data of each part, and the stand-in and version of each system."""
    parts = table_of(
        "loaded",
        "What each part was measured on",
        columns(part="Part of the report", dataset="Dataset here", rows=("Rows", ""),
                share=("Of the report's", ""), queries=("Queries", "")),
        (
            (
                part.title,
                doc.plain_cell(part.dataset,
                          note=part.stands_for and f"stands in for {part.stands_for}"),
                part.rows,
                doc.Cell(part.share or "all", part.rows / part.published_rows),
                part.queries,
            )
            for part in about.loaded
        ),
    )  # fmt: skip
    systems = table_of(
        "systems",
        "What was measured for each system",
        columns("system", "measured_here", "version", "what_differs"),
        (
            (system(one.published, one.here), one.store, ", ".join(one.versions), one.differs)
            for one in about.systems
        ),
    )
    notes = ((one.store, note) for one in about.systems for note in one.forces)
    forced = table_of(
        "forced", "Notes on the stores", columns("store", "note"), notes, grouped_by=0, folded=True
    )
    blocks = tuple(table for table in (parts, systems, forced) if table.rows)
    if blocks:
        lead = "The data of each part, and what was measured for each system of the report."
        yield Section("ran", "What was measured", lead, blocks)


def further_results(measured: Mapping[str, MeasuredPart]) -> Mapping[str, Sequence[Block]]:
    """Further results of the runs that the report's figures do not need, by part of the report: how
    well anomalies were detected, the duration of every step of a load with and without indexes,
    when loads were acknowledged, found and indexed, and the contents of the files."""
    sections = {
        name: [block for one in measured.values() for block in _section(slug, one.run)]
        for name, slug in _SECTIONS.items()
    }
    return {
        **sections,
        "ingest": [t for name, one in measured.items() for t in _searchable(name, one)],
        "storage": [t for name, one in measured.items() for t in _kinds(name, one)],
    }


def _section(slug: str, run: RunData) -> list[Block]:
    """The lead and the tables of a section of experiments."""
    found: list[Block] = []
    names = dict.fromkeys(p.experiment for p in run.points if p.experiment in EXPERIMENTS)
    every = (section for name in names for section in EXPERIMENTS[name].sections(run, None))
    for section in (one for one in every if one.name == slug):
        tables = _without_series([table for table in section.blocks if isinstance(table, Table)])
        found += [doc.Text((section.lead,), section.title), *tables]
    return found


def _searchable(name: str, part: MeasuredPart) -> list[Table]:
    run = part.run
    return _without_series(
        searchable.table(
            f"searchable-{name}",
            f"When a load is acknowledged, found and indexed: {part.dataset}",
            run.points_named("searchable"),
            run,
        )
    )


def _kinds(name: str, part: MeasuredPart) -> list[Table]:
    run = part.run
    return _without_series(
        storage.table(
            f"storage-kinds-{name}",
            f"Bytes on disk by kind of file, and beside the raw bytes: {part.dataset}",
            list({p.series: p for p in run.points_named("settled")[::-1]}.values())[::-1],
            run,
        )
    )


def _without_series(tables: Sequence[Table]) -> list[Table]:
    """Tables of a run without its series, for which this page has no looks."""
    return [replace(t, rows=tuple(replace(row, series=None) for row in t.rows)) for t in tables]


def readable_name(name: str) -> str:
    """Readable name of a published metric or part."""
    return name.replace("_", " ")


class Layout(StrEnum):
    """The layout of the tables of a report.

    COLUMNS: three columns for each metric. CELLS: published, measured and ratio in one cell.
    LIST: a row for each measured figure, with figures of several metrics below each other.
    """

    COLUMNS = "columns"
    CELLS = "cells"
    LIST = "list"


def sheet_tables(sheet: ReportTable, palette: Palette, layout: Layout) -> list[Table]:
    """The tables of one table of the report."""
    if layout is Layout.LIST:
        return [table for table in [_list_table(sheet)] if table.rows]
    parts = [sheet] if layout is Layout.COLUMNS else split_by_system(sheet)
    return [
        _sheet_table(part, palette, layout, part.title if len(parts) == 1 else
                     f"{sheet.title}: {part.title}")
        for part in parts
    ]  # fmt: skip


def _sheet_table(sheet: ReportTable, palette: Palette, layout: Layout, title: str) -> Table:
    """One row per line; every parameter in which the rows differ has a column."""
    heads = [*columns("store")]
    for name in sheet.settings:
        values = [line.setting.get(name) for line in sheet.lines]
        numbers = all(type(value) in (int, float, type(None)) for value in values)
        heads.append(Column(name, name, numeric=numbers))
    for metric, unit in sheet.metrics:
        heads += _metric_columns(metric, unit, sheet.metric_notes[metric], layout)
    rows = []
    for line in sheet.lines:
        cells = [replace(doc.plain_cell(line.system), notes=sheet.line_notes(line))]
        cells += (_setting(line.setting.get(name)) for name in sheet.settings)
        for metric, unit in sheet.metrics:
            cell = line.cells.get(metric)
            if cell is None:
                cells += [doc.Cell("")] * (3 if layout is Layout.COLUMNS else 1)
                continue
            three = _figure_cells(cell, sheet.cell_notes(line, metric), own_unit=not unit)
            if layout is Layout.COLUMNS:
                cells += three
            else:
                shown = figure_text.full_text(cell, with_unit=not unit)
                cells.append(replace(three[1], text=shown, detail=""))
        rows.append(Row(tuple(cells), series=palette.series(line.store, False)))
    stores = [line.store for line in sheet.lines]
    apart = sum(a != b for a, b in pairwise(stores)) == len(set(stores)) - 1
    return Table(
        _slug(title), title, tuple(heads), tuple(rows),
        grouped_by=0 if apart and len(stores) > len(set(stores)) else None,
    )  # fmt: skip


def _metric_columns(
    metric: str, unit: str, notes: tuple[str, ...], layout: Layout
) -> Iterator[Column]:
    title = readable_name(metric) + (f" [{unit}]" if unit not in ("", "1") else "")
    if layout is Layout.CELLS:
        yield Column(metric, title, unit, notes=notes)
        return
    beside = "difference" if figure_text.is_recall(metric) else "ratio"
    yield Column(f"{metric}_published", "published", unit, title)
    yield Column(f"{metric}_measured", "measured", unit, title, notes=notes)
    yield Column(f"{metric}_{beside}", beside, "1", title)


def _list_table(sheet: ReportTable) -> Table:
    heads = columns(
        "store", "setting", "metric",
        published=("Published", ""), measured=("Measured", ""), ratio=("Ratio", ""),
    )  # fmt: skip
    rows = []
    for line in sheet.lines:
        setting = " ".join(
            f"{n}={figure_text.setting_text(value)}" for n, value in line.setting.items()
        )
        head = (line.system, setting)
        for metric, cell in line.cells.items():
            if cell.measured is not None:
                rows.append(
                    (*head, readable_name(metric), *_figure_cells(cell, cell.notes, own_unit=True))
                )
                head = ("", "")
    return table_of(_slug(sheet.title), sheet.title, heads, rows)


def _setting(value: Scalar | None) -> doc.Cell:
    return doc.Cell(figure_text.setting_text(value), value)


def _figure_cells(
    cell: ComparedFigure, notes: tuple[str, ...], *, own_unit: bool
) -> tuple[doc.Cell, doc.Cell, doc.Cell]:
    """Published, measured, and their ratio or difference. own_unit: with this cell's unit."""
    metric, unit = cell.figure.metric, figure_text.unit_suffix(cell.figure) if own_unit else ""
    published = doc.Cell(
        f"{figure_text.published_text(cell.figure.value)}{unit}", cell.figure.value
    )
    if cell.measured is None:
        return published, replace(doc.absent_cell(), notes=notes), doc.Cell("")
    measured = doc.Cell(
        f"{figure_text.measured_text(metric, cell.measured)}{unit}{'' if cell.valid else ' ✗'}",
        cell.measured,
        figure_text.range_text(cell),
        notes=notes,
        tone="ok" if cell.valid else "invalid",
    )
    if cell.ratio is None:
        return published, measured, doc.Cell("")
    beside = cell.measured - cell.figure.value if figure_text.is_recall(metric) else cell.ratio
    return published, measured, doc.Cell(figure_text.comparison_text(cell), beside)


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def method(report: Reproduction) -> Section:
    """The method of the report next to the one used here."""
    title = "What the report did, and what is done here"
    heads = columns(
        about="About", theirs="What the report did", ours="What is done here",
        faithful="With --faithful",
    )  # fmt: skip
    none = formatting.NOTHING
    rows = ((n.about, n.theirs, n.ours or none, n.faithful or none) for n in report.notes)
    table = table_of("method", title, heads, rows)
    return Section("method", "Method notes", "Differences behind the same name.", (table,))
