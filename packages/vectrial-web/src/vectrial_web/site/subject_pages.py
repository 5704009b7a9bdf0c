"""The pages of stores and datasets, and the lists of both and of runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from vectrial.compare.cells import ComparedCell
from vectrial.compare.judge import judge
from vectrial.document.blocks import (
    Block,
    Cell,
    Column,
    Report,
    Row,
    Section,
    Table,
    Text,
    absent_cell,
    columns,
    plain_cell,
)
from vectrial.experiments.registry import all_metrics
from vectrial.stats.verdict import THRESHOLD
from vectrial.util import formatting
from vectrial_web.site import tables
from vectrial_web.site.entries import StoreEntry
from vectrial_web.site.glances import Glance
from vectrial_web.site.pages import SHEETS, Site
from vectrial_web.site.places import dataset_page, question_page, store_page
from vectrial_web.site.questions import QUESTIONS, Question


def store_report(site: Site, store: str) -> Report:
    """The page of a store."""
    runs = site.with_store(store)
    glances = [g for one in tables.sort_by_date(runs) for g in one.glances if g.store == store]
    versions = sorted({e.version for e in site.entries if e.store == store and e.version})
    sections = [
        Section(
            "glance", "At a glance",
            "As in the report of each run: search columns show the fastest measured point with"
            " recall ≥ 0.95, and the others belong to the same index unless a note names another.",
            (tables.glance_table("glance", store, glances, of_store=True),) if glances else (),
        ),
        *_question_sections(site, store),
        Section("runs", "Runs", "", (tables.runs_table("runs", runs),)),
    ]  # fmt: skip
    meta = (
        ("Runs", f"{len(runs):,}"),
        ("Datasets", f"{len({g for one in runs for g in one.datasets}):,}"),
        ("Versions measured", ", ".join(versions) or formatting.NOTHING),
    )
    kept = tuple(section for section in sections if section.blocks)
    return Report(store, meta=meta, sections=kept)


def _question_sections(site: Site, store: str) -> Iterator[Section]:
    """A table for each question with a store's places, and their ranks among all stores."""
    for question in QUESTIONS:
        rows: list[Row] = []
        heads: tuple[Column, ...] = ()
        for number, ranking in enumerate(site.rankings[question.name]):
            if not any(place.entry.store == store for place in ranking.places):
                continue
            table, title = tables.ranking_table(ranking), ranking.like.title
            heads = (Column("sheet", "Terms", numeric=False), *table.columns[1:])
            href = f"{question_page(question.name)}#table-{table.name}"
            if number >= SHEETS:
                href = dataset_page(ranking.like.dataset)
            for place, row in zip(ranking.places, table.rows, strict=True):
                if place.entry.store == store:
                    head = Cell(title, title, place.entry.label, href=href)
                    rows.append(Row((head, *row.cells[1:]), row.tone))
        if rows:
            own = tuple(rows[: tables.MOST_ROWS])
            table = Table(question.name, question.title, heads, own)
            yield Section(question.name, question.title, question.lead, (table,))


def dataset_report(site: Site, dataset: str) -> Report:
    """The page of a dataset."""
    runs = site.with_dataset(dataset)
    every = tables.sort_by_date(runs)
    sheets: dict[str, list[Glance]] = defaultdict(list)
    for one in every:
        for glance in one.glances:
            if glance.dataset == dataset:
                sheets[glance.sheet].append(glance)
    glance_tables = tuple(
        tables.glance_table(f"glance-{number}", sheet, own, of_store=False)
        for number, (sheet, own) in enumerate(sorted(sheets.items()), 1)
    )
    points = [p for one in every for p in one.fronts if p.dataset == dataset]
    sections = [
        *_rankings_of(site, dataset),
        Section(
            "points", "Measured points",
            "Filter by store, recall and latency, or tick two rows to see them side by side. The"
            " address keeps the choice.",
            (tables.points_table("points", f"Fronts of {dataset}", points),) if points else (),
        ),
        Section(
            "glance", "At a glance", "As in the report of each run.", glance_tables,
        ),
        Section("runs", "Runs", "", (tables.runs_table("runs", runs),)),
    ]  # fmt: skip
    meta = (
        ("Runs", f"{len(runs):,}"),
        ("Stores", f"{len({s for one in runs for s in one.stores}):,}"),
    )
    return Report(dataset, meta=meta, sections=tuple(s for s in sections if s.blocks))


def _rankings_of(site: Site, dataset: str) -> Iterator[Section]:
    for question in QUESTIONS:
        found = [r for r in site.rankings[question.name] if r.like.dataset == dataset]
        if found:
            blocks = tuple(tables.ranking_table(one) for one in found[:SHEETS])
            yield Section(question.name, question.title, question.lead, blocks)


