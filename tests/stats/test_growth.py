"""Laws of growth, and forecasts of what larger sizes bring."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectrial.stats.growth import COVERAGE, Forecast, Law, growth, widening_factor

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
    found = growth(SIZES, [TRUE[law](n) for n in SIZES], list(Law))
    assert found.law is law
    forecast = found.forecast(10 * SIZES[-1])
    assert forecast.value == pytest.approx(TRUE[law](forecast.rows), rel=0.01)
    assert forecast.contains(TRUE[law](forecast.rows))


@given(VALUES, LAWS, st.floats(2, 1e12))
def test_an_interval_encloses_its_forecast(
    values: list[float], laws: list[Law], rows: float
) -> None:
    forecast = growth(SIZES, values, laws).forecast(rows)
    assert 0 <= forecast.low <= forecast.value <= forecast.high
    assert forecast.contains(forecast.value)


@given(TAME, st.sampled_from(list(Law)), st.floats(1e-3, 1e3))
def test_the_unit_does_not_matter(values: list[float], law: Law, factor: float) -> None:
    one = growth(SIZES, values, [law]).forecast(1e6)
    other = growth(SIZES, [value * factor for value in values], [law]).forecast(1e6)
    assert other.value == pytest.approx(one.value * factor, rel=1e-4)
    # The end of an interval of absurd width is beyond what a float holds.
    if one.high < 1e100:
        assert other.high == pytest.approx(one.high * factor, rel=1e-3)


def test_an_interval_widens_with_distance_and_with_disagreement() -> None:
    noisy = [
        TRUE[Law.LINEAR](n) * factor
        for n, factor in zip(SIZES, (1.1, 0.9, 1, 1.1, 0.9), strict=True)
    ]
    one = growth(SIZES, noisy, [Law.LINEAR, Law.POWER])
    widths = [f.high / f.low for f in (one.forecast(n) for n in (3e5, 3e6, 3e7, 3e8))]
    assert widths == sorted(widths)
    alone = growth(SIZES, noisy, [Law.LINEAR]).forecast(3e8)
    assert widths[-1] > alone.high / alone.low


def test_what_falls_or_stays_does_not_fall_further() -> None:
    falling = growth(SIZES, [5.0, 4.9, 5.1, 4.9, 4.8], [Law.LINEAR, Law.LOG])
    assert falling.forecast(1e9).value == pytest.approx(4.9, rel=0.05)


def test_noisy_series_lie_in_their_intervals_as_often_as_is_said() -> None:
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(150):
        noise = rng.lognormal(0, 0.05, len(SIZES) + 1)
        values = [TRUE[Law.LINEAR](n) * e for n, e in zip(SIZES, noise, strict=False)]
        forecast = growth(SIZES, values, [Law.LINEAR, Law.N_LOG_N]).forecast(1e6)
        inside += forecast.contains(TRUE[Law.LINEAR](1e6) * noise[-1])
    assert inside / 150 >= COVERAGE - 0.05


def test_a_larger_size_that_was_forecast_badly_widens_the_others() -> None:
    forecast = Forecast(1, 100.0, 80.0, 125.0)
    assert forecast.error(125.0) == pytest.approx(1.0)
    assert forecast.error(64.0) == pytest.approx(2.0)
    assert widening_factor([]) == 1.0
    assert widening_factor([(forecast, 101.0)] * 5) == 1.0
    assert widening_factor([(forecast, 64.0)] * 5) == pytest.approx(2.0)
    found = growth(SIZES, [TRUE[Law.LINEAR](n) for n in SIZES], [Law.LINEAR])
    plain, wider = found.forecast(1e6), found.forecast(1e6, 2.0)
    assert wider.value == plain.value
    assert wider.high / wider.value == pytest.approx((plain.high / plain.value) ** 2)


def test_checks_forecast_each_size_from_those_below_it() -> None:
    values = [TRUE[Law.LINEAR](n) for n in SIZES]
    checks = growth(SIZES, values, [Law.LINEAR]).checks
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
        growth(rows, values, laws)
