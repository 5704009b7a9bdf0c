"""Latency of find by vector against the size of the collection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import Field, field_validator

from vectrial.experiments.base import Experiment, Target, search_points
from vectrial.experiments.common import sizes
from vectrial.model.context import Context
from vectrial.model.inputs import PositiveSeconds, Seconds, Warmup
from vectrial.model.lane import Lane
from vectrial.model.phase import Phase
from vectrial.model.workload import ClosedLoop
from vectrial.workload import dispatch


class SizeSweep(Experiment):
    """The same searches by one client on growing parts of the dataset, each loaded alone.

    sizes: fractions of the rows (at most 1), or numbers of rows; all rows are measured as well.
    search: one operating point (no lists).
    least: sizes below so many rows are left out; never fewer than are asked for in a search.
    min_s: whole passes over the queries are made until so much time has gone.
    max_s: no request is sent later than this.
    """

    name: ClassVar[str] = "size_sweep"
    title: ClassVar[str] = "Latency against size"
    axes: ClassVar[frozenset[str]] = frozenset({"sizes", "search"})
    lanes: ClassVar[frozenset[Lane] | None] = frozenset(Lane)

    sizes: tuple[int | float, ...] = (0.01, 0.1, 1.0)
    search: dict[str, int | float | str | bool] = Field(default_factory=dict)
    least: int = Field(default=100, ge=1)
    min_s: Seconds = 1.0
    max_s: PositiveSeconds = 20.0
    warmup_queries: Warmup = 100

    @field_validator("sizes")
    @classmethod
    def _sizes(cls, value: tuple[int | float, ...]) -> tuple[int | float, ...]:
        return sizes.checked(value)

    def points(self, target: Target) -> list[dict[str, Any]]:
        return [
            {"rows": size, **point}
            for size in sizes.resolved(
                self.sizes, target.data.rows, least=min(target.data.rows, self.least)
            )
            for point in search_points(target, self.search)
        ]

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        load = ClosedLoop(1, min_s=self.min_s, max_s=self.max_s)
        yield dispatch.search(context, point, load, warmup_queries=self.warmup_queries)

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """A load, and the least time of a phase and half as much again."""
        return 0.5 + rows * (20e-6 + dim * 0.6e-6) + self.min_s * 1.5
