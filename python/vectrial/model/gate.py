"""Scopes and results of gate checks."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class CheckResult(NamedTuple):
    """Result of a gate check as a trial keeps it: a row of the table `gate`.

    relevant: the trial's figures depend on what was checked, so that a failure invalidates them.
    """

    name: str
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
