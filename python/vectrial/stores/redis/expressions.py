"""Metadata as attributes of vector sets, and filters as their expressions.

Facts about the language (Redis 8.2.3, `VSIM … FILTER`), read in its source and tested: an
expression that names a missing attribute is false as a whole; null equals null, and counts as 0 in
comparisons of order; booleans become the numbers 1 and 0; numbers are float64, and their exponents
have no sign; strings have no escapes, so some texts cannot be written. Rows are stored in a form
that fits: see `attributes`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

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
    coerce_values,
    for_float64,
)
from vectrial.model.schema import ARROW_TYPES, FieldType

_NEVER = "1 == 0"
#: Characters that no expression can hold, and their replacements, as in `vector_set.rs`.
_UNSAID = re.compile(r'["\\%\x00-\x1f]')
_SAID = re.compile(r"%([0-9A-F]{2})")
#: Letters that a number of an expression may have.
_LONGEST = 240


def attributes(values: Mapping[str, Value | None]) -> str:
    """The attributes of a row, as JSON.

    Raises:
        ValueError: a number is not finite, which JSON cannot express.
    """
    said = {k: _escape(v) if isinstance(v, str) else v for k, v in values.items()}
    return json.dumps(said, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def values(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    """The values of a row, from its attributes as the client reads them; {} when it has none."""
    read = attributes or {}
    return {k: _unescape(v) if isinstance(v, str) else v for k, v in read.items()}


def expression(where: Filter, names: Mapping[str, str], types: Mapping[str, FieldType]) -> str:
    """`where` as a filter expression.

    names: columns → attributes. types: types of the columns.
    """
    arrow = {name: ARROW_TYPES[kind] for name, kind in types.items()}
    return _condition(coerce_values(where, arrow), names, holds=True)


def _condition(where: Filter, names: Mapping[str, str], *, holds: bool) -> str:
    """The expression for `where` being true (`holds`), or false and not unknown."""
    match where:
        case Not(part):
            return _condition(part, names, holds=not holds)
        case And(parts) | Or(parts):
            word = " and " if isinstance(where, And) is holds else " or "
            return f"({word.join(_condition(part, names, holds=holds) for part in parts)})"
        case IsNull(column):
            # A bracket right behind it would be taken for a part of the word.
            return f".{names[column]} {'==' if holds else '!='} null "
        case Eq(column, value):
            return _require_present(names[column], f"{'==' if holds else '!='} {_literal(value)}")
        case In(column, values):
            name, word = names[column], " or " if holds else " and "
            sign = "==" if holds else "!="
            each = word.join(f".{name} {sign} {_literal(value)}" for value in values)
            return f"(.{name} != null and ({each}))"
        case Range():
            return _range(where, names[where.field], holds)


def _range(where: Range, name: str, holds: bool) -> str:
    each = []
    for key, bound in where.bounds.items():
        if math.isnan(bound):  # nothing is in order with it
            each.append(_NEVER if holds else "1 == 1")
        else:
            each.append(f".{name} {SIGNS[key if holds else OPPOSITES[key]]} {_literal(bound)}")
    return f"(.{name} != null and ({(' and ' if holds else ' or ').join(each)}))"


def _require_present(name: str, rest: str) -> str:
    return f"(.{name} != null and .{name} {rest})"


def _literal(value: Value) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, str):
        return f'"{_escape(value)}"'
    if isinstance(value, int):
        return str(for_float64(value))
    if math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    if "e-" not in (text := repr(value)):
        return text.replace("e+", "e")
    plain = np.format_float_positional(value, unique=True, trim="0")
    if len(plain) <= _LONGEST:
        return plain
    # A power of two divides without loss; as one number it may be too great.
    above, below = value.as_integer_ratio()
    half = below.bit_length() // 2
    return f"{above} / {1 << half} / {below >> half}"


def _escape(text: str) -> str:
    return _UNSAID.sub(lambda found: f"%{ord(found[0]):02X}", text)


def _unescape(text: str) -> str:
    return _SAID.sub(lambda found: chr(int(found[1], 16)), text)
