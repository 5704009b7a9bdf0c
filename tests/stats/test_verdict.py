"""Verdicts by repeats, on figures whose truth is known."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectrial.stats.effects import mean_of, unpaired_effect
from vectrial.stats.verdict import THRESHOLD, Evidence, VerdictKind, best_case, decide, weigh

VALUES = st.lists(st.floats(1e-3, 1e6), min_size=3, max_size=8)


def judged(a: list[float], b: list[float], **more: object) -> VerdictKind:
    """B against A, where more is better, as a family of its own."""
    one = Evidence(unpaired_effect(a, b), min(len(a), len(b)), True, **more)  # type: ignore[arg-type]
    (decision,) = decide([one], THRESHOLD)
    return decision.kind


@given(VALUES, VALUES)
def test_a_tie_is_an_interval_within_the_threshold_and_nothing_else(
    a: list[float], b: list[float]
) -> None:
    effect = unpaired_effect(a, b)
    within = effect.low >= 1 - THRESHOLD and effect.high <= 1 + THRESHOLD
    assert (judged(a, b) is VerdictKind.TIE) == within


@given(VALUES, VALUES)
def test_the_other_way_round_the_verdict_is_the_other(a: list[float], b: list[float]) -> None:
    turned = {VerdictKind.BETTER: VerdictKind.WORSE, VerdictKind.WORSE: VerdictKind.BETTER}
    found, other = judged(a, b), judged(b, a)
    # The threshold is a share of A: 4.9 % less is 5.2 % more seen from the other side.
    if abs(np.log(unpaired_effect(a, b).ratio)) > 0.06:
        assert other is turned.get(found, found)


@given(VALUES, st.sets(st.integers(0, 7)), st.booleans())
def test_the_best_case_is_never_worse_and_leaves_quiet_repeats_alone(
    values: list[float], disturbed: set[int], more_is_better: bool
) -> None:
    repeats = dict(enumerate(values))
    best = best_case(repeats, disturbed, higher_is_better=more_is_better)
    if set(repeats) <= disturbed:
        assert best is None
        return
    assert best is not None
    for repeat, value in repeats.items():
        if repeat not in disturbed:
            assert best[repeat] == value
        else:
            assert best[repeat] >= value if more_is_better else best[repeat] <= value


@given(VALUES)
def test_means_of_two_sides_have_the_ratio_that_is_tested(values: list[float]) -> None:
    other = [3 * value for value in values[::-1]]
    ratio = mean_of(other).value / mean_of(values).value
    assert unpaired_effect(values, other).ratio == pytest.approx(ratio, rel=1e-9)
    assert min(values) <= mean_of(values).value <= max(values)


def shares(
    slower: float, spread: float, repeats: int, disturbed: float = 0.0
) -> Counter[VerdictKind]:
    """Share of each verdict over 400 pairs: B is this factor of A. A busy machine takes 10 to 60 %
    of a rate of B, in so many of its repeats."""
    rng = np.random.default_rng(20261128)
    kinds: Counter[VerdictKind] = Counter()
    for _ in range(400):
        a = np.exp(rng.normal(0, spread, repeats))
        b = slower * np.exp(rng.normal(0, spread, repeats))
        hit = [r for r in range(repeats) if rng.random() < disturbed]
        b[hit] *= rng.uniform(0.4, 0.9, len(hit))
        sides = dict(enumerate(a)), dict(enumerate(b))
        (decision,) = decide([weigh(*sides, (), hit, higher_is_better=True)], THRESHOLD)
        kinds[decision.kind] += 1 / 400
    return kinds


@pytest.mark.parametrize("repeats", [3, 5, 12])
@pytest.mark.parametrize("disturbed", [0.0, 0.4])
def test_what_does_not_differ_is_seldom_called_better_or_worse(
    repeats: int, disturbed: float
) -> None:
    for spread in (0.02, 0.1):
        kinds = shares(1.0, spread, repeats, disturbed)
        # 5 % of 400, and three standard errors of that count.
        assert kinds[VerdictKind.BETTER] + kinds[VerdictKind.WORSE] <= 0.05 + 3 * 0.011


@pytest.mark.parametrize("slower", [0.9, 0.8, 0.1])
@pytest.mark.parametrize("disturbed", [0.0, 0.4])
def test_a_slowdown_is_never_a_tie_and_seldom_an_improvement(
    slower: float, disturbed: float
) -> None:
    kinds = shares(slower, 0.03, 5, disturbed)
    assert kinds[VerdictKind.TIE] == 0
    assert kinds[VerdictKind.BETTER] <= 0.025
    if slower <= 0.8 and not disturbed:
        assert kinds[VerdictKind.WORSE] >= 0.95


@pytest.mark.parametrize("repeats", [3, 5])
def test_the_first_of_equal_stores_is_seldom_better_than_each_of_the_others(repeats: int) -> None:
    rng, named = np.random.default_rng(20261128), 0
    for _ in range(400):
        stores = [dict(enumerate(np.exp(row))) for row in rng.normal(0, 0.1, (8, repeats))]
        stores.sort(key=lambda store: -float(np.median([*store.values()])))
        rivals = [weigh(stores[0], other, higher_is_better=True) for other in stores[1:]]
        named += all(decide([one], THRESHOLD)[0].kind is VerdictKind.WORSE for one in rivals)
    assert named <= 0.05 * 400
