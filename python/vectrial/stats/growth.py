"""Growth of a measured quantity with the number of rows: laws, their fit, and forecasts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from vectrial.stats import student
from vectrial.stats.turns import Prior

#: Sizes that a forecast needs: three are fitted, and the next one chooses between the laws.
LEAST_SIZES = 4
#: Share of forecasts that lie inside their interval.
COVERAGE = 0.8

#: Relative error of a measurement that nothing shown by few sizes makes smaller.
_LEAST_ERROR = 0.01
#: Largest relative error of a law that counts as rounding, for example to whole blocks: the law
#: then describes an exact quantity, not a measurement with noise.
_ROUNDING = 5e-3
#: A law that falls below this share of every measured value says nothing there.
_LEAST_SHARE = 1e-6
#: Logarithm of the greatest value that a forecast says: an interval may be without any bounds.
_MOST_LOG = 700.0
_FITTED = 3


class Law(StrEnum):
    """A law of growth with the number of rows n: a level a and a slope b ≥ 0, or a power."""

    LOG = "a + b·log n"
    LINEAR = "a + b·n"
    N_LOG_N = "a + b·n·log n"
    POWER = "a·n^b"


@dataclass(frozen=True)
class SizedValues:
    """Values of one quantity at several sizes.

    rows: different sizes, ascending. values: as many positive values.
    floor: errors are relative to a value above it, and absolute below it: what is small beside a
        constant of the process, such as its heap, is not known to a few per cent.
    trust: share of the weight that each value has; less than 1 for a disturbed one. Empty: all 1.
    medians: at each size the median that the quantity follows, such as the median latency for
        p99; empty if there is none.
    """

    rows: Sequence[float]
    values: Sequence[float]
    floor: float = 0.0
    trust: Sequence[float] = ()
    medians: Sequence[float] = ()

    def first(self, count: int) -> SizedValues:
        """The values at the `count` smallest sizes."""
        return replace(
            self,
            rows=self.rows[:count],
            values=self.values[:count],
            trust=self.trust[:count],
            medians=self.medians[:count],
        )

    def scales(self) -> NDArray[np.float64]:
        """The size of an error at each value, up to a factor that all share."""
        values = np.asarray(self.values, np.float64)
        return np.hypot(values, self.floor) / np.sqrt(self.trust or np.ones(len(values)))

    def check(self) -> None:
        """Check that a growth can be fitted.

        Raises:
            ValueError: it cannot.
        """
        rows, values = self.rows, self.values
        if len(rows) < LEAST_SIZES or len(rows) != len(values):
            raise ValueError(f"a forecast needs at least {LEAST_SIZES} sizes with a value each")
        if any(second <= first for first, second in pairwise(rows)) or rows[0] < 2:
            raise ValueError("sizes are ascending numbers of rows, two or more")
        if not all(0 < value < math.inf for value in (*values, *self.medians)):
            raise ValueError("values are positive")
        if any(len(one) not in (0, len(rows)) for one in (self.trust, self.medians)):
            raise ValueError("as many sizes have a trust, and a median, as have a value")
        if not all(0 < one <= 1 for one in self.trust) or not 0 <= self.floor < math.inf:
            raise ValueError("trust is above 0 and at most 1, and a floor is not negative")


_SHAPES: dict[Law, Callable[[float], float]] = {
    Law.LOG: math.log,
    Law.LINEAR: float,
    Law.N_LOG_N: lambda rows: rows * math.log(rows),
}


@dataclass(frozen=True)
class Forecast:
    """A quantity at a number of rows: the median of the laws' predictions, and the interval that
    holds it with probability `COVERAGE`."""

    rows: float
    value: float
    low: float
    high: float

    def contains(self, measured: float) -> bool:
        """True if a measured value lies in the interval."""
        return self.low <= measured <= self.high

    def at_least(self, least: float) -> Forecast:
        """The forecast limited to values of at least `least`."""
        return Forecast(self.rows, *(max(one, least) for one in (self.value, self.low, self.high)))

    def error(self, measured: float) -> float:
        """Distance of a measured value from the forecast, in half widths of the interval on that
        side: at most 1 inside."""
        distance = math.log(measured / self.value)
        end = self.high if distance > 0 else self.low
        width = abs(math.log(end / self.value))
        return abs(distance) / width if width else math.inf


@dataclass(frozen=True)
class FittedLaw:
    """One law fitted to some sizes.

    error: standard deviation of the residuals (relative), with `freedom` degrees of freedom.
    spread(rows): logarithm of the value, and its standard error in units of `error`, which grows
        with the distance from the sizes. beside: standard error of the quantity's ratio to its
        median, if the law is the median's.
    """

    law: Law
    freedom: float
    error: float
    spread: Callable[[float], tuple[float, float]]
    beside: float = 0.0

    def prediction(self, rows: float) -> tuple[float, float]:
        """Logarithm of the value at a number of rows, and its standard error there (relative)."""
        value, spread = self.spread(rows)
        return value, math.hypot(self.error * spread, self.beside)

    def moderated(self, prior: Prior) -> FittedLaw:
        """The law with an error that a prior moderates (Smyth 2004, equation 2)."""
        freedom = self.freedom + prior.df
        square = (prior.df * prior.variance + self.freedom * self.error**2) / freedom
        return replace(self, freedom=freedom, error=math.sqrt(square))


@dataclass(frozen=True)
class Growth:
    """The laws of one quantity, fitted to its measured sizes.

    fits, weights: per law; the weights add up to 1. checks: each size from the fourth on beside its
        forecast by the sizes below it. sizes: the smallest and the largest. drift: see `growth`.
    """

    fits: tuple[FittedLaw, ...]
    weights: tuple[float, ...]
    checks: tuple[tuple[Forecast, float], ...]
    sizes: tuple[float, float]
    drift: float

    @property
    def fit(self) -> FittedLaw:
        """The fitted law with the greatest weight."""
        return max(zip(self.weights, self.fits, strict=True), key=lambda one: one[0])[1]

    @property
    def law(self) -> Law:
        """The law with the greatest weight."""
        return self.fit.law

    def moderated(self, prior: Prior) -> Growth:
        """The growth with errors that a prior moderates: see `prior_of`."""
        return replace(self, fits=tuple(fit.moderated(prior) for fit in self.fits))

    def forecast(self, rows: float, widening: float = 1.0) -> Forecast:
        """The forecast at a number of rows.

        widening: factor on the logarithmic width of the interval; see `widening_factor`.
        """
        away = self.drift * self._log_distance(rows)
        parts = [
            (centre, math.hypot(error, away))
            for centre, error in (fit.prediction(rows) for fit in self.fits)
        ]
        low, middle, high = (
            self._quantile(parts, quantile)
            for quantile in ((1 - COVERAGE) / 2, 0.5, (1 + COVERAGE) / 2)
        )
        ends = (middle + widening * (end - middle) for end in (low, high))
        return Forecast(rows, *map(_exp, (middle, *ends)))

    def _log_distance(self, rows: float) -> float:
        """Logarithm of the factor between a number of rows and the nearest measured size."""
        low, high = self.sizes
        return max(0.0, math.log(rows / high), math.log(low / rows))

    def _quantile(self, parts: Sequence[tuple[float, float]], quantile: float) -> float:
        """Quantile of the mixture of the laws' t distributions."""
        from scipy import optimize  # every report imports this file, and few need it

        def share_below(value: float) -> float:
            return math.fsum(
                weight * student.probability_below((value - centre) / error, fit.freedom)
                for weight, fit, (centre, error) in zip(self.weights, self.fits, parts, strict=True)
            )

        # Each law's own quantiles enclose that of the mixture.
        own = [
            centre + error * student.quantile(quantile, fit.freedom)
            for fit, (centre, error) in zip(self.fits, parts, strict=True)
        ]
        margin = 1e-9 * (1.0 + max(map(abs, own)))
        low, high = min(own) - margin, max(own) + margin
        return float(optimize.brentq(lambda value: share_below(value) - quantile, low, high))


