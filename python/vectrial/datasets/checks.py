"""Checks of every block of vectors and every set of ids; messages name the row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.model.errors import DataError
from vectrial.model.metric import MOST_NORM, Metric, least_norm, squared_lengths


def check_vectors(
    block: NDArray[Any], *, dim: int | None, metric: Metric | None, first_row: int, where: str
) -> NDArray[np.float32]:
    """Check `block` and return it as C-contiguous float32 (rows, dim).

    Args:
        dim: components expected of every row; None accepts any positive number.
        metric: under cosine a zero vector is refused; None skips this check.
        first_row: the number of the block's first row in its file, for the message.
        where: the file or dataset named in the message.

    Raises:
        DataError: naming the first row with a component that is not finite as float32, another
            number of components, or squares beyond float32; under cosine, without a direction.
    """
    if block.ndim != 2 or block.shape[1] == 0:
        raise DataError(
            f"vectors must be a table of rows by components, found shape {block.shape}", where=where
        )
    if dim is not None and block.shape[1] != dim:
        raise DataError(
            f"a vector has {block.shape[1]} components where {dim} were expected",
            where=f"{where}, row {first_row}",
            remedy="every vector must have the same number of components",
        )
    with np.errstate(over="ignore"):
        out = np.ascontiguousarray(block, dtype=np.float32)
    # A sum is not finite when any component is not; only then is it worth finding which one.
    # A sum of finite components may overflow too, so the exact test decides.
    with np.errstate(over="ignore", invalid="ignore"):
        suspects = np.flatnonzero(~np.isfinite(out.sum(axis=1)))
    for row in suspects:
        wrong = np.flatnonzero(~np.isfinite(out[row]))
        if wrong.size:
            value = np.asarray(block)[row, wrong[0]]
            raise DataError(
                f"component {wrong[0]} is {value}, which is not a finite float32",
                where=f"{where}, row {first_row + row}",
                remedy="remove the row or mend the value",
            )
    _check_lengths(out, metric, first_row, where)
    return out


def _check_lengths(
    rows: NDArray[np.float32], metric: Metric | None, first_row: int, where: str
) -> None:
    """Raise if a row cannot be compared with others by a store that computes in float32."""
    with np.errstate(over="ignore"):
        lengths = np.sqrt(squared_lengths(rows))
    # Squares of long rows are exact enough in float32 to suspect them; float64 decides.
    suspects = np.flatnonzero(~(lengths < MOST_NORM / 2))
    lengths[suspects] = np.linalg.norm(rows[suspects].astype(np.float64), axis=1)
    long = np.flatnonzero(lengths >= MOST_NORM)
    short = np.flatnonzero(lengths < least_norm(rows.shape[1]))
    if long.size:
        raise DataError(
            f"the vector has a length of {lengths[long[0]]:.3g}, whose square is beyond float32"
            + _more(long.size - 1),
            where=f"{where}, row {first_row + int(long[0])}",
            remedy="scale the vectors, or remove the row",
        )
    if metric is Metric.COSINE and short.size:
        what = "is zero, and the cosine of a zero vector does not exist"
        if lengths[short[0]]:
            what = f"has a length of {lengths[short[0]]:.3g}, whose square is lost in float32"
        raise DataError(
            f"the vector {what}" + _more(short.size - 1),
            where=f"{where}, row {first_row + int(short[0])}",
            remedy="remove the row, or use another metric",
        )


def _more(count: int) -> str:
    return f"; {count:,} more rows of the same block too" if count else ""


def without_nan(metadata: pa.Table) -> tuple[pa.Table, dict[str, int]]:
    """The same rows with missing values for NaN, which no two stores treat alike; and the number of
    NaN in each column that has any."""
    import pyarrow.compute as pc  # here: most datasets have no column of floats

    counts: dict[str, int] = {}
    for at, field in enumerate(metadata.schema):
        if pa.types.is_floating(field.type):
            column: Any = metadata.column(at)
            nan: Any = pc.is_nan(column).fill_null(False)
            if count := int(pc.sum(nan).as_py() or 0):
                counts[field.name] = count
                missing = pa.scalar(None, field.type)
                metadata = metadata.set_column(at, field, pc.if_else(nan, missing, column))
    return metadata, counts


def check_labels(parts: Sequence[Any], name: str, *, where: str) -> None:
    """Raise DataError if one of the user's own ids occurs twice, naming it and its rows.

    parts: consecutive columns of these ids, without nulls.
    """
    import pyarrow.compute as pc

    texts: Any = pa.chunked_array([chunk for part in parts for chunk in part.chunks])
    counts: Any = pc.value_counts(texts)
    twice = counts.filter(pc.greater(counts.field("counts"), pa.scalar(1)))
    if not len(twice):
        return
    value: Any = twice[0]["values"]
    equal: Any = pc.equal(texts, value)
    first, second = pc.indices_nonzero(equal).slice(0, 2).to_pylist()
    raise DataError(
        f"id '{value}' of '{name}' occurs at row {first} and at row {second}"
        + (f", and {len(twice) - 1:,} more ids occur twice" if len(twice) > 1 else ""),
        where=where,
        remedy="ids must be distinct; `--id none` numbers the rows",
    )


def check_ids(ids: NDArray[Any], *, where: str) -> None:
    """Raise DataError if an id occurs twice, naming it and its rows, or if one is negative.

    Negative numbers mean 'no row' in a `Truth`, and several stores cannot hold them.
    """
    negative = np.flatnonzero(ids < 0)
    if negative.size:
        raise DataError(
            f"id {ids[negative[0]]} is negative",
            where=f"{where}, row {negative[0]}",
            remedy="ids are 0 or more; `--id none` numbers the rows from 0",
        )
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    twice = np.flatnonzero(ordered[1:] == ordered[:-1])
    if twice.size:
        first = int(twice[0])
        raise DataError(
            f"id {ordered[first]} occurs at row {order[first]} and at row {order[first + 1]}"
            + (f", and so do {twice.size - 1} more repetitions" if twice.size > 1 else ""),
            where=where,
            remedy="ids must be distinct; `--id none` numbers the rows from 0",
        )
