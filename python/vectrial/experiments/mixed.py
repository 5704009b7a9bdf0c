"""Searching while rows come, change and go: every answer judged against the rows alive then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from time import process_time_ns
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field, model_validator

from vectrial._engine import Recorder
from vectrial.document.sheet import LATENCY, Sheet, metric
from vectrial.experiments.base import (
    Experiment,
    Target,
    point_with_fresh_reads,
    refuse_library,
    search_points,
)
from vectrial.experiments.common import mixed_open_loop
from vectrial.experiments.common.live_set import TimedAnswer, Version, judge, mark_unjudged
from vectrial.experiments.common.mixed_open_loop import DELETE, INSERT, KINDS, SEARCH, UPDATE
from vectrial.model.capabilities import Params
from vectrial.model.context import Context, search_params
from vectrial.model.errors import Unsupported
from vectrial.model.inputs import Clients, PositiveSeconds, Rate
from vectrial.model.lane import Lane
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.phase import Phase
from vectrial.model.results_schema import MetricName
from vectrial.model.store import Hits, Searcher
from vectrial.workload.ingest import make_batch
from vectrial.workload.python.timed import Sample, call_timed, record_operation, timed_search
from vectrial.workload.record import PhaseStart, phase_of

#: Clients at set rates, unless the suite says.
_CLIENTS = 8


_METRICS = (
    MetricName(
        "recall_mean_lower",
        "1",
        "higher",
        "least mean recall that fits what is known while rows change; recall_mean is the most",
        "Recall mean lower",
    ),
    MetricName(
        "uncertain_rows",
        "1",
        None,
        "rows whose writes were under way during a search, so that its answer may or may not have "
        "them; mean of searches",
        "Uncertain rows",
    ),
)
_OWN = {one.name: one for one in _METRICS}


_SHEET = Sheet(
    "Searching while rows change",
    "closed: one client searches, inserts, updates and deletes in random order. open: each "
    "operation has its own rate, and latency counts from the scheduled time. Recall is against "
    "the rows alive at each search. With one client it is exact; otherwise writes in flight "
    "leave a range, and both bounds are shown. A row counts as dead only if it was certainly "
    "absent for the whole search.",
    ("search", "insert", "update", "delete"),
    (
        ("mix", "Mix"),
        ("loop", "Loop"),
        ("rate", "Offered/s"),
        ("clients", "Clients"),
        ("phase", "Operation"),
    ),
    (
        metric("qps", "Done/s"),
        *LATENCY,
        metric("schedule_lag_p99", "lag p99", "Latency"),
        metric("recall_mean", "at most", "Recall"),
        metric(_OWN["recall_mean_lower"], "at least", "Recall"),
        metric(_OWN["uncertain_rows"], "Rows under way"),
        metric("count", "Done"),
        metric("unsent", "Not sent"),
        metric("errors", "Errors"),
        metric("stale_results", "Answers with dead rows"),
    ),
    sparse=True,
)


class Mixed(Experiment):
    """Searching while rows are inserted, updated and deleted; see `live_set.judge` for how answers
    are judged.

    Without `rates`, one client of the store's SDK, in random order, by the given shares:
    since every write is acknowledged before the next request is sent, the rows alive at each
    search are known exactly, and so is what it should have found.

    With `rates`, all kinds at once, each on a schedule that waits for nothing, through the trial's
    lane. What is alive at a search is known but for the writes under way: recall is between
    `recall_mean_lower` and `recall_mean`, and only a row certainly dead is wrong.

    operations: total number; searches, inserts, updates, deletes: their shares, in any unit.
    max_s: no request is sent later than this.
    rates: requests per second by kind: search, and insert, update or delete; no shares then.
    duration_s: seconds of such a load. arrivals: "poisson" (seeded) or "constant".
    clients: in the sdk lane clients with a connection of their own each; in the native lane
        connections of each kind, if a connection carries a single request at a time. Default: 8;
        a library has one client.
    search: search parameters (no lists). If the store has a setting that lets searches see every
        acknowledged change, it is added.
    """

    name: ClassVar[str] = "mixed"
    title: ClassVar[str] = "Searching while rows change"
    place: ClassVar[int] = 75
    metrics: ClassVar[tuple[MetricName, ...]] = _METRICS
    terms: ClassVar[Mapping[str, str]] = {
        "mix": "mix of operations",
    }
    sheet: ClassVar[Sheet | None] = _SHEET
    mutates: ClassVar[bool] = True
    axes: ClassVar[frozenset[str]] = frozenset({"search"})

    operations: int = Field(default=2000, ge=10, le=1_000_000)
    searches: float = Field(default=0.7, gt=0, le=1e9)
    inserts: float = Field(default=0.1, ge=0, le=1e9)
    updates: float = Field(default=0.1, ge=0, le=1e9)
    deletes: float = Field(default=0.1, ge=0, le=1e9)
    max_s: PositiveSeconds = 30.0
    rates: dict[Literal["search", "insert", "update", "delete"], Rate] | None = None
    duration_s: PositiveSeconds = 10.0
    arrivals: Literal["poisson", "constant"] = "poisson"
    clients: Clients | None = None
    search: dict[str, int | float | str | bool] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_has_changes(self) -> Mixed:
        if self.rates is not None:
            if SEARCH not in self.rates or len(self.rates) < 2:
                raise ValueError("rates are of search, and of insert, update or delete")
        elif not self.inserts + self.updates + self.deletes:
            raise ValueError("nothing changes: set inserts, updates or deletes above 0")
        return self

    def points(self, target: Target) -> list[OperatingPoint]:
        can = target.capabilities
        shares = {INSERT: self.inserts, UPDATE: self.updates, DELETE: self.deletes}
        asked = self._rates() or shares
        needs = {
            "insert after the index is built": asked.get(INSERT) and not can.inserts_after_build,
            "update in place": asked.get(UPDATE) and not can.upsert,
            "delete": asked.get(DELETE) and not can.delete,
        }
        for what, missing in needs.items():
            if missing:
                raise Unsupported(f"{target.name} cannot {what} with index '{target.index.kind}'")
        points = search_points(target, self.search)
        if self.rates is None:
            return points
        clients = 1 if target.store.kind == "embedded" else _CLIENTS
        return [point.with_parameters(clients=self.clients or clients) for point in points]

    def _rates(self) -> dict[str, float]:
        """Requests per second by kind; empty if shares are given instead."""
        return {str(kind): rate for kind, rate in (self.rates or {}).items()}

    def supported_lanes(self) -> frozenset[Lane] | None:
        """Lanes of this mix; a single client always uses the store's SDK."""
        return None if self.rates is None else frozenset(Lane)

    def clients_at(self, point: Mapping[str, Any]) -> int | None:
        """Number of clients; None if the loop is open."""
        return 1 if self.rates is None else None

    def check_point(self, target: Target, point: Mapping[str, Any]) -> None:
        """Apply the common checks, and refuse several clients of a library."""
        super().check_point(target, point)
        refuse_library(target, point.get("clients", 1), "searches it and writes to it")

    def _mix(self) -> str:
        """Mix of the operations: "100/s search + 10/s insert", or in shares
        "90 % search + 10 % insert"; unused kinds are left out."""
        if self.rates is not None:
            given, unit = self._rates(), "/s"
        else:
            shares = (self.searches, self.inserts, self.updates, self.deletes)
            given = dict(zip(KINDS, (100 * one / sum(shares) for one in shares), strict=True))
            unit = " %"
        asked = ((kind, given.get(kind, 0.0)) for kind in KINDS)
        return " + ".join(f"{amount:.4g}{unit} {kind}" for kind, amount in asked if amount)

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        for phase in self._phases(context, point):
            phase.params = {**phase.params, "mix": self._mix()}
            yield phase

    def _phases(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        if self.rates is None:
            yield from self._run_script(context, point)
            return
        clients = int(point["clients"])
        mix = mixed_open_loop.OpenLoopMix(self._rates(), self.duration_s, self.arrivals, clients)
        yield from mixed_open_loop.run(context, point, mix)

    def _run_script(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        point = point_with_fresh_reads(context, point)
        script = _draw_script(self, context)
        warmup = context.dataset.queries[: mixed_open_loop.WARMUP]
        store, params = context.store, search_params(context, point)
        search = store.searcher(context.k, params)
        for query in warmup:
            search(query)
        phase_start = PhaseStart.now()
        recorders = {kind: Recorder() for kind in KINDS}
        for recorder in recorders.values():
            recorder.start(phase_start.started_ns)
        store.auto_refresh = False  # what lets a search see a write is part of it: see `_play`
        try:
            answers, done = self._play(context, script, recorders, phase_start, search, params)
        finally:
            store.auto_refresh = True
        cpu_ns = process_time_ns()
        among = sum(recorder.samples() for recorder in recorders.values())
        phases = dict[str, Phase]()
        for kind in KINDS:
            samples = recorders[kind].samples()
            if not samples:
                continue
            phase = phase_of(
                kind,
                recorders[kind],
                phase_start,
                ended_ns=done,
                cpu_ns=cpu_ns,
                issued=samples,
                clients=1,
                params={"loop": "closed", "clients": 1},
                no_recall="an operation has no answer to judge",
                among=among,
            )
            phase.params = {**phase.params, "k": context.k, **point}
            if kind == SEARCH:
                phase.metrics["warmup_count"] = len(warmup)
            else:
                phase.missing["stale_results"] = "an operation has no answer to judge"
            phases[kind] = phase
        yield from phases.values()
        if SEARCH in phases:  # judging is no part of the time that all of them share
            lost = sum(int(recorders[kind].summary()["errors"] or 0) for kind in KINDS[1:])
            _judge(phases[SEARCH], context, script, answers, lost)

    def _play(
        self,
        context: Context,
        script: _Script,
        recorders: Mapping[str, Recorder],
        phase_start: PhaseStart,
        first: Searcher,
        params: Params,
    ) -> tuple[dict[int, NDArray[np.int64]], int]:
        """Run the script; returns the answers by position, and when the last operation was done.

        A searcher is made outside the clock. Making earlier writes visible to it is timed: in some
        stores a search waits for that itself, in others the client must request it.
        """
        store, answers = context.store, dict[int, NDArray[np.int64]]()
        search: Searcher | None = first
        done = phase_start.started_ns
        for at, (kind, subject) in enumerate(zip(script.kinds, script.subjects, strict=True)):
            if done - phase_start.started_ns > self.max_s * 1e9:
                script.cut(at)
                break
            sample: Sample[Any]
            if kind == SEARCH:
                query = context.dataset.queries[subject]
                if search is None:
                    sample, search = _settled_search(context, params, query)
                else:
                    sample = timed_search(search, query)
                if sample.result is not None:
                    answers[at] = sample.result[0]
            elif kind == DELETE:
                sample = call_timed(store.delete, np.array([subject], dtype=np.int64))
            else:
                write = store.insert if kind == INSERT else store.upsert
                sample = call_timed(write, script.batch(context, at))
            record_operation(recorders[kind], sample)
            done = sample.done_ns
            if kind != SEARCH:
                search = None  # a searcher is good until the next write
            context.progress(at + 1, len(script.kinds), "mixed")
        return answers, done

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """The duration, or a millisecond an operation."""
        if self.rates is not None:
            return self.duration_s + 1.0
        return min(self.max_s, self.operations * 2e-3)


def _settled_search(
    context: Context, params: Params, query: NDArray[np.float32]
) -> tuple[Sample[Hits], Searcher | None]:
    """The first search after a write, and its searcher, to be used until the next write. The
    searcher is made outside the clock; the writes are made visible within it. If the searcher
    cannot be made, that is an error of the search."""
    made = call_timed(lambda k: context.store.searcher(k, params), context.k)
    searcher = made.result
    if searcher is None:
        return Sample(made.sent_ns, made.done_ns, None, made.failure), None

    def settled(vector: NDArray[np.float32], /) -> Hits:
        context.store.refresh()
        return searcher(vector)

    sample = timed_search(settled, query)
    return sample, searcher if sample.failure is None else None


def _judge(
    phase: Phase,
    context: Context,
    script: _Script,
    answers: Mapping[int, NDArray[np.int64]],
    lost: int,
) -> None:
    """Record recall and dead answers, unless writes were lost."""
    if lost:
        mark_unjudged(phase, f"{lost} writes failed: what is there is not known")
        return
    versions = [one for own in script.versions.values() for one in own]
    found = [TimedAnswer(script.subjects[at], (at, at), ids) for at, ids in answers.items()]
    judge(context.dataset, context.k, versions, found).write(phase)


@dataclass(frozen=True)
class _Script:
    """Operations in their order, made before the clock starts.

    subjects: for a search the query's number, else the row's id.
    versions: vectors of every row that a write touches, in order; the first is the dataset's own.
    rows: id → position in the dataset of the row whose metadata it has.
    """

    kinds: list[str]
    subjects: list[int]
    versions: dict[int, list[Version]]
    written: dict[int, Version]
    rows: dict[int, int]

    def batch(self, context: Context, position: int) -> pa.RecordBatch:
        """A batch with the row that is written at a position of the script."""
        version = self.written[position]
        row = self.rows[version.id]
        metadata = context.dataset.metadata
        return make_batch(
            context.schema,
            np.array([version.id], dtype=np.int64),
            version.vector[None, :],
            None if metadata is None else metadata.slice(row, 1),
        )

    def cut(self, position: int) -> None:
        """Drop the operations from this position on, which were not done."""
        del self.kinds[position:], self.subjects[position:]


def _draw_script(experiment: Mixed, context: Context) -> _Script:
    """Draw the operations, and track which rows are alive."""
    dataset, rng = context.dataset, np.random.default_rng(context.seed)
    shares = np.array(
        [experiment.searches, experiment.inserts, experiment.updates, experiment.deletes]
    )
    drawn = rng.choice(len(KINDS), experiment.operations, p=shares / shares.sum())
    script = _Script([], [], {}, {}, {})
    live = dataset.ids.tolist()
    position = {id_: row for row, id_ in enumerate(live)}
    fresh = int(dataset.ids.max()) + 1
    noise = 0.05 * float(np.std(dataset.vectors[: min(1000, dataset.rows)]))
    for at, kind in enumerate(KINDS[i] for i in drawn.tolist()):
        if kind != SEARCH and kind != INSERT and len(live) <= context.k:
            kind = SEARCH  # enough must be left to be found
        script.kinds.append(kind)
        if kind == SEARCH:
            script.subjects.append(int(rng.integers(len(dataset.queries))))
            continue
        if kind == INSERT:
            id_, fresh = fresh, fresh + 1
            script.rows[id_] = int(rng.integers(dataset.rows))
            live.append(id_)
        else:
            spot = int(rng.integers(len(live)))
            id_ = live[spot]
            if id_ not in script.versions:
                row = script.rows[id_] = position[id_]
                script.versions[id_] = [Version(id_, dataset.vectors[row])]
            script.versions[id_][-1].died = (at, at)
            if kind == DELETE:
                live[spot] = live[-1]
                live.pop()
        script.subjects.append(id_)
        if kind != DELETE:
            source = dataset.vectors[int(rng.integers(dataset.rows))]
            moved = source + noise * rng.standard_normal(dataset.dim, dtype=np.float32)
            version = Version(id_, moved.astype(np.float32), (at, at))
            script.versions.setdefault(id_, []).append(version)
            script.written[at] = version
    return script
