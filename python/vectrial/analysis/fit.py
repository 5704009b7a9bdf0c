"""Verdicts on stores under limits, and the least limits at which each holds, as a run has them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from vectrial.analysis.cost_basis import ResourceUse, bill
from vectrial.analysis.run_data import RunData
from vectrial.analysis.trial import PhaseResult, Trial, stable_text
from vectrial.model.trial import OVERDUE, PROCESS_ENDED, SERVER_ENDED, SERVER_SILENT, Series
from vectrial.stats.intervals import Spread, spread_of
from vectrial.stats.quantiles import highest_percentile
from vectrial.suite.model import Prices
from vectrial.util import formatting

#: Size of a component of a vector in bytes.
_COMPONENT_BYTES = 4
#: Characters of a reason that a table shows.
_REASON = 160


class LimitsOutcome(StrEnum):
    """Outcome of a store's trial under limits."""

    HOLDS = "holds"
    #: The kernel ended a process for its memory, or a process ended.
    KILLED = "killed"
    #: It did not start, or did not take the rows or the searches.
    REFUSED = "refused"
    #: Latency or the load is beyond its limit, or nothing answers.
    SLOW = "slow"
    #: A gate check failed, or recall is below its limit.
    WRONG = "wrong"
    #: The figures say nothing, as where the client was the limit.
    UNKNOWN = "unknown"


class LimitsPurpose(StrEnum):
    """Reason why limits were tried."""

    WHOLE = "whole machine"
    MEMORY = "memory"
    PROCESSORS = "processors"
    CONFIRM = "confirm"
    BELOW = "just below"


@dataclass(frozen=True)
class LimitsVerdict:
    """Verdict on limits. why: figures and reasons, for people; empty if they hold."""

    outcome: LimitsOutcome
    why: str = ""

    @property
    def holds(self) -> bool:
        """True if everything was within the limits."""
        return self.outcome is LimitsOutcome.HOLDS

    def __str__(self) -> str:
        return f"{self.outcome}: {self.why}" if self.why else str(self.outcome)


def verdict(trial: Trial) -> LimitsVerdict:
    """Outcome of a trial of `fit`, worst first."""
    server = trial.server or {}
    if kills := int(server.get("oom_kills") or 0):
        what = formatting.plural(kills, "process", "processes")
        return LimitsVerdict(
            LimitsOutcome.KILLED, f"out of memory: the kernel ended {what}{_activity_text(trial)}"
        )
    if trial.status in ("failed", "skipped"):
        return _failure(trial.reason or trial.status)
    if trial.status == "ok" and "not applied" in str(server.get("limits") or ""):
        return LimitsVerdict(LimitsOutcome.UNKNOWN, f"the limits were {server['limits']}")
    wrong = [check for check in trial.gate if check.relevant and check.passed is False]
    if wrong:
        said = "; ".join(f"{check.name}: {check.detail}" for check in wrong)
        return LimitsVerdict(LimitsOutcome.WRONG, _shorten(f"gate: {said}"))
    load, search = phase_of(trial, "load"), phase_of(trial, "search")
    if load is None or search is None:
        return LimitsVerdict(LimitsOutcome.UNKNOWN, trial.reason or "nothing was searched")
    return _judge(trial.params, load, search)


def _failure(reason: str) -> LimitsVerdict:
    if reason.startswith(OVERDUE):
        return LimitsVerdict(
            LimitsOutcome.SLOW, f"it {reason.replace('trial_timeout_s =', 'the limit of')} s"
        )
    if reason.startswith(SERVER_SILENT):
        return LimitsVerdict(LimitsOutcome.SLOW, _shorten(reason))
    if reason.startswith((SERVER_ENDED, PROCESS_ENDED)):
        return LimitsVerdict(LimitsOutcome.KILLED, _shorten(reason))
    return LimitsVerdict(LimitsOutcome.REFUSED, _shorten(reason))


def _judge(
    requirements: Mapping[str, Any], load: PhaseResult, search: PhaseResult
) -> LimitsVerdict:
    """Verdict on a trial that ended by itself, with a gate that passed."""
    count, errors = search.value("count") or 0.0, search.value("errors") or 0.0
    p99, recall = search.metrics.get("latency_p99"), search.value("recall_mean")
    known = highest_percentile({name: value.value for name, value in search.metrics.items()}, 0.99)
    ready_s, limit_s = load.value("ready_s"), requirements.get("load_limit_s")
    if not count or errors > float(requirements["error_share"]) * (count + errors):
        of = f"{errors:,.0f} of {count + errors:,.0f} searches failed"
        first = next((f": {messages[0]}" for _, _, messages in search.errors if messages), "")
        return LimitsVerdict(LimitsOutcome.REFUSED, _shorten(of + first))
    if recall is not None and recall < float(requirements["recall"]):
        return LimitsVerdict(LimitsOutcome.WRONG, f"recall {formatting.recall(recall)}")
    if known is not None and known[1] > 1e3 * float(requirements["p99_ms"]):
        return LimitsVerdict(LimitsOutcome.SLOW, f"{known[0]} {formatting.duration(known[1])}")
    if limit_s is not None and ready_s is not None and ready_s > float(limit_s):
        return LimitsVerdict(
            LimitsOutcome.SLOW, f"a load of {ready_s:,.3g} s, over {float(limit_s):,.3g} s"
        )
    # A client at its limit makes latencies longer, never shorter.
    sound = search.valid or (search.reason or "").startswith("client-bound")
    if not sound or recall is None or p99 is None or p99.value is None:
        why = search.reason or (p99 and p99.reason) or "recall or latency is not known"
        return LimitsVerdict(LimitsOutcome.UNKNOWN, why)
    return LimitsVerdict(LimitsOutcome.HOLDS)


