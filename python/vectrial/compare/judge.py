"""Verdicts on cells, with one bound on false alarms over all of them. Turns of stores, if they took
any, are stronger evidence than repeats."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from vectrial.analysis.run_data import RunData
from vectrial.analysis.trial import PhaseResult
from vectrial.analysis.turns import TurnComparison, Weights, compare_phases, interpolation_weights
from vectrial.compare.cells import ComparedCell, without_values
from vectrial.stats.effects import (
    ALPHA,
    Effect,
    Mean,
    mean_of,
    pace_corrected_effect,
    paired_effect,
    unpaired_effect,
)
from vectrial.stats.verdict import Decision, Evidence, VerdictKind, decide, effect_by_repeat, weigh

#: Least repeats of one run that are compared in pairs: with fewer pairs, the lost degrees of
#: freedom cost more than drift that both sides share.
PAIRS_FROM = 6


@dataclass(frozen=True)
class Verdict:
    """The verdict on one cell.

    reason: why it is not comparable or not decided, or a condition under which it holds. mean_a,
        mean_b: means of the repeats, with their range. effect: B relative to A. measured: the
        change before adjustment to an equal pace of the machine, a share of A; None without it.
    p_adjusted: after Holm over all cells.
    minimum: the least true change that would have been detected with a chance of `POWER`.
    more: repeats of each side that would likely settle it; see `Decision`. disturbed: it is
        undecided because the machine was busy with something else during some phases.
    """

    cell: ComparedCell
    kind: VerdictKind
    reason: str = ""
    mean_a: Mean | None = None
    mean_b: Mean | None = None
    effect: Effect | None = None
    measured: float | None = None
    p_adjusted: float | None = None
    minimum: float | None = None
    more: int | None = None
    disturbed: bool = False

    @property
    def change(self) -> float | None:
        """B minus A as a share of A: 0.1 is 10 % more."""
        return None if self.effect is None else self.effect.ratio - 1


def judge(
    cells: Sequence[ComparedCell],
    threshold: float,
    alpha: float = ALPHA,
    disturbed_a: Collection[int] = (),
    disturbed_b: Collection[int] = (),
) -> list[Verdict]:
    """A verdict for each cell, in order; all of them are one family, see `stats.verdict.decide`.

    Args:
        disturbed_a, disturbed_b: ids of the phases of the run of A and of B in which the machine
            was busy with something else. A verdict on a time or rate from such phases is given only
            if it also holds in their best case, or if the machine's pace is known.
    """
    disturbed = frozenset(disturbed_a), frozenset(disturbed_b)
    weighed = [_weigh(cell, disturbed) for cell in cells]
    family = [evidence for _, evidence in weighed if evidence is not None]
    decisions = iter(decide(family, threshold, alpha))
    return [
        verdict if evidence is None else _with_decision(verdict, evidence, next(decisions))
        for verdict, evidence in weighed
    ]


def _with_decision(verdict: Verdict, evidence: Evidence, decision: Decision) -> Verdict:
    reason = decision.reason
    if verdict.cell.paired is not None:
        reason = "; ".join(filter(None, (reason, f"in turns, {verdict.cell.paired.claim}")))
    if evidence.measured is not None:
        note = f"at equal pace of the machine; {evidence.measured * 100:+.3g} % as measured"
        reason = f"{reason}; {note}" if reason else note
    return replace(
        verdict,
        kind=decision.kind,
        reason=reason,
        effect=evidence.effect,
        measured=evidence.measured,
        p_adjusted=decision.p_adjusted,
        minimum=decision.minimum,
        more=decision.more,
        disturbed=decision.disturbed,
    )


def _weigh(
    cell: ComparedCell, disturbed: tuple[frozenset[int], frozenset[int]]
) -> tuple[Verdict, Evidence | None]:
    """A verdict without a decision, and the evidence for deciding it; None if it is not
    comparable."""
    if cell.reason:
        return Verdict(cell, VerdictKind.NOT_COMPARABLE, cell.reason), None
    assert cell.metric is not None
    values = *cell.a.values(), *cell.b.values()
    if min(values) < 0:
        return Verdict(
            cell, VerdictKind.NOT_COMPARABLE, "a value of less than 0 has no ratio"
        ), None
    means = mean_of([*cell.a.values()]), mean_of([*cell.b.values()])
    verdict, higher = (
        Verdict(cell, VerdictKind.UNDECIDED, "", *means),
        cell.metric.better == "higher",
    )
    n = min(len(cell.a), len(cell.b))
    if not any(values):  # the same nothing every time
        return verdict, Evidence(
            unpaired_effect([1.0] * len(cell.a), [1.0] * len(cell.b)), n, higher
        )
    if min(values) == 0:
        return replace(
            verdict, kind=VerdictKind.NOT_COMPARABLE, reason="a value of 0 has no ratio"
        ), None
    if cell.paired is not None:
        return verdict, cell.paired.evidence(higher_is_better=higher)
    if _has_pace(cell):
        a, b = _values(cell.a, cell.b)
        effect = pace_corrected_effect(a, b, *_values(cell.pace_a, cell.pace_b))
        if effect.at_pace:
            measured = unpaired_effect(a, b).ratio - 1
            return verdict, Evidence(effect, n, higher, measured=measured)
    hit = (
        ((), ())
        if not cell.metric.is_timed
        else (
            _disturbed_repeats(cell.phases_a, disturbed[0]),
            _disturbed_repeats(cell.phases_b, disturbed[1]),
        )
    )
    return verdict, weigh(
        cell.a, cell.b, *hit, higher_is_better=higher, effect=partial(_effect, cell)
    )


def _disturbed_repeats(phases: Mapping[int, tuple[int, ...]], bad: frozenset[int]) -> list[int]:
    """The repeats with a phase among the given ids."""
    return [repeat for repeat, ids in phases.items() if bad.intersection(ids)]


def _effect(cell: ComparedCell, a: Mapping[int, float], b: Mapping[int, float]) -> Effect:
    common = sorted(a.keys() & b.keys())
    if cell.in_turns and len(common) >= PAIRS_FROM:
        return paired_effect([a[r] for r in common], [b[r] for r in common])
    return effect_by_repeat(a, b)


def _has_pace(cell: ComparedCell) -> bool:
    """True if the machine's pace is known for every repeat."""
    return cell.pace_a.keys() == cell.a.keys() and cell.pace_b.keys() == cell.b.keys()


