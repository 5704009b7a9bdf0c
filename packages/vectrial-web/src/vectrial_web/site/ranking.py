"""Ranks of entries: those that their repeats do not tell apart share one; and their chart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from vectrial.compare.cells import ComparedCell
from vectrial.compare.judge import Verdict, judge
from vectrial.document.blocks import Figure
from vectrial.document.charts.theme import chart_of, description, finish_chart, ink, plot_width
from vectrial.document.charts.vegalite import Settings, channel, layer
from vectrial.experiments.registry import all_metrics
from vectrial.model.results_schema import MetricName
from vectrial.stats.intervals import spread_of
from vectrial.stats.verdict import THRESHOLD, VerdictKind
from vectrial.util import formatting
from vectrial_web.site.entries import StoreEntry
from vectrial_web.site.questions import QUESTIONS, Question, RankingTerms

#: Terms that need no name before them.
_PLAIN = ("machine", "limits", "hosts")
#: The metric of a priced question's values.
_PRICE = MetricName("price_per_million", "", "lower", "price of a million queries")


@dataclass(frozen=True)
class RankedEntry:
    """An entry's place. rank: 1 plus the number of entries shown to be better; None if it is not
    ranked. level: labels of entries that are shown to be neither better nor worse. verdict: verdict
    against the baseline, if the question has one."""

    entry: StoreEntry
    rank: int | None = None
    level: tuple[str, ...] = ()
    verdict: Verdict | None = None


@dataclass(frozen=True)
class TermRanking:
    """The answers on one set of terms. places: ranked ones first, then the others."""

    question: Question
    like: RankingTerms
    places: tuple[RankedEntry, ...]

    @property
    def first(self) -> tuple[RankedEntry, ...]:
        """The places of the first rank."""
        return tuple(place for place in self.places if place.rank == 1)

    @property
    def ranked(self) -> int:
        """Number of places with a rank or a verdict."""
        if self.question.among:
            return sum(not place.entry.why for place in self.places)
        return sum(p.rank is not None or p.verdict is not None for p in self.places)


def rankings(question: Question, entries: Iterable[StoreEntry]) -> list[TermRanking]:
    """Every set of terms with its answers, most answers first.

    If a store was measured in several runs on the same terms, the newest run counts, or the newest
    that may be ranked if there is one.
    """
    grouped: dict[RankingTerms, list[StoreEntry]] = defaultdict(list)
    for entry in entries:
        if entry.question == question.name:
            grouped[entry.like].append(entry)
    found = [_ranking(question, like, newest_entries(own)) for like, own in grouped.items()]
    found.sort(key=lambda one: (-one.ranked, -len(one.places), one.like.title))
    return _with_distinct_titles(found)


def _with_distinct_titles(found: Sequence[TermRanking]) -> list[TermRanking]:
    """The rankings, with differing terms added to titles that several of them share."""
    titled: dict[str, list[TermRanking]] = defaultdict(list)
    for one in found:
        titled[one.like.title].append(one)

    def title(one: TermRanking) -> str:
        terms = dict(one.like.terms)
        others = [dict(other.like.terms) for other in titled[one.like.title]]
        names = [n for n in terms if len({other.get(n) for other in others}) > 1]
        more = [terms[n] if n in _PLAIN else f"{n.replace('_', ' ')} {terms[n]}" for n in names]
        return " · ".join([one.like.title, *(text[:60] for text in more)])

    return [replace(one, like=replace(one.like, title=title(one))) for one in found]


def newest_entries(entries: Iterable[StoreEntry]) -> list[StoreEntry]:
    """The newest run's entry of each series."""
    last: dict[tuple[object, ...], StoreEntry] = {}
    for entry in entries:
        key = entry.series, tuple(cell.text for cell in entry.cells[: _column_term_count(entry)])
        other = last.get(key)
        if other is None or _recency_key(other) < _recency_key(entry):
            last[key] = entry
    return list(last.values())


def _recency_key(entry: StoreEntry) -> tuple[bool, float, str]:
    return not entry.why, entry.run.started_s, entry.run.id


def _column_term_count(entry: StoreEntry) -> int:
    return next(len(q.quiet) for q in QUESTIONS if q.name == entry.question)


def _ranking(question: Question, terms: RankingTerms, entries: Sequence[StoreEntry]) -> TermRanking:
    if question.against is not None:
        return TermRanking(question, terms, tuple(_verdicts_against_baseline(question, entries)))
    if question.among:
        return TermRanking(question, terms, tuple(_sort_by_broken_share(entries)))
    metric = _PRICE if question.priced else all_metrics()[question.metric]
    able = [e for e in entries if not e.why]
    better = _better_pairs(metric, able)
    places = []
    for i, entry in enumerate(able):
        rank = 1 + sum(better[j, i] for j in range(len(able)) if j != i)
        level = tuple(
            other.label
            for j, other in enumerate(able)
            if j != i and not better[i, j] and not better[j, i]
        )
        places.append(RankedEntry(entry, rank, level))
    places.sort(key=lambda place: (place.rank or 0, _rank_sort_key(metric, place.entry)))
    rest = [RankedEntry(entry) for entry in entries if entry.why]
    rest.sort(key=lambda p: ({"ok": 0, "absent": 1}.get(p.entry.tone, 2), p.entry.label))
    return TermRanking(question, terms, (*places, *rest))


