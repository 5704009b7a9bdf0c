"""Share of the acknowledged rows that a search finds, while loading and afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from vectrial.document.sheet import Sheet, metric
from vectrial.experiments.base import Experiment, Target, row_searcher, search_points
from vectrial.experiments.common.readiness import first_search
from vectrial.model.context import Context
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.phase import Phase, State
from vectrial.model.results_schema import MetricName
from vectrial.model.store import Hits, Store
from vectrial.workload import ingest
from vectrial.workload.python.timed import describe, timed_search

#: Seconds of the looks after the last acknowledgement, until the store says it is ready.
_AFTER_S = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
#: Share of the rows found in the end at which everything counts as searchable; and the least number
#: of probes of which one may be missing anyway, since an approximate index misses a row now and
#: then.
_ALL, _ENOUGH = 0.99, 20
_POLL_S, _ROUNDING = 0.005, 1e-9

METRICS = (
    MetricName("elapsed_s", "s", None, "since the load began", "Elapsed"),
    MetricName(
        "share_found", "1", "higher", "rows found of acknowledged rows looked for", "Share found"
    ),
    MetricName(
        "searchable_after_s",
        "s",
        "lower",
        "last row acknowledged until as many rows are found as ever are, but one, to the look",
        "All found after the last row",
    ),
)

#: The experiment's own metrics by name.
OWN = {metric.name: metric for metric in METRICS}

_SHEET = Sheet(
    "Time until rows are searchable",
    "Some stores acknowledge rows long before a search finds them. A server is searched over "
    "a separate connection while it loads, a library between two batches. The row searchable "
    "covers the whole load: from its last row until the share found stops rising.",
    ("look", "searchable"),
    (
        ("phase", "What"),
        ("stage", "Stage"),
        ("loaded", "Loaded"),
        ("after_s", "Seconds after the last"),
    ),
    (
        metric(OWN["elapsed_s"], "Since the start"),
        metric("acknowledged_rows", "Acknowledged"),
        metric(OWN["share_found"], "Found"),
        metric("errors", "Errors"),
        metric("load_s", "Loaded", "Of the whole load"),
        metric("ready_s", "Ready", "Of the whole load"),
        metric(OWN["searchable_after_s"], "All found after the last row", "Of the whole load"),
    ),
    f"{__package__}.report:figures",
    f"{__package__}.report:tables",
    sparse=True,
)


class TimeToSearchable(Experiment):
    """Load an empty store, and look again and again how many of some acknowledged rows are found
    by their own vectors.

    A server is asked over a connection of its own while it loads, flushes, builds and waits. A
    library is asked between two batches, while the loading clock stands still.

    looks: while loading, evenly over the rows. probes: rows looked for in each, among the ten rows
        nearest to the row's own vector.
    search: search parameters (no lists).
    """

    name: ClassVar[str] = "time_to_searchable"
    title: ClassVar[str] = "Searchable while loading"
    place: ClassVar[int] = 50
    metrics: ClassVar[tuple[MetricName, ...]] = METRICS
    terms: ClassVar[Mapping[str, str]] = {
        "stage": "stage",
        "loaded": "share loaded",
        "after_s": "seconds after the load",
    }
    sheet: ClassVar[Sheet | None] = _SHEET
    starts_from: ClassVar[State] = State.EMPTY
    axes: ClassVar[frozenset[str]] = frozenset({"search"})

    looks: int = Field(default=10, ge=1, le=1000)
    probes: int = Field(default=50, ge=1, le=10_000)
    search: dict[str, int | float | str | bool] = Field(default_factory=dict)

    def points(self, target: Target) -> list[OperatingPoint]:
        return search_points(target, self.search)

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        context.store.create(context.schema, context.index)
        watch = _LoadWatch(context, point, self.looks, self.probes)
        if context.store.kind == "server":
            _watch_load(context, watch)
        else:
            _look_with_paused_clock(context, watch)
        yield from watch.phases
        yield watch.summary()

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Time of the looks, at a millisecond per probe."""
        return 0.5 + (self.looks + 5) * self.probes * 1e-3


