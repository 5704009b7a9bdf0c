"""Tables of the site's pages: rankings, stores, datasets, versions and runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from vectrial.document.blocks import (
    Cell,
    Column,
    Row,
    Table,
    Tone,
    absent_cell,
    columns,
    plain_cell,
)
from vectrial.experiments.registry import all_metrics
from vectrial.report.sections.overview import GLANCE
from vectrial.stats.verdict import VerdictKind
from vectrial.util import formatting
from vectrial.util.file_names import slug
from vectrial_web.site.entries import RunFacts, StoreEntry, price_columns
from vectrial_web.site.glances import POINTS, FrontPoint, Glance
from vectrial_web.site.places import dataset_page, store_page
from vectrial_web.site.questions import Question
from vectrial_web.site.ranking import RankedEntry, TermRanking
from vectrial_web.site.run_pages import RunResult

#: Rows of one table on a page; all are in the files beside it.
MOST_ROWS = 400
_WORDS: dict[VerdictKind, tuple[str, Tone]] = {
    VerdictKind.BETTER: ("faster", "good"),
    VerdictKind.WORSE: ("slower", "wrong"),
    VerdictKind.TIE: ("tie", "ok"),
    VerdictKind.UNDECIDED: ("undecided", "invalid"),
    VerdictKind.NOT_COMPARABLE: ("not comparable", "absent"),
}
_STORE = Column("store", "Store", numeric=False)
_RUN = Column("run", "Run", numeric=False)


def day(started_s: float) -> str:
    """A calendar date."""
    return f"{datetime.fromtimestamp(started_s, UTC):%Y-%m-%d}"


def run_cell(run: RunFacts) -> Cell:
    """A run's name and date, linked to its page."""
    return Cell(run.name, run.name, day(run.started_s), href=run.address)


def store_cell(store: str, label: str, version: str = "") -> Cell:
    """A store's label and version, linked to its page."""
    return Cell(label, label, version, href=store_page(store))


# -- rankings ----------------------------------------------------------------------------------


def ranking_table(ranking: TermRanking, name: str = "") -> Table:
    """The answers on one set of terms."""
    question = ranking.question
    heads = (
        Column("store", "Store", numeric=False),
        *((Column("rank", "Rank"),) if is_ranked(question) else ()),
        *_columns(question),
        *(() if is_ranked(question) else (Column("verdict", "Verdict", numeric=False),)),
        *(() if question.among else (Column("repeats", "Repeats"),)),
        Column("setting", "Setting", numeric=False),
        _RUN,
    )
    rows = tuple(_place_row(question, place) for place in ranking.places)
    notes = [f"{ranking.like.conditions}."]
    if len({place.entry.run.id for place in ranking.places if place.rank or place.verdict}) > 1:
        notes.append(
            "These were measured in different runs, at different times: a change of the machine"
            " looks like one of a store."
        )
    return Table(
        name or f"{question.name}-{slug(ranking.like.title)}-{_sheet_mark(ranking)}",
        ranking.like.title, heads, rows, tuple(notes),
    )  # fmt: skip


def _sheet_mark(ranking: TermRanking) -> str:
    """A few letters that distinguish sheets with the same title."""
    return slug("|".join(f"{k}={v}" for k, v in ranking.like.terms)).rpartition("-")[2]


def _columns(question: Question) -> tuple[Column, ...]:
    metrics = all_metrics()
    found = [Column(name, title, numeric=False) for name, title in question.quiet]
    for name, title in question.shown:
        spread = metrics[name].unit != "1" or name.startswith(("qps", "recall"))
        found.append(Column.for_metric(metrics[name], title, spread=spread and name != "errors"))
    if question.against is not None:
        found.append(Column("ratio", question.against.title, "1", spread=True))
    if question.priced:
        found += [Column(key, title, unit) for key, title, unit in price_columns()]
    return tuple(found)


def _place_row(question: Question, place: RankedEntry) -> Row:
    entry = place.entry
    store = store_cell(entry.store, entry.label, entry.version)
    repeats = Cell(str(entry.repeats), entry.repeats, href=entry.address)
    head: tuple[Cell, ...] = (store,)
    tail: tuple[Cell, ...] = ()
    if is_ranked(question):
        head = (store, _rank(place))
    else:
        tail = (_promise_cell(entry) if question.among else _verdict_cell(place),)
    return Row(
        (
            *head,
            *entry.cells,
            *tail,
            *(() if question.among else (repeats,)),
            plain_cell(entry.setting),
            run_cell(entry.run),
        ),
        entry.tone,
    )


def is_ranked(question: Question) -> bool:
    """True if a question's answers have ranks, instead of a verdict each."""
    return question.against is None and not question.among


def _promise_cell(entry: StoreEntry) -> Cell:
    """Cell that shows whether a promise was kept."""
    broken, outages = entry.share or (0, 0)
    if entry.why:
        return Cell("not judged", "not judged", note=f"Not judged: {entry.why}", tone="absent")
    if broken:
        return Cell("broken", "broken", f"in {broken} of {outages}", tone="wrong")
    return Cell("kept", "kept", f"in {outages} of {outages}", tone="good")


def _rank(place: RankedEntry) -> Cell:
    entry = place.entry
    if place.rank is None:  # a row without figures has its reason beside them
        note = f"Not ranked: {entry.why}" if entry.tone == "ok" else ""
        return Cell(formatting.NOTHING, note=note, tone="absent")
    if not place.level:
        return plain_cell(place.rank)
    return Cell(f"{place.rank} =", place.rank, f"undecided or level with {len(place.level)}")


