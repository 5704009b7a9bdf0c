"""The process that reads runs for `vectrial.results.reader`, and its limits.

Requests: open a run's folder, put a query to it, close it. A query is answered by an Arrow stream.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from vectrial.model.errors import UserError
from vectrial.model.results_schema import SLICES_DDL
from vectrial.results import clean
from vectrial.results.database import (
    BeingWritten,
    NotWritten,
    has_tables,
    not_a_runs,
    open_database,
    reading,
)
from vectrial.stats.quantiles import QUANTILES
from vectrial.util import apart
from vectrial.util.arrow import load_without_pandas

#: Environment variable: seconds of processor time that reading one run may take.
SECONDS = "VECTRIAL_READ_S"
#: Rows of an answer that are built at once.
_BATCH = 65_536
#: Columns with text of several lines. A name has one line.
_LINES = frozenset({"reason", "detail", "messages", "notes", "environment", "facts", "server"})
_MEMORY_BYTES = 1536 << 20

#: (metric, metric that counts its samples, how many it needs, label)
_NEEDED = ", ".join(
    f"('{name}', '{count}', {one.needs}, '{one.label}')"
    for name, one in QUANTILES.items()
    for count in one.counts
)
#: Views before the tables of the same name of the database {run}: the rule is
#: `vectrial.stats.quantiles.lacking`.
_HELD = (
    f"""
create temp view metric as with few as (
    select c.phase_id, q.name,
           format('{{{{:,}}}} request{{{{}}}}; {{{{}}}} needs {{{{:,}}}}', min(c.value)::bigint,
                  if(min(c.value) = 1, '', 's'), any_value(q.label), any_value(q.needs)) as why
    from {{run}}.main.metric c join (values {_NEEDED}) q(name, counts, needs, label)
    on c.name = q.counts group by c.phase_id, q.name having min(c.value) < any_value(q.needs))
select m.phase_id, m.name, if(f.why is null, m.value, null) as value, m.unit,
       m.valid and (f.why is null or m.value is null) as valid,
       if(m.value is null, m.reason, coalesce(f.why, m.reason)) as reason
from {{run}}.main.metric m left join few f on m.phase_id = f.phase_id and m.name = f.name
order by m.rowid""",
    f"""
create temp view "window" as select * replace (
    if(count < {QUANTILES["latency_p50"].needs}, null, p50_us) as p50_us,
    if(count < {QUANTILES["latency_p99"].needs}, null, p99_us) as p99_us)
from {{run}}.main."window" """,
)

#: Those of this program.
PROCESSES = apart.Pool("vectrial.results.reading", _MEMORY_BYTES, most=4)


class TookTooLong(UserError):
    """Reading a run exceeded its time limit."""


@dataclass(frozen=True)
class ReadLimits:
    """Limits for reading one run: seconds of processor time, rows in total, bytes per answer."""

    seconds: float = 20.0
    rows: int = 2_000_000
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


def error_of(answer: Mapping[str, Any]) -> UserError:
    """The error that the process reported."""
    kinds = {kind.__name__: kind for kind in (BeingWritten, NotWritten, UserError)}
    kind = kinds.get(answer["error"], UserError)
    return kind(answer["what"], where=answer["where"], remedy=answer["remedy"])


def _answer(error: UserError) -> apart.Answer:
    told = type(error).__name__, error.what, error.where, error.remedy
    return dict(zip(("error", "what", "where", "remedy"), told, strict=True)), b""


class _Reading:
    """The run that is open, if any. own: runs are this process's own."""

    def __init__(self, *, own: bool = False) -> None:
        self._own = own
        self._db: duckdb.DuckDBPyConnection | None = None
        self._folder = Path()

    def handle(self, asked: Mapping[str, Any], content: bytes) -> apart.Answer:
        """Answer a request; a failure to read is also an answer."""
        try:
            if asked["do"] == "query":
                return {}, self._query(asked)
            self._close()
            return {"tables": asked["do"] == "open" and self._open(Path(asked["folder"]))}, b""
        except UserError as error:
            return _answer(error)
        except (MemoryError, OSError, pa.ArrowException) as error:  # DuckDB's reader: OSError
            said = str(error).partition("\n")[0]
            return _answer(not_a_runs(self._folder, f"{type(error).__name__}: {said}"))

    def _open(self, folder: Path) -> bool:
        self._folder, self._db = folder, open_database(folder, read_only=True, own=self._own)
        with reading(folder):
            return has_tables(self._db) and self._withhold(self._db)

    @staticmethod
    def _withhold(db: duckdb.DuckDBPyConnection) -> bool:
        """Let queries see tables without quantiles that have too few samples, which earlier
        versions wrote, and with the tables that earlier versions lack."""
        found = db.execute("select current_database()").fetchone()
        assert found is not None
        quoted = found[0].replace('"', '""')
        for view in _HELD:
            db.execute(view.format(run=f'"{quoted}"'))
        tables = "select 1 from duckdb_tables() where table_name = 'slice'"
        if db.execute(tables).fetchone() is None:
            db.execute(SLICES_DDL.replace("create table", "create temp table"))
        return True

    def _close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _query(self, asked: Mapping[str, Any]) -> bytes:
        assert self._db is not None, "it was opened"
        sink, rows = pa.BufferOutputStream(), 0
        with reading(self._folder):
            found = self._db.execute(asked["sql"], asked["parameters"]).to_arrow_reader(_BATCH)
            with pa.ipc.new_stream(sink, found.schema) as stream:
                while True:
                    try:
                        batch = found.read_next_batch()
                    except StopIteration:
                        break
                    rows += batch.num_rows
                    if rows > asked["rows"] or sink.tell() + batch.nbytes > asked["bytes"]:
                        raise UserError(
                            "it holds more than a report can be made of",
                            where=str(self._folder),
                            remedy="look at it with DuckDB's own tools",
                        )
                    stream.write_batch(self._cleaned(batch))
        return sink.getvalue().to_pybytes()

    def _cleaned(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            batch.validate(full=True)  # a forged database may hold bytes that are no text
        except pa.ArrowInvalid as error:
            raise UserError(f"it holds what is no text: {error}", where=str(self._folder)) from None
        columns = [_clean(batch.column(i), name) for i, name in enumerate(batch.schema.names)]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


class Here:
    """Answers requests in this process, for a run that it has written itself, with the same limits
    except on time."""

    runs = True

    def __init__(self) -> None:
        self._reading = _Reading(own=True)

    def ask(
        self, request: Mapping[str, Any], content: bytes = b"", *, cpu_s: float, anew: bool = True
    ) -> apart.Answer:
        """See `vectrial.util.apart.Apart`."""
        answer, made = self._reading.handle(request, content)
        return {**answer, "cpu_s": 0.0}, made


def _clean(column: pa.Array[Any], name: str) -> pa.Array[Any]:
    import pyarrow.compute as pc  # here: the first line of a command does not wait for it

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        pattern = clean.PATTERN if name in _LINES else clean.PATTERN_IN_NAME
        if pc.any(pc.match_substring_regex(column, pattern)).as_py():
            cleaned: pa.Array[Any] = pc.replace_substring_regex(column, pattern, clean.INSTEAD)
            return cleaned
    elif name != "value" and pa.types.is_floating(column.type):  # a value has a reason
        finite = pc.is_finite(column)
        if not pc.all(finite).as_py():
            known: pa.Array[Any] = pc.if_else(finite, column, pa.scalar(None, column.type))
            return known
    return column


def main() -> None:
    """Answer requests until the other end is closed."""
    load_without_pandas()
    apart.serve(_Reading().handle)
