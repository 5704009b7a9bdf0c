"""Filters as SQL, for every store that speaks SQL.

`condition` gives a WHERE condition with placeholders and the values for them, for drivers that
bind; `literal` gives the same condition with the values written out and quoted, for engines
that take a filter only as text. SQL's three-valued logic is that of `vectrial.model.filters`: a
comparison with null is unknown, its negation too, and a row is kept only where the whole
condition is true.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from vectrial.model.filters import SIGNS, And, Eq, Filter, In, IsNull, Not, Or, Range, Value
from vectrial.model.schema import FieldType


def quoted(name: str) -> str:
    """A column or table name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def condition(
    where: Filter, quote: Callable[[str], str] = quoted, placeholder: str = "?"
) -> tuple[str, list[Value]]:
    """`where` as an SQL condition and the values to bind, in the order of the placeholders."""
    values: list[Value] = []

    def bind(value: Value) -> str:
        values.append(value)
        return placeholder

    return _translate(where, quote, bind), values


#: SQL reads the digits before the sign, and as a positive number they overflow.
_LEAST = -(2**63)


def literal(where: Filter, quote: Callable[[str], str] = quoted) -> str:
    """`where` as an SQL condition with its values written out."""
    return _translate(where, quote, literal_value)


def literal_value(value: Value) -> str:
    """A value as an SQL literal."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if not math.isfinite(value):
        raise ValueError(f"{value} cannot be written as an SQL number")
    if value == _LEAST and isinstance(value, int):
        return f"CAST('{value}' AS BIGINT)"
    return repr(value)


def _translate(where: Filter, quote: Callable[[str], str], bind: Callable[[Value], str]) -> str:
    match where:
        case Eq(name, value):
            return f"{quote(name)} = {bind(value)}"
        case In(name, values):
            return f"{quote(name)} IN ({', '.join(map(bind, values))})"
        case Range():
            bounds = [
                f"{quote(where.field)} {SIGNS[key]} {bind(bound)}"
                for key, bound in where.bounds.items()
            ]
            return f"({' AND '.join(bounds)})"
        case IsNull(name):
            return f"{quote(name)} IS NULL"
        case And(parts) | Or(parts):
            word = " AND " if isinstance(where, And) else " OR "
            return f"({word.join(_translate(part, quote, bind) for part in parts)})"
        case Not(part):
            return f"(NOT {_translate(part, quote, bind)})"


#: Column types of SQLite and DuckDB, which agree on these names.
SQL_TYPES = {
    FieldType.INT: "BIGINT",
    FieldType.FLOAT: "DOUBLE",
    FieldType.STRING: "TEXT",
    FieldType.BOOL: "BOOLEAN",
}
