"""Fronts, equal recall and intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vectrial.analysis.analysis import fastest_at
from vectrial.stats.curves import CurveReading, pareto, read_at
from vectrial.stats.intervals import RANGE_REPEATS, median_interval, spread_of

RECALL = st.sampled_from([0.0, 0.25, 0.5, 0.8, 0.9, 0.95, 0.99, 1.0]) | st.floats(0, 1)
QPS = st.sampled_from([1.0, 10.0, 100.0]) | st.floats(1e-3, 1e6)
POINTS = st.lists(st.tuples(RECALL, QPS), max_size=30)
VALUES = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=12)


def beats(a: tuple[float, float], b: tuple[float, float]) -> bool:
    return a[0] >= b[0] and a[1] >= b[1] and a != b


@given(POINTS)
def test_front_is_exactly_what_nothing_beats(points: list[tuple[float, float]]) -> None:
    front = pareto(points)
    unbeaten = {p for p in points if not any(beats(q, p) for q in points)}
    assert {points[i] for i in front} == unbeaten
    assert len(front) == len(unbeaten), "equal points are on the front once"
    chosen = [points[i] for i in front]
    assert chosen == sorted(chosen)
    assert [q for _, q in chosen] == sorted((q for _, q in chosen), reverse=True)


@given(POINTS, RECALL)
def test_fastest_has_the_recall_and_nothing_faster_has(
    points: list[tuple[float, float]], recall: float
) -> None:
    index = fastest_at(points, recall)
    able = [p for p in points if p[0] >= recall]
    if index is None:
        assert not able
    else:
        assert points[index] in able
        assert points[index][1] == max(q for _, q in able)


@given(POINTS, RECALL)
def test_equal_recall_stays_between_measured_points(
    points: list[tuple[float, float]], recall: float
) -> None:
    qps = read_at(points, recall)
    front = [points[i] for i in pareto(points)]
    inside = bool(front) and front[0][0] <= recall <= front[-1][0]
    assert (qps is not None) == inside
    if qps is not None:
        below = max(p for p in front if p[0] <= recall)
        above = min(p for p in front if p[0] >= recall)
        assert above[1] * (1 - 1e-9) <= qps.value <= below[1] * (1 + 1e-9)


@given(POINTS, RECALL, RECALL)
def test_more_recall_is_never_faster(points: list[tuple[float, float]], a: float, b: float) -> None:
    low, high = (read_at(points, r) for r in sorted((a, b)))
    if low is not None and high is not None:
        assert high.value <= low.value * (1 + 1e-9)


def test_equal_recall_is_straight_in_log_qps_and_log_odds() -> None:
    between = read_at([(0.9, 10.0), (0.5, 1000.0)], 0.75)  # odds of 9, 1 and 3
    assert between is not None
    assert between.value == pytest.approx(100.0)
    assert between.points == (1, 0), "of less recall first"
    assert read_at([(0.9, 1000.0), (1.0, 10.0)], 0.9) == CurveReading(1000.0, (0,))
    assert read_at([(0.9, 1000.0)], 0.9) == CurveReading(1000.0, (0,))
    assert read_at([(0.9, 1000.0)], 0.8) is None
    assert read_at([], 0.8) is None


@given(VALUES)
@example([5e-324])  # half of the least number above zero is zero
def test_interval_holds_the_median_and_lies_within_the_values(values: list[float]) -> None:
    low, high = median_interval(values)
    assert min(values) <= low <= np.median(values) <= high <= max(values)
    assert median_interval(values[::-1]) == (low, high), "seeded, and order does not matter"


def test_interval_of_equal_values_has_no_width() -> None:
    assert median_interval([3.5] * 7) == (3.5, 3.5)
    assert spread_of([3.5] * 3).low == spread_of([3.5] * 3).high == 3.5


def test_interval_of_few_is_their_range_and_of_many_is_narrower() -> None:
    for n in range(1, 15):
        values = [float(i) for i in range(n)]
        # A resample has the least value in its middle where more than half of it are that one.
        least = (
            sum(math.comb(n, of) * (n - 1) ** (n - of) for of in range(n // 2 + 1, n + 1)) / n**n
        )
        is_range = median_interval(values) == (values[0], values[-1])
        assert is_range == (least > 0.025) == (n <= RANGE_REPEATS), n
    values = list(np.random.default_rng(1).normal(100, 10, 101))
    low, high = median_interval(values)
    assert 96 < low < 100 < high < 104
    assert median_interval(values, confidence=0.5)[0] > low


def test_interval_covers_the_true_median_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(300):
        low, high = median_interval(list(rng.lognormal(0, 1, 15)))
        hits += low <= 1.0 <= high
    assert 0.90 <= hits / 300 <= 0.99


@pytest.mark.parametrize(
    ("values", "kind", "said"),
    [([5.0], "single", "1 repeat: no interval"), ([5.0, 7.0], "range", "2 repeats: no interval"),
     ([5.0, 7.0, 6.0], "range", "min–max of 3 repeats, all that a bootstrap 95 % interval says"),
     ([5.0, 9.0, 6.0, 7.0, 8.0], "range", "min–max of 5 repeats"),
     ([5.0, 9.0, 6.0, 7.0, 8.0, 4.0], "interval", "bootstrap 95 % interval of the median of 6")],
)  # fmt: skip
def test_spread_says_what_it_is(values: list[float], kind: str, said: str) -> None:
    spread = spread_of(values)
    assert (spread.n, spread.kind) == (len(values), kind)
    assert said in spread.meaning
    assert spread.low <= spread.median <= spread.high
    assert (spread.low, spread.high) == median_interval(values)


@pytest.mark.parametrize("values", [[], [math.nan], [1.0, math.inf]])
def test_spread_refuses_what_has_none(values: list[float]) -> None:
    with pytest.raises(ValueError, match="value"):
        spread_of(values)


def test_overlap() -> None:
    assert spread_of([1.0, 3.0]).overlaps(spread_of([3.0, 4.0]))
    assert not spread_of([1.0, 2.0]).overlaps(spread_of([3.0, 4.0]))