def _verdict_cell(place: RankedEntry) -> Cell:
    if place.verdict is None:
        note = place.entry.why or "there is no baseline with enough repeats"
        return Cell("not judged", "not judged", note=f"Not judged: {note}", tone="absent")
    word, tone = _WORDS[place.verdict.kind]
    return Cell(word, word, note=place.verdict.reason, tone=tone)


# -- stores and datasets -------------------------------------------------------------------------


def glance_table(name: str, title: str, glances: Sequence[Glance], *, of_store: bool) -> Table:
    """A table of rows at a glance: one store by dataset, or one dataset by store."""
    first = Column("sheet", "Dataset", numeric=False) if of_store else _STORE
    rows = []
    for one in glances[:MOST_ROWS]:
        if of_store:
            head = Cell(one.sheet, one.sheet, one.label, href=dataset_page(one.dataset))
        else:
            head = replace(store_cell(one.store, one.label), detail=one.head.detail)
        rows.append(Row((head, *one.cells, run_cell(one.run)), one.tone))
    return Table(name, title, (first, *GLANCE[1:], _RUN), tuple(rows), _omission(len(glances)))


def points_table(name: str, title: str, points: Sequence[FrontPoint]) -> Table:
    """Measured points on fronts, the newest runs first."""
    ordered = sorted(points, key=lambda p: (-p.run.started_s, p.run.id))
    rows = [
        Row((store_cell(p.store, p.label, p.version), *p.cells, run_cell(p.run)))
        for p in ordered[:MOST_ROWS]
    ]
    heads = (_STORE, *POINTS, _RUN)
    note = "Points that no other setting of the same store in the same run beats."
    return Table(name, title, heads, tuple(rows), (note, *_omission(len(points))))


def _omission(count: int) -> tuple[str, ...]:
    if count <= MOST_ROWS:
        return ()
    return (f"The newest {MOST_ROWS:,} of {count:,} rows; each run's page has its own.",)


def runs_table(name: str, results: Iterable[RunResult]) -> Table:
    """Runs, the newest first."""
    heads = (
        *columns("run", "date", trials=("Trials", "")),
        *columns("stores", "datasets", "experiments"),
        Column("machine", "Machine", numeric=False, minor=True),
    )
    rows = []
    for one in sort_by_date(results):
        assert one.facts is not None
        bad = ", ".join(f"{n} {status}" for status, n in one.counts if status != "ok")
        wrong = f"gate failed: {', '.join(one.wrong)}" if one.wrong else ""
        rows.append(
            Row.from_values(
                Cell(one.facts.name, one.facts.name, href=one.facts.address),
                day(one.facts.started_s),
                Cell(f"{one.trials:,}", one.trials, bad),
                Cell(", ".join(one.stores), ", ".join(one.stores), wrong),
                ", ".join(one.datasets),
                ", ".join(one.experiments),
                one.facts.machine,
            )
        )
    return Table(name, formatting.plural(len(rows), "run"), heads, tuple(rows))


def sort_by_date(results: Iterable[RunResult]) -> list[RunResult]:
    """The runs that could be read, newest first."""
    found = [one for one in results if one.facts is not None]
    return sorted(
        found, key=lambda one: (-(one.facts.started_s if one.facts else 0), one.source.id)
    )


def unread_table(results: Iterable[RunResult]) -> Table | None:
    """Table of the runs that could not be read, with the reasons."""
    rows = tuple(Row.from_values(one.source.name, one.why) for one in results if one.facts is None)
    if not rows:
        return None
    heads = (
        Column("run", "File or folder", numeric=False), Column("why", "Reason", numeric=False),
    )  # fmt: skip
    return Table("unread", f"{formatting.plural(len(rows), 'run')} not read", heads, rows)


def matrix_table(results: Sequence[RunResult]) -> Table:
    """Table of stores by datasets, with the number of runs that hold both."""
    counts: dict[tuple[str, str], int] = {}
    datasets: dict[str, int] = {}
    stores: dict[str, int] = {}
    for one in results:
        for dataset in one.datasets:
            datasets[dataset] = datasets.get(dataset, 0) + 1
        for store in one.stores:
            stores[store] = stores.get(store, 0) + 1
        measured = {(g.store, g.dataset) for g in one.glances}
        measured |= {(e.store, e.like.dataset) for e in one.entries}
        for pair in measured:
            counts[pair] = counts.get(pair, 0) + 1
    heads = (
        Column("store", "Store", numeric=False),
        *(Column(name, name) for name in sorted(datasets)),
    )
    rows = []
    for store in sorted(stores):
        cells = [Cell(store, store, href=store_page(store))]
        for dataset in sorted(datasets):
            count = counts.get((store, dataset))
            address = f"{dataset_page(dataset)}"
            cells.append(absent_cell() if count is None else Cell(str(count), count, href=address))
        rows.append(Row(tuple(cells)))
    note = "The number of runs that answer a question, or search, on these data."
    return Table("matrix", "Stores and datasets", heads, tuple(rows), (note,))


# -- versions ------------------------------------------------------------------------------------


def versions_table(
    name: str, title: str, question: Question, steps: Sequence[tuple[StoreEntry, Cell]]
) -> Table:
    """Table of one store on one set of terms over time. steps: each entry with its verdict."""
    heads = (
        *columns("date", "version", "vectrial"),
        *_columns(question),
        *columns(verdict="Against the run before", setting="Setting"),
        _RUN,
    )
    rows = tuple(
        Row.from_values(
            day(entry.run.started_s), entry.version or formatting.NOTHING, entry.run.vectrial,
            *entry.cells, verdict, entry.setting, run_cell(entry.run), tone=entry.tone,
        )
        for entry, verdict in steps
    )  # fmt: skip
    return Table(name, title, heads, rows)
