"""From cells to verdicts, with one bound on false alarms over all of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from vectrial.compare.cells import OF_TIME, ComparedCell
from vectrial.stats.effects import ALPHA, POWER, Effect, at_equal_pace, holm, paired, unpaired
from vectrial.stats.intervals import Spread, spread_of
from vectrial.util.formatting import plural

#: From so many repeats on those of one run are compared in pairs: fewer pairs have so few degrees
#: of freedom that more is lost than drift that both share would cost.
PAIRS_FROM = 6


class Kind(StrEnum):
    """B compared with A."""

    BETTER = "better"
    WORSE = "worse"
    TIE = "tie"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True)
class Verdict:
    """One cell, judged.

    reason: why it is not comparable, or what a tie says. spread_a, spread_b: median over the
        repeats with its interval. effect: B over A. measured: the change as it was measured,
        before it was told at equal pace of the machine; a share of A, None where nothing was.
    p_adjusted: after Holm over all cells.
    minimum: the least true change that would have been called with a chance of `POWER`.
    """

    cell: ComparedCell
    kind: Kind
    reason: str = ""
    spread_a: Spread | None = None
    spread_b: Spread | None = None
    effect: Effect | None = None
    measured: float | None = None
    p_adjusted: float | None = None
    minimum: float | None = None

    @property
    def change(self) -> float | None:
        """B less A as a share of A: 0.1 is 10 % more."""
        return None if self.effect is None else self.effect.ratio - 1


def judge(cells: Sequence[ComparedCell], threshold: float, alpha: float = ALPHA) -> list[Verdict]:
    """A verdict for each cell, in order.

    Worse or better: the repeats show a difference (p after Holm at most `alpha`) of at least
    `threshold`, a share of A. All that is compared at once is one family: the chance that any
    cell is called better or worse where nothing differs is at most `alpha`.
    """
    found = [_measured(cell) for cell in cells]
    tested = [v.effect.p for v in found if v.effect is not None]
    adjusted = iter(holm(tested))
    out = []
    for verdict in found:
        if verdict.effect is None:
            out.append(verdict)
            continue
        out.append(_judged(verdict, verdict.effect, next(adjusted), threshold, alpha, len(tested)))
    return out


def undisturbed(
    verdicts: Sequence[Verdict], disturbed_a: Collection[int], disturbed_b: Collection[int]
) -> list[Verdict]:
    """The verdicts, without those of better or worse times that rest on disturbed phases: these are
    not comparable. Where the machine's pace is known and taken out, they stand.

    Args:
        disturbed_a, disturbed_b: ids of such phases of the run of A and of B.
    """
    return [_undisturbed(verdict, disturbed_a, disturbed_b) for verdict in verdicts]


def _undisturbed(verdict: Verdict, a: Collection[int], b: Collection[int]) -> Verdict:
    cell = verdict.cell
    timed = cell.metric is not None and cell.metric.unit in OF_TIME
    if verdict.kind not in (Kind.BETTER, Kind.WORSE) or not timed or verdict.measured is not None:
        return verdict
    sides = (("A", a, cell.phases_a), ("B", b, cell.phases_b))
    found = [(side, len(set(phases) & set(bad))) for side, bad, phases in sides]
    parts = [f"{plural(count, 'phase')} of {side}" for side, count in found if count]
    if not parts:
        return verdict
    return replace(
        verdict,
        kind=Kind.NOT_COMPARABLE,
        reason=f"{verdict.kind}, but the machine was disturbed during {' and '.join(parts)}:"
        " measure these again (vectrial run --resume RUN --remeasure-disturbed)",
    )


def _measured(cell: ComparedCell) -> Verdict:
    if cell.reason:
        return Verdict(cell, Kind.NOT_COMPARABLE, cell.reason)
    a, b = _values(cell.a, cell.b)
    spreads = spread_of(a), spread_of(b)
    if set(a) == set(b) == {0.0}:  # the same nothing every time
        effect = unpaired([1.0] * len(a), [1.0] * len(b))
    elif min(*a, *b) <= 0:
        least = "0" if min(*a, *b) == 0 else "less than 0"
        return Verdict(cell, Kind.NOT_COMPARABLE, f"a value of {least} has no ratio", *spreads)
    elif _paced(cell):
        effect = at_equal_pace(a, b, *_values(cell.pace_a, cell.pace_b))
        raw = unpaired(a, b).ratio - 1 if effect.at_pace else None
        return Verdict(cell, Kind.TIE, "", *spreads, effect, raw)
    elif _in_turns(cell):
        effect = paired(*_common(cell))
    else:
        effect = unpaired(a, b)
    return Verdict(cell, Kind.TIE, "", *spreads, effect)


def _paced(cell: ComparedCell) -> bool:
    """It is known of each repeat how fast the machine was."""
    return cell.pace_a.keys() == cell.a.keys() and cell.pace_b.keys() == cell.b.keys()


def _in_turns(cell: ComparedCell) -> bool:
    """Repeat i of both was measured in one round, often enough."""
    return cell.in_turns and len(cell.a.keys() & cell.b.keys()) >= PAIRS_FROM


def _common(cell: ComparedCell) -> tuple[list[float], list[float]]:
    common = sorted(cell.a.keys() & cell.b.keys())
    return [cell.a[r] for r in common], [cell.b[r] for r in common]


def _values(a: Mapping[int, float], b: Mapping[int, float]) -> tuple[list[float], list[float]]:
    return [a[r] for r in sorted(a)], [b[r] for r in sorted(b)]


def _judged(
    verdict: Verdict, effect: Effect, p: float, threshold: float, alpha: float, tests: int
) -> Verdict:
    assert verdict.cell.metric is not None
    minimum = effect.minimum(alpha / tests, POWER, threshold)
    change = effect.ratio - 1
    large = change != 0 and abs(change) >= threshold
    more_is_better = verdict.cell.metric.better == "higher"
    side = Kind.BETTER if (change > 0) == more_is_better else Kind.WORSE
    kind, reason = Kind.TIE, ""
    if large and p <= alpha and verdict.measured is not None and verdict.measured * change <= 0:
        reason = "none as measured: only the machine's pace makes one"
    elif large and p <= alpha:
        kind = side
    elif p <= alpha and change != 0:
        reason = "a difference below the threshold"
    elif large and effect.p <= alpha:
        reason = f"{side} if looked at alone, not among {tests} cells: more repeats, or fewer cells"
    elif effect.low - 1 >= -threshold and effect.high - 1 <= threshold:
        reason = "equal within the threshold"
    else:
        reason = f"none shown; {_percent(minimum)} would have been"
    if verdict.measured is not None:
        note = f"at equal pace of the machine; {verdict.measured * 100:+.3g} % as measured"
        reason = f"{reason}; {note}" if reason else note
    return replace(verdict, kind=kind, reason=reason, p_adjusted=p, minimum=minimum)


def _percent(share: float) -> str:
    return f"{share * 100:.3g} %" if share < 10 else "only more than tenfold"
