"""Reads a run folder. Everything derived (reports, tables, verdicts) goes through here."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa

from vectrial.errors import UserError
from vectrial.results.database import DATABASE, finished_keys, has_tables, open_database, reading
from vectrial.results.folder import is_own

#: One row per measured value, joined with everything that says what it is.
_MEASURED = """
select t.trial_id, p.phase_id, t.store, t.store_version, t.lane, t.dataset, t.rows, t.dim,
       t.metric_space, t.experiment, p.name as phase, t.index_kind, t.index_params,
       t.params as trial_params, p.params as phase_params, t.repeat, t.seed,
       m.name as metric, m.value, m.unit, m.valid and t.status = 'ok' as valid,
       coalesce(m.reason, t.reason) as reason, t.status, t.key
from metric m join phase p using (phase_id) join trial t using (trial_id)
order by t.trial_id, p.ordinal, m.name
"""


def measured_keys(folder: Path) -> set[str]:
    """Keys of the trials that a run which is gone on with leaves out; none where it has not begun.

    Raises:
        UserError: it is being written, or it is damaged or newer than this.
    """
    if not (folder / DATABASE).is_file():
        return set()
    with closing(open_database(folder, read_only=True)) as db, reading(folder):
        return finished_keys(db) if has_tables(db) else set()


class RunReader:
    """A finished (or interrupted) run, read-only. Use as a context manager."""

    def __init__(self, folder: Path) -> None:
        """Open the run in `folder` (a symlink such as `runs/latest` is followed).

        Raises:
            UserError: there is no run, it is being written, or it is damaged or newer than this.
        """
        self.folder = folder.resolve()
        if not (self.folder / DATABASE).is_file():
            raise UserError(
                "there is no run here",
                where=str(folder),
                remedy="give the folder that `vectrial run` printed, or runs/latest",
            )
        self._db = open_database(self.folder, read_only=True)
        if not has_tables(self._db):
            self._db.close()
            raise self._nothing()

    def __enter__(self) -> RunReader:
        return self

    def __exit__(self, *exc: object) -> None:
        self._db.close()

    def _nothing(self) -> UserError:
        return UserError(
            "nothing was measured in this run",
            where=str(self.folder),
            remedy=f"vectrial run --resume {self.folder}",
        )

    def table(self, name: str) -> pa.Table:
        """One of the tables of `vectrial.results.schema`, whole."""
        return self.query(f'select * from "{name}"')

    def query(self, sql: str, parameters: list[Any] | None = None) -> pa.Table:
        """Any read-only SQL over the run's tables. Times are in UTC.

        Raises:
            UserError: what is asked for is damaged, or not there.
        """
        with reading(self.folder):
            return self._db.execute(sql, parameters or []).to_arrow_table()

    def rows(self, sql: str, parameters: list[Any] | None = None) -> list[dict[str, Any]]:
        """As `query`, as plain dicts."""
        return self.query(sql, parameters).to_pylist()

    def measured(self) -> list[dict[str, Any]]:
        """Every measured value with the columns of `_MEASURED`; json columns as dicts."""
        rows = self.rows(_MEASURED)
        for row in rows:
            for column in ("index_params", "trial_params", "phase_params"):
                row[column] = json.loads(row[column])
        return rows

    def suite(self) -> str:
        """The suite as it was run, TOML; empty where the folder does not hold it, or a link that
        leads out of it."""
        kept = self.folder / "suite.toml"
        return kept.read_text(encoding="utf-8") if is_own(self.folder, kept) else ""

    def run(self) -> dict[str, Any]:
        """The run's own record, `environment` as a dict.

        Raises:
            UserError: the run ended before it began to measure.
        """
        rows = self.rows("select * from run")
        if not rows:
            raise self._nothing()
        (row,) = rows
        row["environment"] = json.loads(row["environment"])
        return row
