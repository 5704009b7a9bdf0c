"""A run as the report sees it: trials with their phases, and repeats gathered to points."""

from __future__ import annotations

import math
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from vectrial.analysis.audit import Doubt, doubts, unranked_reasons
from vectrial.analysis.trial import (
    PhaseResult,
    Slices,
    Trial,
    Value,
    point_key,
    read_slices,
    stable_text,
)
from vectrial.model.phase import Role
from vectrial.model.trial import IDENTITY, CheckResult, Series
from vectrial.results import note
from vectrial.results.bundle import run_folder
from vectrial.results.foreign import foreign_value_errors
from vectrial.results.reader import RunReader
from vectrial.stats.intervals import Spread, spread_of
from vectrial.util.formatting import plural


@dataclass(frozen=True)
class Point:
    """The repeats of one phase of one operating point.

    state: 'ok'; 'wrong' if this build, in any repeat, failed a gate check on which the experiment's
        figures depend; 'invalid' if no repeat can be trusted. reason: why it is not 'ok'; if it is,
        the faults of some repeats.
    phases: phases that the figures come from: the valid repeats, or all if none is valid.
    doubt: why the figures are in no headline and on no front although the state is 'ok'; None if
        nothing speaks against them.
    role: a `vectrial.model.phase.Role`.
    """

    series: Series
    dataset: str
    rows: int
    experiment: str
    phase: str
    index_params: Mapping[str, Any]
    params: Mapping[str, Any]
    state: Literal["ok", "wrong", "invalid"]
    reason: str | None
    phases: tuple[PhaseResult, ...]
    doubt: str | None = None
    role: str | None = None
    spreads: dict[str, Spread | None] = field(default_factory=dict, compare=False, repr=False)

    @property
    def ranked(self) -> bool:
        """True if the figures may be compared with others: nothing speaks against them."""
        return self.state == "ok" and self.doubt is None

    @property
    def why_unranked(self) -> str:
        """Reason why the figures are not ranked; empty if they are."""
        if self.state == "ok":
            return self.doubt or ""
        return self.reason or self.state

    def spread(self, metric: str) -> Spread | None:
        """Median and spread over the repeats; None if no repeat has a finite value."""
        if metric not in self.spreads:
            found = [p.metrics[metric] for p in self.phases if metric in p.metrics]
            if self.state == "ok":
                found = [value for value in found if value.valid]
            numbers = [v.value for v in found if v.value is not None and math.isfinite(v.value)]
            self.spreads[metric] = spread_of(numbers) if numbers else None
        return self.spreads[metric]

    def value(self, metric: str) -> float | None:
        """The median over the repeats."""
        spread = self.spread(metric)
        return None if spread is None else spread.median

    def why_missing(self, metric: str) -> str:
        """Reason for a missing value of the metric."""
        for phase in self.phases:
            found = phase.metrics.get(metric)
            if found is not None and found.reason:
                return found.reason
        told = {v.reason for p in self.phases for v in p.metrics.values() if v.value is None}
        said = [reason for reason in told if reason]
        if len(said) == 1 and not any(v.valid for p in self.phases for v in p.metrics.values()):
            return said[0]  # the phase has nothing at all, for this one reason
        return self.reason or f"{metric} was not recorded"

    @property
    def repeats(self) -> int:
        """Number of measurements behind the figures."""
        return len(self.phases)


