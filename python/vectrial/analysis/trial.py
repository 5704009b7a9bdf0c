"""A trial as it was recorded: its phases with their metrics, and its gate checks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vectrial.model.trial import CheckResult, TrialRow

#: Of a phase's parameters those that a store reports, which need not be the same in every repeat.
_REPORTED = frozenset({"known_by"})


@dataclass(frozen=True)
class Value:
    """One row of the table `metric`."""

    value: float | None
    unit: str
    valid: bool
    reason: str | None


@dataclass(frozen=True)
class PhaseResult:
    """One row of the table `phase` with its metrics and error classes (kind, count, messages).

    duration_s: from its start to its end. started_s: its start, counted from the trial's.
    role: a `vectrial.model.phase.Role`.
    """

    phase_id: int
    name: str
    params: Mapping[str, Any]
    valid: bool
    reason: str | None
    metrics: Mapping[str, Value]
    errors: tuple[tuple[str, int, tuple[str, ...]], ...] = ()
    duration_s: float | None = None
    role: str | None = None
    started_s: float | None = None

    def value(self, metric: str) -> float | None:
        """Measured value, trusted or not; None if there is none."""
        found = self.metrics.get(metric)
        return None if found is None else found.value


@dataclass(frozen=True, kw_only=True)
class Trial(TrialRow):
    """One row of the table `trial` with everything that belongs to it.

    began_s: when it began, in seconds since 1970; None if it did not. load: seconds of the load
        behind its rows, by name of the metric; empty if unknown.
    """

    trial_id: int
    status: str
    reason: str | None = None
    store_version: str | None = None
    phases: tuple[PhaseResult, ...] = ()
    gate: tuple[CheckResult, ...] = ()
    server: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()
    began_s: float | None = None
    load: Mapping[str, float] = field(default_factory=dict)

    @property
    def span_s(self) -> float:
        """Seconds from its start to the end of its last phase; 0 without phases."""
        ends = ((p.started_s or 0.0) + (p.duration_s or 0.0) for p in self.phases)
        return max(ends, default=0.0)


def point_key(trial: Trial, phase: PhaseResult) -> tuple[Any, ...]:
    """Key that a phase shares with the same phase of other repeats only."""
    params = {name: value for name, value in phase.params.items() if name not in _REPORTED}
    return (
        trial.series, trial.dataset, trial.rows, trial.experiment, phase.name,
        stable(trial.index_params), stable(trial.params), stable(params),
    )  # fmt: skip


def stable(values: Mapping[str, Any]) -> str:
    """A text that is the same for the same values, whatever their order."""
    return json.dumps(values, sort_keys=True, default=str)