def growth(sizes: SizedValues, laws: Sequence[Law], drift: float = 0.0) -> Growth:
    """Fit `laws` to measured values.

    Each law is fitted by least squares of relative errors. Its weight says how well it forecasts:
    fitted to the first three sizes, to the first four and so on, it predicts each larger one
    (forecasts from a rolling origin; Hyndman & Athanasopoulos 2021, section 5.10), and the weight
    is the likelihood of these errors under a normal distribution with their own variance. A
    forecast is the mixture of the laws' predictive t distributions (Draper & Smith 1998, section
    1.4), so that its width reflects how much the laws disagree.

    If there are medians, each law is fitted to them as well, and leads to the quantity by its
    ratio to the median, which does not depend on the size: a tail that few requests decide, or a
    rate that the machine was kept from, is forecast by what is known better.

    Args:
        laws: at least one.
        drift: standard deviation of the best law's error beyond the measured sizes, as a share of
            the value, for each factor e of distance: no residual reveals a cache that ends, or a
            merge that only large sizes have.

    Raises:
        ValueError: the sizes cannot be fitted (`SizedValues.check`), or there is no law.
    """
    sizes.check()
    if not laws:
        raise ValueError("a forecast needs laws")
    checks = []
    for fitted in range(_FITTED, len(sizes.rows)):
        before = _weigh_laws(sizes.first(fitted), laws, (), drift)
        checks.append((before.forecast(float(sizes.rows[fitted])), float(sizes.values[fitted])))
    return _weigh_laws(sizes, laws, checks, drift)


