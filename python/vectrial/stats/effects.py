"""Difference between two sides, judged by their repeats.

The unit is the repeat: the requests of one repeat share a server, an index and a minute of the
machine, so a million of them are still one observation. The logarithms of repeats are compared,
since their difference is a ratio, by Student's t: in pairs if repeat i of both sides was measured
side by side, otherwise after Welch (1947), or by analysis of covariance if the machine's speed in
each repeat is known.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vectrial.stats import student
from vectrial.stats.intervals import LEAST_REPEATS

#: Share of comparisons that may raise an alarm, over all cells, although nothing differs.
ALPHA = 0.05
#: The chance with which the minimum effect would have been found.
POWER = 0.8


@dataclass(frozen=True)
class Effect:
    """B relative to A.

    ratio: geometric mean of B's repeats over that of A's. low, high: its 95 % interval, for this
        cell alone. p: two-sided p-value of a ratio of 1. se: standard error of the ratio's
        logarithm, with df degrees of freedom. paired, at_pace: how it was found.
    """

    ratio: float
    low: float
    high: float
    p: float
    se: float
    df: float
    paired: bool = False
    at_pace: bool = False

    def minimum(self, level: float = ALPHA, power: float = POWER, threshold: float = 0.0) -> float:
        """The least true rise, as a share of A (0.05: 5 %), that a test of this level has this
        chance to find, given the spread of these repeats, and to show to be at least `threshold` (a
        share of A).

        The repeats must show t(1 - level/2) standard errors, or the threshold if that is more. Half
        of the time they show less than the true rise: so it lies t(power) standard errors beyond
        (Bloom 1995).
        """
        if self.se == 0:
            return threshold
        least = max(student.quantile(1 - level / 2, self.df) * self.se, math.log1p(threshold))
        # Of three repeats that lie apart nothing may be seen at all: then it is infinite.
        exponent = least + student.quantile(power, self.df) * self.se
        return math.expm1(exponent) if exponent < 700 else math.inf

    def at_level(self, level: float) -> Effect:
        """The same effect with the interval of another level: 0.01 gives a 99 % interval."""
        half = student.quantile(1 - level / 2, self.df) * self.se
        shift = math.log(self.ratio)
        return replace(self, low=_ratio(shift - half), high=_ratio(shift + half))

    def is_decided(self, n: int, more: int, level: float, threshold: float) -> bool:
        """True if `more` repeats of each side, beyond n, would confirm this ratio with a chance of
        `POWER`: as at least the threshold away from 1 (at this level), or within it."""
        df = self.df * (n + more - 1) / (n - 1)
        se = self.se * math.sqrt(n / (n + more))
        shift, limit = abs(math.log(self.ratio)), math.log1p(threshold)
        chance = student.quantile(POWER, df) * se
        shown = max(student.quantile(1 - level / 2, df) * se, limit) + chance
        within = shift + student.quantile(1 - ALPHA / 2, df) * se + chance
        return shift >= shown or within <= limit


def unpaired_effect(a: Sequence[float], b: Sequence[float]) -> Effect:
    """Effect of two groups of repeats that were measured at different times; Welch's t.

    Raises:
        ValueError: fewer than `LEAST_REPEATS` on a side, or a value that is not above 0.
    """
    logs_a, logs_b = _logs(a), _logs(b)
    parts = [float(np.var(x, ddof=1)) / len(x) for x in (logs_a, logs_b)]
    total = sum(parts)
    # Welch–Satterthwaite.
    by_df = sum(part**2 / (len(x) - 1) for part, x in zip(parts, (logs_a, logs_b), strict=True))
    df = total**2 / by_df if by_df > 0 else float(len(a) + len(b) - 2)
    return effect_of(float(np.mean(logs_b) - np.mean(logs_a)), math.sqrt(total), df, paired=False)


def paired_effect(a: Sequence[float], b: Sequence[float]) -> Effect:
    """Effect of repeats whose i-th values were measured side by side; t of differences.

    Raises:
        ValueError: see `unpaired_effect`; or the sides are not equally long.
    """
    logs_a, logs_b = _logs(a), _logs(b)
    if len(logs_a) != len(logs_b):
        raise ValueError("pairs need as many repeats on both sides")
    apart = logs_b - logs_a
    se = float(np.std(apart, ddof=1)) / math.sqrt(len(apart))
    return effect_of(float(np.mean(apart)), se, float(len(apart) - 1), paired=True)


def pace_corrected_effect(
    a: Sequence[float],
    b: Sequence[float],
    pace_a: Sequence[float],
    pace_b: Sequence[float],
) -> Effect:
    """Effect of two groups of repeats, corrected to an equally fast machine in all of them.

    Analysis of covariance (Fisher 1932) of logarithms, with one slope for both groups: the
    dependence on pace among the repeats of a side is removed between the sides. The further apart
    the two sides' paces, the greater the error: the correction claims less the more it corrects.

    Args:
        pace_a, pace_b: time of each repeat for a piece of work that is the same in all repeats of
            both sides, in any unit.

    Raises:
        ValueError: see `unpaired_effect`; or a side has not as many paces as repeats.
    """
    y, x = (_logs(a), _logs(b)), (_logs(pace_a), _logs(pace_b))
    if any(len(one) != len(other) for one, other in zip(y, x, strict=True)):
        raise ValueError("each repeat needs a pace")
    xx, xy = (
        sum(float(np.dot(p - p.mean(), q - q.mean())) for p, q in zip(x, other, strict=True))
        for other in (x, y)
    )
    if xx <= 1e-18:  # the same pace every time: there is nothing to take away
        return unpaired_effect(a, b)
    slope, apart = xy / xx, float(x[1].mean() - x[0].mean())
    df = float(len(a) + len(b) - 3)
    # Of the residuals themselves: a difference of sums is rounding where the model fits exactly.
    residuals = [q - q.mean() - slope * (p - p.mean()) for p, q in zip(x, y, strict=True)]
    variance = sum(float(np.dot(one, one)) for one in residuals) / df
    se = math.sqrt(variance * (1 / len(a) + 1 / len(b) + apart**2 / xx))
    shift = float(y[1].mean() - y[0].mean()) - slope * apart
    return replace(effect_of(shift, se, df, paired=False), at_pace=True)


@dataclass(frozen=True)
class Mean:
    """The geometric mean of `n` repeats, whose ratio is tested, and their range."""

    n: int
    value: float
    low: float
    high: float


def mean_of(values: Sequence[float]) -> Mean:
    """The geometric mean of the repeats of one side; 0 if any of them is 0.

    Raises:
        ValueError: there are no values, or one is below 0.
    """
    if not values or min(values) < 0:
        raise ValueError("a geometric mean needs values of 0 or more")
    low, high = min(values), max(values)
    value = statistics.geometric_mean(values) if low > 0 else 0.0
    # Rounding of logarithms is no spread.
    return Mean(len(values), min(high, max(low, value)), low, high)


def _logs(values: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    if len(values) < LEAST_REPEATS:
        raise ValueError(f"{len(values)} repeats: {LEAST_REPEATS} are needed")
    if not all(math.isfinite(value) and value > 0 for value in values):
        raise ValueError("a value that is not above 0 has no ratio")
    return np.log(np.asarray(values, dtype=np.float64))


def effect_of(shift: float, se: float, df: float, *, paired: bool) -> Effect:
    """Effect whose logarithm is `shift`, with this standard error and degrees of freedom."""
    # Rounding of logarithms is no spread: figures that are the same every time differ exactly.
    if se <= 1e-12:
        ratio = _ratio(shift) if abs(shift) > 1e-12 else 1.0
        return Effect(ratio, ratio, ratio, 1.0 if ratio == 1 else 0.0, 0.0, df, paired)
    half = student.quantile(1 - ALPHA / 2, df) * se
    p = 2 * student.probability_below(-abs(shift) / se, df)
    return Effect(_ratio(shift), _ratio(shift - half), _ratio(shift + half), p, se, df, paired)


def _ratio(logarithm: float) -> float:
    """The ratio of this logarithm, limited to what a float holds well: if paces hardly differ
    within a side and much between them, the slope may lead beyond."""
    return math.exp(max(-700.0, min(700.0, logarithm)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values, in the order given (Holm 1979). Rejecting those at or below α keeps the
    chance of any false alarm among all at most α, however the tests depend on each other."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [0.0] * len(p_values)
    most = 0.0
    for rank, index in enumerate(order):
        most = max(most, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = most
    return adjusted
