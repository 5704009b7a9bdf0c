"""The answers of `capacity` and the curves behind them, as a run holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vectrial.analysis.run_data import RunData
from vectrial.analysis.trial import PhaseResult, Trial
from vectrial.model.phase import Role
from vectrial.util import formatting

#: Least processors that other work kept busy for the answer to mention it.
_OTHER_CORES = 0.1
#: Phases of which the answer is made, and the one that looks for the recall.
_CONFIRM, _PASS = "confirm", "recall"
_TRIED = ("rate", _CONFIRM)
_NOT_SETTINGS = frozenset(
    {
        "k", "loop", "clients", "arrivals", "rate", "returns", "step", "purpose", "passed",
        "client_bound", "why",
    }
)  # fmt: skip


@dataclass(frozen=True)
class CapacityStep:
    """One try of a rate. setting: its search parameters. why: reason for failure such as
    "overloaded", if the rate failed."""

    number: int
    purpose: str
    rate: float
    setting: Mapping[str, Any]
    passed: bool
    client_bound: bool
    why: str
    phase: PhaseResult

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        said = "passed" if self.passed else f"failed: {self.why}"
        return f"{said} (client-bound)" if self.client_bound else said

    def figure(self, metric: str) -> float | None:
        """A metric of the same requests."""
        return self.phase.value(metric)


def trials(run: RunData) -> list[Trial]:
    """The trials that searched for a highest rate."""
    roles = (Role.CAPACITY, Role.STEP)
    return [trial for trial in run.trials if any(phase.role in roles for phase in trial.phases)]


def answer(trial: Trial) -> PhaseResult | None:
    """The phase that holds the answer; None if the trial ended before it."""
    return next((p for p in trial.phases if p.role == Role.CAPACITY), None)


def confirmed_rate(phase: PhaseResult) -> float | None:
    """The rate that an answer's phases confirmed: the answer itself, or its lower bound."""
    if "confirmations" not in phase.metrics:
        return None
    found = (phase.value(name) for name in ("sustained_qps", "bracket_low"))
    return next((rate for rate in found if rate is not None), None)


def is_bound(phase: PhaseResult) -> bool:
    """True if an answer is only "at least": a rate was confirmed, and a greater one may hold."""
    return phase.value("sustained_qps") is None and confirmed_rate(phase) is not None


def passes(trial: Trial) -> list[PhaseResult]:
    """Every pass of one caller over the queries that was made to find the recall."""
    return [phase for phase in trial.phases if phase.name == _PASS]


def curve(trial: Trial) -> list[CapacityStep]:
    """Every try of a rate, in order."""
    return [
        CapacityStep(
            number=int(phase.params["step"]),
            purpose=str(phase.params["purpose"]),
            rate=float(phase.params["rate"]),
            setting=setting(phase),
            passed=bool(phase.params["passed"]),
            client_bound=bool(phase.params["client_bound"]),
            why=str(phase.params["why"]),
            phase=phase,
        )
        for phase in trial.phases
        if phase.name in _TRIED
    ]


def confirmations(trial: Trial) -> list[PhaseResult]:
    """The phases that confirmed the answer, in order; empty if none was confirmed."""
    phase = answer(trial)
    if phase is None or confirmed_rate(phase) is None:
        return []
    count = int(phase.value("confirmations") or 0)
    return [step.phase for step in curve(trial) if step.phase.name == _CONFIRM][-count:]


def other_cores(trial: Trial) -> float | None:
    """Processors that other work kept busy while the answer was confirmed, in the worst phase;
    None if unknown."""
    known = [phase.value("other_cores") for phase in confirmations(trial)]
    return max((value for value in known if value is not None), default=None)


def setting(phase: PhaseResult) -> dict[str, Any]:
    """The search parameters of a try."""
    return {name: value for name, value in phase.params.items() if name not in _NOT_SETTINGS}


def limits(phase: PhaseResult) -> str:
    """Limits that the answer satisfies, in words."""
    given = phase.params
    return (
        f"p99 ≤ {given['p99_ms']:g} ms, recall ≥ {given['recall']:g},"
        f" errors ≤ {given['error_share']:.2%}"
    )


def sentence(trial: Trial) -> str:
    """The answer in words, or the reason why there is none."""
    phase = answer(trial)
    if phase is None:
        return trial.reason or trial.status
    figures = {name: value.value for name, value in phase.metrics.items()}
    rate = figures["sustained_qps"]
    if rate is None:
        return f"{phase.reason} ({limits(phase)})"
    name, value = phase.params.get("recall_parameter"), figures.get("recall_parameter_value")
    at = f", {name} = {value:g}" if name and value is not None else ""
    p99, recall = figures["latency_p99"], figures["recall_mean"] or 0.0
    tail = phase.metrics["latency_p99"].reason if p99 is None else _tail(trial, p99)
    said = (
        f"{formatting.number(rate)}/s with {limits(phase)}: {tail},"
        f" recall {formatting.recall(recall)}, {figures['errors']:,.0f} errors in"
        f" {figures['count']:,.0f} requests{at}{_other_work(trial)}"
    )
    return said if trial.status == "ok" else f"{said} — {trial.status}: {trial.reason}"


def _tail(trial: Trial, p99_us: float) -> str:
    """The worst p99 of the confirmations, with their range."""
    known = [p for phase in confirmations(trial) if (p := phase.value("latency_p99")) is not None]
    worst = f"p99 {p99_us / 1e3:,.3g} ms"
    if len(known) < 2:
        return worst
    return f"{worst} (from {min(known) / 1e3:,.3g} ms in {len(known)} confirmations)"


def _other_work(trial: Trial) -> str:
    """The processors that other work kept busy meanwhile, in words; empty if they were few."""
    cores = other_cores(trial)
    if cores is None or cores < _OTHER_CORES:
        return ""
    return f"; other work kept up to {cores:.1f} processors busy meanwhile"
