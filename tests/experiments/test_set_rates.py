"""Searching while rows change: what is certain of a live set, and operations at set rates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from experiment_worlds import (
    DIM,
    ROWS,
    Immortal,
    K,
    Refusing,
    by_name,
    dataset,
    run,
    target,
    without,
)  # fmt: skip
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from vectrial.experiments.common import mixed_open_loop
from vectrial.experiments.common.live_set import Span, TimedAnswer, Version, judge
from vectrial.experiments.common.mixed_open_loop import _blame_client
from vectrial.experiments.mixed import Mixed
from vectrial.experiments.registry import all_metrics
from vectrial.model.capabilities import Index, IndexKind, NoParams, Params
from vectrial.model.context import Data
from vectrial.model.errors import StoreError, Unsupported
from vectrial.model.filters import Filter
from vectrial.model.metric import Metric, distances
from vectrial.model.phase import Phase
from vectrial.model.schema import Schema
from vectrial.model.store import Searcher
from vectrial.stores.memory import MemoryStore
from vectrial.workload.streams import StreamsOutcome, send_by_clients

FLAT = Index("flat", NoParams())
SPANS = st.tuples(st.integers(0, 30), st.integers(1, 8)).map(lambda s: (s[0], s[0] + s[1]))


def rated(**more: object) -> Mixed:
    rates = {"search": 100.0, "insert": 40.0, "update": 40.0, "delete": 40.0}
    return Mixed.model_validate({"rates": rates, "duration_s": 1.0, **more})


# -- the rule ----------------------------------------------------------------------------------


def exact(versions: list[Version], when: dict[int, int], at: int, query: int) -> NDArray[np.int64]:
    """Ids of the k nearest at an instant, each write having happened at its own."""
    rows = dataset()
    touched = {one.id for one in versions}
    alive = [(int(i), v) for i, v in zip(rows.ids, rows.vectors, strict=True) if i not in touched]
    for one in versions:
        born = when[id(one)] if one.born[0] >= 0 else -1
        died = when[-id(one)] if one.died[1] < 1 << 61 else 1 << 62
        if born <= at < died:
            alive.append((one.id, one.vector))
    far = distances(rows.queries[query], np.stack([v for _, v in alive]), rows.metric)
    return np.array([alive[i][0] for i in np.argsort(far, kind="stable")[:K]])


@settings(max_examples=60)
@given(st.lists(SPANS, min_size=1, max_size=30), SPANS, st.data())
def test_an_answer_that_was_right_at_some_instant_is_not_held_against_a_store(
    spans: list[Span], search: Span, data: st.DataObject
) -> None:
    """Whatever instants within their spans the writes and the search took effect at: the answer
    that is exact then has full recall at most, and names no dead row."""
    rows, query = dataset(), data.draw(st.integers(0, 29))
    near = np.argsort(distances(rows.queries[query], rows.vectors, rows.metric))
    versions: list[Version] = []
    when: dict[int, int] = {}
    for at, span in enumerate(spans):
        instant = data.draw(st.integers(*span))
        row = int(near[at])
        id_, here = int(rows.ids[row]), rows.queries[query] + np.float32(1e-3 * at)
        kind = data.draw(st.sampled_from(["insert", "update", "delete"]))
        if kind != "insert":
            old = Version(id_, rows.vectors[row], died=span)
            when[-id(old)] = instant
            versions.append(old)
        if kind != "delete":
            new = Version(10**6 + at if kind == "insert" else id_, here, span)
            when[id(new)] = instant
            versions.append(new)
    found = exact(versions, when, data.draw(st.integers(*search)), query)
    verdict = judge(rows, K, versions, [TimedAnswer(query, search, found)])
    assert verdict.dead == 0
    assert verdict.most == [1.0]
    assert verdict.least[0] <= 1.0


def test_rows_certainly_dead_are_wrong_and_rows_on_their_way_are_not() -> None:
    rows = dataset()
    near = np.argsort(distances(rows.queries[0], rows.vectors, rows.metric))
    nearest, vector = int(rows.ids[near[0]]), rows.vectors[near[0]]
    before, with_it = rows.ids[near[:K]], rows.ids[near[1 : K + 1]]
    gone = [Version(nearest, vector, died=(10, 20))]
    for span, found, dead, most, least in (
        ((0, 9), before, 0, 1.0, 1.0),  # it is there
        ((0, 9), with_it, 0, 0.9, 0.9),  # it is there, and was not found
        ((15, 25), before, 0, 1.0, 0.9),  # it is on its way
        ((15, 25), with_it, 0, 1.0, 0.9),
        ((21, 30), before, 1, 0.9, 0.9),  # it is dead
        ((21, 30), with_it, 0, 1.0, 1.0),
    ):
        verdict = judge(rows, K, gone, [TimedAnswer(0, span, found)])
        assert (verdict.dead, verdict.most, verdict.least) == (dead, [most], [least]), span
    assert judge(rows, K, [], [TimedAnswer(0, (0, 1), np.array([-7]))]).dead == 1


def test_no_more_than_the_first_k_are_judged() -> None:
    """Whoever answers with more would find more."""
    rows = dataset()
    near = np.argsort(distances(rows.queries[0], rows.vectors, rows.metric))
    far_first = rows.ids[np.concatenate([near[-K:], near[:K]])]
    verdict = judge(rows, K, [], [TimedAnswer(0, (0, 1), far_first)])
    assert (verdict.most, verdict.least, verdict.dead) == ([0.0], [0.0], 0)
    dead_last = np.append(rows.ids[near[:K]], -7)
    verdict = judge(rows, K, [], [TimedAnswer(0, (0, 1), dead_last)])
    assert (verdict.most, verdict.dead) == ([1.0], 1)


# -- at set rates ------------------------------------------------------------------------------


def test_every_kind_is_offered_and_recorded_apart(tmp_path: Path) -> None:
    phases = run(rated(), MemoryStore, tmp_path)
    assert [p.name for p in phases] == ["search", "insert", "update", "delete"]
    assert {name for p in phases for name in (*p.metrics, *p.missing)} <= all_metrics().keys()
    for phase in phases:
        offered = 100 if phase.name == "search" else 40
        assert phase.params["loop"] == "open"
        assert phase.params["rate"] == offered
        assert phase.metrics["offered_rate"] == pytest.approx(offered, rel=0.6)
        assert phase.metrics["unsent"] + phase.metrics["count"] == round(
            phase.metrics["offered_rate"]
        )
        assert "schedule_lag_p99" in phase.metrics


def quick(**more: object) -> Mixed:
    """So few requests that a machine which stands still for a while makes up for them."""
    rates = {"search": 72.0, "insert": 48.0, "update": 48.0, "delete": 48.0}
    fixed = {"rates": rates, "duration_s": 0.5, "arrivals": "constant"}
    return Mixed.model_validate({**fixed, **more})


@pytest.fixture
def every_request_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of these clients none leaves out what it could only send after the end: recall is judged
    where all writes were sent."""

    def patient(*asked: Any, **more: Any) -> StreamsOutcome:
        *rest, _ = asked
        return send_by_clients(*rest, 600.0, **more)

    monkeypatch.setattr(mixed_open_loop, "send_by_clients", patient)


