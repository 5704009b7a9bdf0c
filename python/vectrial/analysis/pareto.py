"""Operating points that no other point beats, and their values at a given recall."""

from __future__ import annotations

from collections.abc import Sequence

from vectrial.stats.curves import CurveReading, pareto, read_at

__all__ = ["fastest_at", "pareto", "qps_at"]


def fastest_at(points: Sequence[tuple[float, float]], recall: float) -> int | None:
    """Index of the (recall, qps) point of greatest qps among points of at least this recall."""
    able = [i for i, point in enumerate(points) if point[0] >= recall]
    return max(able, key=lambda i: (points[i][1], points[i][0], -i)) if able else None


def qps_at(points: Sequence[tuple[float, float]], recall: float) -> CurveReading | None:
    """Qps at exactly this recall, between two measured (recall, qps) points; see `read_at`."""
    return read_at(points, recall)
