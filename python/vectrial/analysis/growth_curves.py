"""The quantities of a run that grow with the rows of a dataset, at each size that was measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from vectrial.analysis.analysis import LOAD, TARGETS, clients_of, closed_loops, loaded_rows
from vectrial.analysis.interference import disturbed_phases
from vectrial.analysis.run_data import Point, RunData
from vectrial.analysis.trial import stable_text
from vectrial.model.lane import Lane
from vectrial.model.phase import Role
from vectrial.model.results_schema import METRICS
from vectrial.model.trial import Series
from vectrial.stats.curves import read_within
from vectrial.stats.growth import (
    LEAST_SIZES,
    Forecast,
    Growth,
    Law,
    SizedValues,
    exact_growth,
    growth,
)

#: Work for each query of a graph grows about with log n; what departs from that is left to a power.
_QUERY = (Law.LOG, Law.POWER)
#: Parameters of a point that are no search setting.
_COMMON = frozenset({*LOAD, "returns", "durability"})
#: An exact index looks at every row.
_SCAN = (Law.LINEAR, Law.POWER)
_STORED = (Law.LINEAR,)
_LOADED = (Law.LINEAR, Law.N_LOG_N, Law.POWER)
_MEMORY = "rss_growth_bytes"
_RECALL = "recall_mean"
_MEDIAN = "latency_p50"
#: Recall from which an index without a search parameter is exact.
_EXACT = 0.9999
#: Share of the weight that a size keeps if other work disturbed every one of its phases.
_DISTURBED = 0.25


@dataclass(frozen=True)
class _Kind:
    """Growth of a metric with the rows.

    drift, server_drift: drift (`stats.growth.growth`) of libraries and of servers, which merge
        segments and collect garbage: about the least with which (n + 1)·0.8 of n forecasts hold
        that suites/growth.toml gave (tests/analysis/test_growth_drift.py). floor: see
        `SizedValues`.
    """

    laws: tuple[Law, ...]
    drift: float
    server_drift: float
    floor: float = 0.0


_KINDS: Mapping[str, _Kind] = {
    "ready_s": _Kind(_LOADED, 0.15, 0.15),
    # The heap of a process is known to about 8 MiB, of an index to 5 %.
    _MEMORY: _Kind(_STORED, 0.03, 0.2, floor=160 * 2**20),
    "disk_bytes": _Kind(_STORED, 0.02, 0.3),
    "qps": _Kind(_QUERY, 0.08, 0.08),
    "latency_p99": _Kind(_QUERY, 0.12, 0.12),
    # As the odds of a miss.
    _RECALL: _Kind((Law.POWER, Law.LOG), 0.1, 0.1, floor=0.005),
}


@dataclass(frozen=True)
class Quantity:
    """A metric that is forecast.

    clients: number of clients of its searches; None if it is not a metric of searches.
    setting: search parameters of a recall at a fixed setting. exact: every query looks at every
        row.
    """

    metric: str
    clients: int | None = None
    setting: tuple[tuple[str, Any], ...] = ()
    exact: bool = False

    @property
    def laws(self) -> tuple[Law, ...]:
        """Laws by which the quantity may grow; for QPS, the laws of the time per query, and for
        recall, those of the odds of a miss."""
        return _SCAN if self.exact else _KINDS[self.metric].laws

    @property
    def is_stored(self) -> bool:
        """True if the quantity is a number of bytes in which each row is stored once."""
        return _KINDS[self.metric].laws == _STORED

    @property
    def floor(self) -> float:
        """Value below which errors are absolute."""
        return _KINDS[self.metric].floor

    def drift(self, lane: str) -> float:
        """Drift of the quantity for a store in this lane; see `stats.growth.growth`."""
        kind = _KINDS[self.metric]
        return kind.drift if lane == Lane.EMBEDDED else kind.server_drift

    @property
    def unit(self) -> str:
        """Unit in which the results hold the quantity."""
        return METRICS[self.metric].unit

    @property
    def is_inverse(self) -> bool:
        """True if the quantity falls where what the laws describe grows."""
        return self.metric in ("qps", _RECALL)

    @property
    def is_recall(self) -> bool:
        """True if it is the recall at a fixed setting."""
        return self.metric == _RECALL

    def grown(self, value: float) -> float:
        """What the laws describe, for a value of the quantity."""
        if self.is_recall:
            # Recall 1 is no miss in so many answers, and no odds of 0.
            return max(1 - value, 1e-4) / max(value, 1e-4)
        return 1 / value if self.is_inverse else value

    def forecast(self, grown: Forecast) -> Forecast:
        """The forecast of the quantity, by one of what the laws describe."""
        if not self.is_inverse:
            return grown
        ends = (grown.value, grown.high, grown.low)
        return Forecast(grown.rows, *(1 / (one + self.is_recall) for one in ends))


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
    trust: share of the weight that each value has: less than 1 if other work disturbed it.
    medians: the median latency (us) at each size, for QPS and p99; empty if one is unknown.
    """

    build: GrowthBuild
    quantity: Quantity
    sizes: tuple[int, ...]
    values: tuple[float, ...]
    points: tuple[tuple[Point, ...], ...]
    trust: tuple[float, ...]
    medians: tuple[float, ...] = ()

    @property
    def disturbed(self) -> tuple[int, ...]:
        """Sizes at which other work disturbed the measurement."""
        return tuple(n for n, trust in zip(self.sizes, self.trust, strict=True) if trust < 1)

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
            self,
            sizes=self.sizes[:count],
            values=self.values[:count],
            points=self.points[:count],
            trust=self.trust[:count],
            medians=self.medians[:count],
        )

    @cached_property
    def growth(self) -> Growth | None:
        """The laws fitted to the curve, or None if it has too few sizes or values that are not
        positive."""
        if len(self.sizes) < LEAST_SIZES or min(self.values) <= 0:
            return None
        quantity = self.quantity
        values = [quantity.grown(value) for value in self.values]
        sizes = SizedValues(self.sizes, values, quantity.floor, self.trust, self.medians)
        if quantity.is_stored and (exact := exact_growth(sizes, Law.LINEAR)):
            return exact
        return growth(sizes, quantity.laws, quantity.drift(self.build.series.lane))


