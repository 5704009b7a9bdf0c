"""The filter algebra: which rows a search or a find may return.

A filter is a frozen dataclass over metadata columns. `evaluate` is the reference meaning:
ground truth and the gate use it, and every store's translation must agree with it.
Comparison with null is false, as in SQL; only `IsNull` sees null, and `Not` of a comparison
that met a null is still false for that row (three-valued logic).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, ge, gt, le, lt, or_
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.model.errors import UserError

if TYPE_CHECKING:
    import pyarrow.compute as pc

Value = int | float | str | bool


@dataclass(frozen=True)
class Eq:
    """`field == value`."""

    field: str
    value: Value


@dataclass(frozen=True)
class In:
    """`field` is one of `values` (at least one)."""

    field: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Range:
    """`field` lies within the bounds that are given; `gt`/`lt` are strict."""

    field: str
    gt: float | int | None = None
    gte: float | int | None = None
    lt: float | int | None = None
    lte: float | int | None = None

    @property
    def bounds(self) -> dict[str, float | int]:
        """The bounds that are given, by their names."""
        every = {"gt": self.gt, "gte": self.gte, "lt": self.lt, "lte": self.lte}
        return {name: bound for name, bound in every.items() if bound is not None}


@dataclass(frozen=True)
class IsNull:
    """`field` has no value in this row."""

    field: str


@dataclass(frozen=True)
class And:
    """Every part holds."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True)
class Or:
    """At least one part holds."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True)
class Not:
    """The part does not hold."""

    part: Filter


#: A condition on one column.
Leaf = Eq | In | Range | IsNull
Filter = Leaf | And | Or | Not

#: One filter for all queries, or one for each of them.
Filters = Filter | Sequence[Filter] | None

#: The operators a store may declare, by the name used in suites and in `vectrial stores`.
OPERATORS: Mapping[str, type] = {
    "eq": Eq,
    "in": In,
    "range": Range,
    "is_null": IsNull,
    "and": And,
    "or": Or,
    "not": Not,
}
_NAMES = {kind: name for name, kind in OPERATORS.items()}
#: Bounds of a range, each with its sign, and with the bound that holds where it does not.
SIGNS: Mapping[str, str] = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
OPPOSITES: Mapping[str, str] = {"gt": "lte", "gte": "lt", "lt": "gte", "lte": "gt"}


def operators(where: Filter) -> frozenset[str]:
    """Names of all operators that `where` uses."""
    match where:
        case And(parts) | Or(parts):
            return frozenset({_NAMES[type(where)]}).union(*map(operators, parts))
        case Not(part):
            return frozenset({"not"}) | operators(part)
        case _:
            return frozenset({_NAMES[type(where)]})


def fields(where: Filter) -> frozenset[str]:
    """Names of all metadata columns that `where` reads."""
    match where:
        case And(parts) | Or(parts):
            return frozenset[str]().union(*map(fields, parts))
        case Not(part):
            return fields(part)
        case _:
            return frozenset({where.field})


def renamed(where: Filter, names: Mapping[str, str]) -> Filter:
    """The filter with its columns renamed. names: new names of all columns that it reads."""
    return _map_leaves(where, lambda leaf: replace(leaf, field=names[leaf.field]))


def _map_leaves(where: Filter, change: Callable[[Leaf], Filter]) -> Filter:
    """The filter with every condition on a column changed."""
    match where:
        case And(parts) | Or(parts):
            return type(where)(tuple(_map_leaves(part, change) for part in parts))
        case Not(part):
            return Not(_map_leaves(part, change))
        case _:
            return change(where)


#: The integers of a column.
_LEAST, _GREATEST = -(2**63), 2**63 - 1


def coerce_values(where: Filter, types: Mapping[str, pa.DataType]) -> Filter:
    """A filter that keeps the same rows as `where`, with integers for integer columns and floats
    for float columns: `count > 2.5` becomes `count >= 3`, and minus zero becomes zero.

    Arrow and some stores do not compare an integer column with a float, or not exactly, and for
        some of them minus zero is less than zero.
    types: types of the columns that `where` reads.
    """

    def coerced(leaf: Leaf) -> Filter:
        if isinstance(leaf, IsNull):
            return leaf
        if pa.types.is_integer(types[leaf.field]):
            return _for_integers(leaf)
        return _for_floats(leaf) if pa.types.is_floating(types[leaf.field]) else leaf

    return _map_leaves(where, coerced)


def _for_integers(where: Eq | In | Range) -> Filter:
    match where:
        case Eq(name, value):
            found = _as_int64(value)
            return _never_true(name) if found is None else Eq(name, found)
        case In(name, values):
            whole = tuple(v for v in map(_as_int64, values) if v is not None)
            return In(name, whole) if whole else _never_true(name)
        case Range():
            return _integer_range(where)


def _never_true(name: str) -> Filter:
    """A filter that is true for no value, and still unknown for a missing value."""
    return Range(name, gt=0, lt=0)


def _as_int64(value: Value) -> Value | None:
    """The value as a column's integer, None if no integer equals it; a non-number stays."""
    if isinstance(value, bool | str):
        return value
    if isinstance(value, float) and not value.is_integer():
        return None
    return int(value) if _LEAST <= value <= _GREATEST else None


