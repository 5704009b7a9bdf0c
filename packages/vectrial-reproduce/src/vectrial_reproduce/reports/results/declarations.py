"""The list of committed results: `results.toml`, a table for each folder of docs/results."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from vectrial.model.errors import UserError
from vectrial.util.suggest import suggestion

LIST = "results.toml"
#: Commands that measure what can be committed.
RUN, REPRODUCE, FIT = "run", "reproduce", "fit"
#: Options that the measuring of results gives itself.
_OWN = ("--out", "--resume", "--dry-run", "--show", "--note")


class _ResultEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    command: str
    needs: str = ""
    pending: bool = False


@dataclass(frozen=True)
class CommittedResult:
    """A committed result.

    name: its folder, relative to the folder of all results. words: the command that measures it,
        without `vectrial` itself. needs: its requirements beyond `make setup-servers`. pending:
        there is no bundle of it yet.
    """

    name: str
    words: tuple[str, ...]
    needs: str = ""
    pending: bool = False

    @property
    def is_reproduction(self) -> bool:
        """True if the result reproduces a report: its folder has one folder for each part."""
        return self.words[0] == REPRODUCE

    @property
    def is_run(self) -> bool:
        """True if the result is a run of a suite: its disturbed trials can be measured again."""
        return self.words[0] == RUN


def read(results: Path) -> list[CommittedResult]:
    """The declared results in a folder, in order.

    Raises:
        UserError: there is none, or it is invalid.
    """
    path = results / LIST
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"there is no {LIST} here", where=str(results)) from error
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"this is no TOML: {error}", where=str(path)) from error
    return [_result(name, table, path) for name, table in tables.items()]


def _result(name: str, table: object, path: Path) -> CommittedResult:
    where = f"{path}: [{name}]"
    try:
        entry = _ResultEntry.model_validate(table)
        words = tuple(shlex.split(entry.command))
    except ValidationError as error:
        fault = error.errors()[0]
        at = ".".join(map(str, fault["loc"]))
        raise UserError(f"{at}: {fault['msg']}", where=where) from error
    except ValueError as error:
        raise UserError(f"command: {error}", where=where) from error
    if words[:1] not in ((RUN,), (REPRODUCE,), (FIT,)):
        raise UserError(
            f"'{entry.command}' measures nothing",
            where=where,
            remedy=f"begin with '{RUN}', '{REPRODUCE}' or '{FIT}', as in 'run suites/demo.toml'",
        )
    for word in words:
        if word.partition("=")[0] in _OWN:
            raise UserError(f"{word} is given when it is measured", where=where, remedy="remove it")
    return CommittedResult(name, words, entry.needs, entry.pending)


def select_results(
    results: Sequence[CommittedResult], names: Sequence[str]
) -> list[CommittedResult]:
    """The results with these names, or within a folder of such a name; all if there are no names.

    Raises:
        UserError: nothing has such a name.
    """
    for name in names:
        if not any(_is_within(one, name) for one in results):
            near = suggestion(name, [one.name for one in results])
            raise UserError(f"there is no result '{name}'", where=LIST, remedy=near)
    return [one for one in results if not names or any(_is_within(one, name) for name in names)]


def _is_within(result: CommittedResult, name: str) -> bool:
    return result.name == name or result.name.startswith(f"{name}/")
