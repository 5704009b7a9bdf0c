"""Parameters of Qdrant and Qdrant Edge, and rows as points."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field as Bound

from vectrial.stores import common as vt


class QdrantHnswBuild(vt.Params):
    """m, ef_construction: parameters of the graph. full_scan_threshold_kb: where fewer kilobytes of
    vectors than this qualify (all rows of a segment, or those a filter keeps), they are scanned
    exactly."""

    m: int = Bound(default=16, ge=2, le=1024)
    ef_construction: int = Bound(default=100, ge=4, le=100_000)
    full_scan_threshold_kb: int = Bound(default=10_000, ge=10, le=2**31 - 1)


class QdrantHnswSearch(vt.Params):
    """ef_search: candidates held during the search; None means ef_construction."""

    ef_search: int | None = Bound(default=None, ge=1, le=1_000_000)


#: A vector whose squares add up to less than float32's epsilon is not normalised under cosine.
NORMS = (2.0**-11.5, math.inf)


def to_point_ids(ids: NDArray[np.int64]) -> list[Any]:
    """Ids as Qdrant stores them: each int64 as its two's complement."""
    values: list[Any] = np.ascontiguousarray(ids, dtype=np.int64).view(np.uint64).tolist()
    return values


def from_point_ids(ids: list[Any]) -> NDArray[np.int64]:
    """The original ids (n,) of points, undoing `to_point_ids`."""
    return np.array(ids, dtype=np.uint64).view(np.int64)


def points_batch(schema: vt.Schema, records: list[Any]) -> pa.RecordBatch:
    """Rows in the layout of `schema`, from points with their vectors and payloads."""
    ids, vectors = from_point_ids([one.id for one in records]), [one.vector for one in records]
    return vt.batch_of_rows(schema, ids, vectors, [one.payload or {} for one in records])
