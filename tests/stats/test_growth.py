"""Laws of growth, and forecasts of what larger sizes bring."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectrial.stats.growth import COVERAGE, Forecast, Law, SizedValues, growth, widening_factor
from vectrial.stats.turns import Prior

SIZES = [10_000, 20_000, 50_000, 100_000, 200_000]
TRUE = {
    Law.LOG: lambda n: 3.0 + 2.0 * math.log(n),
    Law.LINEAR: lambda n: 40.0 + 0.003 * n,
    Law.N_LOG_N: lambda n: 0.5 + 1e-5 * n * math.log(n),
    Law.POWER: lambda n: 0.02 * n**0.7,
}
#: Any positive values at the sizes, up to a factor of a million apart.
VALUES = st.lists(st.floats(1e-3, 1e3), min_size=len(SIZES), max_size=len(SIZES))
#: Values that a least-squares fit tells apart from rounding.
TAME = st.lists(st.floats(1.0, 50.0), min_size=len(SIZES), max_size=len(SIZES))
LAWS = st.lists(st.sampled_from(list(Law)), min_size=1, max_size=4, unique=True)


@pytest.mark.parametrize("law", Law)
def test_a_law_without_noise_is_found_and_goes_on(law: Law) -> None:
    found = growth(SizedValues(SIZES, [TRUE[law](n) for n in SIZES]), list(Law))
    assert found.law is law
    forecast = found.forecast(10 * SIZES[-1])
    assert forecast.value == pytest.approx(TRUE[law](forecast.rows), rel=0.01)
    assert forecast.contains(TRUE[law](forecast.rows))


@given(VALUES, LAWS, st.floats(2, 1e12))
def test_an_interval_encloses_its_forecast(
    values: list[float], laws: list[Law], rows: float
) -> None:
    forecast = growth(SizedValues(SIZES, values), laws).forecast(rows)
    assert 0 <= forecast.low <= forecast.value <= forecast.high
    assert forecast.contains(forecast.value)


@given(TAME, st.sampled_from(list(Law)), st.floats(1e-3, 1e3))
def test_the_unit_does_not_matter(values: list[float], law: Law, factor: float) -> None:
    one = growth(SizedValues(SIZES, values), [law]).forecast(1e6)
    other = growth(SizedValues(SIZES, [value * factor for value in values]), [law]).forecast(1e6)
    assert other.value == pytest.approx(one.value * factor, rel=1e-4)
    # The end of an interval of absurd width is beyond what a float holds.
    if one.high < 1e100:
        assert other.high == pytest.approx(one.high * factor, rel=1e-3)


def test_an_interval_widens_with_distance_and_with_disagreement() -> None:
    noisy = [
        TRUE[Law.LINEAR](n) * factor
        for n, factor in zip(SIZES, (1.1, 0.9, 1, 1.1, 0.9), strict=True)
    ]
    one = growth(SizedValues(SIZES, noisy), [Law.LINEAR, Law.POWER])
    widths = [f.high / f.low for f in (one.forecast(n) for n in (3e5, 3e6, 3e7, 3e8))]
    assert widths == sorted(widths)
    alone = growth(SizedValues(SIZES, noisy), [Law.LINEAR]).forecast(3e8)
    assert widths[-1] > alone.high / alone.low


def test_what_falls_or_stays_does_not_fall_further() -> None:
    falling = growth(SizedValues(SIZES, [5.0, 4.9, 5.1, 4.9, 4.8]), [Law.LINEAR, Law.LOG])
    assert falling.forecast(1e9).value == pytest.approx(4.9, rel=0.05)


def test_noisy_series_lie_in_their_intervals_as_often_as_is_said() -> None:
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(150):
        noise = rng.lognormal(0, 0.05, len(SIZES) + 1)
        values = [TRUE[Law.LINEAR](n) * e for n, e in zip(SIZES, noise, strict=False)]
        forecast = growth(SizedValues(SIZES, values), [Law.LINEAR, Law.N_LOG_N]).forecast(1e6)
        inside += forecast.contains(TRUE[Law.LINEAR](1e6) * noise[-1])
    assert inside / 150 >= COVERAGE - 0.05


def test_a_larger_size_that_was_forecast_badly_widens_the_others() -> None:
    forecast = Forecast(1, 100.0, 80.0, 125.0)
    assert forecast.error(125.0) == pytest.approx(1.0)
    assert forecast.error(64.0) == pytest.approx(2.0)
    assert widening_factor([]) == 1.0
    assert widening_factor([(forecast, 101.0)] * 5) == 1.0
    assert widening_factor([(forecast, 64.0)] * 5) == pytest.approx(2.0)
    found = growth(SizedValues(SIZES, [TRUE[Law.LINEAR](n) for n in SIZES]), [Law.LINEAR])
    plain, wider = found.forecast(1e6), found.forecast(1e6, 2.0)
    assert wider.value == plain.value
    assert wider.high / wider.value == pytest.approx((plain.high / plain.value) ** 2)


def test_checks_forecast_each_size_from_those_below_it() -> None:
    values = [TRUE[Law.LINEAR](n) for n in SIZES]
    checks = growth(SizedValues(SIZES, values), [Law.LINEAR]).checks
    assert [(f.rows, measured) for f, measured in checks] == list(
        zip(SIZES[3:], values[3:], strict=True)
    )


@pytest.mark.parametrize(
    ("rows", "values", "laws", "why"),
    [
        (SIZES[:3], [1.0] * 3, [Law.LOG], "4 sizes"),
        (SIZES, [1.0] * 4, [Law.LOG], "sizes"),
        (SIZES, [1.0] * 5, [], "laws"),
        (SIZES[::-1], [1.0] * 5, [Law.LOG], "ascending"),
        ([1, *SIZES], [1.0] * 6, [Law.LOG], "two or more"),
        (SIZES, [1.0] * 4 + [0.0], [Law.LOG], "positive"),
        (SIZES, [1.0] * 4 + [math.inf], [Law.LOG], "positive"),
    ],
)
def test_what_cannot_be_fitted_is_refused(
    rows: list[int], values: list[float], laws: list[Law], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        growth(SizedValues(rows, values), laws)


def test_a_disturbed_size_pulls_the_law_less() -> None:
    values = [TRUE[Law.LOG](n) for n in SIZES]
    values[1] *= 3
    trusted = growth(SizedValues(SIZES, values), [Law.LOG]).forecast(1e6)
    doubted = growth(SizedValues(SIZES, values, trust=[1, 0.05, 1, 1, 1]), [Law.LOG]).forecast(1e6)
    right = TRUE[Law.LOG](1e6)
    assert abs(doubted.value - right) < abs(trusted.value - right) / 3
    assert doubted.high / doubted.low < trusted.high / trusted.low
    assert doubted.contains(right)


def test_a_constant_below_the_floor_does_not_bend_the_slope() -> None:
    values = [max(20.0, 0.001 * n) for n in SIZES]  # 20 for the two smallest sizes
    bent = growth(SizedValues(SIZES, values), [Law.LINEAR]).forecast(1e6)
    straight = growth(SizedValues(SIZES, values, floor=200.0), [Law.LINEAR]).forecast(1e6)
    assert straight.value == pytest.approx(1000, rel=0.03)
    assert abs(straight.value - 1000) < abs(bent.value - 1000) / 2


def test_a_tail_follows_the_median_where_it_is_noise_itself() -> None:
    medians = [TRUE[Law.LOG](n) for n in SIZES]
    tails = [3 * m * f for m, f in zip(medians, (1, 1.5, 0.7, 1.4, 0.8), strict=True)]
    alone = growth(SizedValues(SIZES, tails), [Law.LOG, Law.POWER]).forecast(1e6)
    beside = growth(SizedValues(SIZES, tails, medians=medians), [Law.LOG, Law.POWER]).forecast(1e6)
    assert beside.value == pytest.approx(3 * TRUE[Law.LOG](1e6), rel=0.1)
    assert beside.high / beside.low < alone.high / alone.low
    assert beside.contains(3 * TRUE[Law.LOG](1e6))


def test_what_others_say_of_the_noise_narrows_an_interval_or_widens_it() -> None:
    values = [TRUE[Law.LINEAR](n) * f for n, f in zip(SIZES, (1.1, 0.9, 1, 1.1, 0.9), strict=True)]
    found = growth(SizedValues(SIZES, values), [Law.LINEAR])
    widths = [
        f.high / f.low
        for f in (found.moderated(Prior(v, 20)).forecast(1e6) for v in (1e-4, 1e-2, 1e-1))
    ]
    assert widths == sorted(widths)
    assert widths[0] < found.forecast(1e6).high / found.forecast(1e6).low < widths[2]


@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        (SizedValues(SIZES, [1.0] * 5, trust=[1, 1]), "as many"),
        (SizedValues(SIZES, [1.0] * 5, trust=[0, 1, 1, 1, 1]), "trust"),
        (SizedValues(SIZES, [1.0] * 5, floor=-1), "floor"),
        (SizedValues(SIZES, [1.0] * 5, medians=[1, 1, 0, 1, 1]), "positive"),
    ],
)
def test_what_says_nothing_beside_the_values_is_refused(sizes: SizedValues, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        growth(sizes, [Law.LOG])
