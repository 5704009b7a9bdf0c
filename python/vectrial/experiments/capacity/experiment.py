"""The greatest load that a store sustains within limits on latency, recall and errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from vectrial.experiments.base import Experiment, Returns, Target, search_points
from vectrial.experiments.capacity.metrics import METRICS
from vectrial.experiments.common.capacity_search import (
    FoundRate,
    Limit,
    RateProbe,
    RatePurpose,
    RateVerdict,
    seek,
)
from vectrial.experiments.common.recall_parameter import parameter_values
from vectrial.experiments.common.recall_search import RecallParameter, find_recall, recall_of
from vectrial.model.capabilities import Returning
from vectrial.model.context import Context
from vectrial.model.inputs import InFlight, PositiveSeconds, Rate, Warmup
from vectrial.model.lane import Lane
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.phase import Phase, Role
from vectrial.model.results_schema import MetricName
from vectrial.model.workload import IN_FLIGHT, ClosedLoop, OpenLoop
from vectrial.stats.quantiles import arrivals_needed, highest_percentile
from vectrial.workload import dispatch
from vectrial.workload.ceiling import faults_without_client, is_client_bound
from vectrial.workload.record import ERROR_SHARE, NO_ROOM

#: Least arrivals of a phase, for a known p99; most queries that are all sent once, so that recall
#: does not depend on a few; and factor by which `duration_s` may grow for that. A phase that
#: confirms lasts as long as its p99 needs.
_ARRIVALS, _QUERIES, _LONGER = arrivals_needed(0.99), 1000, 10
#: Rates beyond these are not looked at (arrivals per second), nor those at which a phase would last
#: more than `_LONGER` times `confirm_s` to confirm a p99.
_LEAST, _MOST = 0.5, 1e6
#: The search begins at this share of the rate of one client that sends without a pause.
_START_SHARE = 0.5
_PASS_MAX_S = 30.0
#: Name of a phase that confirms the answer.
_CONFIRM = "confirm"


class Capacity(Experiment):
    """The greatest rate of arrivals that is sustained with p99 ≤ `p99_ms`, recall ≥ `recall` and
    errors ≤ `errors`, found over rates and over the search parameter that trades speed for recall.

    p99_ms: milliseconds from when a request was due. recall: mean of the answers. errors: share of
        the requests.
    search: one operating point (no lists); where it names the parameter that trades speed for
        recall, that stays as it is. Else the least value is found that gives the recall.
    returns: what comes with each row found: "ids", "metadata" or "vectors"; or a list of them.
    arrivals: "poisson" (seeded) or "constant".
    duration_s: seconds of each phase while searching; more where the rate is low.
    confirm_s: seconds of each phase that confirms the answer. confirmations: number of phases that
        must hold.
    resolution: how near the answer is to a rate that does not hold, as a share of it.
    most_rate: no greater rate is tried.
    """

    name: ClassVar[str] = "capacity"
    title: ClassVar[str] = "Highest load within limits"
    place: ClassVar[int] = 5
    report: ClassVar[str] = f"{__package__}.report"
    metrics: ClassVar[tuple[MetricName, ...]] = METRICS
    terms: ClassVar[Mapping[str, str]] = {
        "p99_ms": "p99 limit (ms)",
        "recall": "recall floor",
        "error_share": "limit on errors",
    }
    axes: ClassVar[frozenset[str]] = frozenset({"search", "returns"})
    lanes: ClassVar[frozenset[Lane] | None] = frozenset(Lane)

    p99_ms: float = Field(default=20.0, gt=0, le=86_400_000)
    recall: float = Field(default=0.95, ge=0, le=1)
    errors: float = Field(default=ERROR_SHARE, ge=0, le=ERROR_SHARE)
    search: dict[str, int | float | str | bool] = Field(default_factory=dict)
    returns: Returns = (Returning.IDS,)
    arrivals: Literal["poisson", "constant"] = "poisson"
    duration_s: PositiveSeconds = 4.0
    confirm_s: PositiveSeconds = 10.0
    confirmations: int = Field(default=3, ge=1, le=100)
    resolution: float = Field(default=0.05, gt=0, le=1)
    most_rate: Annotated[Rate, Field(ge=_LEAST)] = _MOST
    warmup_queries: Warmup = 100
    in_flight: InFlight = IN_FLIGHT

    def points(self, target: Target) -> list[OperatingPoint]:
        return search_points(target, self.search, self.returns)

    @staticmethod
    def _settings_of(context: Context) -> frozenset[str]:
        """Search parameters that are settings of the collection, if somebody else made it."""
        if context.existing is None:
            return frozenset()
        existing = context.store.capabilities.existing
        return frozenset() if existing is None else existing.settings

    def only_reads(self, point: Mapping[str, Any]) -> bool:
        return True

    def clients_at(self, point: Mapping[str, Any]) -> int | None:
        """Always None, because the loop is open."""
        return None

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        kind = type(context.store).capabilities.indexes[context.index.kind]
        given = kind.recall_parameter is not None and (
            kind.recall_parameter in point or kind.recall_parameter in self._settings_of(context)
        )
        parameter = RecallParameter(
            kind.recall_parameter, () if given else parameter_values(kind, context.k)
        )
        first = yield from find_recall(
            parameter, lambda: self._one_pass(context, point, parameter), self.recall
        )
        if why := self._why_hopeless(first, parameter):
            yield self._empty_answer(first, parameter, why)
            return
        search = seek(
            _START_SHARE * (first.metrics["qps"] or 1.0),
            resolution=self.resolution,
            confirmations=self.confirmations,
            least=min(max(_LEAST, _ARRIVALS / (_LONGER * self.confirm_s)), self.most_rate),
            most=self.most_rate,
        )
        tried: list[Phase] = []
        attempt = next(search)
        while True:
            phase, verdict = self._measure_rate(context, point, parameter, attempt, len(tried) + 1)
            tried.append(phase)
            yield phase
            if self._lacks_recall_alone(phase) and parameter.raise_value():
                verdict = replace(verdict, moved=True)
            try:
                attempt = search.send(verdict)
            except StopIteration as end:
                yield self._answer(end.value, tried, parameter)
                return

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Time of the phases that bracket a rate and narrow it down."""
        return 20 * self.duration_s + (self.confirmations + 1) * self.confirm_s

    def _one_pass(
        self, context: Context, point: Mapping[str, Any], parameter: RecallParameter
    ) -> Phase:
        """A phase in which one client sends every query once."""
        phase = dispatch.search(
            _step_context(context, f"recall{parameter.label}", 0),
            {**point, **parameter.setting},
            ClosedLoop(1, min_s=0.0, max_s=_PASS_MAX_S),
            warmup_queries=self.warmup_queries,
            name="recall",
        )
        phase.role = Role.STEP
        for name in ("ceiling_qps", "ceiling_share"):
            if name in phase.missing:
                phase.missing[name] = "the ceiling is that of open loops"
        return phase

    def _measure_rate(
        self,
        context: Context,
        point: Mapping[str, Any],
        parameter: RecallParameter,
        attempt: RateProbe,
        number: int,
    ) -> tuple[Phase, RateVerdict]:
        confirms = attempt.purpose is RatePurpose.CONFIRM
        least_s = self.confirm_s if confirms else self.duration_s
        wanted = max(_ARRIVALS, min(_QUERIES, len(context.dataset.queries)))
        length_s = max(least_s, min(wanted / attempt.rate, _LONGER * least_s))
        if confirms:
            length_s = max(length_s, _ARRIVALS / attempt.rate)
        phase = dispatch.search(
            _step_context(
                context, f"{attempt.purpose} {attempt.rate:,.5g}/s{parameter.label}", number
            ),
            {**point, **parameter.setting},
            OpenLoop(attempt.rate, length_s, self.arrivals, in_flight=self.in_flight),
            warmup_queries=self.warmup_queries,
            name=_CONFIRM if confirms else "rate",
        )
        phase.role = Role.STEP
        faults = self._faults(phase)
        bound = is_client_bound(phase, context.certificate.limits)
        told = {"step": number, "purpose": str(attempt.purpose), "passed": not faults}
        phase.params = {**phase.params, **told, "client_bound": bound, "why": "; ".join(faults)}
        return phase, RateVerdict(not faults, bound)

    def _faults(self, phase: Phase) -> list[str]:
        """Reasons why the rate of a phase did not hold; empty if it held. A client at its limit
        makes latencies longer, never shorter: latencies within the limits still count as held."""
        metrics = phase.metrics
        count, errors = metrics["count"] or 0, metrics["errors"] or 0
        if not count:
            return ["nothing was answered"]
        faults = []
        # A request that waited for room in flight is late by its latency; one never sent failed.
        errors += metrics.get("unsent") or 0
        share, known = errors / (count + errors), highest_percentile(metrics, 0.99)
        if known is not None and known[1] > self.p99_ms * 1e3:
            faults.append(f"{known[0]} {known[1] / 1e3:,.4g} ms")
        elif phase.name == _CONFIRM and metrics["latency_p99"] is None:
            faults.append(phase.missing["latency_p99"])
        if recall_of(phase) < self.recall:
            faults.append(_recall_fault(phase))
        if share > self.errors:
            faults.append(f"errors {share:.2%}")
        others = (fault for fault in faults_without_client(phase) if not fault.startswith(NO_ROOM))
        return [*faults, *(fault.partition(":")[0] for fault in others)]

    def _lacks_recall_alone(self, phase: Phase) -> bool:
        """True if the rate would hold with a wider search. A wider search only takes longer if the
        rate is beyond the store, or if there are no answers at all."""
        return self._faults(phase) == [_recall_fault(phase)]

    def _answer(
        self, found: FoundRate, tried: Sequence[Phase], parameter: RecallParameter
    ) -> Phase:
        """The row of the answer, with the worst value of each figure among its confirmations."""
        of = [p for p in tried if p.name == _CONFIRM][-found.confirmations :]
        if found.rate is None:
            return self._phase_without_rate(found, tried, parameter)
        values = {
            name: [p.metrics[name] or 0.0 for p in of]
            for name in ("latency_p50", "latency_p99", "recall_mean", "errors", "count", "qps")
        }
        phase = Phase(
            "capacity",
            of[0].started_ns,
            of[-1].ended_ns,
            role=Role.CAPACITY,
            params={**self._limits(), **parameter.name_entry},
            metrics={
                "sustained_qps": found.rate,
                "latency_p50": max(values["latency_p50"]),
                "latency_p99": max(values["latency_p99"]),
                "recall_mean": min(values["recall_mean"]),
                "errors": sum(values["errors"]),
                "count": sum(values["count"]),
                "qps": min(values["qps"]),
                "bracket_low": found.low,
                "bracket_high": found.high,
                "confirmations": found.confirmations,
                "steps_down": found.steps,
                **parameter.metric,
            },
        )
        if found.high is None:
            phase.missing["bracket_high"] = "every rate that was tried held"
        if found.limit is not Limit.STORE:
            why = {
                Limit.CLIENT: "client-bound",
                Limit.ASKED: f"no greater rate than {self.most_rate:,.5g}/s was to be tried",
            }[found.limit]
            end = "" if found.less_than is None else f" and less than {found.less_than:,.5g}/s"
            said = f"at least {found.rate:,.5g}/s{end}: {why}"
            phase.valid, phase.reason = False, said
            phase.metrics |= {"sustained_qps": None, "bracket_low": found.rate}
            phase.missing["sustained_qps"] = said
        return phase

    def _phase_without_rate(
        self, found: FoundRate, tried: Sequence[Phase], parameter: RecallParameter
    ) -> Phase:
        last = tried[-1]
        rate = f"{float(last.params['rate']):,.5g}/s"
        who = "client-bound" if found.limit is Limit.CLIENT else str(last.params["why"])
        reason = f"no rate was confirmed: at {rate}: {who}"
        phase = self._empty_answer(last, parameter, reason)
        phase.metrics |= {"bracket_low": found.low, "bracket_high": found.high}
        if found.low is None:
            phase.missing["bracket_low"] = reason
        if found.high is None:
            phase.missing["bracket_high"] = reason
        return phase

    def _why_hopeless(self, single_client: Phase, parameter: RecallParameter) -> str | None:
        """Reason why no rate can hold, if a single client has shown it; otherwise None."""
        recall, p50 = single_client.metrics["recall_mean"], single_client.metrics["latency_p50"]
        if recall is None or p50 is None:
            return f"nothing was answered: {single_client.reason}"
        if recall < self.recall:
            at = f" at {parameter.label.strip(', ')}" if parameter.label else ""
            return f"recall {self.recall:g} is not reached: it is {recall:.4f}{at}"
        if p50 > self.p99_ms * 1e3:
            return f"one client alone waits {p50 / 1e3:,.4g} ms (median), not {self.p99_ms:g}"
        return None

    def _empty_answer(self, phase: Phase, parameter: RecallParameter, reason: str) -> Phase:
        """The row that is recorded if there is no answer."""
        return Phase(
            "capacity",
            phase.started_ns,
            phase.ended_ns,
            role=Role.CAPACITY,
            params={**self._limits(), **parameter.name_entry},
            metrics={
                "sustained_qps": None,
                "recall_mean": phase.metrics["recall_mean"],
                **parameter.metric,
            },
            missing={"sustained_qps": reason, "recall_mean": reason},
            valid=False,
            reason=reason,
        )

    def _limits(self) -> dict[str, Any]:
        limits = {"p99_ms": self.p99_ms, "recall": self.recall, "error_share": self.errors}
        return {**limits, "arrivals": self.arrivals}  # what is sustained depends on them, too


def _recall_fault(phase: Phase) -> str:
    return f"recall {recall_of(phase):.4f}"


def _step_context(context: Context, label: str, number: int) -> Context:
    """The context with progress messages, arrivals and an order of queries of its own."""
    return replace(
        context,
        seed=context.seed + 1000 * number,
        progress=lambda done, of, what: context.progress(done, of, f"capacity: {label}"),
    )
