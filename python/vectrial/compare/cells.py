"""Cells: values of both sides for one metric, or the reason why there are none."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vectrial.analysis.turns import TurnComparison
from vectrial.compare.groups import (
    JUDGED,
    NOT_RECORDED,
    TRIAL_TERMS,
    Group,
    RepeatedPhase,
    Values,
    groups_of,
    terms_of,
)
from vectrial.compare.sides import ComparedStore
from vectrial.model.lane import Lane
from vectrial.model.results_schema import MetricName
from vectrial.stats.intervals import LEAST_REPEATS
from vectrial.util import formatting

#: Default recalls at which curves are compared.
TARGETS = (0.9, 0.95, 0.99)
#: Points of both sides whose recall is at most so far apart are at the same recall.
RECALL_TOLERANCE = 0.005
#: The answer of `capacity`. Its other figures are those of a load of its own.
_ANSWER = "sustained_qps"
#: Metrics of the quality of answers, which are not compared at equal recall.
_QUALITIES = ("recall", "fusion_agreement", "ndcg")


@dataclass(frozen=True)
class ComparedCell:
    """The repeats of both sides for one metric, or the reason why they are not compared.

    metric: None if the reason applies to all. at: "recall 0.95", or what distinguishes the point
        from others. terms: see `groups`. side: "a" or "b" if only that side has the cell. a, b:
        value by repeat; empty if there is a reason. phases_a, phases_b: ids of the phases of the
        values. recall: recall at which values were interpolated between these phases; None if they
        were measured at it.
    notes: remarks for the reader. in_turns: repeat i of both was measured in one round.
    pace_a, pace_b: by repeat, the client's processor time per answer if that is the same work on
        both sides; otherwise empty.
    paired: B relative to A by their turns, if they took some. few: why there are too few repeats,
        if turns do not say more.
    """

    subject: str
    experiment: str
    phase: str
    terms: Mapping[str, Any]
    metric: MetricName | None = None
    at: str = ""
    a: Mapping[int, float] = field(default_factory=dict)
    b: Mapping[int, float] = field(default_factory=dict)
    phases_a: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    phases_b: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    recall: float | None = None
    reason: str = ""
    notes: tuple[str, ...] = ()
    in_turns: bool = False
    pace_a: Mapping[int, float] = field(default_factory=dict)
    pace_b: Mapping[int, float] = field(default_factory=dict)
    side: str = ""
    paired: TurnComparison | None = None
    few: str = ""


@dataclass(frozen=True)
class CompareOptions:
    """Options of a comparison. experiments: only these; empty: all. recalls: empty: `TARGETS`."""

    metrics: tuple[MetricName, ...]
    recalls: tuple[float, ...] = ()
    experiments: tuple[str, ...] = ()


def cells_of(subject: ComparedStore, options: CompareOptions) -> list[ComparedCell]:
    """Every cell of a subject: each group of A at each metric, and the groups that only B has."""
    ours = _select_groups(groups_of(subject.run_a, subject.a), options)
    theirs = _select_groups(groups_of(subject.run_b, subject.b), options)
    cells: list[ComparedCell] = []
    met: set[int] = set()
    for group in ours:
        twin = _matching_group(group, theirs)
        if twin is None:
            cells.append(_one_sided_cell(subject, group, theirs, "A"))
            twin = _nearest_group(group, theirs)
        else:
            cells += _cells_of_pair(subject, group, twin, options)
        met.add(id(twin))
    for group in theirs:
        if id(group) in met:
            continue
        twin = _matching_group(group, ours)
        if twin is None:
            cells.append(_one_sided_cell(subject, group, ours, "B"))
        else:  # one that left no phase stands for all that it would have had
            cells += _cells_of_pair(subject, twin, group, options)
    return cells


def _select_groups(groups: Sequence[Group], options: CompareOptions) -> list[Group]:
    """The groups of the requested experiments that hold one of the metrics, or nothing at all."""
    return [
        g
        for g in groups
        if (not options.experiments or g.experiment in options.experiments)
        and (not g.points or any(_has_metric(g, m) for m in options.metrics))
    ]


def _has_metric(group: Group, metric: MetricName) -> bool:
    if group.has_metric(_ANSWER):
        return metric.name == _ANSWER
    # In an open loop the rate is what was offered: it says nothing of the store.
    given = metric.name == "qps" and group.terms.get("loop") == "open"
    return group.has_metric(metric.name) and not given


def _matching_group(group: Group, others: Sequence[Group]) -> Group | None:
    """The first of the other side's groups on equal terms."""
    return next((one for one in others if _is_same_work(group, one)), None)


