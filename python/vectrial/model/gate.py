"""Scopes and results of gate checks."""

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
    """Trials that a failed check invalidates: their figures depend on what was checked."""

    EVERYTHING = "everything"
    FILTERS = "filtered searches"
    FINDS = "finds by condition"
    CHANGES = "changes of rows"
