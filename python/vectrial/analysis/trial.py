"""A trial as it was recorded: its phases with their metrics, and its gate checks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial.model.phase import serial
from vectrial.model.trial import CheckResult, TrialRow
from vectrial.results.reader import RunReader

#: Of a phase's parameters those that a store reports, which need not be the same in every repeat.
_REPORTED = frozenset({"known_by"})


@dataclass(frozen=True, slots=True)
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
        stable_text(trial.index_params), stable_text(trial.params), stable_text(params),
    )  # fmt: skip


def stable_text(values: Mapping[str, Any]) -> str:
    """A text that is the same for the same values, whatever their order."""
    return json.dumps(values, sort_keys=True, default=str)


#: A session has fewer rounds.
_ROUNDS = 1_000_000


@dataclass(frozen=True)
class Slices:
    """The slices of one phase, in their order; arrays are (n,).

    rounds: int64, ascending: numbers shared only by slices that were measured together.
    seconds: float64. counts: int64, operations that succeeded. latencies: HDR histograms in
        nanoseconds; empty if nothing was answered.
    head_s: float64, length of the heads, which are left out. head_rates: answers per second of the
        heads; nan if unknown.
    idle_s, idle_cpu_s: float64, since the store's last turn; nan if unknown.
    ran_s, waited_s: float64, seconds of all threads of client and store with a processor, and ready
        to run while others had it; nan if unknown.
    """

    rounds: NDArray[np.int64]
    seconds: NDArray[np.float64]
    counts: NDArray[np.int64]
    latencies: tuple[bytes, ...]
    head_s: NDArray[np.float64]
    head_rates: NDArray[np.float64]
    idle_s: NDArray[np.float64]
    idle_cpu_s: NDArray[np.float64]
    ran_s: NDArray[np.float64]
    waited_s: NDArray[np.float64]

    @property
    def rates(self) -> NDArray[np.float64]:
        """Answers per second of each slice."""
        return self.counts / self.seconds

    @property
    def serial(self) -> bool:
        """True if `model.slices.serial` is true of all slices; False if unknown."""
        all_s = (float(one.sum()) for one in (self.seconds, self.ran_s, self.waited_s))
        return serial(*all_s) and bool((self.waited_s < self.seconds).all())

    @property
    def own_rates(self) -> NDArray[np.float64]:
        """Answers per second of the slices in which no other program had their processor."""
        return self.counts / (self.seconds - self.waited_s)

    @property
    def head_rate_ratio(self) -> float:
        """The median rate of the heads over that of the rest: 1 if handing over costs nothing."""
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = self.head_rates / self.rates
        known = shares[np.isfinite(shares)]
        return float(np.median(known)) if len(known) else float("nan")

    @property
    def idle_cores(self) -> float | None:
        """Processors that the store kept busy while others had their turns; None if unknown."""
        known = np.isfinite(self.idle_cpu_s) & (self.idle_s > 0)
        waited_s = float(self.idle_s[known].sum())
        return float(self.idle_cpu_s[known].sum()) / waited_s if waited_s else None


_SLICES = """
select s.* from slice s join phase p using (phase_id)
where s.seconds > 0 and p.trial_id :trials order by s.phase_id, s.session, s.round
"""


def read_slices(reader: RunReader) -> Mapping[int, Slices]:
    """The slices of every phase that has any, by phase id."""
    return {
        phase: _slices(list(some))
        for rows in reader.by_trials(_SLICES)
        for phase, some in groupby(rows, itemgetter("phase_id"))
    }


def _slices(rows: list[dict[str, Any]]) -> Slices:
    def column(name: str) -> NDArray[np.float64]:
        return np.array(
            [np.nan if row.get(name) is None else row[name] for row in rows], np.float64
        )

    with np.errstate(invalid="ignore", divide="ignore"):
        head_rates = column("head_count") / column("head_s")
    return Slices(
        np.array([row["session"] * _ROUNDS + row["round"] for row in rows], np.int64),
        column("seconds"),
        column("count").astype(np.int64),
        tuple(row["hdr"] or b"" for row in rows),
        column("head_s"),
        head_rates,
        column("idle_s"),
        column("idle_cpu_s"),
        column("ran_s"),
        column("waited_s"),
    )