def _is_same_work(a: Group, b: Group) -> bool:
    alike = a.experiment == b.experiment and (a.phase == b.phase or not (a.phase and b.phase))
    return alike and not a.differing_terms(b)


def _nearest_group(group: Group, others: Sequence[Group]) -> Group | None:
    """The other side's group in the same phase that differs in the fewest terms."""
    able = [
        g
        for g in others
        if g.experiment == group.experiment and (g.phase == group.phase or not g.phase)
    ]
    return min(able, key=lambda g: len(group.differing_terms(g)), default=None)


def _one_sided_cell(
    subject: ComparedStore, group: Group, others: Sequence[Group], side: str
) -> ComparedCell:
    """The cell of a group that only one side has, with the terms that differ."""
    missing = "B" if side == "A" else "A"
    nearest = _nearest_group(group, others)
    if not group.points:
        reasons = [f"{side}: {group.lost[0]}"]
    elif nearest is None:
        reasons = [f"not measured in {missing}"]
    else:
        reasons = [
            _difference(term, group, nearest, side) for term in group.differing_terms(nearest)
        ]
    if nearest is not None and nearest.lost:
        reasons.append(f"{missing}: {nearest.lost[0]}")
    elif nearest is None and (why := _failure(group.experiment, others)):
        reasons.append(f"{missing}: {why}")
    return ComparedCell(
        subject.title,
        group.experiment,
        group.phase,
        group.terms,
        reason="; ".join(reasons),
        side=side.lower(),
    )


def _failure(experiment: str, groups: Sequence[Group]) -> str | None:
    """Reason why a side's trials of an experiment ended before all their phases were recorded."""
    faults = (fault for g in groups if g.experiment == experiment for fault in g.faults)
    return next((fault for fault in faults if fault.startswith("failed")), None)


def _difference(term: str, group: Group, nearest: Group, side: str) -> str:
    pair = group.terms.get(term), nearest.terms.get(term)
    a, b = (_term_text(term, value) for value in (pair if side == "A" else pair[::-1]))
    if term == "data":
        return "different data under the same name"
    return f"different {terms_of(group.experiment)[term]}: {a} in A, {b} in B"


def _term_text(term: str, value: Any) -> str:
    if value is None:
        return "none"
    if term == "rate":
        return f"{value:g}/s"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _cells_of_pair(
    subject: ComparedStore, a: Group, b: Group, options: CompareOptions
) -> list[ComparedCell]:
    """The cells of two groups on equal terms."""
    terms = a.terms if a.points else b.terms
    base = ComparedCell(
        subject.title, a.experiment, a.phase or b.phase, terms, in_turns=subject.in_turns
    )
    if reason := _why_unfit(a, b):
        return [replace(base, reason=reason)]
    notes = tuple(
        f"{side}: left out: {fault}" for side, g in (("A", a), ("B", b)) for fault in g.faults
    )
    base = replace(base, notes=notes)
    same_work = subject.is_same_work and a.terms.get("lane") == Lane.NATIVE
    metrics = [m for m in options.metrics if _has_metric(a, m) or _has_metric(b, m)]
    judged = a.is_search or b.is_search
    along = [m for m in metrics if judged and not m.name.startswith((*_QUALITIES, _ANSWER))]
    recalls = _common_recalls(a, b, options.recalls) if along else []
    cells = [replace(base, reason=recalls)] if isinstance(recalls, str) else []
    for metric in metrics:
        at = replace(base, metric=metric)
        if same_work and metric.is_timed:
            at = replace(at, pace_a=_pace(a.trusted_points), pace_b=_pace(b.trusted_points))
        if reason := _why_lacking(a, b, metric):
            cells.append(replace(at, reason=reason))
        elif metric in along and recalls:
            if not isinstance(recalls, str):
                cells += [_cell_at_recall(at, a, b, recall) for recall in recalls]
        else:
            cells += _cells_at_points(at, a, b, equal_recall=metric in along)
    return cells


