"""Filters whose values have the types of their columns, for stores that convert nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from vectrial.filters import And, Eq, Filter, In, IsNull, Not, Or, Range, Value
from vectrial.stores.base import FieldType, Schema

_LEAST, _GREATEST = -(2**63), 2**63 - 1


def fitted(where: Filter, schema: Schema) -> Filter:
    """A filter that keeps the same rows as `where`, with integers for integer columns and
    floats for float columns: `count > 2.5` becomes `count > 2`."""
    return _fitted(where, {field.name: field.type for field in schema.fields})


def _fitted(where: Filter, types: Mapping[str, FieldType]) -> Filter:
    match where:
        case And(parts):
            return And(tuple(_fitted(part, types) for part in parts))
        case Or(parts):
            return Or(tuple(_fitted(part, types) for part in parts))
        case Not(part):
            return Not(_fitted(part, types))
        case IsNull():
            return where
        case _ if types[where.field] is FieldType.INT:
            return _integral(where)
        case _ if types[where.field] is FieldType.FLOAT:
            return _floating(where)
        case _:
            return where


def _integral(where: Eq | In | Range) -> Filter:
    match where:
        case Eq(name, value):
            return _integral(In(name, (value,))) if isinstance(value, float) else where
        case In(name, values):
            whole = tuple(v for v in map(_whole, values) if v is not None)
            if not whole:  # true of no value, and still unknown of a missing one
                return Range(name, gt=0, lt=0)
            return Eq(name, whole[0]) if len(values) == 1 else In(name, whole)
        case Range():
            up, down = math.ceil, math.floor
            return replace(
                where,
                gt=_bound(where.gt, down),
                gte=_bound(where.gte, up),
                lt=_bound(where.lt, up),
                lte=_bound(where.lte, down),
            )


def _whole(value: Value) -> Value | None:
    if not isinstance(value, float):
        return value
    return int(value) if value.is_integer() else None


def _bound(value: float | int | None, rounded: Callable[[float], int]) -> int | None:
    if value is None or isinstance(value, int):
        return value
    if math.isinf(value):
        return _GREATEST if value > 0 else _LEAST
    return rounded(value)


def _floating(where: Eq | In | Range) -> Filter:
    match where:
        case Eq(name, value):
            return Eq(name, _float(value))
        case In(name, values):
            return In(name, tuple(map(_float, values)))
        case Range():
            bounds = {
                key: float(bound)
                for key in ("gt", "gte", "lt", "lte")
                if (bound := getattr(where, key)) is not None
            }
            return Range(where.field, **bounds)


def _float(value: Value) -> Value:
    return float(value) if isinstance(value, int) else value
