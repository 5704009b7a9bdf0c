"""Conversions between the Arrow batches of the `Store` interface and numpy arrays, without
copies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.model.errors import StoreError
from vectrial.model.schema import Schema

ID, VECTOR = "id", "vector"


def check(batch: pa.RecordBatch, schema: Schema) -> None:
    """Raise `StoreError` if a batch's layout differs from the collection's.

    Only schemas are compared, so the cost does not depend on the batch's size.
    """
    expected = schema.arrow()
    if batch.schema.equals(expected):
        return
    fields = {column: field for field, column in schema.columns.items()}
    for column in expected:
        found = batch.schema.field(column.name) if column.name in batch.schema.names else None
        if found is None or found.type != column.type:
            kind = found.type if found is not None else "missing"
            raise StoreError(
                f"the batch does not fit the collection: column"
                f" '{fields.get(column.name, column.name)}' is {kind}, expected {column.type}"
            )
    if batch.schema.names != expected.names:
        raise StoreError(
            f"the batch has columns {', '.join(batch.schema.names)}; expected,"
            f" in this order, {', '.join(expected.names)}"
        )


def ids_of(batch: pa.RecordBatch | pa.Table) -> NDArray[np.int64]:
    """The ids, int64 (n,); a view for a record batch."""
    return np.asarray(batch.column(ID).to_numpy(), dtype=np.int64)


def vectors_of(batch: pa.RecordBatch | pa.Table) -> NDArray[np.float32]:
    """The vectors, float32 (n, d), C-contiguous; a read-only view for a record batch."""
    column: Any = batch.column(VECTOR)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    dim = column.type.list_size
    return np.asarray(column.flatten().to_numpy(), dtype=np.float32).reshape(-1, dim)


def metadata_of(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """The metadata columns under the names of their fields; none when there is no metadata."""
    columns = [batch.column(name) for name in schema.columns.values()]
    return pa.RecordBatch.from_arrays(columns, names=list(schema.columns))


def columns_of(batch: pa.RecordBatch | pa.Table, schema: Schema) -> dict[str, list[Any]]:
    """The metadata as Python values, by field; None if a value is missing."""
    return {field: batch.column(name).to_pylist() for field, name in schema.columns.items()}


def row_values(
    batch: pa.RecordBatch, schema: Schema, *, missing: bool = False
) -> list[dict[str, Any]]:
    """The metadata of each row, by column (`f0`, `f1`, …). missing: keep missing values as None;
    else leave them out.

    Minus zero becomes zero. The two are equal, but not to every store: Lucene sorts minus zero
    below zero, Weaviate 1.35 below every other number.
    """
    names = schema.columns.values()
    if not names:
        return [{} for _ in range(batch.num_rows)]
    cells = zip(*(_unsigned_zeros(batch.column(name)) for name in names), strict=True)
    rows = (zip(names, row, strict=True) for row in cells)
    return [{name: value for name, value in row if missing or value is not None} for row in rows]


def _unsigned_zeros(column: pa.Array[Any]) -> list[Any]:
    if pa.types.is_floating(column.type):
        import pyarrow.compute as pc

        column = pc.add(column, 0.0)
    return column.to_pylist()


def batch_of(
    schema: Schema,
    ids: NDArray[np.int64],
    vectors: NDArray[np.float32],
    columns: Mapping[str, pa.Array[Any] | Sequence[Any]],
) -> pa.RecordBatch:
    """A batch in the layout of `schema`, from ids (n,), vectors (n, d), and a column for each field
    by the field's name."""
    flat = np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1)
    arrow = schema.arrow()
    vector = pa.FixedSizeListArray.from_arrays(pa.array(flat), type=arrow.field(VECTOR).type)
    metadata = [
        value
        if isinstance(value := columns[field], pa.Array)
        else pa.array(value, arrow.field(name).type)
        for field, name in schema.columns.items()
    ]
    return pa.RecordBatch.from_arrays([pa.array(ids), vector, *metadata], schema=arrow)


def batch_of_rows(
    schema: Schema,
    ids: Sequence[int] | NDArray[np.int64],
    vectors: Sequence[Any] | NDArray[np.float32],
    rows: Sequence[Mapping[str, Any]],
    names: Mapping[str, str] | None = None,
) -> pa.RecordBatch:
    """A batch (see `batch_of`) from the vector and the metadata of each row. Metadata is by column;
    missing values are None or absent.

    names: fields → their keys in `rows`; by default the schema's column names.
    """
    names = schema.columns if names is None else names
    return batch_of(
        schema,
        np.asarray(ids, np.int64),
        np.array(vectors, np.float32).reshape(-1, schema.dim),
        {field: [row.get(name) for row in rows] for field, name in names.items()},
    )


def batch_of_columns(schema: Schema, found: pa.RecordBatch) -> pa.RecordBatch:
    """A batch (see `batch_of`) from one whose columns are in any order, with or without others."""
    columns = {field: found.column(name) for field, name in schema.columns.items()}
    return batch_of(schema, ids_of(found), vectors_of(found), columns)


def slices(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    """The batch in parts of at most `rows` rows."""
    return (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))


def id_pages(ids: NDArray[np.int64], size: int) -> Iterator[list[int]]:
    """The ids in lists of at most `size`."""
    return (ids[start : start + size].tolist() for start in range(0, len(ids), size))


def get_pages(
    schema: Schema,
    ids: NDArray[np.int64],
    size: int,
    read: Callable[[list[int]], pa.RecordBatch],
) -> pa.Table:
    """The rows that `read` returns for each page of at most `size` distinct ids, as one table."""
    return table_of(schema, map(read, id_pages(np.unique(ids), size)))


def table_of(schema: Schema, batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """One table in the layout of `schema`, from any number of batches."""
    return pa.Table.from_batches(list(batches), schema=schema.arrow())
