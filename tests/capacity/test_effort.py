"""How much search effort a capacity is found at, on a simulated store of known recall and speed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from vectrial.experiments.capacity import experiment as capacity
from vectrial.experiments.capacity.experiment import Capacity
from vectrial.model.capabilities import Index, IndexKind, NoParams, Params
from vectrial.model.context import Context
from vectrial.model.lane import Lane
from vectrial.model.phase import Phase
from vectrial.model.placement import Certificate, ClientLimits, Placement
from vectrial.model.workload import ClosedLoop, Load, OpenLoop

RECALL = 0.95
#: The least value that gives the recall to one caller.
LEAST = 19
CAPACITY = 1000.0


class Effort(Params):
    ef_search: int = 40


class Store:
    capabilities: ClassVar[Any] = SimpleNamespace(
        indexes={"hnsw": IndexKind(search=Effort, high_recall_params={"ef_search": 512})}
    )


class Simulated:
    """Answers up to `CAPACITY` arrivals a second in time.

    beyond: what becomes of more. lost: of the recall, where requests do not come one by one.
    unsent: requests for which there was no room to the end, where some had to wait for it.
    """

    def __init__(self, beyond: str = "late", lost: float = 0.0, unsent: int | None = None) -> None:
        self.beyond, self.lost, self.unsent = beyond, lost, unsent
        self.loads: list[OpenLoop] = []

    def __call__(self, context: Context, point: Mapping[str, Any], load: Load, **how: Any) -> Phase:
        recall = 1 - 1 / (point["ef_search"] + 1)
        phase = Phase(how["name"], 0, 1, {"ef_search": point["ef_search"]})
        if isinstance(load, ClosedLoop):
            self._fill_metrics(phase, recall, qps=CAPACITY / 5, p99_us=900.0)
            return phase
        self.loads.append(load)
        phase.params = {**phase.params, "loop": "open", "rate": load.rate}
        if load.rate <= CAPACITY:
            self._fill_metrics(phase, recall - self.lost, qps=load.rate, p99_us=5_000.0)
            if self.unsent is not None:
                phase.metrics["unsent"] = self.unsent
                phase.invalidate("no room for 3 requests beside the 64 in flight: they had to wait")
        elif self.beyond == "silent":
            phase.metrics = {"count": 0, "errors": 500, "latency_p99": None, "recall_mean": None}
            phase.invalidate("all 500 operations failed")
        elif self.beyond == "short":
            self._fill_metrics(phase, 0.5 * recall, qps=CAPACITY, p99_us=5_000.0)
            phase.invalidate("overloaded: 40% of the arrivals were left over")
        else:
            self._fill_metrics(phase, 0.99 * RECALL, qps=CAPACITY, p99_us=90_000.0)
        return phase

    def _fill_metrics(self, phase: Phase, recall: float, qps: float, p99_us: float) -> None:
        phase.metrics = {
            "count": 1000, "errors": 0, "qps": qps, "recall_mean": recall,
            "latency_p50": p99_us / 3, "latency_p99": p99_us,
        }  # fmt: skip


def found(
    monkeypatch: pytest.MonkeyPatch, store: Simulated, queries: int = 100, **asked: Any
) -> list[Phase]:
    """Every phase of a trial."""
    monkeypatch.setattr(capacity.dispatch, "search", store)
    context = Context(
        store=Store(),  # type: ignore[arg-type]
        lane=Lane.EMBEDDED,
        certificate=Certificate(ClientLimits(), Placement(), {}),
        dataset=SimpleNamespace(queries=np.zeros((queries, 2))),  # type: ignore[arg-type]
        schema=None,  # type: ignore[arg-type]
        index=Index("hnsw", NoParams()),
        k=10,
        seed=1,
        batch_rows=1,
        progress=lambda *_: None,
        show=lambda _: None,
        truth=lambda *_: None,  # type: ignore[arg-type, return-value]
        data_dirs=(),
        resident_bytes=lambda: None,
        baseline_rss_bytes=None,
        second_store=lambda _: nullcontext(),  # type: ignore[arg-type, return-value]
    )
    return list(Capacity(recall=RECALL, **asked).run(context, {}))


@pytest.mark.parametrize("beyond", ["late", "short", "silent"])
def test_a_rate_beyond_the_store_does_not_turn_the_effort_up(
    monkeypatch: pytest.MonkeyPatch, beyond: str
) -> None:
    *looks, answer = found(monkeypatch, Simulated(beyond))
    assert answer.name == "capacity"
    assert answer.metrics["recall_parameter_value"] == LEAST
    sustained = answer.metrics["sustained_qps"]
    assert sustained is not None
    assert CAPACITY / 1.05 <= sustained <= CAPACITY
    assert {look.params["ef_search"] for look in looks if "step" in look.params} == {LEAST}


def test_where_answers_under_load_lack_nothing_but_recall_it_is_turned_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    *looks, answer = found(monkeypatch, Simulated(lost=0.004))
    assert answer.metrics["recall_parameter_value"] == 21
    assert answer.valid
    tried = [look for look in looks if "step" in look.params]
    assert (tried[0].params["ef_search"], tried[0].params["why"]) == (LEAST, "recall 0.9460")
    assert (tried[1].params["rate"], tried[1].params["ef_search"]) == (tried[0].params["rate"], 20)
    recall = answer.metrics["recall_mean"]
    assert recall is not None
    assert recall >= RECALL


def test_requests_that_waited_for_room_count_by_their_latency_and_unsent_ones_as_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    *_, answer = found(monkeypatch, Simulated(unsent=0))
    sustained = answer.metrics["sustained_qps"]
    assert sustained is not None
    assert CAPACITY / 1.05 <= sustained <= CAPACITY
    *looks, answer = found(monkeypatch, Simulated(unsent=50))
    assert answer.metrics["sustained_qps"] is None
    assert looks[-1].params["why"] == "errors 4.76%"


@pytest.mark.parametrize(("queries", "arrivals"), [(50, 300), (700, 700), (20_000, 1000)])
def test_a_look_asks_every_query_where_time_allows(
    monkeypatch: pytest.MonkeyPatch, queries: int, arrivals: int
) -> None:
    store = Simulated()
    found(monkeypatch, store, queries, most_rate=800.0)
    slow = [load for load in store.loads if load.rate * 4 < arrivals]
    assert bool(slow) == (queries > 300), "the first rate is 100/s"
    for load in store.loads:
        assert load.rate * load.duration_s >= arrivals * (1 - 1e-9)
    store = Simulated()
    found(monkeypatch, store, queries, most_rate=5.0)
    assert min(load.duration_s for load in store.loads) == 40.0, "but ten times as long at most"