def _values(a: Mapping[int, float], b: Mapping[int, float]) -> tuple[list[float], list[float]]:
    return [a[r] for r in sorted(a)], [b[r] for r in sorted(b)]


def with_turn_evidence(cell: ComparedCell, run_a: RunData, run_b: RunData) -> ComparedCell:
    """The cell with the evidence of both sides' turns; without turns, too few repeats are none."""
    found = _turn_comparison(cell, run_a) if run_a.folder == run_b.folder else None
    if cell.few and found is None:
        return without_values(cell, cell.few)
    return replace(cell, paired=found)


def _turn_comparison(cell: ComparedCell, run: RunData) -> TurnComparison | None:
    if cell.metric is None or not (cell.a and cell.b and run.slices):
        return None
    phases = {phase.phase_id: phase for _, phase in run.phases()}
    metric = cell.metric.name
    a = _weights(cell.a, cell.phases_a, phases, metric)
    b = _weights(cell.b, cell.phases_b, phases, metric)
    return compare_phases(run, a, b, metric)


def _weights(
    values: Mapping[int, float],
    ids: Mapping[int, tuple[int, ...]],
    phases: Mapping[int, PhaseResult],
    metric: str,
) -> dict[int, Weights]:
    """The phases from which a value was interpolated, by repeat, each with its weight."""
    found = {}
    for repeat, own in ids.items():
        parts = [(one, value) for one in own if (value := phases[one].value(metric))]
        if parts and len(parts) == len(own):
            found[repeat] = interpolation_weights(values[repeat], parts)
    return found