def exact_growth(sizes: SizedValues, law: Law) -> Growth | None:
    """The growth of a deterministic quantity, such as the bytes of a file: every size lies on one
    law but for rounding, and neither a prior error nor a drift widens the interval. None if any
    size does not. Errors: see `growth`."""
    sizes.check()
    sizes = SizedValues(sizes.rows, sizes.values)
    fit = _fit(law, sizes, _ROUNDING)
    predicted = [fit.prediction(float(one))[0] for one in sizes.rows]
    if np.abs(np.array(predicted) - np.log(sizes.values)).max() > _ROUNDING:
        return None
    return Growth((fit,), (1.0,), (), (float(sizes.rows[0]), float(sizes.rows[-1])), 0.0)


def widening_factor(checks: Sequence[tuple[Forecast, float]]) -> float:
    """Factor by which intervals must be wider for `COVERAGE` of these forecasts to lie inside
    theirs; at least 1.

    checks: forecasts beside measured values, of several growths of one kind of quantity.
    """
    if not checks:
        return 1.0
    errors = [forecast.error(measured) for forecast, measured in checks]
    return max(1.0, float(np.quantile(errors, COVERAGE, method="higher")))


def _exp(value: float) -> float:
    return math.exp(max(-_MOST_LOG, min(value, _MOST_LOG)))


def _weigh_laws(
    sizes: SizedValues,
    laws: Sequence[Law],
    checks: Sequence[tuple[Forecast, float]],
    drift: float,
) -> Growth:
    ways = _fits(sizes, laws)
    squares = _forecast_errors(sizes, laws)
    held_out = len(sizes.rows) - _FITTED
    logs = np.array([-0.5 * held_out * math.log(square) for square in squares])
    weights = np.exp(logs - logs.max())
    shares = tuple((weights / weights.sum()).tolist())
    ends = float(sizes.rows[0]), float(sizes.rows[-1])
    return Growth(ways, shares, tuple(checks), ends, drift)


def _fits(sizes: SizedValues, laws: Sequence[Law]) -> tuple[FittedLaw, ...]:
    """Every law, fitted to the values, and through the medians if there are any."""
    fits = [_fit(law, sizes, _LEAST_ERROR) for law in laws]
    if sizes.medians:
        fits += [_through_median(law, sizes) for law in laws]
    return tuple(fits)