def _integer_range(where: Range) -> Filter:
    if any(map(math.isnan, where.bounds.values())):
        return _never_true(where.field)
    low = high = None
    if where.gt is not None:
        low = math.floor(_clamp(where.gt)) + 1
    if where.gte is not None:
        least = math.ceil(_clamp(where.gte))
        low = least if low is None else max(low, least)
    if where.lt is not None:
        high = math.ceil(_clamp(where.lt)) - 1
    if where.lte is not None:
        most = math.floor(_clamp(where.lte))
        high = most if high is None else min(high, most)
    if (low is not None and low > _GREATEST) or (high is not None and high < _LEAST):
        return _never_true(where.field)
    return Range(
        where.field,
        gte=None if low is None else max(low, _LEAST),
        lte=None if high is None else min(high, _GREATEST),
    )


def _clamp(bound: float | int) -> float | int:
    """The bound, or the first integer beyond the range of a column if the bound lies outside."""
    return min(max(bound, _LEAST - 1), _GREATEST + 1)


def for_float64(value: int) -> int:
    """Replacement for `value` in a store that reads it as a float64. It keeps the order with every
    integer up to ±2^53, and beyond that as far as possible: ±(2^53 + 1), which float64 lacks,
    would be taken for ±2^53."""
    if abs(value) != 2**53 + 1:
        return value
    return value + (1 if value > 0 else -1)


def _for_floats(where: Eq | In | Range) -> Filter:
    match where:
        case Eq(name, value):
            return Eq(name, _float(value))
        case In(name, values):
            equal = tuple(v for v in map(_float, values) if v == v)  # NaN equals nothing
            return In(name, equal) if equal else _never_true(name)
        case Range():
            bounds = {key: float(bound) + 0.0 for key, bound in where.bounds.items()}
            return Range(where.field, **bounds)


def _float(value: Value) -> Value:
    return value if isinstance(value, bool | str) else float(value) + 0.0


def _expression(where: Filter) -> pc.Expression:
    import pyarrow.compute as pc

    match where:
        case Eq(name, value):
            return pc.field(name) == pc.scalar(value)
        case In(name, values):
            alike = [[v for v in values if type(v) is kind] for kind in set(map(type, values))]
            return reduce(or_, (_is_in(pc.field(name), one) for one in alike))
        case Range():
            column = pc.field(where.field)
            compare = {"gt": gt, "gte": ge, "lt": lt, "lte": le}
            bounds = where.bounds.items()
            every = (compare[key](column, pc.scalar(bound)) for key, bound in bounds)
            both: pc.Expression = reduce(and_, every)
            return both
        case IsNull(name):
            return pc.field(name).is_null()
        case And(parts) | Or(parts):
            return reduce(and_ if isinstance(where, And) else or_, map(_expression, parts))
        case Not(part):
            return ~_expression(part)


def _is_in(column: pc.Expression, values: list[Any]) -> pc.Expression:
    """An expression that is true if the column has one of these values of one type. A chain of
    comparisons would be too deep for Arrow, which ends the process at some ten thousand."""
    import pyarrow.compute as pc

    # Null is in no set: isin answers false for it, which Not would turn into true. A comparison
    # with any of them is unknown for it, and refuses what cannot be compared.
    comparison = column == pc.scalar(values[0])
    if isinstance(values[0], float):
        column = column + pc.scalar(0.0)  # minus zero is in no set that has zero
    return comparison | column.isin(pa.array(values))


