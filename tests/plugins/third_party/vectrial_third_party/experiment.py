"""An experiment: is a row found by its own vector?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import perf_counter_ns
from typing import Any, ClassVar

from pydantic import Field

from vectrial.experiments.base import Experiment, Target
from vectrial.model.context import Context, search_params
from vectrial.model.phase import Phase


class SelfSearch(Experiment):
    """Searches each of the first rows by its own vector.

    samples: number of rows.
    """

    name: ClassVar[str] = "self_search"
    title: ClassVar[str] = "Rows found by their own vectors"

    samples: int = Field(default=50, ge=1)

    def points(self, target: Target) -> list[dict[str, Any]]:
        return [{}]

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        search = context.store.searcher(1, search_params(context, point))
        dataset, found = context.dataset, 0
        started = perf_counter_ns()
        for row in range(self.samples):
            ids, _ = search(dataset.vectors[row])
            found += int(ids[0]) == int(dataset.ids[row])
        ended = perf_counter_ns()
        phase = Phase("search", started, ended)
        phase.metrics |= {
            "count": self.samples,
            "qps": self.samples / ((ended - started) / 1e9),
            "recall_mean": found / self.samples,
        }
        yield phase
