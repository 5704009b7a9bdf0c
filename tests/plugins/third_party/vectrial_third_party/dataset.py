"""A dataset: points on a spiral."""

from __future__ import annotations

import numpy as np

from vectrial.datasets.catalog import Cost, Entry, Kind
from vectrial.datasets.sources.material import Material
from vectrial.model.metric import Metric
from vectrial.model.progress import Progress

ROWS, QUERIES = 600, 20


def spiral(rows: int | None, queries: int, progress: Progress) -> Material:
    """Rows and queries at different places of one curve in eight dimensions."""
    count = ROWS if rows is None else rows
    at = np.linspace(0, 20, count + queries)
    curve = np.stack([at * np.sin(at * n + n) for n in range(1, 9)], axis=1).astype(np.float32)
    held = np.linspace(0, count + queries - 1, queries).astype(np.int64)
    return Material(np.delete(curve, held, axis=0), curve[held])


ENTRY = Entry(
    name="spiral-8-600",
    kind=Kind.OFFLINE,
    title="points on a spiral",
    source="computed",
    licence="none needed",
    rows=ROWS,
    dim=8,
    metric=Metric.L2,
    queries=QUERIES,
    cost=Cost(0, 0.02, 0.01),
    build=spiral,
)
