"""A store loaded and searched under limits of memory and processor time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from time import perf_counter_ns
from typing import Annotated, Any, ClassVar

import psutil
from pydantic import AfterValidator, BeforeValidator, Field

from vectrial.experiments.base import Experiment, Target, as_list, refuse_threads, search_points
from vectrial.experiments.common.readiness import finish
from vectrial.experiments.common.recall_parameter import parameter_values
from vectrial.experiments.common.recall_search import RecallParameter, find_recall
from vectrial.experiments.fit.metrics import METRICS
from vectrial.experiments.fit.own_memory import ClientMemory, bare_bytes
from vectrial.model.context import Context
from vectrial.model.errors import StoreError, Unsupported
from vectrial.model.inputs import Clients, PositiveSeconds, Rate, Seconds
from vectrial.model.lane import Lane
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.phase import Phase, State
from vectrial.model.placement import Limits, size_bytes
from vectrial.model.results_schema import MetricName
from vectrial.model.workload import ClosedLoop, Load, OpenLoop
from vectrial.stats.quantiles import arrivals_needed
from vectrial.workload import dispatch
from vectrial.workload.record import ERROR_SHARE

#: Requests in flight that a library is offered at most, as a multiple of those that the limit on
#: p99 allows on average.
_IN_FLIGHT, _LEAST_IN_FLIGHT = 4, 8
#: Least memory limit under which one more process does not change the outcome.
_SPARE_BYTES = 1 << 30
#: Of the missing recall, the share that the search parameter is chosen to exceed it by: an index
#: that is built again has another recall.
_MARGIN = 0.2
_PASS_MAX_S = 5.0
#: Least arrivals of the searches, for a known p99; most queries that are all sent once, so that
#: recall does not depend on a few; and factor by which `duration_s` may grow for that.
_ARRIVALS, _QUERIES, _LONGER = arrivals_needed(0.99), 1000, 10


def _check_size(text: str) -> str:
    size_bytes(text)
    return text


Sizes = Annotated[
    tuple[Annotated[str, AfterValidator(_check_size)], ...],
    BeforeValidator(as_list),
    Field(min_length=1),
]
Processors = Annotated[
    tuple[Annotated[float, Field(gt=0, le=100_000)], ...],
    BeforeValidator(as_list),
    Field(min_length=1),
]


class Fit(Experiment):
    """Load a store and search it under limits on memory and processor time, at every combination
    of `memory` and `processors`, each with a server of its own.

    The limits apply to the control group of the server; for a library, to that of the measuring
    process. `vectrial.analysis.fit` judges whether the store held, and how it failed.

    memory: sizes with their units ("512MiB"). processors: processor time, 0.5 for half a processor.
    p99_ms, recall, errors: requirements of the searches: milliseconds, mean, share of requests.
    search: one operating point (no lists). Unless it names the parameter that trades speed for
        recall, that is set to the least value with a recall a little above `recall`.
    rate: searches per second, on a schedule that does not wait for answers (open loop).
    clients: in place of the schedule, clients that wait for each answer (closed loop).
    duration_s: seconds of the searches; more where the rate is low.
    warmup_s: seconds of searches at full speed before them, which do not count: of any store,
        within the limits, in place of those that a store declares (`Capabilities.warm_up_s`).
    load_limit_s: longest time of a load, until the index serves every row.
    step, purpose: place in the search that `vectrial fit` makes.
    """

    name: ClassVar[str] = "fit"
    title: ClassVar[str] = "The least machine"
    place: ClassVar[int] = 6
    report: ClassVar[str] = f"{__package__}.report"
    metrics: ClassVar[tuple[MetricName, ...]] = METRICS
    terms: ClassVar[Mapping[str, str]] = {
        "memory_bytes": "memory limit",
        "cpus": "limit of processors",
        "p99_ms": "p99 limit (ms)",
        "recall": "recall floor",
        "error_share": "limit on errors",
    }
    starts_from: ClassVar[State] = State.EMPTY
    warms_up: ClassVar[bool] = True
    axes: ClassVar[frozenset[str]] = frozenset(
        {
            "memory", "processors", "p99_ms", "recall", "errors", "search", "clients", "rate",
            "load_limit_s", "step", "purpose",
        }
    )  # fmt: skip
    lanes: ClassVar[frozenset[Lane] | None] = frozenset(Lane)

    memory: Sizes = ("4GiB", "2GiB", "1GiB", "512MiB", "256MiB")
    processors: Processors = (1.0,)
    p99_ms: float = Field(default=20.0, gt=0, le=86_400_000)
    recall: float = Field(default=0.95, ge=0, le=1)
    errors: float = Field(default=ERROR_SHARE, ge=0, le=ERROR_SHARE)
    search: dict[str, int | float | str | bool] = Field(default_factory=dict)
    rate: Rate = 200.0
    clients: Clients | None = None
    duration_s: PositiveSeconds = 5.0
    warmup_s: Seconds = 20.0
    load_limit_s: PositiveSeconds | None = None
    step: int = Field(default=0, ge=0)
    purpose: str = ""

    def points(self, target: Target) -> list[OperatingPoint]:
        requirements = {"p99_ms": self.p99_ms, "recall": self.recall, "error_share": self.errors}
        load = {"rate": self.rate} if self.clients is None else {"clients": self.clients}
        limit = {} if self.load_limit_s is None else {"load_limit_s": self.load_limit_s}
        step = {"step": self.step, "purpose": self.purpose} if self.purpose else {}
        shared = {**load, **requirements, **limit, **step}
        return [
            point.with_parameters(memory_bytes=size_bytes(memory), cpus=cpus, **shared)
            for memory, cpus in itertools.product(self.memory, self.processors)
            for point in search_points(target, self.search)
        ]

    def check_point(self, target: Target, point: Mapping[str, Any]) -> None:
        """Apply the common checks, and refuse several clients of a store that allows only one."""
        super().check_point(target, point)
        refuse_threads(target, self.clients_at(point) or 1)

    def clients_at(self, point: Mapping[str, Any]) -> int | None:
        """Number of clients; None if a rate is offered."""
        return int(point["clients"]) if "clients" in point else None

    def limits_at(self, point: Mapping[str, Any]) -> Limits:
        """Both limits of the point."""
        return Limits(float(point["cpus"]), int(point["memory_bytes"]))

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        load = self._search_load(context)
        client = self._rehearsed(context, load)
        yield self._load(context, point, client)
        if client is not None:
            client.release()
        kind = type(context.store).capabilities.indexes[context.index.kind]
        fixed = kind.recall_parameter is None or kind.recall_parameter in point
        values = () if fixed else parameter_values(kind, context.k)
        parameter = RecallParameter(kind.recall_parameter, values)
        if not fixed:
            yield from self._find_recall(context, point, parameter)
        setting = {**point, **parameter.setting}
        if self.warmup_s:
            clients, lasts_s = self.clients or 1, self.warmup_s
            self._search_phase(
                _sparing(context), setting, ClosedLoop(clients, lasts_s, lasts_s), "warmup"
            )
        phase = self._search_phase(context, setting, load, "search")
        phase.params = {**phase.params, **parameter.name_entry}
        yield phase
        if context.limit_memory is not None:  # the gate has rows of its own
            with suppress(Unsupported):
                context.limit_memory(psutil.virtual_memory().total)

    def _search_load(self, context: Context) -> Load:
        if self.clients is not None:
            return ClosedLoop(self.clients, self.duration_s, self.duration_s)
        queries = len(context.dataset.queries)
        wanted_s = min(min(_QUERIES, queries) / self.rate, _LONGER * self.duration_s)
        length_s = max(self.duration_s, wanted_s, _ARRIVALS / self.rate)
        if context.lane is not Lane.EMBEDDED:
            return OpenLoop(self.rate, length_s)
        # The threads of the client lie within the limits. Where so many requests are in flight,
        # their latency is beyond the limit (Little's law).
        needed = math.ceil(_IN_FLIGHT * self.rate * self.p99_ms / 1e3)
        return OpenLoop(self.rate, length_s, in_flight=max(_LEAST_IN_FLIGHT, needed))

    def _rehearsed(self, context: Context, load: Load) -> ClientMemory | None:
        """The memory of the measuring process without a library's rows; None for a server."""
        if context.lane is not Lane.EMBEDDED:
            return None
        can = type(context.store).capabilities.for_index(context.index.kind)
        return ClientMemory(context, load, one_thread=not can.concurrent_search)

    def _load(
        self, context: Context, point: Mapping[str, Any], client: ClientMemory | None
    ) -> Phase:
        """The phase from an empty store until it has answered a search."""
        store, rows = context.store, context.dataset.rows
        started = perf_counter_ns()
        store.create(context.schema, context.index)
        load = dispatch.load(context, stop=rows)
        if load.metrics["count"] != rows:
            raise StoreError(f"the load was not taken whole: {load.reason}")
        steps = finish(context, {})
        phase = Phase("load", started, perf_counter_ns(), params=dict(point))
        load_s = load.metrics["load_s"] or 0.0
        phase.metrics |= {
            "load_s": load_s,
            "ready_s": load_s + sum(step.seconds for step in steps),
            "count": float(rows),
            "rss_bytes": context.resident_bytes(),
            "empty_rss_bytes": context.baseline_rss_bytes,
        }
        for name in ("rss_bytes", "empty_rss_bytes"):
            if phase.metrics[name] is None:
                phase.missing[name] = "its server does not run on this machine"
        if client is not None:
            phase.metrics["client_bytes"] = client.peak_bytes
            spare = int(point["memory_bytes"]) >= _SPARE_BYTES
            phase.metrics["bare_bytes"] = bare_bytes(type(store).module) if spare else None
            for name in ("client_bytes", "bare_bytes"):
                if phase.metrics[name] is None:
                    phase.missing[name] = "not measured in this step"
        return phase

    def _find_recall(
        self, context: Context, point: Mapping[str, Any], parameter: RecallParameter
    ) -> Iterator[Phase]:
        def one_pass() -> Phase:
            setting = {**point, **parameter.setting}
            load = ClosedLoop(1, 0.0, _PASS_MAX_S)
            return self._search_phase(_sparing(context), setting, load, "recall")

        yield from find_recall(parameter, one_pass, self.recall + _MARGIN * (1 - self.recall))

    def _search_phase(
        self, context: Context, point: Mapping[str, Any], load: Load, name: str
    ) -> Phase:
        """Searches under limits, whose figures are not compared with others."""
        phase = dispatch.search(context, point, load, name=name)
        phase.role = None
        return phase

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Time of a start, a load, a few passes, the searches with their warm-up, and the gate."""
        least_s = 0.0 if self.clients is not None else _ARRIVALS / self.rate
        searches_s = max(self.duration_s, least_s)
        return 5.0 + self.warmup_s + rows * (20e-6 + dim * 0.6e-6) + 2 * searches_s


def _sparing(context: Context) -> Context:
    """The context with the dataset's own queries, for searches whose speed does not count: to draw
    others would take memory that the limits count."""
    return replace(context, repeat_queries=True)
