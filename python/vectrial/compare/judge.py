"""From cells to verdicts, with one bound on false alarms over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from vectrial.compare.cells import Cell
from vectrial.stats.effects import ALPHA, POWER, Effect, holm, paired, unpaired
from vectrial.stats.intervals import Spread, spread_of

#: From so many repeats on those of one run are compared in pairs: fewer pairs have so few degrees
#: of freedom that more is lost than drift that both share would cost.
PAIRS_FROM = 6


class Kind(StrEnum):
    """What B is, compared with A."""

    BETTER = "better"
    WORSE = "worse"
    TIE = "tie"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True)
class Verdict:
    """One cell, judged.

    reason: why it is not comparable, or what a tie says. spread_a, spread_b: median over the
        repeats with its interval. effect: B over A. p_adjusted: after Holm over all cells.
    minimum: the least true change that would have been called with a chance of `POWER`.
    """

    cell: Cell
    kind: Kind
    reason: str = ""
    spread_a: Spread | None = None
    spread_b: Spread | None = None
    effect: Effect | None = None
    p_adjusted: float | None = None
    minimum: float | None = None

    @property
    def change(self) -> float | None:
        """B less A as a share of A: 0.1 is 10 % more."""
        return None if self.effect is None else self.effect.ratio - 1


def judge(cells: Sequence[Cell], threshold: float, alpha: float = ALPHA) -> list[Verdict]:
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


def _measured(cell: Cell) -> Verdict:
    if cell.reason:
        return Verdict(cell, Kind.NOT_COMPARABLE, cell.reason)
    a, b = _values(cell)
    spreads = spread_of(a), spread_of(b)
    if set(a) == set(b) == {0.0}:  # the same nothing every time
        effect = unpaired([1.0] * len(a), [1.0] * len(b))
    elif min(*a, *b) <= 0:
        least = "0" if min(*a, *b) == 0 else "less than 0"
        return Verdict(cell, Kind.NOT_COMPARABLE, f"a value of {least} has no ratio", *spreads)
    elif _in_turns(cell):
        effect = paired(a, b)
    else:
        effect = unpaired(a, b)
    return Verdict(cell, Kind.TIE, "", *spreads, effect)


def _in_turns(cell: Cell) -> bool:
    """Repeat i of both was measured in the same round of the same run, often enough."""
    return cell.same_run and len(cell.a.keys() & cell.b.keys()) >= PAIRS_FROM


def _values(cell: Cell) -> tuple[list[float], list[float]]:
    if _in_turns(cell):
        common = sorted(cell.a.keys() & cell.b.keys())
        return [cell.a[r] for r in common], [cell.b[r] for r in common]
    return [cell.a[r] for r in sorted(cell.a)], [cell.b[r] for r in sorted(cell.b)]


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
    if large and p <= alpha:
        kind = side
    elif p <= alpha and change != 0:
        reason = "a difference below the threshold"
    elif large and effect.p <= alpha:
        reason = f"{side} if looked at alone, not among {tests} cells: more repeats, or fewer cells"
    elif effect.low - 1 >= -threshold and effect.high - 1 <= threshold:
        reason = "equal within the threshold"
    else:
        reason = f"none shown; {_percent(minimum)} would have been"
    return replace(verdict, kind=kind, reason=reason, p_adjusted=p, minimum=minimum)


def _percent(share: float) -> str:
    return f"{share * 100:.3g} %" if share < 10 else "only more than tenfold"
