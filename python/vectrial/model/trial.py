"""Identity of a trial, results of the gate as it keeps them, and how it may end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

#: Among `TrialRow.index_params` of a trial on a cluster, the number of its nodes.
NODES = "nodes"


@dataclass(frozen=True, order=True)
class Series:
    """Key of one line of a chart."""

    store: str
    index_kind: str
    lane: str
    nodes: int = 1


@dataclass(frozen=True)
class TrialRow:
    """Identity of a trial while it is planned, measured, written and read: columns of the table
    `trial`.

    environment_name: name of the store's own Python environment, None if it shares Vectrial's.
    """

    key: str
    store: str
    lane: str
    dataset: str
    rows: int
    dim: int
    metric_space: str
    experiment: str
    index_kind: str
    index_params: Mapping[str, Any]
    params: Mapping[str, Any]
    repeat: int
    seed: int
    differences: Sequence[str] = ()
    environment_name: str | None = None

    @cached_property
    def series(self) -> Series:
        """The line of a chart that the trial belongs to."""
        return Series(self.store, self.index_kind, self.lane, self.nodes)

    @property
    def nodes(self) -> int:
        """Number of nodes of its store's cluster; 1 for a single server."""
        return int(self.index_params.get(NODES, 1))


#: The columns of the table `trial` that are its identity.
IDENTITY = tuple(field.name for field in fields(TrialRow))


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


#: Beginnings of the reason of a trial that was ended: the server's program ended, or it was alive
#: and silent.
SERVER_ENDED = "the server ended"
SERVER_SILENT = "the server does not answer"
#: The measuring process ended, by a signal or an exit code.
PROCESS_ENDED = "the measuring process ended"
#: The trial was ended at its limit of time.
OVERDUE = "took longer than trial_timeout_s"
#: A turn was ended at its limit of time.
STUCK = "it did not end its turn within"
#: Something was used up that is the machine's, and no fault of the store.
MACHINE_LACKED = "this machine lacked"