def _why_unfit(a: Group, b: Group) -> str:
    """Reason why nothing in one of the two groups may be compared; empty if there is none."""
    for side, group in (("A", a), ("B", b)):
        if group.why_wrong:
            return f"{side}: {group.why_wrong}"
        if not group.trusted_points:
            return f"{side}: {(group.faults or ['nothing was measured'])[0]}"
    return ""


def _why_lacking(a: Group, b: Group, metric: MetricName) -> str:
    for side, group in (("A", a), ("B", b)):
        if not any(point.values(metric.name) for point in group.trusted_points):
            return f"{side} has no {metric.name}: {group.why_missing(metric.name)}"
    return ""


def _cell_at_recall(cell: ComparedCell, a: Group, b: Group, recall: float) -> ComparedCell:
    """The cell at one recall, on each repeat's own curve."""
    assert cell.metric is not None
    at = replace(cell, at=f"recall {formatting.recall(recall).rstrip('0').rstrip('.')}")
    reach_a, reach_b = a.recall_range, b.recall_range
    if not max(reach_a[0], reach_b[0]) <= recall <= min(reach_a[1], reach_b[1]):
        reason = f"not reached by both: A {_range(reach_a)}, B {_range(reach_b)}"
        return replace(at, reason=reason)
    found = a.values_at_recall(cell.metric, recall), b.values_at_recall(cell.metric, recall)
    return _check_repeats(_curve_cell(replace(at, recall=recall), *found), a.curve, b.curve)


def _cells_at_points(
    cell: ComparedCell, a: Group, b: Group, *, equal_recall: bool
) -> list[ComparedCell]:
    """The cells of pairs of points: those with equal settings, or each side's only point."""
    assert cell.metric is not None
    pairs = [(p, q) for p in a.trusted_points for q in b.trusted_points if p.setting == q.setting]
    if not pairs and len(a.trusted_points) == len(b.trusted_points) == 1:
        pairs = [(a.trusted_points[0], b.trusted_points[0])]
    if not pairs:
        reason = f"no equal settings: {len(a.trusted_points)} in A and {len(b.trusted_points)} in B"
        return [replace(cell, reason=reason)]
    metric, cells = cell.metric, []
    for p, q in pairs:
        at = replace(cell, at=_setting(p, [one for one, _ in pairs]))
        if equal_recall and (reason := _recall_difference(p, q)):
            cells.append(replace(at, reason=reason))
        else:
            if at.pace_a:
                at = replace(at, pace_a=_pace([p]), pace_b=_pace([q]))
            found = (point.metric_values(metric, judged=equal_recall) for point in (p, q))
            cells.append(_check_repeats(_curve_cell(at, *found), [p], [q]))
    return cells


def _pace(points: Sequence[RepeatedPhase]) -> dict[int, float]:
    """The client's processor time per answer, by repeat: for several points the geometric mean, of
    the repeats that all of them have."""
    paces = [point.values("cpu_us_per_op") for point in points]
    common = set.intersection(*map(set, paces)) if paces else set()
    if any(values[repeat] <= 0 for values in paces for repeat in common):
        return {}
    return {r: statistics.geometric_mean(values[r] for values in paces) for r in sorted(common)}


def _curve_cell(cell: ComparedCell, a: Values, b: Values) -> ComparedCell:
    """The cell of these values."""
    x, y = ({r: value for r, (value, _) in side.items()} for side in (a, b))
    of_x, of_y = ({r: phases for r, (_, phases) in side.items()} for side in (a, b))
    return replace(cell, a=x, b=y, phases_a=of_x, phases_b=of_y)


