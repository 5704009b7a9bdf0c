"""What a run holds, made up for tests: as `RunData` in memory, or as a folder where a test needs
one. tests/analysis/test_round_trip.py asserts that both say the same."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vectrial.analysis.run_data import RunData
from vectrial.analysis.trial import PhaseResult, Trial, Value
from vectrial.model.phase import Phase
from vectrial.model.results_schema import SCHEMA_VERSION
from vectrial.model.trial import TrialRow
from vectrial.results.writer import RunWriter, TrialRecord, metric_rows
from vectrial.stats.quantiles import withhold_quantiles

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
#: A dataset's facts that no test asks for.
SOME_DATASET: Mapping[str, Any] = {
    "name": "words", "fingerprint": "f00d", "rows": 1000, "dim": 8, "queries": 100,
    "metric_space": "cosine", "raw_bytes": 1, "metadata_bytes": 0, "source": "here",
    "licence": "none", "stand_in_for": None, "facts": "{}",
}  # fmt: skip


@dataclass
class RunContents:
    """A run: what was asked for, its datasets (rows of the table) and its trials, whose keys
    differ."""

    trials: list[TrialRecord]
    datasets: list[Mapping[str, Any]]
    environment: Mapping[str, Any] = field(default_factory=dict)
    suite: str = ""
    suite_name: str = "s"

    def write(self, folder: Path) -> Path:
        """Write the run's folder, and return it."""
        with _WriterAtOnce(folder) as writer:
            writer.begin(
                suite_name=self.suite_name, command=self._command, version="0",
                environment=self.environment,
            )  # fmt: skip
            for facts in self.datasets:
                writer.dataset(facts)
            for record in self.trials:
                writer.trial(_worker_record(record))
            writer.finish()
        if self.suite:
            (folder / "suite.toml").write_text(self.suite)
        return folder

    def data(self, folder: Path = Path("run")) -> RunData:
        """The run as it is read from `folder` after `write`."""
        assert len({record.row.key for record in self.trials}) == len(self.trials)
        environment = _parsed(self.environment)
        about = {
            "run_id": folder.name, "schema_version": SCHEMA_VERSION, "started_at": BEGAN,
            "finished_at": BEGAN, "suite_name": self.suite_name, "command": self._command,
            "vectrial_version": "0", "git_revision": environment.get("git", {}).get("revision"),
            "environment": environment,
        }  # fmt: skip
        datasets = [{**row, "facts": json.loads(row["facts"])} for row in self.datasets]
        trials, histograms, processes = [], {}, {}
        for trial_id, (first, made_up) in enumerate(self._numbered(), 1):
            record = _worker_record(made_up)
            trials.append(_trial(trial_id, first, record))
            for phase_id, phase in enumerate(record.phases, first):
                if "latency" in phase.histograms:
                    histograms[phase_id] = phase.histograms["latency"]
            processes |= _processes(first, record)
        return RunData(
            folder, about, tuple(sorted(datasets, key=lambda row: (row["name"], row["rows"]))),
            tuple(trials), histograms, self.suite, processes,
        )  # fmt: skip

    def change(self, metrics: Mapping[str, float], experiment: str = "", **row: Any) -> None:
        """Give these metrics other values, in trials of an experiment with these columns."""
        for record in self.of(experiment, **row):
            for phase in record.phases:
                phase.metrics |= {name: v for name, v in metrics.items() if name in phase.metrics}

    def of(self, experiment: str = "", **row: Any) -> list[TrialRecord]:
        """The trials of an experiment, or of all, that have these columns."""
        row |= {"experiment": experiment} if experiment else {}
        return [
            record
            for record in self.trials
            if all(getattr(record.row, name) == value for name, value in row.items())
        ]

    @property
    def _command(self) -> str:
        return f"vectrial run {self.suite_name}"

    def _numbered(self) -> Iterator[tuple[int, TrialRecord]]:
        """Each trial with the number of its first phase."""
        first = 1
        for record in self.trials:
            yield first, record
            first += len(record.phases)


class _WriterAtOnce(RunWriter):
    """Writes rows when it is told to finish: a statement and a transaction for each trial take
    longer than all rows together."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._rows: dict[str, list[Mapping[str, Any]]] = defaultdict(list)

    def finish(self) -> None:
        with super()._transaction():
            for table, rows in self._rows.items():
                super()._insert(table, rows)
        super().finish()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        yield

    def _insert(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows[table] += rows

    def _next_id(self, table: str, column: str) -> int:
        return len(self._rows[table]) + 1

    def _delete_trial(self, key: str) -> None:
        pass


def _worker_record(record: TrialRecord) -> TrialRecord:
    """The trial as a worker hands it over."""
    phases = []
    for phase in record.phases:
        phases.append(replace(phase, metrics=dict(phase.metrics), missing=dict(phase.missing)))
        withhold_quantiles(phases[-1])
    return replace(record, phases=phases)


def _trial(trial_id: int, first: int, record: TrialRecord) -> Trial:
    row = {one.name: getattr(record.row, one.name) for one in fields(TrialRow)}
    for name in ("index_params", "params"):
        row[name] = _parsed(row[name])
    return Trial(
        **row | {"differences": tuple(record.row.differences)},
        trial_id=trial_id,
        status=record.status,
        reason=record.reason,
        store_version=record.store_version,
        phases=tuple(_phase(at, record, phase) for at, phase in enumerate(record.phases, first)),
        gate=tuple(record.gate),
        server=None if record.server is None else _parsed(record.server) or None,
        notes=tuple(record.notes),
        began_s=None if record.started_at is None else record.started_at.timestamp(),
        load={name: float(value) for name, value in (record.load or {}).items()},
    )


def _phase(phase_id: int, record: TrialRecord, phase: Phase) -> PhaseResult:
    return PhaseResult(
        phase_id,
        phase.name,
        _parsed(phase.params),
        phase.valid,
        phase.reason,
        {
            row["name"]: Value(
                None if row["value"] is None else float(row["value"]),
                row["unit"], row["valid"], row["reason"],
            )
            for row in metric_rows(phase, record.metrics)
        },
        tuple(
            (kind, count, tuple(messages))
            for kind, count, messages in sorted(phase.errors, key=lambda e: (-e[1], e[0]))
        ),
        (phase.ended_ns - phase.started_ns) / 1e9,
        phase.role,
        (phase.started_ns - record.started_ns) / 1e9,
    )  # fmt: skip


def _processes(first: int, record: TrialRecord) -> Mapping[int, Mapping[str, float]]:
    """Processor seconds of each process of a server that has several, by phase: what was used
    since the sample before counts for the phase of the later one."""
    used: dict[int, dict[str, float]] = defaultdict(dict)
    before: dict[str, float] = {}
    for row in sorted(record.telemetry, key=lambda one: float(one["at_s"])):
        name, cpu_s = row["process"], row.get("group_cpu_s")
        cpu_s = row["cpu_s"] if cpu_s is None else cpu_s
        if row["phase"] is not None and name in before and name != "client":
            of_phase = used[first + row["phase"]]
            of_phase[name] = of_phase.get(name, 0.0) + max(0.0, cpu_s - before[name])
        before[name] = cpu_s
    return {phase: shares for phase, shares in used.items() if len(shares) > 1}


def _parsed(value: Mapping[str, Any]) -> Any:
    """The value as JSON gives it back."""
    return json.loads(json.dumps(value, default=str))
