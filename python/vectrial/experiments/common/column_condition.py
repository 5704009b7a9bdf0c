"""The condition on a dataset's own columns that keeps a share of its rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from vectrial.model.errors import StoreError
from vectrial.model.filters import Eq, Filter, Range


def condition(metadata: pa.Table, selectivity: float) -> Filter:
    """The condition on one column that keeps the share of rows nearest to `selectivity`, as a
    ratio: an upper bound on a numeric column, or equality with a value if there is no such column.
    Between equals, the first column wins.

    Raises:
        StoreError: no value of any column keeps any row.
    """
    numeric = [c.name for c in metadata.schema if _is_number(c.type)]
    found: list[tuple[float, Filter]] = []
    for name in numeric or metadata.column_names:
        column = metadata.column(name).drop_null()
        if not len(column):
            continue
        every = _bounds if numeric else _values
        for where, share in every(name, column, metadata.num_rows, selectivity):
            found.append((abs(math.log(share / selectivity)), where))
    if not found:
        raise StoreError("no column of the metadata has a value")
    return min(found, key=lambda one: one[0])[1]


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _values(
    name: str, column: pa.ChunkedArray[Any], rows: int, selectivity: float
) -> Iterator[tuple[Filter, float]]:
    """Equality with every value of a column without nulls, with the share that it keeps."""
    found: list[Any] = column.to_pylist()
    for value, count in Counter(found).items():
        yield Eq(name, value), count / rows


def _bounds(
    name: str, column: pa.ChunkedArray[Any], rows: int, selectivity: float
) -> Iterator[tuple[Filter, float]]:
    """Upper bounds on a column without nulls, with the share that each keeps: the bounds on both
    sides of the wanted share."""
    values = np.sort(column.to_numpy())
    values = values[np.isfinite(values)]
    if not len(values):
        return
    at = min(max(round(selectivity * rows) - 1, 0), len(values) - 1)
    below = max(int(np.searchsorted(values, values[at], "left")) - 1, 0)
    for bound in (values[at].item(), values[below].item()):
        kept = int(np.searchsorted(values, bound, "right"))
        yield Range(name, lte=bound), kept / rows
