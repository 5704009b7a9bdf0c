"""The answer of tuning, and its last candidates: the builds that may be the fastest, at search
settings by which they just reach the recall.

A search of one second per setting cannot distinguish builds that differ by a tenth, and a coarse
grid favours a build that just reaches the recall at one of its settings. So the best builds are
loaded again and searched in turns, at settings around the one that each needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vectrial.compare.judge import Verdict
from vectrial.questions.builds import (
    BuildMeasurement,
    Candidate,
    TriedBuild,
    TuneLimits,
    best_of,
    pareto_front,
)
from vectrial.stats.curves import log_odds
from vectrial.stats.verdict import THRESHOLD, VerdictKind

#: A build that was slower than this share of the fastest is no candidate: a second on a shared
#: machine is wrong by a third at times.
_NEAR = 0.6
#: Settings beside the one that is needed, as multiples of it. Below the last number a step of 1 is
#: more than 3 %.
_AROUND, _SMALL = (0.95, 1.06), 33


@dataclass(frozen=True)
class Finalist:
    """A candidate that was measured in the final.

    candidate: its least setting within the limits. qps: QPS at exactly the wanted recall. verdict:
        verdict on the fastest against this one; None for the fastest itself.
    """

    tried: TriedBuild
    candidate: Candidate
    qps: float
    verdict: Verdict | None

    @property
    def ratio_to_fastest(self) -> tuple[float, float, float] | None:
        """The finalist's QPS relative to the fastest, with the ends of the interval; None if it is
        the fastest, or they cannot be compared."""
        effect = None if self.verdict is None else self.verdict.effect
        return None if effect is None else (1 / effect.ratio, 1 / effect.high, 1 / effect.low)

    @property
    def text(self) -> str:
        """Comparison with the fastest, as text."""
        if self.verdict is None:
            return "the fastest"
        if self.ratio_to_fastest is None:
            return f"not compared: {self.verdict.reason}"
        ratio, low, high = self.ratio_to_fastest
        ends = f"{ratio:.3g} of the fastest ({low:.3g} to {high:.3g})"
        said = {
            VerdictKind.TIE: f"a tie, within {THRESHOLD:.0%}: ",
            VerdictKind.UNDECIDED: "undecided: ",
            VerdictKind.WORSE: "ahead in turns: ",
        }
        return said.get(self.verdict.kind, "") + ends


@dataclass(frozen=True)
class Finals:
    """The last candidates, the fastest first, and the folder of their run."""

    folder: Path
    ranked: tuple[Finalist, ...]


@dataclass
class TuneAnswer:
    """The outcome of tuning. reason: why there is no `best`. suite: TOML that measures the best."""

    tried: Sequence[TriedBuild]
    front: Sequence[Candidate]
    best: Candidate | None
    reason: str
    limits: TuneLimits
    folder: Path
    suite: str = ""
    finals: Finals | None = None


def answer_of(
    tried: Sequence[TriedBuild], limits: TuneLimits, folder: Path, finals: Finals | None = None
) -> TuneAnswer:
    """The fastest within the limits among the last candidates, or else among all builds; or the
    reason why there is none."""
    every = [each for build in tried if build.state != "again" for each in build.candidates]
    best, _, fault = best_of(BuildMeasurement(every), limits)
    reason = ""
    if not every:
        reason = "no build could be measured whole; the reason is beside each"
    elif best is None:
        reason = (
            f"nothing is within the limits; the nearest has {fault}:"
            " relax a limit, or raise --budget"
        )
    if finals is not None and finals.ranked:
        best = finals.ranked[0].candidate
    return TuneAnswer(tried, pareto_front(every), best, reason, limits, folder, finals=finals)


def finalists(tried: Sequence[TriedBuild], count: int) -> list[TriedBuild]:
    """The builds that may be the fastest at the wanted recall, at most `count`, best first."""
    able = [one for one in tried if one.state == "complete" and one.best is not None]
    able.sort(key=lambda one: -one.value)
    return [one for one in able if one.value >= _NEAR * able[0].value][:count]


def settings_near(candidates: Sequence[Candidate], parameter: str, recall: float) -> list[int]:
    """Values of the search parameter around the least that reaches the recall, ascending; the least
    measured value if that reaches it.

    The needed value is read between the last that misses and the first that reaches the recall: the
    logarithm of the odds of finding a neighbour is close to linear in that of the value.

    Args:
        candidates: candidates of one build; at least one reaches the recall.
    """
    points = sorted((int(one.search[parameter]), one.recall) for one in candidates)
    reaching = next(at for at, (_, found) in enumerate(points) if found >= recall)
    if not reaching:
        return [points[0][0]]
    needed = _interpolate(points[reaching - 1], points[reaching], recall)
    low, high = (factor * needed for factor in _AROUND)
    nearest = {math.floor(needed), math.ceil(needed)} if needed < _SMALL else {round(needed)}
    values = {math.floor(low), *nearest, math.ceil(high)}
    return sorted({min(max(value, points[0][0]), points[-1][0]) for value in values})


def _interpolate(miss: tuple[int, float], hit: tuple[int, float], recall: float) -> float:
    odds = [log_odds(one) for one in (miss[1], recall, hit[1])]
    span = odds[2] - odds[0]
    share = (odds[1] - odds[0]) / span if span > 0 else 1.0
    return float(miss[0] * (hit[0] / miss[0]) ** share)
