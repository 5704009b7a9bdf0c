"""Reads a run folder. Everything derived (reports, tables, verdicts) goes through here."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from vectrial.model.errors import UserError
from vectrial.model.results_schema import SLICES_DDL
from vectrial.results.clean import INSTEAD, PATTERN, PATTERN_IN_NAME, clean, parse_json
from vectrial.results.database import (
    ATTACHED,
    DATABASE,
    finished_keys,
    foreign_content_error,
    has_tables,
    open_database,
    read_errors,
)
from vectrial.results.folder import is_own
from vectrial.stats.quantiles import QUANTILES

T = TypeVar("T")

#: Limit for a suite's file. Vectrial's own have a few thousand.
_SUITE_BYTES = 4 << 20
#: Environment variable: seconds that DuckDB may take to read one run.
SECONDS = "VECTRIAL_READ_S"
#: Rows of an answer that are read at once.
_BATCH = 65_536
#: Trials that are read at once.
_TRIALS = 1_000
#: Columns with text of several lines. A name has one line.
_LINES = frozenset({"reason", "detail", "messages", "notes", "environment", "facts", "server"})
#: Errors raised by a database that no Vectrial wrote; Arrow's are raised while rows are read.
_FAULTS = (duckdb.Error, pa.ArrowException, MemoryError, OSError, RuntimeError, ValueError)

#: (metric, metric that counts its samples, how many it needs, label)
_NEEDED = ", ".join(
    f"('{name}', '{count}', {one.least_samples}, '{one.label}')"
    for name, one in QUANTILES.items()
    for count in one.counts
)
#: Views before the tables of the same name. The rule: `vectrial.stats.quantiles.Quantile`.
_HELD = (
    f"""
create temp view metric as with few as (
    select c.phase_id, q.name,
           format('{{:,}} request{{}}; {{}} needs {{:,}}', min(c.value)::bigint,
                  if(min(c.value) = 1, '', 's'), any_value(q.label), any_value(q.needs)) as why
    from {ATTACHED}.main.metric c join (values {_NEEDED}) q(name, counts, needs, label)
    on c.name = q.counts group by c.phase_id, q.name having min(c.value) < any_value(q.needs))
select m.phase_id, m.name, if(f.why is null, m.value, null) as value, m.unit,
       m.valid and (f.why is null or m.value is null) as valid,
       if(m.value is null, m.reason, coalesce(f.why, m.reason)) as reason
from {ATTACHED}.main.metric m left join few f on m.phase_id = f.phase_id and m.name = f.name
order by m.rowid""",
    f"""
create temp view "window" as select * replace (
    if(count < {QUANTILES["latency_p50"].least_samples}, null, p50_us) as p50_us,
    if(count < {QUANTILES["latency_p99"].least_samples}, null, p99_us) as p99_us)
from {ATTACHED}.main."window" """,
)

#: One row per measured value, joined with everything that identifies it.
_MEASURED = """
select t.trial_id, p.phase_id, t.store, t.store_version, t.lane, t.dataset, t.rows, t.dim,
       t.metric_space, t.experiment, p.name as phase, t.index_kind, t.index_params,
       t.params as trial_params, p.params as phase_params, t.repeat, t.seed,
       m.name as metric, m.value, m.unit, m.valid and t.status = 'ok' as valid,
       coalesce(m.reason, t.reason) as reason, t.status, t.key
from metric m join phase p using (phase_id) join trial t using (trial_id)
order by t.trial_id, p.ordinal, m.name
"""


class ReadTimeLimit(UserError):
    """The error that reading a run exceeded its time limit."""


@dataclass(frozen=True)
class ReadLimits:
    """Limits for reading one run: seconds of DuckDB's time and rows in total, bytes per answer."""

    seconds: float = 60.0
    rows: int = 10_000_000
    bytes: int = 256 << 20

    @classmethod
    def from_environment(cls) -> ReadLimits:
        """Limits with the seconds from the environment.

        Raises:
            UserError: the variable is not a number of seconds.
        """
        text = os.environ.get(SECONDS)
        if not text:
            return cls()
        try:
            seconds = float(text)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds < 1e6:
            raise UserError(f"'{text}' is no number of seconds", where=SECONDS, remedy="as in 60")
        return cls(seconds)


