"""Concurrent clients: closed loop with P clients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from vectrial.experiments.base import (
    Experiment,
    Returns,
    Target,
    client_points,
    refuse_threads,
    search_points,
)
from vectrial.model.context import Context
from vectrial.model.inputs import Clients, PositiveSeconds, Warmup
from vectrial.model.lane import Lane
from vectrial.model.phase import Phase
from vectrial.model.store import Returning
from vectrial.model.workload import ClosedLoop
from vectrial.workload import dispatch


class Concurrency(Experiment):
    """P clients, each with one request in flight, for each P.

    clients: the P to measure. search: one operating point (no lists).
    returns: what comes with each row found: "ids", "metadata" or "vectors"; or a list of them.
    duration_s: of each phase, after the warm-up.
    """

    name: ClassVar[str] = "concurrency"
    title: ClassVar[str] = "Concurrent clients (closed loop)"
    axes: ClassVar[frozenset[str]] = frozenset({"clients", "search", "returns"})
    lanes: ClassVar[frozenset[Lane] | None] = frozenset(Lane)

    clients: Annotated[tuple[Clients, ...], Field(min_length=1)] = (1, 2, 4, 8)
    search: dict[str, int | float | str | bool] = Field(default_factory=dict)
    returns: Returns = (Returning.IDS,)
    duration_s: PositiveSeconds = 3.0
    warmup_queries: Warmup = 100

    def points(self, target: Target) -> list[dict[str, Any]]:
        refuse_threads(target, 2)
        return client_points(self.clients, search_points(target, self.search, self.returns))

    def clients_at(self, point: Mapping[str, Any]) -> int | None:
        """As the point says."""
        return int(point["clients"])

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        load = ClosedLoop(int(point["clients"]), min_s=self.duration_s, max_s=self.duration_s)
        yield dispatch.search(context, point, load, warmup_queries=self.warmup_queries)

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """The duration and a warm-up."""
        return self.duration_s + 0.5
