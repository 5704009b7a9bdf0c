"""`mixed` at set rates: which rows are written when, and how answers are judged."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from vectrial.experiments.base import point_with_fresh_reads
from vectrial.experiments.common.live_set import (
    NEVER,
    Span,
    TimedAnswer,
    Version,
    judge,
    mark_unjudged,
)
from vectrial.model.context import Context, search_params
from vectrial.model.dataset import Dataset
from vectrial.model.errors import StoreError
from vectrial.model.lane import Lane
from vectrial.model.phase import Phase
from vectrial.model.placement import Certificate
from vectrial.model.workload import OpenLoop
from vectrial.workload.ceiling import certify
from vectrial.workload.python.open_loop import due_times
from vectrial.workload.python.sdk_process import opening_of
from vectrial.workload.record import phase_of_outcome
from vectrial.workload.streams import (
    NEVER_NS,
    Stream,
    StreamOutcome,
    StreamsOutcome,
    send_by_clients,
    send_by_engine,
)

SEARCH, INSERT, UPDATE, DELETE = KINDS = ("search", "insert", "update", "delete")
_OPERATIONS = {SEARCH: "search", INSERT: "insert", UPDATE: "upsert", DELETE: "delete"}
#: Queries asked before the clock starts.
WARMUP = 100
#: Distance by which a query or a row is moved, as a share of the components' standard deviation.
NOISE = 0.05


@dataclass(frozen=True)
class OpenLoopMix:
    """Offered load. rates: requests per second by kind; arrivals: "poisson" or "constant"."""

    rates: Mapping[str, float]
    duration_s: float
    arrivals: str
    clients: int


def run(context: Context, point: Mapping[str, Any], mix: OpenLoopMix) -> Iterator[Phase]:
    """A phase for each kind of operation, all measured at the same time."""
    point = point_with_fresh_reads(context, point)
    script = OperationScript(context.dataset, mix, context.seed)
    load_1m = os.getloadavg()[0]
    streamed = _send(context, point, mix, script)
    outcome = streamed.outcome
    held = context.certificate
    bare = Certificate(held.limits, held.placement, {}, "no ceiling of such requests is known")
    phases = list[Phase]()
    for stream, record in zip(script.streams, outcome["classes"], strict=True):
        rate = mix.rates[stream.name]
        phase = phase_of_outcome(
            stream.name,
            outcome,
            record,
            clients=None,
            load_1m=load_1m,
            params={"loop": "open", "arrivals": mix.arrivals, "rate": rate},
            no_recall="an operation has no answer to judge",
        )
        # The run's are those of all kinds together.
        phase.metrics["offered_rate"] = len(stream.due) / mix.duration_s
        phase.metrics["unsent"] = len(stream.due) - record["issued"]
        if context.lane is Lane.NATIVE:
            certify(phase, None, held if stream.name == SEARCH else bare)
        else:
            seconds = (outcome["ended_ns"] - outcome["started_ns"]) / 1e9
            phase.metrics["client_cpu_share"] = outcome["cpu_ns"] / 1e9 / seconds
            phase.metrics["client_processes"] = 1
            for unknown in ("reconnects", "in_flight_peak"):
                phase.metrics[unknown] = None
                phase.missing[unknown] = "the Python client does not tell"
            if context.lane is Lane.SDK and not phase.valid:
                _blame_client(phase, held.limits.cpu_share)
        phase.params = {**phase.params, "k": context.k, **point}
        if stream.name == SEARCH:
            clients = mix.clients if context.lane is Lane.SDK else 1
            phase.metrics["warmup_count"] = clients * len(context.dataset.queries[:WARMUP])
        else:
            phase.missing["stale_results"] = "an operation has no answer to judge"
        phases.append(phase)
    yield from phases
    for phase, seen in zip(phases, streamed.seen, strict=True):
        if phase.name == SEARCH:  # judging is no part of the time that all of them share
            _judge(phase, context, script, streamed, seen)


def _blame_client(phase: Phase, limit: float) -> None:
    """Record in an invalid phase that the Python client may be the cause: its clients are threads
    of one process, which runs one of them at a time."""
    share = phase.metrics["client_cpu_share"] or 0.0
    if share > limit:
        phase.invalidate(
            f"client-bound: the Python client used {share:.0%} of a processor, more than"
            f" {limit:.0%}"
        )


def _send(
    context: Context, point: Mapping[str, Any], mix: OpenLoopMix, script: OperationScript
) -> StreamsOutcome:
    store = context.store
    params = search_params(context, point)
    warmup = context.dataset.queries[:WARMUP]
    common: dict[str, Any] = {"warmup": warmup, "progress": context.progress}
    if context.lane is Lane.NATIVE:
        return send_by_engine(
            store.native_search(context.k, params),
            store.native_rows(),
            script.streams,
            context.schema,
            context.k,
            mix.duration_s,
            context.certificate,
            connections=mix.clients,
            seed=context.seed,
            **common,
        )
    asked = (script.streams, context.schema, context.k, params, mix.duration_s)
    if context.lane is Lane.EMBEDDED:
        return send_by_clients([store], *asked, **common)
    with ExitStack() as stack:
        opening = opening_of(context)
        stores = [stack.enter_context(closing(opening.open(at))) for at in range(mix.clients)]
        return send_by_clients(stores, *asked, **common)


class OperationScript:
    """Schedule of operations, drawn before the clock starts.

    A row is written at most once: inserted under a fresh id, or updated, or deleted, the latter two
    among the dataset's own. So no outcome depends on the order of two writes under way at once.
    streams: one for each kind with a rate, in the order of `KINDS`. queries: query of each search.
    """

    def __init__(self, dataset: Dataset, mix: OpenLoopMix, seed: int) -> None:
        rng = np.random.default_rng([seed, 3])
        self._dataset = dataset
        due = {
            kind: due_times(OpenLoop(rate, mix.duration_s, mix.arrivals), seed + 10 * at)
            for at, kind in enumerate(KINDS)
            if (rate := mix.rates.get(kind, 0.0))
        }
        moved, gone = (len(due.get(kind, ())) for kind in (UPDATE, DELETE))
        if moved + gone > dataset.rows // 2:
            raise StoreError(
                f"{moved + gone:,} rows would be updated or deleted, more than half of"
                f" {dataset.rows:,}: set lower rates, or a shorter duration_s"
            )
        rows = rng.permutation(dataset.rows)[: moved + gone]
        asked = len(due[SEARCH])
        passes = [
            rng.permutation(len(dataset.queries)) for _ in range(asked)[:: len(dataset.queries)]
        ]
        self.queries = np.concatenate([*passes, np.zeros(0, np.int64)])[:asked].astype(np.int64)
        noise = NOISE * float(np.std(dataset.vectors[: min(1000, dataset.rows)]))

        def stream(kind: str) -> Stream:
            when = due[kind]
            if kind == SEARCH:
                return Stream(kind, _OPERATIONS[kind], when, dataset.queries[self.queries])
            if kind == DELETE:
                return Stream(kind, _OPERATIONS[kind], when, ids=dataset.ids[rows[moved:]])
            source = rng.integers(0, dataset.rows, len(when))
            near = dataset.vectors[source]
            vectors = near + noise * rng.standard_normal(near.shape, dtype=np.float32)
            if kind == UPDATE:
                ids, of = dataset.ids[rows[:moved]], rows[:moved]
            else:
                ids, of = int(dataset.ids.max()) + 1 + np.arange(len(when)), source
            table = dataset.metadata
            metadata = None if table is None else table.take(of)
            vectors = vectors.astype(np.float32)
            return Stream(kind, _OPERATIONS[kind], when, vectors, ids.astype(np.int64), metadata)

        self.streams = [stream(kind) for kind in KINDS if kind in due and len(due[kind])]
        self._rows = {int(dataset.ids[row]): int(row) for row in rows.tolist()}

    def answers(self, seen: StreamOutcome) -> list[TimedAnswer]:
        """The answers to the searches, in the order of their numbers."""
        return [
            TimedAnswer(
                int(self.queries[at]), (int(seen.spans[at, 0]), int(seen.spans[at, 1])), found
            )
            for at, found in sorted(seen.answers.items())
        ]

    def versions(self, streamed: StreamsOutcome) -> list[Version]:
        """Every version of every row that was written, with its times: it is unknown whether a
        failed write took effect, and when."""
        made: list[Version] = []
        for stream, seen in zip(self.streams, streamed.seen, strict=True):
            if stream.name == SEARCH:
                continue
            assert stream.ids is not None
            for at, id_ in enumerate(stream.ids.tolist()):
                sent, done = seen.spans[at].tolist()
                span: Span = (sent, done if seen.succeeded[at] else NEVER_NS)
                if stream.name != INSERT:
                    old = self._dataset.vectors[self._rows[id_]]
                    made.append(Version(id_, old, died=span))
                if stream.name != DELETE:
                    assert stream.vectors is not None
                    made.append(Version(id_, stream.vectors[at], span, NEVER))
        return made


def _judge(
    phase: Phase,
    context: Context,
    script: OperationScript,
    streamed: StreamsOutcome,
    seen: StreamOutcome,
) -> None:
    """Record recall and dead answers, unless it is unknown what was written."""
    lost = 0
    for stream, record in zip(script.streams, streamed.outcome["classes"], strict=True):
        if stream.name != SEARCH:
            errors = int(record["recorder"].summary()["errors"] or 0)
            lost += errors + record["in_flight"] + len(stream.due) - record["issued"]
    if lost:
        mark_unjudged(phase, f"{lost} writes failed or were not sent: what is there is unknown")
        return
    versions = script.versions(streamed)
    judge(context.dataset, context.k, versions, script.answers(seen)).write(phase)
