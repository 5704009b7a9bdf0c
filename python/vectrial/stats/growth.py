"""Growth of a measured quantity with the number of rows: laws, their fit, and forecasts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from vectrial.stats import student

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

    prediction(rows): logarithm of the value, and its standard error there (relative), which grows
    with the distance from the sizes. freedom: degrees of freedom of Student's t.
    """

    law: Law
    freedom: int
    prediction: Callable[[float], tuple[float, float]]


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
    def law(self) -> Law:
        """The law with the greatest weight."""
        return max(zip(self.weights, self.fits, strict=True), key=lambda one: one[0])[1].law

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


def growth(
    rows: Sequence[float], values: Sequence[float], laws: Sequence[Law], drift: float = 0.0
) -> Growth:
    """Fit `laws` to measured values.

    Each law is fitted by least squares of relative errors. Its weight says how well it forecasts:
    fitted to the first three sizes, to the first four and so on, it predicts each larger one
    (forecasts from a rolling origin; Hyndman & Athanasopoulos 2021, section 5.10), and the weight
    is the likelihood of these errors under a normal distribution with their own variance. A
    forecast is the mixture of the laws' predictive t distributions (Draper & Smith 1998, section
    1.4), so that its width reflects how much the laws disagree.

    Args:
        rows: at least `LEAST_SIZES` different sizes, ascending.
        values: as many positive values.
        laws: at least one.
        drift: standard deviation of the best law's error beyond the measured sizes, as a share of
            the value, for each factor e of distance: no residual reveals a cache that ends, or a
            merge that only large sizes have.

    Raises:
        ValueError: anything else.
    """
    _check(rows, values, laws)
    n, y = np.asarray(rows, np.float64), np.asarray(values, np.float64)
    checks = []
    for fitted in range(_FITTED, len(n)):
        before = _weigh_laws(n[:fitted], y[:fitted], laws, (), drift, _LEAST_ERROR)
        checks.append((before.forecast(float(n[fitted])), float(y[fitted])))
    return _weigh_laws(n, y, laws, checks, drift, _LEAST_ERROR)


def exact_growth(rows: Sequence[float], values: Sequence[float], law: Law) -> Growth | None:
    """The growth of a deterministic quantity, such as the bytes of a file: every size lies on one
    law but for rounding, and neither a prior error nor a drift widens the interval. None if any
    size does not. Arguments and errors: see `growth`."""
    _check(rows, values, [law])
    n, y = np.asarray(rows, np.float64), np.asarray(values, np.float64)
    fit = _fit(law, n, y, _ROUNDING)
    predicted = [fit.prediction(float(one))[0] for one in n]
    if np.abs(np.array(predicted) - np.log(y)).max() > _ROUNDING:
        return None
    return _weigh_laws(n, y, [law], (), 0.0, _ROUNDING)


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


def _check(rows: Sequence[float], values: Sequence[float], laws: Sequence[Law]) -> None:
    if len(rows) < LEAST_SIZES or len(rows) != len(values) or not laws:
        raise ValueError(
            f"a forecast needs laws and at least {LEAST_SIZES} sizes with a value each"
        )
    if any(second <= first for first, second in pairwise(rows)) or rows[0] < 2:
        raise ValueError("sizes are ascending numbers of rows, two or more")
    if not all(0 < value < math.inf for value in values):
        raise ValueError("values are positive")


def _weigh_laws(
    rows: NDArray[np.float64],
    values: NDArray[np.float64],
    laws: Sequence[Law],
    checks: Sequence[tuple[Forecast, float]],
    drift: float,
    least_error: float,
) -> Growth:
    fits = tuple(_fit(law, rows, values, least_error) for law in laws)
    squares = [_forecast_error(law, rows, values) for law in laws]
    held_out = len(rows) - _FITTED
    logs = np.array([-0.5 * held_out * math.log(square) for square in squares])
    weights = np.exp(logs - logs.max())
    shares = tuple((weights / weights.sum()).tolist())
    return Growth(fits, shares, tuple(checks), (float(rows[0]), float(rows[-1])), drift)


def _forecast_error(law: Law, rows: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """Mean square of the logarithmic forecast errors from each origin."""
    errors = [_LEAST_ERROR**2]
    for fitted in range(_FITTED, len(rows)):
        fit = _fit(law, rows[:fitted], values[:fitted], _LEAST_ERROR)
        errors += [
            _LEAST_ERROR**2 + (fit.prediction(float(n))[0] - math.log(y)) ** 2
            for n, y in zip(rows[fitted:], values[fitted:], strict=True)
        ]
    return float(np.mean(errors[1:] or errors))


def _fit(
    law: Law, rows: NDArray[np.float64], values: NDArray[np.float64], least_error: float
) -> FittedLaw:
    if law is Law.POWER:
        return _power(rows, values, least_error)
    shape = _SHAPES[law]
    grown = np.array([shape(float(n)) for n in rows])
    design = np.column_stack([np.ones_like(grown), grown]) / values[:, None]
    factors = np.linalg.lstsq(design, np.ones_like(values), rcond=None)[0]
    # A cost that falls with the rows, or is negative without any, is of no law here: it is noise.
    for factor, least in ((1, 0.0), (0, -np.inf if law is Law.LOG else 0.0)):
        if factors[factor] < least:
            other = design[:, 1 - factor]
            factors = np.zeros(2)
            factors[1 - factor] = other.sum() / (other @ other)
    # One that is held at its bound is uncertain all the same.
    freedom = len(values) - 2
    error = _residual(design @ factors - 1.0, freedom, least_error)
    spread = np.linalg.pinv(design.T @ design)
    least_value = float(values.min()) * _LEAST_SHARE

    def prediction(n: float) -> tuple[float, float]:
        at = np.array([1.0, shape(n)])
        value = max(float(at @ factors), least_value)
        return math.log(value), error * math.sqrt(1.0 + float(at @ spread @ at) / value**2)

    return FittedLaw(law, freedom, prediction)


def _power(rows: NDArray[np.float64], values: NDArray[np.float64], least_error: float) -> FittedLaw:
    design = np.column_stack([np.ones_like(rows), np.log(rows)])
    target = np.log(values)
    factors = np.linalg.lstsq(design, target, rcond=None)[0]
    freedom = len(values) - 2
    error = _residual(design @ factors - target, freedom, least_error)
    spread = np.linalg.pinv(design.T @ design)

    def prediction(n: float) -> tuple[float, float]:
        at = np.array([1.0, math.log(n)])
        return float(at @ factors), error * math.sqrt(1.0 + float(at @ spread @ at))

    return FittedLaw(Law.POWER, freedom, prediction)


def _residual(errors: NDArray[np.float64], freedom: int, least: float) -> float:
    return max(math.sqrt(float(errors @ errors) / freedom), least)
