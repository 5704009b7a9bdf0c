"""Rows as Qdrant's points: unsigned ids, and payloads without the keys of missing values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.model.store import Schema
from vectrial.stores.common.arrow import batch_of_rows


def unsigned(ids: NDArray[np.int64]) -> list[Any]:
    """Ids as Qdrant has them: int64 is kept as its two's complement."""
    values: list[Any] = np.ascontiguousarray(ids, dtype=np.int64).view(np.uint64).tolist()
    return values


def signed(ids: list[Any]) -> NDArray[np.int64]:
    """Ids of points, (n,), as they were before `unsigned`."""
    return np.array(ids, dtype=np.uint64).view(np.int64)


def points_batch(schema: Schema, records: list[Any]) -> pa.RecordBatch:
    """Rows in the layout of `schema`, from points with their vectors and payloads."""
    ids, vectors = signed([one.id for one in records]), [one.vector for one in records]
    return batch_of_rows(schema, ids, vectors, [one.payload or {} for one in records])