@dataclass(frozen=True)
class RunData:
    """All data of a run that the report needs.

    folder: folder of the run, or the file of its bundle. run: the table `run`, environment as a
        dict.
    datasets: the table, `facts` as a dict; a dataset has a row for each number of its rows that was
        loaded.
    histograms: latency histograms (HDR V2, ns) by phase id.
    suite: the file as it was run, or empty. note: the owner's note on the run, or empty.
    slices: slices of phases that took turns, by phase id.
    processes: for clusters, processor seconds of each of a server's processes, by phase id.
    """

    folder: Path
    run: Mapping[str, Any]
    datasets: tuple[Mapping[str, Any], ...]
    trials: tuple[Trial, ...]
    histograms: Mapping[int, bytes]
    suite: str = ""
    processes: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    note: str = ""
    slices: Mapping[int, Slices] = field(default_factory=dict)

    @property
    def about(self) -> str:
        """The suite's description of itself."""
        try:
            return str(tomllib.loads(self.suite).get("description", ""))
        except (tomllib.TOMLDecodeError, RecursionError):
            return ""  # figures do not depend on it, and the text itself is shown

    @cached_property
    def stores(self) -> tuple[str, ...]:
        """The stores, in the suite's order."""
        return tuple(dict.fromkeys(trial.series.store for trial in self.trials))

    @cached_property
    def labels(self) -> Mapping[Series, str]:
        """A short name of each series: the store, with its index or lane only where needed."""
        every = list(dict.fromkeys(trial.series for trial in self.trials))
        lanes = {series.lane for series in every}
        kinds: dict[str, set[str]] = defaultdict(set)
        sizes: dict[str, set[int]] = defaultdict(set)
        for series in every:
            kinds[series.store].add(series.index_kind)
            sizes[series.store].add(series.nodes)
        labels = {}
        for series in every:
            parts = [series.store]
            if len(kinds[series.store]) > 1 and series.index_kind:
                parts.append(series.index_kind)
            if len(lanes) > 1:
                parts.append(series.lane)
            if len(sizes[series.store]) > 1 or series.nodes > 1:
                parts.append(plural(series.nodes, "node"))
            labels[series] = " · ".join(parts)
        return labels

    def phases(self) -> Iterator[tuple[Trial, PhaseResult]]:
        """Every phase that was measured, of every repeat, with its trial."""
        return ((trial, phase) for trial in self.trials for phase in trial.phases)

    def ordered(self, points: Iterable[Point]) -> tuple[Series, ...]:
        """The series of some points, in the suite's order."""
        held = {point.series for point in points}
        return tuple(series for series in self.labels if series in held)

    @cached_property
    def differences(self) -> Mapping[str, tuple[str, ...]]:
        """Constraints of each store that the others do not have."""
        found: dict[str, dict[str, None]] = defaultdict(dict)
        for trial in self.trials:
            found[trial.series.store].update(dict.fromkeys(trial.differences))
        return {store: tuple(said) for store, said in found.items()}

    def why_wrong(self, trial: Trial) -> str:
        """The gate checks that make a trial wrong, with their findings; empty if none does. These
        are the checks that its experiment rests on and that its build failed in any repeat. Another
        build of the store (other parameters, other rows) is not affected."""
        return self._gate_faults.get(_build(trial), "")

    @cached_property
    def _gate_faults(self) -> Mapping[tuple[Any, ...], str]:
        found: dict[tuple[Any, ...], dict[str, str]] = defaultdict(dict)
        for trial in self.trials:
            for check in trial.gate:
                if check.passed is False and check.relevant:
                    found[_build(trial)].setdefault(check.name, check.detail)
        return {
            key: "; ".join(f"{name}: {detail}" for name, detail in checks.items())
            for key, checks in found.items()
        }

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """Every phase of every operating point, repeats grouped, in the order measured."""
        groups: dict[tuple[Any, ...], list[tuple[Trial, PhaseResult]]] = defaultdict(list)
        for trial in self.trials:
            for phase in trial.phases:
                groups[point_key(trial, phase)].append((trial, phase))
        return tuple(self._point(members) for members in groups.values())

    @cached_property
    def memo(self) -> dict[str, Any]:
        """Results of other modules on the whole run, by name, so that each is computed once."""
        return {}

    @cached_property
    def repeats(self) -> Mapping[int, int]:
        """The repeat that each phase was measured in, by phase id."""
        return {phase.phase_id: trial.repeat for trial, phase in self.phases()}

    @cached_property
    def doubts(self) -> Sequence[Doubt]:
        """Figures that contradict what was recorded with them: see `audit.doubts`."""
        return doubts(self.trials, self.histograms)

    @cached_property
    def _unranked(self) -> Mapping[int, str]:
        return unranked_reasons(self.trials, self.doubts)

    def _point(self, members: Sequence[tuple[Trial, PhaseResult]]) -> Point:
        trial, phase = members[0]
        bad = [(t, p) for t, p in members if not p.valid or t.status != "ok"]
        reasons = list(dict.fromkeys(p.reason or t.reason or t.status for t, p in bad))
        state: Literal["ok", "wrong", "invalid"] = "ok"
        reason = "; ".join(reasons) or None
        used = [p for t, p in members if p.valid and t.status == "ok"]
        if reason and used:
            reason = f"{len(bad)} of {len(members)} repeats are invalid: {reason}"
        if not used:
            state, used = "invalid", [p for _, p in members]
        if why := self.why_wrong(trial):
            state, reason = "wrong", why
        said = dict.fromkeys(filter(None, (self._unranked.get(p.phase_id) for p in used)))
        return Point(
            trial.series, trial.dataset, trial.rows, trial.experiment, phase.name,
            trial.index_params, {**trial.params, **phase.params}, state, reason, tuple(used),
            "; ".join(said) or None, phase.role,
        )  # fmt: skip

    def ready_s(self, point: Point) -> list[float]:
        """Seconds until ready to search for the loads behind a point's rows, by repeat; unknown
        ones are left out."""
        loads = (self._loads.get(phase.phase_id, {}) for phase in point.phases)
        return [load["ready_s"] for load in loads if "ready_s" in load]

    @cached_property
    def _loads(self) -> Mapping[int, Mapping[str, float]]:
        return {phase.phase_id: trial.load for trial, phase in self.phases()}

    def points_in_role(self, role: Role, phase: str | None = None) -> list[Point]:
        """Points of phases with this role (and name), from any experiment."""
        return [p for p in self.points if p.role == role and phase in (None, p.phase)]

    def points_named(self, phase: str) -> list[Point]:
        """Points of phases with this name, from any experiment."""
        return [p for p in self.points if p.phase == phase]

    def select(self, experiment: str, phase: str | None = None) -> list[Point]:
        """Points of an experiment (and phase)."""
        return [
            p
            for p in self.points
            if p.experiment == experiment and (phase is None or p.phase == phase)
        ]


