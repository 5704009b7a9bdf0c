"""Searches and writes while a node of a cluster is lost and comes back."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from time import perf_counter_ns
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from vectrial.document.sheet import Sheet, metric
from vectrial.experiments.base import (
    Experiment,
    Target,
    as_list,
    point_with_fresh_reads,
    search_points,
)
from vectrial.experiments.common.live_set import RecallBounds, judge
from vectrial.experiments.common.mixed_open_loop import (
    DELETE,
    INSERT,
    SEARCH,
    WARMUP,
    OpenLoopMix,
    OperationScript,
)
from vectrial.experiments.node_loss import timeline
from vectrial.experiments.node_loss.loss import FaultSchedule, Writes, wait_settled
from vectrial.experiments.node_loss.timeline import RequestLog
from vectrial.model.context import Context, search_params
from vectrial.model.errors import Unsupported
from vectrial.model.faults import Fault
from vectrial.model.inputs import Clients, PositiveSeconds, Rate
from vectrial.model.lane import Lane
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.phase import Phase, Role
from vectrial.model.results_schema import MetricName
from vectrial.workload.record import phase_of_outcome
from vectrial.workload.streams import StreamsOutcome, send_by_engine

Faults = Annotated[tuple[Fault, ...], BeforeValidator(as_list), Field(min_length=1)]

METRICS = (
    MetricName("since_fault_s", "s", None, "since the node was lost", "Since the loss"),
    MetricName("short_answers", "1", "lower", "answers with fewer than k rows", "Short answers"),
    MetricName(
        "noticed_s", "s", None, "node lost until the first request failed or answer was short",
        "First seen",
    ),
    MetricName(
        "served_s", "s", "lower",
        "node lost until no request fails and no answer is short any more, before it is back",
        "Served again",
    ),
    MetricName(
        "recovered_s", "s", "lower",
        "node back until no request fails, no answer is short and recall is what it was",
        "Recovered",
    ),
    MetricName(
        "agreed_s", "s", "lower",
        "node back until every node has every acknowledged write and they agree on the count",
        "Nodes agree",
    ),
    MetricName("recall_before", "1", "higher", "recall before the node was lost", "Before"),
    MetricName("recall_lost", "1", "higher", "recall while the node was lost", "While lost"),
    MetricName("recall_after", "1", "higher", "recall after the node was back", "After"),
    MetricName(
        "missing_rows", "1", "lower",
        "acknowledged rows that a node does not have at the end; the most of any node",
        "Writes lost",
    ),
    MetricName(
        "returned_rows", "1", "lower",
        "rows whose delete was acknowledged and that a node has at the end; the most of any node",
        "Deletes undone",
    ),
    MetricName(
        "count_spread", "1", "lower", "difference of the nodes' counts of rows at the end",
        "Counts apart",
    ),
    MetricName(
        "lost_share", "1", "lower", "share of requests that failed while the node was lost",
        "Failed while lost",
    ),
)  # fmt: skip

#: The experiment's own metrics by name.
OWN = {metric.name: metric for metric in METRICS}

_SHEET = Sheet(
    "The loss of a node",
    "Searches, inserts and deletes at steady rates (open loop), with connections to every node. A "
    "node is lost and comes back: killed and started again, paused, or cut off from the others. "
    "Every answer is judged against the rows alive at that moment; one with fewer than k rows is "
    "short, whether or not the store reported an error. Afterwards each node is asked for every "
    "acknowledged write. Nodes are simulated hosts on one machine, unless their addresses were "
    "given.",
    ("loss",),
    (("fault", "Fault"), ("node", "Node")),
    (
        metric(OWN["recall_before"], "before", "Recall"),
        metric(OWN["recall_lost"], "lost", "Recall"),
        metric(OWN["recall_after"], "back", "Recall"),
        metric(OWN["lost_share"], "Failed while lost"),
        metric(OWN["short_answers"], "Short answers"),
        metric(OWN["noticed_s"], "first seen", "After the loss"),
        metric(OWN["served_s"], "served again", "After the loss"),
        metric(OWN["recovered_s"], "recovered", "After the return"),
        metric(OWN["agreed_s"], "nodes agree", "After the return"),
        metric(OWN["missing_rows"], "writes lost", "Rows"),
        metric(OWN["returned_rows"], "deletes undone", "Rows"),
        metric(OWN["count_spread"], "counts apart", "Rows"),
    ),
    figures=f"{__package__}.report:figures",
    notes=f"{__package__}.report:notes",
    hidden=("lost_s", "second", "loop", "rate"),
)


class NodeLoss(Experiment):
    """Search and write at steady rates; lose a node of the cluster, and have it back.

    Connections are spread over all nodes. A request that fails is an error of its class; its
    connection is opened again to the next node, outside of any sample. Every answer is judged
    against the rows that were alive then (see `mixed`): of a write that failed nobody knows whether
    it took effect, and no answer is held against the store for it. Afterwards every node is asked
    for what was acknowledged.

    faults: kill (its processes end, and are started again on the same data), pause (they stand
        still, and go on), cut (its link is down, and up again; needs `[hosts]`). Each is measured.
    node: number of the node that is lost, from 1; the last one unless given.
    rates: requests per second: search, insert and delete.
    before_s, lost_s, after_s: seconds of the load before the loss, until the node is back, and
        after that.
    settle_s: seconds that the nodes may take to agree after the load.
    timeout_s: until a request has failed. connections: see the clients of `mixed`.
    search: search parameters (no lists).
    """

    name: ClassVar[str] = "node_loss"
    title: ClassVar[str] = "The loss of a node"
    place: ClassVar[int] = 77
    metrics: ClassVar[tuple[MetricName, ...]] = METRICS
    terms: ClassVar[Mapping[str, str]] = {"fault": "fault", "lost_s": "seconds without the node"}
    sheet: ClassVar[Sheet | None] = _SHEET
    mutates: ClassVar[bool] = True
    axes: ClassVar[frozenset[str]] = frozenset({"faults", "search"})
    lanes: ClassVar[frozenset[Lane] | None] = frozenset({Lane.NATIVE})

    faults: Faults = (Fault.KILL, Fault.PAUSE, Fault.CUT)
    node: int | None = Field(default=None, ge=1)
    rates: dict[Literal["search", "insert", "delete"], Rate] = Field(
        default={"search": 100.0, "insert": 10.0, "delete": 5.0}
    )
    before_s: PositiveSeconds = 10.0
    lost_s: PositiveSeconds = 15.0
    after_s: PositiveSeconds = 20.0
    settle_s: PositiveSeconds = 30.0
    timeout_s: PositiveSeconds = 5.0
    connections: Clients = 12
    search: dict[str, int | float | str | bool] = Field(default_factory=dict)

    def points(self, target: Target) -> list[OperatingPoint]:
        if target.nodes < 2:
            raise Unsupported(
                f"{target.name} runs as one node: no node can be lost", remedy="nodes = 3"
            )
        if self.node is not None and self.node > target.nodes:
            raise Unsupported(
                f"{target.name} has {target.nodes} nodes, and none number {self.node}"
            )
        for kind, can in (
            (INSERT, target.capabilities.inserts_after_build),
            (DELETE, target.capabilities.delete),
        ):
            if kind in self.rates and not can:
                raise Unsupported(f"{target.name} cannot {kind} with index '{target.index.kind}'")
        found = search_points(target, self.search)
        return [point.with_parameters(fault=str(fault)) for fault in self.faults for point in found]

    def check_point(self, target: Target, point: Mapping[str, Any]) -> None:
        """Apply the common checks, and refuse a cut between nodes that share a network."""
        super().check_point(target, point)
        if point["fault"] == Fault.CUT and not target.hosts:
            raise Unsupported(
                "only a node on a host of its own can be cut off", remedy="add [hosts] to the suite"
            )

    def clients_at(self, point: Mapping[str, Any]) -> int | None:
        """Always None, because the loop is open."""
        return None

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Time of the load, and half of the time that the nodes are given to agree."""
        return self.before_s + self.lost_s + self.after_s + self.settle_s / 2

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        assert context.address is not None, "it has nodes"
        assert context.strike is not None, "it has nodes"
        point = point_with_fresh_reads(context, point)
        duration_s = self.before_s + self.lost_s + self.after_s
        rates = {str(kind): rate for kind, rate in self.rates.items()}
        script = OperationScript(
            context.dataset,
            OpenLoopMix(rates, duration_s, "poisson", self.connections),
            context.seed,
        )
        number = (self.node or len(context.address.nodes)) - 1
        loss = FaultSchedule(
            context.strike, number, Fault(point["fault"]), self.before_s, self.lost_s
        )
        load_1m, store = os.getloadavg()[0], context.store
        try:
            streamed = send_by_engine(
                store.native_search(context.k, search_params(context, point)),
                store.native_rows(),
                script.streams,
                context.schema,
                context.k,
                duration_s,
                context.certificate,
                connections=self.connections,
                warmup=context.dataset.queries[:WARMUP],
                seed=context.seed,
                progress=context.progress,
                timeout_s=self.timeout_s,
                started=loss.begin,
            )
        finally:
            struck, back = loss.end()
        started_ns, ended_ns = streamed.outcome["started_ns"], perf_counter_ns()
        at_s, back_s = ((one.at_ns - started_ns) / 1e9 for one in (struck, back))
        shared = {
            "fault": point["fault"],
            "node": struck.node,
            "lost_s": self.lost_s,
            "k": context.k,
        }
        for stream, record in zip(script.streams, streamed.outcome["classes"], strict=True):
            phase = phase_of_outcome(
                stream.name,
                streamed.outcome,
                record,
                clients=None,
                load_1m=load_1m,
                params={**point, **shared, "loop": "open", "rate": rates[stream.name]},
                no_recall="see the phase 'loss'",
                expect_errors=True,
            )
            phase.metrics["offered_rate"] = len(stream.due) / duration_s
            phase.metrics["unsent"] = len(stream.due) - record["issued"]
            yield phase
        settled, why = wait_settled(context, _writes(context, script, streamed), self.settle_s)
        agreed_s = (perf_counter_ns() - back.at_ns) / 1e9
        requests = _requests(context, script, streamed, at_s)
        found, missing = timeline.moments(requests, back_s - at_s, duration_s - at_s)
        loss_phase = Phase("loss", started_ns, ended_ns, params={**point, **shared})
        loss_phase.metrics |= {
            **found,
            **dict.fromkeys(missing),
            "short_answers": float(requests.short.sum()),
            "errors": float(requests.failed.sum()),
            "count": float(len(requests.sent)),
        }
        loss_phase.missing |= missing
        loss_phase.unsampled = "it is the time of other phases"
        _add_aftermath(loss_phase, settled, why, agreed_s, _writes(context, script, streamed))
        yield loss_phase
        yield from self._phases_of_seconds(
            requests, (started_ns, at_s), duration_s, {**point, **shared}
        )

    def _phases_of_seconds(
        self,
        requests: RequestLog,
        origin: tuple[int, float],
        duration_s: float,
        params: Mapping[str, Any],
    ) -> Iterator[Phase]:
        """A phase for each second. origin: when the load began (ns), and how many seconds later the
        node was lost."""
        started_ns, at_s = origin
        for middle_s, part in timeline.seconds(requests, -at_s, duration_s - at_s):
            begins_ns = started_ns + int((middle_s - 0.5 + at_s) * 1e9)
            phase = Phase("second", begins_ns, begins_ns + 10**9, params=dict(params))
            phase.params = {**params, "second": round(middle_s - 0.5)}
            good = ~part.failed
            waits_us = (part.done - part.sent)[good] * 1e6
            phase.metrics |= {
                "since_fault_s": middle_s,
                "count": float(good.sum()),
                "errors": float(part.failed.sum()),
                "short_answers": float(part.short.sum()),
                "recall_mean": part.mean_recall(),
                "latency_p50": float(np.quantile(waits_us, 0.5)) if len(waits_us) else None,
                "latency_max": float(waits_us.max()) if len(waits_us) else None,
            }
            phase.missing |= {
                name: "nothing was answered"
                for name, value in phase.metrics.items()
                if value is None
            }
            phase.role, phase.unsampled = Role.STEP, "it is a second of another phase"
            yield phase


