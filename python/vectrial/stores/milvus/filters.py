"""Conditions as Milvus expressions, for the server and for Milvus Lite."""

from __future__ import annotations

import json
from collections.abc import Mapping

from vectrial.model.filters import (
    OPPOSITES,
    SIGNS,
    And,
    Eq,
    Filter,
    In,
    IsNull,
    Not,
    Or,
    Range,
    Value,
)

#: Milvus reads the digits before the sign, and as a positive number they overflow.
_LEAST = -(2**63)
#: Characters that must be escaped in a literal of text. Milvus Lite knows no escapes for other
#: control characters.
_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r"})


def expression(where: Filter, names: Mapping[str, str], *, holds: bool = True) -> str:
    """The expression that is true where `where` is true (`holds`), or where it is false and not
    unknown. Negation is pushed down, because `not` of `in` keeps the rows without a value.

    where: a filter whose values have the types of their columns. names: columns → fields.
    """
    match where:
        case Not(part):
            return expression(part, names, holds=not holds)
        case And(parts) | Or(parts):
            word = " and " if isinstance(where, And) is holds else " or "
            return "(" + word.join(expression(part, names, holds=holds) for part in parts) + ")"
        case IsNull(column):
            return f"({names[column]} is {'' if holds else 'not '}null)"
        case Eq(column, value):
            return f"({names[column]} {'==' if holds else '!='} {_literal(value)})"
        case In(column, values):
            if holds:
                return f"({names[column]} in [{', '.join(map(_literal, values))}])"
            unequal = (f"{names[column]} != {_literal(value)}" for value in values)
            return f"({' and '.join(unequal)})"
        case Range():
            bounds = [
                f"{names[where.field]} {SIGNS[key if holds else OPPOSITES[key]]} {_literal(bound)}"
                for key, bound in where.bounds.items()
            ]
            return "(" + (" and " if holds else " or ").join(bounds) + ")"


def _literal(value: Value) -> str:
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"'
    if value == _LEAST and isinstance(value, int):
        return f"({_LEAST + 1} - 1)"
    return json.dumps(value)
