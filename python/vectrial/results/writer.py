"""Writes a run folder, one transaction per trial."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from vectrial.model.errors import UserError
from vectrial.model.phase import Phase, Slice
from vectrial.model.results_schema import (
    DDL,
    SCHEMA_VERSION,
    SLICES_DDL,
    MetricName,
    metrics_with,
)
from vectrial.model.trial import IDENTITY, CheckResult, TrialRow
from vectrial.results.database import (
    finished_keys,
    has_tables,
    open_database,
    read_errors,
    write_errors,
)
from vectrial.results.folder import FolderHandle

_ROWS_OF_STATEMENT = 100
#: A wall clock that was set by less is not told: it is kept right by small steps.
_CLOCK_SET_S = 60.0

_Rows = Sequence[Mapping[str, Any]]


@dataclass
class TrialRecord:
    """Everything recorded about one trial.

    status: ok, invalid (measured, but not to be trusted: `reason`), failed or skipped.
    started_ns: `perf_counter_ns` at the trial's start; phases and telemetry count from it.
    telemetry: rows with the columns of the table `telemetry`, but with `phase` (ordinal or None) in
        place of trial_id and phase_id.
    server: facts about the store's server, from `Server.facts` and its selection.
    notes: remarks for the reader, one sentence each.
    metrics: metrics that its phases have in addition to `METRICS`.
    load: seconds of the load of its rows, by the names of metrics: load_s, flush_s, build_s,
        wait_s, and ready_s, their sum; None if unknown.
    """

    row: TrialRow
    status: str
    reason: str | None = None
    store_version: str | None = None
    started_at: datetime | None = None
    started_ns: int = 0
    duration_s: float | None = None
    phases: list[Phase] = field(default_factory=list)
    telemetry: Sequence[Mapping[str, Any]] = ()
    gate: list[CheckResult] = field(default_factory=list)
    server: Mapping[str, Any] | None = None
    notes: Sequence[str] = ()
    metrics: Sequence[MetricName] = ()
    load: Mapping[str, float] | None = None


def _now() -> datetime:
    """The time of day."""
    return datetime.now(UTC)


def _passed_s() -> float:
    """Seconds on a clock that nobody sets; it goes on while the machine sleeps, where there is such
    a clock."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class RunWriter:
    """The one writer of a run folder. Use as a context manager.

    Every method that writes raises `RunNotWritten` if the disk is full or failing; earlier data is
    kept.
    """

    def __init__(self, folder: Path) -> None:
        """Open `folder`, and create it and its tables if they are missing.

        Raises:
            UserError: it cannot be created, another process writes this run, or its layout is that
                of another version.
        """
        # A run that could not begin leaves nothing behind, not even the folder of --out.
        self._above = None if folder.parent.exists() else folder.parent
        try:
            self._made = _make(folder)
        except OSError as error:
            raise UserError(
                f"the run folder cannot be made: {error.strerror}",
                where=str(folder),
                remedy="give another place with --out",
            ) from error
        self.folder, self._discarded = folder, False
        self._opened = _now(), _passed_s()
        self._db = open_database(folder, read_only=False)
        self._handle = FolderHandle(folder)
        self._columns: dict[str, list[str]] = {}
        if not has_tables(self._db):
            with self._transaction():
                self._db.execute(DDL)
        else:  # one that was begun before these came
            with self._transaction():
                self._db.execute("alter table if exists trial add column if not exists load json")
                self._db.execute(SLICES_DDL.replace("create table", "create table if not exists"))
                for name in ("ran_s", "waited_s"):
                    self._db.execute(f"alter table slice add column if not exists {name} double")

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close the run. Raises UserError if its folder was moved or removed meanwhile."""
        self._db.close()
        self._handle.close(error)
        if self._discarded:
            shutil.rmtree(self.folder, ignore_errors=True)
            if self._above is not None:
                with suppress(OSError):  # another run has begun there
                    self._above.rmdir()

    def discard(self) -> None:
        """Remove the folder of a run that could not begin. A folder that existed before, or that
        holds a trial, is kept."""
        with suppress(duckdb.Error):  # an unreadable run is not removed
            trials = self._db.execute("select count(*) from trial").fetchone()
            self._discarded = self._made and trials == (0,)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Commit everything written in the block, or nothing."""
        with write_errors(self.folder):
            self._db.begin()
            try:
                yield
            except BaseException:
                with suppress(duckdb.Error):  # one that failed to write may have ended it already
                    self._db.rollback()
                raise
            self._db.commit()

    def begin(
        self, *, suite_name: str, command: str, version: str, environment: Mapping[str, Any]
    ) -> None:
        """Record the run itself. A resumed run keeps its first record, and notes a different
        revision of Vectrial. The run counts as incomplete until the next `finish`."""
        git = environment.get("git")
        revision = git.get("revision") if isinstance(git, Mapping) else None
        with self._transaction():
            if self._db.execute("select count(*) from run").fetchone() != (0,):
                self._db.execute("update run set finished_at = null")
                if revision:
                    self._note_resumption(str(revision))
                return
            began, facts = _now(), json.dumps(environment, default=str)
            self._insert(
                "run",
                [
                    {
                        "run_id": self.folder.name,
                        "schema_version": SCHEMA_VERSION,
                        "started_at": began,
                        "suite_name": suite_name,
                        "command": command,
                        "vectrial_version": version,
                        "git_revision": revision,
                        "environment": facts,
                    }
                ],
            )

    def _note_environment(self, name: str, value: object) -> None:
        """Add a fact to those of the machine."""
        found = self._db.execute("select environment from run").fetchone()
        if found is not None:
            facts = json.dumps({**json.loads(found[0]), name: value})
            self._db.execute(f"update run set environment = {_literal(facts)}")

    def _note_resumption(self, revision: str) -> None:
        found = self._db.execute("select git_revision, environment from run").fetchone()
        assert found is not None
        began, since = found[0], json.loads(found[1]).get("resumed_at_revisions", [])
        if revision not in (began, *since):
            self._note_environment("resumed_at_revisions", [*since, revision])

    def finish(self) -> None:
        """Mark the run as complete. The time of day is counted from when the run was opened; if
        the wall clock was set meanwhile, the run says so."""
        opened, since = self._opened
        now = opened + timedelta(seconds=_passed_s() - since)
        set_by_s = (_now() - now).total_seconds()
        with self._transaction():
            self._db.execute(f"update run set finished_at = {_literal(now)}")
            if abs(set_by_s) > _CLOCK_SET_S:
                self._note_environment("clock_set_s", round(set_by_s))
        with write_errors(self.folder):
            self._db.execute("checkpoint")

    def dataset(self, facts: Mapping[str, Any]) -> None:
        """Record a dataset as it is loaded (columns of the table `dataset`), unless it is known.

        Raises:
            UserError: the run has other content under this name and number of rows.
        """
        name, rows = facts["name"], facts["rows"]
        known = self._db.execute(
            "select fingerprint from dataset"
            f" where name = {_literal(name)} and rows = {_literal(rows)}"
        ).fetchone()
        if known is None:
            with self._transaction():
                self._insert("dataset", [self._row_of("dataset", facts)])
        elif known[0] != facts["fingerprint"]:
            raise UserError(
                f"dataset '{name}' is not what it was when this run began",
                where=str(self.folder),
                remedy="start a new run, or bring the earlier dataset back",
            )

    def loaded_rows(self, dataset: str) -> set[int]:
        """Every number of rows of a dataset that the run has recorded as loaded."""
        found = self._db.execute(f"select rows from dataset where name = {_literal(dataset)}")
        return {row[0] for row in found.fetchall()}

    def finished_keys(self) -> set[str]:
        """Keys of the trials that need not be measured again.

        Raises:
            UserError: the run is damaged.
        """
        with read_errors(self.folder):
            return finished_keys(self._db)

    def trial(self, record: TrialRecord) -> None:
        """Write one trial completely or not at all. An earlier failure of the key is replaced."""
        with self._transaction():
            self._delete_trial(record.row.key)
            trial_id = self._next_id("trial", "trial_id")
            self._insert("trial", [_trial(trial_id, record)])
            phase_ids = self._phases(trial_id, record)
            telemetry = _telemetry(trial_id, phase_ids, record)
            self._insert("telemetry", [self._row_of("telemetry", row) for row in telemetry])
            self._insert("gate", [{"trial_id": trial_id, **row._asdict()} for row in record.gate])

    def _delete_trial(self, key: str) -> None:
        known = f"select trial_id from trial where key = {_literal(key)}"
        found = self._db.execute(known).fetchone()
        if found is None:
            return
        trial = f"trial_id = {found[0]}"
        phases = f"(select phase_id from phase where {trial})"
        for table in ("metric", "histogram", "error", '"window"', "slice"):
            self._db.execute(f"delete from {table} where phase_id in {phases}")
        for table in ("phase", "telemetry", "gate", "trial"):
            self._db.execute(f"delete from {table} where {trial}")

    def _phases(self, trial_id: int, record: TrialRecord) -> list[int]:
        first = self._next_id("phase", "phase_id")
        for ordinal, phase in enumerate(record.phases):
            phase_id = first + ordinal
            self._insert("phase", [_phase(phase_id, trial_id, ordinal, phase, record)])
            for table, rows in _phase_tables(phase, record.started_ns, record.metrics):
                self._insert(table, [{"phase_id": phase_id, **row} for row in rows])
        return list(range(first, first + len(record.phases)))

    def _next_id(self, table: str, column: str) -> int:
        found = self._db.execute(f"select coalesce(max({column}), 0) + 1 from {table}").fetchone()
        assert found is not None
        return int(found[0])

    def _row_of(self, table: str, row: Mapping[str, Any]) -> dict[str, Any]:
        """A row of a table, from values that may lack some of its columns, or have others."""
        if table not in self._columns:
            described = self._db.execute(f"describe {table}").fetchall()
            self._columns[table] = [column[0] for column in described]
        return {column: row.get(column) for column in self._columns[table]}

    def _insert(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows that have the same columns."""
        # One statement for many rows: `executemany` runs one per row.
        for at in range(0, len(rows), _ROWS_OF_STATEMENT):
            part = rows[at : at + _ROWS_OF_STATEMENT]
            columns = ", ".join(part[0])
            values = ", ".join(f"({', '.join(map(_literal, row.values()))})" for row in part)
            self._db.execute(f'insert into "{table}" ({columns}) values {values}')


def _literal(value: Any) -> str:
    """A value as an SQL literal. If it were passed as a parameter, DuckDB would import pandas, if
    installed, to see whether it is one of its objects."""
    match value:
        case None:
            return "null"
        case bool() | np.bool_():
            return "true" if value else "false"
        case int() | np.integer():
            return str(int(value))
        case float() | np.floating():
            return f"'{float(value)!r}'::double"  # bare, it would be a decimal and rounded
        case bytes():
            return f"unhex('{value.hex()}')"
        case datetime():
            return f"'{value.isoformat()}'::timestamptz"
        case str():  # a zero byte would end the statement
            parts = value.replace("'", "''").split("\0")
            return "(" + " || chr(0) || ".join(f"'{part}'" for part in parts) + ")"
    raise TypeError(f"a value of the results is {type(value).__name__}")


def _make(folder: Path) -> bool:
    """Create a folder if it is missing; returns True if it was created."""
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        if not folder.is_dir():
            raise
        return False
    return True


def _trial(trial_id: int, record: TrialRecord) -> dict[str, Any]:
    row = record.row
    server = None if record.server is None else dict(record.server)
    return {
        "trial_id": trial_id,
        **{name: getattr(row, name) for name in IDENTITY},
        "index_params": _json(row.index_params),
        "params": _json(row.params),
        "differences": _json(list(row.differences)),
        "status": record.status,
        "reason": record.reason,
        "store_version": record.store_version,
        "started_at": record.started_at,
        "duration_s": record.duration_s,
        "server": None if server is None else _json(server),
        "notes": _json(list(record.notes)),
        "load": None if record.load is None else _json(dict(record.load)),
    }


def _phase(
    phase_id: int, trial_id: int, ordinal: int, phase: Phase, record: TrialRecord
) -> dict[str, Any]:
    return {
        "phase_id": phase_id,
        "trial_id": trial_id,
        "ordinal": ordinal,
        "name": phase.name,
        "role": phase.role,
        "params": _json(dict(phase.params)),
        "started_s": (phase.started_ns - record.started_ns) / 1e9,
        "duration_s": (phase.ended_ns - phase.started_ns) / 1e9,
        "valid": phase.valid,
        "reason": phase.reason,
    }


def _phase_tables(
    phase: Phase, started_ns: int, own: Sequence[MetricName]
) -> Iterator[tuple[str, _Rows]]:
    """Tables and their rows that belong to a phase. started_ns: start of its trial."""
    yield "metric", list(metric_rows(phase, own))
    yield "histogram", [{"name": name, "hdr": hdr} for name, hdr in phase.histograms.items()]
    yield (
        "error",
        [
            {"kind": kind, "count": count, "messages": _json(messages)}
            for kind, count, messages in phase.errors
        ],
    )
    yield (
        "slice",
        [_slice(one, started_ns) for one in phase.slices],
    )
    for operation, columns in phase.windows.items():
        seconds = zip(*columns.values(), strict=True)
        yield (
            "window",
            [
                {"operation": operation, **dict(zip(columns, values, strict=True))}
                for values in seconds
            ],
        )


def _slice(one: Slice, started_ns: int) -> dict[str, Any]:
    return {
        "session": one.turn.session,
        "round": one.turn.round,
        "place": one.turn.place,
        "began_s": (one.began_ns - started_ns) / 1e9,
        "length_s": one.turn.length_ns / 1e9,
        "seconds": one.seconds,
        "count": one.count,
        "errors": one.errors,
        "head_s": one.head_s,
        "head_count": one.head_count,
        "recall": one.recall,
        "idle_s": one.idle_s,
        "idle_cpu_s": one.idle_cpu_s,
        "hdr": one.latency or None,
        "ran_s": one.ran_s,
        "waited_s": one.waited_s,
    }


def metric_rows(phase: Phase, own_metrics: Sequence[MetricName]) -> Iterator[dict[str, Any]]:
    """Rows of a phase in the table `metric`, without its number. own_metrics: its experiment's
    metrics."""
    known = metrics_with(own_metrics)
    for name in dict.fromkeys([*phase.metrics, *phase.missing]):
        if name not in known:
            raise KeyError(
                f"'{name}' is not a metric: declare it in the experiment's `metrics`, or in"
                " vectrial.model.results_schema"
            )
        value = phase.metrics.get(name)
        reason = phase.missing.get(name)
        if value is None and reason is None:
            reason = "nothing was recorded"
        yield {
            "name": name,
            "value": value,
            "unit": known[name].unit,
            "valid": phase.valid and value is not None,
            "reason": reason or phase.reason,
        }


def _telemetry(
    trial_id: int, phase_ids: Sequence[int], record: TrialRecord
) -> Iterator[dict[str, Any]]:
    for row in record.telemetry:
        ordinal = row.get("phase")
        phase_id = phase_ids[ordinal] if ordinal is not None and ordinal < len(phase_ids) else None
        yield {**row, "trial_id": trial_id, "phase_id": phase_id}


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
