"""Comparison of a store's scores with distances computed again in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial.model.metric import (
    FLOAT32_SLACK,
    LARGER_IS_CLOSER,
    Metric,
    ScoreKind,
    distances,
    score_from_distance,
)

#: For estimates from compressed vectors: least correlation, and largest median relative error.
CORRELATION, OFF = 0.8, 0.5
#: Range of scores, and of their errors, relative to the lengths of vectors, within which they are
#: not expected to correlate.
ALIKE = 0.01


def is_best_first(kind: ScoreKind, scores: NDArray[np.float32]) -> bool:
    """True if scores of an answer (m,) descend from the best, up to rounding. Scores that are not
    finite are ignored."""
    scores = scores[np.isfinite(scores)]
    steps = np.diff(scores.astype(np.float64))
    slack = 1e-6 * np.abs(scores).max(initial=0)
    return bool((steps <= slack).all() if kind in LARGER_IS_CLOSER else (steps >= -slack).all())


@dataclass(frozen=True)
class ScoreComparison:
    """Result of a comparison. wrong: number of the `count` scores that differ; estimates are judged
    together, so all or none. detail: a message."""

    wrong: int
    count: int
    detail: str


def compare(
    metric: Metric,
    kind: ScoreKind,
    queries: Sequence[NDArray[np.float32]],
    rows: Sequence[NDArray[np.float32]],
    scores: Sequence[NDArray[np.float32]],
    *,
    exact: bool,
    slack: float = 1.0,
    error: float = 0.0,
) -> ScoreComparison:
    """Compare the scores in answers with those of their rows.

    Args:
        queries: (d,) of each answer. rows: its vectors, (m, d). scores: (m,).
        exact: the scores are exact; else they are estimates from compressed vectors.
        slack: allowed error as a multiple of `FLOAT32_SLACK`. error: additional allowance, in the
            score's own unit: `Capabilities.score_error`.
    """
    got: list[float] = []
    want: list[float] = []
    scale: list[float] = []
    for query, vectors, told in zip(queries, rows, scores, strict=True):
        want += score_from_distance(kind, distances(query, vectors, metric)).tolist()
        got += told.tolist()
        scale += _scale(query, vectors, metric).tolist()
    g, w, s = np.array(got), np.array(want), np.array(scale)
    if kind is ScoreKind.INVERSE_L2:  # compared as the underlying distances
        with np.errstate(divide="ignore"):
            g, w, s = 1.0 / g - 1.0, 1.0 / w - 1.0, s + 1.0
    if kind in (ScoreKind.L2, ScoreKind.INVERSE_L2):
        g, w, s = g * np.abs(g), w * w, s * s
    elif kind is ScoreKind.L2_SQUARED:
        s = s * s
    if not exact:
        return _compare_estimates(g, w, s)
    off = np.abs(g - w)
    bad = ~(off <= error + slack * (FLOAT32_SLACK * s + 1e-5 * np.abs(w)))  # NaN is bad
    detail = f"{int(bad.sum())} of {len(g)} scores differ from the {kind} computed again"
    if bad.any():
        worst = int(np.argmax(np.where(np.isfinite(off), off - FLOAT32_SLACK * s, np.inf)))
        detail += f"; the worst is {got[worst]:.6g}, computed {want[worst]:.6g}"
    return ScoreComparison(int(bad.sum()), len(g), detail)


def _scale(
    query: NDArray[np.float32], vectors: NDArray[np.float32], metric: Metric
) -> NDArray[np.float64]:
    """Magnitude of the sum's terms: rounding is relative to it, not to the result."""
    if metric is Metric.COSINE:
        return np.ones(len(vectors))
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1)
    query_norm = float(np.linalg.norm(query.astype(np.float64)))
    return np.asarray(norms + query_norm if metric is Metric.L2 else norms * query_norm)


def _compare_estimates(
    got: NDArray[Any], want: NDArray[Any], scale: NDArray[Any]
) -> ScoreComparison:
    """Compare scores from compressed vectors, which must correlate and have the same magnitude.

    If rows are copies of each other, all true scores are nearly the same, and much coarser codes
    are right too: their scores must then be near that value.
    """
    correlation = float(np.corrcoef(got, want)[0, 1]) if np.ptp(want) > 0 else 1.0
    off = float(np.median(np.abs(got - want) / np.maximum(np.abs(want), 1e-30)))
    detail = f"estimates: correlation {correlation:.3f}, median relative error {off:.2f}"
    typical = float(np.median(scale))
    alike = max(float(np.ptp(want)), float(np.abs(got - want).max())) <= ALIKE * typical
    agree = (correlation >= CORRELATION or alike) and off <= OFF
    return ScoreComparison(0 if agree else len(got), len(got), detail)
