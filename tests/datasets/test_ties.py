"""What float32 cannot tell apart is a tie: no store is wrong for the order of such rows."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from vectrial.datasets.exact import exact_topk
from vectrial.model.metric import Metric, distances, least_norm, tie_tolerance, ties

Vectors = NDArray[np.float32]
K, ROWS, QUERIES = 10, 240, 20


def in_turn(products: Vectors) -> Vectors:
    """Sums of rows, term by term, as a plain loop has them."""
    return products.cumsum(axis=-1, dtype=np.float32)[..., -1]


def in_lanes(products: Vectors) -> Vectors:
    """Sums of eight parts, as processors with vectors of eight have them."""
    lanes = np.zeros((*products.shape[:-1], -(-products.shape[-1] // 8) * 8), np.float32)
    lanes[..., : products.shape[-1]] = products
    return in_turn(in_turn(lanes.reshape(*products.shape[:-1], -1, 8).swapaxes(-1, -2)))


def by_blas(products: Vectors) -> Vectors:
    return products @ np.ones(products.shape[-1], np.float32)


SUMS = (in_turn, in_lanes, by_blas)


def float32_distances(
    query: Vectors, rows: Vectors, metric: Metric, add: Callable[[Vectors], Vectors]
) -> Vectors:
    """Distances as a store that computes in float32 has them."""
    if metric is Metric.L2:
        return add(np.square(rows - query))
    if metric is Metric.IP:
        return -add(rows * query)
    unit = rows / np.sqrt(add(np.square(rows)))[:, None]
    return np.float32(1) - add(unit * (query / np.sqrt(add(np.square(query)))))


def copies(noise: float) -> Callable[[np.random.Generator], Vectors]:
    """Twelve documents, each embedded twenty times."""

    def make(rng: np.random.Generator) -> Vectors:
        base = np.repeat(rng.normal(size=(12, 64)), 20, axis=0)
        return (base * (1 + noise * rng.normal(size=base.shape))).astype(np.float32)

    return make


def normal(scale: float, offset: float = 0.0, dim: int = 64) -> Callable[..., Vectors]:
    return lambda rng: (scale * rng.normal(size=(ROWS, dim)) + offset).astype(np.float32)


DATA: dict[str, Callable[[np.random.Generator], Vectors]] = {
    "near duplicates, 0.3 %": copies(3e-3),
    "near duplicates, 0.02 %": copies(2e-4),
    "near duplicates, 0.001 %": copies(1e-5),
    "exact duplicates": copies(0.0),
    "whole numbers": lambda rng: rng.integers(0, 256, (ROWS, 64)).astype(np.float32),
    "small whole numbers": lambda rng: rng.integers(1, 4, (ROWS, 64)).astype(np.float32),
    "tiny": normal(1e-16),
    "huge": normal(1e16),
    "all alike": normal(1.0, 1000.0),
    "many dimensions": normal(1.0, 0.0, 2048),
    "few dimensions": normal(1.0, 0.0, 2),
}


@pytest.mark.parametrize("metric", list(Metric))
@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("add", SUMS)
def test_the_nearest_by_float32_are_right(
    name: str, metric: Metric, add: Callable[[Vectors], Vectors]
) -> None:
    rng = np.random.default_rng(7)
    rows = DATA[name](rng)
    queries = rows[rng.integers(0, len(rows), QUERIES)].astype(np.float64)
    queries = (queries * (1 + 1e-3 * rng.normal(size=queries.shape))).astype(np.float32)
    truth = exact_topk(rows, np.arange(len(rows)), queries, metric, K)
    accepted = np.split(truth.accept_ids, truth.accept_offsets[1:-1])
    right = [
        np.isin(np.argsort(float32_distances(query, rows, metric, add), kind="stable")[:K], one)
        for query, one in zip(queries, accepted, strict=True)
    ]
    assert np.mean(right) >= 0.999


@pytest.mark.parametrize("metric", list(Metric))
@pytest.mark.parametrize("name", DATA)
def test_the_truth_is_that_of_exact_arithmetic(name: str, metric: Metric) -> None:
    """Up to the float64 of a distance, by rational numbers."""
    rng = np.random.default_rng(8)
    rows = DATA[name](rng)[:30]
    query = rows[3] * np.float32(1.001)
    got = distances(query, rows, metric)
    q = [Fraction(float(one)) for one in query]
    lengths = float(sum(a * a for a in q)) ** 0.5
    for row, distance in zip(rows, got.tolist(), strict=True):
        x = [Fraction(float(one)) for one in row]
        dot = sum(a * b for a, b in zip(q, x, strict=True))
        both = lengths * float(sum(b * b for b in x)) ** 0.5
        if metric is Metric.L2:
            square = sum((a - b) ** 2 for a, b in zip(q, x, strict=True))
            assert distance**2 == pytest.approx(float(square), rel=1e-12)
        elif metric is Metric.IP:
            assert distance == pytest.approx(-float(dot), abs=1e-14 * both)
        else:
            assert distance == pytest.approx(1 - float(dot) / both, abs=1e-14)


def test_a_tie_is_what_rounding_makes_of_a_distance() -> None:
    c = tie_tolerance(128)
    assert c == pytest.approx(2 * 128**0.5 * 2**-24)
    assert tie_tolerance(16) == 1e-6

    def tied(distance: float, kth: float, metric: Metric, scale: float = 1.0) -> bool:
        return bool(ties(np.array([distance]), kth, metric, scale, 128)[0])

    assert tied(1e-7, 0.0, Metric.COSINE)
    assert not tied(3e-6, 0.0, Metric.COSINE)
    assert tied(100 * (1 + c / 2), 100.0, Metric.L2)
    assert not tied(1e-7, 1e-8, Metric.L2), "a short distance is as exact as a long one"
    assert tied(least_norm(128) / 2, 0.0, Metric.L2), "but for what underflow takes"
    assert tied(-9.9999, -10.0, Metric.IP, scale=1000.0)
    assert not tied(-9.99, -10.0, Metric.IP, scale=10.0)
