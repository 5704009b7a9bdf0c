"""The load at which each store is priced, or why it is priced at none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from vectrial.analysis import capacity as capacities
from vectrial.analysis.analysis import TARGETS, Facet, by_facet, facet_of, sorted_facets
from vectrial.analysis.run_data import Point, RunData
from vectrial.analysis.trial import Trial
from vectrial.model.errors import UserError
from vectrial.model.phase import Role
from vectrial.model.trial import Series
from vectrial.suite.model import Prices, Suite, parse_suite
from vectrial.util import formatting

#: 8760 hours of a year over twelve months.
HOURS_A_MONTH = 730.0
GIB = 2**30


@dataclass(frozen=True)
class ResourceUse:
    """Resources that a store occupies, and its QPS meanwhile.

    processors: processors that it may use. memory_bytes: its peak memory. disk_bytes: None if it
        keeps nothing on disk. qps: answers per second.
    """

    processors: float
    memory_bytes: float
    disk_bytes: float | None
    qps: float


@dataclass(frozen=True)
class Bill:
    """Prices in the price sheet's currency: a month of processors, memory and disk, and a million
    answers at full use."""

    processors: float
    memory: float
    disk: float
    per_million: float

    @property
    def month(self) -> float:
        """Sum of processors, memory and disk for a month."""
        return self.processors + self.memory + self.disk


def bill(resources: ResourceUse, prices: Prices) -> Bill:
    """Cost of `resources`.

    month = 730 h × (processors × vcpu_hour + GiB of memory × gib_hour) + GiB of disk × gib_month;
    a million answers cost month / (730 h × 3600 s/h × qps) × 10⁶.
    """
    processors = HOURS_A_MONTH * resources.processors * prices.vcpu_hour
    memory = HOURS_A_MONTH * resources.memory_bytes / GIB * prices.gib_hour
    disk = (resources.disk_bytes or 0.0) / GIB * prices.gib_month
    answers = HOURS_A_MONTH * 3600 * resources.qps
    return Bill(processors, memory, disk, (processors + memory + disk) / answers * 1e6)


#: Loads whose searches say what a store answers, the most telling first.
_CAPACITY, _OPEN = "highest sustained rate", "open loop"
LOADS = (_CAPACITY, _OPEN, "several clients", "one client")
#: Metrics of a capacity's answer: the rate itself, and the one that it is at least.
_RATE, _BOUND = "sustained_qps", "bracket_low"


@dataclass(frozen=True)
class Basis:
    """Basis of a store's price on one sheet.

    store: name for people. series: None if it was not measured. floor: the recall that counts.
    point: the point with most answers per second; None if `reason` says why there is no price.
    metric: metric of the point's answers per second.
    """

    store: str
    series: Series | None
    facet: Facet
    floor: float
    point: Point | None = None
    metric: str = ""
    reason: str = ""

    @property
    def at_least(self) -> bool:
        """True if the rate is only a lower bound, and the price of an answer an upper bound: the
        client was the limit, or no greater rate was to be tried."""
        return self.metric == _BOUND


def suite_of(run: RunData) -> Suite | None:
    """The suite of a run; None if it has none, or a suite of another version."""
    try:
        return parse_suite(run.suite, "suite") if run.suite else None
    except UserError:
        return None  # its figures do not depend on it


def prices_of(run: RunData) -> Prices | None:
    """The price sheet of a run's suite, or None if there is none."""
    suite = suite_of(run)
    return None if suite is None else suite.prices


def bases(run: RunData, suite: Suite) -> list[Basis]:
    """A basis for every store of the suite, on each of its sheets and for each floor there.

    The floors of a sheet are the recalls that its capacities were measured at; `TARGETS[0]` if
    there are none.
    """
    points = [point for point in run.points if load_of(point) is not None]
    found = dict(by_facet(points, with_k=True))
    made = []
    for facet in _facets(run, list(found)):
        own = found.get(facet, [])
        for floor in _floors(own):
            made += [_basis(run, series, facet, floor, own) for series in _series(run, facet)]
            made += [
                Basis(store, None, facet, floor, reason="it was not measured in this run")
                for store in _missing_stores(run, suite, facet)
            ]
    return made


def load_of(point: Point) -> str | None:
    """The load of `LOADS` that a point is a search under; None if it is not a search of a whole
    dataset under one."""
    if point.role == Role.CAPACITY:
        return _CAPACITY
    if point.role != Role.SEARCH or "rows" in point.params:
        return None
    if "rate" in point.params:
        return _OPEN
    return LOADS[2] if int(point.params.get("clients", 1)) > 1 else LOADS[3]


def _searching(run: RunData) -> frozenset[str]:
    """The experiments whose trials search: those that did somewhere, or, if none did, all that lost
    a trial."""
    roles = (Role.SEARCH, Role.CAPACITY)
    found = {t.experiment for t in run.trials if any(p.role in roles for p in t.phases)}
    return frozenset(found or {t.experiment for t in run.trials if not t.phases})