def measured_keys(folder: Path) -> set[str]:
    """Keys of the trials that a resumed run leaves out; none if the run has not begun.

    Raises:
        UserError: it is being written, or it is damaged or of a newer version.
    """
    if not (folder / DATABASE).is_file():
        return set()
    with closing(open_database(folder, read_only=True)) as db, read_errors(folder):
        return finished_keys(db) if has_tables(db) else set()


class NothingMeasured(UserError):
    """A run that ended before it began to measure."""


class RunReader:
    """A finished (or interrupted) run, read-only. Use as a context manager.

    A run may come from elsewhere: it is read with limits (`ReadLimits`, and those of
    `open_database`), text is cleaned (`vectrial.results.clean`), and numbers are finite.
    """

    def __init__(self, folder: Path, *, is_own_run: bool = False) -> None:
        """Open the run in `folder` (a symlink such as `runs/latest` is followed).

        is_own_run: this process has begun it; there is no limit on time then.

        Raises:
            UserError: there is no run, it is being written, or it is damaged or of a newer version.
        """
        self.folder = folder.resolve()
        if not (self.folder / DATABASE).is_file():
            raise UserError(
                "there is no run here",
                where=str(folder),
                remedy="give the folder that `vectrial run` printed, or runs/latest",
            )
        self._limits, self._own = ReadLimits.from_environment(), is_own_run
        self._left_s, self._left_rows = self._limits.seconds, self._limits.rows
        self._db = open_database(self.folder, read_only=True, is_own_run=is_own_run)
        try:
            with self._time_limit():
                if not has_tables(self._db):
                    raise self._no_run_error()
                self._create_views()
        except BaseException:
            self._db.close()
            raise

    def __enter__(self) -> RunReader:
        return self

    def __exit__(self, *exc: object) -> None:
        self._db.close()

    def _create_views(self) -> None:
        """Let queries see tables without quantiles that have too few samples, which earlier
        versions wrote, and with the tables that earlier versions lack."""
        for view in _HELD:
            self._db.execute(view)
        tables = "select 1 from duckdb_tables() where table_name = 'slice'"
        if self._db.execute(tables).fetchone() is None:
            self._db.execute(SLICES_DDL.replace("create table", "create temp table"))

    @contextmanager
    def _time_limit(self) -> Iterator[None]:
        """Interrupt DuckDB when it has taken all of the run's time, and say what is wrong with the
        run in one line."""
        began = time.monotonic()
        timer = threading.Timer(max(0.1, self._left_s), self._db.interrupt)
        timer.daemon = True
        if not self._own:
            timer.start()
        try:
            yield
        except UserError:
            raise
        except _FAULTS as error:
            if self._own or time.monotonic() - began < self._left_s:
                said = str(error).partition("\n")[0]
                raise foreign_content_error(
                    self.folder, f"{type(error).__name__}: {said}"
                ) from error
            raise ReadTimeLimit(
                f"it could not be read in {self._limits.seconds:g} s",
                where=str(self.folder),
                remedy=f"{SECONDS} allows another number of seconds",
            ) from error
        finally:
            timer.cancel()
            self._left_s -= time.monotonic() - began

    def _no_run_error(self) -> NothingMeasured:
        return NothingMeasured(
            "nothing was measured in this run",
            where=str(self.folder),
            remedy=f"vectrial run --resume {self.folder}",
        )

    def table(self, name: str) -> pa.Table:
        """A whole table of `vectrial.model.results_schema`."""
        return self.query(f'select * from "{name}"')

    def query(self, sql: str, parameters: list[Any] | None = None) -> pa.Table:
        """Result of any read-only SQL over the run's tables. Times are in UTC.

        Raises:
            UserError: the data is damaged, missing or more than the limits allow.
        """
        batches, size = [], 0
        with self._time_limit():
            found = self._db.execute(sql, parameters).to_arrow_reader(_BATCH)
            for batch in found:
                size += batch.nbytes
                self._left_rows -= batch.num_rows
                if self._left_rows < 0 or size > self._limits.bytes:
                    raise UserError(
                        "it holds more than a report can be made of",
                        where=str(self.folder),
                        remedy="look at it with DuckDB's own tools",
                    )
                batches.append(self._clean_batch(batch))
        return pa.Table.from_batches(batches, found.schema)

    def _clean_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            batch.validate(full=True)  # a forged database may hold bytes that are no text
        except pa.ArrowInvalid as error:
            raise UserError(f"it holds what is no text: {error}", where=str(self.folder)) from None
        columns = [_clean(batch.column(i), name) for i, name in enumerate(batch.schema.names)]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def rows(self, sql: str, parameters: list[Any] | None = None) -> list[dict[str, Any]]:
        """Like `query`, as plain dicts."""
        return self.query(sql, parameters).to_pylist()

    def by_trials(self, sql: str) -> Iterator[list[dict[str, Any]]]:
        """Like `rows_within`, for all trials, some at a time in the order of their ids."""
        for trials in self.trial_ranges:
            yield self.rows_within(sql, trials)

    def rows_within(self, sql: str, trials: tuple[int, int]) -> list[dict[str, Any]]:
        """Like `rows`, for trials with ids from the first to the last.

        sql: has `:trials` where the condition on `trial_id` belongs.
        """
        # In the text, since DuckDB would load pandas for a parameter.
        return self.rows(sql.replace(":trials", "between {} and {}".format(*map(int, trials))))

    @cached_property
    def trial_ranges(self) -> Sequence[tuple[int, int]]:
        """The first and the last `trial_id` of as many trials as are read at once."""
        ids = [row["trial_id"] for row in self.rows("select trial_id from trial order by all")]
        parts = (ids[at : at + _TRIALS] for at in range(0, len(ids), _TRIALS))
        return [(part[0], part[-1]) for part in parts]

    def parse_value(self, text: str, kind: type[T]) -> T:
        """Parse the value of a JSON column, which must be of this kind.

        Raises:
            UserError: it is of another kind.
        """
        try:
            found = parse_json(text)
        except ValueError as error:
            raise self.foreign_content_error(str(error)) from error
        if not isinstance(found, kind):
            raise self.foreign_content_error(
                f"{kind.__name__} is expected, and it holds {text[:40]!r}"
            )
        return found

    def texts(self, text: str) -> tuple[str, ...]:
        """Like `parse_json`, for a list of texts."""
        found = self.parse_value(text, list)
        if not all(isinstance(one, str) for one in found):
            raise self.foreign_content_error(
                f"a list of texts is expected, and it holds {text[:40]!r}"
            )
        return tuple(found)

    def foreign_content_error(self, why: str) -> UserError:
        """Error for a run with content that no run has."""
        return foreign_content_error(self.folder, why)

    def measurements(self) -> pa.Table:
        """Every measured value with the columns of `_MEASURED`; parameters as JSON."""
        return self.query(_MEASURED)

    def measured(self) -> list[dict[str, Any]]:
        """Like `measurements`, as plain dicts; JSON columns as dicts."""
        rows = self.measurements().to_pylist()
        for row in rows:
            for column in ("index_params", "trial_params", "phase_params"):
                row[column] = self.parse_value(row[column], dict)
        return rows

    def suite(self) -> str:
        """The suite as it was run, TOML; empty if it is missing or a link leads out of the folder.

        Raises:
            UserError: it is not text.
        """
        kept = self.folder / "suite.toml"
        if not is_own(self.folder, kept):
            return ""
        if kept.stat().st_size > _SUITE_BYTES:
            raise UserError(f"a suite has at most {_SUITE_BYTES} bytes", where=str(kept))
        try:
            return clean(kept.read_text(encoding="utf-8"))
        except UnicodeDecodeError as error:
            raise UserError(
                f"this is no text in UTF-8: {error.reason} at byte {error.start}",
                where=str(kept),
                remedy="take it from a bundle or a backup",
            ) from error

    def run(self) -> dict[str, Any]:
        """The run's own record, `environment` as a dict.

        Raises:
            UserError: the run ended before it began to measure.
        """
        rows = self.rows("select * from run limit 2")
        if not rows:
            raise self._no_run_error()
        row = rows[0]
        row["environment"] = self.parse_value(row["environment"], dict)
        return row


def _clean(column: pa.Array[Any], name: str) -> pa.Array[Any]:
    import pyarrow.compute as pc  # here: the first line of a command does not wait for it

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        pattern = PATTERN if name in _LINES else PATTERN_IN_NAME
        if pc.any(pc.match_substring_regex(column, pattern)).as_py():
            cleaned: pa.Array[Any] = pc.replace_substring_regex(column, pattern, INSTEAD)
            return cleaned
    elif name != "value" and pa.types.is_floating(column.type):  # a value has a reason
        finite = pc.is_finite(column)
        if not pc.all(finite).as_py():
            known: pa.Array[Any] = pc.if_else(finite, column, pa.scalar(None, column.type))
            return known
    return column
