"""Forecasts of what grows with the rows in a run that measured several sizes of a dataset."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from vectrial.analysis.growth_curves import Curve, Quantity
from vectrial.analysis.run_data import Point
from vectrial.stats.growth import Forecast, Growth, Law, widening_factor
from vectrial.stats.turns import Prior, prior_of
from vectrial.util import formatting

#: A forecast that is further away, as a multiple of the largest size, needs a larger size first.
_FAR = 4
#: An interval whose ends are further apart than this factor says nothing that one can plan with.
TOO_WIDE = 5.0


@dataclass(frozen=True)
class Outlook:
    """A curve with its forecast at some number of rows; measured: the value there, if known."""

    curve: Curve
    law: Law
    forecast: Forecast
    measured: float | None = None
    source: tuple[Point, ...] = ()

    @property
    def is_in_interval(self) -> bool | None:
        """True if the measured value lies in the interval; None without a measured value."""
        return None if self.measured is None else self.forecast.contains(self.measured)

    @property
    def too_wide(self) -> bool:
        """True if the interval is too wide to plan with."""
        return self.forecast.high > TOO_WIDE * self.forecast.low

    @property
    def remedy(self) -> str:
        """How to narrow the interval."""
        if disturbed := self.curve.disturbed:
            again = formatting.list_in_words([f"{rows:,}" for rows in disturbed])
            return f"measure {again} rows again on a quiet machine"
        if self.forecast.rows > _FAR * self.curve.sizes[-1]:
            return "measure a larger size"
        return "measure more repeats, and a larger size"


def outlooks(found: Iterable[Curve], rows: float) -> list[Outlook]:
    """The forecasts of curves at a number of rows, except curves that have no growth or whose
    smallest size has more rows.

    All curves of a quantity together say how noisy it is on the machine (`stats.turns.prior_of`),
    and intervals are wider if the run's own larger sizes were forecast badly from its smaller ones
    (`stats.growth.widening_factor`).
    """
    grown = [
        (curve, fitted)
        for curve in found
        if (fitted := curve.growth) is not None and rows >= curve.sizes[0]
    ]
    # An exact growth has no noise: it needs no prior, and says nothing about that of others.
    alike: dict[Quantity, list[tuple[Curve, Growth]]] = defaultdict(list)
    for curve, fitted in grown:
        if fitted.checks:
            alike[_alike(curve.quantity)].append((curve, fitted))
    priors = {quantity: _noise(members) for quantity, members in alike.items()}
    factors = {
        quantity: widening_factor([check for _, fitted in members for check in fitted.checks])
        for quantity, members in alike.items()
    }
    made = []
    for curve, fitted in grown:
        group = _alike(curve.quantity)
        if fitted.checks:
            fitted = fitted.moderated(priors[group])
        forecast = fitted.forecast(rows, factors[group] if fitted.checks else 1.0)
        forecast = forecast.at_least(curve.least_bytes_per_row * rows)
        made.append(Outlook(curve, fitted.law, curve.quantity.forecast(forecast)))
    return made


def _alike(quantity: Quantity) -> Quantity:
    """The quantity for all settings, and for exact indexes and others."""
    return replace(quantity, setting=(), exact=False)


def _noise(members: Sequence[tuple[Curve, Growth]]) -> Prior:
    """The prior of the variance around the laws, from all curves of one quantity. Only curves with
    the most common number of sizes count."""
    freedoms = [fitted.fit.freedom for _, fitted in members]
    usual = max(freedoms, key=freedoms.count)
    variances: dict[str, list[float]] = defaultdict(list)
    for curve, fitted in members:
        if fitted.fit.freedom == usual:
            variances[str(curve.build)].append(fitted.fit.error**2)
    return prior_of(variances, usual)


def holdout_checks(found: Sequence[Curve], rows: int) -> list[Outlook]:
    """The forecasts, from sizes below `rows` alone, of each curve's largest size if it has at least
    `rows` rows, together with the measured value."""
    largest: dict[int, list[Curve]] = defaultdict(list)
    for curve in found:
        if curve.sizes[-1] >= rows:
            largest[curve.sizes[-1]].append(curve)
    made = []
    for size, members in largest.items():
        known = {(curve.build, curve.quantity): curve for curve in members}
        for outlook in outlooks([curve.below(rows) for curve in members], size):
            curve = known[outlook.curve.build, outlook.curve.quantity]
            made.append(replace(outlook, measured=curve.values[-1], source=curve.points[-1]))
    return made
