"""Ratio of two arms that took turns: slices of both in every round, a second or so apart.

What both suffer in the same second cancels in the ratio of a round. Two claims are made of it,
which have different units. *Of these indexes*: the unit is the round. *Of the store*: the unit is
the load, since an index that is built again is another index. More rounds narrow the first interval
down to nothing; only more loads narrow the second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import histogram_buckets
from vectrial.stats import student
from vectrial.stats.effects import ALPHA, Effect, effect_of

#: Share of the rounds that is cut off at each end: Yuen (1974) recommends it.
TRIM = 0.2
#: Most batches that rounds are joined to; least rounds of a batch, so that means of batches hardly
#: depend on one another; and least batches, since fewer have no spread.
MOST_BATCHES, BATCH_ROUNDS, LEAST_BATCHES = 20, 5, 4
#: Fewer rounds say nothing.
LEAST_ROUNDS = BATCH_ROUNDS * LEAST_BATCHES
#: Least number of loads that say something of the store.
LEAST_LOADS = 3
#: Number of resamples of a ratio of quantiles, and their seed.
_RESAMPLES, _SEED = 2000, 20_260_102
#: Batches after which an interval that holds at every moment is narrowest.
_NARROWEST = 20
#: Fewer batches have no interval that holds at every moment, which is an asymptotic one.
_LEAST_LOOKED_AT = 8
#: Degrees of freedom with which Student's t is the normal distribution.
_NORMAL = 1e9

_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """Mean of a sequence, in the units of its values. se: its standard error, with df degrees of
    freedom. n: number of values. batches: batches on which the standard error rests."""

    mean: float
    se: float
    df: float
    n: int
    batches: int


def estimate(values: _Floats) -> Estimate:
    """The trimmed mean of values (n,) in their order in time, which may be correlated.

    The mean is Yuen's (1974), without the highest and the lowest fifth. Its standard error is that
    of batch means (Alexopoulos & Seila 1998) of its influence function, the winsorised values over
    the share that is kept: for independent values it is Yuen's own, and for others it grows with
    what neighbours have in common.

    Raises:
        ValueError: fewer than `LEAST_ROUNDS` values, or one that is not finite.
    """
    n = len(values)
    if n < LEAST_ROUNDS or not np.isfinite(values).all():
        raise ValueError(f"{n} rounds: {LEAST_ROUNDS} finite values are needed")
    cut = int(TRIM * n)
    low, high = np.partition(values, [cut, n - 1 - cut])[[cut, n - 1 - cut]]
    ordered = np.sort(values)
    mean = float(ordered[cut : n - cut].mean())
    winsorised = np.clip(values, low, high)
    influence = (winsorised - winsorised.mean()) / (1 - 2 * cut / n)
    batches = max(LEAST_BATCHES, min(MOST_BATCHES, n // BATCH_ROUNDS))
    sums = np.array([part.sum() for part in np.array_split(influence, batches)])
    se = math.sqrt(batches / (batches - 1) * float(sums @ sums)) / n
    return Estimate(mean, se, float(batches - 1), n, batches)


def measured_loads_effect(loads: Sequence[Estimate]) -> Effect:
    """B over A for exactly the loads that were measured: their mean, with the errors of their
    rounds alone. The effect says nothing about another load.

    Raises:
        ValueError: there are no loads.
    """
    if not loads:
        raise ValueError("there are no loads")
    count = len(loads)
    parts = [(one.se / count) ** 2 for one in loads]
    total = sum(parts)
    # Welch–Satterthwaite.
    spread = sum(part**2 / one.df for part, one in zip(parts, loads, strict=True))
    df = total**2 / spread if spread else float(sum(one.df for one in loads))
    mean = sum(one.mean for one in loads) / count
    return effect_of(mean, math.sqrt(total), df, paired=True)


@dataclass(frozen=True)
class Prior:
    """Prior knowledge of the variance between loads from the other pairs of a run: `variance`,
    worth `df` degrees of freedom; none if df is 0."""

    variance: float = 0.0
    df: float = 0.0


#: The prior if nothing is known but the loads themselves.
NO_PRIOR = Prior()


def store_effect(loads: Sequence[Estimate], prior: Prior = NO_PRIOR) -> Effect:
    """B over A as stores: by the load, Student's t with a variance that is moderated by a prior
    (Smyth 2004, equation 2). The variance is never less than what the rounds alone imply.

    Raises:
        ValueError: fewer than `LEAST_LOADS` loads.
    """
    count = len(loads)
    if count < LEAST_LOADS:
        raise ValueError(f"{count} loads: {LEAST_LOADS} are needed")
    means = np.array([one.mean for one in loads])
    df = count - 1
    variance = float(means.var(ddof=1))
    moderated = (prior.df * prior.variance + df * variance) / (prior.df + df)
    within = sum(one.se**2 for one in loads) / count
    se = math.sqrt(max(moderated, within) / count)
    return effect_of(float(means.mean()), se, prior.df + df, paired=True)


def prior_of(variances: Mapping[str, Sequence[float]], df: float) -> Prior:
    """The prior of the variance between loads, from independent groups together.

    The scaled inverse chi-square of Smyth (2004, section 6.2), by the mean and the variance of the
    logarithms. All cells of one store are one look at its loads: the variances of each group are
    averaged first, and all groups together are worth no more than their own degrees of freedom.

    Args:
        variances: sample variances of each group, with `df` degrees of freedom each.
    """
    means = [float(np.mean(ones)) for ones in variances.values() if len(ones)]
    known = np.array([one for one in means if one > 0])
    if len(known) < LEAST_LOADS or df <= 0:
        return NO_PRIOR
    from scipy import special  # every command imports this file, and few need it

    shifted = np.log(known) - special.digamma(df / 2) + math.log(df / 2)
    mean = float(shifted.mean())
    beyond = float(shifted.var(ddof=1)) - float(special.polygamma(1, df / 2))
    most = df * (len(known) - 1)
    if beyond <= 0:  # no further apart than chance: they share one variance
        return Prior(math.exp(mean), most)
    prior_df = min(2 * _trigamma_inverse(beyond), most)
    scale = mean + float(special.digamma(prior_df / 2)) - math.log(prior_df / 2)
    return Prior(math.exp(scale), prior_df)


def _trigamma_inverse(value: float) -> float:
    """The number whose trigamma function is `value`, by Newton's method (Smyth 2004, appendix)."""
    from scipy import special

    y = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(special.polygamma(1, y))
        step = trigamma * (1 - trigamma / value) / float(special.polygamma(2, y))
        y += step
        if -step / y < 1e-8:
            break
    return y


