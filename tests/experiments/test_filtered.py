"""Search under filters: the condition that hits the share wanted, and who is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from experiment_worlds import ROWS, dataset, run, target, without, world
from numpy.typing import NDArray

from vectrial.experiments.common.predicates import condition
from vectrial.experiments.filtered.experiment import Filtered
from vectrial.experiments.registry import all_metrics
from vectrial.model.capabilities import Capabilities, Index, NoParams, Params, Returning
from vectrial.model.context import Data
from vectrial.model.errors import Unsupported
from vectrial.model.filters import Eq, Filter, Range, evaluate
from vectrial.model.lane import Lane
from vectrial.model.metric import Metric
from vectrial.model.phase import State
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.model.store import Hits, Searcher, Store
from vectrial.stores.common.arrow import batch_of
from vectrial.stores.memory import MemoryStore
from vectrial.stores.sqlite.store import SqliteStore
from vectrial.workload.searchers import searchers

FLAT = Index("flat", NoParams())
NUMBER = Field("number", FieldType.INT)


def data(*fields: Field, own: frozenset[str] | None = None) -> Data:
    return Data(Schema(4, Metric.L2, fields), 100, own)


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.5, 0.9])
def test_the_condition_keeps_nearly_the_share_wanted(share: float) -> None:
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "coarse": rng.integers(0, 3, 5_000),
            "fine": rng.permutation(5_000),
            "word": ["same"] * 5_000,
        }
    )
    where = condition(table, share)
    assert isinstance(where, Range)
    assert where.field == "fine"
    assert evaluate(where, table).mean() == pytest.approx(share, rel=0.01)


def test_without_numbers_it_is_equality_with_the_nearest_value() -> None:
    table = pa.table({"word": ["a"] * 70 + ["b"] * 25 + ["c"] * 4 + [None]})
    assert condition(table, 0.5) == Eq("word", "a")
    assert condition(table, 0.2) == Eq("word", "b")
    assert condition(table, 0.001) == Eq("word", "c")


def test_missing_values_and_ties_count_as_what_they_are() -> None:
    table = pa.table({"n": pa.array([None] * 50 + [1] * 30 + [2] * 20, pa.int64())})
    assert condition(table, 0.29) == Range("n", lte=1)
    assert condition(table, 0.5) == Range("n", lte=2)


def refused(experiment: Filtered, given: Data, lane: Lane = Lane.EMBEDDED) -> list[str]:
    reasons = []
    asked = experiment.resolve(given)
    for point in asked.points(target(MemoryStore, FLAT, 100)):
        try:
            asked.check_point(target(MemoryStore, FLAT, given, lane), point)
        except Unsupported as error:
            reasons.append(f"{point.get('selectivity')}: {error}")
    return reasons


def test_own_filters_are_used_where_there_are_some() -> None:
    shares, columns = (0.1,), ("column",)
    experiment = Filtered(selectivities=shares, predicates=columns)
    plain, own = data(NUMBER), data(NUMBER, own=frozenset({"eq"}))
    for given, wanted in ((plain, [1.0, 0.1]), (own, [1.0, 0.1, "own"])):
        points = experiment.resolve(given).points(target(MemoryStore, FLAT, 100))
        assert [point["selectivity"] for point in points] == wanted
        assert refused(experiment, given) == []
    (reason,) = refused(Filtered(selectivities=shares, predicates=columns, own=True), plain)
    assert reason.startswith("own: the dataset has no filter")


def test_without_metadata_the_columns_are_those_that_are_made() -> None:
    assert refused(Filtered(), data()) == []
    assert Filtered().resolve(data()).predicates == ("independent", "aligned", "opposed")
    reasons = refused(Filtered(selectivities=(0.1, 0.5), predicates=("column",)), data())
    assert len(reasons) == 2
    assert all("no metadata" in reason for reason in reasons)


def test_each_arm_that_needs_a_store_of_its_own_is_a_point() -> None:
    def arms(experiment: Filtered, kind: type[Store], given: Data) -> list[str]:
        points = experiment.resolve(given).points(target(kind, FLAT, 100))
        return [p.get("payload_index", "loaded") for p in points if p.get("selectivity") != 1.0]

    given = data(NUMBER, own=frozenset({"eq"}))
    only_own = Filtered(predicates=(), own=True)
    assert arms(only_own, SqliteStore, given) == ["loaded", "off"]
    assert arms(only_own, MemoryStore, given) == ["loaded"]
    assert arms(Filtered(selectivities=(0.1,)), SqliteStore, data()) == ["on", "off"]
    assert arms(Filtered(selectivities=(0.1,)), MemoryStore, data()) == ["fixed"]
    off = Filtered(selectivities=(0.1,), payload_index=("off",))
    assert arms(off, SqliteStore, given) == ["off"]


def test_who_filters_by_no_column_without_an_index_is_asked_with_indexes_alone() -> None:
    needing = without(SqliteStore, filters_need_index=True)
    given = data(NUMBER, own=frozenset({"eq"}))
    for experiment in (Filtered(selectivities=(0.1,)), Filtered(predicates=(), own=True)):
        settled = experiment.resolve(given)
        able, reasons = [], []
        for point in settled.points(target(needing, FLAT, 100)):
            try:
                settled.check_point(target(needing, FLAT, given), point)
            except Unsupported as error:
                reasons.append((point.get("payload_index"), str(error)))
            else:
                able.append(point)
        assert reasons == [("off", f"{needing.name} filters by no column without an index")]
        assert able[-1].get("payload_index", "on") == "on"
        assert any("own" in point.values() for point in able)


def test_what_is_settled_for_a_point_defines_its_trial() -> None:
    few, many = Filtered(selectivities=(0.1,)), Filtered(selectivities=(0.1, 0.2))
    assert few.settings() != many.settings()


def test_made_predicates_are_refused_where_there_are_no_integers_or_no_such_operator() -> None:
    made = Filtered(predicates=("aligned",), depths=(2,))
    wordless = without(MemoryStore, field_types=frozenset({FieldType.STRING}))
    unjoined = without(MemoryStore, filters=frozenset({"range", "and"}))
    for kind, reason in ((wordless, "no integers"), (unjoined, "'or'")):
        point = made.points(target(kind, FLAT, 100))[-1]
        with pytest.raises(Unsupported, match=reason):
            made.check_point(target(kind, FLAT, data()), point)


def test_own_filters_that_a_store_lacks_words_for_are_no_matter_of_the_arm_with_indexes() -> None:
    wordless = without(SqliteStore, filters=frozenset({"range", "eq"}))
    given = data(NUMBER, own=frozenset({"eq", "is_null"}))
    asked = Filtered(selectivities=(0.1,)).resolve(given)
    refusals = {}
    for point in asked.points(target(wordless, FLAT, 100)):
        try:
            asked.check_point(target(wordless, FLAT, given), point)
        except Unsupported as error:
            refusals[point.get("selectivity", point.get("payload_index"))] = str(error)
    assert set(refusals) == {"own", "off"}
    assert all("'is_null'" in reason for reason in refusals.values())


SHORT: dict[str, Any] = {"min_s": 0.0, "warmup_queries": 0, "pivots": 4}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "arm"), [(MemoryStore, "fixed"), (SqliteStore, "off")])
def test_an_exact_store_finds_everything_under_every_filter(
    tmp_path: Path, kind: type[Store], arm: str
) -> None:
    asked = Filtered(
        predicates=("independent", "aligned", "opposed"), selectivities=(0.005, 0.3),
        depths=(1, 3), **SHORT,
    )  # fmt: skip
    phases = run(asked, kind, tmp_path)
    assert len(phases) == 1 + 3 * 2 + 3 * 2
    for phase in phases:
        assert phase.valid, phase.reason
        assert phase.params["payload_index"] == arm
        assert phase.metrics["recall_mean"] == 1.0
        assert phase.metrics["incomplete_results"] == 0
        assert set(phase.metrics) <= set(all_metrics())
    under = [phase for phase in phases if phase.params["predicate"] != "none"]
    for phase in under:
        kept = {0.005: 3, 0.3: 180, 0.1: 60}[phase.params["selectivity"]]
        for name in ("selectivity", "selectivity_min", "selectivity_max"):
            assert phase.metrics[name] == pytest.approx(kept / ROWS)
        assert phase.metrics["violations"] == 0
        assert phase.metrics["checked_answers"] == 30
    mean = {
        name: np.mean([
            phase.metrics["filter_correlation"]
            for phase in under if phase.params["predicate"] == name
        ])
        for name in ("aligned", "independent", "opposed")
    }  # fmt: skip
    assert mean["aligned"] > 0.3 > abs(mean["independent"])
    assert mean["opposed"] < -0.3


class _Careless(MemoryStore):
    """Forgets the filter of every search."""

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        return super().searcher(k, params, None)


def test_answers_that_do_not_hold_make_a_phase_invalid(tmp_path: Path) -> None:
    asked = Filtered(predicates=("opposed",), selectivities=(0.1,), checks=10, **SHORT)
    bare, under = run(asked, _Careless, tmp_path)
    assert bare.valid
    assert under.metrics["violations"] == under.metrics["checked_answers"] == 10
    assert not under.valid
    assert "the filter does not keep" in str(under.reason)


def test_where_nothing_is_looked_at_nothing_is_said_of_violations(tmp_path: Path) -> None:
    asked = Filtered(predicates=("opposed",), selectivities=(0.1,), checks=0, **SHORT)
    _, under = run(asked, _Careless, tmp_path)
    assert under.metrics["checked_answers"] == 0
    assert under.metrics["violations"] is None
    assert "no answer was looked at" in under.missing["violations"]


class _Fragile(MemoryStore):
    """Breaks at the 100th search under a filter."""

    asked = 0

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        whole = super().searcher(k, params, where)

        def search(vector: NDArray[np.float32]) -> Hits:
            self.asked += where is not None
            if self.asked == 100:
                raise RuntimeError("broken")
            return whole(vector)

        return search


@pytest.mark.slow
def test_a_store_that_breaks_when_looked_at_fails_a_phase_and_not_the_trial(
    tmp_path: Path,
) -> None:
    asked = Filtered(predicates=("opposed",), selectivities=(0.1, 0.2), checks=30, **SHORT)
    *_, first, second = run(asked, _Fragile, tmp_path)  # 30 timed and 30 looked at in each
    assert first.valid
    assert "broken" in str(second.reason)
    assert second.metrics["checked_answers"] == 9


class _Few(MemoryStore):
    """Finds two rows at most."""

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        whole = super().searcher(k, params, where)

        def search(vector: NDArray[np.float32]) -> Hits:
            ids, scores = whole(vector)
            return ids[:2], scores[:2]

        return search


def test_few_answers_are_counted_against_what_there_is(tmp_path: Path) -> None:
    asked = Filtered(predicates=("independent",), selectivities=(0.0001, 0.01), **SHORT)
    _, some, one = run(asked, _Few, tmp_path)
    assert (some.metrics["incomplete_results"], some.metrics["recall_mean"]) == (30, 2 / 6)
    assert (one.metrics["incomplete_results"], one.metrics["recall_mean"]) == (0, 1.0)


def test_the_datasets_own_filters_are_asked_with_indexes_and_without(tmp_path: Path) -> None:
    asked = Filtered(predicates=("column",), selectivities=(0.2,), own=True, **SHORT)
    rows = dataset()
    table = pa.table({"number": np.arange(ROWS) % 7})
    own = tuple(Eq("number", at % 7) for at in range(len(rows.queries)))
    index = Index("flat", SqliteStore.capabilities.indexes["flat"].build())
    *_, point = asked.points(target(SqliteStore, index, ROWS))
    with world(SqliteStore, "flat", tmp_path, State.LOADED) as context:
        there = replace(context, dataset=replace(rows, metadata=table, filters=own))
        bare, column, mine = asked.run(there, point)
    assert [p.params["predicate"] for p in (bare, column, mine)] == ["none", "column", "own"]
    assert {p.params["payload_index"] for p in (bare, column, mine)} == {"off"}
    assert mine.metrics["recall_mean"] == 1.0
    assert mine.metrics["selectivity"] == pytest.approx(1 / 7, rel=0.02)


def test_a_store_without_filters_is_refused_whole() -> None:
    class Unfiltered(MemoryStore):
        capabilities = Capabilities(
            scores=MemoryStore.capabilities.scores, indexes=MemoryStore.capabilities.indexes
        )

    with pytest.raises(Unsupported, match="no search under a filter"):
        Filtered().points(target(Unfiltered, FLAT, 10))


def test_each_query_has_the_searcher_of_its_filter(tmp_path: Path) -> None:
    schema = Schema(2, Metric.L2, (NUMBER,))
    store = MemoryStore(tmp_path)
    store.create(schema, FLAT)
    vectors = np.arange(12, dtype=np.float32).reshape(6, 2)
    store.insert(batch_of(schema, np.arange(6), vectors, {"number": [0, 1, 0, 1, 0, 1]}))
    where = [Eq("number", 1), Eq("number", 0), Eq("number", 1)]
    made = searchers(store, Returning.IDS, 6, NoParams(), where)
    assert not callable(made)
    assert made[0] is made[2]
    found = [sorted(search(vectors[0])[0].tolist()) for search in made]
    assert found == [[1, 3, 5], [0, 2, 4], [1, 3, 5]]
