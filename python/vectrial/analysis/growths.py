"""Quantities that grow with the rows, in a run that measured several sizes, and their forecasts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from vectrial.analysis.analysis import TARGETS, clients_of, closed_loops, loaded_rows
from vectrial.analysis.run_data import Point, RunData
from vectrial.analysis.trial import stable_text
from vectrial.model.phase import Role
from vectrial.model.results_schema import METRICS
from vectrial.model.trial import Series
from vectrial.stats.curves import read_within
from vectrial.stats.growth import (
    LEAST_SIZES,
    Forecast,
    Growth,
    Law,
    exact_growth,
    growth,
    widening_factor,
)

#: Work for each query of a graph grows about with log n; what departs from that is left to a power.
_QUERY = (Law.LOG, Law.POWER)
_STORED = (Law.LINEAR,)
_LOADED = (Law.LINEAR, Law.N_LOG_N, Law.POWER)
#: Laws of each metric, and its drift (`stats.growth.growth`): the least with which (n + 1)·0.8 of n
#: forecasts of a million rows hold that suites/growth.toml gave, by up to 100,000 and by up to
#: 200,000 rows of six stores. docs/forecast.md tells how they hold for a store that is left out.
_KINDS: Mapping[str, tuple[tuple[Law, ...], float]] = {
    "ready_s": (_LOADED, 0.40),
    "rss_growth_bytes": (_STORED, 0.12),
    "disk_bytes": (_STORED, 0.25),
    "qps": (_QUERY, 0.08),
    "latency_p99": (_QUERY, 0.08),
}


@dataclass(frozen=True)
class Quantity:
    """A metric that is forecast.

    clients: number of clients of its searches; None if it is not a metric of searches.
    """

    metric: str
    clients: int | None = None

    @property
    def laws(self) -> tuple[Law, ...]:
        """Laws by which the quantity may grow; for QPS, the laws of the time per query."""
        return _KINDS[self.metric][0]

    @property
    def is_stored(self) -> bool:
        """True if the quantity is a number of bytes in which each row is stored once."""
        return self.laws == _STORED

    @property
    def drift(self) -> float:
        """Drift of the quantity; see `stats.growth.growth`."""
        return _KINDS[self.metric][1]

    @property
    def unit(self) -> str:
        """Unit in which the results hold the quantity."""
        return METRICS[self.metric].unit

    @property
    def is_inverse(self) -> bool:
        """True if the laws apply to the reciprocal of the quantity."""
        return self.metric == "qps"


@dataclass(frozen=True)
class GrowthBuild:
    """A store's index, with its build parameters, on a dataset of any size."""

    series: Series
    dataset: str
    index_params: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Curve:
    """One quantity of one build at each of its sizes.

    sizes: numbers of rows, ascending. values: one per size. points: the points behind each value.
    """

    build: GrowthBuild
    quantity: Quantity
    sizes: tuple[int, ...]
    values: tuple[float, ...]
    points: tuple[tuple[Point, ...], ...]

    @cached_property
    def least_bytes_per_row(self) -> float:
        """Least bytes per row of any forecast: the bytes of the vectors, if every size held at
        least these. 0 for other quantities, and for a store that compresses."""
        if not self.quantity.is_stored:
            return 0.0
        raw = [points[0].value("raw_bytes") or 0.0 for points in self.points]
        whole = all(value >= least for value, least in zip(self.values, raw, strict=True))
        return min(r / n for r, n in zip(raw, self.sizes, strict=True)) if whole else 0.0

    def below(self, rows: int) -> Curve:
        """The curve restricted to sizes below this number of rows."""
        count = sum(size < rows for size in self.sizes)
        return replace(
            self, sizes=self.sizes[:count], values=self.values[:count], points=self.points[:count]
        )

    @cached_property
    def growth(self) -> Growth | None:
        """The laws fitted to the curve, or None if it has too few sizes or values that are not
        positive."""
        if len(self.sizes) < LEAST_SIZES or min(self.values) <= 0:
            return None
        if self.quantity.is_stored and (exact := exact_growth(self.sizes, self.values, Law.LINEAR)):
            return exact
        values = [1 / value for value in self.values] if self.quantity.is_inverse else self.values
        return growth(self.sizes, values, self.quantity.laws, self.quantity.drift)


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


