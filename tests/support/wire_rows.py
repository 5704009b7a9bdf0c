"""Rows that the wire protocols are tested with, and the requests that write them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vectrial.engine.client import Requests
from vectrial.engine.types import LoadColumn

#: The third is negative: a number with all bits set where ids have no sign.
IDS = np.array([0, 7, -1, 2**62], np.int64)
VECTORS = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
#: By column; None: missing.
VALUES = {
    "c": [1, -2, 3, 2**53],
    "w": ["", None, "é", "d"],
    "b": [True, False, True, False],
    "f": [0.5, -0.0, 1e300, 2.0],
}
COLUMNS: list[LoadColumn] = [
    {"name": "c", "values": np.array(VALUES["c"]), "valid": None},
    {"name": "w", "values": ["", "", "é", "d"], "valid": np.array([True, False, True, True])},
    {"name": "b", "values": np.array(VALUES["b"]), "valid": None},
    {"name": "f", "values": np.array(VALUES["f"]), "valid": None},
]


def columns_of_row(row: int) -> dict[str, object]:
    """The values that this row has, as they are written: minus zero as zero."""
    there = {name: values[row] for name, values in VALUES.items() if values[row] is not None}
    return {n: value + 0.0 if isinstance(value, float) else value for n, value in there.items()}


def writing(operation: str, options: Mapping[str, str]) -> Requests:
    """All rows, in batches of three."""
    return Requests(
        "write", operation, vectors=VECTORS, ids=IDS, columns=COLUMNS, batch=3,
        options=dict(options), once=True,
    )  # fmt: skip
