"""Checks of every block of vectors and every set of ids; messages name the row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.model.errors import DataError
from vectrial.model.metric import Metric


def check_vectors(
    block: NDArray[Any], *, dim: int | None, metric: Metric | None, first_row: int, where: str
) -> NDArray[np.float32]:
    """`block` as C-contiguous float32 (rows, dim), once it is known to be usable.

    Args:
        dim: components expected of every row; None accepts any positive number.
        metric: under cosine a zero vector is refused; None does not ask.
        first_row: the number of the block's first row in its file, for the message.
        where: the file or dataset named in the message.

    Raises:
        DataError: naming the first row with a component that is not finite as float32, or that
            is zero under cosine, or another number of components.
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
    if metric is Metric.COSINE and out.shape[0]:
        zero = np.flatnonzero(~out.any(axis=1))
        if zero.size:
            raise DataError(
                "the vector is zero, and the cosine of a zero vector does not exist",
                where=f"{where}, row {first_row + int(zero[0])}",
                remedy="remove the row, or use another metric",
            )
    return out


def check_labels(parts: Sequence[Any], name: str, *, where: str) -> None:
    """Raises DataError naming one of the user's own ids that occurs twice, and its rows.

    parts: columns of them, one after the other, without nulls.
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
    """Raises DataError naming an id that occurs twice and its rows, or one that is negative.

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
