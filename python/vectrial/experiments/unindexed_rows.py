"""Searches of a collection of which a share of the rows is not in the final index yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import perf_counter_ns
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from vectrial.document.sheet import LATENCY, SETTING, Sheet, metric
from vectrial.experiments.base import (
    Experiment,
    Numbers,
    Target,
    Values,
    point_with_fresh_reads,
    refuse_threads,
    row_searcher,
)
from vectrial.experiments.common.row_parts import insert, share_points, take_rows
from vectrial.model.context import Context
from vectrial.model.inputs import PositiveSeconds, Warmup
from vectrial.model.lane import Lane
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.phase import Phase, State
from vectrial.model.results_schema import MetricName
from vectrial.model.workload import ClosedLoop
from vectrial.workload import dispatch, ingest

_METRICS = (
    MetricName(
        "unindexed_rows",
        "1",
        None,
        "rows that the store says it serves without the final index",
        "Unindexed rows",
    ),
    MetricName(
        "index_wait_s",
        "s",
        "lower",
        "flush, build and wait until the final index serves the rows inserted last",
        "Index wait",
    ),
)
_OWN = {one.name: one for one in _METRICS}

_SHEET = Sheet(
    "Searches over rows that are not indexed yet",
    "The same number of rows each time. The last share of them was inserted after the index was "
    "built: as_inserted, before any flush or build; indexed, after the store was asked to finish. "
    "Unindexed is what the store itself says. One that indexes while it inserts has none.",
    ("as_inserted", "indexed"),
    (("unindexed", "Share"), ("clients", "Clients"), (SETTING, "Setting"), ("phase", "When")),
    (
        metric("qps", "QPS"),
        *LATENCY,
        metric("recall_mean", "Recall"),
        metric(_OWN["unindexed_rows"], "Unindexed"),
        metric(_OWN["index_wait_s"], "Until indexed"),
        metric("errors", "Errors"),
    ),
    sparse=True,
)


class UnindexedRows(Experiment):
    """Load all rows but a share, finish the index, insert the share, and search at once: before
    anything is flushed, sealed or built. Then have the store finish, and search again.

    Every share is a load of its own, of all rows in the end, so that only the share differs.
    A search that sees every earlier write comes before the timed ones.

    unindexed: shares of the rows that are inserted last; 0: none, as a baseline.
    clients: closed-loop clients. search: search parameters; lists are grids.
    duration_s: seconds of each phase. warmup_queries: warm-up of each client before each phase, for
        at most five seconds: a server that compiles its code while it runs is slow at first.
    """

    name: ClassVar[str] = "unindexed_rows"
    title: ClassVar[str] = "Searches over rows that are not indexed yet"
    place: ClassVar[int] = 77
    metrics: ClassVar[tuple[MetricName, ...]] = _METRICS
    terms: ClassVar[Mapping[str, str]] = {
        "unindexed": "share of rows inserted last",
    }
    sheet: ClassVar[Sheet | None] = _SHEET
    starts_from: ClassVar[State] = State.EMPTY
    axes: ClassVar[frozenset[str]] = frozenset({"unindexed", "clients", "search"})
    lanes: ClassVar[frozenset[Lane] | None] = frozenset(Lane)

    unindexed: tuple[Annotated[float, Field(ge=0, lt=1)], ...] = Field(
        default=(0.0, 0.05, 0.1, 0.2, 0.5), min_length=1
    )
    clients: Numbers = (1,)
    search: dict[str, Values] = Field(default_factory=dict)
    duration_s: PositiveSeconds = 3.0
    warmup_queries: Warmup = 1000

    def points(self, target: Target) -> list[OperatingPoint]:
        return share_points(target, "unindexed", self.unindexed, self.clients, self.search)

    def check_point(self, target: Target, point: Mapping[str, Any]) -> None:
        """Apply the common checks, and refuse several clients if the store allows one thread."""
        super().check_point(target, point)
        refuse_threads(target, int(point["clients"]))

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        store, dataset = context.store, context.dataset
        first = dataset.rows - round(float(point["unindexed"]) * dataset.rows)
        store.create(context.schema, context.index)
        rows = np.arange(dataset.rows)
        insert(store, context, take_rows(dataset, rows[:first]), context.progress)
        ingest.finish(store, context.progress)
        if first < dataset.rows:
            insert(store, context, take_rows(dataset, rows[first:]), context.progress)
        row_searcher(store, context, point_with_fresh_reads(context, point))(dataset.queries[0])
        yield self._search_phase(context, point, "as_inserted", {})
        if first < dataset.rows:
            started = perf_counter_ns()
            ingest.finish(store, context.progress)
            waited = {"index_wait_s": (perf_counter_ns() - started) / 1e9}
            yield self._search_phase(context, point, "indexed", waited)

    def _search_phase(
        self, context: Context, point: Mapping[str, Any], name: str, more: Mapping[str, float]
    ) -> Phase:
        """A phase of searches, with the number of rows that were not indexed when it began."""
        unindexed = context.store.unindexed_rows()
        load = ClosedLoop(int(point["clients"]), self.duration_s, self.duration_s)
        warmup = self.warmup_queries
        phase = dispatch.search(context, point, load, warmup_queries=warmup, name=name)
        phase.metrics |= more
        if unindexed is None:
            phase.missing["unindexed_rows"] = "the store does not tell"
        else:
            phase.metrics["unindexed_rows"] = float(unindexed)
        return phase

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Time of two phases of searches."""
        return 2.0 + 2 * self.duration_s
