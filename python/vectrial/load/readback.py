"""Whether rows are in a store as they were written, asked outside every clock."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.stores.base import Store

#: Least cosine between a vector as written and as read back from a store that keeps it exactly
#: up to float32 and normalisation.
SAME_DIRECTION = 1 - 1e-5


def read_back(
    store: Store,
    ids: NDArray[np.int64],
    vectors: NDArray[np.float32],
    metadata: pa.Table | None = None,
) -> int:
    """How many of these rows, ids (n,), vectors (n, d), metadata of n rows, are there as written.

    metadata: columns to compare, too; None compares vectors alone.
    """
    table = store.get(ids)
    position = {int(id_): at for at, id_ in enumerate(ids)}
    expected = None if metadata is None else metadata.to_pylist()
    columns = [] if metadata is None else metadata.column_names
    right, seen = 0, set[int]()
    for at, row in enumerate(table.select(["id", *columns]).to_pylist()):
        id_ = row.pop("id")
        if id_ not in position or id_ in seen:
            continue
        seen.add(id_)
        same = same_vector(table, at, vectors[position[id_]])
        right += same and (expected is None or row == expected[position[id_]])
    return right


def same_vector(table: pa.Table, at: int, expected: NDArray[np.float32]) -> bool:
    """Same direction, so that a store which normalises under cosine is not called wrong."""
    got = np.asarray(table.column("vector")[at].values.to_numpy(), dtype=np.float64)
    want = np.asarray(expected, dtype=np.float64)
    scale = float(np.linalg.norm(got) * np.linalg.norm(want))
    return bool(scale == 0 and not got.any() and not want.any()) or bool(
        got @ want >= SAME_DIRECTION * scale
    )
