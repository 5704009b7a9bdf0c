"""Verdicts on two sides by their repeats: better, worse, tie, or undecided.

All comparisons made at once are one family: if nothing differs, the chance that any of them is
called better or worse is at most `ALPHA`. A tie is a claim of its own: the whole interval of the
difference lies within the threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from vectrial.stats.effects import ALPHA, POWER, Effect, holm, unpaired_effect

#: Least difference that is called one, as a share, unless another is asked for.
THRESHOLD = 0.05

#: Most repeats and rounds of turns that are advised, and the step in which rounds are advised.
MOST_REPEATS, _MOST_ROUNDS, _ROUNDS = 100, 2_000, 20


class VerdictKind(StrEnum):
    """Verdict on B compared with A."""

    BETTER = "better"
    WORSE = "worse"
    TIE = "tie"
    UNDECIDED = "undecided"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True)
class Evidence:
    """One quantity of A and B, by their repeats.

    effect: B over A, as measured. bounds: B over A had the machine not been disturbed, in the best
        case of one side each. open: verdicts that no repeat supports, since all that could were
        disturbed. disturbed: where the machine was, in words. n: repeats of the side with fewer.
    measured: change before a correction for the machine's pace, a share of A; None without.
    by_round: n counts rounds of turns, not repeats.
    """

    effect: Effect
    n: int
    higher_is_better: bool
    bounds: tuple[Effect, ...] = ()
    open: frozenset[VerdictKind] = frozenset()
    disturbed: str = ""
    measured: float | None = None
    by_round: bool = False

    @property
    def direction(self) -> VerdictKind:
        """Better or worse, according to B as measured."""
        more = self.effect.ratio > 1
        return VerdictKind.BETTER if more == self.higher_is_better else VerdictKind.WORSE

    @property
    def p(self) -> float:
        """The p-value of no difference: the largest of all cases; 1 if their directions differ."""
        effects = (self.effect, *self.bounds)
        apart = min(e.ratio for e in effects) < 1 < max(e.ratio for e in effects)
        return 1.0 if apart or self.direction in self.open else max(e.p for e in effects)

    @property
    def smallest_change(self) -> float:
        """The smallest change of all cases, as a share of A without its sign."""
        return min(abs(e.ratio - 1) for e in (self.effect, *self.bounds))

    def is_within(self, threshold: float) -> bool:
        """True if every interval lies within the threshold."""
        effects = (self.effect, *self.bounds)
        low, high = min(e.low for e in effects), max(e.high for e in effects)
        return VerdictKind.TIE not in self.open and low >= 1 - threshold and high <= 1 + threshold


@dataclass(frozen=True)
class Decision:
    """A verdict. p_adjusted: p-value after Holm over the family. minimum: the least true rise that
    would have been found with a chance of `POWER`, as a share of A. more: further repeats of each
    side (rounds, for turns) that would likely decide an undecided verdict; None if they are too
    many. disturbed: undecided only because repeats ran on a disturbed machine."""

    kind: VerdictKind
    reason: str
    p_adjusted: float
    minimum: float
    more: int | None = None
    disturbed: bool = False


def decide(family: Sequence[Evidence], threshold: float, alpha: float = ALPHA) -> list[Decision]:
    """A decision on each piece of evidence, in order.

    Better or worse: the repeats show a difference (p after Holm at most `alpha`) of at least
    `threshold`, a share of A, in every case of their bounds. Tie: the whole 95 % interval lies
    within the threshold (the two one-sided tests of Schuirmann 1987, at 2.5 % each), in every case.
    """
    adjusted = holm([one.p for one in family])
    pairs = zip(family, adjusted, strict=True)
    return [_decide(one, p, threshold, alpha, len(family)) for one, p in pairs]


def _decide(evidence: Evidence, p: float, threshold: float, alpha: float, tests: int) -> Decision:
    minimum = evidence.effect.minimum(alpha / tests, POWER, threshold)
    shown = p <= alpha and evidence.effect.ratio != 1
    paced_only = (
        evidence.measured is not None and evidence.measured * (evidence.effect.ratio - 1) <= 0
    )
    note = f"also in the best case of {evidence.disturbed}" if evidence.disturbed else ""
    if shown and evidence.smallest_change >= threshold and not paced_only:
        return Decision(evidence.direction, note, p, minimum)
    if evidence.is_within(threshold):
        return Decision(VerdictKind.TIE, note, p, minimum)
    if (
        evidence.disturbed
        and (quiet := _verdict_as_measured(evidence, threshold, alpha / tests)) is not None
    ):
        reason = f"{quiet} as measured, but {evidence.disturbed}"
        return Decision(VerdictKind.UNDECIDED, reason, p, minimum, disturbed=True)
    if shown and evidence.smallest_change >= threshold:
        reason = "none as measured: only the machine's pace makes one"
    elif shown:
        reason = f"{evidence.direction}, but perhaps by less than {threshold:.3g} of A"
    elif evidence.smallest_change >= threshold and evidence.p <= alpha:
        reason = f"{evidence.direction} if looked at alone, not among {tests} cells"
    else:
        reason = "a difference is neither shown nor excluded"
    more = _repeats_needed(evidence, threshold, alpha / tests)
    return Decision(VerdictKind.UNDECIDED, reason, p, minimum, more)


def _verdict_as_measured(evidence: Evidence, threshold: float, level: float) -> VerdictKind | None:
    """The verdict that would follow if the disturbed repeats were believed."""
    effect = evidence.effect
    if effect.p <= level and abs(effect.ratio - 1) >= threshold:
        return evidence.direction
    within = effect.low >= 1 - threshold and effect.high <= 1 + threshold
    return VerdictKind.TIE if within else None


def _repeats_needed(evidence: Evidence, threshold: float, level: float) -> int | None:
    """Further repeats of each side needed for a decision if the ratio found is the true one."""
    most, step = (_MOST_ROUNDS, _ROUNDS) if evidence.by_round else (MOST_REPEATS, 1)
    for more in range(step, most + 1, step):
        if evidence.effect.is_decided(evidence.n, evidence.n + more, level, threshold):
            return more
    return None


def best_case(
    repeats: Mapping[int, float], disturbed: Collection[int], *, higher_is_better: bool
) -> dict[int, float] | None:
    """The repeats in their best case: each disturbed repeat as good as the best of the others.

    A busy machine makes a time or a rate worse. So a disturbed repeat bounds the undisturbed one
    from one side, and the side's own quiet repeats say how good it may have been. None if no repeat
    was quiet.
    """
    quiet = [value for repeat, value in repeats.items() if repeat not in disturbed]
    if not quiet:
        return None
    pick = max if higher_is_better else min
    best = pick(quiet)
    return {r: pick(v, best) if r in disturbed else v for r, v in repeats.items()}


Repeats = Mapping[int, float]


def effect_by_repeat(a: Repeats, b: Repeats) -> Effect:
    """Effect of two groups of repeats that were measured at different times."""
    return unpaired_effect([a[r] for r in sorted(a)], [b[r] for r in sorted(b)])


def weigh(
    a: Repeats,
    b: Repeats,
    disturbed_a: Collection[int] = (),
    disturbed_b: Collection[int] = (),
    *,
    higher_is_better: bool,
    names: tuple[str, str] = ("A", "B"),
    effect: Callable[[Repeats, Repeats], Effect] = effect_by_repeat,
) -> Evidence:
    """The evidence of a time or a rate, from the values by repeat, with its bounds.

    Args:
        disturbed_a, disturbed_b: repeats in which the machine was busy with something else.
        names: names of A and B, for reasons.

    Raises:
        ValueError: see `unpaired_effect`.
    """
    evidence = Evidence(effect(a, b), min(len(a), len(b)), higher_is_better)
    bounds, without, places = [], set(), []
    sides = ((a, disturbed_a, VerdictKind.BETTER), (b, disturbed_b, VerdictKind.WORSE))
    for name, (repeats, bad, other) in zip(names, sides, strict=True):
        hit = sorted(repeats.keys() & set(bad))
        if not hit:
            continue
        named = f"repeat {', '.join(map(str, hit))}" if len(hit) < len(repeats) else "every repeat"
        places.append(f"{named} of {name}")
        best = best_case(repeats, hit, higher_is_better=higher_is_better)
        if best is None:
            without |= {other, VerdictKind.TIE}
        else:
            bounds.append(effect(best, b) if repeats is a else effect(a, best))
    if not places:
        return evidence
    where = f"{' and '.join(places)} on a disturbed machine"
    return replace(evidence, bounds=tuple(bounds), open=frozenset(without), disturbed=where)
