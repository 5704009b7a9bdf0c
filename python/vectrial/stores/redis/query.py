"""Schemas and filters in the words of Redis' query engine (dialect 2)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vectrial.model.capabilities import Params
from vectrial.model.filters import (
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
from vectrial.model.metric import Metric
from vectrial.model.schema import ARROW_TYPES, FieldType, Schema

METRICS = {Metric.L2: "L2", Metric.COSINE: "COSINE", Metric.IP: "IP"}
#: Splits a field into tags; no text that is stored has it, so that a text is one tag.
_SEPARATOR = "\x1f"
#: Characters that no tag can have (spaces at an end, which are trimmed, and control characters,
#: which no query can contain), and their replacements.
_UNSAID = re.compile(r"[%\x00-\x1f\x7f]|^ +| +\Z")
_SAID = re.compile(r"%([0-9A-F]{2})")
#: A text or truth value as a tag.
_Tag = Callable[[str | bool], str]
#: Whatever is not a letter, a digit, an underscore or beyond ASCII is escaped in a tag.
_ESCAPED = re.compile(r"([^\w\x80-\U0010ffff])")


def vector_field(schema: Schema, kind: str, params: Params) -> list[Any]:
    """The vector field in `FT.CREATE … SCHEMA`."""
    settable = params.model_dump()
    settings: list[Any] = [
        *("TYPE", "FLOAT32", "DIM", schema.dim),
        *("DISTANCE_METRIC", METRICS[schema.metric]),
    ]
    for name, word in (("m", "M"), ("ef_construction", "EF_CONSTRUCTION")):
        if name in settable:
            settings += [word, settable[name]]
    return ["vector", "VECTOR", kind.upper(), len(settings), *settings]


def fields(schema: Schema) -> list[Any]:
    """The metadata fields in `FT.CREATE … SCHEMA`."""
    out: list[Any] = []
    for at, field in enumerate(schema.fields):
        if field.type in (FieldType.INT, FieldType.FLOAT):
            out += [f"f{at}", "NUMERIC", "INDEXMISSING"]
        else:
            tag = ("TAG", "SEPARATOR", _SEPARATOR, "CASESENSITIVE", "INDEXEMPTY", "INDEXMISSING")
            out += [f"f{at}", *tag]
    return out


def to_hash_text(value: Value) -> str:
    """A value as it is stored in a hash; `query_engine.rs` writes the same text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return repr(value)
    return _UNSAID.sub(lambda match: "".join(f"%{ord(one):02X}" for one in match[0]), value)


def from_hash_text(text: bytes | None, kind: FieldType, *, own: bool = True) -> Value | None:
    """The value of a stored text; None if there is none. own: `to_hash_text` wrote it, not somebody
    else."""
    if text is None:
        return None
    match kind:
        case FieldType.INT:
            return int(text)
        case FieldType.FLOAT:
            return float(text)
        case FieldType.BOOL:
            return text == b"true"
        case FieldType.STRING:
            given = text.decode()
            return _SAID.sub(lambda match: chr(int(match[1], 16)), given) if own else given


def condition(
    where: Filter, names: Mapping[str, str], types: Mapping[str, FieldType], *, own: bool = True
) -> str:
    """The query that exactly the rows kept by `where` match.

    names: columns → fields. types: types of the columns. own: see `from_hash_text`.
    """
    arrow = {name: ARROW_TYPES[kind] for name, kind in types.items()}
    where = coerce_values(where, arrow)
    return _condition(where, names, to_hash_text if own else _trim, holds=True)


def _trim(value: str | bool) -> str:
    return value.strip() if isinstance(value, str) else to_hash_text(value)


def _condition(where: Filter, names: Mapping[str, str], tag: _Tag, *, holds: bool) -> str:
    match where:
        case Not(part):
            return _condition(part, names, tag, holds=not holds)
        case And(parts) | Or(parts):
            word = " " if isinstance(where, And) is holds else " | "
            return f"({word.join(_condition(part, names, tag, holds=holds) for part in parts)})"
        case IsNull(column):
            return f"({'' if holds else '-'}ismissing(@{names[column]}))"
        case Eq(column, value):
            return _clause(names[column], _equal(names[column], value, tag), holds)
        case In(column, values):
            name = names[column]
            each = " | ".join(_equal(name, value, tag) for value in values)
            return _clause(name, f"({each})", holds)
        case Range():
            name = names[where.field]
            return _clause(name, range_query(name, where), holds)


def _clause(name: str, inside: str, holds: bool) -> str:
    """A clause on a field; a row without the field matches neither the clause nor its negation."""
    return f"({inside})" if holds else f"(-ismissing(@{name}) -({inside}))"


def _equal(name: str, value: Value, tag: _Tag) -> str:
    if isinstance(value, str | bool):
        text = tag(value)
        escaped = _ESCAPED.sub(r"\\\1", text)
        return f"@{name}:{{{escaped}}}" if text else f'@{name}:{{""}}'
    return equal_number(name, value)


def equal_number(name: str, value: float | int) -> str:
    """The query for rows whose numeric field has this value."""
    text = _number(value)
    return f"@{name}:[{text} {text}]"


def _number(value: float | int) -> str:
    if isinstance(value, int):
        return repr(for_float64(value))
    # The first dialect of queries, which DocArray's are in, knows no exponents.
    text = repr(value)
    return np.format_float_positional(value, trim="-") if "e" in text else text


def range_query(name: str, where: Range) -> str:
    """The query for rows whose numeric field lies within the bounds."""
    said = {"gt": "[({} +inf]", "gte": "[{} +inf]", "lt": "[-inf ({}]", "lte": "[-inf {}]"}
    bounds = (f"@{name}:{said[key].format(_number(one))}" for key, one in where.bounds.items())
    return f"({' '.join(bounds)})"
