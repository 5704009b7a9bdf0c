"""Columns of a matrix of vectors: arrays that lie beside it in one file of HDF5 or npz."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from vectrial.datasets.readers.base import Block, ReaderOptions, VectorSource
from vectrial.datasets.readers.columns import ids_of, listed, odd_ids, plan_columns, stored_column


@dataclass(frozen=True)
class SideColumns:
    """Arrays that lie beside a matrix of vectors, with a value for each of its rows.

    kinds: name → type. read: reads the values of one array for the rows from `start` to `stop`.
    others: names of arrays that are left out.
    """

    kinds: Mapping[str, pa.DataType]
    read: Callable[[str, int, int], Any]
    others: Sequence[str] = ()


def with_columns(
    source: VectorSource, vectors: str, side: SideColumns, options: ReaderOptions
) -> VectorSource:
    """A source with the arrays beside its vectors as metadata, or as ids.

    Raises:
        UserError: a requested column does not exist or cannot be used as requested.
    """
    notes = [f"left out: {listed(side.others)}"] if side.others else []
    if not side.kinds:
        return replace(source, notes=(*source.notes, *notes))
    where, kind = str(source.path), pa.list_(pa.float32(), source.dim)
    schema = pa.schema([pa.field(vectors, kind), *(pa.field(*one) for one in side.kinds.items())])
    options = replace(options, vectors=vectors)
    if options.ids is None and "ids" in side.kinds and pa.types.is_integer(side.kinds["ids"]):
        options = replace(options, ids="ids")
    plan = plan_columns(schema, options, where)
    if plan.ids is not None:
        column = [_array(side.read(plan.ids, 0, source.rows))]
        if (odd := odd_ids(column, side.kinds[plan.ids])) is not None:
            plan = plan_columns(schema, options, where, odd_ids=odd)

    def read(step: int) -> Iterator[Block]:
        at = 0
        for block in source.read(step):
            stop = at + len(block.vectors)
            ids = None
            if plan.ids is not None:
                ids = ids_of(_array(side.read(plan.ids, at, stop)), plan.ids, at, where)
            columns = [
                stored_column(_array(side.read(field.name, at, stop)), field, at, where)
                for field in plan.schema
            ]
            table = pa.Table.from_arrays(columns, schema=plan.schema) if columns else None
            yield Block(block.vectors, ids, table)
            at = stop

    return replace(
        source,
        read=read,
        columns=tuple(plan.schema.names),
        has_ids=plan.ids is not None,
        labels=plan.labels,
        notes=(*source.notes, *plan.notes, *notes),
    )


def column_type(dtype: np.dtype[Any]) -> pa.DataType:
    """The Arrow type of a column of numbers or booleans."""
    return pa.from_numpy_dtype(dtype.newbyteorder("="))


def _array(values: Any) -> Any:
    """Values of a file converted for Arrow, in this machine's byte order."""
    array = np.asarray(values)
    return pa.array(
        array.astype(array.dtype.newbyteorder("=")) if array.dtype.kind in "iuf" else array
    )