def curves(run: RunData, recall: float = TARGETS[0]) -> list[Curve]:
    """Curves of every quantity that was measured at several sizes and grows.

    Time until ready, memory and disk; QPS and p99 at this recall, for each number of clients, read
    off each size's curve (`read_within`), or those of an exact index; recall at each setting. Only
    points that may be ranked count.
    """
    found: dict[tuple[GrowthBuild, Quantity], dict[int, _Value]] = defaultdict(dict)
    for quantity, rows, value in _measured(run, recall):
        found[_build(value.points[0]), quantity][rows] = value
    places = {series: i for i, series in enumerate(run.labels)}
    disturbed = disturbed_phases(run)
    made = [_curve(*key, sizes, disturbed) for key, sizes in found.items()]
    return sorted(
        (curve for curve in made if len(curve.sizes) > 1),
        key=lambda c: (
            c.build.dataset,
            places[c.build.series],
            stable_text(dict(c.build.index_params)),
        ),
    )


def _build(point: Point) -> GrowthBuild:
    return GrowthBuild(point.series, point.dataset, tuple(sorted(point.index_params.items())))


@dataclass(frozen=True)
class _Value:
    """A quantity at one size. points: the points behind it. median: median latency, if known."""

    value: float
    points: tuple[Point, ...]
    median: float | None = None