# -- looked at as often as one likes -----------------------------------------------------------


def anytime_interval(mean: Estimate, alpha: float = ALPHA) -> tuple[float, float] | None:
    """The interval around a mean that holds at every moment at once, however often and for whatever
    reason one looks: the chance that it ever misses is about `alpha`.

    The asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas (2024,
    theorem 2.2) over batches, with Student's t for the normal distribution. None while there are
    too few batches.
    """
    t = mean.n / BATCH_ROUNDS
    if t < _LEAST_LOOKED_AT:
        return None
    # Narrowest at about `_NARROWEST` batches (ibid., appendix B.2).
    rho2 = (-2 * math.log(alpha) + math.log(-2 * math.log(alpha) + 1)) / _NARROWEST
    grown = t * rho2 + 1
    # In standard errors of the mean: that of one batch is √t times as large.
    wide = math.sqrt(grown / (t * rho2) * math.log(grown / alpha**2))
    # The error is itself an estimate: Student's t where the tail of the normal is as thin.
    half = student.quantile(1 - student.probability_below(-wide, _NORMAL), mean.df) * mean.se
    return mean.mean - half, mean.mean + half


def level_of_look(look: int, alpha: float = ALPHA) -> float:
    """The level of the look after each further load, from 1: the chance that any look is wrong is
    at most `alpha` (the union bound: 6/π² Σ 1/j² = 1)."""
    return alpha * 6 / (math.pi * look) ** 2


# -- quantiles of latency ----------------------------------------------------------------------


#: Batches of neighbouring rounds, each with the histograms of its slices: HDR V2 in nanoseconds.
Batches = Sequence[Sequence[bytes]]
#: Arms whose logarithms are added with these weights: one alone, or two of which a value between
#: them is read off.
Weighted = Sequence[tuple[float, Batches]]


def log_quantile_ratio(a: Weighted, b: Weighted, quantile: float) -> Estimate:
    """The logarithm of B over A of a quantile of latency, over all slices pooled.

    The unit of resampling is the batch of neighbouring rounds, drawn as a whole for all arms at
    once (the block bootstrap of Künsch 1989 with blocks that do not overlap), since the slow
    requests of a moment come together, and on both sides.

    Args:
        a, b: the arms of each side, all with as many batches, none of them empty.
        quantile: the quantile, between 0 and 1.

    Raises:
        ValueError: too few batches, or not as many of each arm.
    """
    signed = [*((-weight, arm) for weight, arm in a), *((weight, arm) for weight, arm in b)]
    numbers = {len(arm) for _, arm in signed}
    batches = min(numbers)
    if len(numbers) > 1 or batches < LEAST_BATCHES:
        raise ValueError(f"{numbers} batches: {LEAST_BATCHES} are needed, and as many of each arm")
    counts = [(weight, *_counts(arm)) for weight, arm in signed]
    rng = np.random.default_rng(_SEED)
    times = rng.multinomial(batches, np.full(batches, 1 / batches), size=_RESAMPLES)
    times = np.vstack([np.ones(batches, np.int64), times])
    found = np.zeros(len(times))
    for weight, upto, number in counts:
        found += weight * np.log(_quantiles(times, upto, number, quantile))
    # A bootstrap over n units gives n - 1 of n parts of the variance.
    se = float(found[1:].std()) * math.sqrt(batches / (batches - 1))
    rounds = sum(len(batch) for batch in signed[0][1])
    return Estimate(float(found[0]), se, float(batches - 1), rounds, batches)


def _counts(batches: Batches) -> tuple[_Floats, _Floats]:
    """Bounds of all buckets (m,) in microseconds, and the counts of each batch in them (n, m)."""
    found = [[histogram_buckets(one) for one in slices] for slices in batches]
    bounds = np.unique(np.concatenate([upto for slices in found for upto, _ in slices]))
    counts = np.zeros((len(batches), len(bounds)))
    for row, slices in zip(counts, found, strict=True):
        for upto, number in slices:
            row[np.searchsorted(bounds, upto)] += number
    return bounds, counts


def _quantiles(
    times: NDArray[np.int64], bounds: _Floats, counts: _Floats, quantile: float
) -> _Floats:
    """Quantiles (r,) of r resamples; `times` (r, n) is how often each of them takes each batch."""
    upto = np.cumsum(times @ counts, axis=1)
    wanted = np.maximum(1.0, np.ceil(quantile * upto[:, -1:]))
    found: _Floats = bounds[(upto >= wanted).argmax(axis=1)]
    return found


def batches_of(rounds: int) -> list[slice]:
    """The rounds, 0 to `rounds`, split into batches as in `estimate`."""
    batches = max(LEAST_BATCHES, min(MOST_BATCHES, rounds // BATCH_ROUNDS))
    edges = np.linspace(0, rounds, batches + 1).round().astype(int).tolist()
    return [slice(low, high) for low, high in pairwise(edges)]