@pytest.mark.slow
@pytest.mark.usefixtures("every_request_sent")
def test_one_caller_of_an_exact_store_is_judged_exactly(tmp_path: Path) -> None:
    search = run(quick(), MemoryStore, tmp_path)[0]
    assert search.metrics["recall_mean"] == search.metrics["recall_mean_lower"] == 1
    assert search.metrics["uncertain_rows"] == search.metrics["stale_results"] == 0


class Stale(MemoryStore):
    """Its searches are of the rows that it had when it was built."""

    _kept: Searcher | None = None

    def searcher(self, k: int, params: Params, where: object = None) -> Searcher:
        if self._kept is None:
            first = super().searcher(k, params)
            every = [first(query)[0].copy() for query in dataset().queries]
            held = {
                query.tobytes(): ids for query, ids in zip(dataset().queries, every, strict=True)
            }
            self._kept = lambda vector: (held[vector.tobytes()], np.zeros(K, np.float32))
        return self._kept


@pytest.mark.slow
@pytest.mark.usefixtures("every_request_sent")
@pytest.mark.parametrize("kind", [Immortal, Stale])
def test_rows_that_were_deleted_and_are_found_are_wrong(
    kind: type[MemoryStore], tmp_path: Path
) -> None:
    rates = {"search": 180.0, "delete": 360.0}
    search = run(quick(rates=rates), kind, tmp_path)[0]
    assert (search.metrics["stale_results"] or 0) > 0
    assert not search.valid
    assert "no longer" in (search.reason or "")