def _curve(
    build: GrowthBuild,
    quantity: Quantity,
    sizes: Mapping[int, _Value],
    disturbed: frozenset[int],
) -> Curve:
    ordered = [sizes[rows] for rows in sorted(sizes)]
    medians = tuple(one.median for one in ordered if one.median)
    # Other work slows down; it changes neither bytes nor recall.
    slowed = disturbed if METRICS[quantity.metric].is_timed else frozenset()
    return Curve(
        build,
        quantity,
        tuple(sorted(sizes)),
        tuple(one.value for one in ordered),
        tuple(one.points for one in ordered),
        tuple(_trust(one.points, slowed) for one in ordered),
        medians if len(medians) == len(ordered) else (),
    )


def _trust(points: Sequence[Point], disturbed: frozenset[int]) -> float:
    """Share of the weight of a value, by the share of its phases that were disturbed."""
    phases = [phase.phase_id in disturbed for point in points for phase in point.phases]
    return 1.0 - (1 - _DISTURBED) * sum(phases) / len(phases)


def _measured(run: RunData, recall: float) -> Iterator[tuple[Quantity, int, _Value]]:
    """Measured quantities with rows and value."""
    for point in run.points_in_role(Role.LOAD):
        yield from _value(point, Quantity("ready_s"), loaded_rows(point))
    for point in run.points_in_role(Role.SIZE):
        yield from _value(point, Quantity(_MEMORY), point.rows)
        yield from _value(point, Quantity("disk_bytes"), point.rows)
    searches: Mapping[tuple[GrowthBuild, int, int], list[Point]] = _searches(run)
    for (_, rows, clients), points in searches.items():
        for metric in ("qps", "latency_p99"):
            read = _read(points, metric, recall)
            if read is not None:
                exact = all(_is_exact(point) for point in read.points)
                yield Quantity(metric, clients, exact=exact), rows, read
    fewest = min((clients for _, _, clients in searches), default=0)
    for (_, rows, clients), points in searches.items():
        for point in points if clients == fewest else ():
            setting = tuple(sorted((n, v) for n, v in point.params.items() if n not in _COMMON))
            if setting:
                yield from _value(point, Quantity(_RECALL, clients, setting), rows)


def _read(points: Sequence[Point], metric: str, recall: float) -> _Value | None:
    """The value of a metric, and the median latency, at this recall; of an exact index, its own."""
    if len(points) == 1 and _is_exact(points[0]):
        point = points[0]
        value = point.value(metric)
        return None if value is None else _Value(value, (point,), point.value(_MEDIAN))
    found = _read_off(points, metric, recall)
    if found is None:
        return None
    median = _read_off(points, _MEDIAN, recall)
    return replace(found, median=None if median is None else median.value)


def _read_off(points: Sequence[Point], metric: str, recall: float) -> _Value | None:
    known = [
        (r, v, point)
        for point in points
        if (r := point.value(_RECALL)) is not None and (v := point.value(metric)) is not None
    ]
    pairs = [(r, v) for r, v, _ in known]
    reading = read_within(pairs, recall, higher_is_better=metric == "qps")
    if reading is None:
        return None
    return _Value(reading.value, tuple(known[i][2] for i in reading.points))


def _is_exact(point: Point) -> bool:
    """True if the index has no parameter that trades speed for recall, and finds everything."""
    return (point.value(_RECALL) or 0.0) >= _EXACT and not set(point.params) - _COMMON


def _value(point: Point, quantity: Quantity, rows: int) -> Iterator[tuple[Quantity, int, _Value]]:
    value = point.value(quantity.metric)
    if point.ranked and value is not None:
        yield quantity, rows, _Value(value, (point,))


def _searches(run: RunData) -> dict[tuple[GrowthBuild, int, int], list[Point]]:
    """Searches of whole datasets that may be ranked, by build, rows and number of clients."""
    found: dict[tuple[GrowthBuild, int, int], list[Point]] = defaultdict(list)
    loops = [p for p in closed_loops(run) if p.ranked and p.params.get("returns") in (None, "ids")]
    for clients in clients_of(loops):
        for point in loops:
            if int(point.params.get("clients", 1)) == clients:
                found[_build(point), point.rows, clients].append(point)
    return found
