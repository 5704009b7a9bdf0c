"""Rows as Qdrant's points: unsigned ids, and payloads without the keys of missing values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.model.store import Schema
from vectrial.stores.common.arrow import columns_of


def unsigned(ids: NDArray[np.int64]) -> list[Any]:
    """Ids as Qdrant has them: int64 is kept as its two's complement."""
    values: list[Any] = np.ascontiguousarray(ids, dtype=np.int64).view(np.uint64).tolist()
    return values


def signed(ids: list[Any]) -> NDArray[np.int64]:
    """Ids of points, (n,), as they were before `unsigned`."""
    return np.array(ids, dtype=np.uint64).view(np.int64)


def payloads(batch: pa.RecordBatch, schema: Schema) -> list[dict[str, Any]]:
    """One payload per row, under the names of the batch's columns, without missing values."""
    metadata = columns_of(batch, schema)
    if not metadata:
        return [{}] * batch.num_rows
    names = schema.columns.values()
    columns = zip(*metadata.values(), strict=True)
    return [
        {name: value for name, value in zip(names, row, strict=True) if value is not None}
        for row in columns
    ]
