"""Plans for a time, and what of them is measured on a machine of another speed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectrial.model.errors import UserError
from vectrial.model.metric import Metric
from vectrial.plan.estimate import TimeLimit
from vectrial.plan.model import DatasetShape
from vectrial.plan.plan import make_plan
from vectrial.plan.quick import Contender, QuickOptions, QuickPlan, quick_plan
from vectrial.stores import registry

NAMES = ("hnswlib", "usearch", "faiss", "lancedb", "chroma", "weaviate", "sqlite", "memory")
INDEX = {"sqlite": "flat", "memory": "flat"}
ALL = [Contender(registry.load(name), INDEX.get(name, "hnsw")) for name in NAMES]

stores = st.lists(st.sampled_from(ALL), min_size=1, max_size=8, unique=True)
shapes = st.builds(
    DatasetShape,
    st.just("d"),
    st.integers(10, 3_000_000),
    st.integers(2, 2048),
    st.just(Metric.COSINE),
)
asked = st.builds(QuickOptions, st.floats(20, 7200), st.booleans())


def rows_of(plan: QuickPlan, shape: DatasetShape) -> int:
    return plan.suite.datasets[0].rows or shape.rows


def planned(
    contenders: list[Contender], shape: DatasetShape, options: QuickOptions
) -> QuickPlan | None:
    """The plan; None where the time is too short for one store."""
    try:
        return quick_plan(contenders, shape, options)
    except UserError:
        return None


@given(stores, shapes, asked)
def test_what_is_planned_fits_the_time_and_is_a_suite(
    contenders: list[Contender], shape: DatasetShape, options: QuickOptions
) -> None:
    plan = planned(contenders, shape, options)
    if plan is None:
        assert options.budget_s < 120, "two minutes are enough for one store"
        return
    assert plan.estimate_s <= options.budget_s
    names = [one.store.name for one in contenders]
    assert [ref.store for ref in plan.suite.stores] + list(plan.left_out) == names
    assert 10 <= rows_of(plan, shape) <= shape.rows
    search = plan.suite.experiments[-1].parameters()
    assert search["max_s"] == 2 * search["min_s"], "half as long again is planned for"
    made = make_plan(
        plan.suite,
        where="quick",
        load_store=registry.load,
        shape_of=lambda ref: replace(shape, rows=ref.rows or shape.rows),
        known_stores=NAMES,
    )
    assert not made.refusals
    assert made.estimate_s <= plan.estimate_s
    assert len(made.jobs) == len(plan.suite.stores) * plan.suite.repeats


@given(stores, shapes, asked)
def test_rows_shrink_before_repeats_do(
    contenders: list[Contender], shape: DatasetShape, options: QuickOptions
) -> None:
    plan = planned(contenders, shape, options)
    if plan is not None and plan.suite.repeats < 3:
        few = planned(contenders, shape, replace(options, rows=min(shape.rows, 1000)))
        assert few is not None
        assert few.suite.repeats < 3, "not even the fewest rows leave time for three"


@given(stores, shapes)
def test_more_time_never_measures_less(contenders: list[Contender], shape: DatasetShape) -> None:
    few, many = (
        quick_plan(contenders, shape, QuickOptions(budget_s)) for budget_s in (7200, 14400)
    )
    assert len(many.suite.stores) >= len(few.suite.stores)
    assert min(few.suite.repeats, many.suite.repeats) >= 3


def test_three_minutes_are_three_repeats_of_several_stores() -> None:
    shape = DatasetShape("words", 50_000, 50, Metric.COSINE)
    plan = quick_plan(ALL, shape, QuickOptions(180))
    assert plan.suite.repeats >= 3
    assert plan.suite.order == "turns"
    assert len(plan.suite.stores) >= 4
    assert rows_of(plan, shape) >= 10_000
    assert plan.left_out, "what does not fit is told"
    graph = {"m": 16, "ef_construction": 128}
    built = {ref.store: ref.params for ref in plan.suite.stores}
    assert built["hnswlib"] == built["usearch"] == graph


def test_named_stores_all_stay_while_one_repeat_of_each_fits() -> None:
    shape = DatasetShape("words", 50_000, 50, Metric.COSINE)
    few = quick_plan(ALL[:5], shape, QuickOptions(70, named=True))
    assert (len(few.suite.stores), few.suite.repeats, few.left_out) == (5, 1, ())


def test_rows_that_are_asked_for_are_measured_or_refused() -> None:
    shape = DatasetShape("words", 2_000_000, 50, Metric.COSINE)
    plan = quick_plan(ALL[:1], shape, QuickOptions(180, rows=100_000))
    assert plan.suite.datasets[0].rows == 100_000
    with pytest.raises(UserError, match="too short for hnswlib on 1,000,000 rows"):
        quick_plan(ALL[:1], shape, QuickOptions(180, rows=1_000_000))


def test_the_time_that_a_refusal_names_is_enough() -> None:
    shape = DatasetShape("words", 50_000, 50, Metric.COSINE)
    with pytest.raises(UserError) as refused:
        quick_plan(ALL[:1], shape, QuickOptions(3))
    minutes = float(refused.value.remedy.split()[1])
    assert quick_plan(ALL[:1], shape, QuickOptions(minutes * 60)).suite.repeats >= 1


# -- a machine of another speed ------------------------------------------------------------------


def measured(limit: TimeLimit, seconds: dict[str, float]) -> tuple[Counter[str], float]:
    """The repeats of each store, and when the last job ends, if each takes so long."""
    at, done, left = 0.0, Counter[str](), []
    for repeat in range(1, limit.repeats + 1):
        for label in list(seconds)[:: 1 if repeat % 2 else -1]:
            if limit.fits(label, repeat, at):
                limit.record_duration(label, seconds[label])
                at += seconds[label]
                done[label] += 1
            else:
                left.append(label)
    for label in left:
        if limit.fits_spare_time(label, at):
            limit.record_duration(label, seconds[label])
            at += seconds[label]
            done[label] += 1
    return done, at


durations = st.lists(st.floats(0.5, 60), min_size=1, max_size=10).map(
    lambda found: {f"store {i}": seconds for i, seconds in enumerate(found)}
)


@given(durations, st.floats(10, 600), st.booleans())
def test_a_time_is_exceeded_by_less_than_one_job(
    seconds: dict[str, float], limit_s: float, each_once: bool
) -> None:
    done, at = measured(TimeLimit(limit_s, 3, each_once), seconds)
    assert at <= limit_s + max(seconds.values())
    assert done, "the first begins in any case"
    # How long a store takes is unknown until it has ended: it is expected to take as long as one
    # of those before it, at most the longest.
    if 3 * (sum(seconds.values()) + max(seconds.values())) <= limit_s:
        assert set(done.values()) == {3}
        assert done.keys() == seconds.keys()


def test_a_store_of_unknown_time_does_not_take_the_repeats_of_those_before_it() -> None:
    seconds = {"a": 4.0, "slow": 21.0, "quick": 1.0}
    assert measured(TimeLimit(78.0, 3), seconds)[0] == {"a": 3, "slow": 3}
    assert measured(TimeLimit(87.0, 3), seconds)[0] == {"a": 3, "slow": 3, "quick": 3}


def test_a_slow_store_does_not_take_the_repeats_of_the_others() -> None:
    seconds = {"a": 10.0, "slow": 60.0, "b": 10.0, "c": 10.0}
    done, at = measured(TimeLimit(176.0, 3), seconds)
    assert done == {"a": 3, "b": 3, "c": 3, "slow": 1}
    assert at <= 176


def test_fewer_stores_on_a_slow_machine_and_those_completely() -> None:
    done, _ = measured(TimeLimit(176.0, 3), {f"store {i}": 20.0 for i in range(6)})
    assert sorted(done.values()) == [1, 1, 3, 3], "and two more once, in what is left"


def test_what_is_left_of_the_time_measures_all_of_them_again() -> None:
    limit = TimeLimit(100.0, 3)
    at, done = 0.0, Counter[int]()
    for repeat in range(1, 8):
        for label in "ab":
            if limit.fits(label, repeat, at):
                limit.record_duration(label, 10.0)
                at += 10.0
                done[repeat] += 1
    assert done == {1: 2, 2: 2, 3: 2, 4: 2, 5: 2}, "each repeat has both, or none"


def test_a_long_time_has_more_repeats() -> None:
    shape = DatasetShape("words", 10_000, 50, Metric.COSINE)
    few, many = (quick_plan(ALL[:2], shape, QuickOptions(s)).suite for s in (120, 600))
    assert 3 <= few.repeats < many.repeats <= 10


def test_named_stores_are_all_measured_once_before_any_is_again() -> None:
    limit = TimeLimit(130.0, 3, each_once=True)
    done, _ = measured(limit, {f"store {i}": 20.0 for i in range(6)})
    assert list(done.values()) == [1] * 6
