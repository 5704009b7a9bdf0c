"""Recall against speed: one build, searched at many operating points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import Field

from vectrial.experiments.base import Experiment, Returns, Target, Values, search_points
from vectrial.model.context import Context
from vectrial.model.inputs import PositiveSeconds, Seconds, Warmup
from vectrial.model.lane import Lane
from vectrial.model.phase import Phase
from vectrial.model.store import Returning
from vectrial.model.workload import ClosedLoop
from vectrial.workload import dispatch


class RecallSweep(Experiment):
    """Every combination of `search`, each with recall, qps and latency of the same requests.

    search: search parameters; those that an index does not have are left out for it.
    returns: what comes with each row found: "ids", "metadata" or "vectors"; or a list of them.
    min_s: whole passes over the queries are made until so much time has gone.
    max_s: no request is sent later than this.
    """

    name: ClassVar[str] = "recall_sweep"
    title: ClassVar[str] = "Recall and QPS"
    axes: ClassVar[frozenset[str]] = frozenset({"search", "returns"})
    lanes: ClassVar[frozenset[Lane] | None] = frozenset(Lane)

    search: dict[str, Values] = Field(default_factory=dict)
    returns: Returns = (Returning.IDS,)
    min_s: Seconds = 1.0
    max_s: PositiveSeconds = 20.0
    warmup_queries: Warmup = 100

    def points(self, target: Target) -> list[dict[str, Any]]:
        return search_points(target, self.search, self.returns)

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        load = ClosedLoop(1, min_s=self.min_s, max_s=self.max_s)
        yield dispatch.search(context, point, load, warmup_queries=self.warmup_queries)

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """The least time of a phase, and half as much again."""
        return 0.5 + self.min_s * 1.5
