"""Opens a run's database, and explains why it cannot be opened."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import duckdb

from vectrial.model.errors import UserError
from vectrial.model.results_schema import DDL, SCHEMA_VERSION
from vectrial.results.clean import clean_name

DATABASE = "run.duckdb"


class RunBeingWritten(UserError):
    """The error that another process has the run open: while one writes it, no other reads it."""


class RunNotWritten(UserError):
    """The error that a run cannot be extended: its disk is full or failing. Committed data is
    kept."""


#: Limits for reading a run from any source.
_READING: dict[str, str | bool | int | float | list[str]] = {
    "memory_limit": "768MB",
    "threads": "2",
    "max_temp_directory_size": "0B",
}
#: The name of a run's database in queries over what is read.
ATTACHED = "results"
#: DuckDB's messages for a database that is open in another process, or in this one.
_OPEN = ("Could not set lock on file", "Unique file handle conflict")


def open_database(
    folder: Path, *, read_only: bool, is_own_run: bool = False
) -> duckdb.DuckDBPyConnection:
    """Open the database of the run in `folder`; for writing, create it if it is missing.

    Times are in UTC. The connection has no access to other files or the network, since a run may
    come from elsewhere. A database opened for reading holds only the tables and columns of a run: a
    view or a function could run forever. This is not checked for a database that this process has
    made itself (`is_own_run`).

    Raises:
        BeingWritten: another process has it open, and one of the two writes.
        NotWritten: the disk is full.
        UserError: it is damaged, or its layout is newer (for reading) or different (for writing).
    """
    try:
        db = (
            _open_for_reading(folder / DATABASE)
            if read_only
            else duckdb.connect(str(folder / DATABASE))
        )
    except (duckdb.Error, OSError, RuntimeError, ValueError) as error:
        # The message contains the path; for a damaged file also the word "block".
        if any(one in str(error) for one in _OPEN):
            raise RunBeingWritten(
                "another process has it open",
                where=str(folder),
                remedy="wait until the run under way has ended, or close what else looks at it",
            ) from error
        raise _open_error(folder, error) from error
    try:
        db.execute("set enable_external_access = false")
        db.execute("set TimeZone = 'UTC'")
        if read_only:
            db.execute("set lock_configuration = true")
        if read_only and not is_own_run and (foreign := _foreign_content(db)):
            db.close()
            raise foreign_content_error(folder, foreign)
        version = _layout(db)
    except (duckdb.Error, RuntimeError, ValueError) as error:
        db.close()
        raise _open_error(folder, error) from error
    if version is not None and version != SCHEMA_VERSION:
        db.close()
        newer = version > SCHEMA_VERSION
        raise UserError(
            f"the run has layout {version}, this Vectrial reads and writes layout {SCHEMA_VERSION}",
            where=str(folder),
            remedy="update vectrial" if newer else "measure again",
        )
    return db


def _open_for_reading(path: Path) -> duckdb.DuckDBPyConnection:
    """A database opened for reading, in an instance of its own: connections to one file would share
    their settings."""
    db = duckdb.connect(config=_READING)
    try:
        quoted = str(path).replace("'", "''")
        db.execute(f"attach '{quoted}' as {ATTACHED} (type duckdb, read_only)")
        db.execute(f"use {ATTACHED}")
    except BaseException:
        db.close()
        raise
    return db


def has_tables(db: duckdb.DuckDBPyConnection) -> bool:
    """True if the tables of a run exist."""
    found = db.execute("select count(*) from duckdb_tables() where table_name = 'run'").fetchone()
    return found != (0,)


def finished_keys(db: duckdb.DuckDBPyConnection) -> set[str]:
    """Keys of the measured trials, which are not measured again. Failed and skipped trials are."""
    rows = db.execute("select key from trial where status in ('ok', 'invalid')").fetchall()
    return {row[0] for row in rows}


@contextmanager
def read_errors(folder: Path) -> Iterator[None]:
    """Report damage found while reading: opening a database checks only a part of it.

    Raises:
        UserError: the database is damaged.
    """
    try:
        yield
    except duckdb.Error as error:
        raise _damage_error(folder, error) from error


@contextmanager
def write_errors(folder: Path) -> Iterator[None]:
    """Report a full or failing disk found while writing.

    Raises:
        NotWritten: the disk is full or failing.
    """
    try:
        yield
    # Any other error, such as a row that does not fit its table, is a bug in Vectrial.
    except (duckdb.OperationalError, duckdb.FatalException, duckdb.InternalException) as error:
        raise _write_error(folder, error) from error


def _write_error(folder: Path, error: Exception) -> RunNotWritten:
    return RunNotWritten(
        f"the run cannot be written: {_first_line(error)}",
        where=str(folder),
        remedy="what had been measured is kept; make room, and go on with it",
    )


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _open_error(folder: Path, error: Exception) -> UserError:
    """One-line error for a database that cannot be opened."""
    if os.strerror(errno.ENOSPC) in str(error):
        return _write_error(folder, error)
    if any(os.strerror(one) in str(error) for one in (errno.EROFS, errno.EACCES, errno.EPERM)):
        return UserError(
            f"its {DATABASE} may not be written here, or not read: {_first_line(error)}",
            where=str(folder),
            remedy="copy the run to where you may write, and go on with it there",
        )
    return _damage_error(folder, error)


def _damage_error(folder: Path, error: Exception) -> UserError:
    """One-line error for a database that cannot be read."""
    return foreign_content_error(folder, _first_line(error))


def foreign_content_error(folder: Path, why: str) -> UserError:
    """Error for a database with content that no run has."""
    return UserError(
        f"its {DATABASE} is damaged, or not a run's: {clean_name(why)}",
        where=str(folder),
        remedy="take it from a bundle or a backup, or measure anew",
    )


def _foreign_content(db: duckdb.DuckDBPyConnection) -> str:
    """Description of content that no run's database has; empty if there is none."""
    views = "select view_name from duckdb_views() where not internal limit 1"
    if found := db.execute(views).fetchone():
        return f"'{found[0]}' is a view"
    functions = "select function_name from duckdb_functions() where not internal limit 1"
    if found := db.execute(functions).fetchone():
        return f"'{found[0]}' is a function"
    computed = "select table_name from duckdb_tables() where sql ilike '%generated always%' limit 1"
    if found := db.execute(computed).fetchone():
        return f"the table '{found[0]}' has computed columns"
    tables = "select lower(table_name) from duckdb_tables()"
    there = {name for (name,) in db.execute(tables).fetchall()}
    for table, known in _tables().items():
        if table not in there:
            continue
        for column, kind in _columns(db, table).items():
            if kind != (expected := known.get(column, kind)):
                return f"column '{column}' of the table '{table}' is {kind}, and not {expected}"
    return ""


@cache
def _tables() -> Mapping[str, Mapping[str, str]]:
    """A run's tables, each with the types of its columns."""
    with duckdb.connect() as db:
        db.execute(DDL)
        names = db.execute("select table_name from duckdb_tables()").fetchall()
        return {name: _columns(db, name) for (name,) in names}


def _columns(db: duckdb.DuckDBPyConnection, table: str) -> Mapping[str, str]:
    """The type of each column of a table."""
    # `duckdb_columns()` would look at those of all views of the system, for 30 ms.
    found = db.execute(f'select * from "{table}" limit 0').description
    return {column[0].lower(): str(column[1]) for column in found}


def _layout(db: duckdb.DuckDBPyConnection) -> int | None:
    """Layout version of the database; None for a run that has not begun."""
    if not has_tables(db):
        return None
    found = db.execute("select schema_version::integer from run limit 2").fetchall()
    if len(found) > 1:
        raise duckdb.InvalidInputException("it holds several runs")
    return found[0][0] if found else None
