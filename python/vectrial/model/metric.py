"""Metrics, and what the scores that stores return mean.

Everywhere in Vectrial a *distance* is float64, smaller is closer:

    l2      sqrt(sum((q - x)^2))
    cosine  1 - q·x / (|q| |x|)
    ip      -q·x

A store's own score may be something else; it declares which (`ScoreKind`), and the gate
recomputes it from the vectors.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Relative tolerance of a tie with the k-th true distance.
TIE_TOLERANCE = 1e-6

#: What float64 itself leaves uncertain in a distance: this under cosine, this times |q||x| under
#: ip. Sums of exact float32 products lose at most a few dozen roundings of 2^-53 in all that.
NOISE = 2.0**-48


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


def distances(query: NDArray[Any], vectors: NDArray[Any], metric: Metric) -> NDArray[np.float64]:
    """Distances, in float64, from one query (d,) to each of `vectors` (n, d); shape (n,).

    Every sum is numpy's pairwise summation along a contiguous row, so that a row's distance does
    not depend on the rows beside it, nor on a BLAS, to the last bit.
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


def ties(
    distance: NDArray[np.float64], kth: float, metric: Metric, scale: NDArray[np.float64] | float
) -> NDArray[np.bool_]:
    """Mask of the distances that count as within the k-th true one: less the uncertainty of
    float64, they exceed it by no more than the tolerance, relative to its magnitude.

    Args:
        scale: |q||x| for each distance; read under ip only.
    """
    noise: NDArray[np.float64] | float = 0.0
    if metric is not Metric.L2:
        noise = NOISE if metric is Metric.COSINE else NOISE * np.asarray(scale, dtype=np.float64)
    return np.asarray(distance - noise <= kth + TIE_TOLERANCE * abs(kth))


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