def _facets(run: RunData, searched: Sequence[Facet]) -> list[Facet]:
    """Every sheet that was searched, or was to be; for data without any search, the sheet of all
    its rows."""
    grouped: dict[Facet, list[Point]] = {facet: [] for facet in searched}
    searching = _searching(run)
    for trial in run.trials:
        if trial.experiment in searching and not any(
            _is_on_sheet(trial, facet) for facet in grouped
        ):
            grouped[facet_of(trial, with_k=True)] = []
    known = {facet.dataset for facet in grouped}
    most: dict[str, int] = {}
    for trial in run.trials:
        if trial.dataset not in known:
            most[trial.dataset] = max(trial.rows, most.get(trial.dataset, 0))
    grouped |= {Facet(dataset, rows): [] for dataset, rows in most.items()}
    return [facet for facet, _ in sorted_facets(grouped)]


def _is_on_sheet(trial: Trial, facet: Facet) -> bool:
    """True if a trial's points are on the sheet; the trial may leave k to its phases."""
    own = facet_of(trial, with_k=True)
    return replace(own, k=facet.k) == facet and own.k in (None, facet.k)


def _floors(points: Sequence[Point]) -> list[float]:
    asked = {float(point.params["recall"]) for point in points if _is_answer(point)}
    return sorted(asked) or [TARGETS[0]]


def _series(run: RunData, facet: Facet) -> list[Series]:
    """Series that were measured on these rows, or were to be, in the suite's order."""
    there = {t.series for t in run.trials if (t.dataset, t.rows) == (facet.dataset, facet.rows)}
    return [series for series in run.labels if series in there]


def _missing_stores(run: RunData, suite: Suite, facet: Facet) -> list[str]:
    """Stores that the suite asks for on these data, but of which the run holds nothing."""
    asked = [ref for ref in suite.stores if facet.dataset in (ref.datasets or [facet.dataset])]
    return list(dict.fromkeys(ref.name for ref in asked if ref.name not in run.stores))


def _basis(
    run: RunData, series: Series, facet: Facet, floor: float, points: Sequence[Point]
) -> Basis:
    own = [point for point in points if point.series == series]
    for load in LOADS:
        rates = [
            (rate, metric, point)
            for point in own
            if load_of(point) == load
            for metric, rate in [_rate(point, floor)]
            if rate is not None
        ]
        if rates:
            _, metric, point = max(rates, key=lambda one: one[0])
            return Basis(run.labels[series], series, facet, floor, point, metric)
    why = "; ".join(_reasons(run, series, facet, floor, own))
    return Basis(run.labels[series], series, facet, floor, reason=why)


def _is_answer(point: Point, floor: float | None = None) -> bool:
    """True if a point is a highest sustained rate, with this floor or any."""
    return point.role == Role.CAPACITY and floor in (None, float(point.params["recall"]))


def _rate(point: Point, floor: float) -> tuple[str, float | None]:
    """The metric of a search's answers per second with its value; None if it does not count."""
    if point.role != Role.CAPACITY:
        recall = point.value("recall_mean")
        enough = point.state == "ok" and recall is not None and recall >= floor
        return "qps", point.value("qps") if enough else None
    if not _is_answer(point, floor) or point.state == "wrong":
        return _RATE, None
    if point.state == "ok":
        return _RATE, point.value(_RATE)
    bounded = all(capacities.is_bound(phase) for phase in point.phases)
    return _BOUND, point.value(_BOUND) if bounded else None


def _reasons(
    run: RunData, series: Series, facet: Facet, floor: float, points: Sequence[Point]
) -> Iterator[str]:
    """Reasons why no point of a store counts, for every load that was planned, once each."""
    measured = False
    for load in LOADS:
        own = [point for point in points if load_of(point) == load]
        if load == _CAPACITY:
            own = [point for point in own if _is_answer(point, floor)]
        if own:
            measured = True
            yield f"{load}: {_why_none(own, floor)}"
    searching = _searching(run)
    lost = {
        trial.experiment: trial.reason or trial.status
        for trial in run.trials
        if trial.series == series and trial.experiment in searching and _is_on_sheet(trial, facet)
        if trial.status in ("failed", "skipped")
    }
    if not measured:
        yield from (f"{experiment}: {why}" for experiment, why in lost.items())
    if not measured and not lost:
        yield f"no search says what it answers: {', '.join(LOADS)}"


def _why_none(points: Sequence[Point], floor: float) -> str:
    """Reason why none of the points of one experiment counts."""
    sound = [point for point in points if point.state == "ok"]
    if not sound:
        first = points[0]
        failed = "failed the gate: " if first.state == "wrong" else ""
        return f"{failed}{first.reason or first.state}"
    recalls = [r for point in sound if (r := point.value("recall_mean")) is not None]
    if not recalls:
        return f"no recall was judged: {sound[0].why_missing('recall_mean')}"
    if max(recalls) < floor:
        return f"the greatest recall is {formatting.recall(max(recalls))}, below {floor:g}"
    return sound[0].why_missing(_RATE if _is_answer(sound[0]) else "qps")