def curves(run: RunData, recall: float = TARGETS[0]) -> list[Curve]:
    """Curves of every quantity that was measured at several sizes and grows.

    Time until ready, memory and disk; QPS and p99 at this recall, for each number of clients, read
    off each size's curve (`read_within`). Only points that may be ranked count.
    """
    found: dict[tuple[GrowthBuild, Quantity], dict[int, tuple[float, tuple[Point, ...]]]]
    found = defaultdict(dict)
    for quantity, rows, value, points in _measured_quantities(run, recall):
        found[_build(points[0]), quantity][rows] = (value, points)
    places = {series: i for i, series in enumerate(run.labels)}
    made = []
    for (build, quantity), sizes in found.items():
        ordered = sorted(sizes)
        values = tuple(sizes[rows][0] for rows in ordered)
        origins = tuple(sizes[rows][1] for rows in ordered)
        made.append(Curve(build, quantity, tuple(ordered), values, origins))
    return sorted(
        (curve for curve in made if len(curve.sizes) > 1),
        key=lambda c: (
            c.build.dataset,
            places[c.build.series],
            stable_text(dict(c.build.index_params)),
        ),
    )


def outlooks(found: Iterable[Curve], rows: float) -> list[Outlook]:
    """The forecasts of curves at a number of rows, except curves that have no growth or whose
    smallest size has more rows.

    Intervals are wider if the run's own larger sizes were forecast badly from its smaller ones
    (`stats.growth.widening_factor`, over all curves of a quantity).
    """
    grown = [
        (curve, fitted)
        for curve in found
        if (fitted := curve.growth) is not None and rows >= curve.sizes[0]
    ]
    checks: dict[Quantity, list[tuple[Forecast, float]]] = defaultdict(list)
    for curve, fitted in grown:
        checks[curve.quantity] += fitted.checks
    factors = {quantity: widening_factor(all_checks) for quantity, all_checks in checks.items()}
    made = []
    for curve, fitted in grown:
        # What lies on its law but for rounding has no checks: those of others say nothing of it.
        forecast = fitted.forecast(rows, factors[curve.quantity] if fitted.checks else 1.0)
        forecast = forecast.at_least(curve.least_bytes_per_row * rows)
        if curve.quantity.is_inverse:
            ends = (1 / forecast.value, 1 / forecast.high, 1 / forecast.low)
            forecast = Forecast(rows, *ends)
        made.append(Outlook(curve, fitted.law, forecast))
    return made


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


def _build(point: Point) -> GrowthBuild:
    return GrowthBuild(point.series, point.dataset, tuple(sorted(point.index_params.items())))


_Measured = tuple[Quantity, int, float, tuple[Point, ...]]


def _measured_quantities(run: RunData, recall: float) -> Iterator[_Measured]:
    """Measured quantities with rows, value, and the points behind the value."""
    for point in run.points_in_role(Role.LOAD):
        yield from _value(point, Quantity("ready_s"), loaded_rows(point))
    for point in run.points_in_role(Role.SIZE):
        yield from _value(point, Quantity("rss_growth_bytes"), point.rows)
        yield from _value(point, Quantity("disk_bytes"), point.rows)
    searches: Mapping[tuple[GrowthBuild, int, int], list[Point]] = _searches(run)
    for (_, rows, clients), points in searches.items():
        for metric, higher in (("qps", True), ("latency_p99", False)):
            known = [
                (r, v, p)
                for p in points
                if (r := p.value("recall_mean")) is not None and (v := p.value(metric)) is not None
            ]
            pairs = [(r, v) for r, v, _ in known]
            reading = read_within(pairs, recall, higher_is_better=higher)
            if reading is not None:
                origin = tuple(known[i][2] for i in reading.points)
                yield Quantity(metric, clients), rows, reading.value, origin


def _value(point: Point, quantity: Quantity, rows: int) -> Iterator[_Measured]:
    value = point.value(quantity.metric)
    if point.ranked and value is not None:
        yield quantity, rows, value, (point,)


def _searches(run: RunData) -> dict[tuple[GrowthBuild, int, int], list[Point]]:
    """Searches of whole datasets that may be ranked, by build, rows and number of clients."""
    found: dict[tuple[GrowthBuild, int, int], list[Point]] = defaultdict(list)
    loops = [p for p in closed_loops(run) if p.ranked and p.params.get("returns") in (None, "ids")]
    for clients in clients_of(loops):
        for point in loops:
            if int(point.params.get("clients", 1)) == clients:
                found[_build(point), point.rows, clients].append(point)
    return found
