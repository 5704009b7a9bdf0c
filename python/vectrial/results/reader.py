"""Reads a run folder. Everything derived (reports, tables, verdicts) goes through here."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from vectrial.model.errors import UserError
from vectrial.results.clean import clean, parsed
from vectrial.results.database import (
    DATABASE,
    finished_keys,
    has_tables,
    not_a_runs,
    open_database,
    reading,
)
from vectrial.results.folder import is_own
from vectrial.results.reading import PROCESSES, SECONDS, Here, ReadLimits, TookTooLong, error_of
from vectrial.util import apart

T = TypeVar("T")

#: Limit for a suite's file. Vectrial's own have a few thousand.
_SUITE_BYTES = 4 << 20

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


def measured_keys(folder: Path) -> set[str]:
    """Keys of the trials that a resumed run leaves out; none if the run has not begun.

    Raises:
        UserError: it is being written, or it is damaged or of a newer version.
    """
    if not (folder / DATABASE).is_file():
        return set()
    with closing(open_database(folder, read_only=True)) as db, reading(folder):
        return finished_keys(db) if has_tables(db) else set()


class RunReader:
    """A finished (or interrupted) run, read-only. Use as a context manager.

    A run is read in a separate process with limits on memory and time, since it may come from
    elsewhere; a run that this process has begun and written itself is read here. Text is cleaned
    (`vectrial.results.clean`), and numbers are finite.
    """

    def __init__(self, folder: Path, *, own: bool = False) -> None:
        """Open the run in `folder` (a symlink such as `runs/latest` is followed).

        own: this process has begun it.

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
        self._limits = ReadLimits.from_environment()
        self._left_s, self._left_rows = self._limits.seconds, self._limits.rows
        with ExitStack() as opened:
            self._process = Here() if own else opened.enter_context(PROCESSES.one())
            opened.callback(self._close)
            if not self._ask({"do": "open", "folder": str(self.folder)})[0]["tables"]:
                raise self._nothing()
            self._opened = opened.pop_all()

    def __enter__(self) -> RunReader:
        return self

    def __exit__(self, *exc: object) -> None:
        self._opened.close()

    def _close(self) -> None:
        if self._process.runs:
            self._ask({"do": "close"})

    def _ask(self, asked: dict[str, Any]) -> apart.Answer:
        asked["rows"], asked["bytes"] = self._left_rows, self._limits.bytes
        try:
            answer, content = self._process.ask(
                asked, cpu_s=max(0.1, self._left_s), anew=asked["do"] == "open"
            )
        except apart.TooLong as error:
            raise TookTooLong(
                f"it could not be read in {self._limits.seconds:g} s of processor time",
                where=str(self.folder),
                remedy=f"{SECONDS} allows another number of seconds",
            ) from error
        except apart.ProcessEnded as error:
            raise UserError(
                f"its {DATABASE} is damaged, or not a run's: {error}",
                where=str(self.folder),
                remedy="take it from a bundle or a backup, or measure anew",
            ) from error
        self._left_s -= answer["cpu_s"]
        if "error" in answer:
            raise error_of(answer)
        return answer, content

    def _nothing(self) -> UserError:
        return UserError(
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
        _, content = self._ask({"do": "query", "sql": sql, "parameters": parameters or []})
        with pa.ipc.open_stream(content) as stream:
            found = stream.read_all()
        self._left_rows -= found.num_rows
        return found

    def rows(self, sql: str, parameters: list[Any] | None = None) -> list[dict[str, Any]]:
        """Like `query`, as plain dicts."""
        return self.query(sql, parameters).to_pylist()

    def parsed(self, text: str, kind: type[T]) -> T:
        """Parse the value of a JSON column, which must be of this kind.

        Raises:
            UserError: it is of another kind.
        """
        try:
            found = parsed(text)
        except ValueError as error:
            raise self.unlike(str(error)) from error
        if not isinstance(found, kind):
            raise self.unlike(f"{kind.__name__} is expected, and it holds {text[:40]!r}")
        return found

    def texts(self, text: str) -> tuple[str, ...]:
        """Like `parsed`, for a list of texts."""
        found = self.parsed(text, list)
        if not all(isinstance(one, str) for one in found):
            raise self.unlike(f"a list of texts is expected, and it holds {text[:40]!r}")
        return tuple(found)

    def unlike(self, why: str) -> UserError:
        """Error for a run with content that no run has."""
        return not_a_runs(self.folder, why)

    def measurements(self) -> pa.Table:
        """Every measured value with the columns of `_MEASURED`; parameters as JSON."""
        return self.query(_MEASURED)

    def measured(self) -> list[dict[str, Any]]:
        """Like `measurements`, as plain dicts; JSON columns as dicts."""
        rows = self.measurements().to_pylist()
        for row in rows:
            for column in ("index_params", "trial_params", "phase_params"):
                row[column] = self.parsed(row[column], dict)
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
            raise self._nothing()
        row = rows[0]
        row["environment"] = self.parsed(row["environment"], dict)
        return row
