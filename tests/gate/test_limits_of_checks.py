"""What the gate's checks let pass, and what they do not: the arithmetic behind them."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

from vectrial.gate.model import is_same_value, is_same_vector
from vectrial.gate.row_search import allowed_misses, detectable_loss, find_rows
from vectrial.gate.scores import compare
from vectrial.model.capabilities import IndexKind
from vectrial.model.metric import Metric, ScoreKind, distances, rounding_of
from vectrial.model.schema import Schema
from vectrial.model.store import Hits
from vectrial.stores.lucene.common import SCORE_ERROR, to_declared_scores


@pytest.mark.parametrize(
    ("tried", "floor", "rows"), [(100, 1.0, 0), (100, 0.9, 19), (1000, 0.95, 70), (1, 0.5, 2)]
)
def test_rows_that_an_index_may_miss(tried: int, floor: float, rows: int) -> None:
    """The share beyond the floor, and three standard deviations of a sample's share."""
    assert allowed_misses(tried, floor) == rows


@pytest.mark.parametrize(("sample", "share"), [(1, 0.95), (59, 0.0495), (299, 0.00997)])
def test_the_share_of_faults_that_a_sample_finds(sample: int, share: float) -> None:
    """A sample of n misses a share p with probability (1 - p)^n, here 5 %."""
    assert detectable_loss(sample) == pytest.approx(share, rel=1e-2)


@pytest.mark.parametrize(
    ("got", "want", "same"),
    [
        (1.0, 1.0 + 4e-16, True),
        (1.0, 1.001, False),
        (math.nan, math.nan, True),
        (math.nan, 1.0, False),
        (None, 1.0, False),
        ("1.0", 1.0, False),
        ("a", "a", True),
        (2, 3, False),
    ],
)
def test_values_that_count_as_the_same(got: Any, want: Any, same: bool) -> None:
    assert is_same_value(got, want) is same


@pytest.mark.parametrize(("factor", "wrong"), [(1.0, 0), (1.001, 20), (0.5, 20)])
def test_scores_of_far_rows_are_compared_as_distances(factor: float, wrong: int) -> None:
    """1 / (1 + d) of a distance of thousands has few digits left of it: an honest store passes, and
    one whose distances are off by a thousandth does not."""
    rng = np.random.default_rng(3)
    query = rng.normal(size=8).astype(np.float32)
    rows = rng.normal(scale=1000.0, size=(20, 8)).astype(np.float32)
    far = np.linalg.norm(rows.astype(np.float64) - query, axis=1)
    scores = (1.0 / (1.0 + far * factor)).astype(np.float32)
    found = compare(Metric.L2, ScoreKind.INVERSE_L2, [query], [rows], [scores], exact=True)
    assert (found.wrong, found.count) == (wrong, 20)


@pytest.mark.parametrize(("length", "factor", "wrong"), [(1e-4, 1.0, 0), (1.0, 1.001, 20)])
def test_scores_of_short_vectors_are_as_exact_as_their_source(
    length: float, factor: float, wrong: int
) -> None:
    """Of 1 / (1 + d²) near 1 nothing is left of d²: the store is right. Where something is, it is
    compared."""
    rng = np.random.default_rng(3)
    query, *rows = (length * rng.normal(size=(21, 8))).astype(np.float32)
    squares = np.square(np.array(rows, np.float64) - query).sum(axis=1) * factor
    given = (1.0 / (1.0 + squares)).astype(np.float32)
    scores = to_declared_scores(given, Metric.L2)
    told = partial(
        compare, Metric.L2, ScoreKind.L2_SQUARED, [query], [np.array(rows)], [scores], exact=True
    )
    assert told(error=SCORE_ERROR).wrong == wrong
    assert told().wrong, "without the store's declaration"


@pytest.mark.parametrize(
    ("factor", "noise", "wrong"),
    [(1.0, 0.1, 0), (0.8, 0.1, 0), (0.4, 0.1, 20), (1.6, 0.1, 20), (1.0, 3.0, 20), (0.0, 1.0, 20)],
)
def test_estimates_correlate_and_have_the_right_size(
    factor: float, noise: float, wrong: int
) -> None:
    """noise: standard deviations of the distances. Estimates are right together, or wrong."""
    rng = np.random.default_rng(5)
    query = rng.normal(size=8).astype(np.float32)
    rows = rng.normal(size=(20, 8)).astype(np.float32)
    far = np.linalg.norm(rows.astype(np.float64) - query, axis=1)
    estimates = factor * far + noise * far.std() * rng.permutation(np.linspace(-1, 1, 20))
    scores = estimates.astype(np.float32)
    found = compare(Metric.L2, ScoreKind.L2, [query], [rows], [scores], exact=False)
    assert (found.wrong, found.count) == (wrong, 20)


@pytest.mark.parametrize(
    ("metric", "factor", "exact", "same"),
    [
        (Metric.L2, 1.0, True, True),
        (Metric.L2, 2.0, True, False),
        (Metric.IP, 2.0, True, False),
        (Metric.COSINE, 2.0, True, True),
        (Metric.COSINE, -1.0, True, False),
        (Metric.L2, 1.4, True, False),
        (Metric.L2, 1.4, False, True),
        (Metric.L2, 1.6, False, False),
    ],
)
def test_vectors_that_count_as_the_same(
    metric: Metric, factor: float, exact: bool, same: bool
) -> None:
    """Under cosine a store may keep the direction alone, and a compressed one what resembles it."""
    vector = np.array([3.0, 0.0, 4.0], dtype=np.float32)
    kind = IndexKind(exact_scores=exact)
    assert is_same_vector(vector * np.float32(factor), vector, Schema(3, metric), kind) is same


@pytest.mark.parametrize(("off", "agree"), [(0.002, True), (0.2, False)])
def test_estimates_of_copies_are_near_one_number_and_need_not_correlate(
    off: float, agree: bool
) -> None:
    """The neighbours of a query are copies of one document, whose codes are coarser than they
    differ."""
    rng = np.random.default_rng(4)
    query = rng.normal(size=16).astype(np.float32)
    rows = (query * (1 + 0.01 * rng.normal(size=(30, 16)))).astype(np.float32)
    exact = 1.0 - distances(query, rows, Metric.COSINE)
    scores = (exact + off * rng.uniform(-1, 1, 30)).astype(np.float32)
    told = compare(
        Metric.COSINE, ScoreKind.COSINE_SIMILARITY, [query], [rows], [scores], exact=False
    )
    assert np.corrcoef(scores, exact)[0, 1] < 0.8
    assert (told.wrong == 0) is agree, told.detail


@pytest.mark.parametrize(("rounding", "lost"), [(2.0**-23, []), (0.0, [7])])
def test_a_row_that_a_score_near_one_does_not_tell_apart_is_not_lost(
    rounding: float, lost: list[int]
) -> None:
    """1 - q·x of vectors of a length of 1e-6 is 1 in float32, of every row."""
    vectors = (1e-6 * np.random.default_rng(5).normal(size=(20, 4))).astype(np.float32)
    others = np.array([1, 2, 3])

    def search(_: Any, /) -> Hits:
        return others, np.ones(3, np.float32)

    found = find_rows(
        search,
        [7],
        [vectors[7]],
        lambda ids: vectors[ids],
        Metric.IP,
        expected=3,
        rounding=rounding,
    )
    assert found.lost == lost
    assert rounding in (0.0, rounding_of(ScoreKind.ONE_MINUS_INNER_PRODUCT))
