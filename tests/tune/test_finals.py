"""The last candidates of tuning, and the settings at which they are compared."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectrial.questions.builds import (
    Build,
    BuildMeasurement,
    Candidate,
    TriedBuild,
    TuneLimits,
    best_of,
)
from vectrial.questions.finals import finalists, settings_near

BUILD = Build("hnsw", {"m": 16})
LADDER = (10, 14, 20, 28, 40, 57, 80, 113, 160)


def recall_at(ef: float, needed: float, slope: float, wanted: float) -> float:
    """Of an index that needs `needed` for the recall `wanted`; log-odds are linear in log ef."""
    odds = math.log(wanted / (1 - wanted)) + slope * math.log(ef / needed)
    return 1 / (1 + math.exp(-odds))


def candidate(ef: int, recall: float, qps: float | None = None) -> Candidate:
    return Candidate(BUILD, {"ef_search": ef}, recall, qps or 1e5 / ef, 1e3, None)


@given(st.floats(11, 150), st.floats(0.5, 3), st.sampled_from([0.9, 0.95, 0.99]))
def test_the_settings_lie_around_the_one_that_is_needed(
    needed: float, slope: float, wanted: float
) -> None:
    made = [candidate(ef, recall_at(ef, needed, slope, wanted)) for ef in LADDER]
    values = settings_near(made, "ef_search", wanted)
    assert 2 <= len(values) <= 4
    assert values[0] <= needed <= values[-1]
    assert values == sorted(set(values))
    assert values[-1] <= math.ceil(1.061 * needed)
    if needed < 32:
        assert {math.floor(needed), math.ceil(needed)} & set(values), "no whole number is skipped"


def test_where_the_least_setting_reaches_the_recall_it_is_the_one() -> None:
    made = [candidate(ef, 0.99) for ef in LADDER]
    assert settings_near(made, "ef_search", 0.95) == [10]


def test_no_value_lies_beyond_those_that_the_parameter_takes() -> None:
    made = [candidate(800, 0.94), candidate(1000, 0.9501)]
    assert settings_near(made, "ef_search", 0.95)[-1] == 1000


def test_small_values_are_whole_numbers_that_differ() -> None:
    made = [candidate(2, 0.90), candidate(4, 0.97), candidate(8, 1.0)]
    assert settings_near(made, "ef_search", 0.95) == [2, 3, 4]


def test_a_build_is_no_worse_for_reaching_the_recall_below_a_setting() -> None:
    """Both builds need the same effort; only of one is a setting just above what it needs."""
    limits = TuneLimits(0.95)
    lucky = BuildMeasurement([candidate(10, 0.90, 8000), candidate(20, 0.9501, 4000)])
    unlucky = BuildMeasurement([candidate(14, 0.9499, 4004), candidate(28, 0.98, 2000)])
    measured = [best_of(one, limits)[0] for one in (lucky, unlucky)]
    assert [one and one.qps for one in measured] == [4000, 2000]
    values = [best_of(one, limits)[1] for one in (lucky, unlucky)]
    assert values[1] == pytest.approx(values[0], rel=0.01)


def test_other_limits_than_recall_bind_as_measured() -> None:
    """Nothing is read off towards settings that break another limit."""
    slow = Candidate(BUILD, {"ef_search": 20}, 0.96, 4000, 9e3, None)
    slower = Candidate(BUILD, {"ef_search": 40}, 0.98, 3000, 5e3, None)
    best, value, _ = best_of(BuildMeasurement([slow, slower]), TuneLimits(0.95, p99_us=6e3))
    assert best == slower
    assert value == 3000


def build(number: int, value: float, state: str = "complete") -> TriedBuild:
    best = candidate(20, 0.96, value) if value > 0 and state == "complete" else None
    return TriedBuild(number, Build("hnsw", {"m": number}), state, value, best)


def test_finalists_are_the_fastest_and_none_far_behind() -> None:
    tried = [
        build(1, 3000), build(2, 5000), build(3, 4900), build(4, 4000), build(5, 9000, "pruned"),
        build(6, -0.1), build(7, 5000, "again"),
    ]  # fmt: skip
    assert [one.number for one in finalists(tried, 4)] == [2, 3, 4, 1]
    assert [one.number for one in finalists(tried, 2)] == [2, 3]
    assert finalists(tried, 0) == []
    assert finalists([build(1, -0.2)], 3) == []
    tried[0] = build(1, 2900)
    assert [one.number for one in finalists(tried, 9)] == [2, 3, 4]