def evaluate(where: Filter, metadata: pa.Table) -> NDArray[np.bool_]:
    """Mask (n,) of the rows of `metadata` (n rows) that `where` keeps.

    Raises:
        UserError: a column is missing or its type cannot be compared with the value.
    """
    missing = fields(where) - set(metadata.column_names)
    if missing:
        raise UserError(
            f"the filter reads column '{min(missing)}', which the dataset does not have",
            remedy=f"it has: {', '.join(metadata.column_names) or 'no metadata'}",
        )
    where = coerce_values(where, {name: metadata.schema.field(name).type for name in fields(where)})
    # Rows that pass are copied, with whatever columns there are. A column may have any name.
    names = {name: f"f{at}" for at, name in enumerate(sorted(fields(where)))}
    read = metadata.select(list(names)).rename_columns(list(names.values()))
    table = read.append_column("row", pa.array(np.arange(metadata.num_rows)))
    try:
        kept = table.filter(_expression(renamed(where, names))).column("row").to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UserError(f"the filter {to_json(where)} cannot be applied: {error}") from error
    mask = np.zeros(metadata.num_rows, dtype=bool)
    mask[kept] = True
    return mask


def _to_plain(where: Filter) -> dict[str, Any]:
    match where:
        case Eq(name, value):
            return {"eq": {name: value}}
        case In(name, values):
            return {"in": {name: list(values)}}
        case Range():
            return {"range": {where.field: where.bounds}}
        case IsNull(name):
            return {"is_null": name}
        case And(parts) | Or(parts):
            return {_NAMES[type(where)]: [_to_plain(part) for part in parts]}
        case Not(part):
            return {"not": _to_plain(part)}


def to_json(where: Filter) -> str:
    """The canonical text form of `where`, as used in keys and files."""
    return json.dumps(_to_plain(where), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


#: Levels of the plain form of a filter: an operator, a list and a column each are one.
MOST_DEPTH = 100


def parse(value: Any, *, path: str = "filter") -> Filter:
    """A filter from its plain form (as in TOML or JSON): `{"eq": {"colour": "red"}}`,
    `{"and": [...]}`, `{"range": {"year": {"gte": 2020}}}`, `{"is_null": "year"}`.

    Raises:
        UserError: naming the place within the filter and what was expected there.
    """
    _check_depth(value, path)
    return _parse(value, path)


def _check_depth(value: Any, path: str) -> None:
    """Raise if a plain filter is nested deeper than `MOST_DEPTH`."""
    level: list[Any] = [value]
    for _ in range(MOST_DEPTH):
        level = [
            part
            for one in level
            if isinstance(one, Mapping | list)
            for part in (one.values() if isinstance(one, Mapping) else one)
        ]
        if not level:
            return
    raise UserError(f"a filter is nested at most {MOST_DEPTH} deep", where=path)


def _parse(value: Any, path: str) -> Filter:
    if not isinstance(value, Mapping) or len(value) != 1:
        raise UserError(
            "a filter is one operator with its argument",
            where=path,
            remedy=f"one of {', '.join(OPERATORS)}, as {{eq = {{colour = 'red'}}}}",
        )
    ((name, argument),) = value.items()
    path = f"{path}.{name}"
    match name:
        case "and" | "or":
            if not isinstance(argument, list) or not argument:
                raise UserError("expected a list of at least one filter", where=path)
            parts = tuple(_parse(part, f"{path}[{i}]") for i, part in enumerate(argument))
            return And(parts) if name == "and" else Or(parts)
        case "not":
            return Not(_parse(argument, path))
        case "is_null":
            if not isinstance(argument, str):
                raise UserError("expected a column name", where=path)
            return IsNull(argument)
        case "eq" | "in" | "range":
            if not isinstance(argument, Mapping) or len(argument) != 1:
                raise UserError("expected one column with its value", where=path)
            ((column, operand),) = argument.items()
            return _comparison(name, str(column), operand, f"{path}.{column}")
        case _:
            raise UserError(
                f"'{name}' is not a filter operator",
                where=path,
                remedy=f"one of {', '.join(OPERATORS)}",
            )


def _comparison(name: str, column: str, operand: Any, path: str) -> Filter:
    if name == "eq":
        if not isinstance(operand, Value):
            raise UserError("expected a number, text or true/false", where=path)
        return Eq(column, operand)
    if name == "in":
        if not isinstance(operand, list) or not operand:
            raise UserError("expected a list of at least one value", where=path)
        if not all(isinstance(item, Value) for item in operand):
            raise UserError("every value must be a number, text or true/false", where=path)
        return In(column, tuple(operand))
    if not isinstance(operand, Mapping) or not operand or not set(operand) <= SIGNS.keys():
        raise UserError("expected bounds among gt, gte, lt, lte", where=path)
    for key, bound in operand.items():
        if isinstance(bound, bool) or not isinstance(bound, int | float):
            raise UserError("expected a number", where=f"{path}.{key}")
    return Range(column, **operand)
