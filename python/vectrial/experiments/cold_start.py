"""First answers of a server that was started again, with its files in memory and without."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from time import perf_counter_ns
from typing import Any, ClassVar

from pydantic import Field

from vectrial.document.sheet import LATENCY, SETTING, Sheet, metric
from vectrial.experiments.base import Experiment, Target, Values, search_points
from vectrial.model.context import Context, search_params
from vectrial.model.errors import StoreError, Unsupported
from vectrial.model.faults import Crash
from vectrial.model.inputs import Clients, PositiveSeconds
from vectrial.model.lane import Lane
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.phase import Phase, State
from vectrial.model.results_schema import MetricName
from vectrial.model.store import Store
from vectrial.model.workload import ClosedLoop
from vectrial.workload import dispatch
from vectrial.workload.python.timed import describe

#: Most seconds until a server that is ready finds a neighbour; and seconds between two searches.
_ANSWERS_S, _POLL_S = 120.0, 0.05
#: Largest ratio of a steady second's median latency to that of the warm server.
_STEADY = 1.1
_METRICS = (
    MetricName("restart_s", "s", "lower", "until the server was ready again", "Ready"),
    MetricName(
        "first_answer_s", "s", "lower", "from there until a search was answered", "First answer"
    ),
    MetricName(
        "steady_after_s", "s", "lower",
        "searches until a second's median was within 10 % of the warm one", "Steady after",
    ),
    MetricName(
        "p50_to_warm", "1", "lower", "median latency over that of the warm server", "p50 to warm"
    ),
)  # fmt: skip
_OWN = {one.name: one for one in _METRICS}

_SHEET = Sheet(
    "Cold starts",
    "warm: before. restart: the server was stopped and started again, its files still in the page "
    "cache. cold: likewise, with nothing of them in the page cache. Searches begin with the first "
    "answer, without a warm-up.",
    ("warm", "restart", "cold"),
    ((SETTING, "Setting"), ("phase", "When")),
    (
        metric(_OWN["restart_s"], "Ready", "Back after"),
        metric(_OWN["first_answer_s"], "First answer", "Back after"),
        metric(_OWN["steady_after_s"], "Steady", "Back after"),
        metric(_OWN["p50_to_warm"], "p50", "To warm"),
        metric("qps", "QPS"),
        *LATENCY,
        metric("recall_mean", "Recall"),
        metric("errors", "Errors"),
    ),
    sparse=True,
)


class ColdStart(Experiment):
    """Search a warm server, stop it, start it again and search at once. Then repeat this with a
    page cache that holds none of its files, which needs `data_disk` in [placement].

    search: search parameters; lists are grids. clients: closed-loop clients. duration_s: seconds of
    each phase.
    """

    name: ClassVar[str] = "cold_start"
    title: ClassVar[str] = "Cold starts"
    place: ClassVar[int] = 79
    metrics: ClassVar[tuple[MetricName, ...]] = _METRICS
    sheet: ClassVar[Sheet | None] = _SHEET
    starts_from: ClassVar[State] = State.LOADED
    mutates: ClassVar[bool] = True  # those after it would find another server
    axes: ClassVar[frozenset[str]] = frozenset({"search"})
    lanes: ClassVar[frozenset[Lane] | None] = frozenset({Lane.NATIVE, Lane.SDK})

    search: dict[str, Values] = Field(default_factory=dict)
    clients: Clients = 1
    duration_s: PositiveSeconds = 15.0

    def points(self, target: Target) -> list[OperatingPoint]:
        if target.store.kind != "server":
            raise Unsupported(f"{target.name} has no server to be started again")
        return search_points(target, self.search)

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        context.store.flush()
        warm = self._search_phase(context, point, "warm", 1000)
        yield warm
        for how in (Crash.RESTART, Crash.COLD):
            context.progress(0, 1, f"{how}: the server is started again")
            began = time.monotonic()
            try:
                if context.crash is None:
                    raise Unsupported("its server is not run here")
                address = context.crash(how)
            except Unsupported as error:
                now = perf_counter_ns()
                yield Phase(
                    str(how), now, now, dict(point), dict.fromkeys(_OWN),
                    dict.fromkeys(_OWN, str(error)),
                )  # fmt: skip
                continue
            ready = time.monotonic()
            store = type(context.store)(context.store.location, address)
            store.durability = context.store.durability
            try:
                _wait_for_answer(context, store, point)
                answered = time.monotonic()
                held = replace(context, store=store, address=address)
                phase = self._search_phase(held, point, str(how), 0)
                phase.metrics |= {"restart_s": ready - began, "first_answer_s": answered - ready}
                _add_ratios(phase, warm)
                yield phase
                phase.judge_pending()
            finally:
                store.close()

    def _search_phase(
        self, context: Context, point: Mapping[str, Any], name: str, warmup: int
    ) -> Phase:
        load = ClosedLoop(self.clients, self.duration_s, self.duration_s)
        return dispatch.search(context, point, load, warmup_queries=warmup, name=name)

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Time of three phases and two starts."""
        return 3 * self.duration_s + 20.0


def _wait_for_answer(context: Context, store: Store, point: Mapping[str, Any]) -> None:
    """Open the store, and search until an answer has neighbours.

    Raises:
        StoreError: there is no such answer in time.
    """
    ends, why = time.monotonic() + _ANSWERS_S, "no neighbour was found"
    while time.monotonic() < ends:
        try:
            store.open(context.schema, context.index)
            search = store.searcher(context.k, search_params(context, point))
            if len(search(context.dataset.queries[0])[0]):
                return
        except Exception as error:  # noqa: BLE001 - whatever a store raises is its answer
            why = ": ".join(describe(error))
        time.sleep(_POLL_S)
    raise StoreError(f"no answer within {_ANSWERS_S:g} s of its start: {why}")


def _add_ratios(phase: Phase, warm_phase: Phase) -> None:
    """Add to a phase how its figures compare with those of the warm server."""
    usual, own = warm_phase.metrics.get("latency_p50"), phase.metrics.get("latency_p50")
    if not usual or own is None:
        phase.missing |= dict.fromkeys(("steady_after_s", "p50_to_warm"), "no operation succeeded")
        return
    phase.metrics["p50_to_warm"] = own / usual
    window = phase.windows.get(phase.name, {})
    steady = next(
        (
            second
            for second, p50 in zip(window.get("second", ()), window.get("p50_us", ()), strict=True)
            if p50 is not None and p50 <= _STEADY * usual
        ),
        None,
    )
    if steady is None:
        phase.missing["steady_after_s"] = "no second of the phase was"
    else:
        phase.metrics["steady_after_s"] = float(steady)
