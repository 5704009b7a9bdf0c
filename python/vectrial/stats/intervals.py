"""Spread of the repeats of one measurement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import histogram_merge, histogram_quantiles

#: Least number of repeats whose range is reported as an interval.
LEAST_REPEATS = 3
#: Up to this many values the bootstrap 95 % interval of the median is their range: more than 2.5 %
#: of the resamples of five have the least value three times or more (5.8 %), of six 0.9 %.
RANGE_REPEATS = 5

_RESAMPLES = 4000
#: Resamples whose histograms are merged: a merge takes some tens of microseconds.
_POOLED = 1000
_SEED = 20_260_101


@dataclass(frozen=True)
class Spread:
    """The median of `n` repeats and their spread.

    low, high: from six repeats on the bootstrap 95 % interval of the median (`interval`), with two
        to five their range (`range`), which from three on is that interval too; with one the value
        itself (`single`).
    """

    n: int
    median: float
    low: float
    high: float
    kind: Literal["interval", "range", "single"]

    def overlaps(self, other: Spread) -> bool:
        """True if the two ranges share a value; then neither median is shown to be the greater."""
        return self.low <= other.high and other.low <= self.high

    @property
    def meaning(self) -> str:
        """Meaning of `low` and `high`, in words."""
        if self.kind == "interval":
            return f"bootstrap 95 % interval of the median of {self.n} repeats"
        if self.n >= LEAST_REPEATS:
            return f"min–max of {self.n} repeats, all that a bootstrap 95 % interval says of so few"
        if self.kind == "range":
            return f"min–max of {self.n} repeats: no interval"
        return "1 repeat: no interval"


def spread_of(values: Sequence[float]) -> Spread:
    """Median and spread of the repeats of one measurement, in any order.

    Raises:
        ValueError: there are no values, or one is not finite.
    """
    if not values:
        raise ValueError("a spread needs at least one value")
    if not all(math.isfinite(value) for value in values):
        raise ValueError("a spread needs finite values")
    n = len(values)
    median = float(np.median(values))
    if n == 1:
        return Spread(1, median, median, median, "single")
    if n <= RANGE_REPEATS:
        return Spread(n, median, float(min(values)), float(max(values)), "range")
    low, high = median_interval(values)
    return Spread(n, median, low, high, "interval")


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Percentile bootstrap interval of the median (Efron & Tibshirani 1993, chapter 13).

    The resamples are drawn with a fixed seed: the same values give the same interval. At 95 % the
    interval of five values or fewer is their range, which is all that so few can say: it holds the
    true median of three 75 %, of four 87.5 % and of five 93.75 % of the time.

    Args:
        values: at least one finite value; one value gives an interval of no width.
        confidence: between 0 and 1, both excluded.

    Raises:
        ValueError: no values, or a confidence out of range.
    """
    if not values:
        raise ValueError("an interval needs at least one value")
    sample = np.sort(np.asarray(values, dtype=np.float64))
    below, above = (sample[places] for places in _middle_indices(len(sample)))
    # Halves, since the sum may overflow; a half of the least number above zero is zero.
    return _middle_bounds(np.clip(below / 2 + above / 2, below, above), confidence)


def pooled_interval(
    histograms: Sequence[bytes], quantile: float, confidence: float = 0.95
) -> tuple[float, float, float]:
    """A percentile of all requests of all repeats, with its interval: value, low, high in µs.

    Repeats are drawn whole, with all their requests, and merged without loss (the cluster
    bootstrap of Davison & Hinkley 1997, section 3.8): requests of one repeat are not independent.

    Args:
        histograms: latency of each repeat, HDR V2 in nanoseconds, none of them empty.

    Raises:
        ValueError: no histograms, or a quantile or confidence out of range.
    """
    if not histograms:
        raise ValueError("an interval needs at least one histogram")
    if not 0 <= quantile <= 1:
        raise ValueError("a quantile lies between 0 and 1")
    n = len(histograms)
    drawn = [tuple(sorted(row)) for row in _draws(n)[:_POOLED].tolist()]
    merged: dict[tuple[int, ...], float] = {}
    for row in {*drawn, tuple(range(n))}:
        merged[row] = _quantile_of([histograms[i] for i in row], quantile)
    low, high = _middle_bounds(np.array([merged[row] for row in drawn]), confidence)
    return merged[tuple(range(n))], low, high


def _quantile_of(parts: list[bytes], quantile: float) -> float:
    return histogram_quantiles(histogram_merge(parts), [quantile])[0]


def _middle_bounds(found: NDArray[np.float64], confidence: float) -> tuple[float, float]:
    """Bounds of the middle `confidence` share of the resampled figures."""
    low, high = np.sort(found)[list(_ranks(len(found), confidence))]
    return float(low), float(high)


@lru_cache(maxsize=64)
def _ranks(n: int, confidence: float) -> tuple[int, int]:
    """Ranks of the bounds of the middle share among n sorted figures."""
    if not 0 < confidence < 1:
        raise ValueError("confidence lies between 0 and 1")
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.arange(n), [tail, 1 - tail], method="inverted_cdf")
    return int(low), int(high)


@lru_cache(maxsize=64)
def _middle_indices(n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices of the two middle values of each resample, the same if n is odd: for n sorted values,
    the indices do not depend on the values."""
    drawn = np.sort(_draws(n), axis=1)
    return drawn[:, (n - 1) // 2].copy(), drawn[:, n // 2].copy()


@lru_cache(maxsize=64)
def _draws(n: int) -> NDArray[np.int64]:
    """Indices of the resamples of n values, (resamples, n)."""
    return np.random.default_rng(_SEED + n).integers(0, n, size=(_RESAMPLES, n))
