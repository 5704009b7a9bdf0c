"""Stores of one run in the order of their QPS at one recall, and which of them differ."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from vectrial.analysis.run_data import RunData
from vectrial.compare.cells import ComparedCell
from vectrial.compare.groups import Group, Values, groups_of
from vectrial.compare.judge import Verdict, judge, with_turn_evidence
from vectrial.model.results_schema import METRICS
from vectrial.model.trial import Series
from vectrial.stats.intervals import LEAST_REPEATS, Spread, spread_of
from vectrial.stats.verdict import THRESHOLD, VerdictKind
from vectrial.util import formatting

_QPS = METRICS["qps"]


@dataclass(frozen=True)
class RankedStore:
    """A store with its QPS at the recall by repeat, and the phases of these values."""

    name: str
    group: Group
    found: Values

    @property
    def qps(self) -> dict[int, float]:
        """QPS by repeat."""
        return {repeat: value for repeat, (value, _) in self.found.items()}

    @property
    def phases(self) -> dict[int, tuple[int, ...]]:
        """Ids of the phases by repeat."""
        return {repeat: ids for repeat, (_, ids) in self.found.items()}

    @property
    def median(self) -> float:
        """Median QPS over the repeats."""
        return self.spread.median

    @property
    def spread(self) -> Spread:
        """Median QPS with its range over the repeats."""
        return spread_of(list(self.qps.values()))


@dataclass(frozen=True)
class Ranking:
    """Stores, fastest first, and verdicts on pairs of them.

    verdicts: by the places of both, the faster first: the first store against every other one, and
        each against the next.
    """

    recall: float
    stores: tuple[RankedStore, ...]
    verdicts: Mapping[tuple[int, int], Verdict]


def rank(
    run: RunData, recall: float, clients: int = 1, among: Collection[str] | None = None
) -> Ranking:
    """Rank the stores of a run that reach a recall, by closed loops of `clients` clients.

    among: labels of the stores to rank; all unless given.

    A store's QPS is interpolated on the curve of each repeat at exactly this recall; if all its
    settings have a higher recall, the fastest one counts.
    """
    found = []
    for series, name in run.labels.items():
        if among is not None and name not in among:
            continue
        group = _searches(run, series, clients)
        values = _qps_at_least(group, recall) if group is not None else {}
        if group is not None and values:
            found.append(RankedStore(name, group, values))
    found.sort(key=lambda one: -one.median)
    pairs = list(dict.fromkeys(_pairs(len(found))))
    cells = [with_turn_evidence(_cell(found[i], found[j], recall), run, run) for i, j in pairs]
    verdicts = judge(cells, THRESHOLD) if cells else []
    return Ranking(recall, tuple(found), dict(zip(pairs, verdicts, strict=True)))


def _pairs(count: int) -> list[tuple[int, int]]:
    return [*((0, i) for i in range(1, count)), *itertools.pairwise(range(count))]


def _searches(run: RunData, series: Series, clients: int) -> Group | None:
    trials = [trial for trial in run.trials if trial.series == series]
    groups = (g for g in groups_of(run, trials) if g.is_search and g.has_metric(_QPS.name))
    return next(
        (g for g in groups if g.terms.get("clients", 1) == clients and not g.why_wrong), None
    )


def _qps_at_least(group: Group, recall: float) -> Values:
    """QPS by repeat; empty if the recall is not reached."""
    low, high = group.recall_range
    if high < recall:
        return {}
    if low >= recall:
        points = [point.metric_values(_QPS, judged=True) for point in group.curve]
        return max(points, key=_median)
    return group.values_at_recall(_QPS, recall)


def _median(values: Values) -> float:
    return statistics.median([value for value, _ in values.values()] or [0.0])


def _cell(first: RankedStore, other: RankedStore, recall: float) -> ComparedCell:
    """The cell that compares the first, as B, with the other, as A."""
    fewest = min(len(first.qps), len(other.qps))
    reason = f"{formatting.plural(fewest, 'repeat')}, and a verdict needs {LEAST_REPEATS}"
    return ComparedCell(
        f"{other.name} → {first.name}",
        first.group.experiment,
        first.group.phase,
        first.group.terms,
        _QPS,
        f"recall ≥ {recall:g}",
        a=other.qps,
        b=first.qps,
        phases_a=other.phases,
        phases_b=first.phases,
        few=reason if fewest < LEAST_REPEATS else "",
    )


def sentences(ranking: Ranking, unjudged: Sequence[str] = ()) -> list[str]:
    """Sentences on the decided and undecided places, from the fastest to the slowest.

    unjudged: names of stores with figures but without a verdict, for lack of repeats.
    """
    verdicts = ranking.verdicts
    needs = f"a verdict needs {LEAST_REPEATS} repeats"
    if not verdicts:
        if not unjudged:
            return ["There is one store alone: nothing to compare."]
        return [f"Nothing is decided: {needs} of two stores."]
    if all(verdict.kind is VerdictKind.NOT_COMPARABLE for verdict in verdicts.values()):
        return [f"Nothing is decided: {next(iter(verdicts.values())).reason}."]
    return _decided_sentences(ranking) + [f"{name}: not judged: {needs}." for name in unjudged]


def _decided_sentences(ranking: Ranking) -> list[str]:
    stores, verdicts = ranking.stores, ranking.verdicts
    said, level = [], True
    for at in range(1, len(stores)):
        pair = verdicts[at - 1, at]
        said.append(_sentence(stores, (at - 1, at), pair))
        if at > 1 and level:  # none before it is shown to differ: that says nothing of this one
            said.append(_sentence(stores, (0, at), verdicts[0, at]))
        level = level and pair.kind in (VerdictKind.TIE, VerdictKind.UNDECIDED)
    return said


def _sentence(stores: Sequence[RankedStore], pair: tuple[int, int], verdict: Verdict) -> str:
    first, other = (stores[at].name for at in pair)
    effect = verdict.effect
    if verdict.kind is VerdictKind.NOT_COMPARABLE or effect is None:
        return f"{first} and {other}: not compared: {verdict.reason}."
    if verdict.kind is VerdictKind.TIE:
        return f"{first} and {other} tie: they differ by less than {THRESHOLD:.0%}."
    if verdict.kind is VerdictKind.UNDECIDED:
        more = f"about {formatting.plural(verdict.more, 'more repeat')}" if verdict.more else ""
        reason = "; ".join(filter(None, (verdict.reason, more)))
        return f"{first} and {other}: undecided ({reason})."
    ratio, low, high = effect.ratio, effect.low, effect.high
    if verdict.kind is VerdictKind.WORSE:
        first, other, ratio, low, high = other, first, 1 / ratio, 1 / high, 1 / low
    interval = f"{formatting.number(low)}–{formatting.number(high)}"
    times = formatting.ratio(ratio)
    return f"{first} answers more searches than {other}: {times} ({interval})."