def _sort_by_broken_share(entries: Sequence[StoreEntry]) -> list[RankedEntry]:
    """Entries that kept every promise first, tied; then the others by their share of broken
    ones."""

    def broken(entry: StoreEntry) -> float:
        count, among = entry.share or (0, 0)
        return count / max(1, among)

    ordered = sorted(entries, key=lambda e: (bool(e.why), broken(e), e.label))
    return [RankedEntry(entry) for entry in ordered]


def _rank_sort_key(metric: MetricName, entry: StoreEntry) -> float:
    """Sort key for entries of one rank, best first."""
    values = sorted(entry.values.values())
    middle = values[len(values) // 2] if values else 0.0
    return -middle if metric.better == "higher" else middle


def _better_pairs(metric: MetricName, entries: Sequence[StoreEntry]) -> dict[tuple[int, int], bool]:
    """For each ordered pair, whether the first is shown to be better than the second."""
    pairs = list(combinations(range(len(entries)), 2))
    better = {(i, j): False for a, b in pairs for i, j in ((a, b), (b, a))}
    cells = [_cell(entries[i], entries[j], metric) for i, j in pairs]
    for (i, j), verdict in zip(pairs, judge(cells, THRESHOLD), strict=True):
        better[i, j] = verdict.kind is VerdictKind.WORSE  # the second against the first
        better[j, i] = verdict.kind is VerdictKind.BETTER
    return better


def _cell(a: StoreEntry, b: StoreEntry, metric: MetricName) -> ComparedCell:
    return ComparedCell(
        f"{a.label} → {b.label}", a.question, "", {}, metric, a=a.values, b=b.values
    )


def _verdicts_against_baseline(
    question: Question, entries: Sequence[StoreEntry]
) -> list[RankedEntry]:
    """Each entry with its verdict against its own baseline; the entries are one family."""
    metric = all_metrics()[question.metric]
    able = [entry for entry in entries if not entry.why and entry.base]
    cells = [ComparedCell(e.label, e.question, "", {}, metric, a=e.base, b=e.values) for e in able]
    places = [
        RankedEntry(entry, verdict=verdict)
        for entry, verdict in zip(able, judge(cells, THRESHOLD), strict=True)
    ]
    rest = [RankedEntry(entry) for entry in entries if entry.why or not entry.base]
    return sorted([*places, *rest], key=lambda p: (p.entry.label, p.entry.setting))


#: Fewer answers need no picture; more do not fit one.
_FEWEST_DRAWN, _MOST_DRAWN = 3, 24


def ranking_figure(ranking: TermRanking, name: str) -> Figure | None:
    """Figure of a sheet's ranked answers with their intervals; None if there are few, or if they
    are not values of one metric."""
    question = ranking.question
    ranked = [p for p in ranking.places if p.rank is not None and p.entry.values]
    if question.among or question.priced or not _FEWEST_DRAWN <= len(ranked) <= _MOST_DRAWN:
        return None
    metric = all_metrics()[question.metric]
    rows: list[dict[str, Any]] = []
    for place in ranked:
        spread = spread_of(list(place.entry.values.values()))
        rows.append(
            {
                "what": f"{place.rank}{' =' if place.level else ''}  {place.entry.label}",
                "value": spread.median,
                "low": spread.low,
                "high": spread.high,
                "description": description(
                    (place.entry.label, ""),
                    ("rank", str(place.rank)),
                    ("QPS", formatting.number(spread.median)),
                    ("from", formatting.number(spread.low)),
                    ("to", formatting.number(spread.high)),
                    ("undecided or level with", ", ".join(place.level)),
                ),
            }
        )

    def spec(width: int, with_legend: bool) -> Mapping[str, Any]:
        scale = Settings(type="log", nice=False, padding=16)
        base = chart_of(rows).encode(
            y=channel("what:N", title=None, sort=[row["what"] for row in rows])
        )
        axis = Settings(format="~s", tickCount=5 if width >= 480 else 3)
        chart = layer(
            base.mark("rule", strokeWidth=2, color=ink("step2"), aria=False).encode(
                x=channel(
                    "low:Q", scale=scale, title=f"{metric.title or metric.name} (log)", axis=axis
                ),
                x2="high:Q",
            ),
            base.mark("point", size=80, filled=True, opacity=1, color=ink("step1")).encode(
                x=channel("value:Q", scale=scale), description="description:N"
            ),
        )
        return finish_chart(chart, plot_width(width), max(60, 26 * len(rows)))

    return Figure(
        f"figure-{name}",
        f"{question.title}: {ranking.like.title}",
        "Median and spread of the repeats of each answer. The number before a name is its rank; ="
        " marks a shared rank.",
        f"{question.title} on {ranking.like.title}: "
        + "; ".join(f"rank {p.rank}: {p.entry.label}" for p in ranked),
        spec,
    )