@dataclass
class _LoadWatch:
    """State of a load under way, and the observations of it.

    acknowledged: rows so far. loaded_s, ready_s: when the last was, and when the store was ready.
    paused_s: time spent looking that the load stood still for.
    """

    context: Context
    point: Mapping[str, Any]
    looks: int
    probes: int
    acknowledged: int = 0
    loaded_s: float | None = None
    ready_s: float | None = None
    paused_s: float = 0.0
    started_ns: int = field(default_factory=perf_counter_ns)
    phases: list[Phase] = field(default_factory=list)
    done: int = 0
    after: int = 0

    def elapsed_s(self) -> float:
        """Seconds since the load began, without the pauses for looks."""
        return (perf_counter_ns() - self.started_ns) / 1e9 - self.paused_s

    def due_look(self) -> Mapping[str, Any] | None:
        """Parameters of the look that is due now, returned once; None when none is due."""
        if self.loaded_s is None:
            reached = self.acknowledged * self.looks // self.context.dataset.rows
            if self.done < reached < self.looks:
                self.done = reached
                return {"stage": "loading", "loaded": round(reached / self.looks, 4)}
        elif self.after < len(_AFTER_S):
            at = _AFTER_S[self.after]
            if self.elapsed_s() - self.loaded_s >= at:
                self.after += 1
                return {"stage": "after", "after_s": at}
        return None

    def look(self, store: Store, parameters: Mapping[str, Any]) -> None:
        """Search for a sample of the acknowledged rows, and record how many are found."""
        context, elapsed, count = self.context, self.elapsed_s(), self.acknowledged
        phase = Phase("look", perf_counter_ns(), 0, params={**parameters, **self._parameters()})
        phase.unsampled = "looks go on beside the load: what each cost the server is not known"
        rng = np.random.default_rng([context.seed, len(self.phases)])
        rows = rng.integers(0, max(1, count), self.probes)
        found, failures = 0, dict[tuple[str, str], int]()

        def search(vector: NDArray[np.float32], /) -> Hits:
            return row_searcher(store, context, self.point)(vector)

        for row in rows.tolist():
            sample = timed_search(search, context.dataset.vectors[row])
            if sample.failure is not None:
                said = describe(sample.failure)
                failures[said] = failures.get(said, 0) + 1
            elif sample.result is not None:
                found += int(context.dataset.ids[row]) in sample.result[0]
        phase.ended_ns = perf_counter_ns()
        phase.errors = [(kind, n, [message]) for (kind, message), n in failures.items()]
        phase.metrics |= {
            "elapsed_s": elapsed,
            "acknowledged_rows": float(count),
            "share_found": found / self.probes,
            "count": float(self.probes),
            "errors": float(sum(failures.values())),
        }
        self.phases.append(phase)

    def _parameters(self) -> dict[str, Any]:
        """Conditions that the figures depend on, apart from the time of the look."""
        return {**self.point, "batch_rows": self.context.batch_rows}

    def summary(self) -> Phase:
        """The phase with the time of the first look at which all findable rows were found."""
        assert self.loaded_s is not None
        assert self.ready_s is not None
        phase = Phase("searchable", self.started_ns, perf_counter_ns(), params=self._parameters())
        final = self.phases[-1].metrics["share_found"] or 0.0
        enough = _ALL * final
        if self.probes >= _ENOUGH:
            enough = min(enough, final - 1 / self.probes)
        phase.metrics |= {
            "load_s": self.loaded_s,
            "ready_s": self.ready_s,
            "share_found": final,
            "count": float(len(self.phases)),
        }
        for seen in reversed(self.phases):
            if (seen.metrics["share_found"] or 0.0) < enough - _ROUNDING:
                break
            if seen.params["stage"] == "loading":
                phase.metrics["searchable_after_s"] = 0.0
                break
            at = seen.metrics["elapsed_s"] or 0.0
            phase.metrics["searchable_after_s"] = max(0.0, at - self.loaded_s)
        if not final:
            said = [messages[0] for _, _, messages in self.phases[-1].errors if messages]
            phase.invalidate(": ".join(["no row was found in the end", *said[:1]]))
        return phase


def _load(context: Context, watch: _LoadWatch, between: Callable[[], None]) -> None:
    """Insert every row; `between` is called after each acknowledgement."""
    for batch in ingest.batches(context.dataset, context.schema, context.batch_rows):
        context.store.insert(batch)
        watch.acknowledged += batch.num_rows
        context.progress(watch.acknowledged, context.dataset.rows, "loading")
        between()
    watch.loaded_s = watch.elapsed_s()


def _finish(context: Context, watch: _LoadWatch) -> None:
    """Wait until the final index serves the store, and a search was answered or failed: the look
    that follows tells why."""
    ingest.finish(context.store, context.progress)
    with suppress(Exception):
        first_search(context, watch.point)


def _look_with_paused_clock(context: Context, watch: _LoadWatch) -> None:
    """Look from the loading thread, with the clock stopped: a library is not called
    concurrently."""

    def look() -> None:
        called = watch.due_look()
        if called is not None:
            began = perf_counter_ns()
            watch.look(context.store, called)
            watch.paused_s += (perf_counter_ns() - began) / 1e9

    _load(context, watch, look)
    look()
    _finish(context, watch)
    watch.ready_s = watch.elapsed_s()
    watch.look(context.store, {"stage": "ready"})


def _watch_load(context: Context, watch: _LoadWatch) -> None:
    """Look over a second connection, from another thread, while the first connection loads."""
    other = type(context.store)(context.store.location, context.address)
    other.auto_refresh = False  # when rows are seen is the question
    ended, failures = threading.Event(), list[BaseException]()

    def work() -> None:
        try:
            other.open(context.schema, context.index)
            while not ended.is_set():
                called = watch.due_look()
                if called is None:
                    ended.wait(_POLL_S)
                else:
                    watch.look(other, called)
        except BaseException as failure:  # noqa: BLE001 - raised in the calling thread
            failures.append(failure)

    thread = threading.Thread(target=work, name="looker", daemon=True)
    try:
        thread.start()
        _load(context, watch, lambda: None)
        _finish(context, watch)
        watch.ready_s = watch.elapsed_s()
    finally:
        ended.set()
        thread.join()
        other.close()
    if failures:
        raise failures[0]
    watch.look(context.store, {"stage": "ready"})
