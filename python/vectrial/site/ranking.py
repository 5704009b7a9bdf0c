"""Ranks of entries: those that their repeats do not tell apart share one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from scipy import stats

from vectrial.compare.cells import ComparedCell
from vectrial.compare.judge import Kind, Verdict, judge
from vectrial.experiments.registry import all_metrics
from vectrial.model.results_schema import MetricName
from vectrial.site.entries import Entry, Like
from vectrial.site.questions import QUESTIONS, Question
from vectrial.stats.effects import ALPHA, holm

#: A difference below this share is a tie, as in `vectrial compare`.
THRESHOLD = 0.05
#: The metric of a priced question's values.
_PRICE = MetricName("price_per_million", "", "lower", "price of a million queries")


@dataclass(frozen=True)
class Place:
    """An entry's place. rank: 1 plus the number of entries shown to be better; None where it is
    not ranked. ties: labels of entries that it is not told apart from. verdict: against the
    baseline, where the question has one."""

    entry: Entry
    rank: int | None = None
    ties: tuple[str, ...] = ()
    verdict: Verdict | None = None


@dataclass(frozen=True)
class Ranking:
    """The answers on one set of terms. places: ranked ones first, then the others."""

    question: Question
    like: Like
    places: tuple[Place, ...]

    @property
    def first(self) -> tuple[Place, ...]:
        """Those of the first rank."""
        return tuple(place for place in self.places if place.rank == 1)

    @property
    def ranked(self) -> int:
        """How many have a rank or a verdict."""
        return sum(p.rank is not None or p.verdict is not None for p in self.places)


def rankings(question: Question, entries: Iterable[Entry]) -> list[Ranking]:
    """Every set of terms with its answers: those with the most of them first.

    Of a store that was measured in several runs on the same terms the newest run counts; of those
    that may be ranked where there is one.
    """
    grouped: dict[Like, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.question == question.name:
            grouped[entry.like].append(entry)
    # The same terms may be named with other conditions: terms decide.
    found = [_ranking(question, like, newest(own)) for like, own in grouped.items()]
    return sorted(found, key=lambda one: (-one.ranked, -len(one.places), one.like.title))


def newest(entries: Iterable[Entry]) -> list[Entry]:
    """Of each series that of the newest run."""
    last: dict[tuple[object, ...], Entry] = {}
    for entry in entries:
        key = entry.series, tuple(cell.text for cell in entry.cells[: _quiet_count(entry)])
        other = last.get(key)
        if other is None or _newness(other) < _newness(entry):
            last[key] = entry
    return list(last.values())


def _newness(entry: Entry) -> tuple[bool, float, str]:
    return not entry.why, entry.run.started_s, entry.run.id


def _quiet_count(entry: Entry) -> int:
    return next(len(q.quiet) for q in QUESTIONS if q.name == entry.question)


def _ranking(question: Question, like: Like, entries: Sequence[Entry]) -> Ranking:
    if question.against is not None:
        return Ranking(question, like, tuple(_against(question, entries)))
    metric = _PRICE if question.priced else all_metrics()[question.metric]
    able = [e for e in entries if not e.why]
    better = _better(question, metric, able)
    places = []
    for i, entry in enumerate(able):
        rank = 1 + sum(better[j, i] for j in range(len(able)) if j != i)
        ties = tuple(
            other.label
            for j, other in enumerate(able)
            if j != i and not better[i, j] and not better[j, i]
        )
        places.append(Place(entry, rank, ties))
    places.sort(key=lambda place: (place.rank or 0, _first(question, metric, place.entry)))
    rest = [Place(entry) for entry in entries if entry.why]
    rest.sort(key=lambda p: ({"ok": 0, "absent": 1}.get(p.entry.tone, 2), p.entry.label))
    return Ranking(question, like, (*places, *rest))


def _first(question: Question, metric: MetricName, entry: Entry) -> float:
    """What sorts entries of one rank: the best first."""
    if entry.share is not None:
        return entry.share[0] / max(1, entry.share[1])
    values = sorted(entry.values.values())
    middle = values[len(values) // 2] if values else 0.0
    return -middle if metric.better == "higher" else middle


def _better(
    question: Question, metric: MetricName, entries: Sequence[Entry]
) -> dict[tuple[int, int], bool]:
    """For each ordered pair, whether the first is shown to be better than the second."""
    pairs = list(combinations(range(len(entries)), 2))
    better = {(i, j): False for a, b in pairs for i, j in ((a, b), (b, a))}
    if question.among:
        return better | _better_share(entries, pairs)
    cells = [_cell(entries[i], entries[j], metric) for i, j in pairs]
    for (i, j), verdict in zip(pairs, judge(cells, THRESHOLD), strict=True):
        better[i, j] = verdict.kind is Kind.WORSE  # the second against the first
        better[j, i] = verdict.kind is Kind.BETTER
    return better


def _better_share(
    entries: Sequence[Entry], pairs: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], bool]:
    found: dict[tuple[int, int], bool] = {}
    shares = [entry.share or (0, 0) for entry in entries]
    tables = [[(c, n - c) for c, n in (shares[i], shares[j])] for i, j in pairs]
    adjusted = holm([float(stats.fisher_exact(table)[1]) for table in tables])
    for (i, j), p in zip(pairs, adjusted, strict=True):
        a, b = (c / n if n else 1.0 for c, n in (shares[i], shares[j]))
        found[i, j] = p <= ALPHA and a < b
        found[j, i] = p <= ALPHA and b < a
    return found


def _cell(a: Entry, b: Entry, metric: MetricName) -> ComparedCell:
    return ComparedCell(
        f"{a.label} → {b.label}", a.question, "", {}, metric, a=a.values, b=b.values
    )


def _against(question: Question, entries: Sequence[Entry]) -> list[Place]:
    """Each entry with its verdict against its own baseline, all of the sheet as one family."""
    metric = all_metrics()[question.metric]
    able = [entry for entry in entries if not entry.why and entry.base]
    cells = [
        ComparedCell(e.label, e.question, "", {}, metric, a=e.base, b=e.values) for e in able
    ]
    places = [
        Place(entry, verdict=verdict)
        for entry, verdict in zip(able, judge(cells, THRESHOLD), strict=True)
    ]
    rest = [Place(entry) for entry in entries if entry.why or not entry.base]
    return sorted([*places, *rest], key=lambda p: (p.entry.label, p.entry.setting))
