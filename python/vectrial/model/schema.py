"""Metadata columns of a collection: their types, and which of them are indexed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import pyarrow as pa

from vectrial.model.metric import Metric


class FieldType(StrEnum):
    """The types of metadata columns."""

    INT = "int"  # int64
    FLOAT = "float"  # float64
    STRING = "string"
    BOOL = "bool"


ARROW_TYPES: Mapping[FieldType, pa.DataType] = {
    FieldType.INT: pa.int64(),
    FieldType.FLOAT: pa.float64(),
    FieldType.STRING: pa.string(),
    FieldType.BOOL: pa.bool_(),
}


@dataclass(frozen=True)
class Field:
    """A metadata column. `indexed` asks for a payload index where the store can choose. `text` asks
    for a full-text index of a string column, for `hybrid_searcher`; if a store allows only one kind
    of index per column, filters on such a column need not hold.

    partitions: rows are stored apart by this column, if the store declares it.
    missing: some rows have no value. longest: bytes of the longest text, as UTF-8. nul_row: the
        first row whose text has a U+0000. spaced_row: the first row whose text has white space at
        an end. largest: magnitude of the whole number that is farthest from 0. All five describe
        the rows that are loaded first, for stores that have limits.
    """

    name: str
    type: FieldType
    indexed: bool = True
    text: bool = False
    partitions: bool = False
    missing: bool = False
    longest: int = 0
    nul_row: int | None = None
    spaced_row: int | None = None
    largest: int = 0


@dataclass(frozen=True)
class Schema:
    """Layout of the rows: vectors of `dim` float32 under `metric`, int64 ids, metadata `fields`.

    norms: lengths of the shortest and of the longest vector among queries and the rows that are
        loaded first, for stores that have limits; None if they are not known.
    """

    dim: int
    metric: Metric
    fields: tuple[Field, ...] = ()
    norms: tuple[float, float] | None = None

    @cached_property
    def columns(self) -> Mapping[str, str]:
        """Names of fields → names of their columns in batches: `f0`, `f1`, …. A field may have any
        name, even `id` or `vector`; its column in a batch, and in most stores, never collides."""
        return {field.name: f"f{at}" for at, field in enumerate(self.fields)}

    @cached_property
    def types(self) -> Mapping[str, FieldType]:
        """Types of the fields, by name."""
        return {field.name: field.type for field in self.fields}

    def arrow(self) -> pa.Schema:
        """The schema of the batches given to `insert` and returned by `get` and `scan`:
        `id` int64, `vector` fixed_size_list<float32>[dim], then the fields (nullable), under the
        names in `columns`."""
        vector = pa.list_(pa.field("item", pa.float32(), nullable=False), self.dim)
        return pa.schema(
            [
                pa.field("id", pa.int64(), nullable=False),
                pa.field("vector", vector, nullable=False),
                *(pa.field(self.columns[f.name], ARROW_TYPES[f.type]) for f in self.fields),
            ]
        )


def fields_of_columns(columns: pa.Table) -> tuple[Field, ...]:
    """Metadata columns, of the types in `ARROW_TYPES`, as fields with the figures that stores may
    limit."""
    kinds = {arrow: kind for kind, arrow in ARROW_TYPES.items()}
    return tuple(
        Field(
            column.name,
            kinds[column.type],
            missing=columns.column(column.name).null_count > 0,
            longest=_longest(columns.column(column.name)),
            nul_row=_first_row(columns.column(column.name), "\0"),
            spaced_row=_first_row(columns.column(column.name), r"^[\s\pZ]|[\s\pZ]$"),
            largest=_largest_integer(columns.column(column.name)),
        )
        for column in columns.schema
    )


def _longest(column: Any) -> int:
    """Length of the longest text in a column, in bytes as UTF-8; 0 for other columns."""
    if not pa.types.is_string(column.type):
        return 0
    import pyarrow.compute as pc

    return int(pc.max(pc.binary_length(column)).as_py() or 0)


def _first_row(column: Any, pattern: str) -> int | None:
    """The first row of a column whose text matches this regular expression, or None if there is
    none."""
    if not pa.types.is_string(column.type):
        return None
    import pyarrow.compute as pc

    matches = pc.match_substring_regex(column, pattern)
    rows: Any = pc.indices_nonzero(pc.fill_null(matches, False))
    return int(rows[0].as_py()) if len(rows) else None


def _largest_integer(column: Any) -> int:
    """Magnitude of the whole number in a column that is farthest from 0; 0 for other columns."""
    if not pa.types.is_integer(column.type):
        return 0
    import pyarrow.compute as pc

    ends: Any = pc.min_max(column).as_py()
    return max((abs(end) for end in ends.values() if end is not None), default=0)
