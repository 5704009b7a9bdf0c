"""Searches while rows are added and indexed, beside the same searches of an idle server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from vectrial.document.sheet import LATENCY, SETTING, Sheet, metric
from vectrial.experiments.base import Experiment, Numbers, Target, Values
from vectrial.experiments.common.builder import Builder
from vectrial.experiments.common.row_parts import (
    insert,
    share_points,
    split_non_neighbours,
    take_rows,
)
from vectrial.model.context import Context
from vectrial.model.inputs import PositiveSeconds, Share, Warmup
from vectrial.model.lane import Lane
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.phase import Phase, State
from vectrial.model.results_schema import MetricName
from vectrial.model.workload import ClosedLoop
from vectrial.workload import dispatch, ingest

_METRICS = (
    MetricName("added_rows", "1", None, "rows inserted while searching", "Rows added"),
    MetricName("added_s", "s", "lower", "from the first added row to the last one", "Added in"),
    MetricName(
        "indexed_s",
        "s",
        "lower",
        "from the first added row until they are flushed, and served by the final index",
        "Indexed in",
    ),
    MetricName(
        "p50_to_idle",
        "1",
        "lower",
        "latency_p50 while building over that of the idle server",
        "p50",
    ),
    MetricName(
        "p99_to_idle",
        "1",
        "lower",
        "latency_p99 while building over that of the idle server",
        "p99",
    ),
    MetricName(
        "qps_to_idle", "1", "higher", "QPS while building over that of the idle server", "QPS"
    ),
)
_OWN = {one.name: one for one in _METRICS}
_RATIOS = {
    "p50_to_idle": "latency_p50",
    "p99_to_idle": "latency_p99",
    "qps_to_idle": "qps",
}

_SHEET = Sheet(
    "Searches while an index is built",
    "idle: before rows are added. building: the same load from the first added row until the final "
    "index serves all of them. idle_again: afterwards, with all rows. Added rows are nobody's "
    "neighbours, so recall means the same in the three phases.",
    ("idle", "building", "idle_again"),
    (("added", "Added"), ("clients", "Clients"), (SETTING, "Setting"), ("phase", "When")),
    (
        metric("qps", "QPS"),
        *LATENCY,
        metric("recall_mean", "Recall"),
        metric(_OWN["p50_to_idle"], "p50", "To idle"),
        metric(_OWN["p99_to_idle"], "p99", "To idle"),
        metric(_OWN["qps_to_idle"], "QPS", "To idle"),
        metric(_OWN["added_s"], "Added in"),
        metric(_OWN["indexed_s"], "Indexed in"),
        metric("count", "Searches"),
        metric("errors", "Errors"),
    ),
    sparse=True,
)


class SearchDuringBuild(Experiment):
    """Search a finished collection, then search it at the same load while a share of the rows is
    inserted, flushed and indexed, and once more afterwards.

    The rows are inserted by one client in batches, through a connection of their own; then the
    store is asked to flush, build and wait until the final index serves every row. They are rows
    that are not among the neighbours of any query, so that the truth does not depend on how many
    of them are there. If too few are left over, the last queries of the dataset are not asked.

    added: shares of all rows that are inserted while searching; the others are there before.
    clients: closed-loop clients, in the native lane. search: search parameters; lists are grids.
    duration_s: seconds of the idle phases. max_s: the searches end then, even if the index is not
        built.
    warmup_queries: warm-up of each client before each phase, for at most five seconds: a server
        that compiles its code while it runs is slow at first, and would seem faster while it
        builds.
    """

    name: ClassVar[str] = "search_during_build"
    title: ClassVar[str] = "Searches while an index is built"
    place: ClassVar[int] = 76
    metrics: ClassVar[tuple[MetricName, ...]] = _METRICS
    terms: ClassVar[Mapping[str, str]] = {
        "added": "share of rows added",
    }
    sheet: ClassVar[Sheet | None] = _SHEET
    starts_from: ClassVar[State] = State.EMPTY
    axes: ClassVar[frozenset[str]] = frozenset({"added", "clients", "search"})
    lanes: ClassVar[frozenset[Lane] | None] = frozenset({Lane.NATIVE})

    added: tuple[Share, ...] = Field(default=(0.2,), min_length=1)
    clients: Numbers = (4,)
    search: dict[str, Values] = Field(default_factory=dict)
    duration_s: PositiveSeconds = 5.0
    max_s: PositiveSeconds = 300.0
    warmup_queries: Warmup = 1000

    def points(self, target: Target) -> list[OperatingPoint]:
        return share_points(target, "added", self.added, self.clients, self.search)

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        dataset, store = context.dataset, context.store
        count = max(1, round(float(point["added"]) * dataset.rows))
        context, rows = split_non_neighbours(context, count)
        others = np.setdiff1d(np.arange(dataset.rows), rows)
        store.create(context.schema, context.index)
        insert(store, context, take_rows(dataset, others), context.progress)
        ingest.finish(store, context.progress)
        idle = self._search_phase(context, point, "idle")
        yield idle
        builder = Builder(context, take_rows(dataset, rows))
        try:
            phase = self._search_phase(context, point, "building", until=builder.has_ended)
        finally:
            builder.join()
        phase.metrics |= {
            "added_rows": float(count),
            "added_s": builder.added_s,
            "indexed_s": builder.indexed_s,
        }
        if not builder.has_finished_in_time:
            phase.remark("max_s was over before the index was built")
        for ratio, of in _RATIOS.items():
            one, other = phase.metrics.get(of), idle.metrics.get(of)
            if one and other:
                phase.metrics[ratio] = one / other
        yield phase
        yield self._search_phase(context, point, "idle_again")

    def _search_phase(
        self,
        context: Context,
        point: Mapping[str, Any],
        name: str,
        until: Callable[[], bool] | None = None,
    ) -> Phase:
        """A phase of searches that lasts `duration_s`, or until `until` says so."""
        seconds = self.duration_s if until is None else self.max_s
        load = ClosedLoop(int(point["clients"]), seconds, seconds)
        warmup = self.warmup_queries
        return dispatch.search(context, point, load, warmup_queries=warmup, name=name, until=until)

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Time of the searches on the idle server."""
        return 2.0 + 2 * self.duration_s

    def loads_at(self, point: Mapping[str, Any]) -> float:
        """One load alone, and one during searches, which takes twice as long."""
        return 3.0
