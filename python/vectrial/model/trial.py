"""Identity of a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

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
