"""Metadata columns of a collection: their types, and which of them are indexed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from vectrial.model.metric import Metric

if TYPE_CHECKING:
    pass


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
    for a full-text index of a string column, for `hybrid_searcher`; where a store has one index of
    a column or the other, filters on such a column need not hold.

    partitions: rows are stored apart by this column, where the store declares it.
    missing: some rows have no value. longest: bytes of the longest text, as UTF-8. Both of the rows
    that are loaded first, for stores that have limits."""

    name: str
    type: FieldType
    indexed: bool = True
    text: bool = False
    partitions: bool = False
    missing: bool = False
    longest: int = 0


@dataclass(frozen=True)
class Schema:
    """Layout of the rows: vectors of `dim` float32 under `metric`, int64 ids, metadata `fields`."""

    dim: int
    metric: Metric
    fields: tuple[Field, ...] = ()

    @cached_property
    def columns(self) -> Mapping[str, str]:
        """Names of fields → names of their columns in batches: `f0`, `f1`, …. A field may have any
        name, also `id` or `vector`; its column in a batch, and in most stores, never collides."""
        return {field.name: f"f{at}" for at, field in enumerate(self.fields)}

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
