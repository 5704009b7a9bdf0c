"""Ratios of stores that took turns, on figures whose truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from later import Later
from numpy.typing import NDArray

from vectrial._engine import Recorder
from vectrial.stats import student, turns
from vectrial.stats.effects import ALPHA
from vectrial.stats.turns import Estimate, Prior

stats, special = Later("scipy.stats"), Later("scipy.special")

#: Of a simulation: how far its share may be from the truth, in standard errors.
DEVIATIONS = 4


def autoregressive(rng: np.random.Generator, n: int, rho: float) -> NDArray[np.float64]:
    """Normal values with variance 1, each with this correlation to the one before."""
    noise = rng.standard_normal(n)
    values = np.empty(n)
    values[0] = noise[0]
    for at in range(1, n):
        values[at] = rho * values[at - 1] + math.sqrt(1 - rho**2) * noise[at]
    return values


@given(st.lists(st.floats(-10, 10), min_size=turns.LEAST_ROUNDS, max_size=200))
def test_the_mean_is_scipys_trimmed_mean(values: list[float]) -> None:
    found = turns.estimate(np.array(values))
    assert found.mean == pytest.approx(float(stats.trim_mean(values, turns.TRIM)), abs=1e-9)


def test_the_error_is_yuens_where_rounds_do_not_hang_together() -> None:
    rng = np.random.default_rng(1)
    ratios = []
    for _ in range(400):
        values = rng.standard_normal(100)
        theirs = stats.ttest_ind(values, np.zeros(100), equal_var=False, trim=turns.TRIM)
        yuen = abs(float(stats.trim_mean(values, turns.TRIM)) / float(theirs.statistic))
        ratios.append((turns.estimate(values).se / yuen) ** 2)
    assert np.mean(ratios) == pytest.approx(1.0, abs=DEVIATIONS * np.std(ratios) / 20 + 0.03)


@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_the_interval_of_rounds_holds_the_truth(rho: float) -> None:
    rng, tries, missed = np.random.default_rng(2), 1500, 0
    for _ in range(tries):
        # Slow rounds: a tail that a mean would follow.
        values = 0.1 * autoregressive(rng, 100, rho) + 0.3 * (rng.random(100) < 0.03)
        found = turns.measured_loads_effect([turns.estimate(values - 0.0)])
        missed += not found.low <= 1.0 <= found.high
    # The tail moves the trimmed mean by a little, and batches of five share a quarter of what
    # neighbours with a correlation of a half have in common.
    assert missed / tries < 0.05 + 0.065


def test_rounds_of_several_loads_are_joined_by_welch() -> None:
    loads = [Estimate(0.1, 0.01, 19, 100, 20), Estimate(0.2, 0.02, 9, 50, 10)]
    found = turns.measured_loads_effect(loads)
    assert math.log(found.ratio) == pytest.approx(0.15)
    assert found.se == pytest.approx(math.hypot(0.01, 0.02) / 2)
    assert 9 < found.df < 28


def test_one_load_is_joined_to_itself() -> None:
    found = turns.measured_loads_effect([Estimate(0.1, 0.01, 19, 100, 20)])
    assert (found.se, found.df) == (pytest.approx(0.01), pytest.approx(19))


def test_loads_are_judged_by_students_t() -> None:
    loads = [Estimate(mean, 1e-9, 19, 100, 20) for mean in (0.10, 0.14, 0.12)]
    found = turns.store_effect(loads)
    theirs = stats.ttest_1samp([0.10, 0.14, 0.12], 0.0)
    assert found.p == pytest.approx(float(theirs.pvalue))
    assert math.log(found.low) == pytest.approx(float(theirs.confidence_interval().low))


def test_loads_are_never_surer_than_their_rounds() -> None:
    loads = [Estimate(0.1, 0.05, 19, 100, 20)] * 3  # by chance alike
    assert turns.store_effect(loads).se == pytest.approx(0.05 / math.sqrt(3))


def test_a_prior_moderates_the_variance_of_loads() -> None:
    loads = [Estimate(mean, 1e-9, 19, 100, 20) for mean in (0.0, 0.2, 0.1)]
    found = turns.store_effect(loads, Prior(0.0025, 6))
    assert found.df == 8
    assert found.se == pytest.approx(math.sqrt((6 * 0.0025 + 2 * 0.01) / 8 / 3))


@pytest.mark.parametrize("loads", [0, 1, 2])
def test_few_loads_say_nothing_of_the_store(loads: int) -> None:
    with pytest.raises(ValueError, match="3 are needed"):
        turns.store_effect([Estimate(0.1, 0.05, 19, 100, 20)] * loads)


def test_the_prior_is_that_of_many_variances() -> None:
    rng = np.random.default_rng(3)
    d0, s0, d = 8.0, 0.04, 4
    true = d0 * s0 / rng.chisquare(d0, 4000)
    seen = true * rng.chisquare(d, 4000) / d
    found = turns.prior_of({str(at): [one] for at, one in enumerate(seen.tolist())}, d)
    assert found.df == pytest.approx(d0, rel=0.25)
    assert found.variance == pytest.approx(s0, rel=0.05)


def test_variances_of_one_store_are_one_look_at_it() -> None:
    assert turns.prior_of({"a": [0.01] * 50, "b": [0.02] * 50}, 2).df == 0
    alike = turns.prior_of({name: [0.01] * 50 for name in "abcd"}, 2)
    assert alike.df == 6
    assert alike.variance > 0


@given(st.floats(1e-3, 1e3))
def test_the_trigamma_function_is_inverted(value: float) -> None:
    found = turns._trigamma_inverse(value)
    assert float(special.polygamma(1, found)) == pytest.approx(value, rel=1e-4)


def test_an_interval_that_holds_at_every_moment_does() -> None:
    rng, tries, missed = np.random.default_rng(4), 300, 0
    for _ in range(tries):
        values = rng.standard_normal(400)
        looks = (turns.anytime_interval(turns.estimate(values[:n])) for n in range(40, 401, 10))
        missed += any(one is not None and not one[0] <= 0 <= one[1] for one in looks)
    assert missed / tries <= ALPHA


def test_few_batches_have_no_interval_that_holds_at_every_moment() -> None:
    assert turns.anytime_interval(turns.estimate(np.arange(20.0))) is None


def test_all_looks_together_keep_the_level() -> None:
    assert sum(turns.level_of_look(look) for look in range(1, 100_000)) == pytest.approx(
        ALPHA, rel=1e-4
    )


def histogram(latencies_us: NDArray[np.float64]) -> bytes:
    recorder = Recorder()
    recorder.start(0)
    for one in latencies_us.tolist():
        recorder.operation(0, 0, int(one * 1000))
    return recorder.histogram("latency")


@pytest.mark.parametrize(("at", "factor"), [(0.5, 1.2), (0.99, 1.2), (0.99, 1.0)])
def test_quantiles_are_told_apart(at: float, factor: float) -> None:
    rng = np.random.default_rng(5)
    a, b = (
        [[histogram(scale * rng.lognormal(5, 0.3, 300)) for _ in range(5)] for _ in range(20)]
        for scale in (1.0, factor)
    )
    found = turns.measured_loads_effect([turns.log_quantile_ratio([(1.0, a)], [(1.0, b)], at)])
    assert found.low <= factor <= found.high
    assert found.high / found.low < 1.15


def test_a_quantile_is_read_off_between_two_arms() -> None:
    arms = [[[histogram(np.full(100, us))] * 5] * 8 for us in (100.0, 400.0, 200.0)]
    found = turns.log_quantile_ratio([(0.5, arms[0]), (0.5, arms[1])], [(1.0, arms[2])], 0.5)
    assert found.mean == pytest.approx(0.0, abs=0.005)


def test_rounds_are_cut_into_batches_without_a_gap() -> None:
    for rounds in range(turns.LEAST_ROUNDS, 500):
        parts = [at for part in turns.batches_of(rounds) for at in range(rounds)[part]]
        assert parts == list(range(rounds))


@pytest.mark.parametrize("values", [np.ones(19), np.array([*np.ones(30), np.nan])])
def test_too_few_or_strange_rounds_are_refused(values: NDArray[np.float64]) -> None:
    with pytest.raises(ValueError, match="finite values are needed"):
        turns.estimate(values)


def test_quantiles_of_students_t_are_wider_than_those_of_the_normal() -> None:
    assert student.quantile(0.975, 19) > student.quantile(0.975, 1e9)
