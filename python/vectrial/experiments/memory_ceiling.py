"""Searches of a server whose memory is taken away step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from time import perf_counter_ns
from typing import Any, ClassVar

from pydantic import Field, field_validator

from vectrial.document.sheet import LATENCY, SETTING, Sheet, metric
from vectrial.experiments.base import (
    Experiment,
    Numbers,
    Target,
    Values,
    client_points,
    search_points,
)
from vectrial.model.context import Context
from vectrial.model.errors import Unsupported
from vectrial.model.faults import Crash
from vectrial.model.inputs import PositiveSeconds
from vectrial.model.lane import Lane
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.phase import Phase
from vectrial.model.results_schema import MetricName
from vectrial.model.workload import ClosedLoop
from vectrial.workload import dispatch

#: Queries of each client before a phase, for at most five seconds: many before the first, since a
#: server that compiles its code while it runs is slow at first.
_FIRST, _LATER = 1000, 20
#: A server is given up when a larger share of the searches than this fails.
_GIVEN_UP = 0.5

_METRICS = (
    MetricName("memory_limit_bytes", "B", None, "memory that the server may use", "Limit"),
    MetricName(
        "limit_to_resident",
        "1",
        None,
        "that, over the server's resident memory before any step",
        "Of resident",
    ),
)
_OWN = {one.name: one for one in _METRICS}

_SHEET = Sheet(
    "Searches under a falling memory limit",
    "unlimited: with the limit that the server was started with. step: each with a lower one, as a "
    "share of the resident memory before. The last line is where the server ended, or where the "
    "kernel refused the limit because it could not take back so much.",
    ("unlimited", "step"),
    (("ceiling", "Limit"), ("clients", "Clients"), (SETTING, "Setting")),
    (
        metric(_OWN["memory_limit_bytes"], "Bytes"),
        metric("qps", "QPS"),
        *LATENCY,
        metric("recall_mean", "Recall"),
        metric("server_major_faults", "Major faults"),
        metric("memory_stalled_share", "Stalled"),
        metric("server_read_bytes", "Read"),
        metric("server_rss_bytes", "Resident"),
        metric("errors", "Errors"),
    ),
    sparse=True,
)


class MemoryCeiling(Experiment):
    """Search a loaded server at the same load while the limit of its control group falls, until it
    ends, the kernel refuses, or the steps are over.

    The limit counts all that the control group holds, the page cache of the server's files too;
    the steps are shares of the processes' resident memory alone. It needs `server_memory` in
    `[placement]`: a group that is made later would not hold what was loaded before.

    ceilings: falling shares of the resident memory.
    clients: closed-loop clients, in the native lane. search: search parameters; lists are grids.
    duration_s: seconds of each step; at most three seconds, so that what a server did before it
        ended is reported before the trial is given up.
    """

    name: ClassVar[str] = "memory_ceiling"
    ends_server: ClassVar[bool] = True
    title: ClassVar[str] = "Searches under a falling memory limit"
    place: ClassVar[int] = 78
    metrics: ClassVar[tuple[MetricName, ...]] = _METRICS
    terms: ClassVar[Mapping[str, str]] = {
        "ceiling": "memory limit as a share of the resident memory",
    }
    sheet: ClassVar[Sheet | None] = _SHEET
    mutates: ClassVar[bool] = True  # the server may end
    axes: ClassVar[frozenset[str]] = frozenset({"clients", "search"})
    lanes: ClassVar[frozenset[Lane] | None] = frozenset({Lane.NATIVE})

    ceilings: tuple[float, ...] = Field(
        default=(1.2, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4), min_length=1
    )
    clients: Numbers = (4,)
    search: dict[str, Values] = Field(default_factory=dict)
    duration_s: PositiveSeconds = 3.0

    @field_validator("ceilings")
    @classmethod
    def _check_falling(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if value[-1] <= 0 or any(one <= other for one, other in pairwise(value)):
            raise ValueError("shares of the resident memory fall from one to the next, above 0")
        return value

    def points(self, target: Target) -> list[OperatingPoint]:
        return client_points(self.clients, search_points(target, self.search))

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        limit, resident = context.limit_memory, context.resident_bytes()
        if limit is None or resident is None:
            raise Unsupported("its server does not run on this machine")
        limit(None)  # refused before anything is measured
        yield self._search_phase(context, point, "unlimited")
        try:
            for ceiling in self.ceilings:
                limit_bytes = int(ceiling * resident)
                try:
                    limit(limit_bytes)
                except Unsupported as refusal:
                    yield _unsearched_step(ceiling, limit_bytes, str(refusal), context, point)
                    return
                phase = self._search_phase(context, point, "step")
                _describe(phase, ceiling, limit_bytes, resident)
                failed = phase.metrics.get("errors") or 0.0
                if failed <= _GIVEN_UP * (failed + (phase.metrics.get("count") or 0.0)):
                    yield phase
                    continue
                phase.pending = None  # nobody is there to be asked
                phase.remark("the server ended, or hardly answered, under this limit")
                yield phase
                if context.crash is not None:
                    context.crash(Crash.KILL)  # so that it is there for what follows
                return
        finally:
            with suppress(Unsupported):  # one that has ended has no limit
                limit(None)

    def _search_phase(self, context: Context, point: Mapping[str, Any], name: str) -> Phase:
        load = ClosedLoop(int(point["clients"]), self.duration_s, self.duration_s)
        warmup = _FIRST if name == "unlimited" else _LATER
        return dispatch.search(context, point, load, warmup_queries=warmup, name=name)

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Time of the steps."""
        return (self.duration_s + 1.0) * (len(self.ceilings) + 1)


def _describe(phase: Phase, ceiling: float, limit_bytes: int, resident: int) -> None:
    phase.params = {**phase.params, "ceiling": ceiling}
    phase.metrics |= {
        "memory_limit_bytes": float(limit_bytes),
        "limit_to_resident": limit_bytes / resident,
    }


def _unsearched_step(
    ceiling: float, limit_bytes: int, why: str, context: Context, point: Mapping[str, Any]
) -> Phase:
    """A step that was not searched, with the reason."""
    now = perf_counter_ns()
    phase = Phase("step", now, now, params={**point, "k": context.k, "ceiling": ceiling})
    phase.unsampled = "nothing was searched in it"
    phase.metrics["memory_limit_bytes"] = float(limit_bytes)
    phase.missing |= dict.fromkeys(("qps", "latency_p50", "latency_p99", "recall_mean"), why)
    phase.remark(why)
    return phase