def _load_times(reader: RunReader, text: str | None) -> Mapping[str, float]:
    found = reader.parse_value(text or "{}", dict)
    if not all(isinstance(value, int | float) for value in found.values()):
        raise reader.foreign_content_error("the times of a load are numbers")
    return {str(name): float(value) for name, value in found.items()}


def load(run: Path, *, is_own_run: bool = False) -> RunData:
    """Read a whole run from its folder, or from its bundle, which is checked.

    is_own_run: this process has begun it.

    Raises:
        UserError: there is no run, it is being written, or it is newer than this Vectrial.
        DataError: a bundle's seal is broken.
    """
    with (
        foreign_value_errors(run),
        run_folder(run) as folder,
        RunReader(folder, is_own_run=is_own_run) as reader,
    ):
        found = data_of(reader)
        return replace(found, folder=run.resolve()) if run.is_file() else found


def data_of(reader: RunReader) -> RunData:
    """All data of an open run."""
    return RunData(
        folder=reader.folder,
        run=reader.run(),
        datasets=tuple(_parse_json(reader, row, "facts") for row in reader.rows(_DATASETS)),
        trials=tuple(_trials(reader)),
        histograms={
            row["phase_id"]: row["hdr"] for rows in reader.by_trials(_HISTOGRAMS) for row in rows
        },
        suite=reader.suite(),
        processes=_processes(reader),
        note=note.read(reader.folder),
        slices=read_slices(reader),
    )


#: Processor time between samples belongs to the phase of the later one.
_PROCESSES = """
select phase_id, process, sum(used) as cpu_s from (
    select phase_id, process, greatest(0, used_s - lag(used_s) over (
        partition by trial_id, process order by at_s)) as used
    from (select *, coalesce(group_cpu_s, cpu_s) as used_s from telemetry)
    where process <> 'client')
where phase_id is not null and used is not null group by all order by all
"""