def _check_repeats(
    cell: ComparedCell, of_a: Sequence[RepeatedPhase], of_b: Sequence[RepeatedPhase]
) -> ComparedCell:
    """The cell, or the reason why it has too few repeats or lacks repeats of these points: to use
    only the repeats with a value would be to select among the measurements."""
    for side, points, found in (("A", of_a, cell.a), ("B", of_b, cell.b)):
        if lacking := sorted({r for point in points for r in point.phases} - found.keys()):
            named = f"repeat {', '.join(map(str, lacking))}"
            reason = f"{side}: no value in {named}: {_why_none(cell, points, lacking)}"
            return without_values(cell, reason)
    fewest = min(len(cell.a), len(cell.b))
    if fewest >= LEAST_REPEATS:
        return cell
    reason = f"{fewest} {'repeat' if fewest == 1 else 'repeats'}: a verdict needs {LEAST_REPEATS}"
    return replace(cell, few=reason)


def without_values(cell: ComparedCell, reason: str) -> ComparedCell:
    """The cell without its values, for this reason."""
    return replace(cell, a={}, b={}, phases_a={}, phases_b={}, reason=reason)


def _why_none(cell: ComparedCell, points: Sequence[RepeatedPhase], repeats: Sequence[int]) -> str:
    """Reason why repeats have no value: the run's own, or that the value lies on no curve."""
    assert cell.metric is not None
    metric = cell.metric.name
    phases = [point.phases[r] for point in points for r in repeats if r in point.phases]
    judged = JUDGED if any(point.recalls for point in points) else ()
    for name in (metric, *judged):
        found = [phase.metrics[name] for phase in phases if name in phase.metrics]
        if reason := next((v.reason for v in found if v.value is None and v.reason), None):
            return reason
    whole = all(metric in phase.metrics for phase in phases)
    return "a value of 0 lies on no curve" if whole else NOT_RECORDED


def _common_recalls(a: Group, b: Group, targets: Sequence[float]) -> list[float] | str:
    """The recalls at which to compare: the requested ones; otherwise the `TARGETS` that both reach;
    otherwise the highest recall that both reach. A text is the reason why there is none; an empty
    list means that both have points at about one recall, which are compared as they are."""
    for side, group in (("A", a), ("B", b)):
        if not group.is_search:
            return f"{side}: no recall was judged: {group.why_unjudged}"
    reach_a, reach_b = a.recall_range, b.recall_range
    low, high = max(reach_a[0], reach_b[0]), min(reach_a[1], reach_b[1])
    if low > high:
        gap = min(abs(p.median_recall - q.median_recall) for p in a.curve for q in b.curve)
        if gap <= RECALL_TOLERANCE and not targets:
            return []
        return f"no recall that both reach: A {_range(reach_a)}, B {_range(reach_b)}"
    return list(dict.fromkeys(targets)) or [r for r in TARGETS if low <= r <= high] or [high]


def _recall_difference(p: RepeatedPhase, q: RepeatedPhase) -> str:
    if not (p.recalls and q.recalls):
        return "no recall was judged"
    a, b = p.median_recall, q.median_recall
    if abs(a - b) <= RECALL_TOLERANCE:
        return ""
    return f"not at equal recall: {formatting.recall(a)} in A, {formatting.recall(b)} in B"


def _setting(point: RepeatedPhase, points: Sequence[RepeatedPhase]) -> str:
    """The parameters in which a point differs from the others."""
    varied = {
        name: value
        for name, value in point.setting.items()
        if any(other.setting.get(name) != value for other in points)
    }
    return formatting.params(varied) if varied else ""


def _range(reach: tuple[float, float]) -> str:
    low, high = reach
    return (
        formatting.recall(low)
        if low == high
        else f"{formatting.recall(low)}–{formatting.recall(high)}"
    )


def load_of(experiment: str, terms: Mapping[str, Any]) -> str:
    """The terms under which a cell was measured, without the obvious ones."""
    quiet = {"k", "loop", "arrivals", "metric_space", "stage", *TRIAL_TERMS}
    names, parts = terms_of(experiment), []
    for name, value in terms.items():
        if name in quiet or value in (None, "", "ids") or (name == "concurrency" and value == 1):
            continue
        if name == "clients":
            parts.append(f"{value} {'client' if value == 1 else 'clients'}")
        elif name == "rate":
            parts.append(f"{value:g}/s offered")
        else:
            parts.append(f"{names[name]} {_term_text(name, value)}")
    return ", ".join(parts)
