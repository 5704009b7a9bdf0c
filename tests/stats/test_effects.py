"""Effects, families of them, intervals and disturbance, on figures whose truth is known."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from later import Later

from vectrial._engine import Recorder, histogram_merge, histogram_quantiles
from vectrial.stats import intervals
from vectrial.stats.curves import CurveReading, read_at, read_within
from vectrial.stats.disturbance import drift, is_first_outlier, outliers
from vectrial.stats.effects import (
    ALPHA,
    holm,
    pace_corrected_effect,
    paired_effect,
    unpaired_effect,
)
from vectrial.stats.intervals import median_interval, pooled_interval

stats = Later("scipy.stats")

POSITIVE = st.floats(1e-3, 1e6)
GROUP = st.lists(POSITIVE, min_size=3, max_size=10)


@given(GROUP, GROUP)
def test_welch_is_scipys(a: list[float], b: list[float]) -> None:
    found = unpaired_effect(a, b)
    theirs = stats.ttest_ind(np.log(b), np.log(a), equal_var=False)
    if found.se > 1e-9:
        assert found.p == pytest.approx(float(theirs.pvalue), rel=1e-6, abs=1e-12)
        assert found.df == pytest.approx(float(theirs.df), rel=1e-6)
    mirrored = unpaired_effect(b, a)
    assert mirrored.ratio == pytest.approx(1 / found.ratio)
    assert mirrored.p == pytest.approx(found.p)
    assert found.low <= found.ratio <= found.high


@given(st.lists(st.tuples(POSITIVE, POSITIVE), min_size=3, max_size=10))
def test_pairs_are_scipys(pairs: list[tuple[float, float]]) -> None:
    a, b = (list(side) for side in zip(*pairs, strict=True))
    found = paired_effect(a, b)
    theirs = stats.ttest_rel(np.log(b), np.log(a))
    if found.se > 1e-9:
        assert found.p == pytest.approx(float(theirs.pvalue), rel=1e-6, abs=1e-12)


@given(st.lists(st.tuples(*[POSITIVE] * 4), min_size=3, max_size=10))
@example([(1.0, 1.0, 1.0, 1000.0)] * 2 + [(100.0, 1.0, 1.02, 1000.0)])
@example([(1.0, 1.0, 1.0, 1000.0)] * 2 + [(100.0, 1.0, 1.1, 1000.0)])
def test_effects_at_equal_pace_are_those_of_a_linear_model(
    repeats: list[tuple[float, float, float, float]],
) -> None:
    a, b, pace_a, pace_b = (list(side) for side in zip(*repeats, strict=True))
    found = pace_corrected_effect(a, b, pace_a, pace_b)
    n = len(a)
    design = np.column_stack([np.ones(2 * n), np.repeat([0.0, 1.0], n), np.log([*pace_a, *pace_b])])
    y = np.log([*a, *b])
    fitted = np.linalg.lstsq(design, y, rcond=None)[0]
    # A ratio is one of a float.
    if np.linalg.cond(design) > 1e4 or found.se < 1e-6 or abs(fitted[1]) > 690:
        return
    variance = float(np.sum((y - design @ fitted) ** 2)) / (2 * n - 3)
    assert math.log(found.ratio) == pytest.approx(fitted[1], rel=1e-4, abs=1e-6)
    se = math.sqrt(variance * np.linalg.inv(design.T @ design)[1, 1])
    assert found.se == pytest.approx(se, rel=1e-4, abs=1e-8)
    assert (found.df, found.at_pace) == (2 * n - 3, True)


@pytest.mark.parametrize("drift", [0.0, 0.1, 0.3])
def test_a_machine_that_changed_between_the_sides_alarms_nobody_at_equal_pace(
    drift: float,
) -> None:
    rng = np.random.default_rng(5)
    alarms = found = 0
    for _ in range(1000):
        pace = np.exp(rng.normal([[0.0], [drift]], 0.08, (2, 5)))
        noise = rng.normal(0, 0.015, (2, 5))
        same = np.exp(0.8 * np.log(pace) + noise)
        sides = [list(side) for side in same], [list(side) for side in pace]
        alarms += pace_corrected_effect(*sides[0], *sides[1]).p <= ALPHA
        slower = [same[0].tolist(), (same[1] * 1.1).tolist()]
        found += pace_corrected_effect(*slower, *sides[1]).p <= ALPHA
    # Binomial: 0.05 ± 0.021 at three standard deviations.
    assert alarms / 1000 <= 0.071
    # The further the machine has changed, the less is claimed.
    assert found / 1000 >= (0.99 if drift < 0.2 else 0.5)


@pytest.mark.parametrize("slower", ["a", "b"])
def test_paces_that_hardly_differ_within_a_side_and_far_between_lead_to_a_ratio_of_a_float(
    slower: str,
) -> None:
    sides = ([1.0, 1.0, 0.5], [1.0, 1.0, 0.99999]), ([1.0] * 3, [0.5] * 3)
    (a, pace_a), (b, pace_b) = sides if slower == "a" else sides[::-1]
    found = pace_corrected_effect(a, b, pace_a, pace_b)
    assert 0 < found.low <= found.ratio <= found.high < math.inf
    assert (found.ratio > 1) == (slower == "a")


def test_one_pace_all_along_takes_nothing_away() -> None:
    a, b = [1.0, 1.1, 0.9], [1.2, 1.3, 1.1]
    assert pace_corrected_effect(a, b, [2.0] * 3, [2.0] * 3) == unpaired_effect(a, b)
    with pytest.raises(ValueError, match="needs a pace"):
        pace_corrected_effect(a, b, [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0])


@pytest.mark.parametrize("values", [[1.0, 2.0], [1.0, 2.0, 0.0], [1.0, 2.0, math.inf]])
def test_what_has_no_ratio_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match=r"repeats|ratio"):
        unpaired_effect(values, [1.0, 2.0, 3.0])


@pytest.mark.parametrize("n", [3, 5, 10])
@pytest.mark.parametrize("spread", [1.0, 3.0])
def test_the_interval_of_a_ratio_holds_it_as_often_as_it_says(n: int, spread: float) -> None:
    rng = np.random.default_rng(n)
    held = 0
    for _ in range(1000):
        a, b = rng.lognormal(0, 0.03, n), rng.lognormal(math.log(1.1), 0.03 * spread, n)
        found = unpaired_effect(list(a), list(b))
        held += found.low <= 1.1 <= found.high
    # Binomial: 0.95 ± 0.021 at three standard deviations.
    assert held / 1000 >= 0.925


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, 5, 10])
@pytest.mark.parametrize("shared", [0.0, 0.8])
def test_a_family_where_nothing_differs_is_alarmed_at_most_as_often_as_it_says(
    n: int, shared: float
) -> None:
    """Twelve cells whose noise is heavy-tailed, and partly that of the whole repeat."""
    rng = np.random.default_rng(17)

    def side() -> np.ndarray:
        noise = [rng.standard_t(4, (n, m)) * 0.03 for m in (1, 12)]
        return np.exp(math.sqrt(shared) * noise[0] + math.sqrt(1 - shared) * noise[1])

    alarms = 0
    for _ in range(400):
        a, b = side(), side()
        p = [unpaired_effect(list(a[:, i]), list(b[:, i])).p for i in range(12)]
        alarms += min(holm(p)) <= ALPHA
    assert alarms / 400 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)


def test_a_minimum_effect_is_found_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    base = unpaired_effect([0.97, 0.99, 1.0, 1.01, 1.03], [0.97, 0.99, 1.0, 1.01, 1.03])
    spread = base.se * math.sqrt(5 / 2)
    least = base.minimum(ALPHA)
    found = 0
    for _ in range(1000):
        a, b = rng.lognormal(0, spread, 5), rng.lognormal(math.log1p(least), spread, 5)
        found += unpaired_effect(list(a), list(b)).p <= ALPHA
    assert found / 1000 == pytest.approx(0.8, abs=0.05)
    assert base.minimum(ALPHA / 20) > least
    assert base.minimum(ALPHA, power=0.95) > least


def test_a_minimum_effect_shows_as_the_threshold_as_often_as_it_says() -> None:
    """A change of just the threshold is seen below it half of the time, however small the error."""
    rng = np.random.default_rng(6)
    base = unpaired_effect([0.99, 0.995, 1.0, 1.005, 1.01], [0.99, 0.995, 1.0, 1.005, 1.01])
    spread = base.se * math.sqrt(5 / 2)

    def found(change: float) -> float:
        shown = 0
        for _ in range(1000):
            a, b = rng.lognormal(0, spread, 5), rng.lognormal(math.log1p(change), spread, 5)
            effect = unpaired_effect(list(a), list(b))
            shown += effect.p <= ALPHA and effect.ratio - 1 >= 0.05
        return shown / 1000

    assert found(base.minimum(ALPHA, threshold=0.05)) == pytest.approx(0.8, abs=0.05)
    assert found(0.05) == pytest.approx(0.5, abs=0.05)
    assert base.minimum(ALPHA, threshold=0.001) == base.minimum(ALPHA)
    assert unpaired_effect([1.0] * 3, [1.0] * 3).minimum(threshold=0.05) == 0.05


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_keeps_order_and_lies_between_single_and_bonferroni(p: list[float]) -> None:
    adjusted = holm(p)
    for one, after in zip(p, adjusted, strict=True):
        assert one <= after <= min(1.0, one * len(p)) + 1e-12
    for i in range(len(p)):
        for j in range(len(p)):
            if p[i] < p[j]:
                assert adjusted[i] <= adjusted[j]
    least = min(range(len(p)), key=lambda i: p[i])
    assert adjusted[least] == pytest.approx(min(1.0, p[least] * len(p)))


def test_holm_on_the_example_of_a_textbook() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


CURVE = st.lists(st.tuples(st.floats(0, 1), POSITIVE), min_size=1, max_size=12)


@given(CURVE, st.floats(0, 1), st.booleans())
def test_nothing_is_extrapolated(
    points: list[tuple[float, float]], recall: float, higher: bool
) -> None:
    read = read_at(points, recall, higher_is_better=higher)
    found = None if read is None else read.value
    recalls = [r for r, _ in points]
    if not min(recalls) <= recall <= max(recalls):
        assert found is None
    if found is not None:
        values = [v for _, v in points]
        assert min(values) * (1 - 1e-9) <= found <= max(values) * (1 + 1e-9)


@given(CURVE, st.floats(0, 1), st.floats(0, 1))
def test_every_recall_between_two_points_has_a_value_and_less_of_it_is_no_worse(
    points: list[tuple[float, float]], one: float, other: float
) -> None:
    recalls = [r for r, _ in points]
    found = {recall: read_within(points, recall) for recall in (one, other, min(recalls))}
    for recall, read in found.items():
        assert (read is not None) == (min(recalls) <= recall <= max(recalls))
        exact = read_at(points, recall)
        assert exact is None or read == exact
    known = [found[recall] for recall in sorted(found)]
    known = [read.value for read in known if read is not None]
    assert all(more <= less * (1 + 1e-9) for less, more in pairwise(known))


def test_below_what_beats_all_points_of_less_recall_its_value_holds() -> None:
    points = [(0.88, 3.1), (0.93, 3.0), (0.99, 9.0)]
    assert read_at(points, 0.9, higher_is_better=False) is None
    assert read_within(points, 0.9, higher_is_better=False) == CurveReading(3.0, (1,))
    assert read_within(points, 0.87, higher_is_better=False) is None


def test_latency_is_interpolated_along_its_own_front() -> None:
    points = [(0.5, 100.0), (0.75, 900.0), (0.9, 400.0)]  # odds of 1, 3 and 9
    read = read_at(points, 0.75, higher_is_better=False)
    assert read is not None
    assert read.value == pytest.approx(200.0)
    assert read.points == (0, 2), "the point that another beats is on no line"


@pytest.mark.parametrize(("miss", "hit"), [(16, 64), (20, 512), (50, 60)])
def test_a_coarse_grid_of_settings_reads_as_a_fine_one(miss: int, hit: int) -> None:
    """Graphs have such curves: the odds of a hit, and the time, are powers of ef_search."""

    def recall(ef: float) -> float:
        odds = 0.05 * ef**1.5
        return odds / (1 + odds)

    needed = (0.95 / 0.05 / 0.05) ** (1 / 1.5)
    assert miss < needed < hit
    read = read_at([(recall(ef), 1e6 / ef) for ef in (miss, hit)], 0.95)
    assert read is not None
    assert read.value == pytest.approx(1e6 / needed, rel=1e-6)


def test_a_recall_of_one_has_odds_all_the_same() -> None:
    read = read_at([(0.9, 1000.0), (1.0, 10.0)], 0.95)
    assert read is not None
    assert 10 < read.value < 1000
    both = read_at([(0.99999, 1000.0), (1.0, 10.0)], 0.999995)
    assert both is not None
    assert both.value == pytest.approx(100.0, rel=0.01)


@given(CURVE, st.floats(0, 1), st.booleans())
def test_what_is_read_off_lies_between_the_points_that_are_named(
    points: list[tuple[float, float]], recall: float, higher: bool
) -> None:
    read = read_within(points, recall, higher_is_better=higher)
    if read is None:
        return
    recalls, values = zip(*(points[i] for i in read.points), strict=True)
    if len(read.points) == 1:
        assert read.value == values[0]
        assert recalls[0] >= recall
    else:
        assert recalls[0] < recall < recalls[1]
        assert min(values) * (1 - 1e-9) <= read.value <= max(values) * (1 + 1e-9)


@pytest.mark.slow
def test_medians_of_repeats_are_held_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(11)
    held = 0
    for _ in range(300):
        low, high = median_interval(list(rng.lognormal(0, 0.2, 30)))
        held += low <= 1.0 <= high
    assert 0.85 <= held / 300 <= 0.99


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=40))
def test_an_interval_is_of_the_medians_of_resamples(values: list[float]) -> None:
    sample = np.sort(values)
    medians = np.median(sample[intervals._draws(len(sample))], axis=1)
    assert median_interval(values) == pytest.approx(intervals._middle_bounds(medians, 0.95))


def test_a_pooled_percentile_is_that_of_all_requests_and_resamples_whole_repeats() -> None:
    rng = np.random.default_rng(2)
    parts = []
    for scale in (1.0, 1.0, 1.1, 1.3):
        recorder = Recorder()
        recorder.start(0)
        for ns in rng.lognormal(11, 0.4, 2000) * scale:
            recorder.operation(0, 0, int(ns))
        parts.append(recorder.histogram("latency"))
    value, low, high = pooled_interval(parts, 0.99)
    assert value == histogram_quantiles(histogram_merge(parts), [0.99])[0]
    assert low < value < high
    single = [histogram_quantiles(part, [0.99])[0] for part in parts]
    assert min(single) <= low <= high <= max(single)
    assert pooled_interval(parts[:1], 0.99)[1:] == (single[0], single[0])


def test_an_outlier_is_found_and_a_fluke_among_equal_values_is_none() -> None:
    assert outliers([1.0, 1.01, 0.99, 1.0, 2.0]) == [4]
    assert outliers([1.0, 1.0, 1.0, 1.0, 1.05]) == []
    assert outliers([1.0, 1.0, 9.0]) == [], "three values say too little"
    assert is_first_outlier([2.0, 1.0, 1.01, 0.99, 1.0])
    assert not is_first_outlier([1.0, 1.0, 1.01, 0.99, 2.0])


def test_a_steady_rise_is_a_drift_and_noise_is_none() -> None:
    assert drift([1.0, 1.05, 1.1, 1.15, 1.2]) == pytest.approx(0.2, abs=0.02)
    assert drift([1.0, 1.2, 0.9, 1.1, 1.0]) is None
    assert drift([1.0, 1.001, 1.002, 1.003, 1.004]) is None, "too small for a word"
    assert drift([5.0] * 5) is None
    rng = np.random.default_rng(4)
    false = sum(drift(list(rng.lognormal(0, 0.2, 8))) is not None for _ in range(300))
    assert false / 300 <= 0.08
