"""What a gate check bears on, and what came of it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class GateRow(NamedTuple):
    """A row of the table `gate`, without its trial.

    relevant: the trial's figures rest on what was checked, so that a failure invalidates them.
    """

    check_name: str
    passed: bool | None
    detail: str
    demands: str
    invalidates: str
    relevant: bool


class Scope(StrEnum):
    """What a failed check invalidates: trials whose figures rest on what was checked."""

    EVERYTHING = "everything"
    FILTERS = "filtered searches"
    FINDS = "finds by condition"
    CHANGES = "changes of rows"
