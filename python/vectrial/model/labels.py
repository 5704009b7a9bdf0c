"""Queries with labels: the class of each query, and whether it is an anomaly there.

The stored rows are normal, and have their class in the column `CLASS`; the labels of the queries
are in `Dataset.query_metadata`. The anomaly experiment uses such datasets.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

#: The class: a column of the rows, and of what is known of the queries.
CLASS = "class_name"
#: Of queries: whether it is an anomaly (bool), and the kind of defect, `GOOD` where it has none.
ANOMALOUS, DEFECT = "is_anomaly", "defect"
GOOD = "good"


def find_duplicates(
    queries: NDArray[np.float32],
    classes: Sequence[str],
    vectors: NDArray[np.float32],
    vector_classes: Sequence[str],
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Find queries that add no information: exact copies of earlier queries of their class, or of
    rows that are stored under their class.

    Args:
        queries: (q, d), with their q classes. vectors: (n, d), with their n classes.

    Returns:
        Two masks (q,): copies of earlier queries, and copies of stored rows among the others.
    """
    stored = {_key(v, name) for v, name in zip(vectors, vector_classes, strict=True)}
    earlier: set[tuple[str, bytes]] = set()
    twice = np.zeros(len(queries), dtype=bool)
    there = np.zeros(len(queries), dtype=bool)
    for at, (vector, name) in enumerate(zip(queries, classes, strict=True)):
        key = _key(vector, name)
        twice[at] = key in earlier
        there[at] = not twice[at] and key in stored
        earlier.add(key)
    return twice, there


def _key(vector: NDArray[np.float32], name: str) -> tuple[str, bytes]:
    # + 0.0: minus zero is zero.
    return name, (np.asarray(vector, np.float32) + np.float32(0)).tobytes()
