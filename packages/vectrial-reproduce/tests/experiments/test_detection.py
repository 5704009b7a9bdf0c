"""Thresholds and the area under the ROC curve, against their definitions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectrial_reproduce.detection import auroc, share_below, threshold_for

#: Few distinct values, so that ties are common.
LIKENESS = st.lists(st.integers(-8, 8).map(lambda n: n / 8), max_size=40).map(
    lambda values: np.array(values, dtype=np.float64)
)


@given(LIKENESS, LIKENESS)
def test_auroc_is_the_share_of_pairs_in_the_right_order(
    normal: np.ndarray, anomalous: np.ndarray
) -> None:
    pairs = list(itertools.product(normal, anomalous))
    if not pairs:
        assert auroc(normal, anomalous) is None
        return
    wins = sum(1.0 if a < n else 0.5 if a == n else 0.0 for n, a in pairs)
    assert auroc(normal, anomalous) == pytest.approx(wins / len(pairs), abs=1e-12)


@given(LIKENESS, st.floats(0.01, 0.99))
def test_no_more_normal_things_than_asked_for_are_below_the_threshold(
    normal: np.ndarray, rate: float
) -> None:
    """The rule itself: with the new thing among them, any of the n + 1 is as likely to be it."""
    threshold = threshold_for(normal, rate)
    rank = math.floor(round(rate * (len(normal) + 1), 9))
    if rank < 1:
        assert threshold is None
        return
    assert threshold is not None
    assert (normal < threshold).sum() <= rank - 1
    assert (normal <= threshold).sum() >= rank
    alarms = 0
    for new in normal:
        rest = np.delete(normal, int(np.flatnonzero(normal == new)[0]))
        chosen = threshold_for(rest, rate)
        alarms += chosen is not None and bool(new < chosen)
    assert alarms <= rate * len(normal) + 1e-6


@pytest.mark.parametrize(("count", "there"), [(18, False), (19, True), (38, True)])
def test_a_rate_of_a_twentieth_needs_nineteen_things(count: int, there: bool) -> None:
    threshold = threshold_for(np.arange(count, dtype=np.float64), 0.05)
    assert (threshold == 0.0) if there else (threshold is None)


def test_the_rate_that_was_asked_for_comes_true() -> None:
    rng = np.random.default_rng(5)
    shares = []
    for _ in range(2000):
        threshold = threshold_for(rng.standard_normal(39), 0.05)
        assert threshold is not None
        shares.append(share_below(rng.standard_normal(50), threshold))
    assert np.mean(shares) == pytest.approx(0.05, abs=0.004)


def test_of_nothing_there_is_no_share() -> None:
    assert share_below(np.array([]), 0.5) is None
    assert share_below(np.array([0.4, 0.5]), 0.5) == 0.5
