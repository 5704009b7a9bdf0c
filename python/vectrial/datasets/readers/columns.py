"""From table columns to a block: which hold vectors, which ids, which metadata and as what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.datasets.readers.base import Block, Options, choose
from vectrial.errors import DataError, UserError
from vectrial.nearest import suggestion

#: Names that columns of vectors usually have, where a table has several that could be.
USUAL_VECTORS = ("emb", "embedding", "embeddings", "vector", "vectors", "openai")


@dataclass(frozen=True)
class Plan:
    """What to take from a table.

    vectors: the column of lists. ids: the integer column of ids, or None.
    schema: the metadata columns as they are stored, int64, float64, string or bool.
    notes: what was decided or left out, a sentence each.
    """

    vectors: str
    ids: str | None
    schema: pa.Schema
    notes: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """All columns to read, each once."""
        names = [self.vectors, *([self.ids] if self.ids else []), *self.schema.names]
        return list(dict.fromkeys(names))


def plan_columns(schema: pa.Schema, options: Options, where: str) -> Plan:
    """Decide what to take from a table of that schema.

    Raises:
        UserError: a column that was asked for is not there or cannot be used as asked.
        DataError: two columns have the same name.
    """
    names: list[str] = schema.names
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"two columns are named '{twice}'", where=where)
    vectors = choose(
        options.vectors,
        [field.name for field in schema if is_vector(field.type)],
        usual=USUAL_VECTORS,
        what="column of vectors (lists of numbers)",
        where=where,
    )
    notes: list[str] = []
    ids = _plan_ids(schema, options.ids, where, notes)
    kept, skipped = [], []
    for name in _wanted(names, options.keep, where):
        if name in (vectors, ids):
            continue
        stored = stored_type(schema.field(name).type)
        if stored is None:
            skipped.append(f"{name} ({schema.field(name).type})")
        else:
            kept.append(pa.field(name, stored))
            notes.extend(_unit(name, schema.field(name).type))
    if skipped:
        if options.keep is not None:
            raise UserError(
                f"column {skipped[0]} cannot be kept",
                where=where,
                remedy="numbers, text, true/false and times can",
            )
        notes.append(f"columns left out, of types that no filter reads: {', '.join(skipped)}")
    return Plan(vectors, ids, pa.schema(kept), tuple(notes))


def _plan_ids(schema: pa.Schema, wanted: str | None, where: str, notes: list[str]) -> str | None:
    names: list[str] = schema.names
    if wanted is None:
        return "id" if "id" in names and pa.types.is_integer(schema.field("id").type) else None
    if wanted not in names:
        raise _unknown(wanted, names, where)
    kind = schema.field(wanted).type
    if pa.types.is_integer(kind):
        return wanted
    if _is_text(kind):
        notes.append(f"'{wanted}' is text: rows are numbered from 0, and it is kept as metadata")
        return None
    raise UserError(f"'{wanted}' is {kind}, ids are integers", where=where)


def _wanted(names: list[str], keep: tuple[str, ...] | None, where: str) -> Sequence[str]:
    for name in keep or ():
        if name not in names:
            raise _unknown(name, names, where)
    return names if keep is None else list(dict.fromkeys(keep))


def _unknown(wanted: str, names: list[str], where: str) -> UserError:
    return UserError(
        f"there is no column '{wanted}'", where=where, remedy=suggestion(wanted, names)
    )


def is_vector(kind: pa.DataType) -> bool:
    """Whether a column of that type can hold vectors: lists of real numbers."""
    if not (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    ):
        return False
    item: pa.DataType = kind.value_type
    return pa.types.is_floating(item) or pa.types.is_integer(item)


def _is_text(kind: pa.DataType) -> bool:
    return (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def stored_type(kind: pa.DataType) -> pa.DataType | None:
    """What a column of `kind` is kept as: int64, float64, string or bool; None if it cannot be."""
    if pa.types.is_dictionary(kind):
        return stored_type(kind.value_type)
    if pa.types.is_boolean(kind):
        return pa.bool_()
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        # An interval of months and days is no number.
        return None if pa.types.is_interval(kind) else pa.int64()
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return pa.float64()
    return pa.string() if _is_text(kind) else None


def _unit(name: str, kind: pa.DataType) -> list[str]:
    if not pa.types.is_temporal(kind) or pa.types.is_interval(kind):
        return []
    if pa.types.is_date32(kind):
        return [f"'{name}' ({kind}) is kept as days since 1970"]
    unit = "ms" if pa.types.is_date64(kind) else str(getattr(kind, "unit", "s"))
    return [f"'{name}' ({kind}) is kept as an integer, in {unit}"]


def block_of(batch: pa.RecordBatch, plan: Plan, dim: int, first_row: int, where: str) -> Block:
    """The rows of a batch as vectors (r, dim), ids and metadata.

    Args:
        first_row: number of the batch's first row in its file, for messages.

    Raises:
        DataError: naming the row whose vector or id is missing or does not fit.
    """
    vectors = matrix_of(batch.column(plan.vectors), dim, first_row, where)
    ids = None if plan.ids is None else ids_of(batch.column(plan.ids), plan.ids, first_row, where)
    if not plan.schema.names:
        return Block(vectors, ids)
    columns = [
        stored_column(batch.column(field.name), field, first_row, where) for field in plan.schema
    ]
    return Block(vectors, ids, pa.Table.from_arrays(columns, schema=plan.schema))


def matrix_of(column: Any, dim: int, first_row: int, where: str) -> NDArray[Any]:
    """A list column as a matrix (rows, dim), every list having exactly `dim` numbers."""
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise DataError("the vector is missing (null)", where=f"{where}, row {first_row + row}")
    if not pa.types.is_fixed_size_list(column.type):
        lengths = np.diff(column.offsets.to_numpy())
        other = np.flatnonzero(lengths != dim)
        if other.size:
            row = int(other[0])
            raise DataError(
                f"the vector has {lengths[row]} components where the first has {dim}",
                where=f"{where}, row {first_row + row}",
                remedy="every vector must have the same number of components",
            )
    flat = column.flatten()
    if flat.null_count:
        at = int(np.flatnonzero(flat.is_null().to_numpy(zero_copy_only=False))[0])
        raise DataError(
            f"component {at % dim} is missing (null)", where=f"{where}, row {first_row + at // dim}"
        )
    values: NDArray[Any] = flat.to_numpy(zero_copy_only=False)
    return values.reshape(len(column), dim)


def ids_of(column: Any, name: str, first_row: int, where: str) -> NDArray[np.int64]:
    """An integer column as int64 ids."""
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise DataError(f"id '{name}' is missing (null)", where=f"{where}, row {first_row + row}")
    try:
        ids: NDArray[np.int64] = column.cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid as error:
        raise DataError(
            f"an id in '{name}' does not fit in 64 signed bits: {error}",
            where=f"{where}, rows from {first_row}",
        ) from error
    return ids


def stored_column(column: Any, field: pa.Field[Any], first_row: int, where: str) -> Any:
    """A column cast to the type it is stored as; see `stored_type`."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_date32(column.type) or pa.types.is_time32(column.type):
        column = column.cast(pa.int32())
    # Whole numbers beyond 2^53 lose digits as float64, but only decimals take that way.
    safe = not (pa.types.is_decimal(column.type) or pa.types.is_floating(column.type))
    try:
        return column.cast(field.type, safe=safe)
    except pa.ArrowInvalid as error:
        raise DataError(
            f"column '{field.name}' ({column.type}) does not fit in {field.type}: {error}",
            where=f"{where}, rows from {first_row}",
        ) from error