def phase_of(trial: Trial, name: str) -> PhaseResult | None:
    """The phase of this name, or None if the trial ended before it."""
    return next((phase for phase in trial.phases if phase.name == name), None)


def _activity_text(trial: Trial) -> str:
    """Text on what the store was doing when the trial ended, as far as its phases tell."""
    search = phase_of(trial, "search")
    if search is None:
        # A process takes the phases with it that it has ended; its last progress is known.
        at = str((trial.server or {}).get("at") or "")
        loads = at.startswith("loading") if at else phase_of(trial, "load") is None
        return " while loading" if loads else " while searching"
    errors, count = search.value("errors") or 0.0, search.value("count") or 0.0
    return f"; {errors:,.0f} of {count + errors:,.0f} searches failed" if errors else ""


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _REASON else f"{line[: _REASON - 1]}…"


@dataclass(frozen=True)
class FitStep:
    """A trial under limits. number: 0 for a trial outside a search."""

    number: int
    purpose: str
    memory_bytes: int
    cpus: float
    verdict: LimitsVerdict
    trial: Trial

    def figure(self, metric: str) -> float | None:
        """A metric of the trial's searches, or else of its load."""
        for name in ("search", "load"):
            phase = phase_of(self.trial, name)
            if phase is not None and phase.value(metric) is not None:
                return phase.value(metric)
        return None

    @property
    def peak_bytes(self) -> int | None:
        """Peak memory of its control group, with the page cache."""
        peak = (self.trial.server or {}).get("memory_peak_bytes")
        return None if peak is None else int(peak)

    @property
    def limits(self) -> str:
        """The limits, for people."""
        return f"{formatting.size(self.memory_bytes)}, {processors(self.cpus)}"


@dataclass(frozen=True)
class FitResult:
    """The steps of one store on one dataset, under the same requirements, and their result.

    confirmed: the steps at the least limits at which it holds; empty if nothing was confirmed.
    below_memory, below_cpus: the nearest step below that did not hold.
    contradictions: limits that did not hold although lower ones did.
    """

    series: Series
    dataset: str
    rows: int
    raw_bytes: int
    requirements: Mapping[str, Any]
    steps: tuple[FitStep, ...]
    confirmed: tuple[FitStep, ...]
    below_memory: FitStep | None
    below_cpus: FitStep | None
    contradictions: tuple[str, ...]

    @property
    def memory_bytes(self) -> int | None:
        """The least memory."""
        return self.confirmed[0].memory_bytes if self.confirmed else None

    @property
    def cpus(self) -> float | None:
        """The least processor time, at that memory."""
        return self.confirmed[0].cpus if self.confirmed else None

    @property
    def store_bytes(self) -> float | None:
        """The least memory without that of the measuring process and its client: rows, index and
        what loading and searching take beside. None for a server, which is measured alone."""
        client = self.spread("client_bytes")
        if self.memory_bytes is None or client is None:
            return None
        return max(0.0, self.memory_bytes - client.median)

    @property
    def process_bytes(self) -> float | None:
        """The least memory of a process of an application: its interpreter with the library, and
        `store_bytes`. None for a server."""
        store = self.store_bytes
        bare = next((b for one in self.steps if (b := one.figure("bare_bytes"))), None)
        return None if store is None or bare is None else store + bare

    def spread(self, metric: str) -> Spread | None:
        """Spread over the confirmed steps, or None if one of them lacks the metric."""
        values = [step.figure(metric) for step in self.confirmed]
        known = [value for value in values if value is not None]
        return spread_of(known) if known and len(known) == len(values) else None

    @property
    def setting(self) -> dict[str, Any]:
        """The search parameter that the recall required."""
        for step in self.confirmed:
            search = phase_of(step.trial, "search")
            whole = phase_of(self.steps[0].trial, "search")
            name = None if whole is None else whole.params.get("recall_parameter")
            if search is not None and name in search.params:
                return {str(name): search.params[str(name)]}
        return {}

    def per_month(self, prices: Prices) -> float | None:
        """Price per month of the memory and the processors, without the disk."""
        memory, cpus, qps = self.memory_bytes, self.cpus, self.spread("qps")
        if memory is None or cpus is None or qps is None:
            return None
        return bill(ResourceUse(cpus, memory, None, qps.median), prices).month

    @property
    def reason(self) -> str:
        """Reason why there is no answer; empty if there is one."""
        if self.confirmed:
            return ""
        last = self.steps[-1]
        if last.purpose == LimitsPurpose.WHOLE:
            return f"it does not hold with the whole machine: {last.verdict}"
        return f"nothing was confirmed: at {last.limits}: {last.verdict}"

    @property
    def limits(self) -> str:
        """The requirements, for people."""
        required = self.requirements
        load = f"{float(required.get('rate', 0)):g} searches/s"
        if "clients" in required:
            load = formatting.plural(int(required["clients"]), "client")
        return f"{load}, p99 ≤ {required['p99_ms']:g} ms, recall ≥ {required['recall']:g}"


