"""Filters for checking a store, made from a dataset's values so that each keeps some rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from vectrial.model.filters import And, Eq, Filter, In, IsNull, Not, Or, Range, operators
from vectrial.model.schema import Field, FieldType

#: Most columns used, and most filters made from them.
MOST_COLUMNS, MOST_FILTERS = 6, 12


def conditions(
    metadata: pa.Table,
    fields: Sequence[Field],
    honoured: frozenset[str],
    rng: np.random.Generator,
) -> list[Filter]:
    """At most `MOST_FILTERS` filters over the first `MOST_COLUMNS` of `fields`, using only
    `honoured` operators. No operator that these columns allow repeats before all have occurred; the
    same holds for columns."""
    made = [
        list(_column_conditions(field, metadata.column(field.name), rng))
        for field in fields[:MOST_COLUMNS]
    ]
    simple = [where for column in made for where in column if operators(where) <= honoured]
    combined = [where for where in _combinations(simple) if operators(where) <= honoured]
    by_turns = [
        where
        for turn in range(max(map(len, made), default=0))
        for column in made
        for where in column[turn : turn + 1]
        if where in simple
    ]
    return _operators_first(by_turns + combined)[:MOST_FILTERS]


def _column_conditions(
    field: Field, column: pa.ChunkedArray[Any], rng: np.random.Generator
) -> Iterable[Filter]:
    """Conditions on one column. Each keeps the row from which its values were drawn."""
    present = column.drop_null()
    if len(present):
        yield from _comparisons(field, present, rng)
    if column.null_count:
        yield IsNull(field.name)


def _comparisons(
    field: Field, present: pa.ChunkedArray[Any], rng: np.random.Generator
) -> Iterable[Filter]:
    drawn = [present[int(at)].as_py() for at in rng.integers(0, len(present), 3)]
    if field.type is not FieldType.FLOAT:
        yield Eq(field.name, drawn[0])
    if field.type in (FieldType.INT, FieldType.FLOAT):
        values = np.asarray(present.to_numpy())
        values = np.sort(values[np.isfinite(values)])
        if len(values):
            low, high = values[len(values) // 4].item(), values[3 * len(values) // 4].item()
            yield Range(field.name, gte=low, lte=high)
            if (rare := values[int(0.99 * len(values))].item()) > values[0]:
                yield Range(field.name, gt=values[0].item(), lte=low)
                yield Range(field.name, gte=rare)
    if field.type in (FieldType.INT, FieldType.STRING):
        yield In(field.name, tuple(dict.fromkeys(drawn)))


def _combinations(simple: Sequence[Filter]) -> Iterable[Filter]:
    comparisons = [where for where in simple if not isinstance(where, IsNull)]
    if comparisons:
        yield Not(comparisons[0])
        yield And((comparisons[-1], comparisons[len(comparisons) // 2]))
        yield Or((comparisons[0], comparisons[-1]))


def _operators_first(conditions: Sequence[Filter]) -> list[Filter]:
    """The same filters in an order that puts the first of each operator before the others."""
    seen, first, rest = set[str](), list[Filter](), list[Filter]()
    for where in conditions:
        new = operators(where) - seen
        seen |= new
        (first if new else rest).append(where)
    return first + rest
