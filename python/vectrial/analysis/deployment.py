"""Nodes that a store would take for more rows and a load, by its forecasts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from vectrial.analysis.cost_basis import ResourceUse, bill
from vectrial.analysis.growth_curves import Curve, GrowthBuild
from vectrial.analysis.growths import Outlook, outlooks
from vectrial.model.lane import Lane
from vectrial.stats.growth import Forecast
from vectrial.suite.model import Prices

#: More shards than this are no answer.
MOST_SHARDS = 4096


@dataclass(frozen=True)
class Demand:
    """Requirements for a deployment. rows: in all. qps: in all. p99_us: the limit on p99."""

    rows: float
    qps: float
    p99_us: float


@dataclass(frozen=True)
class NodeSize:
    """One node: processors like the measured ones, and its memory in bytes."""

    processors: float
    memory_bytes: float


@dataclass(frozen=True)
class Deployment:
    """Shards of equal size, each on `replicas` nodes; every query goes to one replica of each
    shard.

    rows, memory_bytes, disk_bytes, p99_us, ready_s: figures of one node; None if not forecast.
    qps: answers per second of a node. per_month: price of all nodes, in the price sheet's currency.
    """

    shards: int
    replicas: int
    rows: float
    memory_bytes: float
    qps: float
    p99_us: float
    disk_bytes: float | None
    ready_s: float | None
    per_month: float | None = None

    @property
    def nodes(self) -> int:
        """Number of nodes in all."""
        return self.shards * self.replicas


@dataclass(frozen=True)
class Sizing:
    """A store's deployments. clients: number of clients of the searches that QPS and p99 come from.

    expected: by the forecasts' medians. cautious: by the worse end of each interval. Each is None
        if there is no deployment, for `reason`.
    """

    build: GrowthBuild
    clients: int
    expected: Deployment | None
    cautious: Deployment | None
    reason: str = ""


def sizings(
    found: Sequence[Curve],
    demand: Demand,
    node: Callable[[GrowthBuild], NodeSize | None],
    prices: Prices | None,
) -> list[Sizing]:
    """The least deployment of each build, by its searches with the most clients.

    node: node size of a build's store; None if unknown. Fan-out is not forecast: with several
        shards a query waits for the slowest of them, and its answers are merged.
    """
    by_build: dict[GrowthBuild, list[Curve]] = defaultdict(list)
    for curve in found:
        by_build[curve.build].append(curve)
    forecasts = _Forecasts(found)
    made = []
    for build, own in by_build.items():
        clients = max((c.quantity.clients or 0 for c in own), default=0)
        if build.series.lane == Lane.EMBEDDED:
            made.append(Sizing(build, clients, None, None, "a library runs in one process"))
            continue
        one = node(build)
        if one is None:
            made.append(Sizing(build, clients, None, None, "its server's machine is not known"))
            continue
        pair, why = [], ""
        for cautious in (False, True):
            deployment, reason = _least_deployment(forecasts, build, clients, demand, one, cautious)
            pair.append(None if deployment is None else _with_price(deployment, one, prices))
            why = why or reason
        made.append(Sizing(build, clients, pair[0], pair[1], why))
    return made


class _Forecasts:
    """The forecasts of all curves at a number of rows, each made once."""

    def __init__(self, curves: Sequence[Curve]) -> None:
        self._curves = [curve for curve in curves if not curve.quantity.is_recall]
        self._known: dict[float, dict[tuple[GrowthBuild, str, int | None], Outlook]] = {}

    def by_metric(self, build: GrowthBuild, rows: float) -> dict[tuple[str, int | None], Forecast]:
        """Forecasts of a build at a number of rows, by metric and clients."""
        if rows not in self._known:
            self._known[rows] = {
                (o.curve.build, o.curve.quantity.metric, o.curve.quantity.clients): o
                for o in outlooks(self._curves, rows)
            }
        return {
            (metric, clients): outlook.forecast
            for (own, metric, clients), outlook in self._known[rows].items()
            if own == build
        }

    def least_rows(self, build: GrowthBuild) -> int:
        """The smallest size with all quantities of the build: nothing is forecast below."""
        return max(curve.sizes[0] for curve in self._curves if curve.build == build)


def _least_deployment(
    forecasts: _Forecasts,
    build: GrowthBuild,
    clients: int,
    demand: Demand,
    node: NodeSize,
    cautious: bool,
) -> tuple[Deployment | None, str]:
    """The deployment with the fewest shards within the limits, or the reason why there is none."""
    reason = ""
    for shards in _shards(demand.rows, forecasts.least_rows(build)):
        rows = demand.rows / shards
        known = forecasts.by_metric(build, rows)
        needed = (("rss_growth_bytes", None), ("qps", clients), ("latency_p99", clients))
        missing = [metric for metric, of in needed if (metric, of) not in known]
        if missing:
            return None, f"no forecast of {', '.join(missing)}: it needs more sizes"

        worst = {key: _forecast_end(forecast, key[0], cautious) for key, forecast in known.items()}
        memory, p99 = worst["rss_growth_bytes", None], worst["latency_p99", clients]
        if memory > node.memory_bytes:
            reason = "too much memory for a node"
            continue
        if p99 > demand.p99_us:
            reason = "p99 is above the limit"
            continue
        qps = worst["qps", clients]
        optional = {metric: worst.get((metric, None)) for metric in ("disk_bytes", "ready_s")}
        replicas = math.ceil(demand.qps / qps)
        return Deployment(shards, replicas, rows, memory, qps, p99, **optional), ""
    return None, f"{reason} even with the fewest rows that were measured"


def _forecast_end(forecast: Forecast, metric: str, cautious: bool) -> float:
    """The forecast's median, or the worse end of its interval if cautious."""
    if not cautious:
        return forecast.value
    return forecast.low if metric == "qps" else forecast.high


def _shards(rows: float, least_rows: int) -> Iterator[int]:
    """Numbers of shards to try, ascending, a sixteenth apart from 16 on."""
    shards = 1
    while shards <= MOST_SHARDS and (shards == 1 or rows / shards >= least_rows):
        yield shards
        shards += max(1, shards // 16)


def _with_price(deployment: Deployment, node: NodeSize, prices: Prices | None) -> Deployment:
    if prices is None:
        return deployment
    use = ResourceUse(node.processors, node.memory_bytes, deployment.disk_bytes, deployment.qps)
    month = deployment.nodes * bill(use, prices).month
    return replace(deployment, per_month=month)
