"""Answers of one run to each question, as entries compact enough to keep those of many runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vectrial.analysis import resources
from vectrial.analysis.analysis import closed_loops, operating_point
from vectrial.analysis.interference import machine_interference
from vectrial.analysis.run_data import Point, RunData
from vectrial.analysis.trial import Trial
from vectrial.compare.groups import measured_terms
from vectrial.document.blocks import (
    Cell,
    Source,
    Tone,
    absent_cell,
    count_cell,
    plain_cell,
    source_of,
    spread_cell,
)
from vectrial.document.sheet import COUNTS
from vectrial.experiments.registry import all_metrics
from vectrial.model.phase import Role
from vectrial.model.trial import NODES, Series
from vectrial.report.sections.clusters import ratio_with_interval
from vectrial.report.sections.cost import PricedStore, amount, disk_of, memory_of, priced_stores
from vectrial.stats.intervals import LEAST_REPEATS
from vectrial.util import formatting
from vectrial_web.site.questions import (
    QUESTIONS,
    AnswerBaseline,
    Question,
    RankingTerms,
    column_terms_of,
    key_of,
    percent,
    ranking_terms_of,
)

_NO_PRICES = "the suite has no prices"
#: Addresses of values: the origin of a value → an address below the root of the site.
Address = Callable[[Source], str]


@dataclass(frozen=True)
class RunFacts:
    """Facts about a run that pages show. started_s: since 1970. machine: description, equal for the
    same processor, memory and kernel. address: address of its page below the root."""

    id: str
    title: str
    name: str
    started_s: float
    vectrial: str
    machine: str
    address: str


@dataclass(frozen=True)
class StoreEntry:
    """One store's answer in one run.

    question: name of the question. like: the terms. store, version, label: names of the store; the
        label has index and nodes. setting: build and search parameters. cells: cells of the
        question's own columns, in order. values: values of the ranked metric, by repeat. base: the
        baseline's values. share: (count, among). why: why it is not ranked; empty if it may be.
    """

    question: str
    run: RunFacts
    like: RankingTerms
    store: str
    version: str
    label: str
    series: Series
    setting: str
    cells: tuple[Cell, ...]
    values: Mapping[int, float]
    base: Mapping[int, float]
    share: tuple[int, int] | None
    repeats: int
    tone: Tone
    why: str
    address: str


def label_of(run: RunData, series: Series) -> str:
    """The store, with its index if the run has several of it: lane and nodes are terms."""
    kinds = {one.index_kind for one in run.labels if one.store == series.store}
    return f"{series.store} · {series.index_kind}" if len(kinds) > 1 else series.store


def link_cell(cell: Cell, address: Address) -> Cell:
    """The cell with its address in the site instead of its origin in the run."""
    if cell.source is None:
        return cell
    return replace(cell, source=None, href=address(cell.source))


def entries_of(
    run: RunData, facts: RunFacts, address: Address, questions: Sequence[Question] = QUESTIONS
) -> list[StoreEntry]:
    """Every answer of a run to every question."""
    reader = _Reader(run, facts, address)
    return [entry for question in questions for entry in reader.answers(question)]


class _Reader:
    """Takes answers from one run."""

    def __init__(self, run: RunData, facts: RunFacts, address: Address) -> None:
        self._run, self._facts, self._address = run, facts, address
        self._trials: dict[int, Trial] = {p.phase_id: t for t, p in run.phases()}
        self._rests: dict[tuple[str, int], tuple[Any, ...]] = {}
        self._looped = {id(point) for point in closed_loops(run)}
        signs = machine_interference(run, run.trials)
        self._disturbed = {phase.phase_id: sign.seen for sign in signs for _, phase in sign.where}

    def answers(self, question: Question) -> Iterator[StoreEntry]:
        """The best point for each series on each sheet, or the reason why there is none."""
        if question.priced and (found := list(self._priced_entries(question))):
            yield from found
            return
        grouped: dict[tuple[Any, ...], list[Point]] = defaultdict(list)
        for point in self._candidates(question):
            like = self._ranking_terms(question, point)
            grouped[like, point.series, column_terms_of(question, point)].append(point)
        for (like, _, _), points in grouped.items():
            entry = self._answer(question, like, points)
            if entry is not None:
                yield entry

    def _candidates(self, question: Question) -> Iterator[Point]:
        found = (
            self._run.points if question.role is None else self._run.points_in_role(question.role)
        )
        for point in found:
            if question.role == Role.SEARCH and id(point) not in self._looped:
                continue
            if point.role == Role.STEP or not point.phases or point.rows < question.rows:
                continue
            if any(str(point.params.get(k)) != v for k, v in question.only.items()):
                continue
            if all(point.value(name) is not None for name in question.needs):
                yield point

    # -- one answer ------------------------------------------------------------------------------

    def _answer(
        self, question: Question, terms: RankingTerms, points: list[Point]
    ) -> StoreEntry | None:
        metric = all_metrics()[question.metric]
        base = None
        if (against := question.against) is not None:
            base = self._baseline_point(question, points[0])
            if base is None or key_of(against.by, points[0]) == key_of(against.by, base):
                return None
        best = self._best_point(question, points)
        if best is None:
            return self._unranked_entry(question, terms, points)
        values = {} if question.among else self._values(best, metric.name)
        share = None
        if question.among:
            count, among = (
                sum(int(p.value(name) or 0) for p in best.phases)
                for name in (question.metric, question.among)
            )
            share = count, among
        why = self._why_unranked(question, best, values)
        if question.priced:  # such values are no prices
            why = "; ".join(filter(None, (_NO_PRICES, why)))
        if base is not None and not why:
            why = self._why_unranked(question, base, self._values(base, metric.name))
        entry = self._entry(question, terms, best, self._cells(question, best, base), why)
        base_values = {} if base is None else self._values(base, metric.name)
        return replace(entry, values=values, base=base_values, share=share)

    def _best_point(self, question: Question, points: Sequence[Point]) -> Point | None:
        able = [p for p in points if p.ranked and _meets_bounds(question, p)]
        metric = all_metrics()[question.metric]
        sign = 1 if metric.better == "higher" else -1
        return max(able, key=lambda p: sign * (p.value(metric.name) or 0.0), default=None)

    def _unranked_entry(
        self, question: Question, terms: RankingTerms, points: list[Point]
    ) -> StoreEntry:
        """The answer of a series without a point that counts."""
        state: Tone
        sound = [p for p in points if p.ranked]
        first = max(sound or points, key=lambda p: p.value("recall_mean") or 0.0)
        if sound:
            recall, p99 = first.value("recall_mean"), first.value("latency_p99")
            reached = [f"recall {formatting.recall(recall)}"] if recall is not None else []
            tail = first.why_missing("latency_p99") if p99 is None else formatting.duration(p99)
            reached += [f"p99 {tail}"]
            word, state = "not reached", "absent"
            why = f"not within the limits; highest recall: {', '.join(reached)}"
        elif first.state == "wrong":
            word, state = "wrong", "wrong"
            why = f"failed the gate: {first.why_unranked}"
        else:
            word, state, why = "invalid", "invalid", first.why_unranked
        source = source_of(first, metric="recall_mean")
        head = self._link(Cell(word, note=why, tone=state, source=source))
        count = len(question.shown) + (question.against is not None)
        count += len(_PRICES) if question.priced else 0
        cells = (head, *[absent_cell()] * (count - 1))
        return self._entry(question, terms, first, cells, why, state)

    def _cells(self, question: Question, point: Point, base: Point | None) -> tuple[Cell, ...]:
        cells = [self._metric_cell(point, name) for name, _ in question.shown]
        if base is not None:
            cells.append(self._link(ratio_with_interval(point, base, question.metric)))
        if question.priced:
            cells += self._resources(point)
        return tuple(cells)

    def _metric_cell(self, point: Point, name: str) -> Cell:
        if name in COUNTS or (all_metrics()[name].unit == "1" and name in _COUNTED):
            return self._link(count_cell(point, name))
        if name == "selectivity":
            value = point.value(name) or 0.0
            cell = plain_cell(value, percent(value))
            return self._link(replace(cell, source=source_of(point, metric=name)))
        unit = "1" if name == "qps" else all_metrics()[name].unit  # the heading says it
        return self._link(spread_cell(point, name, unit))

    def _link(self, cell: Cell) -> Cell:
        return link_cell(cell, self._address)

    def _entry(
        self,
        question: Question,
        terms: RankingTerms,
        point: Point,
        cells: tuple[Cell, ...],
        why: str,
        tone: Tone = "ok",
    ) -> StoreEntry:
        trial = self._trials[point.phases[0].phase_id]
        quiet = tuple(plain_cell(one) for one in column_terms_of(question, point))
        label = label_of(self._run, point.series)
        setting = operating_point(point, without=(*_NOT_SETTINGS, *dict(terms.terms)))
        return StoreEntry(
            question.name, self._facts, terms, point.series.store, trial.store_version or "", label,
            point.series, setting, (*quiet, *cells), {}, {}, None, point.repeats, tone, why,
            self._address(source_of(point, metric=question.metric)),
        )  # fmt: skip

    def _ranking_terms(self, question: Question, point: Point) -> RankingTerms:
        return ranking_terms_of(self._run, self._trials[point.phases[0].phase_id], question, point)

    # -- baselines -------------------------------------------------------------------------------

    def _baseline_point(self, question: Question, point: Point) -> Point | None:
        """The best point of the same store, index, load and run, except for the varied terms."""
        against = question.against
        assert against is not None
        own = self._common_terms(against, point)
        same = [p for p in self._candidates(question) if self._common_terms(against, p) == own]
        keys = {key_of(against.by, p) for p in same}
        if len(keys) < 2:
            return None
        key = max(keys) if against.highest else min(keys)
        if against.limit is not None and key != against.limit:
            return None
        return self._best_point(question, [p for p in same if key_of(against.by, p) == key])

    def _common_terms(self, baseline: AnswerBaseline, point: Point) -> tuple[Any, ...]:
        """The terms that a point and its baseline have in common."""
        key = baseline.by, point.phases[0].phase_id
        if key not in self._rests:
            trial = self._trials[point.phases[0].phase_id]
            terms = measured_terms(self._run, trial, {**trial.params, **point.params})
            fixed = {k: str(v) for k, v in terms.items() if k not in baseline.varies}
            several = NODES in baseline.varies
            series = replace(point.series, nodes=0) if several else point.series
            arm = None if several else point.params.get("payload_index")
            self._rests[key] = (
                series,
                point.experiment,
                point.rows,
                arm,
                tuple(sorted(fixed.items())),
            )
        return self._rests[key]

    # -- what may be ranked ----------------------------------------------------------------------

    def _values(self, point: Point, metric: str) -> dict[int, float]:
        """The metric by repeat."""
        found = {self._trials[p.phase_id].repeat: p.metrics.get(metric) for p in point.phases}
        return {r: v.value for r, v in found.items() if v and v.valid and v.value is not None}

    def _why_unranked(self, question: Question, point: Point, values: Mapping[int, float]) -> str:
        """Reason why a point that counts is not ranked; empty if it can be ranked."""
        seen = dict.fromkeys(
            self._disturbed[p.phase_id] for p in point.phases if p.phase_id in self._disturbed
        )
        if seen:
            return f"disturbed: {'; '.join(seen)}"
        if point.reason:
            return point.reason
        if not question.among and len(values) < LEAST_REPEATS:
            return f"{formatting.plural(len(values), 'repeat')}: a rank needs {LEAST_REPEATS}"
        return ""

    # -- prices ----------------------------------------------------------------------------------

    def _priced_entries(self, question: Question) -> Iterator[StoreEntry]:
        for one in priced_stores(self._run):
            point = one.point
            if point is None or point.rows < question.rows:
                continue
            like = self._ranking_terms(question, point)
            prices = f"Prices of {one.prices.dated} in {one.prices.currency}"
            terms = (*like.terms, ("prices", str(one.prices)))
            like = replace(like, conditions=f"{like.conditions}. {prices}", terms=terms)
            rates = self._values(point, one.basis.metric)
            values = {r: v for r, q in rates.items() if (v := one.price_of_million(q)) is not None}
            cells = (
                *(self._metric_cell(point, name) for name, _ in question.shown),
                *self._price_cells(one),
            )
            why = self._why_unranked(question, point, values)
            if one.due is None:
                why = "its resources are not known"
            yield replace(self._entry(question, like, point, cells, why), values=values)

    def _price_cells(self, priced: PricedStore) -> tuple[Cell, ...]:
        due = priced.due
        return (
            priced.processors,
            self._link(priced.memory),
            self._link(priced.disk),
            amount(None if due is None else due.per_million),
            amount(None if due is None else due.month),
        )

    def _resources(self, point: Point) -> tuple[Cell, ...]:
        """Resources that a store used, for a suite without prices."""
        count = resources.processors(self._run, point.series)
        none = absent_cell(_NO_PRICES)
        return (
            absent_cell() if count is None else plain_cell(count, f"{count:g}"),
            self._link(memory_of(self._run, point)),
            self._link(disk_of(self._run, point)),
            none,
            none,
        )


#: Metrics that are counts, beside `COUNTS`.
_COUNTED = frozenset({"outages", "broken_outages", "lost_rows", "unanswered"})
#: Parameters that are no settings of an answer: results, or terms that its table names.
_NOT_SETTINGS = (
    "k", "clients", "rows", "loop", "rate", "arrivals", "verdict", "nodes", "selectivity", "filter",
    "predicate", "outage", "durability", "batch_rows",
)  # fmt: skip
#: Columns of a priced question after those of its metrics: (key, heading, unit).
_PRICES = (
    ("processors", "CPUs", "1"),
    ("memory", "Memory", "B"),
    ("disk", "Disk", "B"),
    ("million", "Per million queries", ""),
    ("month", "Per month", ""),
)


def price_columns() -> tuple[tuple[str, str, str], ...]:
    """Columns of a priced question: key, heading and unit."""
    return _PRICES


def _meets_bounds(question: Question, point: Point) -> bool:
    def value(name: str) -> float:
        found = point.value(name)
        return float("nan") if found is None else found

    return all(value(n) >= least for n, least in question.at_least.items()) and all(
        value(n) <= most for n, most in question.at_most.items()
    )
