"""Short answers: for each question the store that is shown to be the best, or all that may be the
best.

A single store is named only if its repeats show that it is better than every other store. That
claim needs no correction for the number of rivals: with the best chosen after the measurement, its
test against the next one keeps its level (Gutmann & Maymin 1987). Excluding a store from those that
may be the best does need a correction (Holm). See docs/method.md, "Repeats and order".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from vectrial.analysis import capacity
from vectrial.analysis.analysis import TARGETS, Sweep, by_facet
from vectrial.analysis.interference import disturbed_phases
from vectrial.analysis.run_data import Point, RunData
from vectrial.analysis.turns import TurnComparison, compare_points
from vectrial.document.blocks import Answer, recall_error_of, source_of
from vectrial.experiments.registry import all_metrics
from vectrial.model.phase import Role
from vectrial.model.trial import Series
from vectrial.stats.intervals import LEAST_REPEATS, Spread
from vectrial.stats.verdict import THRESHOLD, Decision, Evidence, VerdictKind, decide, weigh
from vectrial.util import formatting

_FIGURES_BELOW = "The tables below have the figures."
#: Largest number of stores that are named as possibly the best.
_NAMED = 3


def answers(run: RunData, found: Sequence[Sweep]) -> tuple[tuple[str, tuple[Answer, ...]], ...]:
    """The best store for each question, by dataset, or those that may be the best."""
    questions = _Questions(run, disturbed_phases(run))
    sheets: dict[str, list[Answer]] = defaultdict(list)
    for sweep in found:
        reads = sweep.facet.select(run.points_in_role(Role.OPERATION, "read"))
        loads = sweep.facet.select(run.points_in_role(Role.LOAD))
        sizes = sweep.facet.select(run.points_in_role(Role.SIZE))
        after = f" for {formatting.rows(sweep.facet.rows)}"
        cards = [
            questions.fastest(sweep),
            questions.best("Fastest read by id", reads, "latency_p50", " p50"),
            questions.best("Shortest time until ready", loads, "ready_s", after),
            questions.best("Smallest on disk", sizes, "disk_bytes", " after flush"),
        ]
        sheets[sweep.facet.title] += [card for card in cards if card is not None]
    for facet, points in by_facet(run.points_in_role(Role.CAPACITY), with_k=True):
        within: dict[str, list[Point]] = defaultdict(list)
        for point in points:
            within[capacity.limits(point.phases[0])].append(point)
        sheets[facet.title] += [questions.sustained(*one) for one in within.items()]
    return tuple((title, tuple(cards)) for title, cards in sheets.items() if cards)


@dataclass(frozen=True)
class _Candidates:
    """The points of one metric by series, best first, and the number of measured series."""

    metric: str
    points: Mapping[Series, Point]
    spreads: Mapping[Series, Spread]
    measured: int

    @property
    def first(self) -> Series:
        return next(iter(self.spreads))

    @property
    def rivals(self) -> list[Series]:
        return list(self.spreads)[1:]


@dataclass(frozen=True)
class _Questions:
    """The questions that a run answers. disturbed: ids of phases on a busy machine."""

    run: RunData
    disturbed: frozenset[int]

    def best(self, question: str, points: Sequence[Point], metric: str, what: str) -> Answer | None:
        """The answer to which store has the best value of a metric; None if none has a value."""
        found = _candidates(points, metric)
        unit = all_metrics()[metric].unit
        return self._answer(question, found, lambda v: formatting.measure(v, unit), what)

    def fastest(self, sweep: Sweep) -> Answer | None:
        """The answer to which store searches fastest at the lowest target of recall."""
        question = f"Fastest at recall ≥ {TARGETS[0]:.2f}"
        best = [p for s in sweep.series if (p := sweep.best(s, TARGETS[0])) is not None]
        found = replace(_candidates(best, "qps"), measured=len(sweep.series))
        if found.spreads:
            said = _search_terms_text(found.points[found.first])
            return self._answer(question, found, formatting.number, " QPS", said)
        reached = [
            (recall, point)
            for series in sweep.series
            for point in sweep.ranked(series)
            if (recall := point.value("recall_mean")) is not None
        ]
        if not reached:
            why = "Every measured figure is wrong, invalid or contradictory: see below."
            return Answer(question, "none", "no figure counts", why)
        most, point = max(reached, key=lambda pair: pair[0])
        source = source_of(point, metric="recall_mean")
        figure = formatting.recall(most)
        return Answer(question, "none reached it", figure, "highest measured recall", source=source)

    def sustained(self, limits: str, points: Sequence[Point]) -> Answer:
        """The answer to which store sustains the most within some limits."""
        question = "Highest sustained load"
        found = _candidates(points, "sustained_qps")
        least: dict[Series, float] = {}
        for point in points:
            if (rate := _confirmed_rate(point, found.spreads)) is not None:
                least[point.series] = max(rate, least.get(point.series, 0.0))
        labels = self.run.labels
        rates = [f"{labels[s]} at least {formatting.number(r)}/s" for s, r in least.items()]
        said = formatting.list_in_words(rates)
        if not found.spreads:
            why = f"Only a lower bound is known: {said}." if said else "No rate was confirmed."
            return Answer(question, "none", limits, f"{why} The reasons are below.")
        card = self._answer(question, found, lambda v: f"{formatting.number(v)}/s")
        assert card is not None
        rate = found.spreads[found.first].median
        if any(confirmed > rate for confirmed in least.values()):
            sentence = f"{labels[found.first]} sustains {formatting.number(rate)}/s"
            card = replace(card, answer="not known", figure=sentence, series=None)
        parts = (f"{limits}.", card.bound, f"Besides, {said}." if said else "")
        return replace(card, bound=" ".join(filter(None, parts)))

    def _answer(
        self,
        question: str,
        found: _Candidates,
        show: Callable[[float], str],
        what: str = "",
        remark: str = "",
    ) -> Answer | None:
        """The first candidate, or all that are not shown to be worse.

        show: formats a value. what: text after the answer's value. remark: remark on the first one,
            before the bounds of the claim.
        """
        if not found.spreads:
            return None
        labels, first = self.run.labels, found.first
        value = show(found.spreads[first].median)
        source = source_of(found.points[first], metric=found.metric)

        def card(bound: str) -> Answer:
            return Answer(question, labels[first], value + what, f"{remark}{bound}", first, source)

        if not found.rivals:
            return card(_no_rival_remark(found))
        pair = first, found.rivals[0]
        fewest = min(found.spreads[series].n for series in pair)
        family = self._evidence(found)
        if fewest < LEAST_REPEATS and found.rivals[0] not in family:
            few = f"only {formatting.plural(fewest, 'repeat')}"
            why = f"The order may be chance. {_FIGURES_BELOW}"
            return Answer(question, "undecided", few, why)
        alone = [decide([one], THRESHOLD)[0] for one in family.values()]
        if family and all(one.kind is VerdictKind.WORSE for one in alone):
            second = found.rivals[0]
            next_ = f"Next: {labels[second]}, {show(found.spreads[second].median)}."
            factor = self._factor(found, second)
            return card(
                " ".join(filter(None, [next_, factor, *_unjudged_sentence(labels, found, family)]))
            )
        decisions = dict(zip(family, decide([*family.values()], THRESHOLD), strict=True))
        level = [first, *(s for s, one in decisions.items() if one.kind is not VerdictKind.WORSE)]
        behind = [s for s, one in decisions.items() if one.kind is VerdictKind.WORSE]
        remark += _reason([decisions[series] for series in level[1:]])
        if behind:
            best = show(found.spreads[behind[0]].median)
            remark += f" Shown to be behind: {labels[behind[0]]}, {best}."
        names = [labels[series] for series in level]
        if len(names) > _NAMED:
            names[_NAMED:] = [f"{len(names) - _NAMED} more"]
        ends = sorted(found.spreads[series].median for series in level)
        low, high = show(ends[0]), show(ends[-1])
        return Answer(
            question,
            " or ".join(names),
            (low if low == high else f"{low} to {high}") + what,
            " ".join([remark, *_unjudged_sentence(labels, found, family)]),
            source=source,
        )

    def _evidence(self, found: _Candidates) -> dict[Series, Evidence]:
        """Evidence on each rival, as B, against the first, by series; none with too few repeats."""
        metric = all_metrics()[found.metric]
        bad = self.disturbed if metric.is_timed else frozenset()
        family = {}
        for series in found.rivals:
            if (paired := self._turn_comparison(found, series)) is not None:
                family[series] = paired.evidence(higher_is_better=metric.better == "higher")
                continue
            sides = [
                _values_by_repeat(found.points[s], found.metric, bad) for s in (found.first, series)
            ]
            (a, bad_a), (b, bad_b) = sides
            if min(len(a), len(b)) >= LEAST_REPEATS and min(*a.values(), *b.values()) > 0:
                family[series] = weigh(
                    a,
                    b,
                    bad_a,
                    bad_b,
                    higher_is_better=metric.better == "higher",
                    names=(self.run.labels[found.first], self.run.labels[series]),
                )
        return family

    def _turn_comparison(self, found: _Candidates, rival: Series) -> TurnComparison | None:
        """The comparison of the rival with the first, by their turns."""
        return compare_points(
            self.run, found.points[found.first], found.points[rival], found.metric
        )

    def _factor(self, found: _Candidates, second: Series) -> str:
        """The factor by which the first is ahead, if both took turns."""
        paired = self._turn_comparison(found, second)
        if paired is None:
            return ""
        ends = sorted((1 / paired.effect.ratio, 1 / paired.effect.low, 1 / paired.effect.high))
        if all_metrics()[found.metric].better != "higher":
            ends = sorted(1 / end for end in ends)
        return f"{ends[1]:.3g} times that ({ends[0]:.3g} to {ends[2]:.3g}, {paired.claim})."


def _unjudged_sentence(
    labels: Mapping[Series, str], found: _Candidates, family: Mapping[Series, Evidence]
) -> list[str]:
    """A sentence that names the rivals without evidence, if there are any."""
    names = [labels[series] for series in found.rivals if series not in family]
    return [f"Not judged, for lack of repeats: {formatting.list_in_words(names)}."] if names else []


def _candidates(points: Sequence[Point], metric: str) -> _Candidates:
    """The point with the best median of each series, among the points that count."""
    sign = -1 if all_metrics()[metric].better == "higher" else 1
    found: dict[Series, tuple[float, Spread, Point]] = {}
    for point in points:
        spread = point.spread(metric) if point.ranked else None
        if spread is None:
            continue
        key = sign * spread.median
        if point.series not in found or key < found[point.series][0]:
            found[point.series] = key, spread, point
    order = sorted(found, key=lambda series: found[series][0])
    return _Candidates(
        metric,
        {series: found[series][2] for series in order},
        {series: found[series][1] for series in order},
        len({point.series for point in points}),
    )


def _values_by_repeat(
    point: Point, metric: str, disturbed: frozenset[int]
) -> tuple[dict[int, float], list[int]]:
    """The values of a point by repeat, and which of the repeats were disturbed."""
    values, hit = {}, []
    for repeat, phase in enumerate(point.phases, 1):
        if (value := phase.value(metric)) is not None:
            values[repeat] = value
            hit += [repeat] if phase.phase_id in disturbed else []
    return values, hit


def _no_rival_remark(found: _Candidates) -> str:
    """Remark on an answer without a rival."""
    if found.measured > 1:
        return "The only one with such a figure."
    return "The only one measured."


def _reason(level: Sequence[Decision]) -> str:
    """Reason why no store of several is shown to be the best."""
    if all(one.kind is VerdictKind.TIE for one in level):
        return f"A tie: they differ by less than {THRESHOLD:.0%}."
    undecided = [one for one in level if one.kind is VerdictKind.UNDECIDED]
    disturbed = [one for one in undecided if one.disturbed]
    if disturbed:
        where = disturbed[0].reason.partition(", but ")[2]
        return f"Undecided: {where}. --remeasure-disturbed repeats that."
    if any(one.more is None for one in undecided):
        return "Undecided: more repeats than 100 would be needed."
    most = max(one.more or 0 for one in undecided)
    return f"Undecided: about {formatting.plural(most, 'more repeat')} would decide."


def _search_terms_text(point: Point) -> str:
    """Recall, p99 and clients of a search point, as text before the bounds of the claim."""
    clients = point.params.get("clients", point.value("concurrency"))
    reached = formatting.recall(point.value("recall_mean") or 0)
    at = [f"recall {reached}{recall_error_of(point)}"]
    if (p99 := point.value("latency_p99")) is not None:
        at.append(f"p99 {formatting.duration(p99)}")
    if isinstance(clients, int | float):
        at.append(formatting.plural(int(clients), "client"))
    return f"{', '.join(at)}. "


def _confirmed_rate(point: Point, spreads: Mapping[Series, Spread]) -> float | None:
    """Rate confirmed for a store whose greatest rate is unknown; None if there is none."""
    if point.state != "invalid":
        return None
    rates = [rate for p in point.phases if (rate := capacity.confirmed_rate(p)) is not None]
    known = spreads[point.series].median if point.series in spreads else 0.0
    return max((rate for rate in rates if rate > known), default=None)
