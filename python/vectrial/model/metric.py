"""Metrics, and what the scores that stores return mean.

Everywhere in Vectrial a *distance* is float64, smaller is closer:

    l2      sqrt(sum((q - x)^2))
    cosine  1 - q·x / (|q| |x|)
    ip      -q·x

A store's own score may be something else; it declares which (`ScoreKind`), and the gate
recomputes it from the vectors.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Unit roundoff of float32, and its least normal number, below which products may be taken for 0.
_ROUND, _LEAST_NORMAL = 2.0**-24, 2.0**-126
#: Least tolerance of a tie: the float32 that a distance is returned as, and a few roundings more.
_LEAST_TOLERANCE = 1e-6
#: Largest error of a score that was computed in float32 in any way, relative to the scale of its
#: summands. The bound of a tie assumes an ordinary summation.
FLOAT32_SLACK = 2e-5


class Metric(StrEnum):
    """The space that vectors are compared in."""

    L2 = "l2"
    COSINE = "cosine"
    IP = "ip"


class ScoreKind(StrEnum):
    """The meaning of the scores that a store's search returns."""

    L2 = "l2"  # Euclidean distance
    L2_SQUARED = "l2_squared"
    COSINE_DISTANCE = "cosine_distance"  # 1 - cos
    COSINE_SIMILARITY = "cosine_similarity"  # cos
    INNER_PRODUCT = "inner_product"  # q·x, larger is closer
    NEGATIVE_INNER_PRODUCT = "negative_inner_product"
    ONE_MINUS_INNER_PRODUCT = "one_minus_inner_product"
    INVERSE_L2 = "inverse_l2"  # 1 / (1 + Euclidean distance), larger is closer


#: Scores of which a larger one is of a closer row; of the others a smaller one is.
LARGER_IS_CLOSER = frozenset(
    {ScoreKind.COSINE_SIMILARITY, ScoreKind.INNER_PRODUCT, ScoreKind.INVERSE_L2}
)


def rounding_of(kind: ScoreKind) -> float:
    """Least difference of distances that float32 scores of a kind distinguish, however short the
    vectors are: numbers near 1 are multiples of 2^-23 or 2^-24. 0 if there is none."""
    return 2.0**-23 if kind is ScoreKind.ONE_MINUS_INNER_PRODUCT else 0.0


def distances(query: NDArray[Any], vectors: NDArray[Any], metric: Metric) -> NDArray[np.float64]:
    """Distances, in float64, from one query (d,) to each of `vectors` (n, d); shape (n,).

    Every sum is numpy's pairwise summation along a contiguous row, so that a row's distance depends
    neither on the rows beside it nor on a BLAS, to the last bit.
    """
    q = np.asarray(query, dtype=np.float64)
    x = np.ascontiguousarray(vectors, dtype=np.float64)
    if metric is Metric.L2:
        return np.asarray(np.sqrt(np.square(x - q).sum(axis=1)))
    dots = (x * q).sum(axis=1)
    if metric is Metric.IP:
        return np.asarray(-dots)
    norms = np.sqrt(np.square(x).sum(axis=1)) * np.sqrt(np.square(q).sum())
    return np.asarray(1.0 - dots / norms)


def squared_lengths(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Squared lengths of `vectors` (n, d), shape (n,): in float32, but in float64 for short
    vectors, whose squares float32 loses in part or entirely."""
    squares: NDArray[np.float64] = np.einsum("ij,ij->i", vectors, vectors).astype(np.float64)
    short = squares < SHORT_SQUARE
    if short.any():
        few = vectors[short]
        squares[short] = np.einsum("ij,ij->i", few, few, dtype=np.float64)
    return squares


def tie_tolerance(dim: int) -> float:
    """Greatest difference of two distances that float32 cannot tell apart, relative to |q||x| under
    ip, to 1 under cosine, and to the distance itself under l2.

    The error of a sum of d products in float32 is at most λ·√d·u of the sum of their magnitudes, u
    = 2^-24, but for a probability that vanishes quickly with λ (Higham and Mary, "A new approach to
    probabilistic rounding error analysis", SIAM J. Sci. Comput. 41(5), 2019, section 3). Errors of
    a sum taken term by term have a standard deviation of about √d·u/3, and those of two sums a
    deviation of √d·u/2: λ = 2 is four of these, and more if a processor adds several terms at once.
    """
    return max(_LEAST_TOLERANCE, 2.0 * math.sqrt(dim) * _ROUND)


def least_norm(dim: int) -> float:
    """Length below which the squares of a vector's components are lost in float32: squares and
    distances are multiples of 2^-149, and may be taken for 0 below 2^-126."""
    return math.sqrt(dim * _LEAST_NORMAL)


#: Square of a length below which underflow may take more of it than rounding does.
SHORT_SQUARE = 2.0**-80
#: Length of a vector from which squares of sums of two exceed float32.
MOST_NORM = 2.0**63


def uncertainty(metric: Metric, dim: int) -> tuple[float, float]:
    """Amounts by which two distances may differ and still be equal in float32, beyond the tolerance
    relative to the distance itself (`tie_tolerance`): a share of |q||x| under ip and of 1 under
    cosine (none under l2), and the possible loss by underflow, in the distance's own unit."""
    match metric:
        case Metric.L2:
            return 0.0, least_norm(dim)
        case Metric.COSINE:
            return tie_tolerance(dim), 0.0
        case Metric.IP:
            return tie_tolerance(dim), dim * _LEAST_NORMAL


def ties(
    distance: NDArray[np.float64],
    kth: float,
    metric: Metric,
    scale: NDArray[np.float64] | float,
    dim: int,
) -> NDArray[np.bool_]:
    """Mask of distances that count as within the k-th true one: float32 cannot tell them apart.

    Args:
        scale: |q||x| for each distance; read under ip only.
    """
    share, least = uncertainty(metric, dim)
    noise = share * np.asarray(scale if metric is Metric.IP else 1.0, dtype=np.float64) + least
    return np.asarray(distance - noise <= kth + tie_tolerance(dim) * abs(kth))


def score_from_distance(kind: ScoreKind, distance: NDArray[np.float64]) -> NDArray[np.float64]:
    """The score of `kind` for a distance under its metric."""
    match kind:
        case ScoreKind.L2 | ScoreKind.COSINE_DISTANCE | ScoreKind.NEGATIVE_INNER_PRODUCT:
            return distance
        case ScoreKind.L2_SQUARED:
            return np.square(distance)
        case ScoreKind.COSINE_SIMILARITY:
            return 1.0 - distance
        case ScoreKind.INNER_PRODUCT:
            return -distance
        case ScoreKind.ONE_MINUS_INNER_PRODUCT:
            return 1.0 + distance
        case ScoreKind.INVERSE_L2:
            return np.asarray(1.0 / (1.0 + distance))
