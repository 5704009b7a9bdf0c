"""Opening a run's database, and saying what is wrong when it cannot be."""

from __future__ import annotations

from pathlib import Path

import duckdb

from vectrial.errors import UserError
from vectrial.results.schema import SCHEMA_VERSION

DATABASE = "run.duckdb"


class BeingWritten(UserError):
    """A run that another process is writing: nobody else may read it."""


def open_database(folder: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    """The database of the run in `folder`; one that is to be written is made if it is not there.

    Raises:
        BeingWritten: another process writes it.
        UserError: it is damaged, or it has another layout: to be read
            a newer one, to be written any other.
    """
    path = folder / DATABASE
    try:
        db = duckdb.connect(str(path), read_only=read_only)
    except duckdb.Error as error:
        if "lock" in str(error):
            raise BeingWritten(
                "another vectrial is writing to it",
                where=str(folder),
                remedy="wait until the run under way has ended",
            ) from error
        raise UserError(
            f"its {DATABASE} is damaged, or not a run's: {error}",
            where=str(folder),
            remedy="give the folder that `vectrial run` printed, or runs/latest",
        ) from error
    version = _layout(db)
    newer = version is not None and version > SCHEMA_VERSION
    older = version is not None and version < SCHEMA_VERSION
    if newer or (older and not read_only):
        db.close()
        does = "reads up to" if read_only else "writes"
        raise UserError(
            f"the run has layout {version}, this Vectrial {does} {SCHEMA_VERSION}",
            where=str(folder),
            remedy="update vectrial" if newer else "start a new run",
        )
    return db


def has_tables(db: duckdb.DuckDBPyConnection) -> bool:
    """Whether the tables of a run were made."""
    found = db.execute("select count(*) from duckdb_tables() where table_name = 'run'").fetchone()
    return found != (0,)


def _layout(db: duckdb.DuckDBPyConnection) -> int | None:
    """None for a run that has not begun."""
    if not has_tables(db):
        return None
    found = db.execute("select schema_version from run").fetchone()
    return None if found is None else int(found[0])
