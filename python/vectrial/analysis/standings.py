"""The leading store, and the rivals against which its lead is decided, for runs
`--until-decided`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vectrial.analysis.analysis import TARGETS, Sweep, sweeps
from vectrial.analysis.run_data import Point, RunData
from vectrial.analysis.turns import compare_points
from vectrial.stats.effects import ALPHA, Effect
from vectrial.stats.intervals import LEAST_REPEATS
from vectrial.stats.turns import LEAST_LOADS, level_of_look
from vectrial.stats.verdict import Decision, Evidence, VerdictKind, decide, effect_by_repeat
from vectrial.util import formatting


@dataclass(frozen=True)
class Rival:
    """A store compared with the leader. effect: the leader's QPS over its own; decision: verdict
    for the leader; None if there is none yet. final: it holds for the stores, not only for the
    indexes that were measured."""

    label: str
    effect: Effect | None = None
    decision: Decision | None = None
    final: bool = False

    @property
    def is_decided(self) -> bool:
        """True if the comparison needs no more loads."""
        known = self.decision is not None and self.decision.kind is not VerdictKind.UNDECIDED
        return self.final and known

    @property
    def text(self) -> str:
        """The rival and how far it is behind: 'faiss by 1.31 (1.27 to 1.35)'."""
        if self.effect is None:
            return self.label
        ends = f"{self.effect.low:.3g} to {self.effect.high:.3g}"
        return f"{self.label} by {self.effect.ratio:.3g} ({ends})"


@dataclass(frozen=True)
class Standing:
    """The leader in one sweep at the first target of recall, and the other stores."""

    sweep: Sweep
    leader: str
    rivals: tuple[Rival, ...]

    @property
    def open_rivals(self) -> list[Rival]:
        """Rivals against which the lead is not decided."""
        return [rival for rival in self.rivals if not rival.is_decided]

    @property
    def sentence(self) -> str:
        """A sentence on what is decided and what is open."""
        behind = [
            r
            for r in self.rivals
            if r.decision is not None and r.decision.kind is VerdictKind.WORSE
        ]
        ties = [
            r for r in self.rivals if r.decision is not None and r.decision.kind is VerdictKind.TIE
        ]
        rest = [r for r in self.rivals if r not in behind and r not in ties]
        parts = []
        if behind:
            parts.append(
                f"{self.leader} leads {formatting.list_in_words([r.text for r in behind])}"
            )
        if ties:
            parts.append(
                f"a tie of {self.leader} and {formatting.list_in_words([r.text for r in ties])}"
            )
        if rest:
            parts.append(
                f"open: {self.leader} against {formatting.list_in_words([r.text for r in rest])}"
            )
        only = any(r.decision is not None and not r.final for r in self.rivals)
        of = f"; of these indexes, and from {LEAST_LOADS} loads on of the stores" if only else ""
        return f"{'; '.join(parts) or f'{self.leader} is alone'}{of}"

    @property
    def loads_needed(self) -> int:
        """Further loads that would likely decide the open comparisons; 0 if unknown."""
        known = [r.decision.more for r in self.open_rivals if r.final and r.decision is not None]
        return max((one for one in known if one is not None), default=0)


def standings(run: RunData, threshold: float, look: int) -> list[Standing]:
    """The standing of each sweep.

    Args:
        look: number of the look, from 1; the levels of all looks add up to that of one.
    """
    return [found for sweep in sweeps(run) if (found := _standing(run, sweep, threshold, look))]


def _standing(run: RunData, sweep: Sweep, threshold: float, look: int) -> Standing | None:
    best = [p for s in sweep.series if (p := sweep.best(s, TARGETS[0])) is not None]
    best.sort(key=lambda point: -(point.value("qps") or 0.0))
    if not best:
        return None
    level = level_of_look(look, ALPHA)
    weighed = [(point, *_weigh(run, best[0], point, level)) for point in best[1:]]
    family = [evidence for _, evidence, _ in weighed if evidence is not None]
    decisions = iter(decide(family, threshold, level))
    rivals = [
        Rival(run.labels[point.series])
        if evidence is None
        else Rival(run.labels[point.series], _inverse(evidence.effect), next(decisions), final)
        for point, evidence, final in weighed
    ]
    return Standing(sweep, run.labels[best[0].series], tuple(rivals))


def _weigh(run: RunData, first: Point, rival: Point, level: float) -> tuple[Evidence | None, bool]:
    """Evidence of the rival against the first, and whether the claim holds for the stores."""
    paired = compare_points(run, first, rival, "qps")
    if paired is not None:
        evidence = paired.evidence(higher_is_better=True)
        return replace(evidence, effect=evidence.effect.at_level(level)), paired.store is not None
    sides = [_values(run, point) for point in (first, rival)]
    if min(map(len, sides)) < LEAST_REPEATS:
        return None, False
    effect = effect_by_repeat(*sides).at_level(level)
    return Evidence(effect, min(map(len, sides)), higher_is_better=True), True


def _values(run: RunData, point: Point) -> dict[int, float]:
    found = {run.repeats[phase.phase_id]: phase.value("qps") for phase in point.phases}
    return {repeat: value for repeat, value in found.items() if value}


def _inverse(effect: Effect) -> Effect:
    """The effect of A over B."""
    return replace(effect, ratio=1 / effect.ratio, low=1 / effect.high, high=1 / effect.low)


def are_all_decided(found: Sequence[Standing]) -> bool:
    """True if nothing is open."""
    return all(not standing.open_rivals for standing in found)
