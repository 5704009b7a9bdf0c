"""Opening a run's database, and saying what is wrong when it cannot be."""

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


class BeingWritten(UserError):
    """A run that another process has open: the one that writes it lets nobody else read it."""


class NotWritten(UserError):
    """What was to be added to a run could not be: its disk is full, or fails. What had been
    committed is there."""


#: What reading a run may take, whoever made it.
_READING: dict[str, str | bool | int | float | list[str]] = {
    "memory_limit": "768MB",
    "threads": "2",
    "max_temp_directory_size": "0B",
}


def open_database(folder: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    """The database of the run in `folder`; one that is to be written is made if it is not there.

    Times come out of it in UTC, wherever it is read. It reaches no other file and no address: a
    run may be somebody else's. One that is read holds tables alone, with the columns of a run's:
    a view could run for ever.

    Raises:
        BeingWritten: another process has it open, and one of the two writes.
        NotWritten: the disk is full.
        UserError: it is damaged, or it has another layout: to be read
            a newer one, to be written any other.
    """
    path = folder / DATABASE
    try:
        db = duckdb.connect(str(path), read_only, _READING if read_only else {})
    except duckdb.Error as error:
        # The message holds the path, and that of a damaged file the word "block".
        if "Could not set lock on file" in str(error):
            raise BeingWritten(
                "another process has it open",
                where=str(folder),
                remedy="wait until the run under way has ended, or close what else looks at it",
            ) from error
        raise _fault(folder, error) from error
    try:
        db.execute("set enable_external_access = false")
        db.execute("set TimeZone = 'UTC'")
        if read_only and (foreign := _foreign(db)):
            db.close()
            raise not_a_runs(folder, foreign)
        version = _layout(db)
    except duckdb.Error as error:
        db.close()
        raise _fault(folder, error) from error
    if version is not None and version != SCHEMA_VERSION:
        db.close()
        newer = version > SCHEMA_VERSION
        raise UserError(
            f"the run has layout {version}, this Vectrial reads and writes layout {SCHEMA_VERSION}",
            where=str(folder),
            remedy="update vectrial" if newer else "measure again",
        )
    return db


def has_tables(db: duckdb.DuckDBPyConnection) -> bool:
    """Whether the tables of a run were made."""
    found = db.execute("select count(*) from duckdb_tables() where table_name = 'run'").fetchone()
    return found != (0,)


def finished_keys(db: duckdb.DuckDBPyConnection) -> set[str]:
    """Keys of the trials that need not be measured again: those that were measured. Failed and
    skipped ones are tried again."""
    rows = db.execute("select key from trial where status in ('ok', 'invalid')").fetchall()
    return {row[0] for row in rows}


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """What is read inside may be damaged: only a part of a database is looked at as it is opened.

    Raises:
        UserError: it is.
    """
    try:
        yield
    except duckdb.Error as error:
        raise _damaged(folder, error) from error


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """What is written inside may find the disk full, or failing.

    Raises:
        NotWritten: it did.
    """
    try:
        yield
    # What else it may refuse, such as a row that does not fit its table, is a fault of ours.
    except (duckdb.OperationalError, duckdb.FatalException, duckdb.InternalException) as error:
        raise _not_written(folder, error) from error


def _not_written(folder: Path, error: Exception) -> NotWritten:
    return NotWritten(
        f"the run cannot be written: {_first_line(error)}",
        where=str(folder),
        remedy="what had been measured is kept; make room, and go on with it",
    )


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _fault(folder: Path, error: Exception) -> UserError:
    """What is said of a database that cannot be opened, on one line."""
    if os.strerror(errno.ENOSPC) in str(error):
        return _not_written(folder, error)
    if any(os.strerror(one) in str(error) for one in (errno.EROFS, errno.EACCES, errno.EPERM)):
        return UserError(
            f"its {DATABASE} may not be written here, or not read: {_first_line(error)}",
            where=str(folder),
            remedy="copy the run to where you may write, and go on with it there",
        )
    return _damaged(folder, error)


def _damaged(folder: Path, error: Exception) -> UserError:
    """What is said of a database that cannot be read, on one line."""
    return not_a_runs(folder, _first_line(error))


def not_a_runs(folder: Path, why: str) -> UserError:
    """What is said of a database that holds what no run does."""
    return UserError(
        f"its {DATABASE} is damaged, or not a run's: {clean_name(why)}",
        where=str(folder),
        remedy="take it from a bundle or a backup, or measure anew",
    )


def _foreign(db: duckdb.DuckDBPyConnection) -> str:
    """What a database holds that no run's does; empty where there is nothing of the kind."""
    views = "select view_name from duckdb_views() where not internal limit 1"
    if found := db.execute(views).fetchone():
        return f"'{found[0]}' is a view"
    computed = "select table_name from duckdb_tables() where sql ilike '%generated always%' limit 1"
    if found := db.execute(computed).fetchone():
        return f"the table '{found[0]}' has computed columns"
    known = _columns()
    for table, column, kind in db.execute(_COLUMNS).fetchall():
        expected = known.get((table, column), kind)
        if kind != expected:
            return f"column '{column}' of the table '{table}' is {kind}, and not {expected}"
    return ""


_COLUMNS = "select table_name, column_name, data_type from duckdb_columns() where not internal"


@cache
def _columns() -> Mapping[tuple[str, str], str]:
    """The type of each column of a run's tables."""
    with duckdb.connect() as db:
        db.execute(DDL)
        return {(table, column): kind for table, column, kind in db.execute(_COLUMNS).fetchall()}


def _layout(db: duckdb.DuckDBPyConnection) -> int | None:
    """None for a run that has not begun."""
    if not has_tables(db):
        return None
    found = db.execute("select schema_version::integer from run limit 2").fetchall()
    if len(found) > 1:
        raise duckdb.InvalidInputException("it holds several runs")
    return found[0][0] if found else None