class Patience(Params):
    seen: bool = False


class Bounded(MemoryStore):
    """Its searches see what was acknowledged before them when they are asked to."""

    capabilities = replace(
        MemoryStore.capabilities,
        indexes={
            "flat": IndexKind(exact=True, search=Patience, strong_consistency_params={"seen": True})
        },
    )
    asked: ClassVar[set[bool]] = set()

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        assert isinstance(params, Patience)
        self.asked.add(params.seen)
        return super().searcher(k, NoParams(), where)


@pytest.mark.parametrize("how", [{"operations": 30}, {"rates": {"search": 9, "delete": 9}}])
@pytest.mark.parametrize(("said", "wanted"), [({}, True), ({"seen": False}, False)])
def test_searches_are_to_see_what_was_acknowledged_unless_the_suite_says(
    how: dict[str, object], said: dict[str, bool], wanted: bool, tmp_path: Path
) -> None:
    Bounded.asked.clear()
    asked = Mixed.model_validate({"duration_s": 0.5, "search": said, **how})
    search = run(asked, Bounded, tmp_path)[0]
    assert Bounded.asked == {wanted}
    assert search.params["seen"] is wanted


@pytest.mark.slow
@pytest.mark.usefixtures("every_request_sent")
def test_recall_is_not_judged_where_writes_failed(tmp_path: Path) -> None:
    phases = by_name(run(quick(), Refusing, tmp_path))
    assert phases["insert"].errors[0][0] == "RuntimeError"
    assert phases["search"].metrics.get("recall_mean") is None
    assert "writes failed" in phases["search"].missing["recall_mean"]


class Unsearchable(MemoryStore):
    """Cannot be searched again at once after it was written to."""

    refusals: ClassVar[int] = 0

    def delete(self, ids: NDArray[np.int64]) -> None:
        super().delete(ids)
        Unsearchable.refusals = 2

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        if Unsearchable.refusals:
            Unsearchable.refusals -= 1
            raise RuntimeError("not now")
        return super().searcher(k, params, where)


@pytest.mark.slow
@pytest.mark.usefixtures("every_request_sent")
def test_a_searcher_that_cannot_be_made_is_an_error_of_its_search(tmp_path: Path) -> None:
    rates = {"search": 180.0, "delete": 12.0}
    phases = by_name(run(quick(rates=rates), Unsearchable, tmp_path))
    ((kind, count, said),) = phases["search"].errors
    assert (kind, said[0]) == ("RuntimeError", "not now")
    assert 0 < count < (phases["search"].metrics["count"] or 0)
    assert phases["delete"].errors == []


def test_a_python_client_at_its_limit_is_named_beside_what_does_not_count() -> None:
    for share, valid, named in ((0.97, False, True), (0.5, False, False)):
        phase = Phase("search", 0, 1, metrics={"client_cpu_share": share}, valid=valid)
        phase.reason = "overloaded: 900/s are not sustained"
        _blame_client(phase, 0.8)
        assert ("client-bound: the Python client used 97%" in (phase.reason or "")) is named


def test_what_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="rates are of search"):
        Mixed.model_validate({"rates": {"search": 10}})
    with pytest.raises(ValueError, match="reads"):
        Mixed.model_validate({"rates": {"search": 10, "reads": 1}})
    with pytest.raises(Unsupported, match="cannot delete"):
        rated().points(target(without(MemoryStore, delete=False), FLAT, ROWS))
    shape = Data(Schema(DIM, Metric.L2), ROWS)
    (point,) = rated(clients=4).points(target(MemoryStore, FLAT, ROWS))
    with pytest.raises(Unsupported, match="one client"):
        rated(clients=4).check_point(target(MemoryStore, FLAT, shape), point)
    with pytest.raises(StoreError, match="more than half"):
        run(rated(duration_s=30.0), MemoryStore, tmp_path)


@pytest.mark.slow
def test_a_kind_that_is_not_offered_has_no_phase(tmp_path: Path) -> None:
    phases: list[Phase] = run(quick(rates={"search": 60, "insert": 30}), MemoryStore, tmp_path)
    assert [p.name for p in phases] == ["search", "insert"]
    assert {p.params["mix"] for p in phases} == {"60/s search + 30/s insert"}