_LIMITS = {"memory_bytes", "cpus"}
_REQUIREMENTS = ("p99_ms", "recall", "error_share", "clients", "rate", "k")


def fits(run: RunData) -> list[FitResult]:
    """Results of every store of a run that was put under limits."""
    grouped: dict[tuple[Any, ...], list[Trial]] = defaultdict(list)
    for trial in run.trials:
        if trial.params.keys() >= _LIMITS and trial.status != "skipped":
            requirements = stable_text(_requirements_of(trial))
            data = (trial.dataset, trial.rows, stable_text(trial.index_params), requirements)
            grouped[trial.series, *data].append(trial)
    return [fit_of(trials) for trials in grouped.values()]


def _requirements_of(trial: Trial) -> dict[str, Any]:
    return {name: trial.params[name] for name in _REQUIREMENTS if name in trial.params}


def fit_of(trials: Sequence[Trial]) -> FitResult:
    """The result of one store's trials, in any order; at least one."""
    first = trials[0]
    steps = _last_search_steps(trials)
    confirmed = _confirmed_steps(steps)
    return FitResult(
        series=first.series,
        dataset=first.dataset,
        rows=first.rows,
        raw_bytes=first.rows * first.dim * _COMPONENT_BYTES,
        requirements=_requirements_of(first),
        steps=tuple(steps),
        confirmed=confirmed,
        below_memory=_nearest_failure_below(
            steps, confirmed, lambda step: step.memory_bytes, "cpus"
        ),
        below_cpus=_nearest_failure_below(steps, confirmed, lambda step: step.cpus, "memory_bytes"),
        contradictions=contradictions(steps),
    )


def _last_search_steps(trials: Sequence[Trial]) -> list[FitStep]:
    """The steps in order, without the steps that a resumed search no longer took: those measured
    before a step of the same or a lower number. Steps outside a search are all kept."""
    steps: list[FitStep] = []
    for step in map(step_of, sorted(trials, key=lambda trial: -trial.trial_id)):
        if not step.number or all(step.number < later.number for later in steps if later.number):
            steps.append(step)
    return sorted(steps, key=lambda step: (step.number, step.trial.trial_id))


def step_of(trial: Trial) -> FitStep:
    """A trial of `fit` as a step."""
    params = trial.params
    return FitStep(
        int(params.get("step", 0)),
        str(params.get("purpose", "")),
        int(params["memory_bytes"]),
        float(params["cpus"]),
        verdict(trial),
        trial,
    )


def _confirmed_steps(steps: Sequence[FitStep]) -> tuple[FitStep, ...]:
    """The steps at the last limits to be confirmed, if all of them held; steps whose figures say
    nothing were repeated, unless they are the last."""
    confirming = [step for step in steps if step.purpose == LimitsPurpose.CONFIRM]
    if not confirming:
        return ()
    limits = confirming[-1].memory_bytes, confirming[-1].cpus
    there = [step for step in confirming if (step.memory_bytes, step.cpus) == limits]
    known = [step for step in there if step.verdict.outcome is not LimitsOutcome.UNKNOWN]
    held = there[-1].verdict.holds and all(step.verdict.holds for step in known)
    return tuple(known) if held else ()


def _nearest_failure_below(
    steps: Iterable[FitStep], confirmed: Sequence[FitStep], resource: Any, other: str
) -> FitStep | None:
    """The nearest step with less of one resource, and no less of the other, that did not hold; the
    last if there are several."""
    if not confirmed:
        return None
    answer = confirmed[0]
    found = [
        step
        for step in steps
        if not step.verdict.holds
        and resource(step) < resource(answer)
        and getattr(step, other) >= getattr(answer, other)
    ]
    return max(found, key=lambda step: (resource(step), step.number), default=None)


def contradictions(steps: Sequence[FitStep]) -> tuple[str, ...]:
    """Limits that did not hold although other limits, nowhere higher, did; in words."""
    found = []
    for failed in steps:
        lower = [
            held
            for held in steps
            if held.verdict.holds
            and held.memory_bytes <= failed.memory_bytes
            and held.cpus <= failed.cpus
        ]
        if (
            not failed.verdict.holds
            and failed.verdict.outcome is not LimitsOutcome.UNKNOWN
            and lower
        ):
            found.append(
                f"{failed.limits} did not hold in step {failed.number} ({failed.verdict}), and"
                f" {lower[0].limits} did in step {lower[0].number}"
            )
    return tuple(found)


def processors(cpus: float) -> str:
    """A number of processors in words."""
    return f"{cpus:g} {'processor' if cpus <= 1 else 'processors'}"
