"""The pages of many runs: questions, stores, datasets, versions, and the front page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from vectrial.document.blocks import (
    Answer,
    Block,
    Cell,
    Column,
    Report,
    Row,
    Section,
    Table,
    Text,
    absent_cell,
)
from vectrial.stats.verdict import THRESHOLD, VerdictKind
from vectrial.util import formatting
from vectrial_web.site import tables
from vectrial_web.site.entries import StoreEntry
from vectrial_web.site.places import dataset_page, question_page
from vectrial_web.site.questions import QUESTIONS, Question
from vectrial_web.site.ranking import RankedEntry, TermRanking, ranking_figure, rankings
from vectrial_web.site.run_pages import RunResult

#: Sheets of a question that have their tables on its page, and of these a figure.
SHEETS, _DRAWN = 40, 3
#: Runs on the front page.
_NEWEST = 12


@dataclass(frozen=True)
class Site:
    """The data for the pages of many runs."""

    title: str
    results: tuple[RunResult, ...]

    @cached_property
    def entries(self) -> tuple[StoreEntry, ...]:
        """The answers of all runs."""
        return tuple(entry for one in self.results for entry in one.entries)

    @cached_property
    def rankings(self) -> dict[str, list[TermRanking]]:
        """Rankings by name of the question."""
        return {q.name: rankings(q, self.entries) for q in QUESTIONS}

    @cached_property
    def stores(self) -> tuple[str, ...]:
        """All stores, by name."""
        return tuple(sorted({store for one in self.results for store in one.stores}))

    @cached_property
    def datasets(self) -> tuple[str, ...]:
        """All datasets, by name."""
        return tuple(sorted({name for one in self.results for name in one.datasets}))

    def with_store(self, store: str) -> list[RunResult]:
        """The runs that hold a store."""
        return [one for one in self.results if store in one.stores]

    def with_dataset(self, dataset: str) -> list[RunResult]:
        """The runs that hold a dataset."""
        return [one for one in self.results if dataset in one.datasets]


# -- the front page ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Card:
    """A question on the front page. page: its address. sheets: sets of terms with answers. why: why
    nothing is ranked, if there are no answers."""

    question: str
    page: str
    answers: tuple[Answer, ...]
    sheets: int
    why: str


def front_page(site: Site) -> tuple[Report, list[Card]]:
    """The front page, and its questions."""
    read = [one for one in site.results if one.facts is not None]
    newest = tables.sort_by_date(read)[:_NEWEST]
    blocks: list[Block] = [tables.matrix_table(read)] if read else []
    sections = [
        Section("matrix", "Stores and datasets", "", tuple(blocks)),
        Section("newest", "Newest runs", "", (tables.runs_table("newest", newest),)),
    ]
    unread = tables.unread_table(site.results)
    if unread is not None:
        sections.append(Section("unread", "Not read", "", (unread,)))
    days = [tables.day(one.facts.started_s) for one in read if one.facts is not None]
    report = Report(
        site.title,
        "Vector databases and libraries, measured by Vectrial. Stores are ranked only where their"
        " repeats tell them apart, on the same data, load, machine and limits; every figure leads"
        " to its conditions and to the values behind it.",
        meta=(
            ("Runs", f"{len(read):,}"),
            ("Stores", f"{len(site.stores):,}"),
            ("Datasets", f"{len(site.datasets):,}"),
            ("Trials", f"{sum(one.trials for one in read):,}"),
            ("Measured", " to ".join(dict.fromkeys((min(days), max(days)))) if days else "—"),
        ),
        sections=tuple(s for s in sections if s.blocks),
    )
    return report, [_card(site, question) for question in QUESTIONS]


def _card(site: Site, question: Question) -> Card:
    found = site.rankings[question.name]
    seen: set[str] = set()
    first: list[TermRanking] = []
    more: list[TermRanking] = []
    for one in found:  # of different data, where there are
        (more if one.like.dataset in seen else first).append(one)
        seen.add(one.like.dataset)
    answers = [answer for one in (*first, *more) if (answer := _answer(one)) is not None][:3]
    reasons = [p.entry for one in found for p in one.places if p.entry.why]
    reasons.sort(key=lambda entry: entry.tone != "ok")
    why = reasons[0].why if reasons else question.empty
    return Card(question.title, question_page(question.name), tuple(answers), len(found), why)


def _answer(ranking: TermRanking) -> Answer | None:
    """The short answer of one sheet; None if nothing on it is ranked."""
    question, page = ranking.question, question_page(ranking.question.name)
    href = f"{page}#table-{tables.ranking_table(ranking).name}"
    if question.against is not None:
        judged = [place for place in ranking.places if place.verdict is not None]
        if not judged:
            return None
        ratios = [f"{p.entry.label}{_nodes(p.entry)} {p.entry.cells[-1].text}" for p in judged]
        kinds = [place.verdict.kind for place in judged if place.verdict is not None]
        words = {
            VerdictKind.BETTER: "faster",
            VerdictKind.TIE: "tie",
            VerdictKind.UNDECIDED: "undecided",
            VerdictKind.WORSE: "slower",
        }
        said = [f"{kinds.count(k)} {word}" for k, word in words.items() if kinds.count(k)]
        more = [f"{len(ratios) - 3} more"] if len(ratios) > 3 else []
        against = question.against.title[0].lower() + question.against.title[1:]
        listed = formatting.list_in_words([*ratios[:3], *more])
        return Answer(ranking.like.title, listed, ", ".join(said), against, href=href)
    if question.among:
        return _promise_answer(ranking, href)
    first = ranking.first
    if not first:
        return None
    names = formatting.list_in_words(list(dict.fromkeys(place.entry.label for place in first[:4])))
    if len(first) > 4:
        names = f"undecided among {formatting.plural(len(first), 'store')}"
    bound = "" if len(first) == 1 else "undecided between them"
    figure = _figure(question, first[0])
    if len(first) > 1 and question.metric == "qps" and not question.priced:
        lowest = first[-1].entry.cells[len(question.quiet)].text
        figure = figure if figure.startswith(f"{lowest} ") else f"{lowest} to {figure}"
    return Answer(ranking.like.title, names, figure, bound, href=href)


def _promise_answer(ranking: TermRanking, href: str) -> Answer | None:
    """Short answer that names the stores that kept every promise, and those that did not."""
    judged = [p.entry for p in ranking.places if not p.entry.why]
    if not judged:
        return None
    shares = [(entry.label, *(entry.share or (0, 0))) for entry in judged]
    kept = list(dict.fromkeys(label for label, broken, _ in shares if not broken))
    lost = [f"{label} {broken} of {outages}" for label, broken, outages in shares if broken]
    said = f"kept by {formatting.list_in_words(kept)}" if kept else "kept by none"
    return Answer(ranking.like.title, said, f"broken: {', '.join(dict.fromkeys(lost)) or 'none'}",
                  "", href=href)  # fmt: skip


def _nodes(entry: StoreEntry) -> str:
    nodes = entry.series.nodes
    return f" ({formatting.plural(nodes, 'node')})" if nodes > 1 else ""


def _figure(question: Question, place: RankedEntry) -> str:
    entry = place.entry
    cell = entry.cells[len(question.quiet)]
    if question.metric != "qps" or question.priced:
        return cell.text
    return f"{cell.text} QPS"


# -- questions -----------------------------------------------------------------------------------


def question_report(site: Site, question: Question) -> Report:
    """The page of a question: an overview of its sheets, then each with its answers."""
    found = site.rankings[question.name]
    if not found:
        return Report(question.title, question.lead, sections=(
            Section("answers", "", "", (Text((question.empty,)),)),))  # fmt: skip
    blocks: list[Block] = []
    drawn = 0
    for ranking in found[:SHEETS]:
        table = tables.ranking_table(ranking)
        if drawn < _DRAWN and (figure := ranking_figure(ranking, table.name)) is not None:
            blocks.append(figure)
            drawn += 1
        blocks.append(table)
    sections = (
        Section("overview", "Overview", "", (_overview(question, found),)),
        Section("answers", "Answers", _method_text(question), tuple(blocks)),
    )
    meta = (
        ("Sets of terms", f"{len(found):,}"),
        ("Answers", f"{sum(len(one.places) for one in found):,}"),
        ("Ranked" if tables.is_ranked(question) else "Judged",
         f"{sum(one.ranked for one in found):,}"),
    )  # fmt: skip
    return Report(question.title, question.lead, meta=meta, sections=sections,
                  stores=site.stores)  # fmt: skip


def _method_text(question: Question) -> str:
    if question.against is not None:
        return (
            f"Faster and slower: by {THRESHOLD:.0%} or more, and shown by the repeats (t of"
            " logarithms, Holm over the sheet). Tie: the whole 95 % interval lies within"
            f" {THRESHOLD:.0%}. Anything else is undecided. With fewer than three repeats, or a"
            " disturbed or invalid phase, there is no verdict."
        )
    if question.among:
        return "Stores that kept every promise stand side by side, in order of name."
    return (
        f"A rank is one more than the number of stores that are better by {THRESHOLD:.0%} or more"
        " and shown so by the repeats (t of logarithms, Holm over the sheet); = marks a shared"
        " rank: the order is undecided, or the difference too small. With fewer than three"
        " repeats, or a disturbed or invalid phase, an answer is shown and not ranked."
    )


def _overview(question: Question, found: Sequence[TermRanking]) -> Table:
    ranked = tables.is_ranked(question)
    heads = (
        Column("sheet", "Terms", numeric=False),
        Column("first", "First" if ranked else "Answer", numeric=False),
        Column("figure", "Figure", numeric=False),
        Column("ranked", "Ranked" if ranked else "Judged"),
        Column("answers", "Answers"),
    )
    rows = []
    for number, one in enumerate(found[: tables.MOST_ROWS]):
        answer = _answer(one)
        table = tables.ranking_table(one).name
        href = f"{question_page(question.name)}#table-{table}"
        if number >= SHEETS:
            href = dataset_page(one.like.dataset)
        rows.append(
            Row.from_values(
                Cell(one.like.title, one.like.title, href=href),
                answer.answer if answer else absent_cell("nothing on this sheet is ranked"),
                answer.figure if answer else absent_cell(),
                one.ranked,
                len(one.places),
            )
        )
    return Table(f"{question.name}-overview", "Every set of terms", heads, tuple(rows))