def listing(site: Site, kind: str) -> Report:
    """The list of stores or datasets."""
    stores = kind == "stores"
    names = site.stores if stores else site.datasets
    heads = (
        Column("name", "Store" if stores else "Dataset", numeric=False),
        Column("runs", "Runs"),
        Column("with", "Datasets" if stores else "Stores", numeric=False),
        Column("newest", "Newest run", numeric=False),
    )
    rows = []
    for name in names:
        runs = tables.sort_by_date(site.with_store(name) if stores else site.with_dataset(name))
        others = {o for one in runs for o in (one.datasets if stores else one.stores)}
        page = store_page(name) if stores else dataset_page(name)
        newest = runs[0].facts
        assert newest is not None
        rows.append(
            Row.from_values(
                Cell(name, name, href=page), len(runs), ", ".join(sorted(others)),
                tables.run_cell(newest),
            )
        )  # fmt: skip
    title = "Stores" if stores else "Datasets"
    table = Table(kind, formatting.plural(len(rows), title[:-1].lower()), heads, tuple(rows))
    return Report(title, sections=(Section(kind, "", "", (table,)),))


def runs_report(site: Site) -> Report:
    """The list of runs, and of paths that could not be read."""
    unread = tables.unread_table(site.results)
    blocks = (tables.runs_table("runs", site.results), *((unread,) if unread else ()))
    return Report("Runs", sections=(Section("runs", "", "", blocks),))


def versions_report(site: Site) -> Report:
    """Report on stores measured repeatedly with equal terms, over time; and on every version."""
    question = QUESTIONS[0]
    grouped: dict[object, list[StoreEntry]] = defaultdict(list)
    for entry in site.entries:
        if entry.question == question.name and entry.tone == "ok":  # it has figures
            grouped[entry.like, entry.series].append(entry)
    blocks: list[Block] = []
    for own in grouped.values():
        if len({entry.run.id for entry in own}) < 2:
            continue
        ordered = sorted(own, key=lambda e: (e.run.started_s, e.run.id))[-50:]
        title = f"{ordered[0].label}: {ordered[0].like.title}"
        name = f"versions-{len(blocks) + 1}"
        blocks.append(tables.versions_table(name, title, question, _steps(question, ordered)))
    over_time: tuple[Block, ...] = tuple(blocks[:SHEETS]) or (
        Text(("No store was searched in two runs on equal terms, machine and limits included.",)),
    )
    sections = (
        Section("time", "Over time",
                f"{question.title}: the same store on the same terms in several runs. Runs were"
                " measured at different times: a change of the machine looks like one of the"
                " store.", over_time),
        Section("versions", "Versions measured", "", (_versions(site.entries),)),
    )  # fmt: skip
    return Report("Versions", sections=sections)


def _steps(question: Question, entries: Sequence[StoreEntry]) -> list[tuple[StoreEntry, Cell]]:
    """Each entry with its verdict against the previous one."""
    metric = all_metrics()[question.metric]
    pairs = [
        (i, ComparedCell(e.label, e.question, "", {}, metric, a=before.values, b=e.values))
        for i, (before, e) in enumerate(pairwise(entries), 1)
        if not before.why and not e.why
    ]
    verdicts = judge([cell for _, cell in pairs], THRESHOLD)
    found = {i: verdict for (i, _), verdict in zip(pairs, verdicts, strict=True)}
    steps = []
    for i, entry in enumerate(entries):
        cell = absent_cell("" if i == 0 else entry.why or entries[i - 1].why)
        if i in found:
            cell = Cell(str(found[i].kind), str(found[i].kind), note=found[i].reason)
        steps.append((entry, cell))
    return steps


def _versions(entries: Iterable[StoreEntry]) -> Table:
    seen: dict[tuple[str, str], dict[str, StoreEntry]] = defaultdict(dict)
    for entry in entries:
        seen[entry.store, entry.version][entry.run.id] = entry
    heads = columns("store", "version", runs=("Runs", ""), first="First", last="Last")
    rows = []
    for (store, version), runs in sorted(seen.items()):
        ordered = sorted(runs.values(), key=lambda e: e.run.started_s)
        rows.append(
            Row.from_values(
                Cell(store, store, href=store_page(store)),
                plain_cell(version or formatting.NOTHING),
                len(ordered),
                tables.run_cell(ordered[0].run),
                tables.run_cell(ordered[-1].run),
            )
        )
    return Table("versions", "Versions of stores", heads, tuple(rows))
