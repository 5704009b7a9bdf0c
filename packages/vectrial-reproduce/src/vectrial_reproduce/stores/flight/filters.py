"""Filters as Longbow's Flight protocol writes them: a JSON list whose members must all hold.

A comparison is `{"field": f, "operator": o, "value": v}` with `==`, `>`, `>=`, `<` or `<=`, and
numbers and text as values: that much is Longbow's. What the rest of the filter algebra needs is
written as Longbow's own parser reads it, `{"logic": "OR", "filters": […]}`, though version 987003c
answers it with no rows; `NOT`, the operators `in` and `is_null` and booleans are ours, of the
reference server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vectrial.model.errors import UserError
from vectrial.model.filters import And, Eq, Filter, In, IsNull, Not, Or, Range, Value

_BOUNDS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
#: Every name of an operator, as the algebra's bound or comparison.
_OPERATORS = {
    **{symbol: bound for bound, symbol in _BOUNDS.items()},
    **{"gt": "gt", "ge": "gte", "lt": "lt", "le": "lte"},
    **{"==": "eq", "=": "eq", "eq": "eq", "!=": "neq", "neq": "neq"},
    **{"in": "in", "is_null": "is_null"},
}


def to_members(where: Filter) -> list[dict[str, Any]]:
    """The filter as a list for JSON."""
    match where:
        case And(parts):
            return [member for part in parts for member in to_members(part)]
        case Or(parts):
            return [{"logic": "OR", "filters": [_to_member(part) for part in parts]}]
        case Not(part):
            return [{"logic": "NOT", "filters": [_to_member(part)]}]
        case Eq(name, value):
            return [_comparison(name, "==", value)]
        case In(name, values):
            return [_comparison(name, "in", list(values))]
        case IsNull(name):
            return [_comparison(name, "is_null", True)]
        case Range():
            bounds = {symbol: getattr(where, bound) for bound, symbol in _BOUNDS.items()}
            return [
                _comparison(where.field, symbol, value)
                for symbol, value in bounds.items()
                if value is not None
            ]


def _comparison(field: str, operator: str, value: Any) -> dict[str, Any]:
    return {"field": field, "operator": operator, "value": value}


def _to_member(where: Filter) -> dict[str, Any]:
    """The filter as a single member of such a list."""
    members = to_members(where)
    return members[0] if len(members) == 1 else {"logic": "AND", "filters": members}


def from_members(members: Any) -> Filter | None:
    """The filter that a list describes; None for an empty list.

    Raises:
        UserError: it is not such a list.
    """
    if not isinstance(members, Sequence) or isinstance(members, str):
        raise UserError("filters are a list")
    parts = tuple(_read_one(member) for member in members)
    if len(parts) < 2:
        return parts[0] if parts else None
    return And(parts)


def _read_one(member: Any) -> Filter:
    if not isinstance(member, Mapping):
        raise UserError(
            f"'{member}' is no filter", remedy='{"field": …, "operator": …, "value": …}'
        )
    if "logic" in member:
        return _read_logic(str(member["logic"]).upper(), member.get("filters"))
    field, value = member.get("field"), member.get("value")
    name = str(member.get("operator", member.get("op", ""))).lower()
    if not isinstance(field, str):
        raise UserError("a filter names no field", remedy='{"field": …, "operator": …, "value": …}')
    match _OPERATORS.get(name):
        case None:
            raise UserError(f"'{name}' is no operator", remedy=f"one of {', '.join(_OPERATORS)}")
        case "is_null":
            return IsNull(field)
        case "in":
            if not isinstance(value, list) or not value:
                raise UserError("'in' takes a list of values", where=field)
            return In(field, tuple(_value(field, one) for one in value))
        case "eq":
            return Eq(field, _value(field, value))
        case "neq":
            return Not(Eq(field, _value(field, value)))
        case bound:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise UserError(f"'{name}' takes a number, not {value!r}", where=field)
            return Range(field, **{bound: value})


def _read_logic(logic: str, members: Any) -> Filter:
    if not isinstance(members, list) or not members:
        raise UserError(f"'{logic}' takes a list of filters")
    parts = tuple(map(_read_one, members))
    match logic:
        case "AND":
            return And(parts)
        case "OR":
            return Or(parts)
        case "NOT" if len(parts) == 1:
            return Not(parts[0])
        case _:
            raise UserError(f"'{logic}' is no logic", remedy="AND, OR, or NOT with one filter")


def _value(field: str, value: Any) -> Value:
    if not isinstance(value, Value):
        raise UserError(f"{value!r} is neither a number nor text nor a boolean", where=field)
    return value