def _forecast_errors(sizes: SizedValues, laws: Sequence[Law]) -> list[float]:
    """For each of `_fits`, the mean square of its relative forecast errors from each origin."""
    values, scales = np.asarray(sizes.values, np.float64), sizes.scales()
    errors: list[list[float]] = []
    for fitted in range(_FITTED, len(values)):
        fits = _fits(sizes.first(fitted), laws)
        errors += [
            [(fit.prediction(float(n))[0] - math.log(y)) ** 2 * (y / scale) ** 2 for fit in fits]
            for n, y, scale in zip(
                sizes.rows[fitted:], values[fitted:], scales[fitted:], strict=True
            )
        ]
    if not errors:  # three sizes choose between no laws
        return [1.0] * len(_fits(sizes, laws))
    return [float(one) for one in _LEAST_ERROR**2 + np.mean(errors, axis=0)]


def _fit(law: Law, sizes: SizedValues, least_error: float) -> FittedLaw:
    if law is Law.POWER:
        return _power(sizes, least_error)
    shape = _SHAPES[law]
    grown = np.array([shape(float(n)) for n in sizes.rows])
    values, scales = np.asarray(sizes.values, np.float64), sizes.scales()
    design = np.column_stack([np.ones_like(grown), grown]) / scales[:, None]
    target = values / scales
    factors = np.linalg.lstsq(design, target, rcond=None)[0]
    # A cost that falls with the rows, or is negative without any, is of no law here: it is noise.
    for factor, least in ((1, 0.0), (0, -np.inf if law is Law.LOG else 0.0)):
        if factors[factor] < least:
            other = design[:, 1 - factor]
            factors = np.zeros(2)
            factors[1 - factor] = (other @ target) / (other @ other)
    # One that is held at its bound is uncertain all the same.
    freedom = len(values) - 2
    error = _residual(design @ factors - target, freedom, least_error)
    spread = np.linalg.pinv(design.T @ design)
    least_value = float(values.min()) * _LEAST_SHARE

    def at_rows(n: float) -> tuple[float, float]:
        at = np.array([1.0, shape(n)])
        value = max(float(at @ factors), least_value)
        own = value**2 + sizes.floor**2
        return math.log(value), math.sqrt(own + float(at @ spread @ at)) / value

    return FittedLaw(law, freedom, error, at_rows)


def _power(sizes: SizedValues, least_error: float) -> FittedLaw:
    values = np.asarray(sizes.values, np.float64)
    scales = sizes.scales() / values
    design = np.column_stack([np.ones_like(values), np.log(sizes.rows)]) / scales[:, None]
    target = np.log(values) / scales
    factors = np.linalg.lstsq(design, target, rcond=None)[0]
    freedom = len(values) - 2
    error = _residual(design @ factors - target, freedom, least_error)
    spread = np.linalg.pinv(design.T @ design)

    def at_rows(n: float) -> tuple[float, float]:
        at = np.array([1.0, math.log(n)])
        value = float(at @ factors)
        own = 1.0 + (sizes.floor * _exp(-value)) ** 2
        return value, math.sqrt(own + float(at @ spread @ at))

    return FittedLaw(Law.POWER, freedom, error, at_rows)


def _through_median(law: Law, sizes: SizedValues) -> FittedLaw:
    """A law of the median, with the ratio of the quantity to it."""
    fit = _fit(law, replace(sizes, values=sizes.medians, floor=0.0), _LEAST_ERROR)
    weights = np.asarray(sizes.trust or np.ones(len(sizes.values)), np.float64)
    ratios = np.log(sizes.values) - np.log(sizes.medians)
    mean = float(np.average(ratios, weights=weights))
    squares = float(weights @ (ratios - mean) ** 2) / (len(ratios) - 1)
    beside = math.sqrt(squares * (1 + 1 / len(ratios)))

    def at_rows(n: float) -> tuple[float, float]:
        value, spread = fit.spread(n)
        return value + mean, spread

    return FittedLaw(law, fit.freedom, fit.error, at_rows, beside)


def _residual(errors: NDArray[np.float64], freedom: int, least: float) -> float:
    return max(math.sqrt(float(errors @ errors) / freedom), least)