def _processes(reader: RunReader) -> Mapping[int, Mapping[str, float]]:
    """Processor seconds of servers of several processes, by phase."""
    found: dict[int, dict[str, float]] = defaultdict(dict)
    for row in reader.rows(_PROCESSES):
        found[row["phase_id"]][row["process"]] = row["cpu_s"]
    return {phase: used for phase, used in found.items() if len(used) > 1}


_DATASETS = "select * from dataset order by name, rows"
_HISTOGRAMS = """
select h.phase_id, h.hdr from histogram h join phase p using (phase_id)
where h.name = 'latency' and p.trial_id :trials
"""
_METRICS = """
select m.* from metric m join phase p using (phase_id) where p.trial_id :trials
"""
_ERRORS = """
select e.* from error e join phase p using (phase_id) where p.trial_id :trials
order by e.phase_id, e.count desc, e.kind
"""
_PHASES = "select * from phase where trial_id :trials order by trial_id, ordinal"
_GATE = "select * from gate where trial_id :trials order by trial_id, rowid"
_TRIALS = """
select * exclude (started_at), epoch(started_at) as began_s from trial
where trial_id :trials order by trial_id
"""


def _trials(reader: RunReader) -> Iterator[Trial]:
    shared: dict[Any, Any] = {}
    for ids in reader.trial_ranges:
        yield from _some_trials(reader, ids, shared)


def _some_trials(
    reader: RunReader, ids: tuple[int, int], shared: dict[Any, Any]
) -> Iterator[Trial]:
    """The trials of a range of ids. shared: values read so far, of which equal ones are one."""
    metrics: dict[int, dict[str, Value]] = defaultdict(dict)
    for row in reader.rows_within(_METRICS, ids):
        value, reason = row["value"], row["reason"]
        if value is not None and not math.isfinite(value):
            value, reason = None, reason or f"the value is {value}"
        measured, name = Value(value, row["unit"], row["valid"], reason), row["name"]
        metrics[row["phase_id"]][shared.setdefault(name, name)] = shared.setdefault(
            measured, measured
        )
    errors: dict[int, list[tuple[str, int, tuple[str, ...]]]] = defaultdict(list)
    for row in reader.rows_within(_ERRORS, ids):
        messages = reader.texts(row["messages"])
        errors[row["phase_id"]].append((row["kind"], row["count"], messages))
    phases: dict[int, list[PhaseResult]] = defaultdict(list)
    for row in reader.rows_within(_PHASES, ids):
        phase_id = row["phase_id"]
        phases[row["trial_id"]].append(
            PhaseResult(
                phase_id,
                row["name"],
                reader.parse_value(row["params"], dict),
                row["valid"],
                row["reason"],
                metrics[phase_id],
                tuple(errors[phase_id]),
                row["duration_s"],
                row["role"],
                row["started_s"],
            )
        )
    gate: dict[int, list[CheckResult]] = defaultdict(list)
    for row in reader.rows_within(_GATE, ids):
        trial_id, check = row.pop("trial_id"), CheckResult(*row.values())
        gate[trial_id].append(shared.setdefault(check, check))
    for row in reader.rows_within(_TRIALS, ids):
        trial_id = row["trial_id"]
        identity = {name: row[name] for name in IDENTITY}
        for name in ("index_params", "params"):
            identity[name] = reader.parse_value(row[name], dict)
        yield Trial(
            **identity | {"differences": reader.texts(row["differences"])},
            trial_id=trial_id,
            status=row["status"],
            reason=row["reason"],
            store_version=row["store_version"],
            phases=tuple(phases[trial_id]),
            gate=tuple(gate[trial_id]),
            server=reader.parse_value(row["server"] or "{}", dict) or None,
            notes=reader.texts(row["notes"]),
            began_s=row["began_s"],
            load=_load_times(reader, row.get("load")),
        )


def _parse_json(reader: RunReader, row: dict[str, Any], column: str) -> dict[str, Any]:
    row[column] = reader.parse_value(row[column], dict)
    return row


def _build(trial: Trial) -> tuple[Any, ...]:
    """Key of the build that the gate judged for one experiment: a store's index with its
    parameters, on a number of rows."""
    return (
        trial.dataset, trial.rows, trial.series, stable_text(trial.index_params), trial.experiment,
    )  # fmt: skip
