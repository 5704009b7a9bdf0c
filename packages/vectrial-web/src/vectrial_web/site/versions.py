"""The page of versions: stores that were measured more than once on equal terms, over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
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
    plain,
)
from vectrial.experiments.registry import all_metrics
from vectrial.stats.verdict import THRESHOLD
from vectrial.util import formatting
from vectrial_web.site import tables
from vectrial_web.site.entries import StoreEntry
from vectrial_web.site.pages import SHEETS, Site
from vectrial_web.site.places import store_page
from vectrial_web.site.questions import QUESTIONS, Question


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
    heads = (
        Column("store", "Store", numeric=False),
        Column("version", "Version", numeric=False),
        Column("runs", "Runs"),
        Column("first", "First", numeric=False),
        Column("last", "Last", numeric=False),
    )
    rows = []
    for (store, version), runs in sorted(seen.items()):
        ordered = sorted(runs.values(), key=lambda e: e.run.started_s)
        rows.append(
            Row.of(
                Cell(store, store, href=store_page(store)),
                plain(version or formatting.NOTHING),
                len(ordered),
                tables.run_cell(ordered[0].run),
                tables.run_cell(ordered[-1].run),
            )
        )
    return Table("versions", "Versions of stores", heads, tuple(rows))