def _writes(context: Context, script: OperationScript, streamed: StreamsOutcome) -> Writes:
    """The acknowledged writes, and the possible numbers of rows."""
    acknowledged = {kind: np.zeros(0, np.int64) for kind in (INSERT, DELETE)}
    unknown = dict.fromkeys(acknowledged, 0)
    for stream, seen in zip(script.streams, streamed.seen, strict=True):
        if stream.name in acknowledged:
            assert stream.ids is not None
            acknowledged[stream.name] = stream.ids[seen.succeeded]
            unknown[stream.name] = int((~seen.succeeded).sum())
    sure = context.dataset.rows + len(acknowledged[INSERT]) - len(acknowledged[DELETE])
    return Writes(
        acknowledged[INSERT], acknowledged[DELETE], sure - unknown[DELETE], sure + unknown[INSERT]
    )


def _requests(
    context: Context, script: OperationScript, streamed: StreamsOutcome, at_s: float
) -> RequestLog:
    """Log of every request, with times relative to the loss, and with searches judged."""
    sent, done, failed, short, recall = [], [], [], [], []
    verdict: RecallBounds | None = None
    for stream, seen in zip(script.streams, streamed.seen, strict=True):
        size = len(stream.due)
        sent.append(stream.due / 1e9 - at_s)
        done.append(np.minimum(seen.spans[:, 1] / 1e9 - at_s, 1e9))
        failed.append(~seen.succeeded)
        is_short, own = np.zeros(size, bool), np.full(size, np.nan)
        if stream.name == SEARCH:
            answers = script.answers(seen)
            verdict = judge(context.dataset, context.k, script.versions(streamed), answers)
            numbers = sorted(seen.answers)
            own[numbers] = verdict.most
            is_short[numbers] = [len(seen.answers[at]) < context.k for at in numbers]
        short.append(is_short)
        recall.append(own)
    return RequestLog(*(np.concatenate(parts) for parts in (sent, done, failed, short, recall)))


def _add_aftermath(phase: Phase, settled: Any, why: str, agreed_s: float, writes: Writes) -> None:
    names = ("missing_rows", "returned_rows", "count_spread")
    if settled is None:
        said = f"a node did not answer afterwards: {why}"
        phase.missing |= dict.fromkeys((*names, "agreed_s"), said)
        phase.metrics |= dict.fromkeys((*names, "agreed_s"))
        phase.remark(said)
        return
    values = (settled.missing, settled.returned, settled.spread)
    phase.metrics |= dict(zip(names, map(float, values), strict=True))
    if settled.settled(writes):
        phase.metrics["agreed_s"] = agreed_s
        return
    phase.metrics["agreed_s"] = None
    phase.missing["agreed_s"] = "not within the time given"
    counts = ", ".join(f"{count:,}" for count in settled.counts)
    expected = f"{writes.least:,}"
    if writes.most != writes.least:
        expected += f" to {writes.most:,}"
    phase.remark(
        f"the nodes count {counts} rows, where {expected} are expected; on a node"
        f" {settled.missing:,} acknowledged rows are missing and {settled.returned:,} deleted rows"
        " are back"
    )
